"""Background tasks."""

from __future__ import annotations

import asyncio

import structlog

log = structlog.get_logger(__name__)


def tell_failure(task: asyncio.Task[None]) -> None:
    """A background task that ends in a bug must not do so silently."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("a part of the server has ended; restart it", part=task.get_name(), exc_info=error)
