"""Import from the older Go server: channels and their order, feeds, posts, read state.

An import can be repeated: existing channels, feeds and posts stay, posts that were read there become read here, and
nothing that was read here becomes unread. A post of a feed gets the identity that a poll would give it, and is stored
before the feed is polled; so the first poll recognises it.

A feed is followed after its posts are stored, and polled after they are in the timeline. So they keep their state; the
first fill of a new feed would mark most of them as read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import orjson

from microsub.base.errors import ConfigError, InvalidRequest, ParseError
from microsub.configuration.document import examine
from microsub.configuration.facts import Change, ChangeKind
from microsub.configuration.legacy import channel_uids
from microsub.configuration.model import ChannelConfig, UserConfig
from microsub.formats.dates import from_text
from microsub.model.jf2 import Entry, Feed
from microsub.model.reader import NOTIFICATIONS
from microsub.posts import PostWriter, items_to_store, scores_of, settled
from microsub.timelines import ReadState
from microsub.transfer import ChannelImport, ImportReport, Skipped
from microsub.transfer.ekster import OLD_POST, source_among
from microsub.transfer.foreign_posts import ReaderPost

if TYPE_CHECKING:
    from microsub.accounts import Accounts
    from microsub.configuration.facts import UserChanges
    from microsub.feeds import FeedRecord, Feeds, Schedule
    from microsub.model.settings import SettingsOf
    from microsub.parsing.pool import ParsePool
    from microsub.posts import Imported, Items, ItemToStore
    from microsub.redis.protocol import Redis
    from microsub.timelines import Adder, Channels
    from microsub.transfer.ekster.store import OldDatabase, OldItem

BATCH = 250
"""How many posts are read, converted and written together."""

_FILL = 1000
_ORDER = "order"
"""The member of `keys.imported` that records that the channels were put in their old order, which happens once."""


OldFile = tuple[UserConfig, Mapping[str, str], tuple[str, ...]]
"""The old server's backend.json: its user, their channels by the uid in its database, and sentences about settings that
can't be imported.
"""


def read_old(body: bytes, file: str, environ: Mapping[str, str]) -> OldFile:
    """Read the file. Raises ConfigError if it is invalid or isn't the old server's."""
    report = examine(body, file, environ)
    if report.document is None:
        raise report.problems[0]
    if not report.document.legacy:
        raise ConfigError(file=file, path="", found="the current form", expected="the backend.json of the old server")
    (user,) = report.document.backend.users.values()
    return user, channel_uids(orjson.loads(body)), report.warnings


@dataclass(eq=False, repr=False)
class Importing:
    """Imports into the stores. Times are Unix seconds."""

    redis: Redis
    accounts: Accounts
    channels: Channels
    feeds: Feeds
    items: Items
    adder: Adder
    schedule: Schedule
    imported: Imported
    channel_settings: SettingsOf
    people: UserChanges
    parser: ParsePool

    async def run(
        self, user: str, file: OldFile, source: OldDatabase, now: float, *, dry_run: bool = False
    ) -> ImportReport:
        """Import file and database for the user of that name, who is created if missing.

        Raises InvalidRequest if the name is invalid, if another user already has the file's URL, or if the database has
        nothing of that server.
        """
        old, uids, warnings = file
        if await source.is_empty([*uids, NOTIFICATIONS]):
            raise InvalidRequest(
                "nothing of ekster is in that Redis: it has neither 'channels' nor posts of the file's channels; check "
                "the URL, and the number of the database at its end"
            )
        report = ImportReport(user, dry_run, notes=list(warnings))
        wanted = _with_notifications(old)
        if await self.accounts.user(user) is None:
            await self.people.vet(made := Change(ChangeKind.USER_ADDED, user, value=old.me))
            if not dry_run:
                await self.people.apply(made, now)
        there = {uid: before for before, uid in uids.items()} | {NOTIFICATIONS: NOTIFICATIONS}
        feeds = list(dict.fromkeys(feed.url for channel in wanted for feed in channel.feeds))
        order = await _in_order(wanted, source, uids)
        usable = []
        for channel in order:
            if dry_run or await self._channel(user, channel, report, now):
                usable.append(channel)
        if not dry_run and await self.imported.missing(user, _ORDER, [_ORDER]):
            await self.channels.order(user, [channel.uid for channel in usable])
            await self.imported.arrived(user, _ORDER, [_ORDER])
        for channel in usable:
            counted = ChannelImport(channel.uid, channel.name, len(channel.feeds))
            report.channels.append(counted)
            before = there.get(channel.uid, channel.uid)
            await self._posts(user, channel, before, feeds, source, counted, report, now)
        stray = sorted(set(await source.channels()) - uids.keys() - {NOTIFICATIONS})
        if stray:
            report.notes.append(f"channels in the database but not in the file: {', '.join(stray)}")
        return report

    async def _channel(self, user: str, channel: ChannelConfig, report: ImportReport, now: float) -> bool:
        """Create the channel, or find it."""
        if channel.uid != NOTIFICATIONS:
            try:
                made = await self.channels.create(user, channel.name, now, channel.uid)
            except InvalidRequest as error:
                report.notes.append(f"channel {channel.uid}: {error}; left out")
                return False
            if channel.settings.filters and not made.settings.filters:
                settings = replace(made.settings, filters=channel.settings.filters)
                await self.channels.set_settings(user, channel.uid, settings, now)
        return True

    async def _posts(
        self,
        user: str,
        channel: ChannelConfig,
        before: str,
        feeds: Sequence[str],
        source: OldDatabase,
        counted: ChannelImport,
        report: ImportReport,
        now: float,
    ) -> None:
        """Import all posts of one channel, then its follows."""
        arrived: dict[str, list[str]] = {}  # the item ids, by feed URL
        read: list[str] = []
        own = [feed.url for feed in channel.feeds]
        undated = 0
        async for batch in _batches(source, before):
            found = await _converted(self.parser, batch, before, own, feeds, counted, report)
            undated = _place_undated(found, now, undated)
            if report.dry_run:
                continue
            by_feed: dict[str, list[ReaderPost]] = {}
            for one in found:
                by_feed.setdefault(one.feed, []).append(one)
            for url, posts in by_feed.items():
                if not url:
                    await self._own(user, channel.uid, posts, counted, now)
                else:
                    await self._of_feed(url, posts, arrived, read, counted, now)
        if not report.dry_run:
            await self._arrive(user, channel, arrived, read, now)

    async def _of_feed(
        self,
        url: str,
        posts: Sequence[ReaderPost],
        arrived: dict[str, list[str]],
        read: list[str],
        counted: ChannelImport,
        now: float,
    ) -> None:
        """Store posts that the feed doesn't have yet; its other followers don't get them as new posts.

        Adds the ids of all of them to `arrived`, and those of read ones to `read`.
        """
        record = await self.feeds.ensure(url, now)
        candidates = _to_store(posts, url, now)
        wanted = {to_store.guid: to_store for to_store in candidates}
        read_there = {to_store.guid for post, to_store in zip(posts, candidates, strict=True) if post.read}
        known = await self.imported.claims(record.id, list(wanted))
        counted.known += len(known)
        new = [to_store for guid, to_store in wanted.items() if guid not in known]
        if new:
            await PostWriter(self.redis).write_missing(record, new, now)
            known = await self.imported.claims(record.id, list(wanted))
        arrived.setdefault(url, []).extend(known.values())
        read += [item_id for guid, item_id in known.items() if guid in read_there]

    async def _own(self, user: str, uid: str, posts: Sequence[ReaderPost], counted: ChannelImport, now: float) -> None:
        """Add posts of no feed directly to their channel."""
        missing = set(await self.imported.missing(user, uid, [post.id for post in posts]))
        counted.known += len(posts) - len(missing)
        due = [post for post in posts if post.id in missing]
        ids = await self.imported.ids(user, [post.id for post in due])
        candidates = dict(zip((ids[post.id] for post in due), _to_store(due, "", now), strict=True))
        await self.imported.write(candidates, now)
        limit = (await self.channel_settings(user, uid)).max_items or 0
        items = {item.id: item for item in await self.items.timeline_items(list(candidates))}
        for item_id in candidates:
            await self.adder.put(user, uid, items[item_id], now, limit, unfiltered=True)
        read = [ids[post.id] for post in due if post.read]
        if read:
            await ReadState(self.redis, self.items).mark(user, uid, read, "read", now)
        await self.imported.arrived(user, uid, [post.id for post in due])

    async def _arrive(
        self, user: str, channel: ChannelConfig, arrived: Mapping[str, Sequence[str]], read: Sequence[str], now: float
    ) -> None:
        """Follow the channel's feeds, after their posts, and schedule their polls."""
        limit = (await self.channel_settings(user, channel.uid)).max_items or 0
        names = {feed.url: feed.name for feed in channel.feeds}
        for url in dict.fromkeys([*names, *arrived]):
            record = await self.feeds.ensure(url, now)
            ids = arrived.get(url, ())
            items = sorted(await self.items.timeline_items(ids), key=lambda item: float(item.score), reverse=True)
            if url not in names:
                # Another channel's filter had moved it here.
                for item in items:
                    await self.adder.put(user, channel.uid, item, now, limit, unfiltered=True)
                continue
            await self.channels.follow(user, channel.uid, record.id, url, now, names[url])
            for start in range(0, len(items), _FILL):
                batch = items[start : start + _FILL]
                await self.adder.add(
                    user, channel.uid, record.id, batch, now=now, limit=limit, fresh=_FILL, unfiltered=True
                )
            await self._begin(user, channel.uid, record, now)
        for start in range(0, len(read), _FILL):
            await ReadState(self.redis, self.items).mark(user, channel.uid, read[start : start + _FILL], "read", now)
        for url in names:
            record = await self.feeds.ensure(url, now)
            if not record.gone:
                await self.schedule.add(record.id, record.poll_host, record.due(now))

    async def _begin(self, user: str, uid: str, record: FeedRecord, now: float) -> None:
        """Add the channel to the feed's followers, and the feed's other stored posts to the channel."""
        await self.feeds.subscribe(record.id, user, uid)
        if record.last_success is None:
            return
        ids = await self.items.newest(record.id, 5 * _FILL)
        await self.adder.fill(user, uid, record.id, ids, await self.channel_settings(user, uid), now)


