"""Server-Sent Events as a check hears them: read in a thread, kept until they are asked for."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from microsub.conformance.verdict import Violation

PATIENCE = 5.0
"""Seconds within which what was done is to be heard."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event; `id` is that of the last place that the stream has named."""

    name: str
    data: Mapping[str, Any]
    id: str


class HeardEvents:
    """What an open stream has said, with the headers of its reply."""

    def __init__(self, headers: Mapping[str, str], lines: Iterable[str]) -> None:
        self.headers = headers
        self.past: list[StreamEvent] = []
        """The events that were waited for, and those before them; `ping` is left out."""
        self._coming: list[StreamEvent] = []
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, args=(lines,), daemon=True)
        self._thread.start()

    def until(self, wanted: Callable[[StreamEvent], bool], what: str) -> StreamEvent:
        """The next event that is wanted. Raises Violation with `what` where it doesn't come in time."""
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
