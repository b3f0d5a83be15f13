"""How often somebody may try to sign in: pauses that grow with every attempt that fails.

Counted are:

- a *network*, an IPv4 address or a /64 of IPv6: it is stopped wherever it tries, and so is, far later, its /48;
- a *device*, a browser in which this user has signed in before: it has an allowance of its own;
- right passwords and new ones, for each account and minute, since each takes time to hash.

No account is ever locked: wrong guesses from other networks, however many, keep nobody out. What passwords cost the
processor is bounded by the queue of `hashing`, in which networks take turns.

Passkeys can't be guessed: they count by the network alone, and each failure as any other.
"""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass, replace

from microsub.errors import TooManyRequests
from microsub.identity.store.rate_limits import AttemptCounts


@dataclass(frozen=True, slots=True)
class Allowance:
    """`free` attempts without a pause, then pauses of `first` seconds, twice that, and so on up to `longest`."""

    free: int
    first: float
    longest: float

    def pauses(self) -> tuple[float, ...]:
        """The pause after the first attempt, the second …; the last one holds for all later ones."""
        found = [0.0] * self.free
        pause = self.first
        while pause < self.longest:
            found.append(pause)
            pause *= 2
        return (*found, self.longest)


OF_ADDRESS = Allowance(free=10, first=2, longest=900)
OF_SITE = Allowance(free=100, first=1, longest=30)
"""Of a /48 of IPv6, which anybody gets for the asking, and in which thousands may live who are strangers."""
TURN_OF_SITE = 10
"""Attempts from one /48 that count as one when networks take turns."""
HASHES = 60
"""Right and new passwords of an account in a minute."""
OF_DEVICE = Allowance(free=10, first=1, longest=300)

OF_CHALLENGES = Allowance(free=60, first=1, longest=1)
"""Each is kept for five minutes, so nobody shall be given more than some hundreds."""

_IPV6_NETWORK = 64
"""Bits of an IPv6 address that one customer shares: who has one address has all of its network."""
_IPV6_SITE = 48


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that was let through, and what it counts for; `turn` is its place among those that wait for a hash:
    how many attempts the network has made of late, 0 for a known browser.
    """

    subjects: tuple[str, ...]
    turn: int = 0


class Attempts:
    """Lets attempts through or refuses them."""

    def __init__(self, counts: AttemptCounts) -> None:
        self._counts = counts

    async def begin(self, account: str, address: str, now: float, *, device: str = "") -> Attempt:
        """An attempt to sign in as `account`, known or not, which counts as failed until `succeeded`.

        `device` is the digest of a browser that the account is known in. Raises TooManyRequests.
        """
        if await self._counts.in_minute(f"hashes {account}", now, 0) >= HASHES:
            raise _too_many(60 - now % 60)
        if device:
            return replace(await self._begin([(f"device {device}", OF_DEVICE)], now), turn=0)
        return await self._begin(_of_address(address), now)

    async def hashed(self, account: str, now: float) -> None:
        """A right password of that account was checked, or a new one is to be set. Raises TooManyRequests."""
        if await self._counts.in_minute(f"hashes {account}", now) > HASHES:
            raise _too_many(60 - now % 60)

    async def begin_anonymous(self, address: str, now: float) -> Attempt:
        """An attempt with something that can't be guessed: counted by address alone. Raises TooManyRequests."""
        return await self._begin(_of_address(address), now)

    async def begin_challenge(self, address: str, now: float) -> None:
        """Somebody who isn't known yet asks for a challenge. Raises TooManyRequests."""
        await self._begin([(f"challenges {network_of(address)}", OF_CHALLENGES)], now)

    async def _begin(self, asked: list[tuple[str, Allowance]], now: float) -> Attempt:
        taken: list[str] = []
        turn = 0
        for subject, allowance in asked:
            wait, count = await self._counts.take(subject, allowance.pauses(), now)
            if wait:
                for earlier in taken:  # nothing was tried
                    await self._counts.give_back(earlier)
                raise _too_many(wait)
            taken.append(subject)
            turn = max(turn, -(-count // TURN_OF_SITE) if allowance is OF_SITE else count)
        return Attempt(tuple(taken), turn)

    async def succeeded(self, attempt: Attempt) -> None:
        """The attempt was right. The count of its device starts again; its address only gets this one back.

        Otherwise somebody with an account here could guess at others without end, signing in to their own in between.
        """
        for subject in attempt.subjects:
            if subject.startswith("address "):
                await self._counts.give_back(subject)
            else:
                await self._counts.forget(subject)

    async def undecided(self, attempt: Attempt) -> None:
        """The attempt came to nothing for a reason that lies with us: it doesn't count."""
        for subject in attempt.subjects:
            await self._counts.give_back(subject)


def _of_address(address: str) -> list[tuple[str, Allowance]]:
    found = [(f"address {network_of(address)}", OF_ADDRESS)]
    site = site_of(address)
    return found if site is None else [*found, (f"address {site}", OF_SITE)]


def network_of(address: str) -> str:
    """What stands for a client's address: itself, or its /64 for IPv6; IPv4 inside of IPv6 is IPv4. Pure."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, _IPV6_NETWORK), strict=False))
    return str(found)


def site_of(address: str) -> str | None:
    """The /48 in which an address of IPv6 lies; None for others. Pure."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if not isinstance(found, ipaddress.IPv6Address) or found.ipv4_mapped is not None:
        return None
    return str(ipaddress.ip_network((int(found), _IPV6_SITE), strict=False))


def _too_many(wait: float) -> TooManyRequests:
    seconds = math.ceil(wait)
    return TooManyRequests(f"too many attempts to sign in; the next one may be made in {_words(seconds)}", seconds)


def _words(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds} second{'' if seconds == 1 else 's'}"
    return f"{-(-seconds // 60)} minutes"
