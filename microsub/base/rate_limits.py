"""Rate limits: how often something may happen, and how much of it at the same time.

`RateLimiter` counts within the process, in bounded memory. `GrowingPauses` are counted in Redis, by all processes
together. Subjects are users, networks or hosts; `network_of` and `wide_network_of` name a client's network.
"""

from __future__ import annotations

import ipaddress
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from microsub.base.bounded_cache import BoundedCache
from microsub.base.clock import MINUTE
from microsub.base.errors import RequestError, TooManyRequests

AT_ONCE = 0.0
"""The period of a limit that counts simultaneous uses."""

_NETWORK_BITS = 64
"""Bits of an IPv6 address that one customer shares."""
_WIDE_NETWORK_BITS = 48


class RateLimit(NamedTuple):
    """At most `most` of `what` in `seconds` for each `per`; with `AT_ONCE`, at the same time."""

    what: str
    per: str
    most: int
    seconds: float = MINUTE


class SharedSlots(NamedTuple):
    """Places for long requests: `of_user` for each user, and `in_all` for all users together.

    A user's `first` requests in a while have `in_all` slots of their own, further requests as many again. So the first
    request of a user never waits for the few users who send many.
    """

    of_user: RateLimit
    in_all: RateLimit
    first: RateLimit


@dataclass(frozen=True, slots=True)
class GrowingPauses:
    """`free` of `what` for each `per`, then pauses of `first` seconds, doubled up to `longest`."""

    what: str
    per: str
    free: int
    first: float
    longest: float

    def pauses(self) -> tuple[float, ...]:
        """The pauses after the first attempt, the second …; the last one is for all later attempts."""
        found = [0.0] * self.free
        pause = self.first
        while pause < self.longest:
            found.append(pause)
            pause *= 2
        return (*found, self.longest)


class FixedWindow:
    """At most `most` times in each `seconds` for each key. Remembers the last `keys` keys."""

    def __init__(self, most: int, seconds: float, keys: int = 10_000) -> None:
        self._most = most
        self._seconds = seconds
        self._counts: BoundedCache[str, tuple[float, int]] = BoundedCache(keys)

    def allows(self, key: str, now: float, weight: int = 1) -> bool:
        """Count `weight` for the key at `now`, in seconds of any clock; True if that is within the limit."""
        since, count = self._count(key, now)
        self._counts[key] = (since, count + weight)
        return count + weight <= self._most

    def has_room(self, key: str, now: float, weight: int = 1) -> bool:
        """Whether `weight` more for the key would be within the limit; nothing is counted."""
        return self._count(key, now)[1] + weight <= self._most

    def _count(self, key: str, now: float) -> tuple[float, int]:
        since, count = self._counts.get(key, (now, 0))
        return (now, 0) if now - since >= self._seconds else (since, count)


Slot = tuple[RateLimit, str]
"""A limit of simultaneous uses, and the subject that takes one of them."""


class SlotLease:
    """A slot of a user, and one of all users, which can be given back earlier."""

    def __init__(self, give_own_back: Callable[[], None], give_shared_back: Callable[[], None]) -> None:
        self._give_own_back = give_own_back
        self._given_back: list[Callable[[], None]] = [give_shared_back]

    def release_shared(self) -> None:
        """Give the slot of all users back, if it is still taken."""
        while self._given_back:
            self._given_back.pop()()

    def release(self) -> None:
        """Give both slots back."""
        self.release_shared()
        self._give_own_back()


class RateLimiter:
    """Counts by limit and subject within the process. `clock` gives seconds. Belongs to one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._windows: dict[RateLimit, FixedWindow] = {}
        self._taken: Counter[Slot] = Counter()

    def count(self, limit: RateLimit, subject: str = "", weight: int = 1) -> bool:
        """Count `weight` for the subject; True if that is within the limit."""
        return self._window(limit).allows(subject, self._clock(), weight)

    def require(self, limit: RateLimit, subject: str | None) -> None:
        """Count one for the subject, if there is one. Raises TooManyRequests beyond the limit."""
        if subject is not None and not self.count(limit, subject):
            raise TooManyRequests(f"too many {limit.what} for one {limit.per}: {limit.most} a minute", 60)

    def has_room(self, limit: RateLimit, subject: str = "", weight: int = 1) -> bool:
        """Whether `weight` more would be within the limit; nothing is counted."""
        if limit.seconds == AT_ONCE:
            return self._taken[(limit, subject)] < limit.most
        return self._window(limit).has_room(subject, self._clock(), weight)

    def take(self, slots: Sequence[Slot]) -> Callable[[], None]:
        """Take these slots, even beyond the limit; the returned function gives them back."""
        self._taken.update(slots)

        def give_back() -> None:
            self._taken.subtract(slots)
            for slot in slots:
                if not self._taken[slot]:
                    del self._taken[slot]

        return give_back

    @contextmanager
    def holding(self, *slots: Slot, refusal: RequestError) -> Iterator[None]:
        """Hold these slots for the block. Raises `refusal` if one of them isn't free."""
        if not all(self.has_room(*slot) for slot in slots):
            raise refusal
        give_back = self.take(slots)
        try:
            yield
        finally:
            give_back()

    def acquire(self, shared: SharedSlots, user: str) -> SlotLease | None:
        """Take a slot of the user and one of all users; None if either is taken up."""
        kinds = ("first", "further") if self.has_room(shared.first, user) else ("further",)
        kind = next((kind for kind in kinds if self.has_room(shared.in_all, kind)), None)
        if kind is None or not self.has_room(shared.of_user, user):
            return None
        self.count(shared.first, user)
        return SlotLease(self.take([(shared.of_user, user)]), self.take([(shared.in_all, kind)]))

    def _window(self, limit: RateLimit) -> FixedWindow:
        window = self._windows.get(limit)
        if window is None:
            window = self._windows[limit] = FixedWindow(limit.most, limit.seconds)
        return window


def network_of(address: str) -> str:
    """The key of a client's network: its address, for IPv6 its /64. Pure."""
    found = client_address(address)
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(found), _NETWORK_BITS), strict=False))
    return "unknown" if found is None else str(found)


def wide_network_of(address: str) -> str | None:
    """The /48 of an IPv6 address; None for others. Pure."""
    found = client_address(address)
    if not isinstance(found, ipaddress.IPv6Address):
        return None
    return str(ipaddress.ip_network((int(found), _WIDE_NETWORK_BITS), strict=False))


def is_public(address: str) -> bool:
    """Whether a client's address is a public one. Others may be those of a proxy."""
    found = client_address(address)
    return found is not None and found.is_global


def public_network(address: str) -> str | None:
    """The network of a client with a public address; None for others, which may be a proxy."""
    return network_of(address) if is_public(address) else None


def share_of(address: str, user: str) -> str:
    """The key whose share of name look-ups a request from that address uses.

    That of the user, of a visitor's network, or a common one if all visitors may have the same address.
    """
    if user:
        return f"user {user}"
    return f"network {wide_network_of(address) or network_of(address)}" if is_public(address) else ""


def is_local(address: str) -> bool:
    """Whether a client, or the proxy that it comes through, is on this machine."""
    found = client_address(address)
    return found is not None and found.is_loopback


def client_address(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address without its zone, IPv4 mapped into IPv6 as IPv4; None for anything else."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
