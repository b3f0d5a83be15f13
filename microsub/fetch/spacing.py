"""Limits and spaces requests per host, for requests without a schedule."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from microsub.base.bounded_cache import BoundedCache
from microsub.base.urls import host_of, mask_credentials, web_parts
from microsub.fetch.values import FetchFailed, Fetching, FetchRequest, FetchResult, HopError

_MANY_HOSTS = 1000
REST = 60.0
"""Seconds without requests to a server that couldn't be reached or took too long."""


@dataclass(slots=True)
class _Host:
    """A host: its allowance is used up to `spent`, and it gets no request until `free_at` (clock times)."""

    places: asyncio.Semaphore
    free_at: float
    spent: float = 0.0
    users: int = 0


class HostPace:
    """Rate and concurrency limit per host, over all users of this process.

    `burst` requests may be sent at once, then one every `interval` seconds, and `at_once` at the same time. Each host
    gets a `pause` in seconds after each reply, and before the first request, because another process may have sent one
    a moment ago. A request that would wait for more than `patience` seconds (None: any time) is refused instead.
    `sleep` takes seconds, `clock` returns them. Belongs to one event loop.
    """

    def __init__(
        self,
        *,
        at_once: int = 3,
        interval: float = 0.5,
        burst: int = 12,
        pause: float = 0.0,
        patience: float | None = 8.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._at_once = at_once
        self._interval = interval
        self._ahead = (burst - 1) * interval
        self._pause = pause
        self._patience = patience
        self._sleep = sleep
        self._clock = clock
        self._hosts: dict[str, _Host] = {}

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """Wait for the host's turn, for one request. Raises HopError (`busy`), with the seconds to wait."""
        host, now = self._host(name), self._clock()
        wait = max(0.0, host.spent - self._ahead - now)
        if self._patience is not None and wait > self._patience:
            raise _busy(name, wait)
        host.spent = max(now, host.spent) + self._interval
        host.users += 1
        try:
            if wait:
                await self._sleep(wait)
            try:
                async with asyncio.timeout(self._patience):
                    await host.places.acquire()
            except TimeoutError:
                raise _busy(name, self._patience or 0.0) from None
            try:
                if (rest := host.free_at - self._clock()) > 0:
                    await self._sleep(rest)
                yield
            finally:
                host.free_at = self._clock() + self._pause
                host.places.release()
        finally:
            host.users -= 1

    def _host(self, name: str) -> _Host:
        now = self._clock()
        if name not in self._hosts and len(self._hosts) >= _MANY_HOSTS:
            kept = {key: host for key, host in self._hosts.items() if host.users or max(host.spent, host.free_at) > now}
            self._hosts = kept
        return self._hosts.setdefault(name, _Host(asyncio.Semaphore(self._at_once), now + self._pause))


def _busy(host: str, wait: float) -> HopError:
    seconds = math.ceil(wait)
    return HopError("busy", f"{host} is getting many requests: try again in {seconds} s", seconds)


class RestingServers:
    """Servers that couldn't be reached a moment ago: slow ones would use up all slots.

    Identified by scheme, host and port: a request to a closed port of a host doesn't block its other ports.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: BoundedCache[_Origin, float] = BoundedCache(_MANY_HOSTS)

    def rest(self, url: str) -> None:
        """Send no requests to this address's server for a while."""
        self._until[_origin(url)] = self._clock() + REST

    def left(self, url: str) -> float:
        """Seconds that this address's server still gets no requests; 0 if it may get one."""
        return max(0.0, self._until.get(_origin(url), 0.0) - self._clock())


_Origin = tuple[str, str, int]


def _origin(url: str) -> _Origin:
    parts = web_parts(url)
    if parts is None:
        return "", "", 0
    scheme = parts.scheme.lower()
    return scheme, host_of(url), parts.port or (443 if scheme == "https" else 80)


class SpacedFetcher:
    """Wraps a fetcher: one request per host at a time, with a second's pause in between.

    Put it behind a cache: copies then wait for nothing. Hosts are those of the request, not of redirects. The time that
    a request waits for its turn doesn't count against its limits.
    """

    def __init__(self, fetcher: Fetching, pace: HostPace | None = None) -> None:
        self._fetcher = fetcher
        self._pace = pace or HostPace(at_once=1, interval=0.0, pause=1.0, patience=None)

    async def fetch(self, request: FetchRequest) -> FetchResult:
        """GET a document when it is its host's turn; a failure (`busy`) beyond the patience of the pace."""
        try:
            async with self._pace.turn(host_of(request.url)):
                return await self._fetcher.fetch(request)
        except HopError as error:
            return FetchFailed(mask_credentials(request.url), error.reason, error.detail, None, error.retry_after)
