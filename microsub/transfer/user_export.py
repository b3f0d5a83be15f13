"""Export of all data of a user as lines of JSON (`records`), written in pieces of limited size.

Posts are ordered by id, so that posts of one poll stay together and are imported in their order. Posts that arrive
during the export may be missing from it. Tokens, passwords and sessions aren't exported.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

import microsub
from microsub.base.plaintext import escaped_json
from microsub.base.urls import sign_in_of, without_sign_in
from microsub.configuration.model import SourceConfig, encode
from microsub.formats.wire import identified
from microsub.model.reader import GLOBAL, KeptSearch, episodes_in
from microsub.posts import AUTOMATIC, FULL, FULL_OF
from microsub.redis.replies import text
from microsub.timelines import LAST_CHOICE, READ_EVERYWHERE, absences, states
from microsub.transfer.records import (
    ExportedAbsences,
    ExportedChannel,
    ExportedFeed,
    ExportedFollow,
    ExportedItems,
    ExportedOutput,
    ExportedOutputItems,
    ExportedPost,
    ExportedReading,
    ExportedRules,
    ExportedSource,
    ExportEnd,
    ExportHeader,
    ExportRecord,
)
from microsub.web.display import Display
from microsub.web.services import services_in

if TYPE_CHECKING:
    from microsub.accounts import User
    from microsub.feeds import Feeds, OutputStore, SourceStore
    from microsub.model.reader import Channel
    from microsub.posts import Items
    from microsub.redis.protocol import Redis
    from microsub.timelines import Absence, ChannelDisplays, Channels, Rules

T = TypeVar("T")

_BATCH = 200
_BATCH_BYTES = 1_000_000
"""Posts are read and encoded together up to this size."""
OWN_FIELDS = frozenset(
    {
        *("ID", "feed", "guid", "score", "discovered", "updated", "Published", "hash", "author", "link", "Data"),
        *("incomplete", "version", "confirmed", "untold", "asked", "condemned", "twin", "twin_at"),
        *("was", "became", "copy", FULL, FULL_OF, AUTOMATIC),
    }
)
"""The fields of an item that ingest writes; all others were added when it was saved."""


@dataclass(eq=False, repr=False)
class UserExport:
    """Writes exports."""

    redis: Redis
    channels: Channels
    rules: Rules
    feeds: Feeds
    items: Items
    outputs: OutputStore
    sources: SourceStore
    displays: ChannelDisplays

    async def lines(self, user: User, instance: str, now: float) -> AsyncIterator[bytes]:
        """The lines of a user's export, with their ends; `instance` names this server's data."""
        count = 0
        async for record in self._records(user, instance, now):
            count += 1
            yield record if isinstance(record, bytes) else encoded(record)
        yield encoded(ExportEnd(count + 1))

    async def _ends(self, user: str, uid: str, muted: Sequence[str]) -> dict[str, float]:
        ends = await self.rules.ends(user, [(uid, url) for url in muted])
        return {url: end for url, end in zip(muted, ends, strict=True) if end is not None}

    async def _records(self, user: User, instance: str, now: float) -> AsyncIterator[ExportRecord | bytes]:
        moment = datetime.fromtimestamp(int(now), UTC).isoformat()
        yield ExportHeader(user.name, instance, moment, microsub.__version__, user.me)
        channels = await self.channels.list(user.name)
        rules = await self.rules.of_channels(user.name, [GLOBAL, *(channel.uid for channel in channels)])
        for channel in channels:
            mute, block = map(tuple, rules[channel.uid])
            ends = await self._ends(user.name, channel.uid, mute)
            yield ExportedChannel(channel.uid, channel.name, encode(channel.settings), mute, block, ends)
        mute, block = map(tuple, rules[GLOBAL])
        yield ExportedRules(mute, block, await self._ends(user.name, GLOBAL, mute), encode(user.filters))
        yield await self._reading(user, channels)
        named: set[str] = set()
        async for record in self._follows(user.name, channels, named):
            yield record
        ids, left = await self._ids(user.name, channels)
        posts: set[int] = set()
        async for line in self._posts(sorted(ids | left), named, posts):
            yield line
        for channel in channels:
            async for states_ in states(self.redis, user.name, channel.uid):
                known = [one for one in states_ if int(one[0]) in posts]
                if known:
                    yield ExportedItems(channel.uid, tuple(known))
        tombstones = await self._tombstones(named, left - posts)
        async for record in self._absences(user.name, channels, posts, tombstones, int(now)):
            yield record
        async for record in self._output_feeds(user.name, posts):
            yield record
        for source, uid in await self.sources.with_channels(user.name):
            if uid is not None:
                yield ExportedSource(source.id, encode(SourceConfig(uid, source.name)))

    async def _reading(self, user: User, channels: Sequence[Channel]) -> ExportedReading:
        places = {GLOBAL, *(channel.uid for channel in channels)}
        display, views = user.settings.get("display", ""), await self.displays.all(user.name)
        return ExportedReading(
            asdict(Display.read(display)) if display else {},
            {uid: asdict(view) for uid, view in views.items() if uid in places | {LAST_CHOICE}},
            tuple(one for one in KeptSearch.read(user.settings.get("searches", "")) if one.uid in places),
            user.settings.get(READ_EVERYWHERE) == "yes",
            episodes_in(user.settings.get("playing", "")),
            orjson.loads(user.settings.get("shortcuts") or "{}"),
            tuple((one.name, one.address) for one in services_in(user.settings.get("services", ""))),
        )

    async def _follows(self, user: str, channels: Sequence[Channel], named: set[str]) -> AsyncIterator[ExportRecord]:
        everywhere = await self.channels.all_subscriptions(user)
        for channel in channels:
            since = await self.channels.unread_from(user, channel.uid)
            followed = everywhere.get(channel.uid, [])
            for start in range(0, len(followed), _BATCH):
                some = followed[start : start + _BATCH]
                # A feed that moved to another origin has lost its sign-in, but has posts from before.
                signed = {one.feed for one in some if sign_in_of(one.url) is not None}
                async for feed in self._named([one.feed for one in some], named, signed):
                    yield feed
                for one in some:
                    own = (one.name, since.get(one.feed), encode(one.settings))
                    yield ExportedFollow(channel.uid, one.feed, without_sign_in(one.url), one.followed_at, *own)

    async def _named(
        self, feeds: Iterable[str], named: set[str], signed: Collection[str] = ()
    ) -> AsyncIterator[ExportedFeed]:
        """Lines for feeds that have none yet; `signed` are followed with a sign-in, whatever their address is now."""
        new = [feed for feed in dict.fromkeys(feeds) if feed and feed not in named]
        records = await self.feeds.get_many(new) if new else {}
        for feed in new:
            named.add(feed)
            if (found := records.get(feed)) is not None:
                url, said = without_sign_in(found.url), (found.title, found.photo, found.home, found.description)
                yield ExportedFeed(feed, url, *said, signed_in=url != found.url or feed in signed)

    async def _ids(self, user: str, channels: Sequence[Channel]) -> tuple[set[int], set[int]]:
        """The ids in the user's channels and output feeds, and those that have left a channel."""
        there: set[int] = set()
        left: set[int] = set()
        for channel in channels:
            async for some in states(self.redis, user, channel.uid):
                there.update(int(item) for item, _ in some)
            async for gone in absences(self.redis, user, channel.uid):
                left.update(int(item) for item, _ in gone)
        async for ids in self.outputs.references(user):
            there.update(map(int, ids))
        return there, left

    async def _posts(self, ids: Sequence[int], named: set[str], posts: set[int]) -> AsyncIterator[ExportRecord | bytes]:
        """Posts as lines, encoded beside the event loop, because one may have megabytes; and their feeds."""
        for start in range(0, len(ids), _BATCH):
            texts = [str(one) for one in ids[start : start + _BATCH]]
            for some in by_bytes(texts, await self.items.sizes(texts), _BATCH_BYTES):
                rows = dict(zip(some, await self.items.raw(some), strict=True))
                rows = {one: row for one, row in rows.items() if row.get(b"score")}
                async for feed in self._named([text(row[b"feed"]) for row in rows.values()], named):
                    yield feed
                posts.update(map(int, rows))
                lines = await asyncio.to_thread(lambda there: [_line(*one) for one in there.items()], rows)
                del rows
                for line in lines:
                    yield line

    async def _tombstones(self, feeds: Iterable[str], ids: set[int]) -> Mapping[int, tuple[str, str]]:
        """Feed and guid of deleted posts, as their feeds remember them."""
        found: dict[int, tuple[str, str]] = {}
        for feed in feeds if ids else ():
            async for guids in self.items.guids(feed):
                found |= {item: (feed, guid) for guid, item in guids.items() if item in ids}
            departed = await self.items.departed(feed)
            found |= {item: (feed, guid) for guid, item in departed.items() if item in ids}
        return found

    async def _absences(
        self,
        user: str,
        channels: Sequence[Channel],
        posts: set[int],
        tombstones: Mapping[int, tuple[str, str]],
        now: int,
    ) -> AsyncIterator[ExportRecord]:
        for channel in channels:
            async for gone in absences(self.redis, user, channel.uid):
                rows = [row for one in gone if (row := _absence(one, posts, tombstones, now)) is not None]
                if rows:
                    yield ExportedAbsences(channel.uid, tuple(rows))

    async def _output_feeds(self, user: str, posts: set[int]) -> AsyncIterator[ExportRecord]:
        for feed in await self.outputs.all_of(user):
            yield ExportedOutput(feed.name, encode(feed.settings))
            start = 0
            while some := await self.outputs.items(feed, _BATCH, start):
                start += len(some)
                known = [one for one in some if int(one.id) in posts]
                if known:
                    rows = (
                        (one.id, one.published, one.imported, one.edited, one.impressions, tuple(one.times))
                        for one in known
                    )
                    yield ExportedOutputItems(feed.name, tuple(rows))


