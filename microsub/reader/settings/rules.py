"""The page of mutes and blocks: their targets, channels and ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from starlette.responses import Response
from starlette.routing import Route

from microsub.base.clock import DAY
from microsub.base.errors import InvalidRequest, NotFound
from microsub.base.texts import N_
from microsub.base.urls import mask_credentials
from microsub.model.reader import SAVED
from microsub.reader.reading.channel_list import ChannelLink, links
from microsub.reader.reading.pages import change, reader_of
from microsub.reader.reading.places import given_address
from microsub.reader.reading.post_page import MUTED_FOR
from microsub.reader.settings.menu import RULES
from microsub.web.routes import page
from microsub.web.visit import PageSite, PageVisit

_FEED = "feed:"
"""Prefix of a feed id in a form field that otherwise holds an address."""

Kind = Literal["mute", "block"]


def routes(site: PageSite) -> list[Route]:
    """The routes of this module."""
    return [page(site, RULES, _rules), change(site, RULES, _add, _rules), change(site, f"{RULES}/end", _end)]


@dataclass(frozen=True, slots=True)
class RuleView:
    """A mute or block in a channel or in all channels; `until` is Unix time, None if it doesn't end."""

    kind: Kind
    url: str
    shown: str
    channel: ChannelLink
    until: float | None = None


async def _rules(visit: PageVisit) -> Response:
    user, services = await reader_of(visit), visit.site.services
    everywhere = await links(visit)
    places = [link for link in everywhere if link.uid != SAVED]
    found = await services.rules.of_channels(user, [link.uid for link in places])
    mutes = [(link, url) for link in places for url in found[link.uid][0]]
    ends = await services.rules.ends(user, [(link.uid, url) for link, url in mutes])
    views = [
        *(
            RuleView("mute", url, mask_credentials(url), link, until)
            for (link, url), until in zip(mutes, ends, strict=True)
        ),
        *(RuleView("block", url, mask_credentials(url), link) for link in places for url in found[link.uid][1]),
    ]
    return await visit.long_page(
        "rules.html",
        rules=views,
        times=MUTED_FOR,
        done=visit.query.get("done", ""),
        count=int(count) if (count := visit.query.get("count", "0")).isdecimal() and len(count) < 9 else 0,
        places=places,
        channels=everywhere,
    )


async def _add(visit: PageVisit) -> Response:
    """Mute or block an author or a feed; the page shows how many posts that changed."""
    user, services = await reader_of(visit), visit.site.services
    uid, url = visit.form.text("channel"), await _address(visit, user)
    most = await services.identity.quotas.most("rules", user)
    if visit.form.text("kind") == "block":
        done, count = "block", await services.rules.block(user, uid, url, visit.now, most=most)
    else:
        done, count = "mute", await services.rules.mute(user, uid, url, visit.now, until=_until(visit), most=most)
    return visit.go(RULES, done=done, count=str(count))


async def _end(visit: PageVisit) -> Response:
    user, services = await reader_of(visit), visit.site.services
    lift: Callable[..., Awaitable[int]] = services.rules.unmute
    if visit.form.text("kind") == "block":
        lift = services.rules.unblock
    count = await lift(user, visit.form.text("channel"), visit.form.text("url"), visit.now)
    return visit.go(RULES, done="end", count=str(count))


async def _address(visit: PageVisit, user: str) -> str:
    """The address in the form, or that of the followed feed that it names."""
    text = visit.form.text("url")
    if text.startswith(_FEED):
        followed = (await visit.site.services.channels.followed_feeds(user)).get(text.removeprefix(_FEED))
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
