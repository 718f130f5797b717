"""Which IP addresses belong to the public internet."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

# 6to4 relays (RFC 7526): withdrawn, and routed to whoever still answers
_RELAYS_6TO4 = IPv4Network("192.88.99.0/24")
_GLOBAL_UNICAST = IPv6Network("2000::/3")
# IPv4 behind a translator (RFC 6052): the network's own resolver makes these from public IPv4 addresses
_NAT64 = IPv6Network("64:ff9b::/96")
# addresses that hold an IPv4 address which somebody else's relay would reach: Teredo (RFC 4380), 6to4 (RFC 3056)
_TUNNELS = (IPv6Network("2001::/32"), IPv6Network("2002::/16"))


def is_public_address(text: str) -> bool:
    """Whether an address, as a resolver gives it, is one that anybody on the internet could reach.

    False for loopback, private, shared, link-local, multicast, reserved and documentation networks, for addresses
    with a zone, for IPv4 mapped or tunnelled in IPv6, and for what is no address.

    Source: IANA special-purpose address registries, as `ipaddress` has them, and the RFCs named above.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv4Address):
        return _is_public_v4(address)
    return _is_public_v6(address)


def _is_public_v4(address: IPv4Address) -> bool:
    return address.is_global and not address.is_multicast and address not in _RELAYS_6TO4


def _is_public_v6(address: IPv6Address) -> bool:
    if address.scope_id is not None:
        return False
    if address in _NAT64:
        return _is_public_v4(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in _GLOBAL_UNICAST and address.is_global and not any(address in tunnel for tunnel in _TUNNELS)
