"""The pages of filters, of a channel and of all channels: one can be tried on the newest posts before it is stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from urllib.parse import urlencode

import orjson
from starlette.datastructures import ImmutableMultiDict
from starlette.responses import Response
from starlette.routing import Route

from microsub.accounts import Accounts
from microsub.base.errors import InvalidRequest
from microsub.base.texts import N_, Sentence
from microsub.base.urls import MAX_URL
from microsub.formats.wire import post_title
from microsub.model.filters import Filter, FilterPart, Searched, fold, has_words
from microsub.model.reader import GLOBAL, NOTIFICATIONS, Channel, Cursor, PageQuery
from microsub.model.settings import POST_TYPES, Filters, OwnChannelSettings, stated
from microsub.reader.channels.pages import CHANNELS, EXPECTED, asked_channel
from microsub.reader.frame import ReaderSite
from microsub.reader.reading.undo import UndoRecords
from microsub.timelines import Channels, ReaderViews, ReadState
from microsub.web.routes import page
from microsub.web.visit import PageVisit

TRIED = 100
TRIED_TEXT = 20_000
"""Posts on which a filter is tried, and characters of each post's text."""
MARKED = 1000
"""Unread posts that are checked when a filter is applied to existing posts."""
PAGES_TRIED, PAGES_MARKED = 4, 40
"""Pages that these checks read at most; a page of large posts has few of them."""
MOST_WORDS = 50
"""Words or phrases in one field of a filter, since each is searched for in every new post."""


FILTER = "/settings/filter"
"""The page of the filter for all channels."""

Fields = ImmutableMultiDict[str, str]
"""The fields of a filter in a form or an address."""

_Refused = tuple[str, str, FilterPart, str]
"""A post that a filter would reject: its id, title, the part of the filter that does, and an excluded word in it."""


@dataclass(frozen=True, slots=True)
class FilterPages:
    """The pages, and what they need."""

    reader: ReaderSite
    accounts: Accounts
    channels: Channels
    reading: ReaderViews
    undo: UndoRecords
    read_state: ReadState

    def routes(self) -> list[Route]:
        """The routes of this module."""
        site, paths = self.reader.site, (f"{CHANNELS}/{{uid}}/filter", FILTER)
        change = partial(self.reader.change, handler=self._change, again=self._show)
        return [route for path in paths for route in (page(site, path, self._show), change(path))]

    async def _asked(self, visit: PageVisit) -> tuple[Channel, Filters]:
        """The channel in the address, or `global` with the filter of all channels; and that one. Raises NotFound."""
        user = await self.accounts.user(visit.user)
        of_all = user.filters if user is not None else Filters()
        if "uid" in visit.request.path_params:
            return await asked_channel(self.channels, visit), of_all
        return Channel(GLOBAL, "", settings=OwnChannelSettings(filters=of_all)), of_all

    async def _show(self, visit: PageVisit) -> Response:
        """A filter; one in the address or form is only tried, not stored."""
        await self.reader.user(visit)
        channel, of_all = await self._asked(visit)
        own = filters = channel.settings.filters
        given: Fields = visit.form or visit.request.query_params
        trial = None
        if "try" in given or visit.problem is not None:
            try:
                filters = _filters(given, own)
                trial = await tried(self.reading, visit, channel.uid, filters)
            except InvalidRequest as error:
                visit.problem = error
        said, last = await self.undo.said(visit)
        return visit.page(
            "filter.html",
            channel=channel,
            filters=filters,
            kinds=POST_TYPES,
            trial=trial,
            of_all=FILTER if of_all and channel.uid not in {GLOBAL, NOTIFICATIONS} else "",
            is_kept=filters == own,
            is_done="done" in visit.query,
            said=said,
            undo=last,
            channels=await self.reader.links(visit),
        )

    async def _change(self, visit: PageVisit) -> Response:
        """Store a filter, or show its trial, if possible at an address of its own that has only the filter's fields."""
        user, (channel, _) = await self.reader.user(visit), await self._asked(visit)
        uid, own, path = channel.uid, channel.settings, visit.request.url.path
        filters = _filters(visit.form, own.filters)
        if "try" in visit.form:
            fields = [(name, value) for name in _FILTER_FIELDS for value in visit.form.getlist(name) if value]
            address = f"{path}?{urlencode([('try', '1'), *fields])}"
            if len(address) > MAX_URL:  # proxies refuse long ones
                return await self._show(visit)
            return visit.go(address, fragment="trial")
        if uid != GLOBAL:
            await self.channels.set_settings(user, uid, replace(own, filters=filters), visit.now)
        else:
            await self.reader.revise(
                user, "filters", own.filters.stored(), lambda there: _filters(visit.form, Filters.read(there)).stored()
            )
        name = ""
        if "past" in visit.form:
            name = await mark_refused(self.reading, self.undo, self.read_state, visit, uid, filters)
        return visit.go(path, done="yes", undo=name)


_FILTER_FIELDS = ("exclude_words", "include_words", "kinds_are", "kind")


