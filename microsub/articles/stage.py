"""Fetches the articles of posts whose followers want full texts, and stores them beside the feeds' own texts.

What a follower chooses decides what they see (`timelines.full_text`); here it only decides what is fetched: with `on`
the article of every new post, with `auto` those of feeds that cut their posts, and of some posts to find that out. If a
page can't be read, the feed's text stays, and the feed's record says why.

Everything may happen twice. A post is noted as done (`FULL_OF`) after its text was written and announced.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import orjson

from microsub.articles.cuts import Judgement, goes_on, is_cut
from microsub.articles.extraction import ARTICLE_IN, NONE
from microsub.articles.icons import IconFinder
from microsub.base.digests import sha256_hex
from microsub.base.errors import ParseError
from microsub.base.locks import KeyedLocks
from microsub.base.urls import host_of, sign_in_of, with_credentials_of
from microsub.feeds import Event
from microsub.fetch import PAGE_ACCEPT, Fetched, FetchFailed, FetchRequest, who_asks
from microsub.formats.chapters import CHAPTERS_IN
from microsub.formats.entry_id import body_text
from microsub.formats.lookups import is_worth_it
from microsub.formats.wire import from_wire
from microsub.model.jf2 import Content, PodcastChapter
from microsub.model.settings import FollowSettings, FullTextChoice
from microsub.parsing.pool import ParsePool
from microsub.parsing.task import Arguments, R, Task
from microsub.posts import (
    ARTICLES,
    AUTOMATIC,
    FULL,
    FULL_OF,
    NO_ARTICLES,
    WRITTEN_GUID,
    Items,
    Texts,
    articles_wanted,
    stored_full_text,
)
from microsub.redis.replies import filled, text
from microsub.redis.scripts import batches
from microsub.timelines import choice_of, strongest
from microsub.work import Stream

if TYPE_CHECKING:
    from microsub.feeds import Events, FeedRecord, Feeds
    from microsub.fetch import Fetching
    from microsub.timelines import Channels
    from microsub.work import Message

AT_ONCE = 16
"""Feeds whose articles are fetched at the same time in one process."""

LATEST = 40
"""Latest posts of a feed whose articles are fetched."""

_LONGEST = 1024 * 1024
"""Bytes of a post with its full text; longer ones aren't cut."""

_POSTS_AT_ONCE = 4
"""Posts that are in memory at a time, for each of the `AT_ONCE` feeds."""

_ENOUGH = 0.8
"""The length of an article in relation to the feed's text, below which the feed's text is better."""

_CHAPTERS = "application/json+chapters, application/json;q=0.9, */*;q=0.1"

SECONDS = 60.0
"""Seconds for the articles of one message; the rest of them go to the end of the queue."""

_MOST_ASKED, _ASKED_AT_ONCE = 1000, 100
"""Followers of a feed whose choice is looked at, and those in one round trip."""

TROUBLE, TROUBLE_AT = "article_error", "article_error_at"
"""The record's fields with the reason why the last page without an article had none, and the Unix time of it."""


class _Post(NamedTuple):
    """A post with a link, and perhaps a title; `done` says how its page was read (`Selectors.done`)."""

    id: str
    feed: str
    guid: str
    link: str
    title: str
    text: str
    done: str
    automatic: bool | None
    """Whether its full text is marked as automatic; None without a full text."""


NO_PAGE = "none of its latest posts is an article with a page of its own"


class NoArticle(NamedTuple):
    """Why a page has no article, for people.

    `lasting`: it will have none later either; `closed`: its server doesn't answer, or wants no requests for now.
    """

    why: str
    lasting: bool
    closed: bool = False


class Selectors(NamedTuple):
    """CSS selectors of the elements that hold the article on a feed's pages, and of those that are left out."""

    article: str = ""
    without: str = ""

    @classmethod
    def of(cls, settings: FollowSettings) -> Selectors:
        """Those that a follower has chosen."""
        return cls(settings.article or "", settings.article_without or "")

    def done(self, link: str) -> str:
        """The note at a post whose page was read with these: another choice reads it again."""
        return f"{link} {sha256_hex(chr(10).join(self))[:8]}" if any(self) else link


NO_SELECTORS = Selectors()


