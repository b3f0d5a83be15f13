"""A reader's waiting time for a page, requested slowly by a separate process: latency, not throughput."""

from __future__ import annotations

import http.client
import multiprocessing
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

PAUSE = 0.005
"""Seconds between two requests."""


VERDICTS = {True: "met", False: "MISSED", None: "not to be said: the machine stalls"}
"""The words for aims in tables."""

Ask = Callable[[], Awaitable[list[float]]]
"""Lets a reader send requests for a while; returns the seconds of each."""

STEADY, QUICK = 5.0, 5.0
"""Limits for a steady machine: on an idle server, the p99 is at most this multiple of the median, or at most this many
milliseconds.
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Readers' waiting times for a page, in milliseconds."""

    requests: int
    p50: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Waiting:
        """The figures, given the seconds of each request."""
        return cls(len(seconds), quantile(seconds, 0.5) * 1e3, quantile(seconds, 0.99) * 1e3)


@dataclass(frozen=True, slots=True)
class Compared:
    """Waiting times on the idle server and on the same server at work, measured alternately in many short turns.
    `idle` and `busy` are for all requests together, `turns` for each turn.

    The slowest hundredth of one turn is only a few requests, which one moment of another program can distort. So the
    p99 of all requests is compared.
    """

    idle: Waiting
    busy: Waiting
    turns: tuple[tuple[Waiting, Waiting], ...]

    @classmethod
    def of(cls, turns: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Compared:
        """The figures, given the seconds of each request, idle and busy in each turn."""
        idle = [took for turn, _ in turns for took in turn]
        busy = [took for _, turn in turns for took in turn]
        pairs = tuple((Waiting.of(one), Waiting.of(other)) for one, other in turns)
        return cls(Waiting.of(idle), Waiting.of(busy), pairs)

    @property
    def slower(self) -> float:
        """The p99 while the server works, as a multiple of the idle server's."""
        return self.busy.p99 / self.idle.p99

    @property
    def is_steady(self) -> bool:
        """Whether the idle server answered evenly; if the machine stalls, the effect of work can't be measured."""
        return self.idle.p99 <= max(STEADY * self.idle.p50, QUICK)

    def within(self, most: float) -> bool | None:
        """Whether readers wait at most that many times longer; None if the machine isn't steady enough to decide."""
        if self.slower > most:
            return False
        return True if self.is_steady else None


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which that share of all values is."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def pages(url: str, token: str, seconds: float, until: str = "") -> list[float]:
    """Request the page repeatedly for `seconds`, or until the file `until` exists; returns the seconds of each."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    headers = {"Authorization": f"Bearer {token}"}
    took = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and not (until and os.path.exists(until)):
        began = time.perf_counter()
        connection.request("GET", f"{parts.path}?{parts.query}", headers=headers)
        response = connection.getresponse()
        body = response.read()
        took.append(time.perf_counter() - began)
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {body[:200]!r}")
        time.sleep(PAUSE)
    connection.close()
    return took


async def comparison(idle: Ask, busy: Ask, turns: int) -> Compared:
    """Measure both ways in turn; the order alternates, so that neither always follows the other."""
    found: list[tuple[list[float], list[float]]] = []
    for number in range(turns):
        if number % 2:
            work = await busy()
            found.append((await idle(), work))
        else:
            rest = await idle()
            found.append((rest, await busy()))
    return Compared.of(found)


def waiting_table(found: Mapping[str, Compared]) -> list[Sequence[str]]:
    """Rows for `report.aligned`: for each name, the idle server and the same server at work."""
    head = ("a page of 20", "turns", "requests", "p50 ms", "p99 ms", "p99 of single turns", "p99, times as long")
    rows: list[Sequence[str]] = [head]
    for name, one in found.items():
        idle = "idle" if len(found) == 1 else f"{name}, idle"
        busy = f"during {name}" if len(found) == 1 else f"{name}, at work"
        for kind, all_of_it, number in ((idle, one.idle, 0), (busy, one.busy, 1)):
            own = [turn[number].p99 for turn in one.turns]
            rows.append(
                (
                    kind,
                    f"{len(own)}",
                    f"{all_of_it.requests:,}",
                    f"{all_of_it.p50:.1f}",
                    f"{all_of_it.p99:.1f}",
                    f"{min(own):.1f}-{max(own):.1f}",
                    f"{one.slower:.1f}" if number else "",
                )
            )
    return rows


@contextmanager
def asking() -> Iterator[ProcessPoolExecutor]:
    """Start a process in which `pages` can run."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as others:
        yield others
