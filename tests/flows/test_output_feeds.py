"""Output feeds with real processes: 40 concurrent fetchers, clients and servers that die during a reply, commands, and
a podcast client.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from microsub.outputs import OutputFeeds
from microsub.outputs.store import HELD
from microsub.redis.embedded.server import start_embedded
from microsub.redis.multiplexer import Multiplexed
from tests.support.polling import dated, rss
from tests.support.process import Installation, installation, reader
from tests.support.waiting import wait_until
from tests.support.web import Answer, Publisher, publisher

MOST = 4


@dataclass
class Passing:
    """Alice's server, another web process on the same data, and the ids in her channel `home`."""

    site: Publisher
    installed: Installation
    urls: list[str]
    ids: list[str]

    async def create(self, name: str, *flags: str) -> dict[str, str]:
        """Create a feed; its addresses as the command prints them, on the first server."""
        made = json.loads(await self.command("create", "alice", name, *flags, "--json"))
        assert made["addresses"]["rss"].startswith(self.urls[1]), "the server that was started last"
        paths = {form: urlsplit(address).path for form, address in made["addresses"].items()}
        return {form: self.urls[0] + path for form, path in paths.items()}

    async def command(self, *arguments: str) -> str:
        code, out, err = await self.installed.run("output", *arguments)
        assert code == 0, err
        return out

    async def state(self, name: str) -> dict[str, tuple[str, int]]:
        listed = json.loads(await self.command("list", "alice", name, "--json"))
        return {item["id"]: (item["state"], item["impressions"]) for item in listed["items"]}


@asynccontextmanager
async def passing(folder: Path, body: bytes, count: int) -> AsyncIterator[Passing]:
    async with publisher() as site:
        feed = site.serve_document("/feed", body, "application/rss+xml")
        channels = [{"uid": "home", "name": "Home", "feeds": [feed]}]
        document = {"users": {"alice": {"channels": channels}}, "settings": {"polling": {"host_interval": 0}}}
        async with installation(folder, document) as installed:
            urls = [await installed.serve(), await installed.serve("web")]
            async with reader(urls[0], await installed.token("alice")) as alice:

                async def arrived() -> list[str] | None:
                    ids = await alice.ids("home", limit=100)
                    return ids if len(ids) == count else None

                ids = await wait_until(arrived)
            yield Passing(site, installed, urls, ids)


async def test_forty_fetchers_of_two_servers_leave_four_impressions(tmp_path: Path) -> None:
    """Each item has four impressions in total, whatever the formats; HEAD and 304 count none."""
    async with passing(tmp_path, rss(dated(3)), 3) as it:
        addresses = await it.create("picks", "--max-impressions", str(MOST))
        await it.command("add", "alice", "picks", *it.ids)
        async with httpx.AsyncClient() as http:
            head = await http.head(addresses["json"])
            known = {"If-None-Match": head.headers["etag"]}
            assert (await http.get(addresses["json"], headers=known)).status_code == 304
            assert set((await it.state("picks")).values()) == {("published", 0)}
            path = urlsplit(addresses["json"]).path
            asked = [http.get(it.urls[number % 2] + path) for number in range(40)]
            replies = await asyncio.gather(*asked)
            assert {reply.status_code for reply in replies} == {200}
            shown = [item["url"] for reply in replies for item in reply.json()["items"]]
            assert sorted(Counter(shown).values()) == [MOST] * 3
            assert await it.state("picks") == dict.fromkeys(it.ids, ("imported", MOST))
            await it.command("publish", "alice", "picks", it.ids[0])
            assert len((await http.get(addresses["json"])).json()["items"]) == 1


def heavy(count: int) -> bytes:
    """A feed of half a megabyte an item: ten are too large for the socket buffers of a server, which can have four."""
    text = "&lt;" * 124_000
    items = "".join(
        f"<item><guid isPermaLink='false'>h{n}</guid><link>http://posts.test/h{n}</link><title>Heavy {n}</title>"
        f"<description><![CDATA[<p>{text}</p>]]></description></item>"
        for n in range(count)
    )
    return f"<rss version='2.0'><channel><title>Heavy</title>{items}</channel></rss>".encode()


