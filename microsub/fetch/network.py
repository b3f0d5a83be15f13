"""Addresses and ports that may be connected to: public ones, and what the admin lists.

A name is resolved once per connection, here, and the socket is opened to the resulting number (`fetch.transport`).
Nothing behind this module looks the name up again, so an answer that changes in between (DNS rebinding) changes
nothing. The tables follow the IANA registries of special-purpose addresses (RFC 6890 and its updates); they are written
out, because the answer must not depend on the version of Python.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from weakref import WeakKeyDictionary

from microsub.fetch.values import HopError, Network, Reason
from microsub.kit.urls import asked_host
from microsub.logs import LibraryLogger

log = LibraryLogger(__name__)

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
        return f"port {port} can't be used: expected 80, 443 or one above {_FIRST_FREE_PORT - 1}"
    if port in SERVICE_PORTS:
        return f"port {port} can't be used: it belongs to a database or another service, not to a web server"
    return None


def is_own(address: Address) -> bool:
    """Whether `address` is an interface's: it would be reached from itself.

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


# --- names --------------------------------------------------------------------------------------------------------

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Name and port to addresses as text, best first. Raises OSError when there are none. The seam for tests."""

_MOST_ATTEMPTS = 4
_WAIT_FOR_NAMES = 10.0
_NOTHING_LEFT = frozenset({errno.EMFILE, errno.ENFILE})


def out_of_descriptors(error: OSError) -> bool:
    """Whether an error comes from a lack of file descriptors, here or on the machine.

    A look-up of a name may end in any other error for that, so then it is tried.
    """
    if not isinstance(error, socket.gaierror):
        return error.errno in _NOTHING_LEFT
    try:
        socket.socket().close()
    except OSError as trial:
        return trial.errno in _NOTHING_LEFT
    return False


def nothing_left() -> HopError:
    """The failure of a request for which there was no file descriptor."""
    return HopError("local", "this server has no file descriptor left to ask anybody: try again in some seconds")


class ThreadedResolver:
    """The system's own look-up, in daemon threads of its own.

    A name server that doesn't answer holds a thread for many seconds. These threads are none of the shared pool's, at
    most `width` at a time for each event loop, and they don't hold up the end of the process.
    """

    def __init__(self, width: int = 256) -> None:
        self._width = width
        self._free: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._lock = threading.Lock()

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Addresses of `host`, in the system's order of preference."""
        loop = asyncio.get_running_loop()
        free = self._turns(loop)
        await free.acquire()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def finish(addresses: list[str], error: Exception | None) -> None:
            free.release()
            if answer.cancelled():
                return
            if error is None:
                answer.set_result(addresses)
            else:
                answer.set_exception(error)

        def look_up() -> None:
            addresses: list[str] = []
            error: Exception | None = None
            try:
                found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
            except (OSError, UnicodeError) as problem:
                error = problem
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(finish, addresses, error)

        try:
            threading.Thread(target=look_up, name=f"resolve {host}"[:60], daemon=True).start()
        except RuntimeError as error:
            free.release()
            raise OSError(str(error)) from None  # the machine has no thread left for it
        return await answer

    def _turns(self, loop: asyncio.AbstractEventLoop) -> asyncio.Semaphore:
        """Those of one event loop: a semaphore can't be shared among several."""
        with self._lock:
            if (found := self._free.get(loop)) is None:
                found = self._free[loop] = asyncio.Semaphore(self._width)
            return found


_ASKER: ContextVar[str] = ContextVar("asker", default="")


@contextmanager
def asking_for(asker: str) -> Iterator[None]:
    """Count what is asked in the block for `asker`: `user <name>` or `network <address>`.

    Empty, as without such a block, is the server's own doing, as polls are. A context variable, because whole layers
    lie between where a request comes in and where names are looked up, and none of them decides anything by it.
    """
    token = _ASKER.set(asker)
    try:
        yield
    finally:
        _ASKER.reset(token)


def who_asks() -> str:
    """For whom work is done here: see `asking_for`."""
    return _ASKER.get()


MOST_LOOK_UPS = 16
"""Names that are looked up at the same time for one asker. A name server that doesn't answer holds a thread for 20
seconds and more, whatever is done about it, and there are 256.
"""

LOOK_UP_SECONDS = 10.0
"""For the look-up of one name."""


IsOurs = Callable[[str], Awaitable[bool]]
"""Whether a host, in comparison form, belongs to this server's people: it is read though it is on this machine."""


async def nobodys(_host: str) -> bool:
    """Of no host is anything known."""
    return False


