"""The form with which users choose how the pages of each channel look."""

from __future__ import annotations

from functools import partial
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from microsub.reader.frame import ReaderSite
from microsub.reader.places import HOME, TimelinePlace
from microsub.timelines import ChannelDisplay, ChannelDisplays, Following
from microsub.web.headers import own_path
from microsub.web.routes import form
from microsub.web.visit import PageVisit

VIEW = "/view"


def routes(reader: ReaderSite, displays: ChannelDisplays, following: Following) -> list[Route]:
    """The form with which a user chooses how a channel, or one of its feeds, looks."""
    return [form(reader.site, VIEW, partial(_choose, reader, displays, following))]


async def _choose(reader: ReaderSite, displays: ChannelDisplays, following: Following, visit: PageVisit) -> Response:
    user, given = await reader.user(visit), {"source": visit.form.text("source")}
    place = TimelinePlace.of(visit.form.text("channel"), given)
    uids = frozenset(link.uid for link in await reader.links(visit))
    view: Any = visit.form.text("view")
    is_of_feed = place.source and view in ChannelDisplay.CHOICES["view"]
    is_chosen = is_of_feed and await following.choose_view(user, place.uid, place.source, view, visit.now)
    # In *All* and *Saved*, and after an unfollow, a feed's posts are shown as those of the channel.
    if not is_chosen and place.uid in uids:
        await displays.choose(user, place.uid, visit.form, uids)
    return visit.go(own_path(visit.form.text("back")) or HOME)