def _absence(
    one: Absence, posts: set[int], tombstones: Mapping[int, tuple[str, str]], now: int
) -> tuple[str, str, str, int, int] | None:
    """The fields of an absence; None for a post that no feed remembers, because it can't return."""
    item = int(one.id)
    if item in posts:
        return one.id, "", "", now, int(one.reason)
    if item in tombstones:
        return "", *tombstones[item], now, int(one.reason)
    return None


def by_bytes(things: Sequence[T], sizes: Iterable[int], most: int) -> Iterator[list[T]]:
    """Consecutive things together up to `most` bytes, and a larger one alone."""
    some: list[T] = []
    together = 0
    for thing, size in zip(things, sizes, strict=True):
        if some and together + size > most:
            yield some
            some, together = [], 0
        some.append(thing)
        together += size
    if some:
        yield some


def _line(item_id: str, fields: Mapping[bytes, bytes]) -> bytes:
    """The line of a post. Its JSON isn't parsed but copied, because it may have megabytes."""
    row = {text(name): value for name, value in fields.items()}
    wire, full = row.pop("Data"), row.pop(FULL, b"")
    known = {name: text(value) for name, value in row.items()}
    own = identified(b"}", item_id, known["feed"])
    if wire.endswith(own):
        jf2: Any = orjson.Fragment(wire[: -len(own)] + b"}")
    else:
        jf2 = {name: value for name, value in orjson.loads(wire).items() if name not in {"_id", "_source"}}
    extra = {name: value for name, value in known.items() if name not in OWN_FIELDS}
    score, link = float(known["score"]), known.get("link", "")
    article: dict[str, Any] = {}
    with suppress(ValueError):  # a corrupt one was logged when it was unpacked
        article = {**orjson.loads(full), **({"automatic": True} if AUTOMATIC in known else {})} if full else {}
    return encoded(ExportedPost(item_id, known["guid"], score, known["hash"], jf2, known["feed"], link, extra, article))


def encoded(record: ExportRecord) -> bytes:
    """A line, which begins with its type; empty fields are left out."""
    said = {name: value for name in record.__slots__ if (value := getattr(record, name)) not in (None, (), {}, "")}
    kind = said.pop("type")
    line = orjson.dumps({"type": kind, **said})
    plain = line.decode()
    safe = escaped_json(plain)
    return (line if safe == plain else safe.encode()) + b"\n"
