"""What checks of either API need: names of the run, cleaning up, waiting, and publishing."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, TypeVar

import httpx

from microsub_conformance.site.blogs import SampleBlog
from microsub_conformance.site.publisher import FeedServer
from microsub_conformance.verdict import Skip, Unready, Violation

T = TypeVar("T")
Cleanup = Callable[[], object]

SHORT_PATIENCE = 3.0
"""Seconds of a wait after the server has missed several full waits."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run: its name, which is in everything that it creates, and how the server under test gets the suite's feeds.

    `poll_command` makes the server fetch a feed now; `{url}` in it stands for the feed. `patience` is the limit of a
    wait, in seconds.
    """

    name: str
    publisher: FeedServer
    patience: float = 60
    poll_command: tuple[str, ...] = ()


class Bench:
    """What a check creates with it is removed afterwards; what it creates inside `shared`, after the last check."""

    def __init__(self, run: Run) -> None:
        self.run = run.name
        self.publisher = run.publisher
        self.patience = run.patience
        self.poll_command = run.poll_command
        self._cleanups: list[Cleanup] = []
        self._kept: list[Cleanup] = []
        self._shared: dict[str, object] = {}
        self._made = 0
        self._overdue = 0
        self._never_polls = False

    def name(self, label: str = "") -> str:
        """A unique channel name."""
        self._made += 1
        return f"Conformance {self.run} {self._made} {label}".strip()

    def afterwards(self, cleanup: Cleanup) -> None:
        """Do this after the check, however it ends."""
        self._cleanups.append(cleanup)

    def shared(self, name: str, make: Callable[[Self], T]) -> T:
        """A situation shared by several requirements, set up once. Raises Unready if that failed."""
        if name not in self._shared:
            outer, self._cleanups = self._cleanups, []
            try:
                self._shared[name] = make(self)
            except (Violation, httpx.HTTPError) as problem:
                self._shared[name] = Unready(f"the situation '{name}' couldn't be set up: {problem}")
            except (Skip, Unready) as reason:
                self._shared[name] = reason
            finally:
                self._kept += self._cleanups
                self._cleanups = outer
        value = self._shared[name]
        if isinstance(value, (Unready, Skip)):
            raise value
        return value  # type: ignore[return-value]

    def tidy(self, everything: bool = False) -> None:
        """Remove what the last check created, and with `everything` also what was shared."""
        pending, self._cleanups = self._cleanups, []
        if everything:
            pending, self._kept = [*self._kept, *pending], []
        for cleanup in reversed(pending):
            with contextlib.suppress(Violation, httpx.HTTPError):
                cleanup()

    def until(
        self, probe: Callable[[], T | None], what: str, found: Callable[[], object] = str, limit: float | None = None
    ) -> T:
        """Probe until there is a result. Raises Violation with `what` after the run's patience, or `limit` seconds."""
        patience = self.patience if self._overdue < 3 else min(SHORT_PATIENCE, self.patience)
        patience = min(patience, limit or patience)
        deadline = time.monotonic() + patience
        pause = 0.03
        while True:
            value = probe()
            if value is not None:
                return value
            if time.monotonic() > deadline:
                self._overdue += 1
                raise Violation(f"{what} within {patience:g} seconds", found())
            time.sleep(pause)
            pause = min(pause * 1.5, 0.5)

    def publish(self, blog: SampleBlog) -> None:
        """Serve `blog` in its present state, and wait until the server has fetched it.

        Raises Skip if the server doesn't poll within the run's patience.
        """
        seen = len(self.publisher.visits(blog.path))
        self.publisher.put(blog.path, blog.document())
        if self.poll_command:
            self._poll(blog.url)
        elif self._never_polls:
            raise Skip("the server did not poll a changed feed earlier; see --poll-command")
        if not self.publisher.wait_for_visit(blog.path, seen, self.patience):
            self._never_polls = not self.poll_command
            raise Skip(f"the server did not poll within {self.patience:g} seconds; see --poll-command")

    def _poll(self, url: str) -> None:
        command = [part.replace("{url}", url) for part in self.poll_command]
        try:
            done = subprocess.run(command, capture_output=True, timeout=max(self.patience, 30), check=False)  # noqa: S603 - the person who runs the suite gave it
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise Unready(f"the poll command could not run: {problem}") from problem
        if done.returncode != 0:
            raise Unready(f"the poll command failed: {done.stderr.decode('utf-8', 'replace')[-400:]}")
