"""Server-Sent Events for checks: read in a thread, and kept until needed."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from microsub_conformance.verdict import Violation

PATIENCE = 5.0
"""Seconds within which a change must arrive as an event."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event; `id` is the last event id that the stream has sent."""

    name: str
    data: Mapping[str, Any]
    id: str


class HeardEvents:
    """The events of an open stream, with the headers of its reply."""

    def __init__(self, headers: Mapping[str, str], lines: Iterable[str]) -> None:
        self.headers = headers
        self.past: list[StreamEvent] = []
        """The awaited events, and those before them, without `ping`."""
        self._coming: list[StreamEvent] = []
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, args=(lines,), daemon=True)
        self._thread.start()

    def until(self, wanted: Callable[[StreamEvent], bool], what: str) -> StreamEvent:
        """The next wanted event. Raises Violation with `what` if it doesn't arrive in time."""
        while True:
            with self._news:
                if not self._news.wait_for(lambda: self._coming, PATIENCE):
                    raise Violation(f"{what} within {PATIENCE:g} seconds", [one.name for one in self.past])
                event = self._coming.pop(0)
            self.past.append(event)
            if wanted(event):
                return event

    def _read(self, lines: Iterable[str]) -> None:
        name, data, place = "", "", ""
        with contextlib.suppress(httpx.HTTPError, httpx.StreamError, ValueError):
            for line in lines:
                field, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if field == "event":
                    name = value
                elif field == "data":
                    data = value
                elif field == "id":
                    place = value
                elif not line and data:
                    self._add(StreamEvent(name, json.loads(data), place))
                    name, data = "", ""

    def _add(self, event: StreamEvent) -> None:
        if event.name == "ping":
            return
        with self._news:
            self._coming.append(event)
            self._news.notify()
