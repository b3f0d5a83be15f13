"""Import of a user's export into this server's stores.

The file is read twice: first it is checked completely, so that a truncated or corrupt file changes nothing; then it is
imported line by line. Every step is idempotent, so repeating an interrupted import finishes it. Existing data stays.
Posts that were read there become read here, and nothing that was read here becomes unread.

Posts in the file are foreign text: a parser process cleans them, like posts from publishers. An editor of the file can
put any post under any feed. So posts that aren't stored here become the user's own copies, which nobody else gets,
unless the file is `trusted`. If the feed lists such a post later, it replaces the copy and keeps its read state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from microsub import configuration
from microsub.base.errors import InvalidRequest, NotFound
from microsub.base.plaintext import counted, on_one_line
from microsub.base.urls import canonical_feed_url, normalise_profile, safe_url, web_address, without_sign_in
from microsub.configuration.document import describe
from microsub.configuration.facts import Change, ChangeKind
from microsub.configuration.model import OutputConfig, SourceConfig, decode
from microsub.feeds import COPIED, MERGED, FeedRecord, InternalAddress, OutputItem, PostVersion
from microsub.formats.entry_id import MAX_IDENTITY, common_identity
from microsub.formats.wire import dump, to_wire
from microsub.model.reader import (
    BUILT_IN,
    GLOBAL,
    LONGEST_AUDIO,
    LONGEST_EPISODE,
    MOST_KEPT,
    MOST_OF_KEPT,
    MOST_OF_QUERY,
    SAVED,
    Episode,
    KeptSearch,
    Reason,
    episodes_in,
    has_room,
    stored_episodes,
    stored_searches,
)
from microsub.model.settings import Filters, FollowSettings, OwnChannelSettings, stated
from microsub.parsing.process import dumps
from microsub.posts import (
    AUTOMATIC,
    FULL,
    FULL_OF,
    OWN,
    WRITTEN_GUID,
    ItemToStore,
    PostWriter,
    content_hash,
    stored_full_text,
)
from microsub.redis.replies import filled
from microsub.redis.scan import members_at
from microsub.timelines import LAST_CHOICE, READ_EVERYWHERE, Absence, ChannelDisplay, known_in, restore_items, set_keys
from microsub.transfer.feed_lists import adapted
from microsub.transfer.foreign_posts import EXPORTED_POSTS
from microsub.transfer.records import (
    LONGEST_LINE,
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
    read_record,
)
from microsub.transfer.reports import ChannelImport, ImportReport, OutputImport, Progress, Skipped, one_by_one
from microsub.transfer.user_export import OWN_FIELDS
from microsub.web.display import Display
from microsub.web.services import Service, chosen_service, stored_services, with_service
from microsub.web.shortcuts import UnfitKeys, chosen_shortcuts, shortcuts, written

if TYPE_CHECKING:
    from microsub.accounts import Accounts
    from microsub.configuration.facts import UserChanges
    from microsub.feeds import Feeds, OutputStore, SourceStore, State
    from microsub.model.jf2 import Entry
    from microsub.model.reader import Channel
    from microsub.parsing.pool import ParsePool
    from microsub.posts import Imported, Items
    from microsub.redis.protocol import Arg, Redis
    from microsub.timelines import ChannelDisplays, Channels, Following, Rules

_TOGETHER, _BYTES_TOGETHER = 200, 4 * 1024 * 1024
"""How many posts are cleaned and written together, and how long their lines are."""
_ROUND = 1000
"""Lines between two reports of progress."""
_MOST_EXTRA = 1_000_000
_WORDS = frozenset({"title", "description"})
_BODIES = ("html", "text")
_SHOWN = 200
"""Characters shown of an item that can't be imported."""
_REASONS = frozenset(map(int, Reason))


