"""The admin pages: the server's health, and repairs that need a decision.

For all other users they don't exist.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from starlette.responses import Response
from starlette.routing import Route

from microsub.accounts.store import User
from microsub.admin.hours import HourFigures
from microsub.admin.overview import unless_away
from microsub.admin.survey import STATES, FollowedFeed
from microsub.backend_file.store import AppliedFile
from microsub.base.clock import DAY
from microsub.base.errors import NotFound
from microsub.base.texts import SentenceTable
from microsub.base.urls import redacted, redacted_text
from microsub.configuration.model import encode
from microsub.delivery.stage import retry
from microsub.model.plaintext import on_one_line
from microsub.polling.condition import FeedCondition
from microsub.reader.reading.places import ITEM_ID
from microsub.web.pages import N_
from microsub.web.routes import Handler, form, page
from microsub.web.visit import PageSite, PageVisit
from microsub.work import DeadLetter, is_letter_id

ADMIN = "/admin"
PAGE = 50
"""Feeds, users or dead letters on one page."""
FARTHEST = 10_000
"""The maximum page number."""
_LONGEST_FIELD = 2_000
_LONGEST_FILE = 100_000
"""Maximum characters shown of a message's field, and of backend.json."""

_BETWEEN = ' "<>\\'
"""Characters that end an address in a text."""
_ESCAPED = re.compile(r"(?i)\\(?:/|u00([2-7][0-9a-f]))")

SECTIONS: Mapping[str, str] = {
    ADMIN: N_("Overview"),
    f"{ADMIN}/feeds": N_("Feeds"),
    f"{ADMIN}/letters": N_("Dead letters"),
    f"{ADMIN}/hubs": N_("Hubs"),
    f"{ADMIN}/users": N_("Users"),
    f"{ADMIN}/configuration": N_("Configuration"),
}


def routes(site: PageSite) -> list[Route]:
    """The routes of this module."""
    feed, letters = f"{ADMIN}/feeds/{{id}}", f"{ADMIN}/letters"
    return [
        page(site, ADMIN, _admins(_overview)),
        page(site, f"{ADMIN}/feeds", _admins(_feeds)),
        page(site, feed, _admins(_feed)),
        form(site, feed, _admins(_poll), _feed),
        page(site, letters, _admins(_letters)),
        form(site, f"{letters}/retry", _admins(_retry)),
        form(site, f"{letters}/drop", _admins(_drop)),
        page(site, f"{ADMIN}/hubs", _admins(_hubs)),
        page(site, f"{ADMIN}/users", _admins(_users)),
        page(site, f"{ADMIN}/configuration", _admins(_configuration)),
    ]


def _admins(handler: Handler) -> Handler:
    """A page for admins only; other users get NotFound."""

    async def guarded(visit: PageVisit) -> Response:
        if not visit.require_session().admin:
            raise NotFound(N_("Check the address, or go to the start page."))
        await visit.site.identity.quotas.count(visit.require_session().user, visit.now)
        return await handler(visit)

    return guarded


def _shown(visit: PageVisit, template: str, **values: Any) -> Response:
    """A page with the list of sections next to it."""
    return visit.page(template, sections=SECTIONS, now=visit.now, **values)


@dataclass(frozen=True, slots=True)
class PageTurn:
    """A page of a long list, counted from 1; `earlier` and `later` are page numbers, 0 for none."""

    number: int
    later: int

    @property
    def earlier(self) -> int:
        """The previous page's number."""
        return self.number - 1

    @property
    def beyond(self) -> int:
        """The number of entries on earlier pages."""
        return (self.number - 1) * PAGE


def _turn(visit: PageVisit) -> PageTurn:
    text = visit.query.get("page", "1")
    number = int(text) if re.fullmatch(r"[0-9]{1,5}", text, re.ASCII) else 1
    return PageTurn(min(max(number, 1), FARTHEST), 0)


def _turned(turn: PageTurn, found: Sequence[object]) -> PageTurn:
    """The same page with its neighbours: `found` has one entry more than a page if there is a later one."""
    return PageTurn(turn.number, turn.number + 1 if len(found) > PAGE else 0)


# --- overview -------------------------------------------------------------------------------------------------------


