"""The admin pages: the server's health, and repairs that need a decision.

For all other users they don't exist.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import orjson
from starlette.responses import Response
from starlette.routing import Route

from microsub.accounts import Accounts, UserQuotas
from microsub.admin import STATES, HourFigures, ServerState, Survey, unless_away
from microsub.backend_file import Applied, AppliedFile
from microsub.base.clock import DAY
from microsub.base.errors import NotFound
from microsub.base.plaintext import on_one_line
from microsub.base.texts import SentenceTable
from microsub.base.urls import redacted, redacted_text
from microsub.configuration.effective import DeclaredSettings, Status
from microsub.configuration.model import encode
from microsub.feeds import FeedCondition, FeedRecord, Feeds
from microsub.polling import PollOnRequest
from microsub.reader.admin import looks as looks_pages
from microsub.reader.admin import quotas as quota_pages
from microsub.reader.admin.frame import ADMIN, PAGE, guarded, neighbours, page_number, shown
from microsub.reader.admin.users import UserPages
from microsub.reader.looks import InstanceLooks
from microsub.reader.places import ITEM_ID
from microsub.search import PostSearch
from microsub.web.pages import N_
from microsub.web.routes import form, page
from microsub.web.visit import PageSite, PageVisit
from microsub.websub import SubscriptionStore
from microsub.work import DeadLetter, DeadLetters, is_letter_id

_LONGEST_FIELD = 2_000
_LONGEST_FILE = 100_000
"""Maximum characters shown of a message's field, and of backend.json."""

_BETWEEN = ' "<>\\'
"""Characters that end an address in a text."""
_ESCAPED = re.compile(r"(?i)\\(?:/|u00([2-7][0-9a-f]))")

RetryLetters = Callable[[Sequence[DeadLetter]], Awaitable[list[str]]]


def routes(
    site: PageSite,
    quotas: UserQuotas,
    *,
    overview: Callable[[float], Awaitable[ServerState]],
    survey: Survey,
    post_search: PostSearch | None,
    feeds: Feeds,
    polls: PollOnRequest,
    dead: DeadLetters,
    retry: RetryLetters,
    hubs: SubscriptionStore,
    users: UserPages,
    accounts: Accounts,
    settings: DeclaredSettings,
    applied: Applied,
    backend: Callable[[], Status],
    looks: InstanceLooks,
    changed: Callable[[], None],
) -> list[Route]:
    """The routes of this module.

    `retry` puts dead letters back, and returns failures as text; `backend` returns the state of backend.json;
    `changed` is called after a change of settings.
    """
    admins = partial(guarded, quotas)
    feed_path, feed, letters = f"{ADMIN}/feeds/{{id}}", partial(_feed, feeds), f"{ADMIN}/letters"
    return [
        page(site, ADMIN, admins(partial(_overview, overview, survey, post_search))),
        page(site, f"{ADMIN}/feeds", admins(partial(_feeds, survey))),
        page(site, feed_path, admins(feed)),
        form(site, feed_path, admins(partial(_poll, polls)), feed),
        page(site, letters, admins(partial(_letters, dead))),
        form(site, f"{letters}/retry", admins(partial(_retry, dead, retry))),
        form(site, f"{letters}/drop", admins(partial(_drop, dead))),
        page(site, f"{ADMIN}/hubs", admins(partial(_hubs, survey, hubs))),
        *users.routes(site, admins),
        *quota_pages.routes(site, admins, accounts, quotas, settings, changed),
        *looks_pages.routes(site, admins, looks, changed),
        page(site, f"{ADMIN}/configuration", admins(partial(_configuration, applied, backend))),
    ]


# --- overview -------------------------------------------------------------------------------------------------------