@dataclass(eq=False, repr=False)
class UserImport:
    """One import. Times are Unix seconds; `instance` names this server's data.

    The objects here for the ids of the file: `_feed_of` (in a dry run, new feeds have no id) and `_item_of`; `_copy_of`
    has the user's copies of posts from an earlier import, `_of_none` the posts of no feed. Posts of `_private` feeds
    are only for the user. `_feed_at` has the addresses of each channel's feeds, `_made` counts new channels.
    """

    redis: Redis
    accounts: Accounts
    channels: Channels
    rules: Rules
    feeds: Feeds
    items: Items
    following: Following
    outputs: OutputStore
    sources: SourceStore
    displays: ChannelDisplays
    imported: Imported
    people: UserChanges
    parser: ParsePool
    instance: str
    _feed_of: dict[str, FeedRecord] = field(init=False, default_factory=dict)
    _private: set[str] = field(init=False, default_factory=set)
    _item_of: dict[str, str] = field(init=False, default_factory=dict)
    _copy_of: dict[str, str] = field(init=False, default_factory=dict)
    _of_none: set[str] = field(init=False, default_factory=set)
    _counts: dict[str, ChannelImport] = field(init=False, default_factory=dict)
    _output_counts: dict[str, OutputImport] = field(init=False, default_factory=dict)
    _followed: list[tuple[str, str]] = field(init=False, default_factory=list)
    _feed_at: dict[str, dict[str, str]] = field(init=False, default_factory=dict)
    _made: int = field(init=False, default=0)
    _there: dict[str, Channel] = field(init=False, default_factory=dict)
    _user: str = field(init=False, default="")
    _now: float = field(init=False, default=0.0)
    _report: ImportReport = field(init=False, default_factory=lambda: ImportReport("", dry_run=False))
    _origin: str = field(init=False, default="")
    _is_new: bool = field(init=False, default=False)
    _full: dict[str, Mapping[str, Arg]] = field(init=False, default_factory=dict)
    _episodes: tuple[Episode, ...] = field(init=False, default=())
    _trusted: bool = field(init=False, default=False)
    _copied: int = field(init=False, default=0)

    async def run(
        self,
        user: str,
        file: BinaryIO,
        now: float,
        *,
        dry_run: bool = False,
        trusted: bool = False,
        progress: Progress = lambda done, count: None,
    ) -> ImportReport:
        """Import a whole file for the user of that name, who is created if missing.

        The posts of a `trusted` file become posts of their feeds, for all followers, and describe feeds that were never
        read.

        Raises InvalidRequest, naming the line, if the file isn't a complete export of a supported version, or if the
        URL belongs to another user; then nothing is changed.
        """
        header, count = await asyncio.to_thread(check_export, file)
        self._user, self._now, self._origin, self._trusted = user, now, header.instance, trusted
        self._report = ImportReport(user, dry_run)
        known = await self.accounts.user(user)
        if known is not None and known.disabled is not None:
            raise InvalidRequest(f"'{user}' is disabled; to restore them: microsub user restore {user}")
        self._is_new = known is None
        if known is None:
            await self.people.vet(made := Change(ChangeKind.USER_ADDED, user, value=header.me))
            if not dry_run:
                await self.people.apply(made, now)
        self._there = {one.uid: one for one in await self.channels.list(user)}
        posts: list[ExportedPost] = []
        together = 0
        for number, record, size in _records(file):
            full = len(posts) == _TOGETHER or together + size > _BYTES_TOGETHER
            if posts and (full or not isinstance(record, ExportedPost)):
                await self._posts(posts)
                posts, together = [], 0
            if isinstance(record, ExportedPost):
                posts.append(record)
                together += size
            else:
                await self._carry_out(record)
            if number % _ROUND == 0:
                progress(number, count)
        await self._end()
        return self._report

    async def _carry_out(self, record: ExportRecord) -> None:
        match record:
            case ExportedChannel():
                await self._channel(record)
            case ExportedRules():
                await self._rule(GLOBAL, record)
                await self._filter(record)
            case ExportedReading():
                await self._reading(record)
            case ExportedFeed():
                await self._feed(record)
            case ExportedFollow() if record.channel in self._counts:
                await self._follow(record)
            case ExportedItems() if record.channel in self._counts:
                await self._timeline(record)
            case ExportedAbsences() if record.channel in self._counts:
                await self._absences(record)
            case ExportedOutput():
                await self._output(record)
            case ExportedOutputItems():
                await self._output_items(record)
            case ExportedSource() if record.settings["channel"] in self._counts:
                await self._source(record)

    async def _channel(self, record: ExportedChannel) -> None:
        own = decode(OwnChannelSettings, record.settings)
        found = self._there.get(record.uid)
        if found is None and record.uid not in BUILT_IN:
            self._made += 1
            if not self._report.dry_run:
                try:
                    found = await self.channels.create(self._user, adapted(record.name), self._now, record.uid)
                except InvalidRequest as error:
                    self._report.notes.append(f"channel {record.uid}: {error}; left out")
                    return
        counted = ChannelImport(record.uid, record.name)
        self._counts[record.uid] = counted
        self._report.channels.append(counted)
        if self._report.dry_run or found is None:
            return
        if stated(own) and not stated(found.settings):
            await self.channels.set_settings(self._user, record.uid, own, self._now)
        await self._rule(record.uid, record)

    async def _rule(self, uid: str, record: ExportedChannel | ExportedRules) -> None:
        if self._report.dry_run or uid == SAVED:
            return
        for said, url in self._addresses(uid, record.mute).items():
            until = record.mute_until.get(said)
            if until is None or until > self._now:
                await self.rules.mute(self._user, uid, url, self._now, until=until)
        for url in self._addresses(uid, record.block).values():
            await self.rules.block(self._user, uid, url, self._now)

    async def _filter(self, record: ExportedRules) -> None:
        """Take over the filter for all channels, unless there is one here."""
        there = await self.accounts.user(self._user)
        if record.filters and there is not None and not there.filters and not self._report.dry_run:
            filters = decode(Filters, record.filters)
            await self.accounts.set_settings(self._user, {"filters": filters.stored()})

    async def _reading(self, record: ExportedReading) -> None:
        """Take over how the user reads: choices made here stay, and searches kept here come first."""
        there = await self.accounts.user(self._user)
        settings = dict(there.settings) if there is not None else {}
        own_keys = "" if settings.get("shortcuts") else self._own_keys(record.shortcuts)
        own_services = "" if settings.get("services") else self._services(record.services)
        if self._report.dry_run:
            return
        self._episodes = record.episodes
        if self._is_new:
            everywhere = "yes" if record.read_everywhere else "no"
            await self.accounts.set_settings(self._user, {READ_EVERYWHERE: everywhere})
        if record.display and not settings.get("display"):
            display = Display().changed(record.display).stored()
            await self.accounts.set_settings(self._user, {"display": display})
        if own_keys:
            await self.accounts.set_settings(self._user, {"shortcuts": own_keys})
        if own_services:
            await self.accounts.set_settings(self._user, {"services": own_services})
        searched = self._counts.keys() | {GLOBAL}
        shown = searched | {LAST_CHOICE}
        views = {uid: ChannelDisplay().changed(view) for uid, view in record.views.items() if uid in shown}
        await self.displays.restore(self._user, views)
        skipped: list[Skipped] = []

        def joined(stored: str) -> str:
            skipped.clear()
            kept = [*KeptSearch.read(stored)]
            known = {(one.words, one.uid) for one in kept}
            for one in record.searches:
                words, name = one.words.strip(), on_one_line(one.name)[:MOST_OF_KEPT]
                if (words, one.uid) in known:
                    continue
                if not 0 < len(words) <= MOST_OF_QUERY or one.uid not in searched or len(kept) >= MOST_KEPT:
                    why = f"a search needs words and a channel, and at most {MOST_KEPT} are kept"
                    skipped.append(Skipped(one.uid, one.name[:_SHOWN], why))
                else:
                    known.add((words, one.uid))
                    kept.append(KeptSearch(name or words[:MOST_OF_KEPT], words, one.uid, one.best))
            return stored_searches(kept)

        await self.accounts.revise_setting(self._user, "searches", settings.get("searches", ""), joined)
        self._report.skipped += skipped

    def _own_keys(self, said: Mapping[str, str]) -> str:
        """The user's own keys as they are stored, empty if there are none, or if they can't work."""
        try:
            table = shortcuts(orjson.dumps(said).decode())
            return chosen_shortcuts({name: written(keys) for name, (keys, _, _) in table.items()})
        except UnfitKeys as error:
            self._report.skipped.append(Skipped("", "shortcuts", error.description))
            return ""

    def _services(self, said: Sequence[tuple[str, str]]) -> str:
        """The services as they are stored, without those that can't work."""
        found: list[Service] = []
        for name, address in said:
            try:
                found = with_service(found, chosen_service("", address, name))
            except InvalidRequest as error:
                self._report.skipped.append(Skipped("", name[:_SHOWN], error.description))
        return stored_services(found)

    def _addresses(self, uid: str, urls: Sequence[str]) -> dict[str, str]:
        """The valid URLs of a rule, normalised; original → URL.

        With an invalid one, backend.json could no longer be written.
        """
        usable: dict[str, str] = {}
        for said in urls:
            url = web_address(said)
            if url is not None:
                usable[said] = url
            else:
                self._report.skipped.append(Skipped(uid, said[:_SHOWN], "not an author's or a feed's address"))
        return usable

    async def _feed(self, record: ExportedFeed) -> None:
        url = _address_here(record.url, self._user)
        if url is None:
            self._report.skipped.append(Skipped("", record.url, "not a feed's address"))
            return
        if self._report.dry_run:
            known = await self.feeds.find(url)
            found = await self.feeds.get(known) if known is not None else None
            self._feed_of[record.feed] = found or FeedRecord("", url)
            return
        if record.signed_in:
            self._private.add(record.feed)
        found = await self.feeds.ensure(url, self._now)
        if self._is_ours(url) and not record.signed_in and found.title is None and found.last_success is None:
            said = {
                "title": record.title,
                "photo": record.photo,
                "home": record.home,
                "description": record.description,
            }
            safe = {name: text for name, text in said.items() if text and (name in _WORDS or web_address(text))}
            await self.feeds.update(found.id, safe)
            found = await self.feeds.get(found.id) or found
        self._feed_of[record.feed] = found

    def _is_ours(self, url: str) -> bool:
        """Whether the file may say what a feed contains: it is trusted, or the feed is the user's own."""
        return self._trusted or InternalAddress.of(url) is not None

    async def _follow(self, record: ExportedFollow) -> None:
        feed, url = self._feed_of.get(record.feed), _address_here(record.url, self._user)
        if feed is None or url is None:
            self._report.skipped.append(Skipped(record.channel, record.url, "not a feed's address"))
            return
        self._counts[record.channel].feeds += 1
        if self._report.dry_run:
            return
        user, uid, at = self._user, record.channel, min(record.followed_at, self._now)
        if uid not in self._feed_at:
            there = await self.channels.subscriptions(user, uid)
            self._feed_at[uid] = {canonical_feed_url(one.url): one.feed for one in there}
        if self._feed_at[uid].setdefault(canonical_feed_url(url), feed.id) != feed.id:
            self._report.skipped.append(Skipped(uid, url, "another feed of this channel has that address"))
            return
        name = adapted(record.name) if record.name and record.name.strip() else None
        settings = decode(FollowSettings, record.settings)
        since = record.unread_from
        await self.channels.follow(user, uid, feed.id, url, at, name, settings=settings, unread_from=since)
        self._followed.append((uid, record.feed))

    # --- posts

    async def _read(self, posts: Sequence[Mapping[str, Any]]) -> list[Entry | None]:
        return await self.parser.run(EXPORTED_POSTS, "the export", dumps(posts))

    async def _posts(self, records: Sequence[ExportedPost]) -> None:
        """Store posts that aren't here yet, and record the item id of each."""
        entries = await one_by_one(self._read, [record.jf2 for record in records])
        self._full = await self._full_texts(records)
        usable: list[tuple[ExportedPost, ItemToStore]] = []
        for record, entry in zip(records, entries, strict=True):
            if entry is None or not record.guid or len(record.guid) > 2 * MAX_IDENTITY:
                self._report.skipped.append(Skipped("", record.guid, "expected a post with an id and content"))
            else:
                usable.append((record, _to_store(record, entry, self._now)))
        by_feed: dict[str, list[tuple[ExportedPost, ItemToStore]]] = {}
        for record, post in usable:
            by_feed.setdefault(record.feed if record.feed in self._feed_of else "", []).append((record, post))
        # One after the other, so that ids have the same order as there: they order posts of the same moment.
        for feed, found in by_feed.items():
            await (self._of_feed(feed, found) if feed else self._of_no_feed(found))

    async def _full_texts(self, records: Sequence[ExportedPost]) -> dict[str, Mapping[str, Arg]]:
        """The full texts of these posts as fields of their items, cleaned as their own texts are."""
        having = [record for record in records if record.full and record.link]
        wires = [{"type": "entry", "content": {name: record.full.get(name) for name in _BODIES}} for record in having]
        found: dict[str, Mapping[str, Arg]] = {}
        for record, entry in zip(having, await one_by_one(self._read, wires), strict=True):
            if entry is not None and entry.content is not None and entry.content.text:
                full = stored_full_text(entry.content)
                is_automatic = record.full.get("automatic") is True
                about: dict[str, Arg] = {FULL: full, FULL_OF: record.link}
                found[record.post] = about | ({AUTOMATIC: "1"} if is_automatic else {})
        return found

    async def _note_full(self, items: Mapping[str, str]) -> None:
        """Store the full texts of posts that this import has written (post → item)."""
        if fields := {item: self._full[post] for post, item in items.items() if post in self._full}:
            await self.items.note(fields)

    async def _of_feed(self, name: str, posts: Sequence[tuple[ExportedPost, ItemToStore]]) -> None:
        feed = self._feed_of[name]
        if not feed.id:
            return
        guids = [record.guid for record, _ in posts]
        known = await self.imported.claims(feed.id, guids)
        new = [(record, post) for record, post in posts if record.guid not in known]
        if new and not self._report.dry_run and self._is_ours(feed.url) and name not in self._private:
            # The first post of a document is its newest.
            there = await PostWriter(self.redis).write_missing(feed, [post for _, post in new][::-1], self._now)
            known = {**there, **await self.imported.claims(feed.id, guids)}
            await self._note_full({one.post: known[one.guid] for one, _ in new if one.guid in known})
        elif new and not self._report.dry_run:
            await self._own(new, feed.id)
            await self.feeds.update(feed.id, {COPIED: "1"})
            await self.imported.note_copies(feed.id, {one.guid: self._item_of[one.post] for one, _ in new})
            known = await self.imported.claims(feed.id, guids)  # the feed may have been read meanwhile
            self._copied += sum(one.guid not in known for one, _ in new)
        alive = {item.id for item in await self.items.timeline_items(list(known.values()))}
        self._item_of |= {record.post: known[record.guid] for record, _ in posts if known.get(record.guid) in alive}
        await self._copies_of([record for record, _ in posts if known.get(record.guid) in alive])
        # Posts that the feed knows as deleted come back only for this user.
        await self._own(
            [(record, post) for record, post in posts if record.guid in known and known[record.guid] not in alive],
            feed.id,
        )

    async def _of_no_feed(self, posts: Sequence[tuple[ExportedPost, ItemToStore]]) -> None:
        self._of_none |= {record.post for record, _ in posts}
        here: set[str] = set()
        if self._origin == self.instance and posts:
            rows = await self.items.fields([record.post for record, _ in posts], ("feed", "guid"))
            here = {
                record.post
                for (record, _), (feed, guid) in zip(posts, rows, strict=True)
                if (feed, guid) == (b"", record.guid.encode())
            }
            here = here if self._trusted else await self._theirs(here)
        self._item_of |= {item: item for item in here}
        await self._own([(record, post) for record, post in posts if record.post not in here], "")

    async def _theirs(self, ids: Collection[str]) -> set[str]:
        """Those of these items that the user has: a file may name those of others too."""
        found = await known_in(self.redis, self._user, [*self._there], [*ids])
        for feed in await self.outputs.all_of(self._user) if ids else ():
            found.update(await self.outputs.among(feed, [*ids]))
        return found

    async def _copies_of(self, records: Sequence[ExportedPost]) -> None:
        """Note the copies from an earlier import, of posts that the feed has listed since."""
        ids = await self.imported.known(self._user, [self._name(record) for record in records])
        alive = {item.id for item in await self.items.timeline_items(list(ids.values()))} if ids else set()
        found = {record.post: ids.get(self._name(record), "") for record in records}
        self._copy_of |= {post: item for post, item in found.items() if item in alive}

    def _here(self, posts: Sequence[str], there: Collection[str]) -> dict[str, str]:
        """The items of these posts, by post, in a place with the items `there`: a copy that is there stays."""
        found = {post: self._item_of[post] for post in posts if post in self._item_of}
        return found | {post: copy for post in found if (copy := self._copy_of.get(post)) in there and copy}

    def _name(self, record: ExportedPost) -> str:
        # The slash separates them from names that begin with a channel (`Imported.arrived`), whatever the file says.
        return f"/{self._origin} {record.post}"

    async def _own(self, posts: Sequence[tuple[ExportedPost, ItemToStore]], feed_id: str) -> None:
        if not posts or self._report.dry_run:
            return
        names = {record.post: self._name(record) for record, _ in posts}
        # As in a document, the newest is given the largest id.
        ids = await self.imported.ids(self._user, list(names.values())[::-1])
        await self.imported.write({ids[names[record.post]]: post for record, post in posts}, self._now, feed_id)
        items = {post: ids[name] for post, name in names.items()}
        await self._note_full(items)
        self._item_of |= items

    # --- timelines

    async def _timeline(self, record: ExportedItems) -> None:
        counted = self._counts[record.channel]
        posts, _, _, hidden, *_ = set_keys(self._user, record.channel)
        copies = [copy for post, _ in record.items if (copy := self._copy_of.get(post))]
        standing = await members_at(self.redis, (posts, hidden), copies) if copies else set()
        here = self._here([post for post, _ in record.items], standing)
        ids = {here[post]: at for post, at in record.items if post in here}
        there = await known_in(self.redis, self._user, [record.channel], list(ids))
        counted.known += len(there)
        counted.read += sum(at is not None for _, at in record.items)
        counted.unread += sum(at is None for _, at in record.items)
        counted.of_no_feed += sum(post in self._of_none for post, _ in record.items)
        if not self._report.dry_run:
            items = await self.items.timeline_items(list(ids))
            back = [(item, ids[item.id]) for item in items]
            await restore_items(self.redis, self.items, self._user, record.channel, back, (), self._now)

    async def _absences(self, record: ExportedAbsences) -> None:
        if self._report.dry_run:
            return
        out = [
            Absence(self._item_of[post], Reason(reason)) for post, *_, reason in record.items if post in self._item_of
        ]
        tombstones: dict[str, list[tuple[str, int]]] = {}
        for post, feed, guid, _, reason in record.items:
            if not post and feed in self._feed_of:
                tombstones.setdefault(feed, []).append((guid, reason))
        for feed, rows in tombstones.items():
            found = self._feed_of[feed]
            ids = await self.imported.departed(found.id, [guid for guid, _ in rows])
            former = (await self.feeds.get(found.id) or found).extra.get(MERGED, "").split()
            if found.id not in former:
                await self.feeds.update(found.id, {MERGED: " ".join([*former, found.id])})
            # The original of a duplicate isn't known here, so it stays out.
            why = {Reason.DUPLICATE: Reason.SWEPT}
            out += [Absence(ids[guid], why.get(Reason(reason), Reason(reason))) for guid, reason in rows]
        if out:
            await restore_items(self.redis, self.items, self._user, record.channel, (), out, self._now)

    async def _output(self, record: ExportedOutput) -> None:
        known = True
        try:
            await self.outputs.get(self._user, record.name)
        except NotFound:
            known = False
            if not self._report.dry_run:
                await self.outputs.put(self._user, record.name, decode(OutputConfig, record.settings), self._now)
        self._output_counts[record.name] = counted = OutputImport(record.name, known)
        self._report.outputs.append(counted)

    async def _source(self, record: ExportedSource) -> None:
        """Create a source; an existing one with its id stays, with its token."""
        if self._report.dry_run:
            return
        try:
            await self.sources.get(self._user, record.source)
        except NotFound:
            await self.sources.put(self._user, record.source, decode(SourceConfig, record.settings), self._now)
            self._report.notes.append(
                f"the source '{record.source}' has no token yet: microsub source token {self._user} {record.source}"
            )

    async def _output_items(self, record: ExportedOutputItems) -> None:
        self._output_counts[record.output].items += len(record.items)
        if self._report.dry_run:
            return
        feed = await self.outputs.get(self._user, record.output)
        there: set[str] = set()
        while self._copy_of and (some := await self.outputs.items(feed, _TOGETHER, len(there))):
            there.update(one.id for one in some)
        here = self._here([post for post, *_ in record.items], there)
        items = [
            _output_item(here[post], published, imported, edited, shown, times)
            for post, published, imported, edited, shown, times in record.items
            if post in here
        ]
        rows = await self.items.fields([one.id for one in items], ("hash", OWN))
        versions = {one.id: PostVersion(*filled(row)) for one, row in zip(items, rows, strict=True)}
        await self.outputs.restore(feed, items, versions, self._now)

    async def _end(self) -> None:
        """Fill and poll what is followed, and set the order of channels if all of them are new."""
        if self._report.dry_run:
            return
        if self._made and self._made == sum(uid not in BUILT_IN for uid in self._counts):
            await self.channels.order(self._user, list(self._counts))
        if self._copied:
            self._report.notes.append(
                f"{counted(self._copied, 'post')} of feeds weren't stored here: only {self._user} has them (--trusted "
                "shares them with all who follow these feeds)"
            )
        for uid, feed in self._followed:
            await self.following.join(self._user, uid, self._feed_of[feed], self._now)
        if self._episodes:
            await self.accounts.revise_setting(self._user, "playing", "", self._with_episodes)

    def _with_episodes(self, stored: str) -> str:
        """The queue of the player, with the file's episodes after those that are there."""
        queue = [*episodes_in(stored)]
        for one in self._episodes:
            url, post = safe_url(one.url), self._item_of.get(one.post)
            if url is None or post is None or any(url == known.url for known in queue):
                continue
            title = on_one_line(one.title)[:LONGEST_EPISODE]
            episode = Episode(post, url, title, min(max(one.at, 0), LONGEST_AUDIO))
            if has_room(queue, episode):
                queue.append(episode)
        return stored_episodes(queue)


