"""The page of a single post, and its form for answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import orjson
from starlette.responses import Response
from starlette.routing import Route

from microsub.articles import ArticleStage, NoArticle
from microsub.base.errors import InvalidRequest, NotFound, StoreUnavailable, TooManyRequests
from microsub.base.rate_limits import RateLimit, RateLimiter
from microsub.base.texts import Sentence
from microsub.base.ttl_cache import TtlCache
from microsub.identity import has_hosted_profile
from microsub.model.jf2 import PodcastChapter
from microsub.model.reader import GLOBAL, MOST_OF_QUERY, SAVED, Cursor, Episode, PageQuery, episodes_in
from microsub.outputs import OutputFeeds
from microsub.reader.answering.answers import KINDS, Answer, Answers
from microsub.reader.frame import ReaderSite
from microsub.reader.places import ITEM_ID, POST, TimelinePlace
from microsub.reader.reading.hits import SearchHits
from microsub.reader.reading.listening import put
from microsub.reader.reading.posts import PLAYED, PostView, PostViews, shown_chapters, web
from microsub.timelines import ChannelDisplays, ReaderViews, ShownText
from microsub.web.headers import own_path
from microsub.web.pages import N_
from microsub.web.routes import form, page, slow_page
from microsub.web.visit import PageVisit

CHAPTERS_OF_USER = RateLimit("chapters of episodes fetched", "user", 20)
CHAPTERS_KEPT = 3600.0
"""Seconds for which chapters are remembered, and that there are none."""
CHAPTERS_FAILED = 60.0
"""Seconds for which it is remembered that their document couldn't be fetched."""
_MOST_CHAPTERS = 200
"""Episodes whose chapters are remembered."""

TEXTS_OF_USER = RateLimit("full texts of posts fetched", "user", 20)
_TEXTS_FAILED = 60.0
"""Seconds for which it is remembered that a full text couldn't be fetched, unless it never can."""
_MOST_TEXTS = 1000
"""Posts whose full texts are fetched at a time, so that slow publishers delay only their own."""

_TEXTS: dict[str, ShownText] = {"full": "full", "own": "own"}

Turn = Literal["previous", "next"]

MUTED_FOR = {"7": N_("for a week"), "30": N_("for 30 days"), "": N_("forever")}
"""Durations of a mute in days, as forms have them."""


