"""Waiting on conditions, never on the clock."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE = 240.0
"""Seconds after which a condition counts as failed.

They say nothing about how long anything should take: on a busy machine a process needs many seconds to start, and tests
that pass don't wait for them.
"""


async def wait_until(condition: Callable[[], Any | Awaitable[Any]], timeout: float = PATIENCE) -> Any:
    """Wait until `condition()` (plain or async) is true and return its value; fail after `timeout` seconds."""
    begun = time.monotonic()
    while True:
        looked = time.monotonic()
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        now = time.monotonic()
        waited = now - begun
        assert waited < timeout, f"not true within {timeout:g} s: {condition}"
        # Each check costs CPU time, often that of the awaited process.
        await asyncio.sleep(max(min(max(0.005, waited / 20), 0.1), 2 * (now - looked)))
