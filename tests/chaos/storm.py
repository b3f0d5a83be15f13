"""A storm: publishers publish, edit and take edits back, readers mark, and the processes in between are killed at
random, or frozen until others have taken over their work; Redis dies too, and comes back with its append-only file.
Then it is calm.

`Storm.rage` runs it for some seconds; `tests.chaos.verdict` lists everything that is wrong afterwards. The same seed
makes the same publications and marks; where the kills fall is up to the machine.

A rebuild brings everything that is stored, and so would hide what delivery has lost. Therefore nobody's timelines are
rebuilt before the first verdict but one: that of Dave, who asks for it all the time. What it proves is that rebuilds
harm nothing; that delivery loses nothing is for the others to prove.
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

from microsub.delivery.stage import STAGES
from microsub.errors import StoreError
from microsub.kit.urls import host_of
from microsub.push.agreement import Callback, Wish, address, new_callback
from microsub.push.hub.store import HubStore, KnownSubscription
from microsub.push.hub.subscriptions import DAY, HubSubscription, subscription_id
from microsub.push.hub.topics import ChannelTopics
from microsub.push.store import callback_fields
from microsub.redis.connect import connect
from microsub.redis.streams import Stream, backlogs
from microsub.upkeep.sweep import Sweeping
from microsub.wiring.worker import rebuilding
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
"""The number of the blog whose posts come from a hub alone: its document for polls stays as it was."""
SENT = PUSHED + 1
"""The number of the blog whose posts a source sends; its document is read by nobody."""
MOST_POSTS = 1800
"""In all: fewer than a timeline holds, so that none is evicted."""

CALM_SECONDS = 150.0
"""After which what hasn't arrived is missing. What arrives takes a few seconds, more on a busy machine."""

MARKS = 20
"""Acknowledged marks that a storm has at least."""

DELIVERIES = 20
"""Acknowledged deliveries of a hub that a storm has at least."""

SENDINGS = 20
"""Acknowledged posts of a source that a storm has at least."""

DELIVERED = 0.3
"""How often a hub has something new, and a source, whenever Bob has marked."""

RESTARTS = 3
"""How often Redis dies in a storm."""

REMOVALS = 0.1
"""How often a reader who marks removes a post as well."""

EDITS = 0.4
"""Share of publications that only change the title of a post, or give it back one that it had."""

REBUILT = ("dave", "late")
"""The user and channel whose timeline is rebuilt all the time."""

LIFE = 3.0
"""The longest life of a worker that is killed, in seconds, or in times of what its start took, where that is longer.

On a busy machine nobody would live to see a document parsed otherwise, and what many have died with is a dead letter.
"""

FROZEN_SECONDS = 2.5
"""How long a worker stands still: longer than the patience of the others."""


_STARTS = 4

_STARTED = 180.0
"""Seconds after which a process that is to start is taken not to: on a busy machine it takes many.
"""


