"""Which addresses and ports may be connected to: public unicast, what the admin lists, and where web servers are.

The tables follow the IANA registries of special-purpose addresses (RFC 6890 and its updates); they are written out,
because the answer must not depend on the version of Python.
"""

from __future__ import annotations

import socket
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


WEB_PORTS = frozenset({80, 443})

_FIRST_FREE_PORT = 1024
"""Below are the ports that the system gives to its own services."""

SERVICE_PORTS = frozenset(
    {
        # What browsers refuse above 1,023 (the Fetch standard, bad ports).
        *(1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697),
        10080,
        # Databases, caches and queues.
        *(1433, 1434, 1521, 2181, 3306, 4369, 5432, 5672, 5984, 6379, 6380, 6432, 7000, 7001, 7474, 7687, 8086, 8983),
        *(9042, 9092, 9160, 9200, 9300, 11211, 15672, 16379, 25672, 26257, 26379, 27017, 27018, 27019, 28015, 28017),
        # What runs, configures and watches machines.
        *(1080, 2375, 2376, 2377, 2379, 2380, 3128, 3260, 3389, 4646, 5601, 5900, 5901, 5985, 5986, 6443, 8200, 8300),
        *(8500, 8501, 8600, 9100, 10000, 10250, 10255, 10256),
    }
)
"""Ports above 1,023 at which there are services that trust all who reach them, and no websites. None above 32,767,
which systems give to any program that asks for some port.
"""


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


def port_problem(port: int) -> str | None:
    """Why no connection is made to `port`, whatever the address; None where it may be.

    Web servers are at 80, 443 and above 1,023. A server that connects to any port on behalf of its users tells them
    which are open, on machines that nobody but it may reach.
    """
    if port in WEB_PORTS:
        return None
    if port < _FIRST_FREE_PORT:
        return f"port {port} isn't asked: web servers are at 80, 443 and above {_FIRST_FREE_PORT - 1}"
    if port in SERVICE_PORTS:
        return f"port {port} isn't asked: it is one of databases and other services, not of web servers"
    return None


def is_own(address: Address) -> bool:
    """Whether `address` is one of this machine's interfaces: what it would be reached from is the address itself.

    Sends nothing. A public address that a router or a container's host translates isn't known here.
    """
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.connect((str(address), 9))
            return parse_address(asking.getsockname()[0]) == address
    except OSError:  # no way leads there
        return False


def may_connect(address: Address, allowed: Iterable[Network]) -> bool:
    """Whether `address` is public or stands in one of the `allowed` networks (see `is_listed`)."""
    return is_public(address) or is_listed(address, allowed)


def is_listed(address: Address, allowed: Iterable[Network]) -> bool:
    """Whether `address` stands in one of the `allowed` networks.

    A v4-mapped address counts as listed when the IPv4 address inside it is: the connection would end there.
    """
    forms: list[Address] = [address]
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        forms.append(address.ipv4_mapped)
    return any(form in network for network in allowed for form in forms if form.version == network.version)
