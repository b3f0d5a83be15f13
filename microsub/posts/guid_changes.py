"""Recognises stored posts whose feed lists them under new guids, for example after a move to another program.

A new entry is a stored post of its feed if both have the same link, the document lists no entry under the stored guid,
and nothing else in the feed has that link; and if they also have the same text, or the same title and time of
publication. Where several posts share a link (a daily page, a feed whose entries all link to the site), everything that
users see and the time must agree, and one post of each side only: otherwise a new post would be lost. The same holds
for posts without links. And a text that is published again a day or more later is a new post, as an announcement that
is repeated each month; unless most of the document is like that, or has no dates.

Where the links change too, one entry proves too little. If the document lists none of the feed's latest posts any more,
its entries are compared as a whole: at least three of them, and half of what could match, must have the title or the
text of a post of the same time, or all that a post says within one day (`_moved`).

A post is known by its present guid and the one before, so a publisher that invents guids with every request leaves no
more than two for each post.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import urlsplit

import orjson

from microsub.base.clock import DAY
from microsub.base.errors import StoreDamaged
from microsub.base.urls import normalise_url
from microsub.formats.entry_id import fold, guid_digest
from microsub.posts.values import FORMER_GUID, OWN, ItemToStore, Listing
from microsub.redis.replies import filled
from microsub.redis.scripts import batches

if TYPE_CHECKING:
    from microsub.feeds import FeedRecord
    from microsub.posts.items import Items

COMPARED = 8_000_000
"""Maximum bytes of stored posts whose texts are compared with those of one document."""

COMPARED_TEXT = 2000
"""Characters of a text, from its beginning, that are compared where its markup may have changed."""

FEWEST = 3
"""Minimum posts that prove a move in which the links change too."""

_SPARE = 20
_AT_ONCE = 16
_LETTERS = 40
"""Minimum letters of a text that another one may contain and still be the same."""
_FIELDS = ("guid", FORMER_GUID, "link", "hash", "score", OWN)
_OTHERS = re.compile(r"[\W_]+")


class _Post(NamedTuple):
    """A stored post, with its link in the form in which links are compared."""

    id: str
    guid: str
    former: str
    link: str
    hash: str
    score: float
    own: str


_Pair = tuple[ItemToStore, _Post]
_Key = TypeVar("_Key", bound=Hashable)
_One = TypeVar("_One")


def window(listing: Listing) -> int:
    """How many of the feed's latest posts may be the entries of a document."""
    return 2 * len(listing) + _SPARE


async def changed_guids(
    items: Items,
    feed: FeedRecord,
    fresh: Sequence[ItemToStore],
    latest: Sequence[str],
    listing: Listing,
    known: Collection[str],
) -> dict[str, str]:
    """The stored posts that `fresh` entries are (guid → item id), once their new guids are recorded.

    `latest` are ids of the feed's latest posts (`window`), `known` those of posts that other entries of the document
    are. One round trip; up to three more, and one for each sixteen posts whose texts are compared, if posts have the
    links of fresh entries. Posts that can't be read are left out.
    """
    entries = [(one, _compared(one.link)) for one in fresh]
    if not entries or not latest:
        return {}
    posts = await _posts(items, latest)
    listed = listing.digests
    left = [
        post
        for post in posts
        if post.id not in known and not listed & {guid_digest(post.guid), guid_digest(post.former)}
    ]
    if not left:
        return {}
    texts = _Texts(items)
    found, alone = _by_link(entries, posts, left, feed.home)
    await texts.read([post for one, post in alone if one.hash != post.hash])
    same = [pair for pair in alone if pair[0].hash == pair[1].hash or texts.are_one(*pair)]
    found += _without_repeats(same, listing, len(listing))
    if len(left) == len(posts) and not known:
        found = await _moved(texts, fresh, left, listing, found, alone)
    return await items.change_guids(feed.id, [(post.id, one, post.guid, post.former) for one, post in found])


async def has_posts_of(items: Items, feed: FeedRecord, entries: Sequence[ItemToStore], latest: Sequence[str]) -> bool:
    """Whether half of the entries or more are posts of the feed with these ids: by link, or else by guid and content.

    A guid alone proves nothing: a new program on the same host counts from 1 again. Nor do a few posts: the feed of a
    whole site has some of each of its categories. One round trip.
    """
    posts = await _posts(items, latest)
    links = {post.link for post in posts if post.link and not _is_front(post.link, feed.home)}
    contents = {(guid, post.hash) for post in posts for guid in (post.guid, post.former)}
    same = sum(_compared(one.link) in links or (one.guid, one.hash) in contents for one in entries)
    return 0 < same >= len(entries) / 2


