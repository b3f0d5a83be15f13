"""Redis is killed under running web and worker processes: no acknowledged change is lost, without manual repair."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from microsub.redis import keys
from microsub.redis.embedded.datafolder import Folder
from tests.flows.test_cluster import of_its_own
from tests.support.cluster import Node, free_ports, running_cluster, running_server
from tests.support.polling import rss
from tests.support.process import Installation, Reader, installation, reader
from tests.support.waiting import wait_until
from tests.support.web import Publisher, publisher

POSTS = 40
ENOUGH = 30
"""Acknowledged changes before and after Redis is killed."""
HELD_BACK = 2.5
"""Seconds: with `everysec`, Redis writes nothing for two of them while a sync is slow, with a clock of 10 Hz."""


@asynccontextmanager
async def at_work(
    folder: Path, url: str, site: Publisher
) -> AsyncIterator[tuple[Installation, Reader, Promises, asyncio.Task[None]]]:
    """A web and a worker process on this Redis, and a reader that makes changes all the time."""
    feed = site.serve_document("/home", rss(of_its_own("home", POSTS)))
    more = [site.serve_document(f"/{n}", rss(of_its_own(f"{n}", 2), title=f"Feed {n}")) for n in range(30)]
    channels = [{"uid": "home", "name": "Home", "feeds": [feed]}, {"uid": "more", "name": "More", "feeds": []}]
    users = {"alice": {"me": "https://alice.example/", "channels": channels}}
    backend: dict[str, Any] = {"users": users, "settings": {"polling": {"host_interval": 0}}}
    async with installation(folder, backend, MICROSUB_REDIS_URL=url) as installed:
        address = await installed.serve("web")
        await installed.start("work")
        async with reader(address, await installed.token("alice")) as alice:
            await alice.has(POSTS)
            promises = Promises(alice, more)
            task = asyncio.create_task(promises.make([item["_id"] for item in await alice.timeline("home")]))
            await reached(promises, task, ENOUGH)
            yield installed, alice, promises, task
            assert [process.returncode for process in installed.processes] == [None, None]
        assert not [line for line in installed.log.splitlines() if json.loads(line)["level"] == "critical"]


async def reached(promises: Promises, task: asyncio.Task[None], count: int) -> None:
    """Wait until `count` more changes are acknowledged."""
    wanted = promises.acknowledged + count

    def there() -> bool:
        if task.done():
            task.result()
        return promises.acknowledged >= wanted

    await wait_until(there)


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def everything_goes_on(installed: Installation, alice: Reader, promises: Promises, site: Publisher) -> None:
    """All acknowledged changes are there, feeds are polled, and /health is OK, without manual repair."""
    await promises.hold()
    site.serve_document("/home", rss(of_its_own("home", POSTS + 1, "edited ")))

    async def polled() -> bool:
        code, _, _ = await installed.run("poll")
        names = [item["name"] for item in await alice.timeline("home")]
        return code == 0 and len(names) == POSTS + 1 and all(name.startswith("edited ") for name in names)

    await wait_until(polled)

    async def complete() -> bool:
        return len(await alice.timeline("more")) == 2 * len(await listed())

    async def listed() -> list[Any]:
        found: list[Any] = (await alice.get(action="follow", channel="more"))["items"]
        return found

    await wait_until(complete)

    async def healthy() -> bool:
        return (await alice.client.get(alice.endpoint.replace("/microsub", "/health"))).status_code == 200

    await wait_until(healthy)
    await promises.hold()


async def fall_behind(master: Node, replica: Node, key: str, promises: Promises) -> None:
    """Pause the replica while changes are made, so that the master's failure loses what the replica has missed.

    On one machine the kernel would still deliver it, so the connection's buffers are filled first.
    """
    replica.send(signal.SIGSTOP)
    with master.client() as client:
        client.set(f"filler:{key.partition(':')[2]}", b"x" * 32_000_000)
    acknowledged, refused = promises.acknowledged, promises.refused
    await wait_until(lambda: promises.refused > refused or promises.acknowledged > acknowledged + ENOUGH)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("failure", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
async def test_a_replica_takes_over_from_a_master_that_fails(tmp_path: Path, failure: signal.Signals) -> None:
    """Marks, follows and channels that were acknowledged before, during and after the failure are all there.

    In one case the reader's own master is killed, the only node that the processes were given; in the other, the master
    of the stream of new posts freezes without closing connections. The processes keep running, also when it returns.
    """
    key = "user:{alice}" if failure == signal.SIGKILL else "stream:{stored}"
    with running_cluster(tmp_path / "redis", replicas=1, cluster_node_timeout=1500) as cluster:
        victim = cluster.first_master_of(key)
        successor = cluster.replica_of(victim)
        url = f"redis+cluster://127.0.0.1:{victim.port}" if key == "user:{alice}" else cluster.whole_url
        async with (
            publisher() as site,
            at_work(tmp_path / "here", url, site) as (
                installed,
                alice,
                promises,
                task,
            ),
        ):
            await fall_behind(victim, successor, key, promises)
            if failure == signal.SIGKILL:
                victim.stop(failure)
            else:
                victim.send(failure)
            successor.send(signal.SIGCONT)

            def taken_over() -> bool:
                with successor.client() as client:
                    return bool(client.execute_command("ROLE")[0] == b"master")

            await wait_until(taken_over)
            await reached(promises, task, ENOUGH)
            if failure == signal.SIGKILL:
                victim.start()
            else:
                victim.send(signal.SIGCONT)
            await reached(promises, task, ENOUGH)
            await ended(task)
            if failure == signal.SIGKILL:
                assert promises.refused
            await everything_goes_on(installed, alice, promises, site)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("appendfsync", ["always", "everysec"])
async def test_a_single_redis_is_killed_and_started_again(tmp_path: Path, appendfsync: str) -> None:
    """With an append-only file, Redis returns with all acknowledged changes.

    With `everysec` the last two seconds are uncertain, because Redis may hold back its log for that long during a sync.
    """
    options = {"appendonly": "yes", "appendfsync": appendfsync}
    with running_server(tmp_path / "redis", **options) as server:
        url = f"redis://127.0.0.1:{server.port}"
        async with publisher() as site, at_work(tmp_path / "here", url, site) as (installed, alice, promises, task):
            if appendfsync == "everysec":
                await wait_until(lambda: promises.older(time.monotonic() - HELD_BACK) >= ENOUGH)
            killed = time.monotonic()
            server.stop(signal.SIGKILL)
            await wait_until(lambda: promises.refused)
            if appendfsync == "everysec":
                promises.doubt(killed - HELD_BACK)
            server.start()
            await reached(promises, task, ENOUGH)
            await ended(task)
            await everything_goes_on(installed, alice, promises, site)


async def test_a_server_starts_and_reads_with_a_full_redis(tmp_path: Path) -> None:
    """A web process starts and serves pages; a changed file is applied when there is memory again."""
    channels = [{"uid": "home", "name": "Home"}]
    users = {"alice": {"me": "https://alice.example/", "channels": channels}}
    with running_server(tmp_path / "redis") as server:
        url = f"redis://127.0.0.1:{server.port}"

        def bound(size: str) -> None:
            with server.client() as client:
                client.config_set("maxmemory", size)

        async with installation(tmp_path, {"users": users}, MICROSUB_REDIS_URL=url) as installed:
            await installed.serve("web")
            await installed.stop()
            token = await installed.token("alice")
            channels.append({"uid": "later", "name": "Later"})
            installed.write({"users": users})
            await asyncio.to_thread(bound, "1")
            async with reader(await installed.serve("web"), token) as alice:
                assert [*await alice.channels()] == ["notifications", "home", "saved"]
                assert await alice.timeline("home") == []
                await asyncio.to_thread(bound, "0")

                async def applied() -> bool:
                    return len(await alice.channels()) == 3

                await wait_until(applied)


async def test_processes_that_start_while_redis_is_away_wait_for_it(tmp_path: Path) -> None:
    """They say so once, and the port answers. Without the standby that is asked for they start, and serve reads."""
    users = {"alice": {"me": "https://alice.example/", "channels": [{"uid": "home", "name": "Home"}]}}
    (port,) = free_ports(1)
    with running_server(tmp_path / "redis", appendonly="yes") as server:
        url = f"redis://127.0.0.1:{server.port}"
        async with installation(tmp_path, {"users": users}, MICROSUB_REDIS_URL=url) as installed:
            token = await installed.token("alice")
            await asyncio.to_thread(server.stop)
            await installed.start("web", "--port", str(port), "--redis-replicas", "1")
            await installed.start("work", "--redis-replicas", "1")
            async with reader(f"http://127.0.0.1:{port}", token) as alice:

                async def state() -> dict[str, Any]:
                    try:
                        reply = await alice.client.get(f"http://127.0.0.1:{port}/health")
                    except httpx.HTTPError:  # it takes a moment to load
                        return {}
                    found: dict[str, Any] = reply.json()
                    assert reply.status_code == 503
                    return found

                async def waits() -> bool:
                    return (await state()).get("redis") == "unreachable"

                await wait_until(waits)
                refused = await alice.client.get(alice.endpoint, headers=alice.headers)
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
                await wait_until(lambda: installed.log.count('"waiting for Redis"') == 2)
                await asyncio.to_thread(server.start)

                async def starts() -> bool:
                    return (await state()).get("redis") == "no standby"

                await wait_until(starts)
                assert [*await alice.channels()] == ["notifications", "home", "saved"]
                change = {"action": "channels", "name": "More"}
                refused = await alice.client.post(alice.endpoint, data=change, headers=alice.headers)
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
                assert "standby" in refused.json()["error_description"]
            assert installed.log.count('"waiting for Redis"') == 2
            assert [process.returncode for process in installed.processes] == [None, None]


async def test_a_process_starts_while_a_master_is_away(tmp_path: Path) -> None:
    """Without the master that has the last applied backend.json, and without that of some users."""
    names = [f"user-{number}" for number in range(6)]
    users = {name: {"channels": [{"uid": "home", "name": "Home"}]} for name in names}
    (port,) = free_ports(1)
    with running_cluster(tmp_path / "redis", cluster_require_full_coverage="no") as cluster:
        away = cluster.first_master_of(keys.applied_config())
        others = [name for name in names if cluster.first_master_of(keys.user(name)) != away]
        assert 0 < len(others) < len(names)
        async with installation(tmp_path, {"users": users}, MICROSUB_REDIS_URL=cluster.whole_url) as installed:
            token = await installed.token(others[0])
            await asyncio.to_thread(away.stop)
            await installed.start("web", "--port", str(port))
            async with reader(f"http://127.0.0.1:{port}", token) as alice:

                async def starts() -> bool:
                    with contextlib.suppress(httpx.HTTPError):
                        reply = (await alice.client.get(f"http://127.0.0.1:{port}/health")).json()
                        return (reply["redis"], reply["status"]) == ("incomplete", "degraded")
                    return False

                await wait_until(starts)
                assert "home" in await alice.channels()


async def test_a_server_whose_redis_takes_long_to_start_answers_meanwhile(tmp_path: Path) -> None:
    """As one that reads much data: nobody can use it until the lock on the data folder is released."""
    (port,) = free_ports(1)
    async with installation(tmp_path, {"users": {}}, MICROSUB_PORT=str(port)) as installed:
        await installed.prepare()
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:

            async def health() -> tuple[int, str]:
                with contextlib.suppress(httpx.HTTPError):
                    reply = await client.get("/health")
                    return reply.status_code, reply.json()["redis"]
                return 0, ""

            async def waits() -> bool:
                return await health() == (503, "unreachable")

            async def works() -> bool:
                return (await health())[1] == "ok"

            with Folder(tmp_path / "data").starting():
                await installed.start("serve")
                await wait_until(waits)
                assert "waiting for Redis" in installed.log
            await wait_until(works)


@dataclass
class Promises:
    """Marks, follows and channels that were acknowledged to `reader`. Failed requests may have been done or not."""

    reader: Reader
    feeds: list[str]
    read: dict[str, bool] = field(default_factory=dict)
    followed: set[str] = field(default_factory=set)
    channels: set[str] = field(default_factory=set)
    acknowledged: int = 0
    refused: int = 0
    times: dict[str, float] = field(default_factory=dict)
    """The time of the last acknowledged change of each post, feed or channel, by `time.monotonic`."""

    async def make(self, ids: list[str]) -> None:
        """Mark each post in turn as read and as unread, and sometimes follow a feed or create a channel; forever."""
        feeds = iter(self.feeds)
        for number, item_id in enumerate(itertools.cycle(ids)):
            method = "mark_unread" if self.read.pop(item_id, False) else "mark_read"
            if await self._done(action="timeline", method=method, channel="home", entry=item_id):
                self.read[item_id] = method == "mark_read"
                self.times[item_id] = time.monotonic()
            if (
                number % 10 == 0
                and (url := next(feeds, None))
                and await self._done(action="follow", channel="more", url=url)
            ):
                self.followed.add(url)
                self.times[url] = time.monotonic()
            if number % 25 == 0 and await self._done(action="channels", name=f"Made {number}"):
                self.channels.add(f"Made {number}")
                self.times[f"Made {number}"] = time.monotonic()

    def older(self, moment: float) -> int:
        """The number of changes that were acknowledged before that moment."""
        return sum(at < moment for at in self.times.values())

    def doubt(self, since: float) -> None:
        """Changes that were acknowledged since then may be lost."""
        for name in [name for name, at in self.times.items() if at >= since]:
            del self.times[name]
            self.read.pop(name, None)
            self.followed.discard(name)
            self.channels.discard(name)

    async def _done(self, **parameters: str) -> bool:
        headers = {"Authorization": f"Bearer {self.reader.token}"}
        try:
            reply = await self.reader.client.post(self.reader.endpoint, data=parameters, headers=headers)
        except httpx.HTTPError:
            reply = None
        if reply is None or reply.status_code == 503:
            self.refused += 1
            await asyncio.sleep(0.02)  # the reader tries again
            return False
        assert reply.status_code == 200, reply.text
        self.acknowledged += 1
        return True

    async def hold(self) -> None:
        """Fail unless all acknowledged changes are there."""
        items = await self.reader.timeline("home")
        assert len({item["_id"] for item in items}) == len(items)
        read = {item["_id"]: item["_is_read"] for item in items}
        assert {item_id: read.get(item_id) for item_id in self.read} == self.read
        channels = await self.reader.channels()
        assert channels["home"]["unread"] == sum(not is_read for is_read in read.values())
        assert self.channels <= {channel["name"] for channel in channels.values()}
        listed = await self.reader.get(action="follow", channel="more")
        assert self.followed <= {feed["url"] for feed in listed["items"]}
