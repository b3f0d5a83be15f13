"""The page that leads to all others on which somebody sets something."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import Route

from microsub.identity.pages.visit import PageSite, PageVisit, page
from microsub.kit.http.pages import N_
from microsub.reader.reading.channel_list import links
from microsub.reader.reading.pages import DISPLAY, reader_of

SETTINGS = "/settings"
OUTPUTS = f"{SETTINGS}/outputs"
RULES = f"{SETTINGS}/rules"
SOURCES = f"{SETTINGS}/sources"
MENTIONS = f"{SETTINGS}/webmentions"
DEVICES = f"{SETTINGS}/devices"


def routes(site: PageSite) -> list[Route]:
    """The routes of this module."""
    return [page(site, SETTINGS, _menu)]


async def _menu(visit: PageVisit) -> Response:
    await reader_of(visit)
    return visit.page("settings.html", entries=_ENTRIES, channels=await links(visit))


_ENTRIES = {
    OUTPUTS: (N_("Output feeds"), N_("Pass posts on, as a feed that others can follow.")),
    RULES: (N_("Mutes and blocks"), N_("Keep authors and feeds out, for a week or for good.")),
    SOURCES: (N_("Sources"), N_("Let scripts and apps post into a channel.")),
    MENTIONS: (N_("Webmentions"), N_("Hear of answers to your own pages.")),
    DEVICES: (N_("New posts on your devices"), N_("Let this browser say what is new while no page is open.")),
    f"{SETTINGS}/lists": (N_("Feeds in and out"), N_("Import and export lists of feeds, or everything that is yours.")),
    DISPLAY: (N_("Display and language"), N_("Colours, size of text, reading by scrolling.")),
    "/answer": (N_("Answer from your site"), N_("Replies, likes, reposts and bookmarks by Micropub.")),
    "/account": (N_("Account"), N_("Apps, tokens, browsers, password and passkeys.")),
}
"""Each page with its name and a line about it."""
