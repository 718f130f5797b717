"""Only addresses of the public internet pass."""

import pytest

from service.remote.addresses import is_public_address

REFUSED = {
    "loopback": "127.0.0.1",
    "loopback elsewhere": "127.255.255.254",
    "this host": "0.0.0.0",  # noqa: S104
    "this network": "0.1.2.3",
    "private 10": "10.0.0.1",
    "private 172": "172.16.0.1",
    "private 172 end": "172.31.255.255",
    "private 192": "192.168.1.1",
    "shared (carrier NAT)": "100.64.0.1",
    "link-local, cloud metadata": "169.254.169.254",
    "protocol assignments": "192.0.0.1",
    "documentation 1": "192.0.2.1",
    "documentation 2": "198.51.100.1",
    "documentation 3": "203.0.113.1",
    "benchmarks": "198.18.0.1",
    "6to4 relay": "192.88.99.1",
    "multicast": "224.0.0.1",
    "multicast of an organisation": "239.1.2.3",
    "reserved": "240.0.0.1",
    "broadcast": "255.255.255.255",
    "v6 loopback": "::1",
    "v6 unspecified": "::",
    "v6 mapped loopback": "::ffff:127.0.0.1",
    "v6 mapped private": "::ffff:10.0.0.1",
    "v6 mapped public": "::ffff:8.8.8.8",
    "v6 compatible": "::127.0.0.1",
    "v6 NAT64 of loopback": "64:ff9b::7f00:1",
    "v6 NAT64 of metadata": "64:ff9b::a9fe:a9fe",
    "v6 local NAT64": "64:ff9b:1::7f00:1",
    "v6 6to4 of loopback": "2002:7f00:1::",
    "v6 6to4 of private": "2002:a00:1::1",
    "v6 Teredo": "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "v6 link-local": "fe80::1",
    "v6 link-local with zone": "fe80::1%eth0",
    "v6 public with zone": "2606:4700::1%1",
    "v6 unique local": "fd00::1",
    "v6 cloud metadata": "fd00:ec2::254",
    "v6 site-local": "fec0::1",
    "v6 multicast": "ff02::1",
    "v6 documentation": "2001:db8::1",
    "v6 discard": "100::1",
    "no address": "localhost",
    "short form": "127.1",
    "hexadecimal": "0x7f000001",
    "decimal": "2130706433",
    "octal": "0177.0.0.1",
    "nothing": "",
}
PUBLIC = ["1.1.1.1", "8.8.8.8", "172.15.0.1", "172.32.0.1", "100.128.0.1", "2606:4700:4700::1111", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", REFUSED.values(), ids=REFUSED.keys())
def test_other_addresses_are_refused(address: str) -> None:
    """What is not everybody's to reach, in any spelling, is no address for models."""
    assert not is_public_address(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_pass(address: str) -> None:
    """Neighbours of private networks are public."""
    assert is_public_address(address)
