"""The `timeline` action: pages, and changes to their items; mute and block.

Spec: https://indieweb.org/Microsub-spec#Timelines, #Muting and #Blocking. A rule belongs to one channel or, without
`channel` or with `global`, to all of the user's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import orjson

from microsub.accounts import Most
from microsub.api import arguments
from microsub.discovery import PickedPosts
from microsub.model.reader import SAVED, Credential, Cursor, Grant, Reason
from microsub.posts import Items
from microsub.redis.protocol import Redis
from microsub.timelines import (
    Arrivals,
    Leaving,
    ReaderViews,
    ReadState,
    Rules,
    SavedPosts,
    move_items,
    put_unread,
    take_out,
)
from microsub.web.actions import (
    Action,
    Call,
    FusedAction,
    LaterReply,
    Reply,
    Table,
    channel_in,
    channel_or_global,
    entries_in,
    url_in,
)
from microsub.web.params import Params, missing

EVERYTHING = "everything"


def arrivals_to_wire(found: Arrivals) -> bytes:
    """The reply as the bytes of a JSON object."""
    items = b",".join(
        b'{"_id":"%b","_is_read":%b,%b"_arrived":%d}'
        % (
            row.id.encode(),
            b"true" if row.is_read else b"false",
            b'"_saved":true,' if row.is_saved else b"",
            row.position,
        )
        for row in found.rows
    )
    places = (("after", found.resume), ("since", found.newest))
    paging = {name: Cursor(str(place), "0").encode() for name, place in places if place is not None}
    return b'{"items":[%b],"paging":%b}' % (items, orjson.dumps(paging))


def _updated(count: int, unknown: Sequence[str] = ()) -> Reply:
    return {"result": "ok", "updated": count, **({"unknown": [*unknown]} if unknown else {})}


def _card(url: str) -> dict[str, str]:
    return {"type": "card", "url": url}


def _cards(urls: list[str]) -> Reply:
    return {"items": [_card(url) for url in urls]}


class TimelineActions:
    """The actions `timeline`, `mute` and `block`."""

    def __init__(
        self, redis: Redis, items: Items, reading: ReaderViews, rules: Rules, picked: PickedPosts, most: Most
    ) -> None:
        self._redis = redis
        self._items = items
        self._read_state = ReadState(redis, items)
        self._saved = SavedPosts(redis, items)
        self._reading = reading
        self._rules = rules
        self._picked = picked
        self._most = most

    def table(self) -> Table:
        """The actions by what selects them."""
        return {
            ("GET", "timeline", ""): FusedAction("read", self.page),
            ("GET", "timeline", "ids"): FusedAction("read", self.ids),
            ("POST", "timeline", "mark_read"): Action("read", self.mark_read),
            ("POST", "timeline", "mark_unread"): Action("read", self.mark_unread),
            ("POST", "timeline", "remove"): Action("read", self.remove, changes_topics=True),
            ("POST", "timeline", "move"): Action("read", self.move, changes_topics=True),
            ("POST", "timeline", "save"): Action("read", self.save, changes_topics=True),
            ("POST", "timeline", "unsave"): Action("read", self.unsave),
            ("GET", "mute", ""): Action("read", self.muted),
            ("POST", "mute", ""): Action("mute", self.mute),
            ("POST", "unmute", ""): Action("mute", self.unmute),
            ("GET", "block", ""): Action("read", self.blocked),
            ("POST", "block", ""): Action("block", self.block),
            ("POST", "unblock", ""): Action("block", self.unblock),
        }

    async def page(self, params: Params, credential: Credential, now: float) -> tuple[Grant, LaterReply]:
        """One page of a channel, newest first."""
        uid, query = channel_in(params), arguments.page_query(params)
        grant, rows = await self._reading.rows_with_token(credential, uid, query, now)
        return grant, partial(self._reading.shown, grant.user, uid, query, rows, now)

    async def ids(self, params: Params, credential: Credential, now: float) -> tuple[Grant, Reply]:
        """The ids of a channel's items in their order of arrival, with their state."""
        uid = channel_or_global(params)
        grant, found = await self._reading.arrivals_with_token(credential, uid, arguments.arrival_query(params), now)
        return grant, arrivals_to_wire(found)

    async def mark_read(self, call: Call) -> Reply:
        """Mark the items in `entry`, or `last_read_entry` and older ones, or `everything`."""
        uid = channel_in(call.params)
        last = call.params.text("last_read_entry")
        updated: set[str] = set()
        if call.params.many("entry"):
            updated = await self._read_state.mark(call.user, uid, entries_in(call.params), "read", call.now)
        elif last is None:
            raise missing("entry", "the '_id' of one or more items, or 'last_read_entry'")
        if last == EVERYTHING:
            updated |= await self._read_state.mark_all(call.user, uid, call.now)
        elif last is not None:
            updated |= await self._read_state.mark_before(call.user, uid, last, call.now)
        return _updated(len(updated))

    async def mark_unread(self, call: Call) -> Reply:
        """Mark the items in `entry` as unread again."""
        uid, entries = channel_in(call.params), entries_in(call.params)
        return _updated(len(await self._read_state.mark(call.user, uid, entries, "unread", call.now)))

    async def remove(self, call: Call) -> Reply:
        """Remove the items in `entry` from the channel permanently."""
        uid, entries = channel_in(call.params), entries_in(call.params)
        how = Leaving(Reason.REMOVED, removed_too=False)
        return _updated(len(await take_out(self._redis, call.user, uid, entries, how, call.now)))

    async def move(self, call: Call) -> Reply:
        """Move the items in `entry` to the channel, with their read state; posts of previews arrive unread."""
        target, entries = channel_in(call.params, allow_global=False), entries_in(call.params)
        stores, now = (self._redis, self._items), call.now
        picked, unknown = await self._picked.among(call.user, call.params.many("entry"), call.now)
        if target == SAVED:
            most = await self._most_saved(call)
            count = await self._saved.save_posts(call.user, picked, now, most=most) if picked else 0
            return _updated(count + await self._saved.move_in(call.user, entries, now, most=most), unknown)
        count = await put_unread(*stores, call.user, target, picked, now) if picked else 0
        return _updated(count + await move_items(*stores, call.user, target, entries, now), unknown)

    async def save(self, call: Call) -> Reply:
        """Put the items in `entry`, from the channel, any channel or a preview, into `saved` as well."""
        uid, entries = channel_or_global(call.params), entries_in(call.params)
        most = await self._most_saved(call)
        picked, unknown = await self._picked.among(call.user, call.params.many("entry"), call.now)
        count = await self._saved.save_posts(call.user, picked, call.now, most=most) if picked else 0
        return _updated(count + await self._saved.save(call.user, entries, call.now, uid=uid, most=most), unknown)

    async def unsave(self, call: Call) -> Reply:
        """Remove the items in `entry` from `saved`."""
        return _updated(await self._saved.unsave(call.user, entries_in(call.params), call.now))

    async def muted(self, call: Call) -> Reply:
        """The muted authors and sources."""
        return _cards(await self._rules.muted(call.user, channel_or_global(call.params)))

    async def blocked(self, call: Call) -> Reply:
        """The blocked authors and sources."""
        return _cards(await self._rules.blocked(call.user, channel_or_global(call.params)))

    async def mute(self, call: Call) -> Reply:
        """Hide the posts of this author or source."""
        return await self._rule(call, partial(self._rules.mute, most=await self._most_rules(call)))

    async def unmute(self, call: Call) -> Reply:
        """Show the posts of this author or source again."""
        return await self._rule(call, self._rules.unmute)

    async def block(self, call: Call) -> Reply:
        """Remove all posts of this author or source, and keep out further ones."""
        return await self._rule(call, partial(self._rules.block, most=await self._most_rules(call)))

    async def unblock(self, call: Call) -> Reply:
        """Accept the posts of this author or source again from now on."""
        return await self._rule(call, self._rules.unblock)

    async def _most_saved(self, call: Call) -> int:
        return await self._most("saved", call.user)

    async def _most_rules(self, call: Call) -> int:
        return await self._most("rules", call.user)

    async def _rule(self, call: Call, write: Callable[..., Awaitable[int]]) -> Reply:
        uid, url = channel_or_global(call.params), url_in(call.params)
        await write(call.user, uid, url, call.now)
        return _card(url)
