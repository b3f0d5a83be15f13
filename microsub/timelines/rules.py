"""Mutes and blocks: a user's rules for one channel or all (`global`), and their effects; and feeds hidden in *All*.

A rule is a URL in the form of `base.urls.normalise_profile`; it applies to items whose author or source has that URL.
The rule is written first, so that all items added or moved from then on obey it (lua/timeline_add.lua,
lua/timeline_move.lua). Then it is applied to existing items in batches, each of which checks all rules again
(lua/timeline_settle.lua). So the timelines end up as the rules say, whatever changes in between.

Items of feeds that their user hides in *All* are noted by channel, new ones as they are added. An item that another
channel shows, too, stays in *All*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from microsub.accounts import absent
from microsub.base.bounded_cache import BoundedCache
from microsub.base.errors import InvalidRequest, NotFound, QuotaReached
from microsub.base.locks import KeyedLocks
from microsub.base.urls import normalise_profile
from microsub.model.reader import GLOBAL, SAVED, TimelineItem
from microsub.posts import Items
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import texts
from microsub.redis.scan import members
from microsub.redis.scripts import batches, load
from microsub.redis.structures import Hash, Members, Scores
from microsub.timelines.channels.follows import every_channel, is_there
from microsub.timelines.pages import walk_rows
from microsub.timelines.timelinekeys import split, timeline_keys, url_lines, urls

_ENDED = 1000
"""Maximum number of mutes lifted in one round."""
_REMEMBERED = 50_000
"""Maximum number of items cached while a rule is applied."""


class Rules:
    """The rules of all users. `items` gives an item's author and sources.

    URLs are authors' profiles or feeds; the store compares them in normal form. `muted`, `blocked` and all writes
    raise NotFound for an unknown channel, writes also for an unknown user; `mute` and `block` raise QuotaReached if
    the user already has `most` rules (0: any number). Writes return once all items have moved, with their number.

    Rules apply everywhere except in `saved`: saved items stay there. So writes raise InvalidRequest for a
    rule of that channel alone.

    One write at a time moves a user's items: each examines all posts of every channel that its rule applies to.
    """

    def __init__(self, redis: Redis, items: Items) -> None:
        self._redis = redis
        self._ends = Scores(redis, keys.mute_ends())
        self._items = items
        self._turns = KeyedLocks()

    async def muted(self, user: str, uid: str) -> list[str]:
        """The muted URLs as they were entered, in alphabetical order."""
        return await self._listed(user, uid, keys.muted(user, uid))

    async def blocked(self, user: str, uid: str) -> list[str]:
        """The blocked URLs as they were entered, in alphabetical order."""
        return await self._listed(user, uid, keys.blocked(user, uid))

    async def of_channels(self, user: str, uids: Sequence[str]) -> dict[str, tuple[list[str], list[str]]]:
        """The muted and the blocked URLs by uid, as `muted` and `blocked` return them. One round trip."""
        replies = await self._redis.pipeline(
            [("HVALS", key(user, uid)) for key in (keys.muted, keys.blocked) for uid in uids]
        )
        muted, blocked = replies[: len(uids)], replies[len(uids) :]
        return {uid: (_listed(one), _listed(two)) for uid, one, two in zip(uids, muted, blocked, strict=True)}

    async def mute(
        self, user: str, uid: str, url: str, now: float, *, until: float | None = None, most: int = 0
    ) -> int:
        """Hide all posts of this author or source, permanently or until then. Read state is kept."""
        end = end_of_mute(user, uid, url)
        if until is not None:  # first, so that no crash between the two leaves a mute without its end
            await self._ends.set({end: f"{until:.3f}"})
        try:
            count = await self._write(user, uid, keys.muted, url, now, on=True, most=most)
        except (InvalidRequest, NotFound, QuotaReached):
            await self._ends.delete(end)
            raise
        if until is None:
            await self._ends.delete(end)
        return count

    async def unmute(self, user: str, uid: str, url: str, now: float) -> int:
        """Show its posts again, unless another rule hides them."""
        count = await self._write(user, uid, keys.muted, url, now, on=False)
        await self._ends.delete(end_of_mute(user, uid, url))
        return count

    async def ends(self, user: str, mutes: Sequence[tuple[str, str]]) -> list[float | None]:
        """The ends of these mutes (uid, URL), in Unix seconds; None for permanent ones."""
        scores = await self._ends.get_many([end_of_mute(user, uid, url) for uid, url in mutes])
        return [None if score is None else float(score) for score in scores]

    async def lift_ended(self, now: float) -> int:
        """Lift all users' mutes that have ended, in removed channels too; returns their number."""
        count = 0
        for end, _ in await self._ends.between("-inf", str(now), _ENDED):
            (until,) = await self._ends.get_many([end])
            if until is None or float(until) > now:  # muted again while earlier mutes were lifted
                continue
            user, uid, url = end.split(" ", 2)
            for listed in (keys.channels, keys.removed_channels):
                with suppress(NotFound):  # the channel or its user may have been deleted before the mute
                    await self._write(user, uid, keys.muted, url, now, on=False, listed=listed)
                    break
            await self._ends.delete(end)
            count += 1
        return count

    async def block(self, user: str, uid: str, url: str, now: float, *, most: int = 0) -> int:
        """Remove all posts of this author or source, and keep out further ones."""
        return await self._write(user, uid, keys.blocked, url, now, on=True, most=most)

    async def unblock(self, user: str, uid: str, url: str, now: float) -> int:
        """Accept its posts again from now on."""
        return await self._write(user, uid, keys.blocked, url, now, on=False)

    async def _listed(self, user: str, uid: str, key: str) -> list[str]:
        (name, removed), urls = await self._redis.pipeline([is_there(user, uid), ("HVALS", key)])
        if uid != GLOBAL and (name is None or removed is not None):
            raise await absent(self._redis, user, uid)
        return _listed(urls)

    async def _write(
        self,
        user: str,
        uid: str,
        key: Callable[[str, str], str],
        given: str,
        now: float,
        *,
        on: bool,
        most: int = 0,
        listed: Callable[[str], str] = keys.channels,
    ) -> int:
        if uid == SAVED:
            raise InvalidRequest(
                "mutes and blocks don't apply in 'saved': found that channel, expected another or 'global'"
            )
        url = normalise_profile(given)
        reply = await self._redis.script(
            load("rule_write")(
                user,
                channels=listed(user),
                rules=key(user, uid),
                uid=uid,
                url=url,
                given=given if on else "",
                most=most,
                patterns=[keys.pattern(of, user) for of in (keys.muted, keys.blocked)],
                counts=int(listed is keys.channels),
            )
        )
        if reply >= 2:
            raise QuotaReached("mutes and blocks", reply - 2, most)
        if reply < 0:
            raise await absent(self._redis, user, uid if uid != GLOBAL else None)
        async with self._turns.of(user):
            return await self._apply(user, uid, url, now, mute=key is keys.muted, on=on)

    async def _apply(self, user: str, uid: str, url: str, now: float, *, mute: bool, on: bool) -> int:
        """Move the items that a changed rule affects; returns their number."""
        parts = [
            (channel, part)
            for channel in await self._channels(user, uid)
            for part in _touched(user, channel, mute=mute, on=on)
        ]
        # Thousands of channels may be mostly empty: one round trip finds those that aren't.
        there = await self._redis.pipeline([("EXISTS", part) for _, part in parts])
        count = 0
        matching = _MatchingItems(self._items, url)
        for channel, part in (one for one, exists in zip(parts, there, strict=True) if exists):
            async for ids in members(self._redis, part):
                count += await self._settle(user, channel, await matching.among(ids), now)
        return count

    async def _channels(self, user: str, uid: str) -> list[str]:
        """The channels that the rule applies to: also removed ones, since they can come back, but not `saved`."""
        if uid != GLOBAL:
            return [uid]
        return [channel for channel in await every_channel(self._redis, user) if channel != SAVED]

    async def _settle(self, user: str, uid: str, items: Sequence[TimelineItem], now: float) -> int:
        """Settle items, and again those whose author became known between look-up and move."""
        if not items:
            return 0
        moved = await settle(self._redis, user, uid, items, now)
        before = {item.id: urls(item) for item in items}
        fresh = await self._items.timeline_items(moved) if moved else []
        changed = [item for item in fresh if urls(item) != before[item.id]]
        if changed:
            await settle(self._redis, user, uid, changed, now)
        return len(moved)


