"""Undo records: posts that the user marked as read together, an ended follow, or changed follows, for ten minutes.

Each user has only one record, with at most `MOST` posts. It stores a follow itself, so that a form can't bring back a
feed by an id that anybody could guess.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from microsub.model.reader import Subscription
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import text
from microsub.redis.structures import Hash
from microsub.timelines import ReadState, States, read_subscription, write_subscription

SECONDS = 600
MOST = 500_000
"""Maximum number of posts that can be undone together: 4 MB for ten minutes."""

_STATE = struct.Struct("<qI")
"""The id of a post, and the time when it was read, 0 for an unread one."""


@dataclass(frozen=True, slots=True)
class UndoRecord:
    """The name of an undo record, and the number of its posts."""

    id: str
    count: int
    fields: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)
    """Its further fields."""


class UndoRecords:
    """Keeps the record of each user."""

    def __init__(self, redis: Redis, read_state: ReadState) -> None:
        self._record = Hash.at(redis, keys.undo, SECONDS)
        self._read_state = read_state

    async def remember(self, user: str, marked: Mapping[str, Collection[str]], place: str = "") -> UndoRecord | None:
        """Replace the record by posts that were marked as read, by channel; None for none or too many.

        `place` is the channel that was marked as a whole.
        """
        count = len(set[str]().union(*marked.values()))
        is_kept = 0 < sum(map(len, marked.values())) <= MOST
        whole = {"place": place.encode()} if place else {}
        return await self._keep(user, count, whole | _packed(marked)) if is_kept else None

    async def place(self, user: str, id_: str) -> str:
        """The channel that was marked as a whole, empty for none."""
        kept, place = await self._record(user).get_many(("id", "place"))
        return text(place or b"") if kept == id_.encode() else ""

    async def remember_follow(self, user: str, uid: str, ended: Subscription, unread: Collection[str]) -> UndoRecord:
        """Record an ended follow of the channel, with its unread posts unless there are too many."""
        kept = unread if len(unread) <= MOST else ()
        follow = {f"follow {uid}": ended.feed.encode() + b" " + write_subscription(ended)}
        return await self._keep(user, len(kept), follow | _packed({uid: kept}))

    async def remember_feeds(
        self,
        user: str,
        before: Sequence[tuple[str, Subscription]],
        unread: Mapping[str, Collection[str]],
        states: Mapping[str, States] | None = None,
        *,
        told: bytes,
    ) -> UndoRecord:
        """Record follows of channels as they are before a change, with the unread posts of those that end.

        `states` are those of the posts of feeds that leave several channels, by feed; too many are left out. `told` is
        what `changed_feeds` returns until `tell`, so that a change can be undone whose end was never told.
        """
        kept = unread if sum(map(len, unread.values())) <= MOST else {}
        follows = [[uid, one.feed, text(write_subscription(one))] for uid, one in before]
        fields = {"feeds": orjson.dumps(follows), "told": told} | _packed(kept)
        channels = {f"was {feed} {uid}": some for feed, of in (states or {}).items() for uid, some in of.items()}
        if sum(map(len, channels.values())) <= MOST:
            for name, some in channels.items():
                fields[name] = b"".join(_STATE.pack(int(item), int(at or 0)) for item, at in some.items())
        return await self._keep(user, sum(map(len, kept.values())), fields)

    async def tell(self, user: str, kept: UndoRecord, told: bytes) -> None:
        """Store what became of the changed follows in that record, if there is no later one; a lost one comes back."""
        record, id_ = self._record(user), kept.id
        is_told = await record.change(("id", id_, id_), ("told", kept.fields["told"], told))
        if not is_told and await record.change(("id", "", id_)):
            await record.overwrite({"id": id_, "count": kept.count, **kept.fields, "told": told}, id_)

    async def changed_feeds(self, user: str, id_: str) -> tuple[bytes, list[tuple[str, Subscription]]] | None:
        """What became of changed follows (b"" if there are none), and the follows as they were before."""
        kept, told, follows = await self._record(user).get_many(("id", "told", "feeds"))
        if not id_ or kept != id_.encode() or follows is None:
            return None
        before = orjson.loads(follows)
        return told or b"", [(uid, read_subscription(keys.undo(user), feed, one.encode())) for uid, feed, one in before]

    async def states(self, user: str, id_: str) -> dict[str, dict[str, dict[str, float | None]]]:
        """The states of posts in that record, by feed and channel."""
        kept = await self._record(user).all()
        if kept.get("id") != id_.encode():
            return {}
        found: dict[str, dict[str, dict[str, float | None]]] = {}
        for name, rows in kept.items():
            if name.startswith("was "):
                _, feed, uid = name.split(" ")
                found.setdefault(feed, {})[uid] = {str(item): at or None for item, at in _STATE.iter_unpack(rows)}
        return found

    async def _keep(self, user: str, count: int, fields: Mapping[str, bytes]) -> UndoRecord:
        record = UndoRecord(secrets.token_hex(8), count, fields)
        await self._record(user).overwrite({"id": record.id, "count": count, **fields})
        return record

    async def find(self, user: str, id_: str) -> UndoRecord | None:
        """The undo record of that name, unless it has expired."""
        if not id_:
            return None
        kept, count = await self._record(user).get_many(("id", "count"))
        return UndoRecord(id_, int(count or 0)) if kept == id_.encode() else None

    async def ended_follow(self, user: str, uid: str, id_: str) -> Subscription | None:
        """The ended follow of that channel that this name can restore."""
        kept, follow = await self._record(user).get_many(("id", f"follow {uid}"))
        if not id_ or kept != id_.encode() or not follow:
            return None
        feed, _, value = follow.partition(b" ")
        return read_subscription(keys.undo(user), text(feed), value)

    async def undo(self, user: str, id_: str, now: float) -> int:
        """Mark the record's posts as unread; returns their number. Posts that have left the channel stay away."""
        count = await self._read_state.mark_again(user, await self.posts(user, id_), now)
        # Only now: a browser repeats the request if this process dies before its reply.
        if id_:
            await self._record(user).overwrite({}, id_)
        return count

    async def posts(self, user: str, id_: str) -> dict[str, list[str]]:
        """The ids of the record's posts by channel; nothing if another record has replaced this one."""
        kept = await self._record(user).all()
        if kept.pop("id", b"") != id_.encode():
            return {}
        packed = {name.removeprefix("in "): ids for name, ids in kept.items() if name.startswith("in ")}
        return {uid: [str(item) for (item,) in struct.iter_unpack("<q", ids)] for uid, ids in packed.items()}


def _packed(marked: Mapping[str, Collection[str]]) -> dict[str, bytes]:
    return {f"in {uid}": struct.pack(f"<{len(ids)}q", *map(int, ids)) for uid, ids in marked.items()}