def _filters(given: Fields, own: Filters) -> Filters:
    """The filters from the form; expressions stay unchanged, because only the admin sets them."""
    kinds, action = given.getlist("kind"), given.get("kinds_are", "")
    chosen = tuple(kind for kind in POST_TYPES if kind in kinds)
    return replace(
        own,
        include_types=chosen if action == "include" else (),
        exclude_types=chosen if action == "exclude" else (),
        include_words=words_in(given, "include_words"),
        exclude_words=words_in(given, "exclude_words"),
    )


def words_in(given: Mapping[str, str], name: str) -> tuple[str, ...]:
    """The words or phrases of a field, one per line."""
    found = tuple(dict.fromkeys(word for line in given.get(name, "").splitlines() if (word := " ".join(line.split()))))
    if len(found) > MOST_WORDS:
        text = N_("invalid '{name}': found {count} words, expected at most {most}")
        raise InvalidRequest(Sentence(text, name=name, count=len(found), most=MOST_WORDS))
    if longest := next((word for word in found if len(word) > 200), ""):
        short = Sentence("words of at most {most} characters", most=200)
        raise InvalidRequest(Sentence(EXPECTED, name=name, found=f"{longest[:80]}…", expected=short))
    return found


async def tried(
    reading: ReaderViews, visit: PageVisit, uid: str, filters: Filters, feed: str | None = None
) -> tuple[int, list[_Refused], float | None]:
    """The number of newest posts on which the filter is tried, those that it would reject, and since when.

    Posts of a channel, or of one `feed` in it, or (`global`) of all channels that go by a common filter.
    """
    count, refused, since = 0, list[_Refused](), None
    async for posts in _newest(reading, visit, uid, PageQuery(TRIED, source=feed), TRIED, PAGES_TRIED):
        count += len(posts)
        refused += await _refused(visit, posts, filters)
        if dates := [date for post in posts if isinstance(date := post.get("published"), str)]:
            since = datetime.fromisoformat(dates[-1]).timestamp()
    return count, refused, since


async def mark_refused(
    reading: ReaderViews, undo: UndoRecords, read_state: ReadState, visit: PageVisit, uid: str, filters: Filters,
    feed: str | None = None, to: str = "",
) -> str:  # fmt: skip
    """Mark the newest unread posts that the filter rejects as read; returns the name of the undo record, '' for none.

    Posts as for `tried`; the feed moves `to` another channel afterwards.
    """
    found = list[str]()
    async for posts in _newest(reading, visit, uid, PageQuery(TRIED, None, None, "unread", feed), MARKED, PAGES_MARKED):
        found += [item for item, *_ in await _refused(visit, posts, filters)]
    there = (await reading.states_of(visit.user, [to], [feed]))[feed][to] if to and feed else {}
    if uid == GLOBAL:
        marked = await read_state.mark_by_channel(visit.user, uid, found, "read", visit.now)
    else:
        marked = await read_state.mark_here(visit.user, uid, found, visit.now)
    moved = {item for item in marked.get(uid, ()) if not there.get(item)}  # without those that were read there
    record = await undo.remember(visit.user, marked | ({to: moved} if to else {}))
    return record.id if record is not None else ""


async def _newest(
    reading: ReaderViews, visit: PageVisit, uid: str, query: PageQuery, most: int, pages: int
) -> AsyncIterator[list[dict[str, object]]]:
    """The beginnings of the newest `most` posts of a channel, by the texts of their feeds, which filters go by.

    In at most so many pages: large posts make more pages.
    """
    for _ in range(pages):
        reply = await reading.page(visit.user, uid, query._replace(limit=min(most, TRIED), as_fed=True), visit.now)
        async with visit.site.turns.of(visit.user):
            posts, after = await asyncio.to_thread(_beginnings, reply, uid)
        yield posts
        most -= len(posts)
        if not most or after is None:
            return
        query = query._replace(after=Cursor.decode(after, "after"))


def _beginnings(reply: bytes, uid: str) -> tuple[list[dict[str, object]], str | None]:
    """The posts of a page that go by the filter of that place, shortened, and the cursor of the next page."""
    page = orjson.loads(reply)
    left_out = NOTIFICATIONS if uid == GLOBAL else ""
    posts = [_shortened(item) for item in page["items"] if item["_channel"]["uid"] != left_out]
    return posts, page["paging"].get("after")


async def _refused(visit: PageVisit, items: Sequence[Mapping[str, object]], filters: Filters) -> list[_Refused]:
    """Those of these posts (in wire form) that the filter would reject, without expressions."""
    asked = replace(filters, include_regex=None, exclude_regex=None)

    def refused() -> list[_Refused]:
        chosen, found = Filter.of(stated(asked)), list[_Refused]()
        for item in items:
            post = Searched.of(item)
            if part := chosen.refusal(post):
                words = asked.exclude_words if part == "exclude_words" else ()
                word = next((word for word in words if has_words(post.folded, [fold(word)])), "")
                found.append((str(item["_id"]), post_title(item), part, word))
        return found

    async with visit.site.turns.of(visit.user):
        return await asyncio.to_thread(refused)


def _shortened(item: Mapping[str, object]) -> dict[str, object]:
    content = item.get("content")
    text = content.get("text", "") if isinstance(content, Mapping) else ""
    return {**item, "content": {"text": text[:TRIED_TEXT]}}
