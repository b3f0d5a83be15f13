"""Which addresses may be connected to: public unicast, and what the admin lists.

The tables follow the IANA registries of special-purpose addresses (RFC 6890 and its updates); they are written out,
because the answer must not depend on the version of Python.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from microsub.fetch.values import Network

Address = IPv4Address | IPv6Address

_SPECIAL_V4 = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local, and the metadata services of clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
_GLOBAL_V6 = ip_network("2000::/3")
"""All of IPv6 that is given out to the public internet; everything else is special, NAT64 and v4-mapped included."""

_SPECIAL_V6 = tuple(
    ip_network(text)
    for text in (
        "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarks
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: carries any IPv4 address
        "2620:4f:8000::/48",
        "3fff::/20",  # documentation
    )
)


def parse_address(text: str) -> Address | None:
    """`text` as an address, without a zone or brackets; None when it is a name."""
    try:
        return ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None


def is_public(address: Address) -> bool:
    """Whether anyone on the internet would reach the same machine by `address`."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_V4)
    return address in _GLOBAL_V6 and not any(address in network for network in _SPECIAL_V6)


def may_connect(address: Address, allowed: Iterable[Network]) -> bool:
    """Whether `address` is public or stands in one of the `allowed` networks.

    A v4-mapped address counts as listed when the IPv4 address inside it is: the connection would end there.
    """
    if is_public(address):
        return True
    forms: list[Address] = [address]
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        forms.append(address.ipv4_mapped)
    return any(form in network for network in allowed for form in forms if form.version == network.version)
