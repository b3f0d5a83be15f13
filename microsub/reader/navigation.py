"""The links in the header of all pages."""

from __future__ import annotations

from microsub.reader.admin.frame import ADMIN
from microsub.reader.channels.pages import CHANNELS
from microsub.reader.follow.pages import FOLLOW
from microsub.reader.settings.menu import SETTINGS
from microsub.web.pages import N_

NAVIGATION = (
    ("/", N_("Reading"), False, ""),
    (FOLLOW, N_("Following"), False, ""),
    (CHANNELS, N_("Channels"), False, ""),
    (SETTINGS, N_("Settings"), False, "settings"),
    (ADMIN, N_("Administration"), True, "administration"),
)
"""The links in the header of users' pages: path, text, whether only admins see it, the icon that phones show."""
