"""The IP addresses and ports to which connections are allowed."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from microsub.fetch.network import SERVICE_PORTS, is_own, is_public, may_connect, parse_address, port_problem

FORBIDDEN = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1",
    "127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1",
    "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.9", "224.0.0.1", "239.255.255.255",
    "240.0.0.1", "255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:8.8.8.8",
    "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2001:10::1",
    "2002:7f00:1::1", "2002:808:808::1", "3fff::1", "4000::1", "5f00::1", "fc00::1", "fd12:3456::1", "fe80::1",
    "fe80::1%eth0", "fec0::1", "ff02::1", "ff0e::1",
]  # fmt: skip

PUBLIC = [
    "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "126.0.0.1", "128.0.0.1", "172.15.0.1", "172.32.0.1",
    "192.0.1.1", "192.167.0.1", "198.17.0.1", "198.20.0.1", "223.255.255.255", "2001:4860:4860::8888",
    "2606:4700::1111", "2a00:1450::1", "2003::1",
]  # fmt: skip


@pytest.mark.parametrize("text", FORBIDDEN)
def test_special_addresses_are_refused(text: str) -> None:
    """Private, loopback, link-local, shared, multicast, reserved, and IPv6 forms that carry IPv4."""
    address = parse_address(text)
    assert address is not None
    assert not is_public(address)
    assert not may_connect(address, ())


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_pass(text: str) -> None:
    """The addresses next to the special blocks are public."""
    address = parse_address(text)
    assert address is not None
    assert is_public(address)


def test_listed_networks_pass() -> None:
    """Networks that the admin lists can be reached, also in their IPv4-mapped form, and no others."""
    allowed = (ip_network("10.1.0.0/16"), ip_network("fd00:1::/32"))
    for text, verdict in {
        "10.1.2.3": True,
        "::ffff:10.1.2.3": True,
        "10.2.0.1": False,
        "::ffff:10.2.0.1": False,
        "fd00:1::5": True,
        "fd00:2::5": False,
    }.items():
        address = parse_address(text)
        assert address is not None
        assert may_connect(address, allowed) is verdict, text


def test_ports_of_web_servers_are_allowed() -> None:
    """Allowed are 80, 443 and ports above 1,023 that no well-known service uses; the reason names the port."""
    for port in (80, 443, 1024, 3000, 5000, 8000, 8080, 8081, 8443, 9000, 32768, 65535):
        assert port_problem(port) is None
    for port in (0, 1, 22, 25, 81, 110, 445, 993, 1023):
        assert str(port_problem(port)).startswith(f"port {port} can't be used: expected 80, 443")
    for port in (3306, 5432, 6379, 9200, 11211, 27017, 6667, 2375):
        assert str(port_problem(port)).startswith(f"port {port} can't be used: it belongs to a database")
    assert max(SERVICE_PORTS) < 32768, "systems give the ports above to any program"


def test_own_addresses_are_known_without_asking_anybody() -> None:
    """The addresses of this machine's interfaces are its own, without a DNS request."""
    assert is_own(ip_address("127.0.0.1"))
    for other in ("192.0.2.1", "8.8.8.8", "2001:db8::1"):
        assert not is_own(ip_address(other))
