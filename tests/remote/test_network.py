"""Names that lead, or come to lead, to other networks are not followed."""

import socket
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.remote.fetching import fetch
from service.remote.hosts import host_rules
from service.remote.hubs import ModelHosts
from service.remote.problems import ForbiddenHost, ModelHostUnavailable
from service.remote.references import FileAddress
from service.remote.session import Access
from tests.remote.files import MODEL
from tests.remote.model_host import ModelHost, model_host, ranged
from tests.remote.test_addresses import REFUSED as OTHER_ADDRESSES

TLS = Path(__file__).parent / "tls"


def public_name(*answers: Sequence[str]) -> tuple[ModelHosts, list[tuple[str, int]]]:
    """Access to https://models.test alone, whose name server gives these answers in turn; and what it was asked."""
    asked: list[tuple[str, int]] = []

    def resolve(host: str, port: int) -> Sequence[str]:
        asked.append((host, port))
        return answers[min(len(asked), len(answers)) - 1]

    access = Access(rules=host_rules(["models.test"], []), duration_s=2.0, first_wait_s=0.01, resolve=resolve)
    return ModelHosts(access=access), asked


def ask(hosts: ModelHosts, url: str = "https://models.test/x.gguf") -> None:
    fetch(hosts, FileAddress(url=httpx2.URL(url)))


@pytest.mark.parametrize("address", OTHER_ADDRESSES.values(), ids=OTHER_ADDRESSES.keys())
def test_a_name_of_another_network_is_not_followed(address: str) -> None:
    """Whatever address of another network an allowed name has, it is refused before any connection."""
    hosts, asked = public_name([address])
    with pytest.raises(ForbiddenHost, match="outside the public internet"):
        ask(hosts)
    assert asked == [("models.test", 443)]


def test_one_private_address_among_public_ones_is_enough() -> None:
    """A name that mixes both is not followed to either."""
    hosts, _ = public_name(["1.1.1.1", "127.0.0.1"])
    with pytest.raises(ForbiddenHost):
        ask(hosts)


def test_nothing_connects_to_a_refused_address() -> None:
    """A listener on this machine, which the name leads to, never hears of it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(0.2)
        hosts, _ = public_name(["127.0.0.1"])
        with pytest.raises(ForbiddenHost):
            ask(hosts)
        with pytest.raises(TimeoutError):
            listener.accept()


def test_a_name_that_changes_its_mind_is_asked_once_per_connection(host: ModelHost) -> None:
    """The address that was checked is the one that is used: there is no second look at the name."""
    port = int(host.url.rpartition(":")[2])
    answers = iter([["127.0.0.1"]])
    access = Access(rules=host_rules([], [f"http://models.test:{port}"]), resolve=lambda *_: next(answers))
    host.answers["/x.gguf"] = ranged(MODEL)
    ask(ModelHosts(access=access), f"http://models.test:{port}/x.gguf")
    assert next(answers, None) is None
    assert host.requests[0].headers["host"] == f"models.test:{port}"


def test_a_name_that_turns_private_later_is_refused_later(host: ModelHost) -> None:
    """A second connection is checked as the first was."""
    port = int(host.url.rpartition(":")[2])
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])
    rules = host_rules(["huggingface.co"], [host.url])
    access = Access(rules=rules, resolve=lambda *_: next(answers), first_wait_s=0.01)
    host.answers["/x.gguf"] = lambda exchange: exchange.answer(302, headers={"location": "https://huggingface.co/x"})
    with pytest.raises(ForbiddenHost, match=r"huggingface\.co leads to an address outside"):
        ask(ModelHosts(access=access), f"http://127.0.0.1:{port}/x.gguf")


def test_a_name_without_address_is_unavailable() -> None:
    """A name that nobody knows is a host that cannot be reached."""

    def resolve(_host: str, _port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    access = Access(rules=host_rules(["models.test"], []), first_wait_s=0.01, resolve=resolve)
    with pytest.raises(ModelHostUnavailable, match=r"models\.test has no address: Name or service not known"):
        ask(ModelHosts(access=access))


def test_the_next_address_is_tried_where_one_does_not_answer(host: ModelHost) -> None:
    """Of several addresses the first that answers serves."""
    port = int(host.url.rpartition(":")[2])
    access = Access(rules=host_rules([], [f"http://models.test:{port}"]), resolve=lambda *_: ["127.0.0.2", "127.0.0.1"])
    host.answers["/x.gguf"] = ranged(MODEL)
    ask(ModelHosts(access=access), f"http://models.test:{port}/x.gguf")
    assert len(host.requests) == 1


@pytest.fixture
def tls_host() -> Iterator[ModelHost]:
    """A model host with a certificate for the name models.test."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    with model_host(context) as host:
        host.answers["/x.gguf"] = ranged(MODEL)
        yield host


def named(url: str, **access: Any) -> ModelHosts:
    """Access to one origin of this machine under a name of its own."""
    rules = host_rules([], [url])
    return ModelHosts(access=Access(rules=rules, first_wait_s=0.01, resolve=lambda *_: ["127.0.0.1"], **access))


def trust_the_test() -> ssl.SSLContext:
    """Trust the certificate of this folder alone."""
    return ssl.create_default_context(cafile=TLS / "certificate.pem")


def test_tls_verifies_the_name_and_not_the_address(tls_host: ModelHost) -> None:
    """A connection to a checked address still needs a certificate of the name that was asked for."""
    ask(named(tls_host.url, tls=trust_the_test), f"{tls_host.url}/x.gguf")
    assert len(tls_host.requests) == 1
    other = tls_host.url.replace("models.test", "other.test")
    with pytest.raises(ModelHostUnavailable, match="certificate"):
        ask(named(other, tls=trust_the_test), f"{other}/x.gguf")


def test_tls_needs_a_certificate_that_is_trusted(tls_host: ModelHost) -> None:
    """A certificate that signs itself opens nothing."""
    with pytest.raises(ModelHostUnavailable, match="certificate"):
        ask(named(tls_host.url), f"{tls_host.url}/x.gguf")
    assert tls_host.requests == []
