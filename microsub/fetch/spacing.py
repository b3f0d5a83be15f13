"""One request at a time per host, with a pause between two: for requests that no schedule spaces."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from microsub.fetch.values import FetchRequest, FetchResult
from microsub.formats.urls import host_of

_MANY_HOSTS = 1000


class _Fetching(Protocol):
    async def fetch(self, request: FetchRequest) -> FetchResult: ...


@dataclass(slots=True)
class _Host:
    free_at: float
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class SpacedFetcher:
    """Answers like the fetcher behind it; `interval` seconds lie between a reply of a host and the next request to it.

    As many pass before the first request to a host: others, a poll say, may have asked it a moment ago. Put it behind a
    cache: a copy waits for nothing. Hosts are those of the request, not of redirects, and other processes have their
    own spacing. `sleep` takes seconds, `clock` gives some.
    """

    def __init__(
        self,
        fetcher: _Fetching,
        interval: float = 1.0,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetcher = fetcher
        self._interval = interval
        self._sleep = sleep
        self._clock = clock
        self._hosts: dict[str, _Host] = {}

    async def fetch(self, request: FetchRequest) -> FetchResult:
        """GET a document when it is its host's turn."""
        host = self._host(host_of(request.url))
        host.users += 1
        try:
            async with host.lock:
                if (wait := host.free_at - self._clock()) > 0:
                    await self._sleep(wait)
                try:
                    return await self._fetcher.fetch(request)
                finally:
                    host.free_at = self._clock() + self._interval
        finally:
            host.users -= 1

    def _host(self, name: str) -> _Host:
        if len(self._hosts) >= _MANY_HOSTS:
            now = self._clock()
            self._hosts = {key: host for key, host in self._hosts.items() if host.users or host.free_at > now}
        return self._hosts.setdefault(name, _Host(free_at=self._clock() + self._interval))
