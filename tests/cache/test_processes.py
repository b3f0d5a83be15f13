"""The feed cache in several processes: one request for all, and no process that dies leaves half a copy."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
import redis as redis_py

from microsub.cache import BlockingFeedCache, DirectoryMapping, FeedCache
from microsub.cache.redis_storage import FeedCopies, RedisMapping
from microsub.redis import keys
from microsub.redis.connect import connect
from microsub.redis.protocol import Redis
from tests.support.feed_cache import URL, Clock, Place, document, site, two_documents
from tests.support.fork_server import Process, fork_server, forked
from tests.support.waiting import wait_until
from tests.support.web import Answer, Asked, publisher


class Waiting:
    """A process that waits for its start signal."""

    def __init__(self, process: Process, entrance: int, output: asyncio.StreamReader) -> None:
        self.process = process
        self.entrance = entrance
        self.output = output

    def go(self) -> None:
        os.write(self.entrance, b"go\n")

    async def line(self) -> str:
        return (await self.output.readline()).decode().strip()

    async def rest(self) -> list[str]:
        text = (await self.output.read()).decode()
        await self.process.wait()
        return text.split()


@asynccontextmanager
async def processes(place: Place, count: int, task: str, *urls: str) -> AsyncIterator[list[Waiting]]:
    """Processes that are ready to start, and are killed at the end."""
    arguments = (place.kind, str(place.folder), place.redis_url, task, *urls)
    with ExitStack() as stack:
        made = []
        for _ in range(count):
            (theirs, entrance), (exit_, written) = os.pipe(), os.pipe()
            forks = fork_server().address
            process = forked(forks, "tests.support.feed_cache", arguments, os.environ, [theirs, written, 2])
            os.close(theirs)
            os.close(written)
            stack.callback(os.close, entrance)
            output = asyncio.StreamReader()
            protocol = asyncio.StreamReaderProtocol(output)
            pipe = stack.enter_context(os.fdopen(exit_, "rb"))
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda p=protocol: p, pipe)
            stack.callback(transport.close)
            made.append(Waiting(process, entrance, output))
        try:
            for one in made:
                assert await one.line() == "ready"
            yield made
        finally:
            for one in made:
                with suppress(ProcessLookupError):
                    one.process.kill()
                await one.process.wait()


def held(answer: Answer, until: asyncio.Event) -> Callable[[Asked], Awaitable[Answer]]:
    """An answer that waits for an event."""

    async def handler(_asked: Asked) -> Answer:
        await until.wait()
        return answer

    return handler


def release_locks(place: Place) -> None:
    """Simulates the end of the lease of a process that was killed."""
    if place.kind != "directory":
        with redis_py.Redis.from_url(place.redis_url) as client:
            for lock in client.keys(keys.lease("copy:*")):
                client.delete(lock)


@pytest.mark.parametrize("answer", ["good", "bad"])
async def test_processes_share_one_request(shared_place: Place, answer: str) -> None:
    """Four processes ask for a URL at the same time: the publisher gets one request, and all get the result."""
    async with publisher() as web:
        all_ask = asyncio.Event()
        reply = Answer(document(), headers=[("Content-Type", "application/rss+xml")])
        url = web.serve("/feed", held(reply if answer == "good" else Answer(status=500), all_ask))
        async with processes(shared_place, 4, "fetch", url) as started:
            for process in started:
                process.go()
            for process in started:
                assert await process.line() == "asking"
            said = {asyncio.ensure_future(process.line()) for process in started}
            while len(said) > 1:  # all but the one with the request
                waits, said = await asyncio.wait(said, return_when=asyncio.FIRST_COMPLETED)
                assert {line.result() for line in waits} == {"waits"}
            all_ask.set()
            found = sorted([*[await line for line in said], *[word for one in started for word in await one.rest()]])
        assert found == (["cache"] * 3 + ["network"] if answer == "good" else ["http"] * 4)
        assert web.count("/feed") == 1


async def test_a_process_that_dies_in_a_request_delays_no_other(shared_place: Place) -> None:
    """Its lock ends with the process, or with its lease."""
    async with publisher() as web:
        url = web.serve("/feed", Answer(hang=True, headers=[("Content-Length", "9")]))
        async with processes(shared_place, 1, "fetch", url) as (dying,):
            dying.go()
            await wait_until(lambda: web.asked)
            dying.process.kill()
            await dying.process.wait()
        if shared_place.kind != "directory":
            with redis_py.Redis.from_url(shared_place.redis_url) as client:
                (lock,) = client.keys(keys.lease("copy:*"))
                assert 0 < client.pttl(lock) <= 10_000
                client.pexpire(lock, 100)
        web.serve_document("/feed", document())
        async with processes(shared_place, 1, "fetch", url) as (other,):
            other.go()
            assert [word for word in await other.rest() if word != "waits"] == ["asking", "network"]


async def test_killed_while_it_writes_a_copy_is_whole(shared_place: Place) -> None:
    """After `kill -9` at any moment, the stored copy is one that was written completely."""
    chance = random.Random(7)
    counts = set()
    for _ in range(4):
        async with processes(shared_place, 1, "write", URL) as (writer,):
            release_locks(shared_place)
            writer.go()
            for _ in range(chance.randrange(2, 30)):
                assert await writer.line()
            writer.process.send_signal(signal.SIGKILL)
            await writer.process.wait()
        with shared_place.blocking(fetcher=site()) as cache:
            found = cache.fetch(URL, offline=True)
            assert found.error is None
            counts.add(len(found.feed.entries))
    assert counts <= {2, 3}


async def test_killed_before_the_new_file_takes_its_name(tmp_path: Path) -> None:
    """The old copy stays; the temporary file is deleted once it is old."""
    place = Place("directory", tmp_path)
    folder = tmp_path / "copies"
    async with FeedCache(DirectoryMapping(folder), fetcher=site(two_documents()[0])) as cache:
        await cache.fetch(URL)
        async with processes(place, 1, "die", URL) as (dying,):
            dying.go()
            await dying.process.wait()
        (left,) = folder.glob("*.tmp")
        assert len((await cache.fetch(URL, offline=True)).feed.entries) == 2
        assert await cache.purge(3600) == 0
        assert left.exists()
        os.utime(left, (time.time() - 4000,) * 2)
        await cache.purge(3600)
        assert not left.exists()
        assert {path.stat().st_mode & 0o077 for path in folder.iterdir()} == {0}


async def test_a_live_request_keeps_its_lease(real_redis: Redis) -> None:
    """A request longer than the lease stays the only one; a lock that was lost isn't taken back."""
    web = site()
    web.gate = asyncio.Event()
    first = FeedCache(FeedCopies(real_redis, lease=3), fetcher=web)
    second = FeedCache(FeedCopies(real_redis, lease=3), fetcher=web)
    asking = asyncio.ensure_future(first.fetch(URL))
    await wait_until(lambda: web.asked)
    waiting = asyncio.ensure_future(second.fetch(URL))
    (lock,) = await real_redis.command("KEYS", keys.lease("copy:*"))
    began = time.monotonic()
    await wait_until(lambda: time.monotonic() - began > 3.5)
    assert len(web.asked) == 1
    await real_redis.command("SET", lock, "somebody else", "PX", 55_000)
    web.gate.set()
    assert (await asking).source == "network"
    assert await real_redis.command("GET", lock) == b"somebody else"
    await real_redis.command("DEL", lock)
    assert (await waiting).source == "cache"


