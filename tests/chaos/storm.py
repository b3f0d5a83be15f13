"""A storm: publishers publish, edit and undo edits, readers mark items, and processes are killed at random, or frozen
until others have taken over their work. Redis is killed, too, and restarts with its append-only file. Then all is calm.

`Storm.rage` runs it for some seconds; `tests.chaos.verdict` lists all errors afterwards. The same seed makes the same
publications and marks; the moments of the kills depend on the machine.

A rebuild delivers all stored posts, so it would hide errors of delivery. Before the first verdict only Dave's timeline
is rebuilt, all the time: it proves that rebuilds do no harm. The others prove that delivery loses nothing. Meanwhile
posts become plain, as an earlier version has stored them, and are packed: no edit is lost, and none comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from pathlib import Path

import httpx

from microsub.admin.sweep import Sweeping
from microsub.base.clock import DAY
from microsub.base.errors import StoreError
from microsub.base.urls import host_of
from microsub.hub.store import ChannelTopics, HubStore, KnownSubscription
from microsub.hub.subscriptions import HubSubscription, subscription_id
from microsub.posts.garbage import newest_id
from microsub.posts.packing import unpacked
from microsub.posts.repacking import Repacking
from microsub.redis import keys
from microsub.redis.connect import connect
from microsub.redis.scripts import load
from microsub.server.jobs import STAGES, rebuilding
from microsub.websub.store import callback_fields
from microsub.websub.subscriptions import Callback, WantedSubscription, address, new_callback
from microsub.work import Stream, backlogs
from tests.chaos.verdict import POISON, missing, outdated
from tests.chaos.worker_process import BASE
from tests.support.cluster import Node
from tests.support.fork_server import Process, fork_server
from tests.support.polling import World, world
from tests.support.process import Installation
from tests.support.waiting import wait_until
from tests.support.web import Answer, Asked, Publisher, publisher

WORKERS = 2
FEEDS = 10
PUSHED = FEEDS
"""The number of the blog with posts only from a hub: its document for polls never changes."""
SENT = PUSHED + 1
"""The number of the blog with posts from a source; its document isn't polled."""
MOST_POSTS = 1800
"""All posts together: fewer than a timeline holds, so that none is evicted."""

POSTS_PER_KILL = 25
"""What blogs publish at most: on a busy machine, where processes start slowly, more posts would only cost more time."""

CALM_SECONDS = 150.0
"""The time after which a post counts as missing. Arrival takes a few seconds, more on a busy machine."""

MARKS = 20
"""The minimum number of acknowledged marks in a storm."""

DELIVERIES = 20
"""The minimum number of acknowledged deliveries by a hub in a storm."""

SENDINGS = 20
"""The minimum number of acknowledged posts from a source in a storm."""

DELIVERED = 0.3
"""The probability that the hub and the source have a new post after each mark by Bob."""

RESTARTS = 3
"""The number of times Redis dies in a storm."""

REMOVALS = 0.1
"""The probability that a mark is followed by the removal of a post."""

EDITS = 0.4
"""The share of publications that only change the title of a post, or restore an earlier one."""

REBUILT = ("dave", "late")
"""The user and channel of the timeline that is rebuilt all the time."""

LIFE = 3.0
"""The longest life of a worker that is killed: in seconds, or in multiples of its start time if that is longer.

Otherwise no worker on a busy machine would live long enough to parse a document, and messages that many workers died
with become dead letters.
"""

FROZEN_SECONDS = 2.5
"""The time for which a worker is frozen: longer than the others' patience."""


_STARTS = 4

_STARTED = 180.0
"""Seconds after which the start of a process counts as failed: it is slow on a busy machine."""


@dataclass
class Blog:
    """A feed that grows. The number of each post is unique in the storm."""

    path: str
    posts: list[tuple[int, float]] = field(default_factory=list)
    takes: dict[int, int] = field(default_factory=dict)

    def title(self, number: int) -> str:
        """The current title of the post."""
        return f"Post {number}, take {self.takes.get(number, 1)}"

    def document(self) -> bytes:
        items = "".join(
            f"<item><guid isPermaLink='false'>post-{number}</guid><title>{self.title(number)}</title>"
            f"<link>http://posts.test/{number}</link><description>Number {number}.</description>"
            f"<pubDate>{formatdate(at, usegmt=True)}</pubDate></item>"
            for number, at in reversed(self.posts[-290:])
        )
        return f"<rss version='2.0'><channel><title>{self.path}</title>{items}</channel></rss>".encode()