def _by_link(
    entries: Sequence[tuple[ItemToStore, str]], posts: Sequence[_Post], left: Sequence[_Post], home: str | None
) -> tuple[list[_Pair], list[_Pair]]:
    """Entries and posts of one link: those that look the same, and those that alone have the link."""
    wanted = {link for _, link in entries}
    shared = {link for link, count in Counter(post.link for post in posts).items() if count > 1}
    shared |= {link for link, count in Counter(link for _, link in entries).items() if count > 1}
    shared |= {link for link in wanted if _is_front(link, home)}
    alike = _one_each((_looks(one, link), one) for one, link in entries)
    looks = _one_each((_looks(post, post.link), post) for post in left if post.link in wanted)
    alone = {post.link: post for post in left if post.link not in shared}
    found = [
        (one, looks[key])
        for one, link in entries
        if link not in alone and (key := _looks(one, link)) in alike and key in looks
    ]
    return found, [(one, alone[link]) for one, link in entries if link in alone]


def _without_repeats(same: Sequence[_Pair], listing: Listing, comparable: int) -> list[_Pair]:
    """The pairs without those that are published again a day or more later, unless most of the document is."""
    again = [pair for pair in same if not _is_near(*pair)]
    if listing.dated and (len(again) == 1 or 2 * len(again) < comparable):
        return [pair for pair in same if pair not in again]
    return list(same)


