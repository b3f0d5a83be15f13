"""Rate limits for starting a sign-in, which makes this server fetch a page and needs no account."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from microsub.errors import SignInFailed
from microsub.identity import limits
from microsub.identity.protocol.identifiers import site_of_me
from microsub.identity.sign_in.admission import KnownAddresses
from microsub.kit.rate_limits import Place, RateLimiter, is_public, network_of, wide_network_of


class SignInLimits:
    """Applies the limits on sign-ins. Strangers can't use up what users' addresses may do."""

    def __init__(self, known: KnownAddresses, limiter: RateLimiter | None = None) -> None:
        self._known = known
        self._limiter = limiter or RateLimiter()

    async def enter(self, me: str, address: str) -> None:
        """Count a sign-in with the page `me` (canonical), begun from a client's address. Raises SignInFailed.

        The limit of a site doesn't hold for addresses of users.
        """
        known = await self._known.has(me)
        if is_public(address) and not self._may_begin(address):
            raise SignInFailed(
                "Too many sign-ins",
                "From your network many sign-ins were begun within a minute. Wait a minute, then try again.",
                429,
            )
        if not self._limiter.count(limits.SIGN_INS_AT_SITE, site_of_me(me)) and not known:
            raise SignInFailed(
                "That site was asked too often",
                f"Too many people have begun to sign in with addresses at {site_of_me(me)}. Wait a minute, then try "
                "again.",
                429,
            )
        if not self._limiter.count(limits.SIGN_INS_IN_ALL, _kind(known)):
            raise _full()

    def _may_begin(self, address: str) -> bool:
        if not self._limiter.count(limits.SIGN_INS_OF_NETWORK, network_of(address)):
            return False
        wide = wide_network_of(address)
        return wide is None or self._limiter.count(limits.SIGN_INS_OF_WIDE_NETWORK, wide)

    async def leave(self, me: str, size: int) -> None:
        """Count the bytes that a sign-in leaves in the store until the person is back. Raises SignInFailed."""
        if not await self._known.has(me) and not self._limiter.count(limits.SIGN_IN_BYTES, weight=size):
            raise _full()

    @asynccontextmanager
    async def place(self, me: str, address: str, site: str) -> AsyncIterator[None]:
        """A place among the sign-ins that wait for other servers, which may be slow. Raises SignInFailed.

        `site` is the host that is waited for. Addresses of users have places of their own.
        """
        kind = _kind(await self._known.has(me))
        shares: list[Place] = [(limits.WAITING_OF_PERSON, me), (limits.WAITING_AT_SITE, f"{kind} {site}")]
        if is_public(address):
            shares.append((limits.WAITING_OF_NETWORK, network_of(address)))
            if (wide := wide_network_of(address)) is not None:
                shares.append((limits.WAITING_OF_WIDE_NETWORK, wide))
        if not all(self._limiter.has_room(*share) for share in shares):
            raise SignInFailed(
                "Too many sign-ins at once",
                f"Several sign-ins from your network, with your address or at {site} are under way and wait for an "
                "answer. Wait a few seconds, then start the sign-in again.",
                429,
            )
        if not self._limiter.has_room(limits.WAITING_IN_ALL, kind):
            raise _full()
        give_back = self._limiter.take([*shares, (limits.WAITING_IN_ALL, kind)])
        try:
            yield
        finally:
            give_back()


def _kind(known: bool) -> str:
    return "users" if known else "others"


def _full() -> SignInFailed:
    return SignInFailed("Too many people sign in just now", "Wait a few seconds, then start the sign-in again.", 503)