@dataclass
class Storm:
    """The state of one storm; see the module."""

    server: Node
    folder: Path
    it: World
    site: Publisher
    chance: random.Random
    blogs: list[Blog] = field(default_factory=list)
    places: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    # Each with its log file.
    workers: dict[Process, Path] = field(default_factory=dict)
    started: int = 0
    marked: dict[str, bool] = field(default_factory=dict)
    # By id, the numbers of the posts that Bob has removed, and of those without a reply to the removal.
    removed: dict[str, int] = field(default_factory=dict)
    leaving: dict[str, int] = field(default_factory=dict)
    posts: int = 0
    reading: bool = False
    kills: Counter[str] = field(default_factory=Counter)
    token: str = ""
    edits: int = 0
    frozen: int = 0
    rebuilds: int = 0
    repacked: int = 0
    poisoned: int = 0
    # The post that the hub delivers until it is acknowledged, and its callback.
    undelivered: tuple[int, bytes] | None = None
    callback: Callback | None = None
    callback_path: str = ""
    delivered: int = 0
    # The last delivery of our own hub to the subscriber of Alice's channel.
    sent_on: bytes = b""
    # The number of the post that the source sends until it is acknowledged.
    unsent: int | None = None
    source_token: str = ""
    sent: int = 0
    # The start of a process takes one permit, a restart of Redis all of them: a start needs Redis.
    starting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_STARTS))

    @property
    def redis_url(self) -> str:
        return f"redis://127.0.0.1:{self.server.port}"

    async def prepare(self) -> None:
        """Readers follow the blogs: all of them in one channel, half of them in two, a third in one, and one channel is
        rebuilt. One more blog is pushed by a hub, and another one is sent by a source.
        """
        for number in range(FEEDS):
            blog = Blog(f"/blog{number}")
            self.blogs.append(blog)
            self._publish(blog)
        for user, uid, numbers in (
            ("alice", "even", range(0, FEEDS, 2)),
            ("alice", "odd", range(1, FEEDS, 2)),
            ("bob", "all", range(FEEDS)),
            ("carol", "some", range(0, FEEDS, 3)),
            (*REBUILT, range(0, FEEDS, 2)),
        ):
            self.places[user, uid] = set(numbers)
            for number in numbers:
                await self.it.follow(self._url(number), user, uid)
        blog = Blog("/pushed")
        self.blogs.append(blog)
        self._publish(blog)
        self.places["alice", "pushed"] = {PUSHED}
        feed = await self.it.follow(self._url(PUSHED), "alice", "pushed")
        await self._subscribe()
        now = self.it.clock()
        asked = new_callback(WantedSubscription("http://hub.test/", self._url(PUSHED)), now)
        self.callback = replace(asked, verified=now, until=now + 86_400)
        await self.it.subscription_store.write(
            feed.id, {"to": str(asked.subscription), **callback_fields(self.callback)}, {}
        )
        self.callback_path = f"/websub/{address(feed.id, asked.token)}"
        self.blogs.append(Blog("/sent"))
        self.places["alice", "sent"] = {SENT}
        await self.it.channels.create("alice", "Sent", now, "sent")
        source = await self.it.sources.create("alice", "sent", "A script", now)
        self.source_token = await self.it.sources.renew_token("alice", source.id, now)
        self.token = await self.it.accounts.create_token("bob", ["read", "channels"], "storm", self.it.clock())

    async def rage(self, kills: int, pace: float) -> None:
        """Publish about every `pace` seconds, mark and kill, until so many processes have died, all poison is sent, and
        Redis has had its last restart.
        """
        installed = Installation(self.folder, {"MICROSUB_REDIS_URL": self.redis_url})
        installed.write({"users": {}})
        marking = asyncio.create_task(self._marking(installed))
        tasks = [marking]
        try:
            await wait_until(lambda: self.reading or marking.done(), timeout=_STARTED)
            parts = [
                self._publishing(pace, min(MOST_POSTS - 300, kills * POSTS_PER_KILL)),
                self._making_due(),
                self._poisoning(kills),
                self._rebuilding(),
                self._repacking(),
                self._restarting(kills),
                *(self._killing(number) for number in range(WORKERS)),
            ]
            tasks += [asyncio.create_task(part) for part in parts]
            tasks.append(asyncio.create_task(wait_until(lambda: self._has_raged(kills), timeout=3600)))
            await asyncio.wait(tasks, return_when="FIRST_COMPLETED")
            failed = [task.exception() for task in tasks if task.done()]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await installed.stop()
            for process in self.workers:
                _signal(process, signal.SIGKILL)
                await process.wait()
        assert not any(failed), failed

    async def calm(self) -> None:
        """Let one worker finish without kills, until all publications have arrived or the time is up."""
        worker = await self._start(0)

        async def settled() -> bool:
            await self._all_due()
            waiting = await backlogs(self.it.redis, STAGES)
            if any(one.messages for one in waiting.values()):
                return False
            return not await missing(self) and not await outdated(self)

        try:
            with contextlib.suppress(AssertionError):  # the verdict says which posts are missing
                await wait_until(settled, timeout=CALM_SECONDS)
        finally:
            _signal(worker, signal.SIGTERM)
            await worker.wait()

    async def rebuild(self) -> None:
        """Deliver everything to everybody again: removed posts stay removed, and existing posts aren't duplicated."""
        for user in dict.fromkeys(user for user, _ in self.places):
            await self._rebuild(user, None)

    async def sweep(self) -> None:
        """Let the sweep remove leftovers of dead workers: items that another worker had already stored."""
        sweeping = Sweeping(self.it.redis, self.it.accounts, self.it.feeds, self.it.outputs)
        for hours in (0, 2):
            await sweeping.run(self.it.clock() + hours * 3600)

    # --- events of the storm -----------------------------------------------------------------------------------------

    def _url(self, number: int) -> str:
        return self.site.url(self.blogs[number].path, f"blog{number}.test")

    def _publish(self, blog: Blog) -> None:
        self.posts += 1
        blog.posts.append((self.posts, self.it.clock() - self.chance.random()))
        self.site.serve_document(blog.path, blog.document())

    def _edit(self, blog: Blog) -> None:
        """Change one of the newest titles; there are two titles, so half of the edits undo one."""
        number, _ = self.chance.choice(blog.posts[-10:])
        blog.takes[number] = 3 - blog.takes.get(number, 1)
        self.edits += 1
        self.site.serve_document(blog.path, blog.document())

    async def _publishing(self, pace: float, most: int) -> None:
        while True:
            blog = self.chance.choice(self.blogs[:FEEDS])
            if self.chance.random() < EDITS:
                self._edit(blog)
            elif self.posts < most:
                self._publish(blog)
            await asyncio.sleep(self.chance.random() * 2 * pace)

    async def _all_due(self) -> None:
        with contextlib.suppress(StoreError):  # Redis is away
            feeds = await self.it.feeds.get_many(await self.it.feeds.all_ids())
            await self.it.schedule.bump([(one.id, host_of(one.url)) for one in feeds.values()], self.it.clock())

    async def _making_due(self) -> None:
        while True:
            await self._all_due()
            await asyncio.sleep(0.5)

    def _has_raged(self, kills: int) -> bool:
        is_through = (
            self.kills["Redis"] >= RESTARTS and self.poisoned >= POISON and self.rebuilds > 0 and self.repacked > 0
        )
        has_come = self.delivered >= DELIVERIES and self.sent >= SENDINGS and len(self.marked) >= MARKS
        return is_through and has_come and self.kills.total() >= kills

    async def _poisoning(self, kills: int) -> None:
        for number in range(POISON):
            await wait_until(lambda n=number: self.kills.total() > n * kills / POISON, timeout=3600)
            stream = Stream(self.it.redis, STAGES[number % 2])
            async with self.starting:
                await stream.add([{"poison": str(number).encode()}])
            self.poisoned += 1
        await asyncio.Event().wait()

    async def _restarting(self, kills: int) -> None:
        for number in range(RESTARTS):
            await wait_until(lambda n=number: self.kills.total() > (n + 0.5) * kills / RESTARTS, timeout=3600)
            async with contextlib.AsyncExitStack() as stack:
                for _ in range(_STARTS):
                    await stack.enter_async_context(self.starting)
                await _to_its_end(self._restart)
            self.kills["Redis"] += 1
        await asyncio.Event().wait()

    async def _restart(self) -> None:
        await asyncio.to_thread(self.server.stop, signal.SIGKILL)
        await asyncio.to_thread(self.server.start)
        await wait_until(self._is_up, timeout=_STARTED)

    async def _rebuilding(self) -> None:
        """Rebuild one timeline again and again, whatever dies."""
        while True:
            with contextlib.suppress(StoreError):  # Redis is away
                await self._rebuild(*REBUILT)
                self.rebuilds += 1
            await asyncio.sleep(0.5)

    async def _repacking(self) -> None:
        """Make some posts plain and pack them again, over and over, whatever dies."""
        redis = self.it.redis
        while True:
            with contextlib.suppress(StoreError):  # Redis is away
                known = range(1, await newest_id(redis) + 1)
                ids = list(map(str, random.sample(known, min(len(known), 50))))
                stored = await redis.pipeline([("HGET", keys.item(one), "Data") for one in ids])
                packed = {one: data for one, data in zip(ids, stored, strict=True) if data is not None}
                plain = [
                    (load("item_pack"), [keys.item(one)], [data, unpacked(data, one)]) for one, data in packed.items()
                ]
                await redis.scripts(plain)
                await redis.pipeline([("SET", keys.packing(), 1), ("DEL", keys.lease("packing"))])
                self.repacked += (await Repacking(redis).run()).posts
            await asyncio.sleep(0.3)

    async def _is_up(self) -> bool:
        with contextlib.suppress(StoreError):
            return bool(await self.it.redis.command("PING"))
        return False

    async def _killing(self, number: int) -> None:
        while True:
            # Most workers kill themselves between two commands, some are killed from outside, early or late.
            begun = time.monotonic()
            process = await self._start(self.chance.choice([0, self.chance.randrange(3, 1000)]))
            life = LIFE * max(1.0, time.monotonic() - begun)
            if self.chance.random() < 0.2:
                await self._freeze(process)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(life * self.chance.random()):
                    await process.wait()
            self.kills["from outside" if _signal(process, signal.SIGKILL) else "between commands"] += 1
            await process.wait()
            said = self.workers[process].read_text()[-2000:]
            assert process.returncode == -signal.SIGKILL, f"worker {number}: {process.returncode}\n{said}"

    async def _freeze(self, process: Process) -> None:
        """Stop the process in the middle of its work, and continue it when another one has taken over this work."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.chance.random()):
                await process.wait()
        if _signal(process, signal.SIGSTOP):
            await asyncio.sleep(FROZEN_SECONDS)
            self.frozen += _signal(process, signal.SIGCONT)

    async def _start(self, trips: int) -> Process:
        async with self.starting:
            return await self._started(trips)

    async def _started(self, trips: int) -> Process:
        self.started += 1
        log = self.folder / f"worker{self.started}.log"
        process = start_worker(log, self.redis_url, str(trips))
        self.workers[process] = log
        # Loading takes a while; a worker should be killed, not a process that starts.
        await wait_until(
            lambda: b"worker started" in log.read_bytes() or process.returncode is not None, timeout=_STARTED
        )
        return process

    async def _marking(self, installed: Installation) -> None:
        """Bob reads through a web process that is killed as well; only replies with 200 count."""
        while True:
            async with self.starting:
                url = await self._serve(installed)
            until = asyncio.get_running_loop().time() + 2 + 4 * self.chance.random()
            async with httpx.AsyncClient(timeout=5, headers={"Authorization": f"Bearer {self.token}"}) as http:
                killing = asyncio.create_task(self._kill_at(installed.processes[-1], until))
                try:
                    with contextlib.suppress(httpx.HTTPError):
                        while not killing.done():
                            await self._mark_some(http, f"{url}/microsub")
                            await self._deliver(http, url)
                            await self._send(http, url)
                            self.reading = True
                    await killing
                finally:
                    killing.cancel()

    async def _serve(self, installed: Installation) -> str:
        process = await installed.start("web")
        out = self.folder / f"{len(installed.processes) - 1}.out"

        def address() -> re.Match[str] | None:
            assert process.returncode is None, installed.log[-2000:]
            return re.search(r"server on (\S+)", out.read_text())

        found: re.Match[str] = await wait_until(address, timeout=_STARTED)
        return found[1]

    async def _kill_at(self, process: Process, until: float) -> None:
        await asyncio.sleep(until - asyncio.get_running_loop().time())
        assert _signal(process, signal.SIGKILL), f"the web process ended by itself: {process.returncode}"
        self.kills["web"] += 1
        await process.wait()

    async def _mark_some(self, http: httpx.AsyncClient, endpoint: str) -> None:
        answer = await http.get(endpoint, params={"action": "timeline", "channel": "all", "limit": "100"})
        if answer.status_code != 200:
            await asyncio.sleep(0.05)  # Redis is away
            return
        page = answer.json()
        items = [item["_id"] for item in page["items"]]
        chosen = self.chance.sample(items, min(5, len(items)))
        method = self.chance.choice(["mark_read", "mark_read", "mark_unread"])
        if chosen:
            for item in chosen:
                self.marked.pop(item, None)  # a mark without acknowledgement may hold or not
            data = {"action": "timeline", "method": method, "channel": "all", "entry[]": chosen}
            reply = await http.post(endpoint, data=data)
            if reply.status_code == 200:
                self.marked |= dict.fromkeys(chosen, method == "mark_read")
        if len(items) == 100 and self.chance.random() < REMOVALS:
            await self._remove(http, endpoint, self.chance.choice(page["items"]))
        await asyncio.sleep(0.02)

    async def _subscribe(self) -> None:
        """Subscribe somebody to Alice's channel at our own hub."""

        def take(asked: Asked) -> Answer:
            self.sent_on = asked.body
            return Answer(status=204)

        callback = self.site.serve("/subscriber", take)
        topic = await ChannelTopics(self.it.redis, BASE).address("alice", "pushed")
        assert topic is not None
        held = HubSubscription(callback, topic, self.it.clock() + DAY, sent="")
        known = KnownSubscription("user alice", subscription_id(topic, callback), None, None, ("", ""))
        assert await HubStore(self.it.redis).write(known, held, None, self.it.clock())

    async def _deliver(self, http: httpx.AsyncClient, url: str) -> None:
        """Deliver a post from the hub, repeatedly until it is acknowledged; then the next one."""
        assert self.callback is not None
        if self.undelivered is None:
            if self.posts >= MOST_POSTS or self.chance.random() > DELIVERED:
                return
            self.posts += 1
            alone = Blog("/pushed", [(self.posts, self.it.clock())])
            self.undelivered = self.posts, alone.document()
        number, body = self.undelivered
        digest = hmac.new(self.callback.secret.encode(), body, hashlib.sha256).hexdigest()
        reply = await http.post(
            url + self.callback_path, content=body, headers={"X-Hub-Signature": f"sha256={digest}", "Authorization": ""}
        )
        if reply.status_code == 202:
            self.blogs[PUSHED].posts.append((number, 0.0))
            self.undelivered = None
            self.delivered += 1

    async def _send(self, http: httpx.AsyncClient, url: str) -> None:
        """Send a post from the source, repeatedly until it is acknowledged; then the next one."""
        if self.unsent is None:
            if self.posts >= MOST_POSTS or self.chance.random() > DELIVERED:
                return
            self.posts += 1
            self.unsent = self.posts
        number = self.unsent
        fields = {"name": self.blogs[SENT].title(number), "url": f"http://posts.test/{number}"}
        headers = {"Authorization": f"Bearer {self.source_token}"}
        if (await http.post(f"{url}/micropub", data=fields, headers=headers)).status_code == 201:
            self.blogs[SENT].posts.append((number, 0.0))
            self.unsent = None
            self.sent += 1

    async def _remove(self, http: httpx.AsyncClient, endpoint: str, item: dict[str, str]) -> None:
        item_id, number = item["_id"], int(item["url"].rpartition("/")[2])
        self.marked.pop(item_id, None)
        self.leaving[item_id] = number
        data = {"action": "timeline", "method": "remove", "channel": "all", "entry": item_id}
        if (await http.post(endpoint, data=data)).status_code == 200:
            self.removed[item_id] = number

    async def _rebuild(self, user: str, uid: str | None) -> None:
        await rebuilding(self.it).rebuild(user, uid, self.it.clock())


def start_worker(log: Path, *arguments: str) -> Process:
    """Start a `worker_process` that logs into this file."""
    with log.open("wb") as out:
        return fork_server().start("tests.chaos.worker_process", arguments, os.environ, out, out)


def _signal(process: Process, number: int) -> bool:
    """Send a signal; False if the process has ended, which may happen at any moment."""
    if process.returncode is not None:
        return False
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
        return True
    return False


async def _to_its_end(act: Callable[[], Awaitable[None]]) -> None:
    """Do something that must not be interrupted: a cancellation takes effect when it is done."""
    task = asyncio.ensure_future(act())
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


@contextlib.asynccontextmanager
async def storm(server: Node, folder: Path, seed: int) -> AsyncIterator[Storm]:
    """A prepared storm that hasn't begun, on its own Redis."""
    redis = await connect(f"redis://127.0.0.1:{server.port}")
    try:
        async with publisher() as site, world(redis) as it:
            made = Storm(server, folder, it, site, random.Random(seed))
            await made.prepare()
            yield made
    finally:
        await redis.aclose()
