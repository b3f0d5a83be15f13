"""Headers, status lines, validators, waits, broken connections; redirects, names and certificates."""

from __future__ import annotations

import pytest

from tests.hostile import hops, replies
from tests.hostile.machine import Machine
from tests.hostile.running import run

CASES = replies.CASES | hops.CASES


@pytest.mark.parametrize("name", CASES)
async def test_replies(machine: Machine, name: str) -> None:
    """Whatever precedes a body or cuts it off, the feed's health says so; every request ends at an allowed address."""
    await run(machine, name, CASES[name])
