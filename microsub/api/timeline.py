"""The `timeline` action: pages, and changes to their items; mute and block.

Spec: https://indieweb.org/Microsub-spec#Timelines, #Muting and #Blocking. A rule belongs to one channel or, without
`channel` or with `global`, to all of the user's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import orjson

from microsub.api import arguments
from microsub.api.arguments import Action, Call, FusedAction, LaterReply, Reply, Table
from microsub.model.reader import SAVED, Credential, Cursor, Grant, Reason
from microsub.server.surface import Services
from microsub.timelines.read_state import mark, mark_all, mark_before
from microsub.timelines.remove import Leaving, move_items, take_out
from microsub.timelines.restore import put_unread
from microsub.timelines.saved import move_to_saved, save_posts
from microsub.timelines.saved import save as put_into_saved
from microsub.timelines.saved import unsave as take_out_of_saved
from microsub.timelines.sync.arrivals import Arrivals
from microsub.web.params import Params, missing

EVERYTHING = "everything"


async def page(services: Services, params: Params, credential: Credential, now: float) -> tuple[Grant, LaterReply]:
    """One page of a channel, newest first."""
    uid, query = arguments.channel(params), arguments.page_query(params)
    grant, rows = await services.reading.rows_with_token(credential, uid, query, now)
    return grant, partial(services.reading.shown, grant.user, uid, query, rows, now)


async def ids(services: Services, params: Params, credential: Credential, now: float) -> tuple[Grant, Reply]:
    """The ids of a channel's items in their order of arrival, with their state."""
    uid = arguments.channel_or_global(params)
    grant, found = await services.reading.arrivals_with_token(credential, uid, arguments.arrival_query(params), now)
    return grant, arrivals_to_wire(found)


def arrivals_to_wire(found: Arrivals) -> bytes:
    """The reply as the bytes of a JSON object."""
    items = b",".join(
        b'{"_id":"%b","_is_read":%b,%b"_arrived":%d}'
        % (
            row.id.encode(),
            b"true" if row.is_read else b"false",
            b'"_saved":true,' if row.is_saved else b"",
            row.position,
        )
        for row in found.rows
    )
    places = (("after", found.resume), ("since", found.newest))
    paging = {name: Cursor(str(place), "0").encode() for name, place in places if place is not None}
    return b'{"items":[%b],"paging":%b}' % (items, orjson.dumps(paging))


async def mark_read(call: Call) -> Reply:
    """Mark the items in `entry`, or `last_read_entry` and older ones, or `everything`."""
    uid, redis = arguments.channel(call.params), call.services.redis
    last = call.params.text("last_read_entry")
    updated: set[str] = set()
    if call.params.many("entry"):
        updated = await mark(redis, call.user, uid, arguments.entries(call.params), "read", call.now)
    elif last is None:
        raise missing("entry", "the '_id' of one or more items, or 'last_read_entry'")
    if last == EVERYTHING:
        updated |= await mark_all(redis, call.user, uid, call.now)
    elif last is not None:
        updated |= await mark_before(redis, call.user, uid, last, call.services.items.scores, call.now)
    return _updated(len(updated))


async def mark_unread(call: Call) -> Reply:
    """Mark the items in `entry` as unread again."""
    uid, entries = arguments.channel(call.params), arguments.entries(call.params)
    return _updated(len(await mark(call.services.redis, call.user, uid, entries, "unread", call.now)))


async def remove(call: Call) -> Reply:
    """Remove the items in `entry` from the channel permanently."""
    uid, entries = arguments.channel(call.params), arguments.entries(call.params)
    how = Leaving(Reason.REMOVED, removed_too=False)
    return _updated(len(await take_out(call.services.redis, call.user, uid, entries, how, call.now)))


