"""Bodies that are too long, too slow, or not what they are said to be."""

from __future__ import annotations

import pytest

from tests.hostile.bodies import CASES
from tests.hostile.machine import Machine
from tests.hostile.running import run


@pytest.mark.parametrize("name", CASES)
async def test_bodies(machine: Machine, name: str) -> None:
    """Whatever a body is, its feed says what is wrong with it, and nothing else comes to harm."""
    await run(machine, name, CASES[name])
