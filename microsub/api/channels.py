"""The `channels` action (https://indieweb.org/Microsub-spec#Channels)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakKeyDictionary

import orjson

from microsub.accounts import Most
from microsub.api import arguments
from microsub.model.reader import NAME, Channel, Credential, Grant
from microsub.model.settings import UnreadStyle
from microsub.timelines import ChannelNames, Channels, Following, ReaderViews, SourceCount
from microsub.web.actions import Action, Call, FusedAction, Reply, Table, channel_in, instant
from microsub.web.params import Params, missing, wrong

_SETTINGS_PAGE = "/channels"
"""Path prefix of a channel's page, which has the settings of the channel and of its feeds."""


ChannelList = Callable[[Params, Credential, float], Awaitable[tuple[Grant, bytes]]]
"""The reply to `channels` for the token of a request."""

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


class ChannelActions:
    """The action `channels`. `public_url` is the server's address."""

    def __init__(
        self, reading: ReaderViews, channels: Channels, following: Following, most: Most, public_url: str
    ) -> None:
        self._reading = reading
        self._channels = channels
        self._following = following
        self._most = most
        self._public_url = public_url

    def table(self) -> Table:
        """The actions by what selects them."""
        return {
            ("GET", "channels", ""): FusedAction("read", self.listed),
            ("GET", "channels", "tree"): Action("read", self.tree),
            ("POST", "channels", ""): Action("channels", self.write),
            ("POST", "channels", "delete"): Action("channels", self.delete, changes_topics=True),
            ("POST", "channels", "order"): Action("channels", self.order),
        }

    async def listed(self, params: Params, credential: Credential, now: float) -> tuple[Grant, bytes]:
        """All channels with their unread counts."""
        del params
        grant, names, counts = await self._reading.counts_with_token(credential, now)
        template, styles = _template(names, await self._reading.style(grant.user))
        return grant, template % tuple(
            [_SHOWN[style](count) for style, count in zip(styles, counts, strict=True) if style != "none"]
            if styles
            else counts
        )

    async def tree(self, call: Call) -> Reply:
        """All channels, each with its feeds and their counts."""
        style = await self._reading.style(call.user)
        branches = await self._reading.tree(call.user)
        return {
            "channels": [
                {
                    **channel_to_wire(channel, style),
                    **self._page(channel),
                    "sources": [{**_source_to_wire(one, channel, style), **self._page(channel)} for one in sources],
                }
                for channel, sources in branches
            ]
        }

    async def write(self, call: Call) -> Reply:
        """Rename the channel in `channel`, or create one."""
        name = arguments.name(call.params)
        if call.params.text("channel") is None:
            most = await self._most("channels", call.user)
            channel = await self._channels.create(call.user, name, call.now, most=most)
        else:
            uid = channel_in(call.params, allow_global=False)
            channel = await self._channels.rename(call.user, uid, name, call.now)
        return channel_to_wire(channel, await self._reading.style(call.user))

    async def delete(self, call: Call) -> Reply:
        """Delete a channel with everything in it."""
        await self._following.delete_channel(call.user, channel_in(call.params, allow_global=False))
        return {}

    async def order(self, call: Call) -> Reply:
        """Put the listed channels into this order, within their positions."""
        uids = call.params.many("channels")
        if not uids:
            raise missing("channels", "the uids of channels in their new order")
        for uid in uids:
            if not NAME.match(uid):
                raise wrong("channels", uid, "uids made of letters, digits, '-' and '_'")
        channels = await self._channels.order(call.user, uids)
        style = await self._reading.style(call.user)
        return {"channels": [channel_to_wire(channel, style) for channel in channels]}

    def _page(self, channel: Channel) -> dict[str, str]:
        """The page with the channel's settings."""
        return {"_settings": f"{self._public_url}{_SETTINGS_PAGE}/{channel.uid}"}
