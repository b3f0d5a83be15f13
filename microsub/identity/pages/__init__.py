"""The pages for people: plain HTML that works without JavaScript."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
"""Templates, static files and texts of these pages."""
