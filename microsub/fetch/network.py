"""Addresses and ports that connections are allowed to: public ones, and those the admin lists.

A name is resolved once per connection, here, and the socket is opened to the resulting address (`fetch.transport`).
Nothing resolves the name again later, so an answer that changes in between (DNS rebinding) has no effect. The tables
follow the IANA registries of special-purpose addresses (RFC 6890 and its updates); they are spelled out, because the
result must not depend on the Python version.
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

from microsub.base.errors import private_hint
from microsub.base.logs import LibraryLogger
from microsub.base.urls import asked_host
from microsub.fetch.values import HopError, Network, Reason

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
"""The part of IPv6 that is assigned to the public internet; the rest is special, including NAT64 and v4-mapped."""

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
"""Lower ports belong to the system's own services."""

SERVICE_PORTS = frozenset(
    {
        # Refused by browsers above 1,023 (the Fetch standard, bad ports).
        *(1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697),
        10080,
        # Databases, caches and queues.
        *(1433, 1434, 1521, 2181, 3306, 4369, 5432, 5672, 5984, 6379, 6380, 6432, 7000, 7001, 7474, 7687, 8086, 8983),
        *(9042, 9092, 9160, 9200, 9300, 11211, 15672, 16379, 25672, 26257, 26379, 27017, 27018, 27019, 28015, 28017),
        # Ports of services that run, configure or monitor machines.
        *(1080, 2375, 2376, 2377, 2379, 2380, 3128, 3260, 3389, 4646, 5601, 5900, 5901, 5985, 5986, 6443, 8200, 8300),
        *(8500, 8501, 8600, 9100, 10000, 10250, 10255, 10256),
    }
)
"""Ports above 1,023 of services that trust everybody who reaches them, and that no website uses. None is above 32,767,
because systems assign those to any program that asks for a port.
"""


def parse_address(text: str) -> Address | None:
    """Parse an address, without a zone or brackets; None if it is a name."""
    try:
        return ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None


def is_public(address: Address) -> bool:
    """Whether `address` reaches the same machine from anywhere on the internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_V4)
    return address in _GLOBAL_V6 and not any(address in network for network in _SPECIAL_V6)


def port_problem(port: int) -> str | None:
    """The reason why connections to `port` are refused at any address; None if they aren't.

    Web servers use 80, 443 and ports above 1,023. A server that connects to any port on behalf of its users would show
    them which ports are open, on machines that only it can reach.
    """
    if port in WEB_PORTS:
        return None
    if port < _FIRST_FREE_PORT:
        return f"port {port} can't be used: expected 80, 443 or a port above {_FIRST_FREE_PORT - 1}"
    if port in SERVICE_PORTS:
        return f"port {port} can't be used: it belongs to a database or another service, not to a web server"
    return None


def is_own(address: Address) -> bool:
    """Whether `address` belongs to an interface of this machine.

    Sends nothing. A public address that a router or a container's host translates isn't recognised.
    """
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.connect((str(address), 9))
            return parse_address(asking.getsockname()[0]) == address
    except OSError:  # no route to it
        return False


def may_connect(address: Address, allowed: Iterable[Network]) -> bool:
    """Whether `address` is public or in one of the `allowed` networks (see `is_listed`)."""
    return is_public(address) or is_listed(address, allowed)


def is_listed(address: Address, allowed: Iterable[Network]) -> bool:
    """Whether `address` is in one of the `allowed` networks.

    A v4-mapped address is listed if the IPv4 address in it is: the connection would go there.
    """
    forms: list[Address] = [address]
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        forms.append(address.ipv4_mapped)
    return any(form in network for network in allowed for form in forms if form.version == network.version)


# --- names --------------------------------------------------------------------------------------------------------

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves a name and port to addresses as text, best first. Raises OSError if there are none. Tests replace it."""

_MOST_ATTEMPTS = 4
_WAIT_FOR_NAMES = 10.0
_NOTHING_LEFT = frozenset({errno.EMFILE, errno.ENFILE})


def out_of_descriptors(error: OSError) -> bool:
    """Whether an error is caused by a lack of file descriptors, in this process or on the machine.

    A name look-up may fail with any other error in that case, so it is tested by opening a socket.
    """
    if not isinstance(error, socket.gaierror):
        return error.errno in _NOTHING_LEFT
    try:
        socket.socket().close()
    except OSError as trial:
        return trial.errno in _NOTHING_LEFT
    return False


def nothing_left() -> HopError:
    """The failure of a request without a free file descriptor."""
    return HopError("local", "this server has no file descriptor left for the request: try again in a few seconds")


