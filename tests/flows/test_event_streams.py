"""Event streams of real processes: after any crash each change is sent exactly once, without manual action."""

from __future__ import annotations

import asyncio
import itertools
import signal
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.flows.test_cluster import of_its_own
from tests.support.cluster import running_cluster, running_server
from tests.support.event_stream import EventParser, Heard
from tests.support.polling import rss
from tests.support.process import Installation, Reader, installation, reader
from tests.support.reader import ENDPOINT
from tests.support.waiting import wait_until
from tests.support.web import publisher

ENOUGH = 15
"""Changes before and after each kill."""
USERS = {"alice": {"me": "https://alice.example/", "channels": [{"uid": "home", "name": "Home", "feeds": []}]}}


@dataclass
class Listener:
    """An app that listens at several addresses in turn, resumes after its last event and records all events."""

    token: str
    addresses: list[str]
    heard: list[Heard] = field(default_factory=list)
    place: str = ""
    connections: int = 0

    async def listen(self) -> None:
        """Listen forever; if a server ends a stream or can't be reached, connect to the next one."""
        async with httpx.AsyncClient(timeout=httpx.Timeout(5.0, read=60.0)) as client:
            for address in itertools.cycle(self.addresses):
                try:
                    await self._connection(client, address)
                except httpx.HTTPError:
                    await asyncio.sleep(0.05)

    async def _connection(self, client: httpx.AsyncClient, address: str) -> None:
        parser = EventParser()
        headers = {"Last-Event-ID": self.place} if self.place else {}
        params = {"action": "events", "access_token": self.token}
        async with client.stream("GET", f"{address}{ENDPOINT}", params=params, headers=headers) as reply:
            if reply.status_code != 200:
                await asyncio.sleep(0.2)
                return
            self.connections += 1
            async for data in reply.aiter_bytes():
                self.heard += parser.feed(data)
                self.place = parser.last_id or self.place

    @property
    def channels(self) -> list[str]:
        """The uids of the announced new channels, in order."""
        return [one.data["channel"]["uid"] for one in self.heard if one.name == "new channel"]


@dataclass
class Maker:
    """Creates channels one after the other, and records the acknowledged ones."""

    readers: Sequence[Reader]
    made: list[str] = field(default_factory=list)

    async def make(self) -> None:
        for number in itertools.count():
            alice = self.readers[number % len(self.readers)]
            try:
                reply = await alice.client.post(
                    alice.endpoint, data={"action": "channels", "name": f"c{number}"}, headers=alice.headers, timeout=5
                )
            except httpx.HTTPError:
                reply = None
            if reply is not None and reply.status_code == 200:
                self.made.append(reply.json()["uid"])
            await asyncio.sleep(0.02)

    async def more(self) -> None:
        wanted = len(self.made) + ENOUGH
        await wait_until(lambda: len(self.made) >= wanted)


@asynccontextmanager
async def at_work(folder: Path, url: str, webs: int = 2) -> AsyncIterator[tuple[Installation, Listener, Maker]]:
    """Web processes on one Redis, an app that listens at the first one, and another app that makes changes at all of
    them.
    """
    async with installation(folder, {"users": USERS}, MICROSUB_REDIS_URL=url) as installed:
        addresses = [await installed.serve("web") for _ in range(webs)]
        token = await installed.token("alice")
        listener = Listener(token, addresses)
        async with httpx.AsyncClient(timeout=60) as client:
            maker = Maker([Reader("alice", token, client, f"{address}{ENDPOINT}") for address in reversed(addresses)])
            tasks = [asyncio.create_task(listener.listen())]
            await wait_until(lambda: listener.place)
            tasks.append(asyncio.create_task(maker.make()))
            try:
                await maker.more()
                yield installed, listener, maker
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


async def all_told(listener: Listener, maker: Maker) -> None:
    """Each acknowledged change was received once, in order, and no stream had to resync."""
    made = list(maker.made)
    await wait_until(lambda: set(made) <= set(listener.channels))
    told = listener.channels
    assert len(set(told)) == len(told)
    assert [uid for uid in told if uid in set(made)] == made
    assert not [one for one in listener.heard if one.name == "resync"]