async def _moved(
    texts: _Texts,
    fresh: Sequence[ItemToStore],
    left: Sequence[_Post],
    listing: Listing,
    found: Sequence[_Pair],
    alone: Sequence[_Pair],
) -> list[_Pair]:
    """`found`, and if the document is that of a moved feed, also the other entries that are posts of it.

    Proof are pairs that say the same within a day (or without dates), that have the same time and title or text, or
    that have the same link and title and similar texts. Each counts once for each text, time or link.
    """
    pairs = _Pairs(found)
    own = _one_each((post.own, post) for post in left)
    for name, one in _one_each((one.extra.get(OWN, ""), one) for one in fresh).items():
        if name and name in own and (_is_near(one, own[name]) or not listing.dated):
            pairs.add(one, own[name], name)
    times = {_time(one) for one in fresh}
    await texts.read([post for post in left if _time(post) in times and pairs.is_free(post)])
    for what in (texts.title, texts.letters):
        posts = _one_each(((_time(post), what(post)), post) for post in left if pairs.is_free(post))
        entries = _one_each(((_time(one), what(one)), one) for one in fresh if one.guid not in pairs.guids)
        for key, one in entries.items():
            if key[1] and key in posts:
                pairs.add(one, posts[key], key[0])
    await texts.read([post for _, post in alone if pairs.is_free(post)])
    named = [pair for pair in alone if (title := texts.title(pair[0])) and title == texts.title(pair[1])]
    comparable = min(len(fresh), len(left))
    for one, post in _without_repeats([pair for pair in named if texts.are_similar(*pair)], listing, comparable):
        pairs.add(one, post, post.id)
    if len(pairs.proof) < max(FEWEST, (comparable + 1) // 2):
        return list(found)
    for one, post in named:
        if _is_near(one, post):
            pairs.add(one, post, post.id)
    return pairs.found


class _Pairs:
    """Entries and the posts that they are, one to one, with what proves it."""

    def __init__(self, found: Sequence[_Pair]) -> None:
        self.found: list[_Pair] = []
        self.guids: set[str] = set()
        self.proof: set[Hashable] = set()
        self._ids: set[str] = set()
        for one, post in found:
            self.add(one, post, post.id)

    def is_free(self, post: _Post) -> bool:
        """Whether no entry is that post."""
        return post.id not in self._ids

    def add(self, one: ItemToStore, post: _Post, proof: Hashable) -> None:
        """Add a pair, unless one of the two has another already."""
        if one.guid not in self.guids and self.is_free(post):
            self.found.append((one, post))
            self.guids.add(one.guid)
            self._ids.add(post.id)
            self.proof.add(proof)


class _Texts:
    """The texts of stored posts, `COMPARED` bytes of them at most, and of entries."""

    def __init__(self, items: Items) -> None:
        self._items = items
        self._room = COMPARED
        self._known: dict[str, tuple[str, str]] = {}
        """Title and text, by the id of a post or the guid of an entry."""

    async def read(self, posts: Sequence[_Post]) -> None:
        """Read the texts of these posts while there is room; corrupt ones have no text."""
        for some in batches([post for post in posts if post.id not in self._known], _AT_ONCE):
            if self._room < 0:
                return
            stored = await self._items.data([post.id for post in some])
            for post, data in zip(some, stored, strict=True):
                self._room -= len(data or b"")
                if self._room >= 0:
                    self._known[post.id] = _title_and_text(data or b"")

    def title(self, post: ItemToStore | _Post) -> str:
        """The letters and digits of a title; '' for a post whose text wasn't read."""
        return _letters(self._text(post)[0])

    def letters(self, post: ItemToStore | _Post) -> str:
        """Those of the beginning of a text, which stay when markup and quotation marks change."""
        return _letters(self._text(post)[1])

    def are_one(self, one: ItemToStore, post: _Post) -> bool:
        """Whether an entry and a post with the same link have the same text, or the same title and time."""
        (title, text), (former_title, former_text) = self._text(one), self._text(post)
        if abs(one.score - post.score) < 1 and (folded := fold(title)) and folded == fold(former_title):
            return True
        return bool(folded := fold(text)) and folded == fold(former_text)

    def are_similar(self, one: ItemToStore, post: _Post) -> bool:
        """Whether one of the two texts is the other one, or contains it, as the text of a teaser does."""
        short, long = sorted((self.letters(one), self.letters(post)), key=len)
        return len(short) >= _LETTERS and short in long

    def _text(self, post: ItemToStore | _Post) -> tuple[str, str]:
        if isinstance(post, _Post):
            return self._known.get(post.id, ("", ""))
        key = f" {post.guid}"
        if key not in self._known:
            self._known[key] = _title_and_text(post.wire)
        return self._known[key]


def _title_and_text(data: bytes) -> tuple[str, str]:
    """The title and text in a post's JSON; empty if it is corrupt."""
    with suppress(ValueError):
        wire = orjson.loads(data)
        content = wire.get("content") or {}
        return wire.get("name", ""), content.get("text") or content.get("html") or wire.get("summary") or ""
    return "", ""


def _looks(post: ItemToStore | _Post, link: str) -> tuple[str, str, int]:
    """The visible parts of a post: its link, its content and its time in milliseconds."""
    return link, post.hash, _time(post)


def _time(post: ItemToStore | _Post) -> int:
    """The time of publication in milliseconds."""
    return int(post.score * 1000 + 0.0005)


def _is_near(one: ItemToStore, post: _Post) -> bool:
    return abs(one.score - post.score) < DAY


def _letters(text: str) -> str:
    return _OTHERS.sub("", text[:COMPARED_TEXT]).casefold()


def _one_each(pairs: Iterable[tuple[_Key, _One]]) -> dict[_Key, _One]:
    """The pairs whose key occurs once."""
    some = list(pairs)
    counts = Counter(key for key, _ in some)
    return {key: value for key, value in some if counts[key] == 1}


async def _posts(items: Items, ids: Sequence[str]) -> list[_Post]:
    rows = await items.fields(ids, _FIELDS)
    return [post for item_id, row in zip(ids, rows, strict=True) if (post := _read(item_id, row))]


def _read(item_id: str, row: Sequence[bytes | None]) -> _Post | None:
    with suppress(StoreDamaged, ValueError):
        guid, former, link, digest, score, own = filled(row)
        return _Post(item_id, guid, former, _compared(link), digest, float(score), own) if score else None
    return None


def _compared(link: str) -> str:
    """A link as it is compared: a site that moves to `www.` takes its posts with it."""
    return normalise_url(link).replace("://www.", "://", 1)


def _is_front(link: str, home: str | None) -> bool:
    """Whether a link, as it is compared, is the site's or feed's own page rather than a post's."""
    parts = urlsplit(link)
    return (not parts.path.strip("/") and not parts.query) or (bool(home) and link == _compared(home or ""))
