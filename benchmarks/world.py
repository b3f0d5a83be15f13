"""A real server with a temporary data folder: embedded Redis on a Unix socket, one web process, and static bytes."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.shelves import Shelf, fill
from microsub.redis.connect import connect
from microsub.redis.embedded.server import start_embedded
from microsub.redis.migrations import migrate
from microsub.redis.protocol import Redis

START_SECONDS = 60
SETTINGS = '{"users": {}, "settings": {"max_items": 0, "keep_read_days": 0, "keep_unread_days": 0}}\n'


@dataclass(frozen=True, slots=True)
class World:
    """The servers under load."""

    endpoint: str
    folder: Path
    shelves: tuple[Shelf, ...]
    redis_version: str
    memory: str
    web_pid: int


@contextmanager
def world(sizes: Sequence[int]) -> Iterator[World]:
    """Start Redis, fill it, start the web process; everything is deleted at the end of the block."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="microsub-bench-")))
        redis = start_embedded(folder / "data")
        stack.callback(redis.stop)
        shelves, memory = asyncio.run(_fill(redis.url, sizes))
        (folder / "backend.json").write_text(SETTINGS)
        endpoint, process = stack.enter_context(web(folder))
        yield World(endpoint, folder, shelves, str(redis.engine), memory, process.pid)


@contextmanager
def web(folder: Path, **variables: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a web process on the data and the backend.json in the folder; yields its endpoint and the process.

    `variables` are added to its environment.
    """
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MICROSUB_")}
    environment |= {
        "MICROSUB_DATA_DIR": str(folder / "data"),
        "MICROSUB_BACKEND": str(folder / "backend.json"),
        "MICROSUB_HOST": "127.0.0.1",
        "MICROSUB_PORT": str(port),
        **variables,
    }
    command = [sys.executable, "-m", "microsub", "web"]
    with running(command, f"http://127.0.0.1:{port}/", folder / "web.log", environment) as process:
        yield f"http://127.0.0.1:{port}/microsub", process


async def _fill(url: str, sizes: Sequence[int]) -> tuple[tuple[Shelf, ...], str]:
    redis = await connect(url)
    try:
        await migrate(redis)
        now = time.time()
        shelves = []
        for size in sizes:
            began = time.perf_counter()
            shelves.append(await fill(redis, size, now))
            print(f"  filled a timeline of {size:,} items in {time.perf_counter() - began:.1f} s", file=sys.stderr)
        # Rewrite the append-only file now, because a rewrite during the measurement would disturb it.
        await rewritten(redis)
        await redis.command("BGREWRITEAOF")
        info = await rewritten(redis)
        memory = next(line.partition(":")[2] for line in info.splitlines() if line.startswith("used_memory_human:"))
        return tuple(shelves), memory
    finally:
        await redis.aclose()


async def rewritten(redis: Redis) -> str:
    """Wait until Redis rewrites nothing any more; returns its `INFO`."""
    while True:
        info: str = (await redis.command("INFO")).decode()
        if "aof_rewrite_in_progress:0" in info and "aof_rewrite_scheduled:0" in info:
            return info
        await asyncio.sleep(0.1)


@contextmanager
def yardstick(sizes: Sequence[int], folder: Path) -> Iterator[str]:
    """Run the static application for these body sizes; yields its address."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.static_app", str(port), *map(str, sizes)]
    base = f"http://127.0.0.1:{port}"
    with running(command, f"{base}/{sizes[0]}", folder / "static.log", dict(os.environ)):
        yield base


@contextmanager
def running(
    command: Sequence[str], url: str, log: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server process; yields once `url` answers. Raises RuntimeError with its log if it doesn't."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,  # as supervisors do
        )
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                opener.open(url, timeout=5).close()
                break
            except OSError:  # refused, reset or too slow: not ready yet
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{' '.join(command)} did not start:\n{log.read_text()}") from None
                time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        process.wait(30)


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