async def move(call: Call) -> Reply:
    """Move the items in `entry` to the channel, with their read state; posts of previews are stored there unread."""
    target, entries = arguments.channel(call.params, allow_global=False), arguments.entries(call.params)
    stores, now = (call.services.redis, call.services.items), call.now
    picked, unknown = await arguments.picked(call)
    if target == SAVED:
        most = await _most_saved(call)
        count = await save_posts(*stores, call.user, picked, now, most=most) if picked else 0
        return _updated(count + await move_to_saved(*stores, call.user, entries, now, most=most), unknown)
    count = await put_unread(*stores, call.user, target, picked, now) if picked else 0
    return _updated(count + await move_items(*stores, call.user, target, entries, now), unknown)


async def save(call: Call) -> Reply:
    """Put the items in `entry`, from the channel, any channel or a preview, into `saved` as well."""
    uid, entries = arguments.channel_or_global(call.params), arguments.entries(call.params)
    stores, most = (call.services.redis, call.services.items), await _most_saved(call)
    picked, unknown = await arguments.picked(call)
    count = await save_posts(*stores, call.user, picked, call.now, most=most) if picked else 0
    return _updated(count + await put_into_saved(*stores, call.user, entries, call.now, uid=uid, most=most), unknown)


async def unsave(call: Call) -> Reply:
    """Remove the items in `entry` from `saved`."""
    return _updated(await take_out_of_saved(call.services.redis, call.user, arguments.entries(call.params), call.now))


async def _most_saved(call: Call) -> int:
    return await call.services.identity.quotas.most("saved", call.user)


def _updated(count: int, unknown: Sequence[str] = ()) -> Reply:
    return {"result": "ok", "updated": count, **({"unknown": [*unknown]} if unknown else {})}


# --- mute, block ------------------------------------------------------------------------------------------------------


async def muted(call: Call) -> Reply:
    """The muted authors and sources."""
    return _cards(await call.services.rules.muted(call.user, arguments.channel_or_global(call.params)))


async def blocked(call: Call) -> Reply:
    """The blocked authors and sources."""
    return _cards(await call.services.rules.blocked(call.user, arguments.channel_or_global(call.params)))


async def mute(call: Call) -> Reply:
    """Hide the posts of this author or source."""
    return await _rule(call, partial(call.services.rules.mute, most=await _most_rules(call)))


async def unmute(call: Call) -> Reply:
    """Show the posts of this author or source again."""
    return await _rule(call, call.services.rules.unmute)


async def block(call: Call) -> Reply:
    """Remove all posts of this author or source, and keep out further ones."""
    return await _rule(call, partial(call.services.rules.block, most=await _most_rules(call)))


async def unblock(call: Call) -> Reply:
    """Accept the posts of this author or source again from now on."""
    return await _rule(call, call.services.rules.unblock)


async def _most_rules(call: Call) -> int:
    return await call.services.identity.quotas.most("rules", call.user)


async def _rule(call: Call, write: Callable[..., Awaitable[int]]) -> Reply:
    uid, url = arguments.channel_or_global(call.params), arguments.url(call.params)
    await write(call.user, uid, url, call.now)
    return _card(url)


def _card(url: str) -> dict[str, str]:
    return {"type": "card", "url": url}


def _cards(urls: list[str]) -> Reply:
    return {"items": [_card(url) for url in urls]}


TABLE: Table = {
    ("GET", "timeline", ""): FusedAction("read", page),
    ("GET", "timeline", "ids"): FusedAction("read", ids),
    ("POST", "timeline", "mark_read"): Action("read", mark_read),
    ("POST", "timeline", "mark_unread"): Action("read", mark_unread),
    ("POST", "timeline", "remove"): Action("read", remove, changes_topics=True),
    ("POST", "timeline", "move"): Action("read", move, changes_topics=True),
    ("POST", "timeline", "save"): Action("read", save, changes_topics=True),
    ("POST", "timeline", "unsave"): Action("read", unsave),
    ("GET", "mute", ""): Action("read", muted),
    ("POST", "mute", ""): Action("mute", mute),
    ("POST", "unmute", ""): Action("mute", unmute),
    ("GET", "block", ""): Action("read", blocked),
    ("POST", "block", ""): Action("block", block),
    ("POST", "unblock", ""): Action("block", unblock),
}