async def test_copies_in_redis_expire(real_redis: Redis) -> None:
    """Each copy has a time to live, and so has its entry in the list of URLs."""
    clock, web = Clock(time.time()), site(max_age=7200.0)
    cache = FeedCache(FeedCopies(real_redis, clock=clock), fetcher=web, keep=3600, clock=clock)
    await cache.fetch(URL)
    (copy,) = await real_redis.command("KEYS", keys.feed_copy("*"))
    assert 7_100_000 < await real_redis.command("PTTL", copy) <= 7_200_000
    web.fail("dns")
    with pytest.raises(Exception, match="dns"):
        await cache.fetch("https://other.example/")
    assert await real_redis.command("ZCARD", keys.feed_copies()) == 2
    clock.now += 61
    await cache.fetch(URL, force=True)
    assert await real_redis.command("ZRANGE", keys.feed_copies(), 0, -1) == [URL.encode()]
    web.serve(document(), cache_control="no-store", etag=None)
    await cache.fetch(URL, force=True)
    assert 290_000 < await real_redis.command("PTTL", copy) <= 300_000


async def test_copies_in_a_cluster(cluster_url: str) -> None:
    """Copy, list and lock are in different slots, and no step needs two of them."""
    redis = await connect(cluster_url)
    web = site()
    urls = [f"https://{number}.example/" for number in range(10)]
    for source in ("network", "cache"):
        cache = FeedCache(FeedCopies(redis), fetcher=web)
        assert {(await cache.fetch(url)).source for url in urls} == {source}
    assert await cache.purge(-10) == 10
    assert await redis.command("KEYS", keys.feed_copy("*")) == []
    await redis.aclose()


def test_redis_is_one_storage_both_ways(redis_url: str) -> None:
    """The mapping finds copies of the asynchronous storage."""
    with Place("redis", Path(), redis_url).blocking(fetcher=site()) as cache:
        cache.fetch(URL)
    with redis_py.Redis.from_url(redis_url) as client:
        mapping = RedisMapping(client)
        assert list(mapping) == [URL]
        with BlockingFeedCache(mapping, fetcher=site()) as cache:
            assert cache.fetch(URL).source == "cache"
        del mapping[URL]
        with pytest.raises(KeyError):
            del mapping[URL]
        assert len(mapping) == 0


def test_a_fork_begins_again(tmp_path: Path) -> None:
    """A child has neither the threads nor the requests of its parent, but works."""
    with BlockingFeedCache(DirectoryMapping(tmp_path), fetcher=site()) as cache:
        cache.fetch(URL)
        cache.cache._copies._requests.join("https://other.example/")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                sources = [cache.fetch(url).source for url in (URL, "https://other.example/")]
                code = 0 if sources == ["cache", "network"] else 2
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0


async def test_a_cancelled_request_leaves_no_lock(tmp_path: Path) -> None:
    """Of a request that ends while a thread takes the lock of its copy, nobody has that lock."""
    lock = DirectoryMapping(tmp_path).lock(URL)
    taken = asyncio.create_task(asyncio.to_thread(lock.acquire))
    await asyncio.sleep(0)
    taken.cancel()
    with suppress(asyncio.CancelledError):
        await taken
    del lock, taken
    await wait_until(DirectoryMapping(tmp_path).lock(URL).acquire)