# --- the file -------------------------------------------------------------------------------------------------------


def check_export(file: BinaryIO) -> tuple[ExportHeader, int]:
    """The header of an export, and its number of lines, after a check that it is complete and consistent.

    Raises InvalidRequest, naming the line.
    """
    header: ExportHeader | None = None
    ended = 0
    number = 0
    names: dict[type, set[str]] = {
        ExportedChannel: set(),
        ExportedFeed: {""},
        ExportedPost: {""},
        ExportedOutput: set(),
    }
    for number, record, _ in _records(file):
        if header is None:
            if not isinstance(record, ExportHeader):
                raise InvalidRequest(f"line {number}: found a line of the type '{record.type}', expected the header")
            header = record
        elif isinstance(record, ExportHeader):
            raise InvalidRequest(f"line {number}: found a second header")
        elif ended:
            raise InvalidRequest(f"line {number}: found more lines after the end")
        _check_names(record, names, number)
        if isinstance(record, ExportEnd):
            ended = number
            if record.lines != number:
                raise InvalidRequest(f"line {number}: expected {record.lines} lines, found {number}")
    if not number:
        raise InvalidRequest("the file is empty: expected an export by 'microsub user export'")
    if header is None or not ended:
        raise InvalidRequest(f"line {number}: the export is truncated here; nothing was imported")
    return header, number


