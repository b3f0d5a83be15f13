"""`python -m benchmarks.refresh.ours FOLDER`: our worker on an embedded Redis; refreshes feeds on request.

The worker is the same as in `microsub work`, built by the same wiring with the same settings, but it looks at the
schedule on request instead of twice a second. Requests (`lines`): `redis` returns the process id of Redis; `follow`;
`refresh` returns its duration; `state` returns the number of entries in the reader's channel.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from microsub import server
from microsub.base.logs import set_up_logs
from microsub.base.settings import Settings
from microsub.base.urls import host_of
from microsub.polling.worker import Worker
from microsub.redis import keys
from microsub.redis.embedded.server import start_embedded

USER, CHANNEL = "ida", "home"
_LOOK_AGAIN = 0.05


class Ours:
    """One reader who follows all feeds in one channel, and the worker."""

    def __init__(self, stores: server.stores.Stores, worker: Worker) -> None:
        self._stores = stores
        self._worker = worker
        self._feeds: list[tuple[str, str]] = []

    async def follow(self, urls: list[str]) -> dict[str, Any]:
        """Create the reader, who follows `urls`."""
        now = time.time()
        await self._stores.accounts.add_user(USER, "https://ida.example/", now)
        await self._stores.channels.create(USER, "Home", now, CHANNEL)
        following = server.stores.following(self._stores)
        for url in urls:
            await following.follow(USER, CHANNEL, url, now)
        ids = await self._stores.feeds.find_many(urls)
        self._feeds = [(ids[url], host_of(url)) for url in urls]
        return {}

    async def refresh(self) -> dict[str, Any]:
        """Make all feeds due, wait until all hosts may be polled, and measure until all polls are done."""
        await self._stores.schedule.bump(self._feeds, time.time())
        while await self._stores.redis.command("ZCOUNT", keys.hosts_due(), f"({time.time():.6f}", "+inf"):
            await asyncio.sleep(_LOOK_AGAIN)  # every host has a pause between two requests
        began = time.perf_counter()
        polled = await self._worker.run_once()
        while polled < len(self._feeds):  # a host is being asked for an icon or an article
            await asyncio.sleep(_LOOK_AGAIN)
            polled += await self._worker.run_once()
        seconds = time.perf_counter() - began
        if polled != len(self._feeds):
            raise RuntimeError(f"{polled} of {len(self._feeds)} feeds were polled")
        return {"seconds": seconds}

    async def state(self) -> dict[str, Any]:
        """The number of feeds that were polled successfully, and of posts in the timeline."""
        records = await self._stores.feeds.get_many(feed for feed, _ in self._feeds)
        good = sum(record.last_success is not None and not record.failures for record in records.values())
        return {"feeds": good, "entries": await self._stores.redis.command("ZCARD", keys.posts(USER, CHANNEL))}


async def serve(folder: Path) -> None:
    """Answer requests until standard input ends."""
    loop = asyncio.get_running_loop()
    settings = Settings(
        data_dir=folder,
        backend=folder / "backend.json",
        allow_private_networks=(ipaddress.ip_network("127.0.0.0/8"),),
    )
    (folder / "backend.json").write_text('{"users": {}, "settings": {"max_items": 0}}\n')
    set_up_logs(settings.log_format, settings.log_level)
    async with AsyncExitStack() as stack:
        redis = await asyncio.to_thread(start_embedded, folder)
        stack.push_async_callback(asyncio.to_thread, redis.stop)
        stores = await stack.enter_async_context(server.stores.open_stores(settings, create=True))
        await stack.enter_async_context(server.backend.open_configuration(settings, stores))
        ours = Ours(stores, await stack.enter_async_context(server.poller.open_worker(settings, stores)))

        async def where() -> dict[str, Any]:
            return {"pid": redis.pid}

        acts: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {
            "redis": where,
            "follow": ours.follow,
            "refresh": ours.refresh,
            "state": ours.state,
        }
        questions = asyncio.StreamReader(limit=1024 * 1024)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(questions), sys.stdin)
        while line := await questions.readline():
            details = json.loads(line)
            print(json.dumps(await acts[details.pop("do")](**details)), flush=True)


def main() -> None:
    """Run on the server's event loop."""
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
