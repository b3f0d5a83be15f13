"""Costs of operations on a population in Redis: reading, marking, delivering, upkeep."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.refresh.processes import processor_seconds
from benchmarks.scale.asking import Answers, ask, get, post
from benchmarks.scale.costs import Work
from benchmarks.scale.filling import Population, channel_name, is_read, new_post, post_template, user_name
from benchmarks.scale.meter import Meter, Spent, calls
from benchmarks.world import free_port, running
from microsub import server
from microsub.admin.follow_repair import RepairedFollows
from microsub.base.settings import Settings
from microsub.delivery.reminding import Reminder
from microsub.feeds.events import Events
from microsub.polling.worker import Worker
from microsub.posts.messages import EntriesFound
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.timelines.retention import SOONEST
from microsub.work import SHARDS, Stream

REQUESTS = 2_000
PAGE = 20
_BACKEND = '{"users": {}}\n'


class WrongError(Exception):
    """The measured operation had a wrong result, so the figures are meaningless."""


@dataclass(frozen=True, slots=True)
class ReadersWork:
    """Costs per request of readers. `cold`: the first requests, whose posts weren't cached; `page`: the same again."""

    cold: Work
    misses: float
    page: Work
    channels: Work
    mark: Work
    page_bytes: float
    channels_bytes: float
    mark_bytes: float


@dataclass(frozen=True, slots=True)
class Delivered:
    """A new post of a feed, stored and delivered to all its followers (their average number); wall seconds."""

    followers: float
    work: Work
    seconds: float


@dataclass(frozen=True, slots=True)
class UpkeepWork:
    """The cost of each kind of upkeep, once for all data."""

    repair: Spent
    plan: Spent
    clean: Spent
    sweep: Spent
    remind: Spent
    ids: int
    items: int


async def reading(redis: Redis, url: str, there: Population, folder: Path) -> ReadersWork:
    """Measure readers' requests to one web process."""
    async with _web(url, folder) as (port, pid):
        meter = Meter(redis, pid)
        places = _places(there)
        await ask(port, [get(there.tokens[0], "action=channels")] * 200)  # until everything is loaded and compiled
        await _started(pid)
        pages = [
            get(there.tokens[user], f"action=timeline&channel={channel_name(channel)}&limit={PAGE}")
            for user, channel in places
        ]
        lists = [get(there.tokens[user], "action=channels") for user, _ in places]
        asked = [await calls(redis, "hmget")]
        cold, _ = await _measured(meter, port, pages)
        asked.append(await calls(redis, "hmget"))
        warm, page = await _measured(meter, port, pages * 2)
        asked.append(await calls(redis, "hmget"))
        # A page has some of its own, and one for each post that the process doesn't know.
        misses = (asked[1] - asked[0] - (asked[2] - asked[1]) / 2) / len(pages)
        await ask(port, lists)  # from now on the names of channels are cached
        listed, channels = await _measured(meter, port, lists * 2)
        marks = [_mark(there, user, turn) for user, turn in places]
        before = await _unread(redis, there)
        marked, mark = await _measured(meter, port, marks)
        if before - await _unread(redis, there) != len(marks):
            raise WrongError("not every mark has made one post read")
    return ReadersWork(
        cold=cold,
        misses=misses,
        page=warm,
        channels=listed,
        mark=marked,
        page_bytes=page.bytes / page.count,
        channels_bytes=channels.bytes / channels.count,
        mark_bytes=mark.bytes / mark.count,
    )


@asynccontextmanager
async def _web(url: str, folder: Path) -> AsyncIterator[tuple[int, int]]:
    (folder / "backend.json").write_text(_BACKEND)
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MICROSUB_")}
    environment |= {
        "MICROSUB_REDIS_URL": url,
        "MICROSUB_DATA_DIR": str(folder / "none"),
        "MICROSUB_BACKEND": str(folder / "backend.json"),
        "MICROSUB_HOST": "127.0.0.1",
        "MICROSUB_PORT": str(port),
        "MICROSUB_ITEM_CACHE_MB": "1000",
        "MICROSUB_SEARCH": "0",  # a web process without a worker would build its index during the measurement
    }
    command = [sys.executable, "-m", "microsub", "web"]
    with running(command, f"http://127.0.0.1:{port}/", folder / "web.log", environment) as process:
        yield port, process.pid


async def _started(pid: int) -> None:
    """Wait until a web process has done its work after the start: it counts users and feeds."""
    spent = -1.0
    while spent < (spent := processor_seconds(pid)):
        await asyncio.sleep(0.5)


async def _measured(meter: Meter, port: int, requests: list[bytes]) -> tuple[Work, Answers]:
    found: list[Answers] = []

    async def act() -> None:
        found.append(await ask(port, requests))

    spent = await meter.spent(act)
    return spent.each(len(requests)), found[0]


