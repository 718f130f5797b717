"""Refuses callers that ask more than their share, and tells the others what is left of it."""

import hashlib
from collections.abc import Mapping
from math import ceil
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Scope, Send

from service.planning.access.costs import cost_of
from service.planning.access.rate import Rate, Standing, Throttle
from service.settings import Settings
from service.shells.rest.caller import Caller, place_of

_ADDRESS, _KEY = "address", "key"
_DIGEST_CHARACTERS: Final = 32


class RateLimits:
    """A rate per key, and one per address for who shows none; counted by this process, `throttles`."""

    def __init__(self, per_address: str | None, per_key: str | None) -> None:
        rates = {_ADDRESS: per_address, _KEY: per_key}
        self.throttles: Mapping[str, Throttle] = {
            policy: Throttle(Rate.of(rate)) for policy, rate in rates.items() if rate is not None
        }

    @classmethod
    def of(cls, settings: Settings) -> "RateLimits | None":
        """The limits of the settings, None where there are none."""
        if settings.rate_limit_per_address is None and settings.rate_limit_per_key is None:
            return None
        return cls(settings.rate_limit_per_address, settings.rate_limit_per_key)

    def charge(self, scope: Scope, caller: Caller | None) -> "Charge | None":
        """Charge the request to its key, else to its address; None where neither has a limit."""
        cost = cost_of(scope["method"], scope["path"].removeprefix(scope.get("root_path", "")))
        if cost == 0:
            return None
        key_id = None if caller is None else caller.key_id
        policy, who = (_ADDRESS, place_of(scope)) if key_id is None else (_KEY, key_id)
        throttle = self.throttles.get(policy)
        return None if throttle is None else Charge(policy, throttle, _digest(policy, who), cost)


class Charge:
    """What one request was charged, and the header fields that say so."""

    def __init__(self, policy: str, throttle: Throttle, who: str, cost: int) -> None:
        self.standing: Standing = throttle.charge(who, cost)
        self._policy = policy
        self._rate = throttle.rate

    @property
    def is_refused(self) -> bool:
        """Whether nothing is left for it."""
        return self.standing.wait_s > 0

    @property
    def detail(self) -> str:
        """Why it is refused, for the problem."""
        rate = f"{self._rate.quota} units in {self._rate.window_s} s"
        return f"This {self._policy} may ask {rate}: wait {self.retry_after_s} s. /docs says what costs more than one."

    @property
    def retry_after_s(self) -> int:
        """Whole seconds after which the same request passes."""
        return ceil(self.standing.wait_s)

    @property
    def headers(self) -> dict[str, str]:
        """Source: draft-ietf-httpapi-ratelimit-headers-10, 3 and 4; RFC 9110, 10.2.3 (Retry-After)."""
        left = f'"{self._policy}";r={self.standing.remaining};t={ceil(self.standing.reset_s)}'
        fields = {
            "RateLimit-Policy": f'"{self._policy}";q={self._rate.quota};w={self._rate.window_s}',
            "RateLimit": left,
        }
        return fields | ({"Retry-After": str(self.retry_after_s)} if self.is_refused else {})

    def told(self, send: Send) -> Send:
        """A `send` that adds the header fields to the response."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self.headers)
            await send(message)

        return send_with_headers


def _digest(policy: str, who: str) -> str:
    """What a caller is counted as, here and in the database; addresses themselves are kept nowhere."""
    return hashlib.sha256(f"{policy} {who}".encode()).hexdigest()[:_DIGEST_CHARACTERS]