class _MatchingItems:
    """The items that a rule matches. Each is looked up once, however many channels have it.

    If an item's author becomes known later, that look-up settles it by all rules, this one included.
    """

    def __init__(self, items: Items, url: str) -> None:
        self._items = items
        self._url = url
        self._known: BoundedCache[str, TimelineItem | None] = BoundedCache(_REMEMBERED)

    async def among(self, ids: Sequence[str]) -> list[TimelineItem]:
        """The given ids that match."""
        known = {item_id: self._known.get(item_id) for item_id in ids if item_id in self._known}
        if new := [item_id for item_id in ids if item_id not in known]:
            found = await self._items.timeline_items(new)
            known |= dict.fromkeys(new) | {item.id: item for item in found if self._url in urls(item)}
            self._known.update(known)
        return [item for item_id in ids if (item := known[item_id]) is not None]


async def settle(
    redis: Redis, user: str, uid: str, items: Sequence[TimelineItem], now: float, *, lost: bool = False
) -> tuple[str, ...]:
    """Apply the current rules to items of a channel; returns the ids that moved.

    Unknown items and channels are ignored. With `lost`, items that are read or unread but neither shown nor hidden
    are shown first; they count as moved.
    """
    return (await settle_in(redis, [(user, uid)], items, now, lost=lost))[0]