def _with_notifications(old: UserConfig) -> list[ChannelConfig]:
    """The channels to import; `notifications` always exists, declared or not."""
    channels = list(old.channels)
    if NOTIFICATIONS not in old.by_uid():
        channels.insert(0, ChannelConfig(NOTIFICATIONS, "Notifications"))
    return channels


async def _in_order(
    channels: Sequence[ChannelConfig], source: OldDatabase, uids: Mapping[str, str]
) -> list[ChannelConfig]:
    """The channels in the old server's order; those missing from its database come last."""
    places = {uids.get(uid, uid): place for place, uid in enumerate(await source.channels())}
    return sorted(channels, key=lambda channel: places.get(channel.uid, len(places)))


async def _batches(source: OldDatabase, before: str) -> AsyncIterator[list[tuple[OldItem, bool, float | None]]]:
    """The channel's items with their state, each once: read, then unread, then from a stream.

    They are sorted by id, because Redis returns members in no defined order, and undated items need a stable one.
    """
    seen: set[str] = set()
    for walk, is_read in ((source.read(before), True), (source.unread(before), False)):
        fresh: dict[str, float | None] = {}
        async for members in walk:
            fresh |= {item: at for item, at in members if item not in seen}
        seen |= fresh.keys()
        ids = sorted(fresh)
        for start in range(0, len(ids), BATCH):
            rows = await source.items(ids[start : start + BATCH])
            yield [(row, is_read, fresh[row.id]) for row in rows]
    async for items in source.streamed(before):
        new = [item for item in items if item.id not in seen]
        seen |= {item.id for item in new}
        if new:
            yield [(item, False, None) for item in new]


