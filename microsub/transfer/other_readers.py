"""Import from other readers: saved posts into `saved`, and read state for posts that are here.

Not all files have the publishers' guids, so a post is matched among the posts of its feed by guid, its digest, or link.
A saved post that isn't here is stored as a post of no feed, so that nobody else gets it. An import can be repeated:
imported posts are recognised by their id in the other reader.
"""

from __future__ import annotations

import asyncio
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import orjson

from microsub.base.bounded_cache import BoundedCache
from microsub.base.errors import InvalidRequest
from microsub.base.plaintext import counted
from microsub.base.urls import normalise_url
from microsub.model.jf2 import Feed
from microsub.model.reader import GLOBAL, SAVED
from microsub.parsing.process import dumps
from microsub.posts import items_to_store
from microsub.redis.replies import text
from microsub.timelines import ReadState, SavedPosts, saved_among
from microsub.transfer.foreign_posts import POSTS_OF_READER, ReaderPost
from microsub.transfer.reports import ChannelImport, ImportReport, Skipped, one_by_one

if TYPE_CHECKING:
    from microsub.feeds import Feeds
    from microsub.parsing.pool import ParsePool
    from microsub.posts import Imported, Items, ItemToStore
    from microsub.redis.protocol import Redis
    from microsub.transfer.feed_lists import FeedLists, ListReport

MOST_BYTES = 512 * 1024 * 1024
"""Bytes of a file, and of all files in an archive together."""
MOST_FILES = 20_000
MOST_VALUES = 20_000_000
"""Lists, objects and commas in a JSON file: each value takes dozens of bytes of memory."""
_TOGETHER = 100
_LOOKED_AT = 5000
"""How many of a feed's latest posts are searched for a match."""
_FEEDS_KNOWN = 200


@dataclass(slots=True)
class BroughtReport:
    """The result of importing a reader's files: lists of feeds, then posts."""

    posts: ImportReport
    lists: list[ListReport] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {"lists": [one.as_dict() for one in self.lists], "posts": self.posts.as_dict()}

    def as_text(self) -> str:
        """For people."""
        return "\n".join([*(one.as_text() for one in self.lists), self.posts.as_text()])


def brought_files(path: Path) -> Iterator[tuple[str, bytes | list[Any]]]:
    """The parts of a file (OPML, JSON, or a zip archive of such files) by name: lists of feeds first, then posts.

    Raises InvalidRequest.
    """
    if not zipfile.is_zipfile(path):
        if path.stat().st_size > MOST_BYTES:
            raise InvalidRequest(f"{path.name} is too large: expected at most {MOST_BYTES} bytes")
        yield _read(path.name, path.read_bytes())
        return
    with _of_archive(path.name), zipfile.ZipFile(path) as archive:
        members = [one for one in archive.infolist() if one.filename.endswith((".xml", ".opml", ".json"))]
        if len(members) > MOST_FILES:
            raise InvalidRequest(f"{path.name} has too many files: expected at most {MOST_FILES}")
        room = MOST_BYTES
        for member in sorted(members, key=lambda one: (one.filename.endswith(".json"), one.filename)):
            with _of_archive(f"{member.filename} in {path.name}"), archive.open(member) as source:
                body = source.read(room + 1)
            room -= len(body)
            if room < 0:
                raise InvalidRequest(f"{path.name} is too large: expected at most {MOST_BYTES} bytes in all its files")
            yield _read(member.filename, body)


