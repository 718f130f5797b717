"""One conversation with model hosts: every hop checked, one deadline, a credential for one origin."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import httpx2

from service.remote.deadline import Deadline
from service.remote.hosts import HostRules, Origin, origin, parse_url
from service.remote.network import CheckedNetwork, Resolve, resolve_host
from service.remote.problems import ModelHostUnavailable, UnreadableRemoteModel
from service.remote.retries import transport_failures
from service.remote.status import REDIRECTS, refuse_status
from service.remote.transport import CheckedTransport, trusted_certificates

MOST_REDIRECTS = 8
# encoded content has other byte ranges than the file
_HEADERS = {"user-agent": "rigfit", "accept": "*/*", "accept-encoding": "identity"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What fetching may do: whom it asks, for how long, how soon again after a failure, and what it trusts."""

    rules: HostRules
    duration_s: float = 60.0
    first_wait_s: float = 0.25
    resolve: Resolve = resolve_host
    tls: Callable[[], ssl.SSLContext] = trusted_certificates


class HostSession:
    """Sends requests as `access` allows; `authorization` goes to the origin it was opened for and nowhere else."""

    def __init__(self, access: Access, authorized: Origin | None = None, authorization: str | None = None) -> None:
        self.access = access
        self.deadline = Deadline.after(access.duration_s)
        self._authorized = authorized
        self._authorization = authorization
        self._client = httpx2.Client(
            transport=CheckedTransport(CheckedNetwork(access.rules, self.deadline, access.resolve), access.tls()),
            headers=_HEADERS,
            follow_redirects=False,
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def open(self, url: httpx2.URL, headers: dict[str, str]) -> httpx2.Response:
        """Ask for `url` once, following redirects; the body is still to be read, and to be closed.

        Raises ForbiddenHost for any hop that may not be asked, Transient where asking again may help, and the problem
        that a status means.
        """
        for _ in range(MOST_REDIRECTS + 1):
            answer = self._send(url, headers)
            if answer.status_code not in REDIRECTS:
                break
            answer.close()
            url = _target(answer)
        else:
            raise ModelHostUnavailable(f"{url.host} redirects more than {MOST_REDIRECTS} times.")
        try:
            refuse_status(answer, has_credential=self._authorization is not None)
            _refuse_encoding(answer)
        except BaseException:
            answer.close()
            raise
        return answer

    def _send(self, url: httpx2.URL, headers: dict[str, str]) -> httpx2.Response:
        self.access.rules.check(url)
        credential = {}
        if self._authorization is not None and origin(url) == self._authorized:
            credential = {"authorization": self._authorization}
        with transport_failures(url.host):
            return self._client.send(
                self._client.build_request("GET", url, headers={**headers, **credential}), stream=True
            )


def _target(answer: httpx2.Response) -> httpx2.URL:
    location = answer.headers.get("location")
    if not location:
        raise ModelHostUnavailable(f"{answer.url.host} redirects without saying where to.")
    return answer.url.join(parse_url(location)).copy_with(fragment=None)


def _refuse_encoding(answer: httpx2.Response) -> None:
    encoding = answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise UnreadableRemoteModel(
            f"{answer.url.host} sends {encoding[:40]} though it was asked not to, so byte ranges of the file cannot be "
            "read: download the file and import it, or upload its first megabytes."
        )
