"""Redirects are followed as far as the rules reach, and credentials stay with the origin they were given for."""

import logging
from collections.abc import Iterator

import httpx2
import pytest

from service.core.problems import PlanProblem
from service.gguf.reader import read_header
from service.remote.fetching import Fetched, fetch
from service.remote.hosts import host_rules
from service.remote.hubs import ModelHosts
from service.remote.problems import ForbiddenHost, ModelHostUnavailable, Unauthorized
from service.remote.references import FileAddress
from service.remote.session import Access
from tests.remote.files import MODEL
from tests.remote.model_host import Exchange, ModelHost, model_host, ranged, redirect
from tests.remote.test_hosts import REFUSED as OTHER_URLS

SECRET = "Bearer hf_verysecret"  # noqa: S105


@pytest.fixture
def other_host() -> Iterator[ModelHost]:
    """A second server of this machine, on another port: another origin."""
    with model_host() as host:
        host.answers["/storage"] = ranged(MODEL)
        yield host


def both(host: ModelHost, other: ModelHost) -> ModelHosts:
    """Access to both servers."""
    return ModelHosts(access=Access(rules=host_rules([], [host.url, other.url]), first_wait_s=0.01))


def read(hosts: ModelHosts, url: str, authorization: str | None = None) -> str:
    found = fetch(hosts, FileAddress(url=httpx2.URL(url)), authorization=authorization)
    assert isinstance(found, Fetched)
    return found.content.id


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed_with_the_range(host: ModelHost, other_host: ModelHost, status: int) -> None:
    """Hubs send callers to their storage."""
    host.answers["/x.gguf"] = redirect("/moved.gguf", status)
    host.answers["/moved.gguf"] = redirect(f"{other_host.url}/storage", status)
    assert read(both(host, other_host), f"{host.url}/x.gguf") == read_header(MODEL).id
    assert other_host.requests[0].headers["range"] == "bytes=0-1048575"


@pytest.mark.parametrize(
    "location", [url for url in OTHER_URLS.values() if url.isprintable() and url.isascii() and "//" in url[:9]]
)
def test_redirects_to_other_hosts_are_refused(host: ModelHost, location: str) -> None:
    """An allowed host cannot send the fetcher where it may not go by itself."""
    host.answers["/x.gguf"] = redirect(location)
    with pytest.raises(PlanProblem) as refused:
        read(host.hosts(public=["huggingface.co", "*.hf.co"]), f"{host.url}/x.gguf")
    assert refused.value.slug in ("forbidden-host", "invalid-request")
    assert len(host.requests) == 1


def test_a_redirect_to_another_port_of_this_machine_is_refused(host: ModelHost, other_host: ModelHost) -> None:
    """An origin is allowed with its port."""
    host.answers["/x.gguf"] = redirect(f"{other_host.url}/storage")
    with pytest.raises(ForbiddenHost):
        read(host.hosts(), f"{host.url}/x.gguf")
    assert other_host.requests == []


@pytest.mark.parametrize("location", ["/x.gguf", "/y.gguf"])
def test_a_circle_ends(host: ModelHost, location: str) -> None:
    """Eight redirects are enough for anybody."""
    host.answers["/x.gguf"] = redirect(location)
    host.answers["/y.gguf"] = redirect("/x.gguf")
    with pytest.raises(ModelHostUnavailable, match="redirects more than 8 times"):
        read(host.hosts(), f"{host.url}/x.gguf")
    assert len(host.requests) == 9


def test_a_redirect_to_nowhere(host: ModelHost) -> None:
    """A redirect without an address is a host that fails."""
    host.answers["/x.gguf"] = lambda exchange: exchange.answer(302)
    with pytest.raises(ModelHostUnavailable, match="without saying where to"):
        read(host.hosts(), f"{host.url}/x.gguf")


def test_a_credential_opens_a_gated_file(host: ModelHost) -> None:
    """It is sent as it was given, on each hop of its own origin."""

    def gated(exchange: Exchange) -> None:
        if exchange.headers.get("authorization") == SECRET:
            ranged(MODEL)(exchange)
        else:
            exchange.answer(401)

    host.answers |= {"/x.gguf": redirect("/gated.gguf"), "/gated.gguf": gated}
    assert read(host.hosts(), f"{host.url}/x.gguf", SECRET) == read_header(MODEL).id
    with pytest.raises(Unauthorized, match="Send an Authorization"):
        read(host.hosts(), f"{host.url}/x.gguf")
    with pytest.raises(Unauthorized, match="does not open it"):
        read(host.hosts(), f"{host.url}/x.gguf", "Bearer other")


def test_a_credential_never_leaves_its_origin(host: ModelHost, other_host: ModelHost) -> None:
    """Storage behind a redirect does not see it, also on the ranges and attempts after the first."""
    host.answers["/x.gguf"] = redirect(f"{other_host.url}/storage")
    read(both(host, other_host), f"{host.url}/x.gguf", SECRET)
    assert [request.headers.get("authorization") for request in host.requests] == [SECRET]
    assert other_host.requests
    assert all("authorization" not in request.headers for request in other_host.requests)


def test_a_credential_is_not_told(host: ModelHost, caplog: pytest.LogCaptureFixture) -> None:
    """No log, at any level, and no problem holds it, nor the signature of a storage address."""
    caplog.set_level(logging.DEBUG)
    host.answers["/x.gguf"] = redirect("/storage?X-Signature=signed")
    host.answers["/storage"] = lambda exchange: exchange.answer(503)
    with pytest.raises(ModelHostUnavailable) as refused:
        read(host.hosts(), f"{host.url}/x.gguf", SECRET)
    told = caplog.text + refused.value.detail + "".join(str(vars(record)) for record in caplog.records)
    assert caplog.records
    assert "hf_verysecret" not in told
    assert "signed" not in told