async def test_a_web_process_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """The app resumes at another process, and receives all changes made in the meantime at either process."""
    with running_server(tmp_path / "redis") as server:
        async with at_work(tmp_path / "here", f"redis://127.0.0.1:{server.port}") as (installed, listener, maker):
            installed.processes[0].send_signal(signal.SIGKILL)
            await wait_until(lambda: listener.connections == 2)
            await maker.more()
            await all_told(listener, maker)


async def test_a_redis_that_is_killed_ends_no_stream(tmp_path: Path) -> None:
    """The stream waits, and continues with the first change after the restart."""
    options = {"appendonly": "yes", "appendfsync": "always"}
    with running_server(tmp_path / "redis", **options) as server:
        async with at_work(tmp_path / "here", f"redis://127.0.0.1:{server.port}", 1) as (_, listener, maker):
            server.stop(signal.SIGKILL)
            await asyncio.sleep(1)
            server.start()
            await maker.more()
            await all_told(listener, maker)
            assert listener.connections == 1


@pytest.mark.timeout(600)
async def test_a_master_that_fails_ends_no_stream(tmp_path: Path) -> None:
    """The replica has all acknowledged events."""
    with running_cluster(tmp_path / "redis", replicas=1, cluster_node_timeout=1500) as cluster:
        victim = cluster.first_master_of("user:{alice}")
        successor = cluster.replica_of(victim)
        async with at_work(tmp_path / "here", cluster.whole_url, 1) as (_, listener, maker):
            victim.stop(signal.SIGKILL)

            def taken_over() -> bool:
                with successor.client() as client:
                    return bool(client.execute_command("ROLE")[0] == b"master")

            await wait_until(taken_over)
            await maker.more()
            await all_told(listener, maker)


async def test_a_server_with_open_streams_ends_within_seconds(tmp_path: Path) -> None:
    """The server ends within seconds, and the streams end like complete replies."""
    async with installation(tmp_path, {"users": USERS}) as installed:
        address = await installed.serve()
        async with reader(address, await installed.token("alice")) as alice:
            params = {"action": "events", "access_token": alice.token}
            async with alice.client.stream("GET", alice.endpoint, params=params) as reply:
                chunks = reply.aiter_bytes()
                assert b"event: started" in await anext(chunks)
                began = time.monotonic()
                installed.processes[0].send_signal(signal.SIGTERM)
                assert [chunk async for chunk in chunks if b"event" in chunk] == []
                await installed.processes[0].wait()
                assert time.monotonic() - began < 8
                assert installed.processes[0].returncode == 0


async def test_a_server_ends_in_time_with_clients_that_take_nothing(tmp_path: Path) -> None:
    """The server doesn't wait until such clients have received their events."""
    uids = [f"{number}-{'x' * 58}" for number in range(450)]
    users = {"alice": {"channels": [{"uid": uid, "name": uid} for uid in uids]}}
    async with installation(tmp_path, {"users": users}) as installed:
        address = await installed.serve()
        async with reader(address, await installed.token("alice")) as alice:
            place = urlsplit(address)
            silent = socket.socket()
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            silent.connect((place.hostname, place.port))
            head = f"GET {ENDPOINT}?action=events&access_token={alice.token} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n"
            silent.sendall(head.encode())
            for turn in range(200):  # each event contains all uids: six megabytes in total
                await alice.post(action="channels", method="order", channels=uids[:2] if turn % 2 else uids[1::-1])
            began = time.monotonic()
            installed.processes[0].send_signal(signal.SIGTERM)
            await installed.processes[0].wait()
            assert time.monotonic() - began < 15
            silent.close()


async def test_a_post_arrives_within_moments(tmp_path: Path) -> None:
    """The event is sent right after the poll in another process, because changes are announced, not polled."""
    async with publisher() as site, installation(tmp_path, {"users": USERS}) as installed:
        address = await installed.serve()
        async with reader(address, await installed.token("alice")) as alice:
            listener = Listener(alice.token, [address])
            task = asyncio.create_task(listener.listen())
            await wait_until(lambda: listener.place)
            await asyncio.sleep(1.5)  # until the process announces changes
            feed = site.serve_document("/feed", rss(of_its_own("feed", 3)))
            await alice.post(action="follow", channel="home", url=feed)
            await wait_until(lambda: [one for one in listener.heard if one.name == "new item"])
            assert {one.data["item"]["_channel"]["uid"] for one in listener.heard if one.name == "new item"} == {"home"}
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
