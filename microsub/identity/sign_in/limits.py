"""How many may begin to sign in. Nobody needs an account to make this server read a page, since that is how it begins;
so what that costs, us and others, is bounded. Counted within the process.
"""

from __future__ import annotations

import ipaddress
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from microsub.errors import SignInFailed
from microsub.identity.local.attempts import network_of, site_of
from microsub.identity.protocol.identifiers import site_of_me
from microsub.identity.sign_in.admission import KnownAddresses
from microsub.kit.rate_limits import FixedWindow

MINUTE = 60.0
PER_NETWORK = 20
"""Sign-ins that one client's network begins per minute. Private addresses are exempt: they may be those of a proxy that
doesn't tell whom it speaks for, and stand for everybody.
"""

PER_WIDE_NETWORK = 200
"""The same for a /48 of IPv6, all whose networks one stranger may have."""

PER_SITE = 30
"""Sign-ins with addresses of one site per minute, for addresses that are no user's: a site isn't asked more often."""

IN_ALL = 3000
"""Sign-ins per minute with addresses of users, and as many with others: nobody's is used up by strangers."""

LEFT = 2 * 1024 * 1024
"""Bytes that sign-ins with addresses of strangers leave in Redis per minute, for a quarter of an hour: 30 MB then. One
takes some 700, but a page can name addresses of two thousand letters.
"""

AT_ONCE = 50
"""Sign-ins of either kind that wait for somebody else's server at the same time."""

AT_ONCE_OF_PERSON = 5
AT_ONCE_OF_NETWORK = 5
AT_ONCE_OF_WIDE_NETWORK = 10
AT_ONCE_AT_SITE = 20
"""Of those, how many with one person's address, from one network, from one /48 of IPv6, and that wait for one site:
that of the page, or of the provider. Whose servers are slow takes no more than that from others.
"""


class Turnstile:
    """Lets sign-ins begin, one after the other. `clock` gives seconds."""

    def __init__(self, known: KnownAddresses, clock: Callable[[], float] = time.monotonic) -> None:
        self._known = known
        self._clock = clock
        self._networks = FixedWindow(PER_NETWORK, MINUTE)
        self._wide = FixedWindow(PER_WIDE_NETWORK, MINUTE)
        self._sites = FixedWindow(PER_SITE, MINUTE)
        self._all = FixedWindow(IN_ALL, MINUTE)
        self._left = FixedWindow(LEFT, MINUTE)
        self._busy: Counter[str] = Counter()

    async def enter(self, me: str, address: str) -> None:
        """Count a sign-in with the page `me` (canonical), begun from a client's address. Raises SignInFailed.

        Nobody can be kept outside by others: the limit of a site doesn't hold for addresses of users, and what others
        use up of the other limits isn't theirs.
        """
        now, known = self._clock(), await self._known.has(me)
        if is_public(address) and not self._may_begin(address, now):
            raise SignInFailed(
                "Too many sign-ins",
                "From your network many sign-ins were begun within a minute. Wait a minute, then try again.",
                429,
            )
        if not self._sites.allows(site_of_me(me), now) and not known:
            raise SignInFailed(
                "That site was asked too often",
                f"Too many people have begun to sign in with addresses at {site_of_me(me)}. Wait a minute, then try "
                "again.",
                429,
            )
        if not self._all.allows(_kind(known), now):
            raise _full()

    def _may_begin(self, address: str, now: float) -> bool:
        if not self._networks.allows(network_of(address), now):
            return False
        site = site_of(address)
        return site is None or self._wide.allows(site, now)

    async def leave(self, me: str, size: int) -> None:
        """Count what such a sign-in leaves in the store until the person is back, in bytes. Raises SignInFailed."""
        if not await self._known.has(me) and not self._left.allows("", self._clock(), size):
            raise _full()

    @asynccontextmanager
    async def place(self, me: str, address: str, site: str) -> AsyncIterator[None]:
        """A place among those who wait for other people's servers, which are as slow as they like. Raises SignInFailed.

        `site` is the host that is waited for. Who begins with the address of a user has one of other places, where
        strangers' pages aren't waited for.
        """
        kind = _kind(await self._known.has(me))
        shares = {f"person {me}": AT_ONCE_OF_PERSON, f"{kind} site {site}": AT_ONCE_AT_SITE}
        if is_public(address):
            shares[f"network {network_of(address)}"] = AT_ONCE_OF_NETWORK
            if (wide := site_of(address)) is not None:
                shares[f"network {wide}"] = AT_ONCE_OF_WIDE_NETWORK
        if any(self._busy[share] >= most for share, most in shares.items()):
            raise SignInFailed(
                "Too many sign-ins at once",
                f"Several sign-ins from your network, with your address or at {site} are under way and wait for an "
                "answer. Wait a few seconds, then start the sign-in again.",
                429,
            )
        if self._busy[kind] >= AT_ONCE:
            raise _full()
        taken = (kind, *shares)
        self._busy.update(taken)
        try:
            yield
        finally:
            self._busy.subtract(taken)
            for share in taken:
                if not self._busy[share]:
                    del self._busy[share]


def is_public(address: str) -> bool:
    """Whether a client's address is one of the internet, and so stands for somebody."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_global
    except ValueError:
        return False


def _kind(known: bool) -> str:
    return "users" if known else "others"


def _full() -> SignInFailed:
    return SignInFailed("Too many people sign in just now", "Wait a few seconds, then start the sign-in again.", 503)
