"""The actions `mute`, `unmute`, `block` and `unblock`.

Spec: https://indieweb.org/Microsub-spec#Muting and #Blocking. A rule belongs to one channel or, without `channel` or
with `global`, to all of the user's.
"""

from __future__ import annotations

from microsub.timelines.api import arguments
from microsub.timelines.api.call import Action, Call, Reply, Table


async def muted(call: Call) -> Reply:
    """Who is muted."""
    return _cards(await call.services.rules.muted(call.user, arguments.channel_or_global(call.params)))


async def blocked(call: Call) -> Reply:
    """Who is blocked."""
    return _cards(await call.services.rules.blocked(call.user, arguments.channel_or_global(call.params)))


async def mute(call: Call) -> Reply:
    """Hide what this author or source posts."""
    uid, url = _rule(call)
    most = await call.services.identity.quotas.rules(call.user)
    await call.services.rules.mute(call.user, uid, url, call.now, most=most)
    return _card(url)


async def unmute(call: Call) -> Reply:
    """Show it again."""
    uid, url = _rule(call)
    await call.services.rules.unmute(call.user, uid, url, call.now)
    return _card(url)


async def block(call: Call) -> Reply:
    """Remove what this author or source posted, and take nothing more from them."""
    uid, url = _rule(call)
    most = await call.services.identity.quotas.rules(call.user)
    await call.services.rules.block(call.user, uid, url, call.now, most=most)
    return _card(url)


async def unblock(call: Call) -> Reply:
    """Take their posts again from now on."""
    uid, url = _rule(call)
    await call.services.rules.unblock(call.user, uid, url, call.now)
    return _card(url)


def _rule(call: Call) -> tuple[str, str]:
    return arguments.channel_or_global(call.params), arguments.url(call.params)


def _card(url: str) -> dict[str, str]:
    return {"type": "card", "url": url}


def _cards(urls: list[str]) -> Reply:
    return {"items": [_card(url) for url in urls]}


TABLE: Table = {
    ("GET", "mute", ""): Action("read", muted),
    ("POST", "mute", ""): Action("mute", mute),
    ("POST", "unmute", ""): Action("mute", unmute),
    ("GET", "block", ""): Action("read", blocked),
    ("POST", "block", ""): Action("block", block),
    ("POST", "unblock", ""): Action("block", unblock),
}
