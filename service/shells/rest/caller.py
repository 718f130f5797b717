"""Who sends a request: from the key that was shown, or from where it comes."""

from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

CALLER: Final = "rigfit.caller"
"""Key of the ASGI scope under which the gate leaves the caller."""
# an end user has a whole /64 of addresses. Source: RFC 6177, 2
_OWN_PREFIX: Final = 64
_FORWARDING: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks. name: the key's, or "anonymous"; key_id: None without a key."""

    name: str
    key_id: str | None = None


ANONYMOUS: Final = Caller(name="anonymous")


def is_of_this_machine(scope: Scope) -> bool:
    """Whether a request comes from this machine itself, sent by a person or program and not by some site's page.

    Its peer is a loopback address, nothing forwarded it, and it names this machine: a page of another origin, and a
    name that was made to point here, are told apart by Origin and Host.
    Source: Fetch standard, 3.2 (Origin is sent with every POST of a page); RFC 1122, 3.2.1.3 (loopback).
    """
    client, headers = scope.get("client"), Headers(scope=scope)
    if client is None or not _is_loopback(client[0]) or any(name in headers for name in _FORWARDING):
        return False
    host = headers.get("host", "")
    if not _is_loopback(urlsplit(f"//{host}").hostname or ""):
        return False
    origin = headers.get("origin")
    return origin is None or origin == f"{scope['scheme']}://{host}"


def who_of(scope: Scope) -> str:
    """Who asks, as far as two callers can be told apart: by his key, else by his address."""
    caller: Caller | None = scope.get(CALLER)
    if caller is not None and caller.key_id is not None:
        return f"key {caller.key_id}"
    return f"address {place_of(scope)}"


def place_of(scope: Scope) -> str:
    """The address that a request comes from, as far as it tells one household from another."""
    client = scope.get("client")
    if client is None:
        return "local socket"
    try:
        address = ip_address(client[0])
    except ValueError:
        return str(client[0])
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(int(address) >> (128 - _OWN_PREFIX))
    return str(address)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
