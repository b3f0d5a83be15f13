"""A publisher on loopback for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.web import Publisher, publisher


@pytest.fixture
async def site() -> AsyncIterator[Publisher]:
    """A publisher that listens."""
    async with publisher() as running:
        yield running
