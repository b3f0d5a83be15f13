"""Changes of items by native apps: read, starred, labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from microsub.accounts import AppRequests
from microsub.base.errors import InvalidRequest
from microsub.greader.api import MOST_BODY, OK, NativeCall, NativeTable
from microsub.greader.ids import StreamName, items_of, microseconds, stream_of, streams_of
from microsub.greader.streams import StreamQuery, Streams, label_names
from microsub.greader.turns import UserTurns
from microsub.model.reader import GLOBAL, NOTIFICATIONS, Reason
from microsub.posts import Items
from microsub.redis.protocol import Redis
from microsub.timelines import Channels, Leaving, ReadState, SavedPosts, in_channels, move_items, take_out
from microsub.web.responses import HttpReply

MOST_NAMED = 10_000
_ALL = 10_000_000
_READ = StreamName("state", "read")
_UNREAD = (StreamName("state", "kept-unread"), StreamName("state", "unread"))
_STARRED = StreamName("state", "starred")


@dataclass(eq=False, repr=False)
class NativeMarks:
    """The marks of native apps. They act in all channels that hold an item."""

    redis: Redis
    channels: Channels
    items: Items
    streams: Streams
    requests: AppRequests

    def __post_init__(self) -> None:
        self._read_state = ReadState(self.redis, self.items)
        self._saved = SavedPosts(self.redis, self.items)
        self._turns = UserTurns()

    def table(self) -> NativeTable:
        """The requests by name."""
        return {
            "edit-tag": replace(self._turns.route("marks", self.edit), verbs=_POST, most_body=MOST_BODY),
            "mark-all-as-read": replace(self._turns.route("marks", self.mark_all), verbs=_POST),
        }

    async def edit(self, call: NativeCall) -> HttpReply:
        """Add tags to items and remove some; unknown tags and items are ignored. Without items it creates channels."""
        user, now = call.user, call.now
        named = call.params.many("i")
        if len(named) > MOST_NAMED:
            raise InvalidRequest(f"'i' names too many items: expected {MOST_NAMED} at most")
        ids = items_of(named)
        added, removed = (streams_of(name, call.params.many(name)) for name in ("a", "r"))
        labels = label_names(call.channels)
        if named and not ids:
            return OK
        if _READ in added or (any(one in removed for one in _UNREAD) and _READ not in removed):
            await self._read_state.mark(user, GLOBAL, ids, "read", now)
        elif _READ in removed or any(one in added for one in _UNREAD):
            await self._read_state.mark(user, GLOBAL, ids, "unread", now)
        if _STARRED in added and ids:
            await self._saved.save(user, ids, now, most=await self.requests.quotas.most("saved", user))
        elif _STARRED in removed and ids:
            await self._saved.unsave(user, ids, now)
        known = len(labels)
        for name in _labels(added):
            if name not in labels:
                most = await self.requests.quotas.most("channels", user)
                labels[name] = (await self.channels.create(user, name, now, most=most)).uid
            if ids:
                await move_items(self.redis, self.items, user, labels[name], ids, now, copies=True)
        for name in _labels(removed):
            if name in labels and ids:
                await self._take_off(user, labels[name], [*labels.values()], ids, now)
        # Most requests only mark items, and the declarations of all users are compared after a change of them.
        moves = _STARRED in added or any(_labels([*added, *removed]))
        await self.requests.ended(user, now, declarations=len(labels) > known, topics=moves)
        return OK

    async def mark_all(self, call: NativeCall) -> HttpReply:
        """Mark all items that had arrived in a stream by `ts` as read."""
        text = call.params.text("ts")
        before = None if text is None else microseconds(text) + 1
        name = call.params.need("s", "the stream to mark")  # a request that was cut mustn't mark everything
        query = StreamQuery(stream_of(name), _ALL, before=before, without=(_READ,))
        rows, _ = await self.streams.page(call.user, call.channels, query, call.now)
        if rows:
            await self._read_state.mark(call.user, GLOBAL, [row.id for row in rows], "read", call.now)
        return OK

    async def _take_off(self, user: str, uid: str, uids: Sequence[str], ids: Sequence[str], now: float) -> None:
        """Take items out of a channel; those that no other channel shows move to the first that follows their feed."""
        there = await in_channels(self.redis, user, [uid], ids, "posts")
        others = [one for one in uids if one != uid]
        elsewhere = await in_channels(self.redis, user, [*others, NOTIFICATIONS], list(there), "posts")
        if some := [item for item in ids if item in elsewhere]:
            await take_out(self.redis, user, uid, some, Leaving(Reason.MOVED, removed_too=False), now)
        last = [item for item in ids if item in there - elsewhere]
        follows = await self.channels.all_subscriptions(user) if last else {}
        rows = await self.items.fields(last, ["feed"])
        first = {one.feed: home for home, some in reversed(follows.items()) if home in uids for one in some}
        homes: dict[str, list[str]] = {}
        for item, (feed,) in zip(last, rows, strict=True):
            homes.setdefault(first.get((feed or b"").decode(), others[0] if others else uid), []).append(item)
        for home, moved in homes.items():
            if home != uid:
                await move_items(self.redis, self.items, user, home, moved, now)


def _labels(tags: Sequence[StreamName]) -> list[str]:
    return [tag.value for tag in tags if tag.kind == "label"]


_POST = frozenset({"POST"})
