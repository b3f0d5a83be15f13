"""Waiting without the clock."""

from __future__ import annotations

import pytest


class VirtualTime:
    """What passes while the suite sleeps, and at no other time."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite waits for nothing: good for servers that have done their work when they answer."""
    monkeypatch.setattr("microsub.conformance.world.time", VirtualTime())
