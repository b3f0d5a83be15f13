"""Headers, status lines, validators, waits, and connections that end in the wrong place."""

from __future__ import annotations

import pytest

from tests.hostile.machine import Machine
from tests.hostile.replies import CASES
from tests.hostile.running import run


@pytest.mark.parametrize("name", CASES)
async def test_replies(machine: Machine, name: str) -> None:
    """Whatever stands before a body or cuts it off, its feed says so, and nothing else comes to harm."""
    await run(machine, name, CASES[name])
