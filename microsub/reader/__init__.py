"""The web interface: reading, and the pages of all other features for users."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from starlette.routing import Route

from microsub.reader import installed, settings
from microsub.reader.admin.pages import ADMIN
from microsub.reader.answering import pages as answering
from microsub.reader.channels.pages import CHANNELS
from microsub.reader.first import pages as first
from microsub.reader.first.pages import StarterFeed
from microsub.reader.follow import pages as follow
from microsub.reader.reading import actions, pages
from microsub.web.pages import N_
from microsub.web.visit import NavigationLink, PageSite

FOLDERS = tuple(
    Path(__file__).parent / name
    for name in ("reading", "follow", "channels", "settings", "first", "answering", "admin", "installed")
)
"""Templates, static files and texts, see `web.pages`."""

NAVIGATION = (
    NavigationLink("/", N_("Reading")),
    NavigationLink(follow.FOLLOW, N_("Following")),
    NavigationLink(CHANNELS, N_("Channels")),
    NavigationLink(settings.SETTINGS, N_("Settings")),
    NavigationLink(ADMIN, N_("Administration"), for_admins=True),
)
"""The links in the header of all pages."""


def reader_routes(site: PageSite, starters: Sequence[StarterFeed]) -> list[Route]:
    """Every route of the web interface; new users are offered the feeds `starters`."""
    features = (pages, actions, follow, settings, answering, installed)
    return [*first.routes(site, starters), *(route for feature in features for route in feature.routes(site))]
