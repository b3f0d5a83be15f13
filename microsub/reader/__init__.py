"""The web interface: reading, and the pages of all other features for users."""

from __future__ import annotations

from pathlib import Path

from microsub.reader.admin.frame import ADMIN
from microsub.reader.channels.pages import CHANNELS
from microsub.reader.follow.pages import FOLLOW
from microsub.reader.settings.menu import SETTINGS
from microsub.web.pages import N_

FOLDERS = tuple(
    Path(__file__).parent / name
    for name in ("reading", "follow", "channels", "feeds", "settings", "first", "answering", "admin", "installed")
)
"""Templates, static files and texts, see `web.pages`."""

NAVIGATION = (
    ("/", N_("Reading"), False),
    (FOLLOW, N_("Following"), False),
    (CHANNELS, N_("Channels"), False),
    (SETTINGS, N_("Settings"), False),
    (ADMIN, N_("Administration"), True),
)
"""The links in the header of all pages for signed-in users: path, text, and whether only admins see it."""