class PageReader:
    """Reads articles: fetches pages with `fetcher`, which spaces requests to a host, and parses them with `parser`.

    A user who asks (`fetch.asking_for`) has one page parsed at a time, so that slow ones delay only that user.
    """

    def __init__(self, fetcher: Fetching, parser: ParsePool) -> None:
        self._fetcher = fetcher
        self._parser = parser
        self._turns = KeyedLocks()

    async def read(
        self, link: str, title: str, feed: str = "", selectors: Selectors = NO_SELECTORS
    ) -> Content | NoArticle:
        """The article on the page at `link`, or why there is none. Raises ParserUnavailable.

        The page is asked for with the sign-in that the address of its `feed` names, if it has the same origin.
        """
        page = link.partition("#")[0]
        address = with_credentials_of(feed, page) if sign_in_of(feed) is not None else page
        request = FetchRequest(address, accept=PAGE_ACCEPT, signs_in=address != page)
        return await self._found(request, ARTICLE_IN, title, *selectors)

    async def chapters(self, url: str) -> tuple[PodcastChapter, ...] | NoArticle:
        """The chapters in the document at `url`, which an episode names, or why there are none.

        Raises ParserUnavailable.
        """
        return await self._found(FetchRequest(url, accept=_CHAPTERS), CHAPTERS_IN)

    async def _found(
        self, request: FetchRequest, task: Task[R, str, str | None, *Arguments], *arguments: *Arguments
    ) -> R | NoArticle:
        """What the task finds in the document that is asked for, found at an address and of a type."""
        found = await self._fetcher.fetch(request)
        if isinstance(found, FetchFailed):
            closed = not found.lasting and found.status in {None, 429, 503}
            return NoArticle(found.detail, found.lasting, closed)
        if not isinstance(found, Fetched):
            return NoArticle(NONE, lasting=False)
        about, asker = (found.final_url, found.content_type, *arguments), who_asks()
        try:
            async with self._turns.of(asker) if asker else nullcontext():
                return await self._parser.run(task, found.url, found.body, *about, keys=(asker or "articles",))
        except ParseError as error:
            error.__traceback__ = None  # it would keep the document in memory
            return NoArticle(error.detail, lasting=True)