@contextmanager
def _of_archive(name: str) -> Iterator[None]:
    """Name a corrupt archive, or member of one, in the error. Raises InvalidRequest."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError, OSError) as error:
        raise InvalidRequest(f"{name} can't be read: {error}") from None


def _read(name: str, body: bytes) -> tuple[str, bytes | list[Any]]:
    if not body.strip():
        raise InvalidRequest(f"{name} is empty")
    if body.lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n\0")[:1] == b"<":
        return name, body
    if sum(map(body.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise InvalidRequest(f"{name} has too many values: expected at most {MOST_VALUES}")
    try:
        found = orjson.loads(body.removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        raise InvalidRequest(f"{name} is neither a list of feeds nor JSON: {error}") from None
    posts = found
    if isinstance(found, dict):
        posts = next((found[key] for key in ("items", "entries") if isinstance(found.get(key), list)), None)
    if not isinstance(posts, list):
        raise InvalidRequest(f"{name} has no posts: expected 'items' or 'entries'")
    return name, posts


@dataclass(eq=False, repr=False)
class OtherReaders:
    """One import. Times are Unix seconds."""

    redis: Redis
    feeds: Feeds
    items: Items
    imported: Imported
    lists: FeedLists
    parser: ParsePool
    _stored: BoundedCache[str, dict[str, str]] = field(init=False, default_factory=lambda: BoundedCache(_FEEDS_KNOWN))
    _saved: ChannelImport = field(init=False, default_factory=lambda: ChannelImport(SAVED, "Saved"))
    _absent: int = field(init=False, default=0)
    _unpolled: int = field(init=False, default=0)
    _marked: int = field(init=False, default=0)

    async def run(
        self, user: str, kind: str, path: Path, now: float, *, all_saved: bool, unread_too: bool, dry_run: bool
    ) -> BroughtReport:
        """Import a file of the reader `kind`; with `all_saved`, save all its posts, whatever their state.

        Posts that are here become read if they are read there, and with `unread_too` also unread if they are unread
        there. Raises InvalidRequest and ParseError for an invalid file.
        """
        files = await asyncio.to_thread(lambda: list(brought_files(path)))
        report = BroughtReport(ImportReport(user, dry_run))
        for _, content in files:
            if isinstance(content, bytes):
                report.lists.append(await self.lists.import_list(user, content, now, dry_run=dry_run))
        posts = {name: content for name, content in files if isinstance(content, list)}
        for name, listed in posts.items():
            for start in range(0, len(listed), _TOGETHER):
                found = await one_by_one(self._read, listed[start : start + _TOGETHER])
                report.posts.skipped += [
                    Skipped("", f"{name}, post {start + place + 1}", "expected a post with an id and content")
                    for place, one in enumerate(found)
                    if one is None
                ]
                usable = [one for one in found if one is not None]
                await self._bring(user, kind, usable, now, report.posts, all_saved=all_saved, unread_too=unread_too)
        if any(posts.values()):
            report.posts.channels.append(self._saved)
            report.posts.notes += self._notes(dry_run=dry_run)
        return report

    def _notes(self, *, dry_run: bool) -> list[str]:
        notes = []
        if self._marked:
            notes.append(
                f"{counted(self._marked, 'post')} {'would get' if dry_run else 'got'} the read state of the file"
            )
        if self._unpolled:
            notes.append(f"{counted(self._unpolled, 'post')} of feeds that haven't been polled yet: import again later")
        if self._absent:
            notes.append(f"{counted(self._absent, 'post')} skipped, neither starred there nor stored here")
        return notes

    async def _read(self, posts: Sequence[Any]) -> list[ReaderPost | None]:
        return await self.parser.run(POSTS_OF_READER, "the file", dumps(posts))

    async def _bring(
        self,
        user: str,
        kind: str,
        posts: Sequence[ReaderPost],
        now: float,
        report: ImportReport,
        *,
        all_saved: bool,
        unread_too: bool,
    ) -> None:
        here = await self._here(posts)
        wanted = [post for post in posts if post.saved or all_saved]
        await self._save(user, kind, wanted, here, now, dry_run=report.dry_run)
        if not all_saved:
            await self._mark(user, [post for post in posts if post.read], "read", here, now, dry_run=report.dry_run)
            if unread_too:
                unread = [post for post in posts if not post.read]
                await self._mark(user, unread, "unread", here, now, dry_run=report.dry_run)
            left = [post for post in posts if not post.saved and not here.get(post.id)]
            self._unpolled += sum(here.get(post.id) is None for post in left)
            self._absent += sum(here.get(post.id) == "" for post in left)

    async def _mark(
        self,
        user: str,
        posts: Sequence[ReaderPost],
        state: Literal["read", "unread"],
        here: dict[str, str | None],
        now: float,
        *,
        dry_run: bool,
    ) -> None:
        ids = [item for post in posts if (item := here.get(post.id))]
        self._marked += len(ids)
        if ids and not dry_run:
            await ReadState(self.redis, self.items).mark(user, GLOBAL, ids, state, now)

    async def _save(
        self,
        user: str,
        kind: str,
        posts: Sequence[ReaderPost],
        here: dict[str, str | None],
        now: float,
        *,
        dry_run: bool,
    ) -> None:
        names = {f"{kind} {post.id}": post for post in posts}
        due = {name: names[name] for name in await self.imported.missing(user, SAVED, list(names))}
        there = await saved_among(self.redis, user, [item for post in due.values() if (item := here.get(post.id))])
        own = {name: post for name, post in due.items() if not here.get(post.id)}
        self._saved.read += len(posts)
        self._saved.known += len(posts) - len(due) + len(there)
        self._saved.of_no_feed += len(own)
        self._saved.undated += sum(post.entry.published is None for post in own.values())
        if dry_run or not due:
            return
        ids = await self.imported.ids(user, list(own))
        await self.imported.write({ids[name]: _to_store(post, now) for name, post in own.items()}, now)
        found = [ids[name] if name in own else str(here[post.id]) for name, post in due.items()]
        await SavedPosts(self.redis, self.items).save_posts(user, found, now)
        await self.imported.arrived(user, SAVED, list(due))

    async def _here(self, posts: Sequence[ReaderPost]) -> dict[str, str | None]:
        """The item id of each post here; '' if there is none, None if its feed was never polled here."""
        urls = list(dict.fromkeys(post.feed for post in posts if post.feed))
        known = await self.feeds.find_many(urls)
        records = await self.feeds.get_many(known.values())
        found: dict[str, str | None] = {}
        for post in posts:
            feed = known.get(post.feed)
            record = records.get(feed) if feed is not None else None
            if record is None:
                found[post.id] = ""
            elif record.last_success is None:
                found[post.id] = None
            else:
                stored = await self._posts_of(record.id)
                found[post.id] = next((stored[name] for name in _names(post) if name in stored), "")
        return found

    async def _posts_of(self, feed_id: str) -> dict[str, str]:
        """The feed's latest posts by every id that another reader may have for them."""
        known = self._stored.get(feed_id)
        if known is None:
            ids = await self.items.newest(feed_id, _LOOKED_AT)
            rows = await self.items.fields(ids, ("guid", "written_guid", "link"))
            known = {}
            for item, row in zip(ids, rows, strict=True):
                guid, written, link = (text(value) if value else "" for value in row)
                for name in filter(None, (guid, written, normalise_url(link))):
                    known.setdefault(name, item)
                    known.setdefault(sha256(name.encode()).hexdigest(), item)
                known.setdefault(sha256(link.encode()).hexdigest(), item)
            self._stored[feed_id] = known
        return known


def _names(post: ReaderPost) -> list[str]:
    link = post.entry.url or ""
    return [name for name in (post.guid, normalise_url(post.guid), post.digest, normalise_url(link)) if name]


def _to_store(post: ReaderPost, now: float) -> ItemToStore:
    (found,) = items_to_store(Feed(url="", format="import", entries=(post.entry,)), now, None)
    return found