@dataclass
class Blog:
    """A feed that grows. Each post has a number of its own in the whole storm."""

    path: str
    posts: list[tuple[int, float]] = field(default_factory=list)
    takes: dict[int, int] = field(default_factory=dict)

    def title(self, number: int) -> str:
        """What the post is called by now."""
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
    # Each with the file of its log.
    workers: dict[Process, Path] = field(default_factory=dict)
    started: int = 0
    marked: dict[str, bool] = field(default_factory=dict)
    # By id, the numbers of what Bob has removed, and of what he may have: the answer didn't arrive.
    removed: dict[str, int] = field(default_factory=dict)
    leaving: dict[str, int] = field(default_factory=dict)
    posts: int = 0
    reading: bool = False
    kills: Counter[str] = field(default_factory=Counter)
    token: str = ""
    edits: int = 0
    frozen: int = 0
    rebuilds: int = 0
    poisoned: int = 0
    # What the hub has to deliver until it is acknowledged, and where.
    undelivered: tuple[int, bytes] | None = None
    callback: Callback | None = None
    callback_path: str = ""
    delivered: int = 0
    # What our own hub has sent last to the subscriber of Alice's channel.
    sent_on: bytes = b""
    # The number of what the source sends until it is acknowledged.
    unsent: int | None = None
    source_token: str = ""
    sent: int = 0
    # Who starts a process takes one place of these, and who restarts Redis all of them: a start needs a Redis.
    starting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_STARTS))

    @property
    def redis_url(self) -> str:
        return f"redis://127.0.0.1:{self.server.port}"

    async def prepare(self) -> None:
        """Readers follow the blogs: all of them in one channel, half of them in two, a third; and one is rebuilt. One
        more blog comes by a hub, and one is sent by a source.
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
        asked = new_callback(Wish("http://hub.test/", self._url(PUSHED)), now)
        self.callback = replace(asked, verified=now, until=now + 86_400)
        await self.it.agreements.write(feed.id, {"to": str(asked.wish), **callback_fields(self.callback)}, {})
        self.callback_path = f"/websub/{address(feed.id, asked.token)}"
        self.blogs.append(Blog("/sent"))
        self.places["alice", "sent"] = {SENT}
        await self.it.channels.create("alice", "Sent", now, "sent")
        source = await self.it.sources.create("alice", "sent", "A script", now)
        self.source_token = await self.it.sources.renew_token("alice", source.id, now)
        self.token = await self.it.accounts.create_token("bob", ["read", "channels"], "storm", self.it.clock())

    async def rage(self, kills: int, pace: float) -> None:
        """Publish, every `pace` seconds or so, and mark, and kill until that many processes have died, all poison is
        out, and Redis is back from its last restart.
        """
        installed = Installation(self.folder, {"MICROSUB_REDIS_URL": self.redis_url})
        installed.write({"users": {}})
        marking = asyncio.create_task(self._marking(installed))
        tasks = [marking]
        try:
            await wait_until(lambda: self.reading or marking.done(), timeout=_STARTED)
            parts = [
                self._publishing(pace),
                self._making_due(),
                self._poisoning(kills),
                self._rebuilding(),
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
        """Let one worker that nobody kills finish, until everything published has arrived or time is up."""
        worker = await self._start(0)

        async def settled() -> bool:
            await self._all_due()
            waiting = await backlogs(self.it.redis, STAGES)
            if any(one.messages for one in waiting.values()):
                return False
            return not await missing(self) and not await outdated(self)

        try:
            with contextlib.suppress(AssertionError):  # the verdict says what is missing
                await wait_until(settled, timeout=CALM_SECONDS)
        finally:
            _signal(worker, signal.SIGTERM)
            await worker.wait()

    async def rebuild(self) -> None:
        """Send everything to everybody once more: what is gone stays so, and what is there is there once."""
        for user in dict.fromkeys(user for user, _ in self.places):
            await self._rebuild(user, None)

    async def sweep(self) -> None:
        """Let those who come later clear away what the dead have left: items that another worker had stored before."""
        sweeping = Sweeping(self.it.redis, self.it.accounts, self.it.feeds)
        for hours in (0, 2):
            await sweeping.run(self.it.clock() + hours * 3600)

    # --- what goes on ------------------------------------------------------------------------------------------------

    def _url(self, number: int) -> str:
        return self.site.url(self.blogs[number].path, f"blog{number}.test")

    def _publish(self, blog: Blog) -> None:
        self.posts += 1
        blog.posts.append((self.posts, self.it.clock() - self.chance.random()))
        self.site.serve_document(blog.path, blog.document())

    def _edit(self, blog: Blog) -> None:
        """Change one of the newest titles; there are two, so that half of the edits take one back."""
        number, _ = self.chance.choice(blog.posts[-10:])
        blog.takes[number] = 3 - blog.takes.get(number, 1)
        self.edits += 1
        self.site.serve_document(blog.path, blog.document())

    async def _publishing(self, pace: float) -> None:
        while True:
            blog = self.chance.choice(self.blogs[:FEEDS])
            if self.chance.random() < EDITS:
                self._edit(blog)
            elif self.posts < MOST_POSTS:
                self._publish(blog)
            await asyncio.sleep(self.chance.random() * 2 * pace)

    async def _all_due(self) -> None:
        with contextlib.suppress(StoreError):  # Redis is away
            feeds = await self.it.feeds.get_many(await self.it.feeds.all_ids())
            await self.it.schedule.bump([(one.id, host_of(one.url)) for one in feeds.values()], self.it.clock())

    async def _making_due(self) -> None:
        while True:
            await self._all_due()
            await asyncio.sleep(0.2)

    def _has_raged(self, kills: int) -> bool:
        is_through = self.kills["Redis"] >= RESTARTS and self.poisoned >= POISON and self.rebuilds > 0
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
        """One reader wants everything again and again, whatever dies."""
        while True:
            with contextlib.suppress(StoreError):  # Redis is away
                await self._rebuild(*REBUILT)
                self.rebuilds += 1
            await asyncio.sleep(0.5)

    async def _is_up(self) -> bool:
        with contextlib.suppress(StoreError):
            return bool(await self.it.redis.command("PING"))
        return False

    async def _killing(self, number: int) -> None:
        while True:
            # Most die between two commands of their own, some from outside, early or late.
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
        """Stop the process in the middle of its work, and let it go on when that has been taken over by another."""
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
        # To load it takes a while; what is to be killed is a worker.
        await wait_until(
            lambda: b"worker started" in log.read_bytes() or process.returncode is not None, timeout=_STARTED
        )
        return process

    async def _marking(self, installed: Installation) -> None:
        """Bob reads through a web process that is killed as well; only what was answered with 200 counts."""
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
                self.marked.pop(item, None)  # a mark that isn't acknowledged may hold or not
            data = {"action": "timeline", "method": method, "channel": "all", "entry[]": chosen}
            reply = await http.post(endpoint, data=data)
            if reply.status_code == 200:
                self.marked |= dict.fromkeys(chosen, method == "mark_read")
        if len(items) == 100 and self.chance.random() < REMOVALS:
            await self._remove(http, endpoint, self.chance.choice(page["items"]))
        await asyncio.sleep(0.02)

    async def _subscribe(self) -> None:
        """Somebody has subscribed to Alice's channel at our own hub."""

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
        """The hub delivers a post, and goes on with the next one when this one is acknowledged."""
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
        """The source sends a post, and goes on with the next one when this one is acknowledged."""
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
    """A worker as `worker_process` has it, which logs into that file."""
    with log.open("wb") as out:
        return fork_server().start("tests.chaos.worker_process", arguments, os.environ, out, out)


def _signal(process: Process, number: int) -> bool:
    """Send a signal; False for a process that has ended, which may have happened at any moment before."""
    if process.returncode is not None:
        return False
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
        return True
    return False


async def _to_its_end(act: Callable[[], Awaitable[None]]) -> None:
    """Do something that must not be left half done: who is cancelled meanwhile is so when it is done."""
    task = asyncio.ensure_future(act())
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


@contextlib.asynccontextmanager
async def storm(server: Node, folder: Path, seed: int) -> AsyncIterator[Storm]:
    """A storm that is prepared and hasn't begun, on a Redis of its own."""
    redis = await connect(f"redis://127.0.0.1:{server.port}")
    try:
        async with publisher() as site, world(redis) as it:
            made = Storm(server, folder, it, site, random.Random(seed))
            await made.prepare()
            yield made
    finally:
        await redis.aclose()