async def _overview(
    state_at: Callable[[float], Awaitable[ServerState]], survey: Survey, search: PostSearch | None, visit: PageVisit
) -> Response:
    state = await state_at(visit.now)
    plots = {
        "polls": Plot.of(state.hours, lambda hour: hour.polls, lambda hour: hour.failed),
        "posts": Plot.of(state.hours, lambda hour: hour.posts),
        "lateness": Plot.of(state.hours, lambda hour: hour.lateness),
    }
    held = await unless_away(survey.held(visit.now, PAGE))
    behind = 0 if search is None else -(-(await unless_away(search.behind(visit.now)) or 0) // 60)
    unusable = search is not None and await unless_away(search.is_unusable(visit.now))
    values = {"state": state, "plots": plots, "days": by_day(state.hours), "held": held}
    return shown(visit, "overview.html", **values, behind=behind, unusable=unusable)


# --- plots: the last week as bars, one for each hour, and the table of days beside them -----------------------------

HEIGHT = 100.0
STEP, WIDTH = 4, 3
"""The distance between two bars, and the width of a bar, in units of the drawing."""

Value = Callable[[HourFigures], float]


@dataclass(frozen=True, slots=True)
class Plot:
    """Bars, the value of the highest one, and the width of the drawing.

    A bar has a horizontal place, a top and a height, of which the lower part (the last number) is highlighted.
    """

    bars: Sequence[tuple[int, float, float, float]]
    most: float
    width: int

    @classmethod
    def of(cls, hours: Sequence[HourFigures], value: Value, failed: Value = lambda _: 0.0) -> Plot:
        """The plot of an hourly value, with the part that `failed`."""
        most = max(map(value, hours), default=0.0)
        scale = HEIGHT / most if most else 0.0
        bars = [
            (n * STEP, round(HEIGHT - height, 2), round(height, 2), round(failed(hour) * scale, 2))
            for n, hour in enumerate(hours)
            if (height := value(hour) * scale)
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
    def of(cls, feed: FeedRecord, followers: int, now: float) -> FeedView:
        """The facts about a followed feed; secrets in its addresses are masked."""
        url = redacted(feed.url)
        return cls(feed.id, feed.title or url, url, followers, FeedCondition.of(feed, now))


async def _feeds(survey: Survey, visit: PageVisit) -> Response:
    number, state = page_number(visit), visit.query.get("state", "")
    state = state if state in STATES else ""
    sums = await survey.recent(visit.now)
    found = await survey.feeds(state, PAGE + 1, (number - 1) * PAGE)
    return shown(
        visit,
        "admin-feeds.html",
        feeds=[FeedView.of(feed, followers, visit.now) for feed, followers in found[:PAGE]],
        state=state,
        sums=sums,
        **neighbours(number, found),
        states=STATES,
    )


async def _feed(feeds: Feeds, visit: PageVisit) -> Response:
    feed_id = visit.request.path_params["id"]
    record = await feeds.get(feed_id) if ITEM_ID.fullmatch(feed_id) else None
    if record is None or record.is_internal:
        raise NotFound(N_("There is no such feed."))
    return shown(
        visit,
        "admin-feed.html",
        feed=FeedView.of(record, await feeds.subscriber_count(feed_id), visit.now),
        record=record,
        hub=redacted(record.hub or ""),
        moved_to=redacted(record.moved_to or ""),
        is_asked="asked" in visit.query,
    )


async def _poll(polls: PollOnRequest, visit: PageVisit) -> Response:
    feed_id = visit.request.path_params["id"]
    await polls.ask(visit.require_session().user, feed_id, visit.now)
    return visit.go(f"{ADMIN}/feeds/{feed_id}", asked="yes")


# --- dead letters ---------------------------------------------------------------------------------------------------


def _readable(letter: DeadLetter) -> tuple[DeadLetter, str, Mapping[str, str]]:
    """A dead letter, why it failed, and parts of its message, without secrets in addresses."""
    return letter, redacted_text(letter.why), {name: _field(value) for name, value in letter.fields.items()}


def _field(value: bytes) -> str:
    text = on_one_line(value[: 4 * _LONGEST_FIELD].decode("utf-8", "replace"))
    # Also find addresses in JSON with escaped slashes and ampersands.
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else "/", text)
    if len(value) > 4 * _LONGEST_FIELD or len(text) > _LONGEST_FIELD:
        text = text[:_LONGEST_FIELD]
        # A truncated address may contain a secret that can't be recognised.
        text = text[: max(map(text.rfind, _BETWEEN)) + 1]
    return redacted_text(text)


async def _letters(dead: DeadLetters, visit: PageVisit, failed: Sequence[str] = ()) -> Response:
    after = visit.query.get("after", "")
    found = await dead.list(PAGE + 1, after if is_letter_id(after) else None)
    # In a thread, because secrets are searched for in up to fifty messages.
    readable = await asyncio.to_thread(lambda: [_readable(letter) for letter in found[:PAGE]])
    last = found[PAGE - 1].id if len(found) > PAGE else ""
    count = await dead.count()
    done = visit.query.get("done", "")
    told = [_lines().found(redacted_text(why)) for why in failed]
    return shown(visit, "letters.html", letters=readable, count=count, last=last, failed=told, done=done)


async def _retry(dead: DeadLetters, retry: RetryLetters, visit: PageVisit) -> Response:
    failed = await retry(await _chosen(dead, visit))
    return await _letters(dead, visit, failed) if failed else visit.go(f"{ADMIN}/letters", done="retried")


async def _drop(dead: DeadLetters, visit: PageVisit) -> Response:
    await dead.drop(await _chosen(dead, visit))
    return visit.go(f"{ADMIN}/letters", done="dropped")


async def _chosen(dead: DeadLetters, visit: PageVisit) -> list[DeadLetter]:
    """The dead letter that the form names."""
    letter_id = visit.form.text("letter")
    letter = await dead.get(letter_id) if is_letter_id(letter_id) else None
    if letter is None:
        raise NotFound(N_("This dead letter no longer exists."))
    return [letter]


# --- hubs, configuration --------------------------------------------------------------------------------------------


async def _hubs(survey: Survey, store: SubscriptionStore, visit: PageVisit) -> Response:
    sums = await survey.recent(visit.now)
    hubs = dict(sums.hubs) if sums is not None else {}
    counts = await store.counts([f"https://{host}/" for host in hubs])
    return shown(visit, "hubs.html", hubs=hubs, counts=counts, sums=sums)


async def _configuration(applied: Applied, backend: Callable[[], Status], visit: PageVisit) -> Response:
    last = await applied.last()
    text, is_cut = await asyncio.to_thread(_document, last) if last is not None else ("", False)
    return shown(
        visit,
        "configuration.html",
        problems=[redacted_text(str(problem)) for problem in backend().problems],
        file=last,
        text=text,
        is_cut=is_cut,
        changes=[(at, _lines().found(redacted_text(text))) for at, text in await applied.changes()],
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
