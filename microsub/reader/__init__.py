"""The web interface: reading, and the pages of all other features for users."""

from __future__ import annotations

from pathlib import Path

FOLDERS = tuple(
    Path(__file__).parent / name
    for name in ("reading", "follow", "channels", "feeds", "settings", "first", "answering", "admin", "installed")
)
"""Templates, static files and texts, see `web.pages`."""
