"""Configuration as frozen values: process settings (`settings`) and backend.json (`backend`, `document`, `merge`)."""

from __future__ import annotations

from microsub.config.settings import SETTINGS, Setting, Settings, read_settings

__all__ = ["SETTINGS", "Setting", "Settings", "read_settings"]
