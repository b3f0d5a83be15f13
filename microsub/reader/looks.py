"""The name and the colour that an admin gives the instance: on a page, unless backend.json declares them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping

from microsub.base.errors import StoreError
from microsub.configuration.effective import AllSettings, DeclaredSettings
from microsub.web.looks import COLOR, NAME, Looks

KEPT = 5.0
"""Seconds for which a process remembers the looks, so that pages don't wait for them."""


class InstanceLooks:
    """The looks of this instance. `everything` returns all settings."""

    def __init__(self, declared: DeclaredSettings, everything: Callable[[], Awaitable[AllSettings]]) -> None:
        self._declared = declared
        self._everything = everything
        self._last = 0.0, Looks()

    async def now(self) -> Looks:
        """The looks for a page; the last known ones while the store is away."""
        at, looks = self._last
        if not 0 <= time.monotonic() - at < KEPT or not at:
            try:
                looks = await self._read()
            except StoreError:
                return looks
            self._last = time.monotonic(), looks
        return looks

    async def declared(self) -> tuple[str | None, str | None]:
        """Name and colour in backend.json, None for each that a page may set."""
        settings = (await self._everything()).instance
        return settings.name, settings.color

    async def choose(self, chosen: Mapping[str, str]) -> None:
        """Set `name`, `color` or both, empty for the usual ones. What backend.json declares stays in force."""
        await self._declared.set_looks({**(await self._everything()).looks, **chosen})
        self._last = 0.0, self._last[1]

    async def _read(self) -> Looks:
        settings = await self._everything()
        chosen, own = settings.looks, settings.instance
        name, color = own.name or chosen.get("name"), own.color or chosen.get("color")
        return Looks(name or NAME, (color or COLOR).lower())