def begun(address: str) -> socket.socket:
    """A client that has requested the address, and stops reading after the beginning of the first item."""
    parts = urlsplit(address)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(60)
    client.connect((parts.hostname, parts.port))
    client.sendall(f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
    read = b""
    while b"<item>" not in read:
        read += client.recv(1000)
    assert read.startswith(b"HTTP/1.1 200")
    return client


async def test_clients_and_servers_that_die_in_the_middle_of_a_reply(tmp_path: Path) -> None:
    """Items that were sent count, the others don't; the reservations of a killed server end after their time."""
    async with passing(tmp_path, heavy(10), 10) as it:
        addresses = await it.create("picks", "--max-impressions", str(MOST))
        await it.command("add", "alice", "picks", *it.ids)
        (await asyncio.to_thread(begun, addresses["rss"])).close()
        data = await asyncio.to_thread(start_embedded, it.installed.folder / "data")
        redis = Multiplexed(data.url)
        outputs = OutputFeeds(redis)
        feed = await outputs.get("alice", "picks")

        async def held() -> int:
            return int(await redis.command("HLEN", "user:{alice}:output:picks:held"))

        await wait_until(lambda: _is(held, 0))
        second = it.urls[1] + urlsplit(addresses["rss"]).path
        first, *_, last = (row.item for row in await outputs.rows(feed, time.time()))
        before = await it.state("picks")
        assert (before[first], before[last]) == (("published", 1), ("published", 0))
        clients = [await asyncio.to_thread(begun, second) for _ in range(MOST - 1)]
        assert await held() == MOST - 1
        assert first not in {row.item for row in await outputs.rows(feed, time.time())}
        it.installed.processes[1].send_signal(signal.SIGKILL)
        await it.installed.processes[1].wait()
        for client in clients:
            client.close()
        later = time.time() + HELD + 1
        left = {row.item for row in await outputs.rows(feed, later)}
        after = await it.state("picks")
        assert (after[first], after[last]) == (("imported", MOST), ("published", 0))
        assert left == {item for item, (state, _) in after.items() if state == "published"}
        assert (await outputs.reserve(feed, await outputs.rows(feed, later), later))[1] == left
        await redis.aclose()
        await asyncio.to_thread(data.stop)


async def _is(count: Any, wanted: int) -> bool:
    return bool(await count() == wanted)


EPISODE = bytes(range(256)) * 64


@pytest.mark.skipif(shutil.which("gpo") is None, reason="gpo, of Debian's package gpodder, is not installed")
async def test_a_podcast_client_subscribes_and_downloads(tmp_path: Path) -> None:
    """gPodder subscribes to the feed of picked episodes, and downloads the audio from the podcast."""
    async with publisher() as site:
        site.serve("/1.mp3", lambda asked: Answer(EPISODE, headers=[("Content-Type", "audio/mpeg")]))
        audio = site.url("/1.mp3")
        podcast = (
            "<rss version='2.0'><channel><title>Tides</title><item><guid isPermaLink='false'>t1</guid>"
            "<title>The first tide</title><description>Water.</description>"
            f"<pubDate>Mon, 01 Jan 2024 10:00:00 GMT</pubDate><enclosure url='{audio}' length='{len(EPISODE)}' "
            "type='audio/mpeg'/></item></channel></rss>"
        ).encode()
        async with passing(tmp_path / "server", podcast, 1) as it:
            addresses = await it.create("episodes", "--title", "To listen to")
            await it.command("add", "alice", "episodes", *it.ids)
            home = tmp_path / "gpodder"
            environ = {**os.environ, "GPODDER_HOME": str(home), "HOME": str(tmp_path), "PYTHONPATH": ""}

            def gpo(*arguments: str) -> str:
                command = ["gpo", *arguments]
                done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=240, check=False)
                return done.stdout + done.stderr

            said = await asyncio.to_thread(gpo, "subscribe", addresses["rss"])
            assert "To listen to" in await asyncio.to_thread(gpo, "list"), said
            said = await asyncio.to_thread(gpo, "download")
            found = [path for path in home.rglob("*.mp3") if path.read_bytes() == EPISODE]
            assert found, said