async def settle_in(
    redis: Redis, channels: Sequence[tuple[str, str]], items: Sequence[TimelineItem], now: float, *, lost: bool = False
) -> list[tuple[str, ...]]:
    """`settle` in several channels (user, uid); results in their order. One round trip for every thousand items."""
    moved: list[tuple[str, ...]] = [() for _ in channels]
    every_key = [timeline_keys(user, uid) for user, uid in channels]
    for batch in batches(items):
        listed = [part for item in batch for part in (item.id, item.score, url_lines(item))]
        state = {"now": int(now), "lost": "lost" if lost else "", "items": listed}
        replies = await redis.scripts(
            [
                load("timeline_settle")(timeline=timeline, uid=uid, **state)
                for (_, uid), timeline in zip(channels, every_key, strict=True)
            ]
        )
        moved = [before + split(reply) for before, reply in zip(moved, replies, strict=True)]
    return moved


async def set_apart(redis: Redis, items: Items, user: str, uid: str, feed_id: str, *, hides: bool) -> None:
    """Hide the feed's items of this channel in *All*, or show them there again. Raises NotFound."""
    action = "hide" if hides else "show"
    await _note_apart(redis, user, uid, action, [])
    async for rows in walk_rows(redis, user, uid):
        await _note_apart(redis, user, uid, action, await items.in_feed(feed_id, [row.id for row in rows]))
    async for ids in members(redis, keys.hidden(user, uid)):
        await _note_apart(redis, user, uid, action, await items.in_feed(feed_id, ids))


async def tidy_apart(redis: Redis, user: str, uid: str) -> None:
    """Forget notes of items that have left the channel."""
    for ids in batches(await Members(redis, keys.apart(user, uid)).all()):
        await _note_apart(redis, user, uid, "tidy", texts(ids))


async def _note_apart(redis: Redis, user: str, uid: str, action: str, ids: Iterable[str]) -> None:
    await redis.script(load("timeline_apart")(user, uid, action=action, ids=list(ids)))


def _touched(user: str, uid: str, *, mute: bool, on: bool) -> list[str]:
    """The sets in which a changed rule may find items to move.

    A blocked author's items have left already, so unblocking finds none.
    """
    posts, hidden = keys.posts(user, uid), keys.hidden(user, uid)
    if mute:
        return [posts] if on else [hidden]
    return [posts, hidden] if on else []


def end_of_mute(user: str, uid: str, url: str) -> str:
    """The member of `keys.mute_ends` for a mute."""
    return f"{user} {uid} {normalise_profile(url)}"


async def ends_in(redis: Redis, user: str, uid: str) -> list[str]:
    """The members of `mutes:ends` that the mutes of a channel may have."""
    return [end_of_mute(user, uid, url) for url in await Hash(redis, keys.muted(user, uid)).names()]


async def forget_ends(redis: Redis, ends: Sequence[str]) -> None:
    """Delete these members of `mutes:ends`."""
    for some in batches(ends):
        await Scores(redis, keys.mute_ends()).delete(*some)


def _listed(urls: Iterable[bytes]) -> list[str]:
    return sorted(texts(urls))