async def _converted(
    parser: ParsePool,
    batch: Sequence[tuple[OldItem, bool, float | None]],
    before: str,
    own: Sequence[str],
    feeds: Sequence[str],
    counted: ChannelImport,
    report: ImportReport,
) -> list[ReaderPost]:
    """The valid items; invalid ones are added to the report."""
    found = []
    for item, is_read, at in batch:
        if item.data is None:
            why = "marked as read, but there is no such item" if is_read else "listed, but there is no such item"
            report.skipped.append(Skipped(before, item.id, why))
            continue
        try:
            post, source = await parser.run(OLD_POST, item.id, item.data, item.id, item.published)
        except ParseError as error:
            report.skipped.append(Skipped(before, item.id, error.detail))
            continue
        if post.published is None and at is not None and at > 0:
            post = replace(post, published=_moment(at))
        feed = source_among(post, source, feeds, own)
        counted.undated += post.published is None
        counted.of_no_feed += feed is None
        counted.read += is_read
        counted.unread += not is_read
        found.append(ReaderPost(item.id, feed or "", post, is_read))
    # Newest first, as in a feed's document, so that ids and ties are the same as after a poll.
    return sorted(found, key=lambda one: _time(one.entry), reverse=True)


def _place_undated(posts: list[ReaderPost], now: float, before: int) -> int:
    """Give undated posts the time of the import, each a millisecond before the previous one.

    So they keep their order across feeds and batches. `before` counts earlier undated posts; returns the new count.
    """
    for place, one in enumerate(posts):
        if one.entry.published is None:
            at = settled(None, now) - timedelta(milliseconds=before)
            posts[place] = replace(one, entry=replace(one.entry, published=at))
            before += 1
    return before


def _to_store(posts: Sequence[ReaderPost], url: str, now: float) -> list[ItemToStore]:
    """The posts as a poll of the feed at `url`, or of no feed, would store them; ties keep their order."""
    single = [
        items_to_store(Feed(url=url, format="import", entries=(post.entry,)), now, url or None)[0] for post in posts
    ]
    scores = scores_of([settled(post.entry.published, now) for post in posts])
    return [replace(to_store, score=score) for to_store, score in zip(single, scores, strict=True)]


def _moment(at: float) -> datetime | None:
    return from_text(int(at))


def _time(post: Entry) -> float:
    return post.published.timestamp() if post.published else float("inf")
