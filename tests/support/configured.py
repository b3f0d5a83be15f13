"""A backend file and the real stores, with a clock that the test sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.world import Clock, World

__all__ = ["NOW", "Configured"]

NOW = 1_700_000_000.0


@dataclass(eq=False)
class Configured(World):
    """One server: its own `file`, and a shared `redis`."""

    clock: Clock = field(default_factory=lambda: Clock(NOW))

    async def apply(self, document: Mapping[str, Any] | str, at: float | None = None) -> None:
        """Save the file and apply it."""
        self.save(document, at)
        assert await self.configuration.look() == "applied"
