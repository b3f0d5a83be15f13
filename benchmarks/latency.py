"""How long a reader waits for a page, asked at a gentle pace by a process of its own: latency, not throughput."""

from __future__ import annotations

import http.client
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

PAUSE = 0.01
"""Seconds between two requests."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """How long readers wait for a page, in milliseconds."""

    requests: int
    p50: float
    p99: float

    @classmethod
    def of(cls, seconds: list[float]) -> Waiting:
        """What the seconds of single requests come to."""
        return cls(len(seconds), quantile(seconds, 0.5) * 1e3, quantile(seconds, 0.99) * 1e3)


def quantile(values: list[float], share: float) -> float:
    """The value below which that share of all lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def pages(url: str, token: str, seconds: float) -> list[float]:
    """Ask for the page again and again for so long; the seconds that each answer took."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    headers = {"Authorization": f"Bearer {token}"}
    took = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
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


@contextmanager
def asking() -> Iterator[ProcessPoolExecutor]:
    """A process in which `pages` can run."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as others:
        yield others
