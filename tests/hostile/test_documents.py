"""Documents that were made to hurt their readers."""

from __future__ import annotations

import pytest

from tests.hostile.documents import CASES
from tests.hostile.machine import Machine
from tests.hostile.running import run


@pytest.mark.parametrize("name", CASES)
async def test_documents(machine: Machine, name: str) -> None:
    """Whatever stands in a document, what comes of it is small and harmless."""
    await run(machine, name, CASES[name])
