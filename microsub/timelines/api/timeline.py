"""The `timeline` action: pages, and what a reader does to items.

Spec: https://indieweb.org/Microsub-spec#Timelines.
"""

from __future__ import annotations

from microsub.kit.http.params import Params, missing
from microsub.model.reader import Credential, Grant, Reason
from microsub.surface import Services
from microsub.timelines.api import arguments
from microsub.timelines.api.call import Action, Call, FusedAction, Reply, Table
from microsub.timelines.store.read_state import mark, mark_all, mark_before
from microsub.timelines.store.remove import Leaving, move_items, take_out

EVERYTHING = "everything"


async def page(services: Services, params: Params, credential: Credential, now: float) -> tuple[Grant, Reply]:
    """One page of a channel, newest first."""
    uid = arguments.channel(params)
    return await services.reading.page_with_token(credential, uid, arguments.page_query(params), now)


async def mark_read(call: Call) -> Reply:
    """Mark the items in `entry`, or `last_read_entry` and what is older, or `everything`."""
    uid, redis = arguments.channel(call.params), call.services.redis
    last = call.params.text("last_read_entry")
    updated = 0
    if call.params.many("entry"):
        updated = await mark(redis, call.user, uid, arguments.entries(call.params), "read", call.now)
    elif last is None:
        raise missing("entry", "the '_id' of one or more items, or 'last_read_entry'")
    if last == EVERYTHING:
        updated += await mark_all(redis, call.user, uid, call.now)
    elif last is not None:
        updated += await mark_before(redis, call.user, uid, last, call.services.items.places, call.now)
    return _updated(updated)


async def mark_unread(call: Call) -> Reply:
    """Mark the items in `entry` as unread again."""
    uid, entries = arguments.channel(call.params), arguments.entries(call.params)
    return _updated(await mark(call.services.redis, call.user, uid, entries, "unread", call.now))


async def remove(call: Call) -> Reply:
    """Take the items in `entry` out of the channel, for good."""
    uid, entries = arguments.channel(call.params), arguments.entries(call.params)
    how = Leaving(Reason.REMOVED, removed_too=False)
    return _updated(len(await take_out(call.services.redis, call.user, uid, entries, how, call.now)))


async def move(call: Call) -> Reply:
    """Move the items in `entry` to the channel, with their read state."""
    target, entries = arguments.channel(call.params, allow_global=False), arguments.entries(call.params)
    services = call.services
    return _updated(await move_items(services.redis, services.items, call.user, target, entries, call.now))


def _updated(count: int) -> Reply:
    return {"result": "ok", "updated": count}


TABLE: Table = {
    ("GET", "timeline", ""): FusedAction("read", page),
    ("POST", "timeline", "mark_read"): Action("read", mark_read),
    ("POST", "timeline", "mark_unread"): Action("read", mark_unread),
    ("POST", "timeline", "remove"): Action("read", remove),
    ("POST", "timeline", "move"): Action("read", move),
}