class Guard:
    """Turns host names into addresses that may be connected to.

    The ports of services are refused everywhere (`port_problem`). What holds for public addresses beside that, doesn't
    hold in the networks that the admin lists: this machine's own ones are asked for the hosts that `is_ours` alone, at
    80 and 443, since what else listens there may be meant for the machine.
    """

    def __init__(self, resolver: Resolver, allowed: tuple[Network, ...], is_ours: IsOurs = nobodys) -> None:
        self._resolver = resolver
        self._allowed = allowed
        self._is_ours = is_ours
        self._looked_up: Counter[str] = Counter()

    async def addresses(
        self, host: str, port: int, *, all_must_pass: bool = False, inside: bool = False, web_ports: bool = False
    ) -> list[Address]:
        """The permitted addresses of `host`, a few at most. Raises HopError (`dns`, `private`, `blocked`).

        `all_must_pass` refuses a name as soon as one of its addresses is forbidden: for a proxy, which will choose
        among them itself. `inside` permits only what the admin lists and isn't public, for what nobody else on the way
        may read. `web_ports` permits 80 and 443 alone, but for networks that the admin lists.
        """
        if (problem := port_problem(port)) is not None:
            raise HopError("blocked", f"{host}: {problem}")
        literal = parse_address(host)
        found = [literal] if literal is not None else await self._look_up(host, port)
        good = [address for address in found if may_connect(address, self._allowed)]
        if inside and any(map(is_public, good)):
            raise HopError("blocked", f"this isn't sent to {host} in the clear: https is needed")
        if not good or (all_must_pass and len(good) < len(found)):
            bad = next(address for address in found if address not in good)
            log.info("a forbidden address was not connected to", host=host, address=str(bad))
            raise _no_address("private" if literal is None else "blocked", host)
        strict = [address for address in good[:_MOST_ATTEMPTS] if not is_listed(address, self._allowed)]
        if strict and web_ports and port not in WEB_PORTS:
            raise HopError("blocked", f"{host}: port {port} can't be used by strangers: expected 80 or 443")
        if any(map(is_own, strict)) and not (port in WEB_PORTS and await self._is_ours(asked_host(host))):
            log.info("this machine's own address was not connected to", host=host, port=port)
            raise HopError(
                "blocked",
                f"{host} is on this server's own machine, where pages of its users alone are read; any other page "
                "or port needs its address in MICROSUB_ALLOW_PRIVATE_NETWORKS",
            )
        return good[:_MOST_ATTEMPTS]

    async def _look_up(self, host: str, port: int) -> list[Address]:
        """The addresses of a name, within the share of who asks. Raises HopError (`dns`, `busy`).

        A look-up that is given up goes on in its thread, so it counts for its asker until that ends.
        """
        asker = who_asks()
        if asker and self._looked_up[asker] >= MOST_LOOK_UPS:
            raise HopError(
                "busy", f"{MOST_LOOK_UPS} names are being looked up for you: try again in some seconds", _WAIT_FOR_NAMES
            )
        looking = asyncio.ensure_future(self._resolver(host, port))
        if asker:
            self._looked_up[asker] += 1
            looking.add_done_callback(lambda _: self._leave(asker))
        try:
            await asyncio.wait([looking], timeout=LOOK_UP_SECONDS)
            if not looking.done():
                raise HopError("dns", f"the host name {host} can't be resolved: no answer in {LOOK_UP_SECONDS:g} s")
            texts = looking.result()
        except (OSError, UnicodeError) as error:
            if isinstance(error, OSError) and out_of_descriptors(error):
                raise nothing_left() from None
            if isinstance(error, OSError) and error.errno == socket.EAI_AGAIN:
                raise HopError("dns", f"the host name {host} can't be resolved: {error.strerror}") from None
            raise _no_address("dns", host) from None
        finally:
            looking.add_done_callback(_seen)
        found = [address for address in map(parse_address, texts) if address is not None]
        if not found:
            raise _no_address("dns", host)
        return found

    def _leave(self, asker: str) -> None:
        self._looked_up[asker] -= 1
        if not self._looked_up[asker]:
            del self._looked_up[asker]


def _no_address(reason: Reason, host: str) -> HopError:
    """The same words for a name that nobody knows and one that leads inside.

    They are shown to the user who gave the URL, who must not learn which names there are.
    """
    found = "is no public address" if parse_address(host) is not None else "isn't known, or has no public address"
    listed = "MICROSUB_ALLOW_PRIVATE_NETWORKS (in a program: FetchSettings.allow_private_networks)"
    return HopError(reason, f"{host} {found}; {listed} can allow a private one")


def _seen(looking: asyncio.Future[Sequence[str]]) -> None:
    """Take note of how a look-up ended that nobody waits for any more."""
    if not looking.cancelled():
        looking.exception()