def _check_names(record: ExportRecord, names: Mapping[type, set[str]], number: int) -> None:
    channels, feeds = names[ExportedChannel], names[ExportedFeed]
    posts, outputs = names[ExportedPost], names[ExportedOutput]
    match record:
        case ExportedChannel():
            _check_declared({"channels": [{"uid": record.uid, "settings": record.settings}]}, number)
            channels.add(record.uid)
        case ExportedRules():
            _check_declared({"filters": record.filters}, number)
        case ExportedReading():
            searched = channels | {GLOBAL}
            known = {*record.views} <= searched | {LAST_CHOICE} and {one.uid for one in record.searches} <= searched
            _require(known, "channel", number)
        case ExportedFeed():
            feeds.add(record.feed)
        case ExportedPost():
            _require(record.feed in feeds, f"feed '{record.feed}'", number)
            posts.add(record.post)
        case ExportedFollow():
            _require(record.channel in channels and record.feed in feeds, "channel or feed", number)
            feed = {**record.settings, "url": "https://feed.example/"}
            _check_declared({"channels": [{"uid": record.channel, "feeds": [feed]}]}, number)
        case ExportedItems():
            _require(
                record.channel in channels and all(one in posts for one, _ in record.items), "channel or post", number
            )
        case ExportedAbsences():
            known = all(one in posts and feed in feeds for one, feed, _, _, _ in record.items)
            _require(record.channel in channels and known, "channel, feed or post", number)
            if not all(reason in _REASONS for *_, reason in record.items):
                raise InvalidRequest(
                    f"line {number}: found an unknown reason, expected {min(_REASONS)} to {max(_REASONS)}"
                )
        case ExportedOutput():
            _check_declared({"outputs": {record.name: record.settings}}, number)
            outputs.add(record.name)
        case ExportedOutputItems():
            known = record.output in outputs and all(one[0] in posts for one in record.items)
            _require(known, "output feed or post", number)
        case ExportedSource():
            _check_declared({"sources": {record.source: record.settings}}, number)
            _require(record.settings["channel"] in channels - {SAVED}, "channel", number)


