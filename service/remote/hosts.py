"""Which hosts models are fetched from."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import httpx2

from service.core.problems import InvalidRequest
from service.remote.problems import ForbiddenHost

Origin: TypeAlias = tuple[str, str, int]

_DEFAULT_PORTS = {"http": 80, "https": 443}
_ANY_BELOW = "*."


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRules:
    """Hosts that may be asked.

    public: names, or "*.name" for every name below one; https on its usual port, at public addresses only.
    private: whole origins of the operator's own network, reached as they stand, wherever they are.
    """

    public: tuple[str, ...] = ()
    private: frozenset[Origin] = frozenset()

    def check(self, url: httpx2.URL) -> None:
        """Raise ForbiddenHost unless `url` may be asked, InvalidRequest where it carries a credential."""
        if origin(url) not in self.private:
            self._check_public(url)
        if url.userinfo:
            raise InvalidRequest("Credentials do not belong into an address: send them as Authorization.")

    def _check_public(self, url: httpx2.URL) -> None:
        if url.scheme != "https":
            raise ForbiddenHost(f"Models are fetched by https only, not by {url.scheme or 'no scheme'}.")
        if not any(_matches(pattern, url.host) for pattern in self.public):
            known = ", ".join(self.public) or "none"
            raise ForbiddenHost(
                f"Models are not fetched from {url.host or 'no host'}; hosts that may be asked: {known}."
            )
        if url.port is not None:
            raise ForbiddenHost(f"Models are not fetched from port {url.port} of {url.host}.")

    def is_private(self, host: str, port: int) -> bool:
        """Whether a connection belongs to one of the operator's own origins."""
        return any(origin[1:] == (host, port) for origin in self.private)


def host_rules(public: Iterable[str], private: Iterable[str]) -> HostRules:
    """Read rules as settings state them; raises ValueError for an origin that is none."""
    return HostRules(
        public=tuple(name.strip().lower() for name in public),
        private=frozenset(_origin_of_text(text) for text in private),
    )


def origin(url: httpx2.URL) -> Origin:
    """Scheme, host and port of an address."""
    return url.scheme, url.host, url.port or _DEFAULT_PORTS.get(url.scheme, 0)


def parse_url(text: str) -> httpx2.URL:
    """Read an address; raises InvalidRequest where it is none."""
    try:
        return httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError):
        raise InvalidRequest(f"{text[:200]!r} is no address.") from None


def _origin_of_text(text: str) -> Origin:
    url = httpx2.URL(text.strip())
    if url.scheme not in _DEFAULT_PORTS or not url.host or url.path not in ("", "/") or url.userinfo or url.query:
        raise ValueError(f"{text!r} is no origin such as http://models.internal:8080")
    return origin(url)


def _matches(pattern: str, host: str) -> bool:
    if pattern.startswith(_ANY_BELOW):
        return host.endswith(pattern[1:]) and len(host) > len(pattern) - 1
    return host == pattern
