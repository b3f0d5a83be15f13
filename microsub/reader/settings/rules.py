"""The page of mutes and blocks: their targets, channels and ends."""

from __future__ import annotations

from functools import partial
from typing import Literal

from starlette.responses import Response
from starlette.routing import Route

from microsub.accounts import UserQuotas
from microsub.base.clock import DAY
from microsub.base.errors import InvalidRequest, NotFound
from microsub.base.texts import N_
from microsub.base.urls import mask_credentials
from microsub.model.reader import SAVED
from microsub.reader.frame import ReaderSite
from microsub.reader.places import given_address
from microsub.reader.reading.post_page import MUTED_FOR
from microsub.reader.settings.menu import RULES
from microsub.timelines import Channels, Rules
from microsub.web.routes import page
from microsub.web.visit import PageVisit

_FEED = "feed:"
"""Prefix of a feed id in a form field that otherwise holds an address."""

Kind = Literal["mute", "block"]


def routes(reader: ReaderSite, rules: Rules, channels: Channels, quotas: UserQuotas) -> list[Route]:
    """The routes of this module."""
    shown = partial(_rules, reader, rules)
    return [
        page(reader.site, RULES, shown),
        reader.change(RULES, partial(_add, reader, rules, channels, quotas), shown),
        reader.change(f"{RULES}/end", partial(_end, reader, rules)),
    ]


async def _rules(reader: ReaderSite, rules: Rules, visit: PageVisit) -> Response:
    user, everywhere = await reader.user(visit), await reader.links(visit)
    places = [link for link in everywhere if link.uid != SAVED]
    found = await rules.of_channels(user, [link.uid for link in places])
    mutes = [(link, url) for link in places for url in found[link.uid][0]]
    ends = await rules.ends(user, [(link.uid, url) for link, url in mutes])
    blocks = [(link, url) for link in places for url in found[link.uid][1]]
    listed = [
        *(("mute", link, url, mask_credentials(url), until) for (link, url), until in zip(mutes, ends, strict=True)),
        *(("block", link, url, mask_credentials(url), None) for link, url in blocks),
    ]
    return await visit.long_page(
        "rules.html",
        rules=listed,
        times=MUTED_FOR,
        done=visit.query.get("done", ""),
        count=int(count) if (count := visit.query.get("count", "0")).isdecimal() and len(count) < 9 else 0,
        places=places,
        channels=everywhere,
    )


async def _add(reader: ReaderSite, rules: Rules, channels: Channels, quotas: UserQuotas, visit: PageVisit) -> Response:
    """Mute or block an author or a feed; the page shows how many posts that changed."""
    user, uid = await reader.user(visit), visit.form.text("channel")
    url = await _address(channels, visit, user)
    most = await quotas.most("rules", user)
    if visit.form.text("kind") == "block":
        done, count = "block", await rules.block(user, uid, url, visit.now, most=most)
    else:
        done, count = "mute", await rules.mute(user, uid, url, visit.now, until=_until(visit), most=most)
    return visit.go(RULES, done=done, count=str(count))


async def _end(reader: ReaderSite, rules: Rules, visit: PageVisit) -> Response:
    user = await reader.user(visit)
    lift = rules.unblock if visit.form.text("kind") == "block" else rules.unmute
    count = await lift(user, visit.form.text("channel"), visit.form.text("url"), visit.now)
    return visit.go(RULES, done="end", count=str(count))


async def _address(channels: Channels, visit: PageVisit, user: str) -> str:
    """The address in the form, or that of the followed feed that it names."""
    text = visit.form.text("url")
    if text.startswith(_FEED):
        followed = (await channels.followed_feeds(user)).get(text.removeprefix(_FEED))
        if followed is None:
            raise NotFound(N_("You no longer follow this feed."))
        return followed.url
    return given_address(text)


def _until(visit: PageVisit) -> float | None:
    """The end of the mute, by the form's number of days; None for never."""
    days = visit.form.text("days")
    if days not in MUTED_FOR:
        raise InvalidRequest(N_("choose a mute duration"))
    return visit.now + int(days) * DAY if days else None
