"""A backend file and the real stores, at a time that a test sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.world import Clock, World

__all__ = ["NOW", "Configured"]

NOW = 1_700_000_000.0


@dataclass(eq=False)
class Configured(World):
    """One server's view: `file` on its disk, `redis` shared with others."""

    clock: Clock = field(default_factory=lambda: Clock(NOW))

    async def apply(self, document: Mapping[str, Any] | str, at: float | None = None) -> None:
        """Save the file, and have it applied."""
        self.save(document, at)
        assert await self.configuration.look() == "applied"
