"""A native app, a Microsub app and the page of one user, while the web process and the workers die in between."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest

from microsub.accounts import Sessions, create_app_password
from microsub.feeds.record import FeedRecord
from microsub.redis.connect import connect
from microsub.timelines import READ_EVERYWHERE
from tests.chaos.storm import Blog, start_worker
from tests.support.cluster import running_server
from tests.support.fork_server import Process, fork_server
from tests.support.native_app import ADDRESS, NativeApp
from tests.support.own_server import cookie_of
from tests.support.polling import World, world
from tests.support.process import Installation
from tests.support.reader import Reader
from tests.support.three_faces import LABELS, Faces, Model, step
from tests.support.visitor import FIREFOX, Visitor
from tests.support.waiting import wait_until
from tests.support.web import Publisher, publisher

STEPS = int(os.environ.get("CHAOS_STEPS", "16"))
SEED = int(os.environ.get("CHAOS_SEED") or random.randrange(10**6))
PUBLISHED = 0.15
"""The probability that a step is a new post, which workers bring."""
KILLED = 0.3
"""The probability that the web process is condemned before a request."""
MOST_TRIPS = 8
"""Round trips to Redis after which it has died: more than most requests need, so some die with a later one."""


@dataclass
class MortalServer(httpx.AsyncBaseTransport):
    """Sends every request to the web process, whatever its host, and again to the next one if it died with it."""

    installed: Installation
    chance: random.Random
    port: int = 0
    lost: int = 0
    is_safe: bool = True
    process: Process | None = None
    inner: httpx.AsyncHTTPTransport = field(default_factory=httpx.AsyncHTTPTransport)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        content = await request.aread()
        here = request.url.copy_with(scheme="http", host="127.0.0.1", port=self.port)
        headers = {**request.headers, "host": f"127.0.0.1:{self.port}"}
        if not self.is_safe and self.process is not None and self.chance.random() < KILLED:
            self.process.send_signal(signal.SIGUSR1)
        while True:
            try:
                answer = await self.inner.handle_async_request(
                    httpx.Request(request.method, here, headers=headers, content=content)
                )
                try:
                    body = [part async for part in answer.stream]
                finally:
                    await answer.aclose()  # otherwise each request takes one of the client's hundred connections
                return httpx.Response(answer.status_code, headers=answer.headers, content=b"".join(body))
            except httpx.TransportError:
                # A connection that has been idle for long is closed by a living process.
                if await self._has_died():
                    self.lost += 1
                    await self.start()

    async def _has_died(self) -> bool:
        await asyncio.sleep(0.01)
        assert self.process is not None
        code = self.process.returncode
        assert code in {None, -signal.SIGKILL}, self.installed.log[-2000:]
        return code is not None

    async def start(self) -> None:
        """Start the next web process at the same port."""
        await self.inner.aclose()
        self.inner = httpx.AsyncHTTPTransport()
        number = len(self.installed.processes)
        out, log = (self.installed.folder / f"{number}.{kind}" for kind in ("out", "log"))
        environment = {**self.installed.environment(), "MICROSUB_PORT": str(self.port)}
        trips = str(self.chance.randint(1, MOST_TRIPS))
        with out.open("wb") as printed, log.open("wb") as logged:
            process = fork_server().start("tests.chaos.web_process", [trips], environment, printed, logged)
        self.installed.processes.append(process)
        self.process = process

        def address() -> re.Match[str] | None:
            assert process.returncode is None, self.installed.log[-2000:]
            return re.search(r"server on http://\S+:(\d+)", out.read_text())

        self.port = int((await wait_until(address))[1])


@dataclass
class Blogs:
    """The blogs that Alice follows, each with its channels, and the workers that read them and die."""

    it: World
    site: Publisher
    alice: Reader
    folder: Path
    redis_url: str
    chance: random.Random
    all: list[tuple[Blog, FeedRecord, tuple[str, ...]]] = field(default_factory=list)
    awaited: set[tuple[str, int]] = field(default_factory=set)
    posts: int = 0
    workers: int = 0
    deaths: int = 0

    async def follow(self, path: str, *uids: str) -> None:
        blog = Blog(path)
        self._write(blog, 6, uids)
        for uid in uids:
            feed = await self.it.follow(self.site.url(path, f"{path[1:]}.test"), "alice", uid)
        self.all.append((blog, feed, uids))

    async def publish(self, model: Model, ids: list[str]) -> str:
        """A new post, which dying workers neither lose nor double; it is unread in all channels of its blog."""
        blog, feed, uids = self.chance.choice(self.all)
        self._write(blog, 1, uids)
        await self.it.make_due(feed)
        await self.arrive(self.chance.randrange(5, 120))
        (item,) = {(await self._numbered(uid))[self.posts] for uid in uids}
        for uid in uids:
            model.shown[uid][item] = False
        ids.append(item)
        return f"publish {uids} {item}"

    async def arrive(self, trips: int) -> None:
        """Let workers read the blogs until every post has arrived: the first may die, the next one doesn't."""
        log = self.folder / f"worker{self.workers}.txt"
        process = start_worker(log, self.redis_url, str(trips))
        self.workers += 1

        async def is_over() -> bool:
            return process.returncode is not None or await self._have_arrived()

        try:
            await wait_until(is_over)
        finally:
            if process.returncode is None:
                process.terminate()
            code = await process.wait()
        assert code in {0, -signal.SIGKILL}, log.read_text()[-2000:]
        self.deaths += code == -signal.SIGKILL
        if not await self._have_arrived():
            await self.arrive(0)
        self.awaited.clear()

    async def _have_arrived(self) -> bool:
        there = {(uid, number) for uid in LABELS for number in await self._numbered(uid)}
        return self.awaited <= there

    async def _numbered(self, uid: str) -> dict[int, str]:
        """The ids of the posts in a channel by their numbers."""
        return {int(one["url"].rpartition("/")[2]): one["_id"] for one in await self.alice.timeline(uid)}

    def _write(self, blog: Blog, count: int, uids: tuple[str, ...]) -> None:
        for _ in range(count):
            self.posts += 1
            blog.posts.append((self.posts, self.it.clock() - 100 + self.posts))
            self.awaited |= {(uid, self.posts) for uid in uids}
        self.site.serve_document(blog.path, blog.document())


