"""The `timeline` action (https://indieweb.org/Microsub-spec#Timelines): pages, and what a reader does to items."""

from __future__ import annotations

from microsub.kit.http.params import Params, missing
from microsub.model.reader import Credential, Grant
from microsub.surface import Services
from microsub.timelines.api import arguments
from microsub.timelines.api.call import Action, Call, FusedAction, Reply, Table

EVERYTHING = "everything"


async def page(services: Services, params: Params, credential: Credential, now: float) -> tuple[Grant, Reply]:
    """One page of a channel, newest first."""
    uid = arguments.channel(params)
    return await services.reading.page_with_token(credential, uid, arguments.page_query(params), now)


async def mark_read(call: Call) -> Reply:
    """Mark the items in `entry`, or `last_read_entry` and what is older, or `everything`."""
    uid = arguments.channel(call.params)
    reading = call.services.reading
    last = call.params.text("last_read_entry")
    if last is None:
        if not call.params.many("entry"):
            raise missing("entry", "the '_id' of one or more items, or 'last_read_entry'")
        return _updated(await reading.mark_read(call.user, uid, arguments.entries(call.params), call.now))
    updated = 0
    if call.params.many("entry"):
        updated = await reading.mark_read(call.user, uid, arguments.entries(call.params), call.now)
    if last == EVERYTHING:
        return _updated(updated + await reading.mark_all_read(call.user, uid, call.now))
    return _updated(updated + await reading.mark_read_before(call.user, uid, last, call.now))


async def mark_unread(call: Call) -> Reply:
    """Mark the items in `entry` as unread again."""
    uid = arguments.channel(call.params)
    entries = arguments.entries(call.params)
    return _updated(await call.services.reading.mark_unread(call.user, uid, entries, call.now))


async def remove(call: Call) -> Reply:
    """Take the items in `entry` out of the channel, for good."""
    uid = arguments.channel(call.params)
    entries = arguments.entries(call.params)
    return _updated(await call.services.reading.remove(call.user, uid, entries, call.now))


async def move(call: Call) -> Reply:
    """Move the items in `entry` to the channel, with their read state."""
    target = arguments.channel(call.params, allow_global=False)
    entries = arguments.entries(call.params)
    return _updated(await call.services.reading.move(call.user, target, entries, call.now))


def _updated(count: int) -> Reply:
    return {"result": "ok", "updated": count}


TABLE: Table = {
    ("GET", "timeline", ""): FusedAction("read", page),
    ("POST", "timeline", "mark_read"): Action("read", mark_read),
    ("POST", "timeline", "mark_unread"): Action("read", mark_unread),
    ("POST", "timeline", "remove"): Action("read", remove),
    ("POST", "timeline", "move"): Action("read", move),
}
