"""Redirects, names and certificates."""

from __future__ import annotations

import pytest

from tests.hostile.hops import CASES
from tests.hostile.machine import Machine
from tests.hostile.running import run


@pytest.mark.parametrize("name", CASES)
async def test_hops(machine: Machine, name: str) -> None:
    """Wherever a request is sent, it ends where it may, and its feed says so."""
    await run(machine, name, CASES[name])
