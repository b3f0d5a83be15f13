"""Undo records: posts that the user marked as read together, an ended follow, or changed follows, for ten minutes.

Each user has up to `RECORDS` of them, which together take no more memory than `MOST` posts or the latest alone, so that
several marks in a row can be undone one after the other. A record stores a follow itself, so that a form can't bring
back a feed by an id that anybody could guess.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import struct
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from microsub.base.texts import N_
from microsub.model.reader import Channel, Subscription
from microsub.posts import within
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import text
from microsub.redis.structures import Hash, together
from microsub.timelines import ReadState, States, read_subscription, write_subscription
from microsub.web.visit import PageVisit

SECONDS = 600
MOST = 500_000
"""Maximum number of posts that a user can undo, one in several channels as several: 4 MB for ten minutes."""

RECORDS = 20
"""Maximum number of records of a user."""

NO_MORE = N_("This can no longer be undone.")
LATE = "late"
"""The name in an address of an undo that came too late."""

_NAME = re.compile(r"[0-9a-f]{16}")

_ITEM = struct.Struct("<q")
"""The id of a post."""

_STATE = struct.Struct("<qI")
"""The id of a post, and the time when it was read, 0 for an unread one."""


@dataclass(frozen=True, slots=True)
class UndoRecord:
    """The name of an undo record, the number of its posts, and the name of the channel or feed that was marked."""

    id: str
    count: int
    place: str = ""
    fields: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)
    """Its further fields."""


class UndoRecords:
    """Keeps the records of each user."""

    def __init__(self, redis: Redis, read_state: ReadState) -> None:
        self._at = Hash.at(redis, keys.undo, SECONDS)
        self._records = Hash.at(redis, keys.undo_records, SECONDS)
        self._read_state = read_state

    async def remember(self, user: str, marked: Mapping[str, Collection[str]], place: str = "") -> UndoRecord | None:
        """Record posts that were marked as read, by channel; None for none or too many.

        `place` is the name of the channel or feed that was marked as a whole.
        """
        count = len(set[str]().union(*marked.values()))
        is_kept = 0 < sum(map(len, marked.values())) <= MOST
        return await self._keep(user, count, _packed(marked), place) if is_kept else None

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
        """Store what became of the changed follows in that record; a lost one comes back."""
        record, id_ = self._at(user, kept.id), kept.id
        is_told = await record.change(("id", id_, id_), ("told", kept.fields["told"], told))
        if not is_told and await record.change(("id", "", id_)):
            await record.overwrite({"id": id_, "count": kept.count, **kept.fields, "told": told}, id_)

    async def changed_feeds(self, user: str, id_: str) -> tuple[bytes, list[tuple[str, Subscription]]] | None:
        """What became of changed follows (b"" if there are none), and the follows as they were before."""
        told, follows = await self._of(user, id_, "told", "feeds")
        if follows is None:
            return None
        before = orjson.loads(follows)
        key = keys.undo(user, id_)
        return told or b"", [(uid, read_subscription(key, feed, one.encode())) for uid, feed, one in before]

    async def states(self, user: str, id_: str) -> dict[str, dict[str, dict[str, float | None]]]:
        """The states of posts in that record, by feed and channel."""
        found: dict[str, dict[str, dict[str, float | None]]] = {}
        for name, rows in (await self._all(user, id_)).items():
            if name.startswith("was "):
                _, feed, uid = name.split(" ")
                found.setdefault(feed, {})[uid] = {str(item): at or None for item, at in _STATE.iter_unpack(rows)}
        return found

    async def _keep(self, user: str, count: int, fields: Mapping[str, bytes], place: str | None = None) -> UndoRecord:
        record = UndoRecord(secrets.token_hex(8), count, place or "", fields)
        marks = {} if place is None else {"name": place}
        size, listed = sum(map(len, fields.values())), self._records(user)
        now = time.time()
        _, (_, rows) = await asyncio.gather(
            self._at(user, record.id).overwrite({"id": record.id, "count": count, **marks, **fields}),
            together(listed.set({record.id: f"{now} {size}"}), listed.all()),
        )
        if (latest := max(float(text(row).split()[0]) for row in rows.values())) > now:  # the clock was put back
            rows[record.id] = f"{latest + 1} {size}".encode()
            await listed.set({record.id: rows[record.id]})
        names, sizes = _latest(rows)
        if ended := names[min(RECORDS, within(sizes, MOST * _ITEM.size)) :]:
            await together(listed.delete(*ended), *(self._at(user, name).clear() for name in ended))
        return record

    async def _of(self, user: str, id_: str, *names: str) -> list[bytes | None]:
        """Values of the record of that name, a name that a form gives."""
        return await self._at(user, id_).get_many(names) if _NAME.fullmatch(id_) else [None] * len(names)

    async def _all(self, user: str, id_: str) -> dict[str, bytes]:
        return await self._at(user, id_).all() if _NAME.fullmatch(id_) else {}

    async def find(self, user: str, id_: str) -> UndoRecord | None:
        """The undo record of marks that has that name, unless it has expired."""
        count, place = await self._of(user, id_, "count", "name")
        return UndoRecord(id_, int(count or 0), text(place)) if place is not None else None

    async def before(self, user: str, id_: str) -> UndoRecord | None:
        """The latest undo record of marks that were made before that one, unless all have expired."""
        listed, _ = _latest(await self._records(user).all())
        for earlier in listed[listed.index(id_) + 1 :] if id_ in listed else ():
            if (found := await self.find(user, earlier)) is not None:
                return found
        return None

    async def ended_follow(self, user: str, uid: str, id_: str) -> Subscription | None:
        """The ended follow of that channel that this name can restore."""
        (follow,) = await self._of(user, id_, f"follow {uid}")
        if not follow:
            return None
        feed, _, value = follow.partition(b" ")
        return read_subscription(keys.undo(user, id_), text(feed), value)

    async def remember_name(self, user: str, channel: Channel, name: str) -> UndoRecord:
        """Record the name that a channel has, before it gets that one."""
        return await self._keep(user, 0, {f"name {channel.uid}": orjson.dumps([channel.name, name])})

    async def former_name(self, user: str, channel: Channel, id_: str) -> str:
        """The name that the channel had by that record; empty if there is none, or it has another name by now."""
        (names,) = await self._of(user, id_, f"name {channel.uid}")
        former, name = orjson.loads(names) if names else ("", "")
        return former if name == channel.name else ""

    async def undo(self, user: str, id_: str, now: float) -> int:
        """Mark the record's posts as unread; returns their number. Posts that have left the channel stay away."""
        kept = await self._all(user, id_)
        count = await self._read_state.mark_again(user, _posts(kept), now)
        # Only now: a browser repeats the request if this process dies before its reply.
        if "name" in kept and count:
            await self._at(user, id_).overwrite({"undone": count, "of": kept["name"]})
        elif "name" in kept:  # of two undos at once, the other one says what it undid
            await self._at(user, id_).change(("name", kept["name"], ""))
        elif _NAME.fullmatch(id_):
            await self._at(user, id_).clear()
        return count

    async def said(self, visit: PageVisit) -> tuple[str, str]:
        """What the page's address names as undone and as marked, in sentences; and the record that can be undone."""
        name, undone = visit.query.get("undo", ""), visit.query.get("undone", "")
        record, (count, place) = await asyncio.gather(
            self.find(visit.user, name), self._of(visit.user, undone, "undone", "of")
        )
        texts = []
        if count is not None:
            texts.append(undone_text(visit, UndoRecord(undone, int(count), text(place or b"")), record))
        elif undone == LATE:
            texts.append(visit.translate(NO_MORE))
        if record is not None:
            texts.append(marked_text(visit, record))
        return " ".join(texts), record.id if record is not None else ""

    async def posts(self, user: str, id_: str) -> dict[str, list[str]]:
        """The ids of the record's posts by channel; nothing if there is no such record any more."""
        return _posts(await self._all(user, id_))


