"""Few requests at a time per host, with pauses, where no schedule spaces them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from microsub.fetch.values import Fetching, FetchRequest, FetchResult, HopError
from microsub.kit.urls import host_of

_MANY_HOSTS = 1000


@dataclass(slots=True)
class _Host:
    free_at: float
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class SpacedFetcher:
    """Answers like the fetcher behind it, with a pause of `interval` seconds for each host.

    The pause lies between a reply of the host and the next request to it, and before the first one: others, a poll say,
    may have asked it a moment ago. Put it behind a cache: a copy waits for nothing. Hosts are those of the request, not
    of redirects, and other processes have their own spacing. `sleep` takes seconds, `clock` gives some.
    """

    def __init__(
        self,
        fetcher: Fetching,
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


@dataclass(slots=True)
class _Paced:
    """A host that is asked; requests up to `spent` (a time of the clock) have passed."""

    places: asyncio.Semaphore
    spent: float = 0.0
    users: int = 0


class HostPace:
    """Rate and concurrency limit per host, over all users: for requests that people wait for.

    `burst` requests go at once, further ones each `interval` seconds, and `at_once` at the same time. Who would have to
    wait for more than `patience` seconds is refused instead. `sleep` takes seconds, `clock` gives some. Other processes
    have a pace of their own. Belongs to one event loop.
    """

    def __init__(
        self,
        *,
        at_once: int = 3,
        interval: float = 0.5,
        burst: int = 12,
        patience: float = 8.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._at_once = at_once
        self._interval = interval
        self._ahead = (burst - 1) * interval
        self._patience = patience
        self._sleep = sleep
        self._clock = clock
        self._hosts: dict[str, _Paced] = {}

    @asynccontextmanager
    async def turn(self, host: str) -> AsyncIterator[None]:
        """The host's turn, for one request. Raises HopError (`busy`), with the seconds to wait."""
        paced, now = self._host(host), self._clock()
        wait = max(0.0, paced.spent - self._ahead - now)
        if wait > self._patience:
            raise _busy(host, wait)
        paced.spent = max(now, paced.spent) + self._interval
        paced.users += 1
        try:
            if wait:
                await self._sleep(wait)
            try:
                async with asyncio.timeout(self._patience):
                    await paced.places.acquire()
            except TimeoutError:
                raise _busy(host, self._patience) from None
            try:
                yield
            finally:
                paced.places.release()
        finally:
            paced.users -= 1

    def _host(self, name: str) -> _Paced:
        if name not in self._hosts and len(self._hosts) >= _MANY_HOSTS:
            now = self._clock()
            self._hosts = {key: host for key, host in self._hosts.items() if host.users or host.spent > now}
        return self._hosts.setdefault(name, _Paced(asyncio.Semaphore(self._at_once)))


def _busy(host: str, wait: float) -> HopError:
    seconds = math.ceil(wait)
    return HopError("busy", f"{host} is busy, because it is asked much just now: try again in {seconds} s", seconds)
