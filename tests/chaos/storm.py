"""A storm: publishers publish, edit and take edits back, readers mark, and the processes in between are killed at
random, or frozen until others have taken over their work; Redis dies too, and comes back with its append-only file.
Then it is calm.

`Storm.rage` runs it for some seconds; `Storm.verdict` lists everything that is wrong afterwards. The same seed makes
the same publications and marks; where the kills fall is up to the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

import httpx
import orjson

from microsub.errors import StoreError
from microsub.formats.identity import host_of
from microsub.services.rebuilding import Rebuilding
from microsub.services.sweeping import Sweeping
from microsub.store import keys
from microsub.store.connect import connect
from microsub.store.deadletters import DeadLetters
from microsub.store.streams import Stream, backlogs
from tests.support.cluster import Node
from tests.support.polling import World, world
from tests.support.process import Installation
from tests.support.waiting import wait_until
from tests.support.web import Publisher, publisher

WORKERS = 2
FEEDS = 10
MOST_POSTS = 1800
"""In all: fewer than a timeline holds, so that none is evicted."""

CALM_SECONDS = 90.0
MARKS = 20
"""Acknowledged marks that a storm has at least."""

POISON = 4
RESTARTS = 3
"""How often Redis dies in a storm."""

REMOVALS = 0.1
"""How often a reader who marks removes a post as well."""

EDITS = 0.4
"""Share of publications that only change the title of a post, or give it back one that it had."""

FROZEN_SECONDS = 2.5
"""How long a worker stands still: longer than the patience of the others."""


_STARTS = 4


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
    workers: list[asyncio.subprocess.Process] = field(default_factory=list)
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
    # Who starts a process takes one place of these, and who restarts Redis all of them: a start needs a Redis.
    starting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_STARTS))

    @property
    def redis_url(self) -> str:
        return f"redis://127.0.0.1:{self.server.port}"

    async def prepare(self) -> None:
        """Three readers follow the blogs: all of them in one channel, half of them in two, a third."""
        for number in range(FEEDS):
            blog = Blog(f"/blog{number}")
            self.blogs.append(blog)
            self._publish(blog)
        for user, uid, numbers in (
            ("alice", "even", range(0, FEEDS, 2)),
            ("alice", "odd", range(1, FEEDS, 2)),
            ("bob", "all", range(FEEDS)),
            ("carol", "some", range(0, FEEDS, 3)),
        ):
            self.places[user, uid] = set(numbers)
            for number in numbers:
                await self.it.follow(self._url(number), user, uid)
        self.token = await self.it.accounts.create_token("bob", ["read", "channels"], "storm", self.it.clock())

    async def rage(self, kills: int, pace: float) -> None:
        """Publish, every `pace` seconds or so, and mark, and kill until that many processes have died."""
        installed = Installation(self.folder, {"MICROSUB_REDIS_URL": self.redis_url})
        installed.write({"users": {}})
        marking = asyncio.create_task(self._marking(installed))
        await wait_until(lambda: self.reading or marking.done())
        parts = [
            self._publishing(pace),
            self._making_due(),
            self._poisoning(kills),
            self._restarting(kills),
            *(self._killing(number) for number in range(WORKERS)),
        ]
        tasks = [marking, *(asyncio.create_task(part) for part in parts)]
        tasks.append(asyncio.create_task(wait_until(lambda: self._has_raged(kills), timeout=3600)))
        await asyncio.wait(tasks, return_when="FIRST_COMPLETED")
        failed = [task.exception() for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await installed.stop()
        for process in self.workers:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        assert not any(failed), failed

    async def calm(self) -> None:
        """Let one worker that nobody kills finish, until everything published has arrived or time is up."""
        await self._rebuild()
        worker = await self._start(0)

        async def settled() -> bool:
            await self._all_due()
            waiting = await backlogs(self.it.redis, keys.STREAMS[:3])
            if any(one.messages for one in waiting.values()):
                return False
            return not await self._missing() and not await self._outdated()

        try:
            with contextlib.suppress(AssertionError):  # the verdict says what is missing
                await wait_until(settled, timeout=CALM_SECONDS)
        finally:
            worker.send_signal(signal.SIGTERM)
            await worker.wait()

    async def sweep(self) -> None:
        """Let those who come later clear away what the dead have left: items that another worker had stored before."""
        sweeping = Sweeping(self.it.redis, self.it.accounts, self.it.feeds)
        for hours in (0, 2):
            await sweeping.run(self.it.clock() + hours * 3600)

    async def verdict(self) -> list[str]:
        """All that is wrong, in sentences; empty when all is well."""
        wrong = [*await self._missing(), *await self._outdated(), *await self._doubles()]
        wrong += await self._forgotten_marks()
        back = self.removed.keys() & {row.id for row in await self.it.rows("bob", "all", 5000)}
        wrong += [f"post {self.removed[item]} was removed, and is back" for item in sorted(back)]
        letters = await self._letters()
        wrong += [
            f"a dead letter that is no poison: {letter}" for letter in letters if not letter.startswith("poison ")
        ]
        wrong += [f"poison that is no dead letter: {n}" for n in range(POISON) if f"poison {n}" not in letters]
        return wrong

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
            blog = self.chance.choice(self.blogs)
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
        return self.kills.total() >= kills and len(self.marked) >= MARKS

    async def _poisoning(self, kills: int) -> None:
        for number in range(POISON):
            await wait_until(lambda n=number: self.kills.total() > n * kills / POISON, timeout=3600)
            stream = Stream(self.it.redis, keys.STREAMS[number % 3])
            async with self.starting:
                await stream.add([{"poison": str(number).encode()}])
        await asyncio.Event().wait()

    async def _restarting(self, kills: int) -> None:
        for number in range(RESTARTS):
            await wait_until(lambda n=number: self.kills.total() > (n + 0.5) * kills / RESTARTS, timeout=3600)
            async with contextlib.AsyncExitStack() as stack:
                for _ in range(_STARTS):
                    await stack.enter_async_context(self.starting)
                await asyncio.to_thread(self.server.stop, signal.SIGKILL)
                await asyncio.to_thread(self.server.start)
                await wait_until(self._is_up)
            self.kills["Redis"] += 1
        await asyncio.Event().wait()

    async def _is_up(self) -> bool:
        with contextlib.suppress(StoreError):
            return bool(await self.it.redis.command("PING"))
        return False

    async def _killing(self, number: int) -> None:
        while True:
            # Most die between two commands of their own, some from outside, early or late.
            process = await self._start(self.chance.choice([0, self.chance.randrange(3, 1000)]))
            if self.chance.random() < 0.2:
                await self._freeze(process)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(3 * self.chance.random()):
                    await process.wait()
            if process.returncode is None:
                process.kill()
            self.kills["from outside" if process.returncode is None else "between commands"] += 1
            await process.wait()
            # 255 is what asyncio makes of a child that was reaped before its watcher looked.
            assert process.returncode in {-signal.SIGKILL, 255}, f"worker {number} ended: {process.returncode}"

    async def _freeze(self, process: asyncio.subprocess.Process) -> None:
        """Stop the process in the middle of its work, and let it go on when that has been taken over by another."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.chance.random()):
                await process.wait()
        if process.returncode is None:
            process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(FROZEN_SECONDS)
            process.send_signal(signal.SIGCONT)
            self.frozen += 1

    async def _start(self, trips: int) -> asyncio.subprocess.Process:
        async with self.starting:
            return await self._started(trips)

    async def _started(self, trips: int) -> asyncio.subprocess.Process:
        path = self.folder / f"worker{len(self.workers)}.log"
        with path.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.chaos.worker_process", self.redis_url, str(trips)),
                stdout=log,
                stderr=log,
                env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
            )
        self.workers.append(process)
        # Python takes a while; what is to be killed is a worker.
        await wait_until(lambda: b"worker started" in path.read_bytes() or process.returncode is not None)
        return process

    async def _marking(self, installed: Installation) -> None:
        """Bob reads through a web process that is killed as well; only what was answered with 200 counts."""
        while True:
            async with self.starting:
                url = await self._serve(installed)
            until = asyncio.get_running_loop().time() + 2 + 4 * self.chance.random()
            async with httpx.AsyncClient(timeout=5, headers={"Authorization": f"Bearer {self.token}"}) as http:
                killing = asyncio.create_task(self._kill_at(installed.processes[-1], until))
                with contextlib.suppress(httpx.HTTPError):
                    while not killing.done():
                        await self._mark_some(http, f"{url}/microsub")
                        self.reading = True
                await killing

    async def _serve(self, installed: Installation) -> str:
        process = await installed.start("web")
        out = self.folder / f"{len(installed.processes) - 1}.out"

        def address() -> re.Match[str] | None:
            assert process.returncode is None, installed.log[-2000:]
            return re.search(r"server on (\S+)", out.read_text())

        found: re.Match[str] = await wait_until(address)
        return found[1]

    async def _kill_at(self, process: asyncio.subprocess.Process, until: float) -> None:
        await asyncio.sleep(until - asyncio.get_running_loop().time())
        process.kill()
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

    async def _remove(self, http: httpx.AsyncClient, endpoint: str, item: dict[str, str]) -> None:
        item_id, number = item["_id"], int(item["url"].rpartition("/")[2])
        self.marked.pop(item_id, None)
        self.leaving[item_id] = number
        data = {"action": "timeline", "method": "remove", "channel": "all", "entry": item_id}
        if (await http.post(endpoint, data=data)).status_code == 200:
            self.removed[item_id] = number

    async def _rebuild(self) -> None:
        """Send everything once more: what is gone stays so."""
        stored = Stream(self.it.redis, "stored")
        rebuilding = Rebuilding(self.it.channels, self.it.timelines, self.it.items, stored)
        for user in dict.fromkeys(user for user, _ in self.places):
            await rebuilding.rebuild(user, None, self.it.clock())

    # --- what must be true -------------------------------------------------------------------------------------------

    async def _found(self, user: str, uid: str) -> list[tuple[int, str]]:
        """The numbers and titles of the posts in a timeline, newest first, doubles included; 0 for one without item."""
        data = await self.it.items.data([row.id for row in await self.it.rows(user, uid, 5000)])
        posts = [orjson.loads(one) if one else {"url": "0", "name": ""} for one in data]
        return [(int(post["url"].rpartition("/")[2]), post["name"]) for post in posts]

    async def _outdated(self) -> list[str]:
        wrong = []
        for (user, uid), numbers in self.places.items():
            titles = {
                number: blog.title(number) for blog in map(self.blogs.__getitem__, numbers) for number, _ in blog.posts
            }
            wrong += [
                f"post {number} is called '{title}' in {user}/{uid}, and not '{titles[number]}'"
                for number, title in await self._found(user, uid)
                if titles.get(number, title) != title
            ]
        return wrong

    async def _missing(self) -> list[str]:
        wrong = []
        for (user, uid), numbers in self.places.items():
            wanted = {number for blog in numbers for number, _ in self.blogs[blog].posts}
            if user == "bob":
                wanted -= set(self.leaving.values())
            missing = wanted - {number for number, _ in await self._found(user, uid)}
            wrong += [f"post {number} is missing in {user}/{uid}" for number in sorted(missing)]
        return wrong

    async def _doubles(self) -> list[str]:
        wrong = []
        for (user, uid), numbers in self.places.items():
            wanted = {number for blog in numbers for number, _ in self.blogs[blog].posts}
            counts = Counter(number for number, _ in await self._found(user, uid))
            wrong += [
                f"post {number} is {count} times in {user}/{uid}" for number, count in counts.items() if count > 1
            ]
            wrong += [f"post {number} is a stranger in {user}/{uid}" for number in counts.keys() - wanted]
        return wrong

    async def _forgotten_marks(self) -> list[str]:
        state = {row.id: row.is_read for row in await self.it.rows("bob", "all", 5000)}
        return [
            f"item {item} was marked {'read' if is_read else 'unread'}, and is not"
            for item, is_read in self.marked.items()
            if state.get(item) != is_read
        ]

    async def _letters(self) -> list[str]:
        """Each letter as what it is."""
        found = []
        for letter in await DeadLetters(self.it.redis).list(1000):
            text = letter.fields.get("poison")
            found.append(f"poison {text.decode()}" if text else f"{letter.stage}: {letter.why}")
        return found


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
