"""Virtual time, so that the suite never really waits."""

from __future__ import annotations

import pytest


class VirtualTime:
    """A clock that advances only while the suite sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite sleeps in virtual time; for servers that finish all work before they answer."""
    monkeypatch.setattr("microsub_conformance.bench.time", VirtualTime())
