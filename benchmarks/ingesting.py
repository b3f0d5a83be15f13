"""First polls of hundreds of feeds by real `microsub` processes, for measurements of workers and readers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.refresh.feeds import ENTRIES
from benchmarks.refresh.lines import child
from benchmarks.refresh.processes import children, processor_seconds
from benchmarks.shelves import Shelf, fill
from benchmarks.world import SETTINGS, free_port, rewritten, running
from microsub import server
from microsub.base.settings import Settings
from microsub.base.urls import host_of
from microsub.redis import keys
from microsub.redis.protocol import Redis

USER, CHANNEL = "ida", "home"
_LOOK_AGAIN = 0.02
_PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Place:
    """Redis with a reader's timeline, and feeds that are followed but not due yet."""

    folder: Path
    stores: server.stores.Stores
    feeds: tuple[tuple[str, str], ...]
    shelf: Shelf
    redis_pid: int

    @property
    def entries(self) -> int:
        """The number of posts that all feeds have."""
        return len(self.feeds) * ENTRIES

    async def begin(self, feeds: Sequence[tuple[str, str]] | None = None) -> None:
        """Make these feeds due; by default all."""
        await self.stores.schedule.bump(self.feeds if feeds is None else feeds, time.time())

    async def end(self, feeds: int | None = None) -> None:
        """Wait until every post of that many feeds, by default all, is in the timeline. Raises TimeoutError."""
        wanted = self.entries if feeds is None else feeds * ENTRIES
        async with asyncio.timeout(_PATIENCE):
            while await self.stores.redis.command("ZCARD", keys.posts(USER, CHANNEL)) < wanted:
                await asyncio.sleep(_LOOK_AGAIN)

    async def workers(self, count: int) -> None:
        """Wait until that many workers run. Raises TimeoutError."""
        async with asyncio.timeout(_PATIENCE):
            while len(await self.stores.presence.alive(time.time())) < count:
                await asyncio.sleep(_LOOK_AGAIN)


@asynccontextmanager
async def place(
    folder: Path, feeds: int, *, delay: float = 0.0, timeline: int = 1000, niceness: int = 0
) -> AsyncIterator[Place]:
    """A publisher whose replies take `delay` seconds, and a Redis where one reader follows its feeds and another
    reader has a long timeline. `niceness` is the publisher's, because normally it is on another machine.
    """
    folder.mkdir(parents=True)
    (folder / "backend.json").write_text(SETTINGS)
    command = [sys.executable, "-m", "benchmarks.refresh.publisher", str(feeds), str(delay)]
    with child(command, folder / "publisher.log") as publisher:
        os.setpriority(os.PRIO_PROCESS, publisher.pid, niceness)
        urls = publisher.ask("urls")["urls"]
        settings = Settings(data_dir=folder / "data", backend=folder / "backend.json")
        async with server.stores.open_stores(settings, create=True) as stores:
            now = time.time()
            shelf = await fill(stores.redis, timeline, now)
            followed = await _followed(stores, urls, now)
            await _at_rest(stores.redis)
            pid = int(_field(await stores.redis.command("INFO", "server"), "process_id"))
            yield Place(folder, stores, followed, shelf, pid)


async def _followed(stores: server.stores.Stores, urls: Sequence[str], now: float) -> tuple[tuple[str, str], ...]:
    """Follow all feeds, and remove them from the schedule."""
    await stores.accounts.add_user(USER, "", now)
    await stores.channels.create(USER, "Home", now, CHANNEL)
    following = server.stores.following(stores)
    for url in urls:
        await following.follow(USER, CHANNEL, url, now)
    ids = await stores.feeds.find_many(urls)
    feeds = tuple((ids[url], host_of(url)) for url in urls)
    for feed, host in feeds:
        await stores.redis.command("ZREM", keys.host_due(host), feed)
    await stores.redis.command("DEL", keys.hosts_due())
    return feeds


async def _at_rest(redis: Redis) -> None:
    # Rewrite the append-only file now, because a rewrite during the measurement would disturb it.
    await rewritten(redis)
    await redis.command("BGREWRITEAOF")
    await rewritten(redis)


def _field(info: bytes, name: str) -> str:
    return next(line.partition(":")[2].strip() for line in info.decode().splitlines() if line.startswith(f"{name}:"))


def environment(folder: Path, **settings: str) -> dict[str, str]:
    """The environment of processes on the data in `folder`, which may connect to publishers on loopback."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MICROSUB_")}
    return kept | {
        "MICROSUB_DATA_DIR": str(folder / "data"),
        "MICROSUB_BACKEND": str(folder / "backend.json"),
        "MICROSUB_ALLOW_PRIVATE_NETWORKS": "127.0.0.0/8",
        "MICROSUB_LOG_LEVEL": "warning",
        **{f"MICROSUB_{name.upper()}": value for name, value in settings.items()},
    }


@contextmanager
def workers(folder: Path, count: int, **settings: str) -> Iterator[list[int]]:
    """Run that many `microsub work`; yields their process ids."""
    with ExitStack() as stack:
        yield [stack.enter_context(_worker(folder, number, settings)) for number in range(count)]


@contextmanager
def _worker(folder: Path, number: int, settings: dict[str, str]) -> Iterator[int]:
    with (folder / f"work-{number}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "microsub", "work"],
            stdout=log,
            stderr=log,
            env=environment(folder, **settings),
            start_new_session=True,  # as supervisors do
        )
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def serving(folder: Path, command: str) -> Iterator[str]:
    """Run `microsub web` or `microsub serve`; yields its endpoint."""
    port = free_port()
    settings = environment(folder, host="127.0.0.1", port=str(port))
    arguments = [sys.executable, "-m", "microsub", command]
    with running(arguments, f"http://127.0.0.1:{port}/", folder / f"{command}.log", settings):
        yield f"http://127.0.0.1:{port}/microsub"


def spent(*pids: int) -> float:
    """Seconds of processor time that these processes and their children used."""
    return processor_seconds(*pids, *(child for pid in pids for child in children(pid)))