@dataclass(eq=False, repr=False)
class PostPages:
    """The pages of single posts, each with what the user can do with it."""

    reader: ReaderSite
    reading: ReaderViews
    views: PostViews
    outputs: OutputFeeds
    answers: Answers
    articles: ArticleStage
    limiter: RateLimiter
    displays: ChannelDisplays
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self._chapters: TtlCache[tuple[PodcastChapter, ...] | NoArticle] = TtlCache(
            lifetime=CHAPTERS_KEPT, failures=CHAPTERS_FAILED, most=_MOST_CHAPTERS, clock=self.clock
        )
        self._texts: TtlCache[NoArticle | None] = TtlCache(
            lifetime=0.0, failures=_TEXTS_FAILED, most=_MOST_TEXTS, at_once=_MOST_TEXTS, clock=self.clock
        )

    def routes(self) -> list[Route]:
        """The routes of these pages."""
        site, path = self.reader.site, f"{POST}/{{id}}"
        return [
            page(site, path, self._page),
            *(page(site, f"{path}/{to}", partial(self._turn, to)) for to in get_args(Turn)),
            slow_page(site, f"{path}/chapters", self._chapters_page),
            form(site, f"{path}/answer", self._answer, self._page),
            form(site, f"{path}/text", self._fetch_text, self._page),
            form(site, f"{path}/listen", self._listen, self._page),
        ]

    async def _page(self, visit: PageVisit) -> Response:
        """One complete post, in any of the user's channels; with the problem of an answer to it."""
        user, post = await self.reader.user(visit), await self._find(visit)
        text = _TEXTS.get(visit.query.get("text", ""), await self.reading.text_of(user, post.id))
        also, at_once = list[str](), False
        with suppress(StoreUnavailable):  # a post is shown also while the master with its feed is away
            also = await self.reading.also_in(user, post.id)
            at_once = not text and post.may_be_cut and await self._is_wanted(user, post)
        return visit.page(
            "post.html",
            # Publishers' media redirect to hosts that aren't known in advance; nothing is loaded before it is played.
            media=("https:", "http:") if any(file.kind in PLAYED for file in post.files) else (),
            post=post,
            found=TimelinePlace(GLOBAL, "all", words=post.hits.words) if post.hits.words else None,
            text=text,
            at_once=at_once,
            place=TimelinePlace(post.channel, "all"),
            list=_list_of(visit, post).start,
            channels=await self.reader.links(visit),
            also=also,
            outputs=await self.outputs.all_of(user),
            times=MUTED_FOR,
            answering=await answering_state(self.answers, visit),
            answered=await self.answers.published(user, visit.query.get("answered", "")),
            written=visit.form.get("content", ""),
            queued=visit.query.get("queued", ""),
        )

    async def _turn(self, to: Turn, visit: PageVisit) -> Response:
        """Open the post before or after this one in its list, or else the list: for browsers without scripts."""
        user, post = await self.reader.user(visit), await self._find(visit)
        place = _list_of(visit, post)
        uid = post.channel if place.uid == GLOBAL else place.uid
        display, rows = await asyncio.gather(
            self.displays.of(user, place.uid, place.source), self.reading.rows_in(user, {uid: [post.id]})
        )
        is_reversed = (display.order or visit.display.order) == "oldest" and place.uid != SAVED
        if (row := rows.get(post.id)) is not None:
            query, here = PageQuery(1, view=place.show, source=place.source or None), Cursor(row.score, row.id)
            is_before = (to == "previous") is not is_reversed
            query = query._replace(before=here) if is_before else query._replace(after=here)
            if ids := (await self.reading.rows(user, place.uid, query, visit.now)).ids:
                return visit.go(f"{POST}/{ids[0]}", list=place.start)
        return visit.go(place.start)

    async def _is_wanted(self, user: str, post: PostView) -> bool:
        """Whether the user's choice for the feed asks for the full text of a post that has none."""
        choices = await self.reading.own_view.texts.choices(user)
        return await self.articles.is_wanted(post.id, post.source, choices.get(post.source, "auto"))

    async def _find(self, visit: PageVisit) -> PostView:
        """The post in the page's address. Raises NotFound, StoreUnavailable."""
        user, id_ = visit.require_session().user, visit.request.path_params["id"]
        wanted = _TEXTS.get(visit.query.get("text", ""), "")
        found = await self.reading.post(user, id_, wanted) if ITEM_ID.fullmatch(id_) else None
        reply = orjson.loads(found) if found is not None else {"items": []}
        if "_unavailable" in reply:
            raise StoreUnavailable(f"the master of the post {id_} is away")
        if not reply["items"]:
            raise NotFound(N_("This post doesn't exist, or is no longer in your channels."))
        (post,) = await self.views.of(
            visit, reply["items"], "whole", SearchHits.of(visit.query.get("q", "")[:MOST_OF_QUERY], visit.now)
        )
        return post

    async def _chapters_page(self, visit: PageVisit) -> Response:
        """The chapters of an episode: those of its feed, or of the document that it names."""
        user, post = await self.reader.user(visit), await self._find(visit)
        listed = post.chapters
        if not listed and (url := web(post.podcast.chapters)):
            listed = shown_chapters(await self._chapters_of(visit, user, url))
        async with visit.turn():
            return visit.page("chapters.html", post=post, listed=listed, channels=await self.reader.links(visit))

    async def _chapters_of(self, visit: PageVisit, user: str, url: str) -> tuple[PodcastChapter, ...]:
        """The chapters at that address; all who ask for them at a time wait for one request. Raises NotFound."""
        is_new = not self._chapters.has(url) and not self._chapters.is_sought(url)
        if is_new and not self.limiter.count(CHAPTERS_OF_USER, user):
            raise TooManyRequests(N_("Too many chapters at once. Try again in a minute."), 60)
        try:
            found = await self._chapters.get(url, partial(self._chapters_at, url))
        except NotFound as error:
            found = NoArticle(error.description, lasting=False)
        if isinstance(found, NoArticle):
            raise NotFound(Sentence("The chapters can’t be read: {why}", why=visit.translate(found.why)))
        return found

    async def _chapters_at(self, url: str) -> tuple[PodcastChapter, ...] | NoArticle:
        """The chapters at that address, or why there will be none. Raises NotFound if they may be there later."""
        found = await self.articles.reader.chapters(url)
        if isinstance(found, NoArticle) and not found.lasting:
            raise NotFound(found.why)
        return found

    async def _listen(self, visit: PageVisit) -> Response:
        """Play an audio file of the post in the bar, or add it to the queue: the button's value is its address."""
        await self.reader.user(visit)
        post = await self._find(visit)
        for name in ("play", "add"):
            url = visit.form.text(name)
            if url and any(file.url == url and file.kind == "audio" for file in post.files):
                is_known = any(one.url == url for one in episodes_in(visit.require_session().playing))
                await put(self.reader, visit, Episode(post.id, url, post.heading), at_once=name == "play")
                back = own_path(visit.form.text("back"))
                queued = "" if name == "play" else "before" if is_known else "now"
                return visit.go(back) if back else visit.go(f"{POST}/{post.id}", queued=queued)
        raise NotFound(N_("The post no longer has this file."))

    async def _fetch_text(self, visit: PageVisit) -> Response:
        """Read the article that the post links to, and show it; all who ask at a time wait for one request."""
        user, post = await self.reader.user(visit), await self._find(visit)
        if await self.reading.text_of(user, post.id) == "":
            if not self.limiter.count(TEXTS_OF_USER, user):
                raise TooManyRequests(N_("Too many full texts at once. Try again in a minute."), 60)
            if (none := await self._texts.get(post.id, partial(self._text_of, post.id))) is not None:
                raise InvalidRequest(none.why)
        return visit.go(f"{POST}/{post.id}", text="full")

    async def _text_of(self, item: str) -> NoArticle | None:
        """Store the full text of a post, or say why it has none. Raises InvalidRequest if it may have one later."""
        none = await self.articles.read_one(item)
        if none is not None and not none.lasting:
            raise InvalidRequest(none.why)
        return none

    async def _answer(self, visit: PageVisit) -> Response:
        """Answer the post from the user's own site.

        The post's URL and title are the stored ones, whatever the form contains.
        """
        user, post = await self.reader.user(visit), await self._find(visit)
        kind = next((one for one in KINDS if one == visit.form.text("kind")), None)
        if kind is None or not post.url:
            raise NotFound(N_("You can't reply to this post."))
        text = visit.form.text("content") if kind == "reply" else ""
        answer = Answer(kind, post.url, text.replace("\r\n", "\n"), post.title)
        published = await self.answers.publish(user, visit.cookie("posting"), answer, visit.now)
        return visit.go(f"{POST}/{post.id}", answered=published)


def _list_of(visit: PageVisit, post: PostView) -> TimelinePlace:
    """The list from which the post was opened, else the unread posts of its channel."""
    before, place = visit.request.headers.get("referer", "").removeprefix(visit.base), None
    with suppress(NotFound):
        place = TimelinePlace.listed(visit.query.get("list", before))
    return place or TimelinePlace(post.channel)


async def answering_state(answers: Answers, visit: PageVisit) -> Literal["ready", "possible", ""]:
    """Whether this browser may answer from the user's site, or could be allowed to because the user has a site."""
    if await answers.access(visit.require_session().user, visit.cookie("posting"), visit.now) is not None:
        return "ready"
    return "" if has_hosted_profile(visit) else "possible"
