"""The forms of reading: mark as read or unread, save, mark all, and undo.

Each form works without scripts and leads back to the page it was on; a script that sends it gets the changes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

from starlette.responses import Response
from starlette.routing import Route

from microsub.base.errors import InvalidRequest
from microsub.base.texts import N_, Sentence
from microsub.model.reader import GLOBAL, Cursor
from microsub.reader.reading.channel_list import links
from microsub.reader.reading.pages import data_reply, reader_of
from microsub.reader.reading.places import HOME, ITEM_ID, TimelinePlace
from microsub.reader.reading.undo import UndoRecords
from microsub.timelines.read_state import mark, mark_until
from microsub.timelines.saved import save, unsave
from microsub.web.headers import own_path
from microsub.web.routes import form
from microsub.web.visit import PageSite, PageVisit

MARKS, MARK_ALL, UNDO = "/marks", "/marks/all", "/marks/undo"
MOST = 1000
"""Maximum number of posts in one form."""

Marked = Mapping[str, set[str]]
"""Changed posts by channel."""


def routes(site: PageSite) -> list[Route]:
    """The routes of this module."""
    return [form(site, MARKS, _change), form(site, MARK_ALL, _mark_all), form(site, UNDO, _undo)]


async def _change(visit: PageVisit) -> Response:
    """Carry out the pressed button: its name is the change, its value the post's id."""
    user = await reader_of(visit)
    for name, change in _CHANGES.items():
        if name in visit.form:
            return await _done(visit, *await change(visit, user, _ids(visit.form.text(name))))
    raise InvalidRequest(N_("The form is incomplete: it names no post or no change."))


Change = Callable[[PageVisit, str, list[str]], Awaitable[tuple[str, Marked]]]
"""Makes a change; returns the message to show, and the changed posts if they can be undone."""


async def _read(visit: PageVisit, user: str, ids: list[str]) -> tuple[str, Marked]:
    await _mark(visit, user, ids, "read")
    return "", {}


async def _unread(visit: PageVisit, user: str, ids: list[str]) -> tuple[str, Marked]:
    await _mark(visit, user, ids, "unread")
    return "", {}


async def _read_above(visit: PageVisit, user: str, ids: list[str]) -> tuple[str, Marked]:
    """Mark the posts of the page from its top down to this one."""
    listed = _ids(visit.form.text("page"))
    until = listed.index(ids[0]) + 1 if ids and ids[0] in listed else 0
    return "", {_channel(visit): await _mark(visit, user, listed[:until], "read")}


async def _read_page(visit: PageVisit, user: str, _: list[str]) -> tuple[str, Marked]:
    return "", {_channel(visit): await _mark(visit, user, _ids(visit.form.text("page")), "read")}


async def _save(visit: PageVisit, user: str, ids: list[str]) -> tuple[str, Marked]:
    services = visit.site.services
    most = await services.identity.quotas.most("saved", user)
    await save(services.redis, services.items, user, ids, visit.now, uid=GLOBAL, most=most)
    return visit.translate(N_("Saved.")), {}


async def _unsave(visit: PageVisit, user: str, ids: list[str]) -> tuple[str, Marked]:
    await unsave(visit.site.services.redis, user, ids, visit.now)
    return visit.translate(N_("Removed from saved posts.")), {}


_CHANGES: Mapping[str, Change] = {
    **{"read": _read, "unread": _unread, "above": _read_above, "all": _read_page},
    **{"save": _save, "unsave": _unsave},
}


async def _mark(visit: PageVisit, user: str, ids: list[str], state: Literal["read", "unread"]) -> set[str]:
    return await mark(visit.site.services.redis, user, _channel(visit), ids, state, visit.now)


async def _mark_all(visit: PageVisit) -> Response:
    """Mark all posts that the page's place shows, up to the newest one when the page was made."""
    user, uid = await reader_of(visit), _channel(visit)
    until = Cursor.decode(visit.form.text("until"), "until")
    source = visit.form.text("source")
    if source:
        marked = {uid: await _mark_source(visit, user, TimelinePlace.of(uid, {"source": source}), until)}
    else:
        services = visit.site.services
        marked = await mark_until(services.redis, user, uid, until.item, services.items.scores, visit.now)
    return await _done(visit, "", marked)


async def _mark_source(visit: PageVisit, user: str, place: TimelinePlace, until: Cursor) -> set[str]:
    """Mark the posts of one feed in the channel, from that position downwards."""
    services = visit.site.services
    behind = await services.reading.unread_of(user, place.uid, place.source, visit.now, until)
    return await mark(services.redis, user, place.uid, [until.item, *behind], "read", visit.now)


async def _undo(visit: PageVisit) -> Response:
    user = await reader_of(visit)
    count = await UndoRecords(visit.site.services.redis).undo(user, visit.form.text("undo"), visit.now)
    text = N_("Marked as unread.") if count else N_("This can no longer be undone.")
    return await _done(visit, visit.translate(text), {})


async def _done(visit: PageVisit, text: str, marked: Marked) -> Response:
    """The reply: a redirect back to the form's page, or for a script the changes."""
    user = visit.require_session().user
    record = await UndoRecords(visit.site.services.redis).remember(user, marked)
    if visit.request.headers.get("accept", "").startswith("application/json"):
        if record is not None:
            text = visit.translate_count(
                N_("%(num)s post marked as read."), N_("%(num)s posts marked as read."), record.count
            )
        told = {"text": text, "undo": record.id if record is not None else "", "unread": (await links(visit)).unread}
        return data_reply(told)
    path, _, query = (own_path(visit.form.text("back")) or HOME).partition("?")
    kept = [part for part in query.split("&") if part and not part.startswith("undo=")]
    if record is not None:
        kept.append(f"undo={record.id}")
    return visit.go(f"{path}?{'&'.join(kept)}" if kept else path)


def _channel(visit: PageVisit) -> str:
    return TimelinePlace.of(visit.form.text("channel") or GLOBAL, {}).uid


def _ids(text: str) -> list[str]:
    """The ids in a comma-separated field; malformed ones are left out."""
    found = [id_ for id_ in text.split(",") if ITEM_ID.fullmatch(id_)]
    if len(found) > MOST:
        raise InvalidRequest(Sentence("The form names more than {most} posts.", most=MOST))
    return found
