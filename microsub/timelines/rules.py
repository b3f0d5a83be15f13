"""Whom a reader mutes and blocks, in one channel or in all (`global`)."""

from __future__ import annotations

from microsub.model.reader import GLOBAL
from microsub.timelines.store.channels import Channels
from microsub.timelines.store.rules import Rules


class RuleBook:
    """Rules by channel. URLs are those of authors' profiles or of feeds; the store compares them in normal form.

    Every method raises NotFound for a channel that isn't there; `mute` and `block` raise QuotaReached where the user
    has `most` rules already (0: any number).
    """

    def __init__(self, rules: Rules, channels: Channels) -> None:
        self._rules = rules
        self._channels = channels

    async def muted(self, user: str, uid: str) -> list[str]:
        """The URLs that are muted there, in alphabetical order."""
        await self._check(user, uid)
        return sorted(await self._rules.muted(user, uid))

    async def blocked(self, user: str, uid: str) -> list[str]:
        """The URLs that are blocked there, in alphabetical order."""
        await self._check(user, uid)
        return sorted(await self._rules.blocked(user, uid))

    async def mute(self, user: str, uid: str, url: str, now: float, *, most: int = 0) -> None:
        """Hide what `url` posts; when this returns, nothing of it is shown or counted any more."""
        await self._check(user, uid)
        await self._rules.mute(user, uid, url, now, most=most)

    async def unmute(self, user: str, uid: str, url: str, now: float) -> None:
        """Show it again, with the read state that it had."""
        await self._check(user, uid)
        await self._rules.unmute(user, uid, url, now)

    async def block(self, user: str, uid: str, url: str, now: float, *, most: int = 0) -> None:
        """Remove what `url` posted and refuse what it will post."""
        await self._check(user, uid)
        await self._rules.block(user, uid, url, now, most=most)

    async def unblock(self, user: str, uid: str, url: str, now: float) -> None:
        """Refuse nothing more. What was removed stays away."""
        await self._check(user, uid)
        await self._rules.unblock(user, uid, url, now)

    async def _check(self, user: str, uid: str) -> None:
        if uid != GLOBAL:
            await self._channels.get(user, uid)
