"""How often somebody may try to sign in: pauses that grow with every attempt that fails.

Three things are counted. An *address* is stopped wherever it tries, and so is, far later, what it shares a /48 with.
An *account* is stopped for all browsers that it isn't known in, so that many addresses together guess no faster than
one. A *device*, a browser in which this user has signed in before, has an allowance of its own and is touched by
neither, so that nobody can keep the owner out by failing in their name. Passkeys can't be guessed: they count by the
address alone, and each failure as any other.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from microsub.errors import TooManyRequests
from microsub.store.identity.attempts import AttemptCounts


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
OF_SITE = Allowance(free=100, first=1, longest=4)
"""Of a /48 of IPv6, which anybody gets for the asking, and in which thousands may live who are strangers."""
OF_ACCOUNT = Allowance(free=5, first=1, longest=300)
OF_DEVICE = Allowance(free=10, first=1, longest=300)

OF_CHALLENGES = Allowance(free=60, first=1, longest=1)
"""Each is kept for five minutes, so nobody shall be given more than some hundreds."""

_IPV6_NETWORK = 64
"""Bits of an IPv6 address that one customer shares: who has one address has all of its network."""
_IPV6_SITE = 48


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that was let through, and what it counts for."""

    subjects: tuple[str, ...]


class Attempts:
    """Lets attempts through or refuses them."""

    def __init__(self, counts: AttemptCounts) -> None:
        self._counts = counts

    async def begin(self, account: str, address: str, now: float, *, device: str = "") -> Attempt:
        """An attempt to sign in as `account`, known or not, which counts as failed until `succeeded`.

        `device` is the digest of a browser that the account is known in. Raises TooManyRequests.
        """
        if device:
            return await self._begin([(f"device {device}", OF_DEVICE)], now)
        return await self._begin([*_of_address(address), (f"account {account}", OF_ACCOUNT)], now)

    async def begin_anonymous(self, address: str, now: float) -> Attempt:
        """An attempt with something that can't be guessed: counted by address alone. Raises TooManyRequests."""
        return await self._begin(_of_address(address), now)

    async def begin_challenge(self, address: str, now: float) -> None:
        """Somebody who isn't known yet asks for a challenge. Raises TooManyRequests."""
        await self._begin([(f"challenges {network_of(address)}", OF_CHALLENGES)], now)

    async def _begin(self, asked: list[tuple[str, Allowance]], now: float) -> Attempt:
        taken: list[str] = []
        for subject, allowance in asked:
            wait = await self._counts.take(subject, allowance.pauses(), now)
            if wait:
                # Nothing was tried: who waits for an account under attack isn't stopped as an address for it.
                for earlier in taken:
                    await self._counts.give_back(earlier)
                raise TooManyRequests(f"too many attempts to sign in; the next one may be made in {_words(wait)}", wait)
            taken.append(subject)
        return Attempt(tuple(taken))

    async def succeeded(self, attempt: Attempt) -> None:
        """The attempt was right. Its account or device begins anew; its address only gets this one back.

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


def _words(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds} second{'' if seconds == 1 else 's'}"
    return f"{-(-seconds // 60)} minutes"
