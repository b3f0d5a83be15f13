"""The pages to import and export lists of feeds, and to export all data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from datetime import UTC, datetime

from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from microsub.base.errors import NotFound, TooManyRequests
from microsub.base.rate_limits import AT_ONCE, RateLimit, RateLimiter, SharedSlots, SlotLease
from microsub.base.texts import N_, Sentence
from microsub.reader.reading.channel_list import links
from microsub.reader.reading.pages import reader_of
from microsub.reader.settings.menu import SETTINGS
from microsub.transfer import MOST_BYTES
from microsub.web.headers import page_headers
from microsub.web.routes import Handler, form, page, upload
from microsub.web.visit import PageSite, PageVisit

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


def routes(site: PageSite) -> list[Route]:
    """The routes of this module."""
    return [
        page(site, LISTS, _lists),
        upload(site, LISTS, _import, _lists),
        form(site, UNDO, _undo, _lists),
        page(site, f"{LISTS}/feeds.opml", _export_list),
        page(site, f"{LISTS}/everything.jsonl", _exporting(RateLimiter())),
    ]


async def _lists(visit: PageVisit) -> Response:
    """Progress and result of the last import, and the field for another one."""
    user = await reader_of(visit)
    latest = await visit.site.services.list_imports.latest(user)
    return visit.page(
        "lists.html",
        latest=latest,
        can_be_undone=latest is not None and latest.can_be_undone(visit.now),
        is_undone="undone" in visit.query and latest is None,
        is_stale=latest is not None and latest.is_stale(visit.now),
        channels=await links(visit),
    )


async def _import(visit: PageVisit) -> Response:
    user, imports = await reader_of(visit), visit.site.services.list_imports
    with ExitStack() as place:
        place.callback(imports.admit(user))
        body = await visit.uploaded("list", MOST_BYTES)
        await imports.begin(user, body, visit.now, place.pop_all().close)
    return visit.go(LISTS)


async def _undo(visit: PageVisit) -> Response:
    user = await reader_of(visit)
    await visit.site.services.list_imports.undo(user, visit.now)
    return visit.go(LISTS, undone="yes")


async def _export_list(visit: PageVisit) -> Response:
    user = await reader_of(visit)
    body = await visit.site.services.feed_lists.export(user, visit.now, masked=True)
    return Response(body, headers=_as_file("text/x-opml; charset=utf-8", "feeds.opml"))


def _exporting(limiter: RateLimiter) -> Handler:
    """The handler that sends an export of all the user's data; only a few run at the same time."""

    async def export(visit: PageVisit) -> Response:
        user, services = await reader_of(visit), visit.site.services
        found = await services.accounts.user(user)
        if found is None:
            raise NotFound(N_("This account no longer exists."))
        lines = services.user_export.lines(found, await services.name_instance(), visit.now)
        day = f"{datetime.fromtimestamp(visit.now, UTC):%Y-%m-%d}"
        headers = _as_file("application/jsonl; charset=utf-8", f"{user}-{day}.jsonl")
        return _Export(lines, headers, _admitted(limiter, user))

    return export


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
