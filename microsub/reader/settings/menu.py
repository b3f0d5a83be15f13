"""The page with links to all settings."""

from __future__ import annotations

from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from microsub.reader.channels.filters import FILTER
from microsub.reader.frame import ReaderSite
from microsub.reader.reading.pages import DISPLAY
from microsub.web.pages import N_
from microsub.web.routes import page
from microsub.web.visit import PageVisit

SETTINGS = "/settings"
OUTPUTS = f"{SETTINGS}/outputs"
RULES = f"{SETTINGS}/rules"
SOURCES = f"{SETTINGS}/sources"
MENTIONS = f"{SETTINGS}/webmentions"
DEVICES = f"{SETTINGS}/devices"
SHORTCUTS = f"{SETTINGS}/shortcuts"
SERVICES = f"{SETTINGS}/services"


def routes(reader: ReaderSite) -> list[Route]:
    """The routes of this module."""
    return [page(reader.site, SETTINGS, partial(_menu, reader))]


async def _menu(reader: ReaderSite, visit: PageVisit) -> Response:
    await reader.user(visit)
    return visit.page("settings.html", entries=_ENTRIES, channels=await reader.links(visit))


_ENTRIES = {
    DISPLAY: (N_("Display and language"), N_("Theme, font, size and width of text, sort order, scrolling.")),
    SHORTCUTS: (N_("Keyboard shortcuts"), N_("Choose the keys for each action.")),
    SERVICES: (N_("Send posts to other services"), N_("Links to Wallabag, Linkding, Mastodon, email and others.")),
    RULES: (N_("Mutes and blocks"), N_("Mute or block authors and feeds.")),
    FILTER: (N_("Filter for all channels"), N_("Exclude new posts by words or kinds.")),
    f"{SETTINGS}/lists": (N_("Import and export"), N_("Import and export feeds, or download all your data.")),
    DEVICES: (N_("Push notifications"), N_("Get notified of new posts while no page is open.")),
    "/account": (N_("Account"), N_("Apps, tokens, browsers, password and passkeys.")),
    "/answer": (N_("Reply from your site"), N_("Replies, likes, reposts and bookmarks with Micropub.")),
    SOURCES: (N_("Sources"), N_("Let scripts and apps post to a channel.")),
    MENTIONS: (N_("Webmentions"), N_("Get notified of replies to your own pages.")),
    OUTPUTS: (N_("Output feeds"), N_("Publish posts as a feed that others can follow.")),
}
"""Each page with its name and a line of description: first those for reading, then those for publishing."""
