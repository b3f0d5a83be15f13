"""What people learn about backend.json: in the log, each thing once and not at every look, and as a status."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from microsub.configuration.document import Report
from microsub.errors import ConfigError, StoreError

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Status:
    """For `/health` and the admin page: when something was last applied (Unix seconds), and what is wrong now; `lost`
    while Redis has lost its data and the file isn't applied again yet.
    """

    applied_at: float | None = None
    problems: tuple[ConfigError, ...] = ()
    warnings: tuple[str, ...] = ()
    lost: bool = False


def _count_refused(value: int) -> None:
    from microsub import metrics  # slow to load, and a command that reads the file says nothing here

    metrics.BACKEND_REFUSED.set(value)


class Notices:
    """Reports on the file at `path`. `last` is what was applied last, None where nothing ever was."""

    def __init__(self, path: Path, last: Callable[[], Awaitable[object | None]]) -> None:
        self.status = Status()
        self._path = path
        self._last = last
        self._reported = ""
        self._told = ""

    def written(self, key: str) -> None:
        """The file is our own work: there is nothing to be said of it."""
        self._reported = key

    def applied(self, at: float) -> None:
        """The file was applied at that Unix time."""
        self.status = replace(self.status, applied_at=at, problems=())
        _count_refused(0)

    def lost(self) -> None:
        """Redis has no longer the data that it had."""
        if not self.status.lost:
            log.error(
                "Redis has lost its data: posts, what was read, tokens and passwords are gone; "
                "users and what they follow are made again as backend.json has them",
                file=str(self._path),
            )
        self.status = replace(self.status, lost=True)

    def found(self) -> None:
        """The file was applied to what Redis holds now."""
        self.status = replace(self.status, lost=False)
        log.info("the server goes on with new data", file=str(self._path))

    async def missing(self) -> None:
        """There is no file."""
        if self._reported != "missing":
            self._reported = "missing"
            if await self._was_applied():
                log.warning("no backend.json; what was applied last stays active", file=str(self._path))
            else:
                log.warning(
                    "no backend.json, and none was applied before; write one, or make users with 'microsub user add'",
                    file=str(self._path),
                )

    async def refused(self, *problems: ConfigError, key: str) -> None:
        """The file can't be used. `key` stands for its content, or for what is wrong with it."""
        self.status = replace(self.status, problems=problems, warnings=())
        _count_refused(1)
        if self._reported == key:
            return
        self._reported = key
        more = len(problems) - 1
        stays = "the last good configuration stays active"
        log.error(
            f"backend.json refused; {stays if await self._was_applied() else 'none is active until it is repaired'}",
            problem=str(problems[0]),
            **({"more": f"{more} more, see 'microsub config check {self._path}'"} if more else {}),
        )

    async def _was_applied(self) -> bool:
        """Whether a file was ever applied; taken for granted while Redis is away."""
        try:
            return await self._last() is not None
        except StoreError:
            return True

    def accepted(self, report: Report, key: str) -> None:
        """The file can be used, though perhaps with warnings."""
        if self.status.problems:
            log.info("backend.json can be used again", file=str(self._path))
        self.status = replace(self.status, problems=(), warnings=report.warnings)
        _count_refused(0)
        if self._reported == key:
            return
        self._reported = key
        for warning in report.warnings:
            log.warning("backend.json", warning=warning)

    def once(self, key: str, sentence: str) -> None:
        """Warn of something about the file; `key` stands for what it is."""
        if self._told != key:
            self._told = key
            log.warning(sentence, file=str(self._path))