@dataclass(eq=False, repr=False)
class ArticleStage:
    """Handles messages of `articles_wanted`, and finds icons of these feeds by `icons`. Any number of workers may."""

    feeds: Feeds
    items: Items
    channels: Channels
    events: Events
    articles: Stream
    reader: PageReader
    _: KW_ONLY
    icons: IconFinder | None = None
    clock: Callable[[], float] = time.time
    _reading: set[str] = field(default_factory=set, init=False)
    _again: set[str] = field(default_factory=set, init=False)

    async def handle(self, message: Message) -> None:
        """Fetch what the feed's followers want. Raises StoreError and ParserUnavailable; any other error means an
        invalid message.
        """
        feed = text(message.fields["feed"])
        self._again.add(feed)
        if feed in self._reading:  # that reader looks again; many messages for a slow feed take one place
            return
        self._reading.add(feed)
        try:
            while feed in self._again:
                self._again.discard(feed)
                await self._handle(feed)
        finally:
            self._reading.discard(feed)
            self._again.discard(feed)

    async def _handle(self, feed_id: str) -> None:
        feed = await self.feeds.get(feed_id)
        if feed is None or feed.is_internal:
            return
        if self.icons is not None and (noted := await self.icons.look(feed, self.clock())):
            await self.feeds.update(feed.id, noted)
        choice, selectors = await self._choice(feed.id)
        if choice == "off":
            await self.feeds.update(feed.id, {NO_ARTICLES: str(int(self.clock()))})
            return
        if NO_ARTICLES in feed.extra:
            await self.feeds.update(feed.id, {NO_ARTICLES: None})
        ids = await self.items.newest(feed.id, LATEST)
        judged = await self._read(feed, choice, selectors, ids)
        if judged.is_cut:
            await self._show(ids)

    async def _read(
        self, feed: FeedRecord, choice: FullTextChoice, selectors: Selectors, ids: Sequence[str]
    ) -> Judgement:
        """Read the articles of these posts, as far as they are wanted."""
        judged, until, is_forward = Judgement.of(feed.extra, self.clock()), self.clock() + SECONDS, False
        tried, closed = 0, set[str]()
        async for post in self._posts(ids):
            if post.done == selectors.done(post.link) or host_of(post.link) in closed:
                continue
            if choice == "auto" and not judged.wants(tried):
                break
            if self.clock() > until:
                if is_forward:  # otherwise the same pages would be asked for without end
                    await self.articles.add_within(ARTICLES, [articles_wanted(feed.id)])
                break
            found = await self.reader.read(post.link, post.title, feed.url, selectors)
            trouble, tried = None, tried + 1
            if isinstance(found, Content):
                judged = judged.after(
                    is_cut(post.text, found.text or "", post.link, feed.home or feed.url), self.clock()
                )
                if choice == "on" or judged.last:
                    trouble = await self._take(post, found, selectors)
            else:
                trouble = found.why
            said = {TROUBLE: trouble, TROUBLE_AT: f"{self.clock():.0f}"} if trouble else {}
            await self.feeds.update(feed.id, judged.noted | said)
            if isinstance(found, Content) or found.lasting:
                await self.items.note({post.id: {FULL_OF: selectors.done(post.link)}})
                is_forward = True
            elif found.closed:
                closed.add(host_of(post.link))  # its other pages would take as long, and fail too
        return judged

    async def read_one(self, item: str) -> NoArticle | None:
        """Store the full text of one post, because somebody asks for it; returns why there is none."""
        async for post in self._posts([item], notes=True):
            feed = await self.feeds.get(post.feed)
            _, selectors = await self._choice(post.feed)
            found = await self.reader.read(post.link, post.title, feed.url if feed is not None else "", selectors)
            if isinstance(found, Content) and (why := await self._take(post, found, selectors)) is not None:
                found = NoArticle(why, lasting=True)
            if isinstance(found, Content) or found.lasting:
                await self.items.note({post.id: {FULL_OF: selectors.done(post.link)}})
            if isinstance(found, NoArticle):
                return found
            if feed is not None and Judgement.of(feed.extra, self.clock()).is_cut:
                await self._show([item])
            return None
        return NoArticle(NONE, lasting=True)

    async def is_wanted(self, item: str, feed_id: str, choice: FullTextChoice) -> bool:
        """Whether somebody with that choice wants the full text of a post, and its page wasn't read before."""
        feed, ((done,),) = await asyncio.gather(self.feeds.get(feed_id), self.items.fields([item], [FULL_OF]))
        is_cut = feed is not None and Judgement.of(feed.extra, self.clock()).is_cut
        return not done and (choice == "on" or bool(choice == "auto" and is_cut))

    async def try_newest(self, feed: FeedRecord, settings: FollowSettings) -> tuple[str, Content | NoArticle]:
        """The title of the newest post with a page of its own, and the article there with these selectors.

        Nothing is stored.
        """
        async for post in self._posts(await self.items.newest(feed.id, LATEST)):
            return post.title, await self.reader.read(post.link, post.title, feed.url, Selectors.of(settings))
        return "", NoArticle(NO_PAGE, lasting=False)

    async def _choice(self, feed_id: str) -> tuple[FullTextChoice, Selectors]:
        """The strongest choice of the feed's followers, and the selectors if all have the same.

        A text is stored once for all of them, and nobody chooses it for others.
        """
        found: FullTextChoice = "off"
        everybody = await self.feeds.audience.of(feed_id)
        said, places = dict[str, set[Selectors]](), everybody[:_MOST_ASKED]
        since = await self.channels.automatic_since()
        for start in range(0, len(places), _ASKED_AT_ONCE):
            follows = await self.channels.of_feed(feed_id, places[start : start + _ASKED_AT_ONCE])
            found = strongest([found, *(choice_of(one, since) for _, one in follows)])
            for user, one in follows:  # who follows it twice needn't say it twice
                chosen = Selectors.of(one.settings)
                said[user] = said.get(user, set()) | ({chosen} if any(chosen) else set())
        if places != everybody or len(kinds := {*map(frozenset, said.values())}) != 1:
            return found, NO_SELECTORS
        (kind,) = kinds
        return found, next(iter(kind)) if len(kind) == 1 else NO_SELECTORS

    async def _posts(self, ids: Sequence[str], *, notes: bool = False) -> AsyncIterator[_Post]:
        """Those of the items that are articles, notes that go on, or any `notes`, with a page of their own, a few
        megabytes at a time.
        """
        for some in batches(ids, _POSTS_AT_ONCE):
            facts = await self.items.fields(some, ("guid", WRITTEN_GUID, "link", FULL_OF, "feed"))
            texts = await self.items.texts_up_to(some, _LONGEST)
            for item, row, data in zip(some, facts, texts, strict=True):
                if isinstance(data, (bytes, Texts)) and (post := _post(item, filled(row), data, notes)) is not None:
                    yield post

    async def _take(self, post: _Post, article: Content, selectors: Selectors) -> str | None:
        """Store and announce the full text of a post; returns why not, if the feed's text is better."""
        if not any(selectors) and len(article.text or "") < len(post.text) * _ENOUGH:
            return "the page has less text than the feed"
        await self.items.note({post.id: {FULL: stored_full_text(article)}})
        await self._announce(post)
        return None

    async def _show(self, ids: Sequence[str]) -> None:
        """Show the full texts of these items to followers with the choice `auto`, since their feed cuts its posts."""
        async for post in self._posts(ids):
            if post.automatic is False:
                await self.items.note({post.id: {AUTOMATIC: "1"}})
                await self._announce(post)

    async def _announce(self, post: _Post) -> None:
        await self.events.announce([Event("post_modified", post.feed, self.clock(), post.id, post.guid, ("content",))])


def _post(item: str, row: Sequence[str], data: Texts | bytes, notes: bool) -> _Post | None:
    """The post of an item from its fields and texts; None if it is none of `ArticleStage._posts`."""
    guid, written, link, done, feed = row
    try:
        entry = from_wire(orjson.loads(data.own if isinstance(data, Texts) else data))
    except ValueError:
        return None  # it is corrupt
    own = body_text(entry)
    is_one = (entry.post_type == "article" and entry.name) or (entry.post_type == "note" and (notes or goes_on(own)))
    if not is_one or not link or not is_worth_it(link):
        return None
    automatic = data.automatic if isinstance(data, Texts) else None
    return _Post(item, feed, written or guid, link, entry.name or "", own, done, automatic)