def _places(there: Population) -> list[tuple[int, int]]:
    """Users and channel numbers in random order, because neighbouring users follow almost the same feeds."""
    users = list(range(there.size.users))
    random.Random(1).shuffle(users)
    return [(user, channel) for channel in range(there.size.channels) for user in users][:REQUESTS]


def _mark(there: Population, user: int, turn: int) -> bytes:
    """The request that marks an unread post of the user's first channel; another post in each turn."""
    unread = [place for place in range(there.size.items) if not is_read(place)]
    item = there.feeds[there.follows[user][0]].ids[unread[turn]]
    form = f"action=timeline&method=mark_read&channel={there.channel_of(0)}&entry={item}"
    return post(there.tokens[user], form)


async def _unread(redis: Redis, there: Population) -> int:
    names = map(user_name, range(there.size.users))
    return sum(await redis.pipeline([("SCARD", keys.unread(name, there.channel_of(0))) for name in names]))


@asynccontextmanager
async def workshop(url: str, folder: Path) -> AsyncIterator[tuple[Settings, server.stores.Stores, Worker]]:
    """A worker in this process, the same as in `microsub work`; it works only on request."""
    (folder / "backend.json").write_text(_BACKEND)
    settings = Settings(redis_url=url, data_dir=folder / "none", backend=folder / "backend.json")
    async with (
        server.stores.open_stores(settings, create=True) as stores,
        server.poller.open_worker(settings, stores) as worker,
    ):
        yield settings, stores, worker


async def delivering(
    stores: server.stores.Stores, worker: Worker, there: Population, first: int, ranks: Sequence[int], posts: int = 1
) -> Delivered:
    """Let these feeds publish `posts` posts in turn; the first turn is a warm-up and isn't counted.

    The numbers of the posts begin at `first` × 1000.
    """
    meter, template = Meter(stores.redis), post_template(there.now)
    ingest = server.stores.ingest(stores)
    taken: list[Spent] = []
    for turn, rank in enumerate(ranks):
        # Newer than all existing posts, but not in the future.
        news = [
            replace(new_post(template, there, rank, first * 1000 + number), score=there.now - 3600 + number)
            for number in range(turn * posts, (turn + 1) * posts)
        ]
        found = EntriesFound(there.feeds[rank].record.id, time.time(), tuple(news))

        async def act(found: EntriesFound = found) -> None:
            await ingest.add_found(found)
            await worker.run_once(among=[])

        before = await _length(stores.redis, rank, there)
        taken.append(await meter.spent(act))
        if await _length(stores.redis, rank, there) != before + posts:
            raise WrongError("a new post hasn't reached the last follower of its feed")
    times = len(ranks) - 1
    total = Spent(*(sum(getattr(one, name) for one in taken[1:]) for name in ("ours", "redis", "seconds")))
    followers = sum(there.counts[rank] for rank in ranks[1:]) / times
    return Delivered(followers, total.each(times), total.seconds / times)


async def _length(redis: Redis, rank: int, there: Population) -> int:
    """The length of the timeline of that feed's last follower."""
    user = next(user for user in reversed(range(there.size.users)) if rank in there.follows[user])
    uid = there.channel_of(there.follows[user].index(rank))
    length: int = await redis.command("ZCARD", keys.posts(user_name(user), uid))
    return length


async def upkeep(settings: Settings, stores: server.stores.Stores, there: Population) -> UpkeepWork:
    """Measure each kind of upkeep for all data; usually, as here, it finds nothing to do."""
    meter, now = Meter(stores.redis), time.time()
    follow_repair, retention = server.jobs.follow_repair(stores), server.jobs.retention(settings, stores)
    reminding = Reminder(stores.feeds, stores.items, Stream(stores.redis, "stored"), Events(stores.redis))
    found: list[object] = []

    async def repair() -> None:
        found.append(await follow_repair.run(now))

    async def sweep() -> None:
        found.append(await server.jobs.sweeping(stores).run(now, dry_run=True))

    repaired = await meter.spent(repair)
    planned = await meter.spent(lambda: retention.look_for_channels(now))
    cleaned = await meter.spent(lambda: retention.clean_due(now + SOONEST))
    swept = await meter.spent(sweep)
    reminded = await meter.spent(reminding.run)
    if found[0] != RepairedFollows():
        raise WrongError(f"there was something to repair: {found[0]}")
    looked_at = [
        await stores.redis.command("ZCOUNT", keys.due("retention", str(shard)), now + SOONEST, "+inf")
        for shard in range(SHARDS)
    ]
    if sum(looked_at) != (channels := there.size.all_channels):
        raise WrongError(f"{sum(looked_at)} of {channels} channels were looked at")
    each = there.size.items * there.size.subscriptions
    return UpkeepWork(repaired, planned, cleaned, swept, reminded, each, there.size.items * there.size.feeds)