async def _overview(visit: PageVisit) -> Response:
    admin = visit.site.services.admin
    state = await admin.overview.look(visit.now)
    plots = {
        "polls": Plot.of(state.hours, lambda hour: hour.polls, lambda hour: hour.failed),
        "posts": Plot.of(state.hours, lambda hour: hour.posts),
        "lateness": Plot.of(state.hours, lambda hour: hour.lateness),
    }
    held = await unless_away(admin.survey.held(visit.now, PAGE))
    search = visit.site.services.post_search
    behind = 0 if search is None else -(-(await unless_away(search.behind(visit.now)) or 0) // 60)
    unusable = search is not None and await unless_away(search.is_unusable(visit.now))
    values = {"state": state, "plots": plots, "days": by_day(state.hours), "held": held}
    return _shown(visit, "overview.html", **values, behind=behind, unusable=unusable)


# --- plots: the last week as bars, one for each hour, and the table of days beside them -----------------------------

HEIGHT = 100.0
STEP, WIDTH = 4, 3
"""The distance between two bars, and the width of a bar, in units of the drawing."""

Value = Callable[[HourFigures], float]


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle of the drawing, with its top; the lower `failed` of its `height` is highlighted."""

    x: int
    y: float
    height: float
    failed: float


@dataclass(frozen=True, slots=True)
class Plot:
    """Bars, the value of the highest one, and the width of the drawing."""

    bars: Sequence[Bar]
    most: float
    width: int

    @classmethod
    def of(cls, hours: Sequence[HourFigures], value: Value, failed: Value = lambda _: 0.0) -> Plot:
        """The plot of an hourly value, with the part that `failed`."""
        most = max(map(value, hours), default=0.0)
        scale = HEIGHT / most if most else 0.0
        bars = [
            Bar(n * STEP, round(HEIGHT - value(hour) * scale, 2), *(round(part(hour) * scale, 2) for part in both))
            for n, hour in enumerate(hours)
            for both in [(value, failed)]
            if value(hour)
        ]
        return cls(bars, most, len(hours) * STEP)


def by_day(hours: Sequence[HourFigures]) -> list[HourFigures]:
    """The sums by day (Unix time), newest first; the oldest day may be incomplete."""
    days: dict[int, HourFigures] = {}
    for hour in hours:
        begin = hour.begin // DAY * DAY
        days[begin] = days.get(begin, HourFigures(begin)) + hour
    return [days[begin] for begin in sorted(days, reverse=True)]


# --- feeds ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FeedView:
    """A feed in the list."""

    id: str
    name: str
    url: str
    followers: int
    condition: FeedCondition

    @classmethod
    def of(cls, feed: FollowedFeed, now: float) -> FeedView:
        """The facts about a followed feed; secrets in its addresses are masked."""
        url = redacted(feed.record.url)
        return cls(feed.record.id, feed.record.title or url, url, feed.followers, FeedCondition.of(feed.record, now))


async def _feeds(visit: PageVisit) -> Response:
    survey, turn = visit.site.services.admin.survey, _turn(visit)
    state = visit.query.get("state", "")
    state = state if state in STATES else ""
    sums = await survey.recent(visit.now)
    found = await survey.feeds(state, PAGE + 1, turn.beyond)
    shown = [FeedView.of(feed, visit.now) for feed in found[:PAGE]]
    return _shown(
        visit,
        "feeds.html",
        feeds=shown,
        state=state,
        sums=sums,
        turn=_turned(turn, found),
        states=STATES,
    )


async def _feed(visit: PageVisit) -> Response:
    services, feed_id = visit.site.services, visit.request.path_params["id"]
    record = await services.feeds.get(feed_id) if ITEM_ID.fullmatch(feed_id) else None
    if record is None or record.is_internal:
        raise NotFound(N_("There is no such feed."))
    feed = FollowedFeed(record, await services.feeds.subscriber_count(feed_id))
    return _shown(
        visit,
        "feed.html",
        feed=FeedView.of(feed, visit.now),
        record=record,
        hub=redacted(record.hub or ""),
        moved_to=redacted(record.moved_to or ""),
        is_asked="asked" in visit.query,
    )


async def _poll(visit: PageVisit) -> Response:
    feed_id = visit.request.path_params["id"]
    await visit.site.services.admin.polls.ask(visit.require_session().user, feed_id, visit.now)
    return visit.go(f"{ADMIN}/feeds/{feed_id}", asked="yes")


# --- dead letters ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LetterView:
    """A dead letter as a page shows it: parts of its message, and addresses without secrets."""

    letter: DeadLetter
    why: str
    fields: Mapping[str, str]

    @classmethod
    def of(cls, letter: DeadLetter) -> LetterView:
        """The view of a letter."""
        return cls(letter, redacted_text(letter.why), {name: _field(value) for name, value in letter.fields.items()})


def _field(value: bytes) -> str:
    text = on_one_line(value[: 4 * _LONGEST_FIELD].decode("utf-8", "replace"))
    # Also find addresses in JSON with escaped slashes and ampersands.
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else "/", text)
    if len(value) > 4 * _LONGEST_FIELD or len(text) > _LONGEST_FIELD:
        text = text[:_LONGEST_FIELD]
        # A truncated address may contain a secret that can't be recognised.
        text = text[: max(map(text.rfind, _BETWEEN)) + 1]
    return redacted_text(text)


async def _letters(visit: PageVisit, failed: Sequence[str] = ()) -> Response:
    dead, after = visit.site.services.admin.dead_letters, visit.query.get("after", "")
    found = await dead.list(PAGE + 1, after if is_letter_id(after) else None)
    # In a thread, because secrets are searched for in up to fifty messages.
    shown = await asyncio.to_thread(lambda: [LetterView.of(letter) for letter in found[:PAGE]])
    last = found[PAGE - 1].id if len(found) > PAGE else ""
    count = await dead.count()
    done = visit.query.get("done", "")
    told = [_lines().found(redacted_text(why)) for why in failed]
    return _shown(visit, "letters.html", letters=shown, count=count, last=last, failed=told, done=done)


async def _retry(visit: PageVisit) -> Response:
    admin = visit.site.services.admin
    failed = await retry(admin.dead_letters, await _chosen(visit), admin.store)
    return await _letters(visit, failed) if failed else visit.go(f"{ADMIN}/letters", done="retried")


async def _drop(visit: PageVisit) -> Response:
    await visit.site.services.admin.dead_letters.drop(await _chosen(visit))
    return visit.go(f"{ADMIN}/letters", done="dropped")


async def _chosen(visit: PageVisit) -> list[DeadLetter]:
    """The dead letter that the form names."""
    letter_id, dead = visit.form.text("letter"), visit.site.services.admin.dead_letters
    letter = await dead.get(letter_id) if is_letter_id(letter_id) else None
    if letter is None:
        raise NotFound(N_("This dead letter no longer exists."))
    return [letter]


# --- hubs, users, configuration -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HubView:
    """A hub, its feeds, those that it pushes, and its counts of the last months."""

    host: str
    feeds: int
    pushed: int
    counts: Mapping[str, int]


async def _hubs(visit: PageVisit) -> Response:
    admin = visit.site.services.admin
    sums = await admin.survey.recent(visit.now)
    hubs = dict(sums.hubs) if sums is not None else {}
    counts = await admin.subscription_store.counts([f"https://{host}/" for host in hubs])
    views = [HubView(host, feeds, pushed, counts.get(host, {})) for host, (feeds, pushed) in hubs.items()]
    return _shown(visit, "hubs.html", hubs=views, sums=sums)


@dataclass(frozen=True, slots=True)
class UserView:
    """A user, when they were last seen (Unix time, 0 for never), and whether they have a valid one-time link."""

    user: User
    seen: float
    is_invited: bool


async def _users(visit: PageVisit) -> Response:
    services, turn = visit.site.services, _turn(visit)
    found = await services.accounts.some(PAGE + 1, turn.beyond)
    names = [user.name for user in found[:PAGE]]
    seen = await services.admin.activity.last_seen(names)
    invited = await services.identity.local.credentials.with_invitation(names)
    views = [
        UserView(replace(user, me=redacted(user.me)), seen.get(user.name, 0.0), user.name in invited)
        for user in found[:PAGE]
    ]
    return _shown(visit, "users.html", users=views, turn=_turned(turn, found), count=await services.accounts.count())


async def _configuration(visit: PageVisit) -> Response:
    admin = visit.site.services.admin
    last = await admin.applied.last()
    text, is_cut = await asyncio.to_thread(_document, last) if last is not None else ("", False)
    return _shown(
        visit,
        "configuration.html",
        problems=[redacted_text(str(problem)) for problem in admin.backend().problems],
        file=last,
        text=text,
        is_cut=is_cut,
        changes=[replace(one, text=_lines().found(redacted_text(one.text))) for one in await admin.applied.changes()],
    )


@cache
def _lines() -> SentenceTable:
    """Lines of other parts of the program that the log has too."""
    return SentenceTable.read(Path(__file__).with_name("lines.toml"))


def _document(file: AppliedFile) -> tuple[str, bool]:
    """The complete lines of a file that can be shown, and whether there are more."""
    text = orjson.dumps(encode(file.backend), option=orjson.OPT_INDENT_2).decode()
    # Truncate first: searching a file with thousands of feeds for secrets takes longer than the rest of the page.
    shown = text if len(text) <= _LONGEST_FILE else text[: text.rindex("\n", 0, _LONGEST_FILE)]
    return redacted_text(shown), len(shown) < len(text)
