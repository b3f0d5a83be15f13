"""A thousand open event streams on one web process: its memory, the time of pages meanwhile, and the delay of events.

A thousand users have open streams. A reader of another timeline requests pages, in turns with the streams closed and
open; while they are open, users mark ten posts per second, so that there are events.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from benchmarks.latency import VERDICTS, Compared, asking, comparison, pages, quantile, waiting_table
from benchmarks.report import aligned
from benchmarks.shelves import fill
from benchmarks.world import SETTINGS, rewritten, web
from microsub.accounts.store import Accounts
from microsub.posts.items import Items
from microsub.redis import keys
from microsub.redis.connect import connect
from microsub.redis.embedded.server import start_embedded
from microsub.redis.migrations import migrate
from microsub.redis.protocol import Redis
from microsub.redis.replies import texts
from microsub.timelines import Channels
from microsub.timelines.read_state import ReadState

STREAMS = 1000
TURNS, SECONDS = 12, 4.0
PAUSE = 0.1
"""Seconds between two marks."""
SETTLE = 1.0
TIMELINE = 1000

MOST_MEMORY = 60.0
MOST_SLOWER = 1.2
MOST_LATENCY = 200.0


@dataclass(frozen=True, slots=True)
class Found:
    """MiB that the streams add to the web process; page times with and without them; milliseconds to an event."""

    streams: int
    memory: float
    pages: Compared
    p50: float
    p99: float
    heard: int

    def aims(self) -> list[tuple[str, str, bool | None]]:
        """Each aim with its result, and whether it was reached."""
        memory, slower, p99 = self.memory, self.pages.slower, self.p99
        return [
            (f"memory of {self.streams:,} streams", f"{memory:.0f} MiB of {MOST_MEMORY:g}", memory <= MOST_MEMORY),
            ("p99 of pages, times as long", f"{slower:.2f} of {MOST_SLOWER}", self.pages.within(MOST_SLOWER)),
            ("p99 from a mark to its event", f"{p99:.0f} ms of {MOST_LATENCY:g}", p99 <= MOST_LATENCY),
        ]

    @property
    def met(self) -> bool:
        """Whether no aim was missed."""
        return all(met is not False for *_, met in self.aims())


def measure(*, quick: bool) -> Found:
    """Measure everything, from an empty server."""
    with tempfile.TemporaryDirectory(prefix="microsub-streams-") as folder:
        return asyncio.run(_measure(Path(folder), 200 if quick else STREAMS, 2 if quick else TURNS))


async def _measure(folder: Path, streams: int, turns: int) -> Found:
    server = start_embedded(folder / "data")
    redis = await connect(server.url)
    try:
        tokens, reader = await _filled(redis, streams)
        (folder / "backend.json").write_text(SETTINGS)
        with web(folder, MICROSUB_CONNECTIONS_PER_ADDRESS="0") as (endpoint, process):
            return await _found(redis, endpoint, process.pid, tokens, reader, turns)
    finally:
        await redis.aclose()
        server.stop()


async def _found(redis: Redis, endpoint: str, pid: int, tokens: Sequence[str], reader: str, turns: int) -> Found:
    page = f"{endpoint}?action=timeline&channel=home"
    took: list[float] = []
    memory: list[float] = []
    with asking() as pool:

        async def ask(seconds: float = SECONDS) -> list[float]:
            return await asyncio.get_running_loop().run_in_executor(pool, pages, page, reader, seconds)

        async def listening() -> list[float]:
            before = _resident(pid)
            async with _streams(endpoint, tokens) as arrivals:
                await asyncio.sleep(SETTLE)
                memory.append(_resident(pid) - before)
                marking = asyncio.create_task(_mark(redis, arrivals, took))
                try:
                    return await ask()
                finally:
                    marking.cancel()
                    await asyncio.gather(marking, return_exceptions=True)

        await ask(1.0)
        compared = await comparison(ask, listening, turns)
    # The process keeps the memory of the first streams and uses it again for later ones.
    return Found(len(tokens), max(memory), compared, median(took) * 1e3, quantile(took, 0.99) * 1e3, len(took))


async def _filled(redis: Redis, streams: int) -> tuple[list[str], str]:
    """Create users with one post each: their tokens, and the token of the reader with a longer timeline."""
    await migrate(redis)
    now = time.time()
    shelf = await fill(redis, TIMELINE, now)
    accounts, channels = Accounts(redis), Channels(redis)
    tokens = []
    for number in range(streams):
        user = _user(number)
        await accounts.add_user(user, "", now)
        await channels.create(user, "Home", now, "home")
        item = shelf.ids[0]
        await redis.pipeline([("ZADD", keys.posts(user, "home"), 1, item), ("SADD", keys.unread(user, "home"), item)])
        tokens.append(await accounts.create_token(user, ["read"], "benchmarks", now))
    await rewritten(redis)
    return tokens, shelf.token


def _user(number: int) -> str:
    return f"listener{number}"


def _resident(pid: int) -> float:
    """The resident memory of the process in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


Arrivals = dict[int, asyncio.Queue[float]]
"""The times of events by the number of the user whose stream sent them."""


@asynccontextmanager
async def _streams(endpoint: str, tokens: Sequence[str]) -> AsyncIterator[Arrivals]:
    """Open a stream for each token; yields when all have begun."""
    arrivals: Arrivals = {number: asyncio.Queue() for number in range(len(tokens))}
    place = urlsplit(endpoint)
    begun = asyncio.Semaphore(0)

    async def one(number: int, token: str) -> None:
        incoming, outgoing = await asyncio.open_connection(place.hostname, place.port)
        try:
            request = f"GET {place.path}?action=events&access_token={token} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n"
            outgoing.write(request.encode())
            await incoming.readuntil(b"event: started")
            begun.release()
            while line := await incoming.readline():
                if line.startswith(b"event: new item in channel"):
                    arrivals[number].put_nowait(time.perf_counter())
        finally:
            outgoing.close()

    tasks = []
    for number, token in enumerate(tokens):
        tasks.append(asyncio.create_task(one(number, token)))
        if number % 50 == 49:
            await asyncio.sleep(0.05)
    try:
        async with asyncio.timeout(60):
            for _ in tokens:
                await begun.acquire()
        yield arrivals
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(SETTLE)


async def _mark(redis: Redis, arrivals: Arrivals, took: list[float]) -> None:
    """Let one user after the other mark their post, and wait for its event."""
    read_state = ReadState(redis, Items(redis))
    for number in itertools.cycle(arrivals):
        (item,) = texts(await redis.command("ZRANGE", keys.posts(_user(number), "home"), 0, 0))
        is_unread = await redis.command("EXISTS", keys.unread(_user(number), "home"))
        began = time.perf_counter()
        await read_state.mark(_user(number), "home", [item], "read" if is_unread else "unread", time.time())
        took.append(await arrivals[number].get() - began)
        await asyncio.sleep(PAUSE)


# --- what it says -----------------------------------------------------------------------------------------------------


def text(found: Found) -> str:
    """The tables, for the terminal and for pages."""
    waits = aligned(waiting_table({f"{found.streams:,} open streams": found.pages}))
    latency = [
        ("from a mark to its event", "p50 ms", "p99 ms"),
        (f"{found.heard:,} events", f"{found.p50:.1f}", f"{found.p99:.1f}"),
    ]
    aims = [("aim", "reached", ""), *((name, value, VERDICTS[met]) for name, value, met in found.aims())]
    return "\n\n".join([waits, aligned(latency), aligned(aims)])


def document(found: Found) -> dict[str, Any]:
    """The figures for programs."""
    return asdict(found)
