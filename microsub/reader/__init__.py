"""The web interface: reading, and the pages of all other features for users."""

from __future__ import annotations

from pathlib import Path

from microsub.reader.admin.frame import ADMIN
from microsub.reader.channels.pages import CHANNELS
from microsub.reader.follow.pages import FOLLOW
from microsub.reader.settings.menu import SETTINGS
from microsub.web.pages import N_
from microsub.web.visit import NavigationLink

FOLDERS = tuple(
    Path(__file__).parent / name
    for name in ("reading", "follow", "channels", "feeds", "settings", "first", "answering", "admin", "installed")
)
"""Templates, static files and texts, see `web.pages`."""

NAVIGATION = (
    NavigationLink("/", N_("Reading")),
    NavigationLink(FOLLOW, N_("Following")),
    NavigationLink(CHANNELS, N_("Channels")),
    NavigationLink(SETTINGS, N_("Settings")),
    NavigationLink(ADMIN, N_("Administration"), for_admins=True),
)
"""The links in the header of all pages."""
