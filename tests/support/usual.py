"""Settings where nobody says anything."""

from __future__ import annotations

from microsub.model.settings import USUAL, ChannelSettings


async def usual_settings(_user: str, _uid: str) -> ChannelSettings:
    """The defaults for every channel."""
    return USUAL