def marked_text(visit: PageVisit, record: UndoRecord) -> str:
    """The sentence about marked posts, which names the channel or feed that was marked as a whole."""
    count, place = record.count, record.place
    if place:
        return visit.translate_count(
            N_("%(num)s post marked as read in %(channel)s."),
            N_("%(num)s posts marked as read in %(channel)s."),
            count,
            channel=place,
        )
    return visit.translate_count(N_("%(num)s post marked as read."), N_("%(num)s posts marked as read."), count)


def undone_text(visit: PageVisit, record: UndoRecord, before: UndoRecord | None) -> str:
    """The sentence about posts whose marks were undone; it leads to that about the marks before these."""
    count, place = record.count, record.place
    said = visit.translate_count(N_("%(num)s post marked as unread."), N_("%(num)s posts marked as unread."), count)
    if place:
        said = visit.translate_count(
            N_("%(num)s post marked as unread in %(channel)s."),
            N_("%(num)s posts marked as unread in %(channel)s."),
            count,
            channel=place,
        )
    return said if before is None else " ".join((said, visit.translate(N_("Before that:"))))


def _packed(marked: Mapping[str, Collection[str]]) -> dict[str, bytes]:
    return {f"in {uid}": struct.pack(f"<{len(ids)}q", *map(int, ids)) for uid, ids in marked.items()}


def _posts(kept: Mapping[str, bytes]) -> dict[str, list[str]]:
    packed = {name.removeprefix("in "): ids for name, ids in kept.items() if name.startswith("in ")}
    return {uid: [str(item) for (item,) in _ITEM.iter_unpack(ids)] for uid, ids in packed.items()}


def _latest(rows: Mapping[str, bytes]) -> tuple[list[str], list[int]]:
    """The names of the listed records, the latest first, and the bytes of each."""
    parts = [(name, *text(row).split()) for name, row in rows.items()]
    listed = sorted(((float(at), int(size), name) for name, at, size in parts), reverse=True)
    return [name for *_, name in listed], [size for _, size, _ in listed]