class ThreadedResolver:
    """The system's resolver, in daemon threads of its own.

    A name server that doesn't answer blocks a thread for many seconds. So these threads aren't in the shared pool; each
    event loop uses at most `width` of them, and they don't delay the end of the process.
    """

    def __init__(self, width: int = 256) -> None:
        self._width = width
        self._free: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._lock = threading.Lock()

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """The addresses of `host`, in the system's order of preference."""
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
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(finish, addresses, error)

        try:
            threading.Thread(target=look_up, name=f"resolve {host}"[:60], daemon=True).start()
        except RuntimeError as error:
            free.release()
            raise OSError(str(error)) from None  # the machine can't start another thread
        return await answer

    def _turns(self, loop: asyncio.AbstractEventLoop) -> asyncio.Semaphore:
        """The semaphore of an event loop: several loops can't share one."""
        with self._lock:
            if (found := self._free.get(loop)) is None:
                found = self._free[loop] = asyncio.Semaphore(self._width)
            return found


_ASKER: ContextVar[str] = ContextVar("asker", default="")


@contextmanager
def asking_for(asker: str) -> Iterator[None]:
    """Count the block's requests for `asker`: `user <name>` or `network <address>`.

    Empty, as without such a block, means the server itself, for example polls. It is a context variable, because none
    of the layers between the incoming request and the name look-up needs to know it.
    """
    token = _ASKER.set(asker)
    try:
        yield
    finally:
        _ASKER.reset(token)


def who_asks() -> str:
    """The requester that work is done for: see `asking_for`."""
    return _ASKER.get()


MOST_LOOK_UPS = 16
"""Names that are looked up at the same time for one requester. A name server that doesn't answer blocks one of the 256
threads for 20 seconds and more, and nothing can shorten that.
"""

LOOK_UP_SECONDS = 10.0
"""Time limit of one name look-up."""


IsOurs = Callable[[str], Awaitable[bool]]
"""Whether a host, in comparison form, belongs to a user of this server: it is read although it is on this machine."""


async def nobodys(_host: str) -> bool:
    """No host belongs to a user."""
    return False


class Guard:
    """Resolves host names to addresses that connections are allowed to.

    Service ports are refused everywhere (`port_problem`). The other rules for public addresses don't apply in networks
    that the admin lists. This machine's own addresses are used only for hosts that `is_ours` accepts, at 80 and 443,
    because its other services may be meant for the machine alone.
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

        `all_must_pass` refuses a name if any of its addresses is forbidden: for a proxy, which chooses among them
        itself. `inside` permits only non-public addresses that the admin lists, for data that must not be readable in
        transit. `web_ports` permits only 80 and 443, except in networks that the admin lists.
        """
        if (problem := port_problem(port)) is not None:
            raise HopError("blocked", f"{host}: {problem}")
        literal = parse_address(host)
        found = [literal] if literal is not None else await self._look_up(host, port)
        good = [address for address in found if may_connect(address, self._allowed)]
        if inside and any(map(is_public, good)):
            raise HopError("blocked", f"secrets aren't sent to {host} over http: expected https")
        if not good or (all_must_pass and len(good) < len(found)):
            bad = next(address for address in found if address not in good)
            log.info("a connection to a forbidden address was refused", host=host, address=str(bad), hint=_HINT)
            raise _no_address("private" if literal is None else "blocked", host)
        strict = [address for address in good[:_MOST_ATTEMPTS] if not is_listed(address, self._allowed)]
        if strict and web_ports and port not in WEB_PORTS:
            raise HopError("blocked", f"{host}: port {port} can't be used by strangers: expected 80 or 443")
        if any(map(is_own, strict)) and not (port in WEB_PORTS and await self._is_ours(asked_host(host))):
            log.info("a connection to this machine's own address was refused", host=host, port=port, hint=_HINT)
            raise HopError(
                "blocked",
                f"{host} is on this server's own machine, where only its users' pages are read",
            )
        return good[:_MOST_ATTEMPTS]

    async def _look_up(self, host: str, port: int) -> list[Address]:
        """The addresses of a name, within the requester's share. Raises HopError (`dns`, `busy`).

        An abandoned look-up continues in its thread, so it counts for its requester until it ends.
        """
        asker = who_asks()
        if asker and self._looked_up[asker] >= MOST_LOOK_UPS:
            raise HopError(
                "busy",
                f"{MOST_LOOK_UPS} names are being looked up for you: try again in a few seconds",
                _WAIT_FOR_NAMES,
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


_HINT = private_hint("blocked")


def _no_address(reason: Reason, host: str) -> HopError:
    """The same error for an unknown name and for a name with a private address.

    It is shown to the user who gave the URL, who must not learn which internal names exist. What an admin can do about
    it is in `errors.private_hint`.
    """
    found = "isn't a public address" if parse_address(host) is not None else "isn't known, or has no public address"
    return HopError(reason, f"{host} {found}")


def _seen(looking: asyncio.Future[Sequence[str]]) -> None:
    """Retrieve the error of an abandoned look-up, so that asyncio doesn't log it."""
    if not looking.cancelled():
        looking.exception()