def _require(known: bool, what: str, number: int) -> None:
    if not known:
        raise InvalidRequest(f"line {number}: it refers to a {what} that no earlier line has")


def _records(file: BinaryIO) -> Iterator[tuple[int, ExportRecord, int]]:
    """The lines with their numbers and sizes."""
    file.seek(0)
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        yield number, read_record(line, number), len(line)


def _check_declared(part: Mapping[str, Any], number: int) -> None:
    """Raise InvalidRequest for declarations that are invalid in backend.json."""
    for error in configuration.check_shape({"users": {"user": part}}):
        where = ".".join(map(str, error["loc"][2:]))
        expected = error.get("ctx", {}).get("expected", error["msg"])
        raise InvalidRequest(
            f"line {number}: the settings are invalid: {where}: found {describe(error['input'])}, expected {expected}"
        )


def _address_here(url: str, user: str) -> str | None:
    """The address here of a feed in the file, without a sign-in, which may be another user's; None if invalid.

    An internal feed becomes this user's.
    """
    internal = InternalAddress.of(url)
    if internal is not None:
        return str(replace(internal, user=user))
    address = web_address(url)
    return None if address is None else without_sign_in(address)


def _output_item(
    item: str, published: float | None, imported: float | None, edited: float, shown: int, times: Sequence[float]
) -> OutputItem:
    state: State = "imported" if imported is not None else "removed" if published is None else "published"
    return OutputItem(item, state, edited, published, imported, shown, times)


def _to_store(record: ExportedPost, entry: Entry, now: float) -> ItemToStore:
    """The post as this server would have stored it, except for its place, which is the file's.

    Its hash is that of the file's content: if the publisher's differs, the next poll of the feed updates the post.
    """
    link = safe_url(record.link)
    # A post without its own link shows another one.
    entry = entry if link else replace(entry, url=None, fallback_url=entry.url)
    wire = to_wire(entry)
    extra = {name: text for name, text in record.extra.items() if name not in OWN_FIELDS}
    author = normalise_profile(entry.author.url) if entry.author is not None and entry.author.url else ""
    return ItemToStore(
        guid=record.guid,
        wire=dump(wire),
        hash=content_hash(wire),
        score=min(record.score, now),
        published=wire.get("published", ""),
        author=author,
        link=link or "",
        common=common_identity(replace(entry, guid=extra.get(WRITTEN_GUID) or record.guid, url=link)),
        extra=extra if sum(map(len, extra.values())) <= _MOST_EXTRA else {},
    )
