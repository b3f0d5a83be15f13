"""The forms of reading: mark as read or unread, save, mark all, and undo.

Each form works without scripts and leads back to the page it was on; a script that sends it gets the changes.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal

from starlette.responses import Response
from starlette.routing import Route

from microsub.accounts import UserQuotas
from microsub.base.clock import DAY
from microsub.base.errors import InvalidRequest, NotFound
from microsub.base.plaintext import on_one_line
from microsub.base.texts import N_, Sentence
from microsub.model.reader import GLOBAL, Cursor
from microsub.reader.frame import ReaderSite
from microsub.reader.places import HOME, ITEM_ID, TimelinePlace
from microsub.reader.reading.pages import data_reply
from microsub.reader.reading.undo import LATE, NO_MORE, UndoRecord, UndoRecords, marked_text, undone_text
from microsub.timelines import ReaderViews, ReadState, SavedPosts
from microsub.web.headers import own_path
from microsub.web.routes import Handler, form
from microsub.web.visit import PageVisit

MARKS, MARK_ALL, UNDO = "/marks", "/marks/all", "/marks/undo"
MOST = 1000
"""Maximum number of posts in one form."""
AGES = {"1": N_("No unread post is older than a day."), "7": N_("No unread post is older than a week.")}
"""Days by which posts can be older than now to be marked together, with the message that none is."""
NOTHING_UNREAD = N_("There is no unread post here.")

_LONGEST_NAME = 200
"""Characters of a channel's or feed's name that a message shows."""

_SECONDS = re.compile(r"[0-9]{1,12}", re.ASCII)

State = Literal["read", "unread"]
Marked = Mapping[str, set[str]]
"""Changed posts by channel."""

Change = Callable[[PageVisit, str, list[str]], Awaitable[tuple[str, Marked]]]
"""Makes a change; returns the message to show, and the changed posts if they can be undone."""


class MarkForms:
    """The forms with which users mark and save posts."""

    def __init__(
        self,
        reader: ReaderSite,
        reading: ReaderViews,
        read_state: ReadState,
        saved: SavedPosts,
        quotas: UserQuotas,
        undo: UndoRecords,
    ) -> None:
        self._reader = reader
        self._reading = reading
        self._read_state = read_state
        self._saved = saved
        self._quotas = quotas
        self._undo = undo
        self._changes: Mapping[str, Change] = {
            **{"read": partial(self._turn, "read"), "unread": partial(self._turn, "unread")},
            **{"above": self._read_above, "all": self._read_page, "save": self._save, "unsave": self._unsave},
        }

    def routes(self) -> list[Route]:
        """The routes of these forms."""
        forms = {MARKS: self._change, MARK_ALL: self._mark_all, UNDO: self._mark_again}
        return [form(self._reader.site, path, partial(self._in_turn, handler)) for path, handler in forms.items()]

    async def _in_turn(self, handler: Handler, visit: PageVisit) -> Response:
        """Few of a user at a time, as pages: a thousand posts in hundreds of channels take other requests' time."""
        async with visit.turn():
            return await handler(visit)

    async def _change(self, visit: PageVisit) -> Response:
        """Carry out the pressed button: its name is the change, its value the post's id."""
        user = await self._reader.user(visit)
        for name, change in self._changes.items():
            if name in visit.form:
                return await self._done(visit, *await change(visit, user, _ids(visit.form.text(name))))
        raise InvalidRequest(N_("The form is incomplete: it names no post or no change."))

    async def _turn(self, to: State, visit: PageVisit, user: str, ids: list[str]) -> tuple[str, Marked]:
        """Mark these posts; after several by scrolling are marked as unread again, the reply says how many."""
        marked = await self._mark(visit, user, ids, to)
        count = len(set[str]().union(*marked.values()))
        return undone_text(visit, UndoRecord("", count), None) if to == "unread" and len(ids) > 1 else "", {}

    async def _read_above(self, visit: PageVisit, user: str, ids: list[str]) -> tuple[str, Marked]:
        """Mark the posts of the page from its top down to this one."""
        listed = _ids(visit.form.text("page"))
        until = listed.index(ids[0]) + 1 if ids and ids[0] in listed else 0
        marked = await self._mark(visit, user, listed[:until], "read")
        return _unless(marked, visit, NOTHING_UNREAD), marked

    async def _read_page(self, visit: PageVisit, user: str, _: list[str]) -> tuple[str, Marked]:
        marked = await self._mark(visit, user, _ids(visit.form.text("page")), "read")
        return _unless(marked, visit, NOTHING_UNREAD), marked

    async def _save(self, visit: PageVisit, user: str, ids: list[str]) -> tuple[str, Marked]:
        most = await self._quotas.most("saved", user)
        count = await self._saved.save(user, ids, visit.now, uid=GLOBAL, most=most)
        if not count and not await self._saved.among(user, ids):
            raise NotFound(N_("This post isn’t in your channels any more."))
        return visit.translate(N_("Saved.")), {}

    async def _unsave(self, visit: PageVisit, user: str, ids: list[str]) -> tuple[str, Marked]:
        await self._saved.unsave(user, ids, visit.now)
        return visit.translate(N_("Removed from saved posts.")), {}

    async def _mark(self, visit: PageVisit, user: str, ids: list[str], state: State) -> Marked:
        return await self._read_state.mark_by_channel(user, _channel(visit), ids, state, visit.now)

    async def _mark_all(self, visit: PageVisit) -> Response:
        """Mark all posts that the page's place shows, up to the newest one when the page was made."""
        user, uid = await self._reader.user(visit), _channel(visit)
        if "older" in visit.form:
            return await self._mark_older(visit, user, uid)
        until = Cursor.decode(visit.form.text("until"), "until")
        source = visit.form.text("source")
        if source:
            place = TimelinePlace.of(uid, {"source": source})
            marked = await self._mark_source(visit, user, place, until, until.item)
        else:
            marked = await self._read_state.mark_until(user, uid, until.item, visit.now)
        return await self._done(visit, _unless(marked, visit, NOTHING_UNREAD), marked, _ids(visit.form.text("page")))

    async def _mark_older(self, visit: PageVisit, user: str, uid: str) -> Response:
        """Mark the posts of the page's place that were older than a day or a week when the button was pressed."""
        days, pressed, source = (visit.form.text(name) for name in ("older", "pressed", "source"))
        if days not in AGES:
            raise InvalidRequest(N_("The form is incomplete: it names no post or no change."))
        began = min(visit.now, int(pressed)) if _SECONDS.fullmatch(pressed) else visit.now
        place = Cursor(str(int(began) - int(days) * DAY), "0")
        if source:
            marked = await self._mark_source(visit, user, TimelinePlace.of(uid, {"source": source}), place)
        else:
            marked = await self._read_state.mark_after(user, uid, place, visit.now)
        return await self._done(visit, _unless(marked, visit, AGES[days]), marked, _ids(visit.form.text("page")))

    async def _mark_source(
        self, visit: PageVisit, user: str, place: TimelinePlace, until: Cursor, *ids: str
    ) -> dict[str, set[str]]:
        """Mark these posts, and those of one feed in the channel that are behind that position."""
        behind = await self._reading.unread_of(user, place.uid, place.source, visit.now, until)
        return await self._read_state.mark_by_channel(user, place.uid, [*ids, *behind], "read", visit.now)

    async def _mark_again(self, visit: PageVisit) -> Response:
        """Mark the posts of an undo record as unread, and offer to undo the marks before these."""
        user, name = await self._reader.user(visit), visit.form.text("undo")
        record, before = await asyncio.gather(self._undo.find(user, name), self._undo.before(user, name))
        count = await self._undo.undo(user, name, visit.now)
        text, undone = visit.translate(NO_MORE), LATE
        if count and record is not None:
            text, undone = undone_text(visit, replace(record, count=count), before), name
        said = marked_text(visit, before) if before is not None else ""
        return await self._reply(visit, text, before, undone=undone, before=said)

    async def _done(self, visit: PageVisit, text: str, marked: Marked, page: Collection[str] = ()) -> Response:
        """The reply to marks, which can be undone; `text` is said if there are none.

        A script gets those of its `page`: ages on it may be of other dates than the ones that order posts, and a feed
        may be in another channel since.
        """
        user, place = visit.require_session().user, on_one_line(visit.form.text("called"))[:_LONGEST_NAME]
        record = await self._undo.remember(user, marked, place)
        said = marked_text(visit, record) if record is not None else text
        changed = set[str]().union(*marked.values())
        more = {"read": [id_ for id_ in page if id_ in changed]} if page else {}
        return await self._reply(visit, said, record, undone="", **more)

    async def _reply(
        self, visit: PageVisit, text: str, undo: UndoRecord | None, *, undone: str, **more: object
    ) -> Response:
        """A redirect back to the form's page, or for a script the changes, and `more`."""
        if visit.request.headers.get("accept", "").startswith("application/json"):
            unread = (await self._reader.links(visit)).unread
            return data_reply({"text": text, "undo": undo.id if undo is not None else "", "unread": unread, **more})
        path, _, query = (own_path(visit.form.text("back")) or HOME).partition("?")
        named = {"undo": undo.id if undo is not None else "", "undone": undone}
        over = ("undone=", "undo=") if undo is not None or undone else ("undone=",)
        kept = [part for part in query.split("&") if part and not part.startswith(over)]
        kept += [f"{name}={id_}" for name, id_ in named.items() if id_]
        return visit.go(f"{path}?{'&'.join(kept)}" if kept else path)


def _channel(visit: PageVisit) -> str:
    return TimelinePlace.of(visit.form.text("channel") or GLOBAL, {}).uid


def _unless(marked: Marked, visit: PageVisit, text: str) -> str:
    """The translated text if no post is marked; the reply counts those that are."""
    return "" if any(marked.values()) else visit.translate(text)


def _ids(text: str) -> list[str]:
    """The ids in a comma-separated field; malformed ones are left out."""
    found = [id_ for id_ in text.split(",") if ITEM_ID.fullmatch(id_)]
    if len(found) > MOST:
        raise InvalidRequest(Sentence("The form names more than {most} posts.", most=MOST))
    return found
