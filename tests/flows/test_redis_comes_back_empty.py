"""Redis loses its data under a running server: everything that backend.json declares is restored automatically."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py

from tests.flows.test_cluster import of_its_own
from tests.support.polling import rss
from tests.support.process import Installation, installation, reader
from tests.support.waiting import wait_until
from tests.support.web import publisher


@asynccontextmanager
async def running(folder: Path, document: dict[str, Any], url: str | None) -> AsyncIterator[tuple[Installation, str]]:
    """The address of a server on Redis at `url`, with web and worker apart, or in one with the embedded Redis."""
    async with installation(folder, document, **({"MICROSUB_REDIS_URL": url} if url else {})) as installed:
        address = await installed.serve("web" if url else "serve")
        if url:
            await installed.start("work")
        yield installed, address


def embedded(installed: Installation) -> str:
    """The URL of the embedded Redis."""
    return f"unix://{json.loads((installed.folder / 'data' / 'redis.json').read_text())['socket']}"


@pytest.mark.parametrize("whose", ["embedded", "own"])
async def test_the_file_is_applied_again(tmp_path: Path, redis_url: str, whose: str) -> None:
    """Users, channels and feeds are there again, posts arrive, no process ends, and the log explains what happened."""
    url = redis_url if whose == "own" else None
    async with publisher() as site:
        feed = site.serve_document("/feed", rss(of_its_own("feed", 5)))
        users = {"alice": {"channels": [{"uid": "home", "name": "Home", "feeds": [feed]}]}}
        document = {"users": users, "settings": {"polling": {"host_interval": 0}}}
        async with running(tmp_path / "here", document, url) as (installed, address):

            async def filled() -> bool:
                code, token, _ = await installed.run("token", "create", "alice")
                if code != 0:
                    return False
                async with reader(address, token.strip()) as alice:
                    return len(await alice.timeline("home")) == 5

            await wait_until(filled)
            with redis_py.Redis.from_url(url or embedded(installed)) as client:
                client.flushdb()
            await wait_until(lambda: "Redis has lost its data" in installed.log)
            await wait_until(filled)

            async def healthy() -> bool:
                async with reader(address, "") as anybody:
                    return (await anybody.client.get(f"{address}/health")).json().get("backend") == "ok"

            await wait_until(healthy)
            assert {process.returncode for process in installed.processes} == {None}
            assert json.loads(installed.backend.read_text())["users"] == users
