"""How long a reader waits for a page, requested slowly by a separate process: latency, not throughput."""

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
"""Lets a reader send requests for a while; returns their seconds."""

STEADY, QUICK = 5.0, 5.0
"""On a machine that does nothing else, the slowest hundredth on an idle server waits at most so many times as long as
most do, or so many milliseconds.
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """How long readers wait for a page, in milliseconds."""

    requests: int
    p50: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Waiting:
        """The figures for the seconds of single requests."""
        return cls(len(seconds), quantile(seconds, 0.5) * 1e3, quantile(seconds, 0.99) * 1e3)


@dataclass(frozen=True, slots=True)
class Compared:
    """Readers of an idle server beside readers of the same server at work, in many short turns, one right after the
    other. `idle` and `busy` are all their requests together, `turns` those of each turn.

    The slowest hundredth of one turn is a handful of requests, which one moment of another program on the machine
    decides. So what is judged is the slowest hundredth of all of them.
    """

    idle: Waiting
    busy: Waiting
    turns: tuple[tuple[Waiting, Waiting], ...]

    @classmethod
    def of(cls, turns: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Compared:
        """The figures for the seconds of single requests, idle and busy in each turn."""
        idle = [took for turn, _ in turns for took in turn]
        busy = [took for _, turn in turns for took in turn]
        pairs = tuple((Waiting.of(one), Waiting.of(other)) for one, other in turns)
        return cls(Waiting.of(idle), Waiting.of(busy), pairs)

    @property
    def slower(self) -> float:
        """How many times longer the slowest hundredth of the readers wait while the server works."""
        return self.busy.p99 / self.idle.p99

    @property
    def is_steady(self) -> bool:
        """Whether the machine let the idle server answer evenly; one that stalls by itself hides what work does."""
        return self.idle.p99 <= max(STEADY * self.idle.p50, QUICK)

    def within(self, most: float) -> bool | None:
        """Whether readers wait at most so many times longer; None where that can't be said of this machine."""
        if self.slower > most:
            return False
        return True if self.is_steady else None


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which that share of all lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def pages(url: str, token: str, seconds: float, until: str = "") -> list[float]:
    """Ask for the page again and again for so long, or until there is a file `until`; the seconds of each answer."""
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
    """Ask in both ways in turn; which comes first changes from turn to turn, so that neither follows the other."""
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
    """Rows for `report.aligned`: under each name a server at rest and the same one at work."""
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
    """A process in which `pages` can run."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as others:
        yield others
