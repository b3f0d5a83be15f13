"""The pages to import and export lists of feeds, and to export all data."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from microsub.accounts import Accounts
from microsub.base.errors import NotFound, TooManyRequests
from microsub.base.rate_limits import AT_ONCE, RateLimit, RateLimiter, SharedSlots, SlotLease
from microsub.base.texts import N_, Sentence
from microsub.feeds import FeedCondition, FeedRecord
from microsub.model.reader import Subscription
from microsub.model.settings import SettingsOf
from microsub.reader.frame import ReaderSite
from microsub.reader.places import ListPart
from microsub.reader.settings.menu import SETTINGS
from microsub.timelines import feed_name
from microsub.transfer import MOST_BYTES, FeedLists, ListImports, UserExport, begun_by
from microsub.web.headers import page_headers
from microsub.web.routes import form, page, upload
from microsub.web.visit import PageVisit

EXPORTS_OF_USER = RateLimit("exports of everything", "user", 4)
EXPORTS_SHARED = SharedSlots(
    of_user=RateLimit("exports of everything", "user", 1, AT_ONCE),
    in_all=RateLimit("exports of everything", "first ones of users, and further ones", 4, AT_ONCE),
    first=RateLimit("exports of everything", "user", 1, 3600),
)
EXPORT_SHARES = 60.0
"""Seconds for which an export takes one of the shared places. A slow reader costs little, and may take hours."""

LISTS = f"{SETTINGS}/lists"
UNDO = f"{LISTS}/undo"
MOST_SHOWN = 200
"""Feeds of an import on one page."""


def routes(
    reader: ReaderSite,
    lists: FeedLists,
    imports: ListImports,
    accounts: Accounts,
    user_export: UserExport,
    name_instance: Callable[[], Awaitable[str]],
    settings_of: SettingsOf,
) -> list[Route]:
    """The routes of this module. `name_instance` returns the name of this server's data."""
    site, shown = reader.site, partial(_lists, reader, lists, imports, settings_of)
    exported = partial(_export, reader, accounts, user_export, name_instance, RateLimiter())
    return [
        page(site, LISTS, shown),
        upload(site, LISTS, partial(_import, reader, imports), shown),
        form(site, UNDO, partial(_undo, reader, imports), shown),
        page(site, f"{LISTS}/feeds.opml", partial(_export_list, reader, lists)),
        page(site, f"{LISTS}/everything.jsonl", exported),
    ]


@dataclass(frozen=True, slots=True)
class BroughtFeed:
    """A feed that the last import followed, its channel, and what came of its first poll."""

    follow: Subscription
    uid: str
    name: str
    state: Literal["waiting", "read", "failing"]
    condition: FeedCondition


async def _brought(lists: FeedLists, user: str, since: float, now: float) -> list[BroughtFeed]:
    """The feeds that the import of that moment followed, those with trouble first, then those not read yet."""
    everywhere = await lists.channels.all_subscriptions(user)
    begun = [(uid, one) for uid, followed in everywhere.items() for one in begun_by(followed, since)]
    records = await lists.feeds.within_reach(one.feed for _, one in begun)

    def read(uid: str, follow: Subscription) -> BroughtFeed:
        record = records.get(follow.feed) or FeedRecord(follow.feed, follow.url)
        condition = FeedCondition.of(record, now)
        name = feed_name(follow, record)
        if condition.needs_attention:
            return BroughtFeed(follow, uid, name, "failing", condition)
        return BroughtFeed(follow, uid, name, "waiting" if condition.state == "new" else "read", condition)

    # In a thread, because there may be thousands of feeds.
    rows = await asyncio.to_thread(lambda: [read(*one) for one in begun])
    return sorted(rows, key=lambda row: ("failing", "waiting", "read").index(row.state))


async def _lists(
    reader: ReaderSite, lists: FeedLists, imports: ListImports, settings_of: SettingsOf, visit: PageVisit
) -> Response:
    """Progress and result of the last import with each of its feeds, and the field for another one."""
    user = await reader.user(visit)
    latest = await imports.latest(user)
    brought = await _brought(lists, user, latest.begun, visit.now) if latest is not None and latest.report else []
    uid = brought[0].uid if brought else ""
    return visit.page(
        "lists.html",
        latest=latest,
        unread=(await settings_of(user, uid)).first_fetch_unread if uid else None,
        brought=ListPart.of(brought, visit.query.get("from", ""), MOST_SHOWN),
        states=Counter(row.state for row in brought),
        can_be_undone=latest is not None and latest.can_be_undone(visit.now),
        is_undone="undone" in visit.query and latest is None,
        is_stale=latest is not None and latest.is_stale(visit.now),
        channels=await reader.links(visit),
    )


async def _import(reader: ReaderSite, imports: ListImports, visit: PageVisit) -> Response:
    user = await reader.user(visit)
    with ExitStack() as place:
        place.callback(imports.admit(user))
        body = await visit.uploaded("list", MOST_BYTES)
        await imports.begin(user, body, visit.now, place.pop_all().close)
    return visit.go(LISTS)


async def _undo(reader: ReaderSite, imports: ListImports, visit: PageVisit) -> Response:
    user = await reader.user(visit)
    await imports.undo(user, visit.now)
    return visit.go(LISTS, undone="yes")


async def _export_list(reader: ReaderSite, lists: FeedLists, visit: PageVisit) -> Response:
    user = await reader.user(visit)
    body = await lists.export(user, visit.now, masked=True)
    return Response(body, headers=_as_file("text/x-opml; charset=utf-8", "feeds.opml"))


async def _export(
    reader: ReaderSite,
    accounts: Accounts,
    user_export: UserExport,
    name_instance: Callable[[], Awaitable[str]],
    limiter: RateLimiter,
    visit: PageVisit,
) -> Response:
    """Send an export of all the user's data; only a few run at the same time."""
    user = await reader.user(visit)
    found = await accounts.user(user)
    if found is None:
        raise NotFound(N_("This account no longer exists."))
    lines = user_export.lines(found, await name_instance(), visit.now)
    day = f"{datetime.fromtimestamp(visit.now, UTC):%Y-%m-%d}"
    headers = _as_file("application/jsonl; charset=utf-8", f"{user}-{day}.jsonl")
    return _Export(lines, headers, _admitted(limiter, user))


def _admitted(limiter: RateLimiter, user: str) -> SlotLease:
    """Reserve the slots for an export. Raises TooManyRequests."""
    if not limiter.has_room(EXPORTS_OF_USER, user):
        raise TooManyRequests(
            Sentence("You can download your data {most} times a minute. Wait a minute.", most=EXPORTS_OF_USER.most), 60
        )
    taken = limiter.acquire(EXPORTS_SHARED, user)
    if taken is None:
        raise TooManyRequests(N_("Another export is in progress. Try again when it has finished."), 10)
    limiter.count(EXPORTS_OF_USER, user)
    return taken


class _Export(StreamingResponse):
    """A reply that frees its slots, even if the client disconnected before it began."""

    def __init__(self, lines: AsyncIterator[bytes], headers: dict[str, str], taken: SlotLease) -> None:
        super().__init__(lines, headers=headers)
        self._taken = taken

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        leaving = asyncio.get_running_loop().call_later(EXPORT_SHARES, self._taken.release_shared)
        try:
            await super().__call__(scope, receive, send)
        finally:
            leaving.cancel()
            self._taken.release()


def _as_file(kind: str, name: str) -> dict[str, str]:
    return {**page_headers(), "content-type": kind, "content-disposition": f'attachment; filename="{name}"'}