async def faces_of_alice(it: World, server: MortalServer) -> Faces:
    """Alice, signed in on the page and with two apps, all of which speak to the server that dies."""
    client, now = httpx.AsyncClient(transport=server, timeout=60), it.clock()
    alice = replace(await it.reader("alice", "home", "later"), client=client, endpoint=f"{server.url}/microsub")
    password = await create_app_password(it.accounts, "alice", "An app", now)
    sign_in = {"Email": "alice", "Passwd": password, "output": "json"}
    signed_in = await client.post(f"{server.url}{ADDRESS}/accounts/ClientLogin", data=sign_in)
    page = Visitor(server, server.url)
    cookie = await Sessions(it.redis).begin("alice", "https://alice.example/", "a test", FIREFOX, now)
    page.client.cookies.set(cookie_of(server.url, "session"), cookie)
    return Faces(NativeApp(signed_in.json()["Auth"], client), alice, page)


@pytest.mark.timeout(600 + STEPS * 15)
async def test_three_faces_agree_while_processes_are_killed(tmp_path: Path) -> None:
    """Processes die with SIGKILL in the middle of changes and deliveries, and apps repeat the changes that weren't
    acknowledged: then all of them show the model's state.
    """
    print(f"CHAOS_SEED={SEED}")
    chance, history = random.Random(SEED), list[str]()
    with running_server(tmp_path / "redis") as node:
        url = f"redis://127.0.0.1:{node.port}"
        redis = await connect(url)
        installed = Installation(tmp_path, {"MICROSUB_REDIS_URL": url})
        installed.write({"users": {}})
        server = MortalServer(installed, chance)
        try:
            async with publisher() as site, world(redis) as it:
                await server.start()
                faces = await faces_of_alice(it, server)
                blogs = Blogs(it, site, faces.alice, tmp_path, url, chance)
                await blogs.follow("/one", "home", "later")
                await blogs.follow("/two", "home")
                await blogs.arrive(0)
                everywhere = chance.random() < 0.5
                await it.accounts.set_settings("alice", {READ_EVERYWHERE: "yes" if everywhere else "no"})
                model = Model(everywhere=everywhere)
                for uid in LABELS:
                    model.shown[uid] = {one["_id"]: one["_is_read"] for one in await faces.alice.timeline(uid)}
                ids = sorted(model.posts())
                taken = 0
                while taken < STEPS or not (server.lost and blogs.deaths):
                    taken += 1
                    assert taken < STEPS + 100, "too few processes have died"
                    if chance.random() < PUBLISHED or (taken > STEPS and not blogs.deaths):
                        history.append(await blogs.publish(model, ids))
                    else:
                        server.is_safe = False
                        history.append(await step(chance, faces, model, ids))
                        server.is_safe = True
                    await faces.agree_with(model, ids, history)
                assert (await it.check()).is_clean
        finally:
            await installed.stop(signal.SIGKILL)
            await redis.aclose()
    print(f"{server.lost} web processes died with a request, and {blogs.deaths} workers")
