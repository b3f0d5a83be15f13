"""The `channels` action (https://indieweb.org/Microsub-spec#Channels)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import orjson

from microsub.api import arguments
from microsub.api.arguments import Action, Call, FusedAction, Reply, Table, instant
from microsub.model.reader import NAME, Channel, Credential, Grant
from microsub.model.settings import UnreadStyle
from microsub.server.surface import Services
from microsub.timelines.channels import ChannelNames
from microsub.timelines.views import SourceCount
from microsub.web.params import Params, missing, wrong

_SETTINGS_PAGE = "/channels"
"""Path prefix of a channel's page, which has the settings of the channel and of its feeds."""


async def listed(services: Services, params: Params, credential: Credential, now: float) -> tuple[Grant, bytes]:
    """All channels with their unread counts."""
    del params
    grant, names, counts = await services.reading.counts_with_token(credential, now)
    template, styles = _template(names, await services.reading.style(grant.user))
    return grant, template % tuple(
        [_SHOWN[style](count) for style, count in zip(styles, counts, strict=True) if style != "none"]
        if styles
        else counts
    )


_Template = tuple[bytes, tuple[UnreadStyle, ...]]
_templates: WeakKeyDictionary[ChannelNames, dict[UnreadStyle, _Template]] = WeakKeyDictionary()
"""Remembered templates, kept as long as the channel names they belong to: they may be megabytes."""


def _template(names: ChannelNames, inherited: UnreadStyle) -> _Template:
    """The list as JSON with a `%` for each count, and the counts' styles (none: all numbers)."""
    known = _templates.setdefault(names, {})
    if inherited not in known:
        known[inherited] = _made(names, inherited)
    return known[inherited]


def _made(names: ChannelNames, inherited: UnreadStyle) -> _Template:
    styles = tuple(channel.settings.unread or inherited for channel in names.channels)
    parts = []
    for channel, style in zip(names.channels, styles, strict=True):
        head = orjson.dumps({"uid": channel.uid, "name": channel.name})[:-1].replace(b"%", b"%%")
        parts.append(head + (b"}" if style == "none" else b',"unread":%b}'))
    return b'{"channels":[' + b",".join(parts) + b"]}", () if set(styles) == {"count"} else styles


_SHOWN: dict[UnreadStyle, Callable[[bytes], bytes]] = {
    "count": lambda count: count,
    "boolean": lambda count: b"false" if count == b"0" else b"true",
}


async def tree(call: Call) -> Reply:
    """All channels, each with its feeds and their counts."""
    style = await call.services.reading.style(call.user)
    branches = await call.services.reading.tree(call.user)
    return {
        "channels": [
            {
                **channel_to_wire(channel, style),
                **_page(call, channel),
                "sources": [{**_source_to_wire(one, channel, style), **_page(call, channel)} for one in sources],
            }
            for channel, sources in branches
        ]
    }


def _page(call: Call, channel: Channel) -> dict[str, str]:
    """The page with the channel's settings."""
    return {"_settings": f"{call.services.public_url}{_SETTINGS_PAGE}/{channel.uid}"}


async def write(call: Call) -> Reply:
    """Rename the channel in `channel`, or create one."""
    name = arguments.name(call.params)
    if call.params.text("channel") is None:
        most = await call.services.identity.quotas.most("channels", call.user)
        channel = await call.services.channels.create(call.user, name, call.now, most=most)
    else:
        uid = arguments.channel(call.params, allow_global=False)
        channel = await call.services.channels.rename(call.user, uid, name, call.now)
    return channel_to_wire(channel, await call.services.reading.style(call.user))


async def delete(call: Call) -> Reply:
    """Delete a channel with everything in it."""
    await call.services.following.delete_channel(call.user, arguments.channel(call.params, allow_global=False))
    return {}


async def order(call: Call) -> Reply:
    """Put the listed channels into this order, within their positions."""
    uids = call.params.many("channels")
    if not uids:
        raise missing("channels", "the uids of channels in their new order")
    for uid in uids:
        if not NAME.match(uid):
            raise wrong("channels", uid, "uids made of letters, digits, '-' and '_'")
    channels = await call.services.channels.order(call.user, uids)
    style = await call.services.reading.style(call.user)
    return {"channels": [channel_to_wire(channel, style) for channel in channels]}


def channel_to_wire(channel: Channel, inherited: UnreadStyle) -> dict[str, Any]:
    """A channel as clients read it.

    `unread` follows the style of its settings, otherwise the `inherited` one.
    """
    wire: dict[str, Any] = {"uid": channel.uid, "name": channel.name}
    _add_unread(wire, channel.settings.unread or inherited, channel.unread)
    return wire


def _source_to_wire(source: SourceCount, channel: Channel, inherited: UnreadStyle) -> dict[str, Any]:
    wire: dict[str, Any] = {"uid": source.feed, "url": source.url, "name": source.name}
    _add_unread(wire, channel.settings.unread or inherited, source.unread)
    wire["total"] = source.total
    if source.last_update is not None:
        wire["last_update"] = instant(source.last_update)
    return wire


def _add_unread(wire: dict[str, Any], style: UnreadStyle, count: int) -> None:
    if style == "count":
        wire["unread"] = count
    elif style == "boolean":
        wire["unread"] = count > 0


TABLE: Table = {
    ("GET", "channels", ""): FusedAction("read", listed),
    ("GET", "channels", "tree"): Action("read", tree),
    ("POST", "channels", ""): Action("channels", write),
    ("POST", "channels", "delete"): Action("channels", delete, changes_topics=True),
    ("POST", "channels", "order"): Action("channels", order),
}
