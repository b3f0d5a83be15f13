"""A user's share of what the server may request from others: of requests to a host, and of name look-ups."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_network
from typing import Any

import httpx
import pytest

from microsub.cache import CachingFetcher
from microsub.cache.redis_storage import FeedCopies
from microsub.discovery.search import COPIES_IN_ALL, COPIES_OF_USER, CopyShares
from microsub.fetch import Fetcher, FetchSettings, HostPace
from microsub.fetch.network import MOST_LOOK_UPS, Resolver
from microsub.parsing.task import AnyTask
from microsub.posts.entries import POSTS_IN
from microsub.redis.protocol import Redis
from tests.support.polling import dated, rss
from tests.support.readers import Reader, instance
from tests.support.waiting import wait_until
from tests.support.web import Answer, Asked, publisher
from tests.support.world import World, world

LOOPBACK = (ip_network("127.0.0.0/8"),)


async def here(_host: str, _port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@asynccontextmanager
async def asking(redis: Redis, resolver: Resolver, pace: HostPace | None = None) -> AsyncIterator[World]:
    """An instance that requests real hosts, all of them on loopback, with copies."""
    door = Fetcher(FetchSettings(allow_private_networks=LOOPBACK), resolver=resolver, pace=pace)
    async with instance(redis, web=CachingFetcher({}, door)) as made:
        yield made


async def asked_of(server: World, reader: Reader, **params: str) -> httpx.Response:
    return await server.client.get("/microsub", params=params, headers=reader.headers)


def batched(paths: list[str], size: int) -> list[list[str]]:
    return [paths[start : start + size] for start in range(0, len(paths), size)]


async def nothing(_seconds: float) -> None:
    await asyncio.sleep(0)


class Slow:
    """A page without feeds that answers slowly and counts its requests."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def __call__(self, _asked: Asked) -> Answer:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.01)
        self.now -= 1
        return Answer(b"<!doctype html><p>nothing", headers=[("Content-Type", "text/html")])


async def test_many_searches_ask_one_host_a_few_times(redis: Redis) -> None:
    """250 searches by three users at once; those without a turn are told when to try again.

    Before: 1,753 requests in 11 s, 149 at once. Now: 28, three at once.
    """
    async with publisher() as site, asking(redis, here, HostPace(sleep=nothing, clock=lambda: 0.0)) as server:
        readers = [await server.reader(name) for name in ("alice", "bob", "carol")]
        page = Slow()
        paths = [f"/{number}/" for number in range(250)]
        for path in paths:
            site.serve(path, page)
        replies: list[httpx.Response] = []
        for some in batched(paths, 50):
            replies += await asyncio.gather(
                *(
                    asked_of(server, readers[number % 3], action="search", query=site.url(path, "victim.test"))
                    for number, path in enumerate(some)
                )
            )
        assert page.most <= 3
        assert len(site.asked) == 28
        refused = [reply for reply in replies if reply.status_code == 429]
        assert len(refused) > 200
        assert all(int(reply.headers["retry-after"]) > 0 for reply in refused)
        assert "victim.test is getting many requests" in refused[0].json()["error_description"]
        site.serve_document("/feed", rss(dated(3)))
        other = await readers[0].get(action="preview", url=site.url("/feed", "other.test"))
        assert len(other["items"]) == 3, "other hosts are asked"


async def test_redirects_count_for_the_host_they_lead_to(redis: Redis) -> None:
    """Many names don't get around the rate limit of the host to which they redirect."""
    async with publisher() as site, asking(redis, here, HostPace(sleep=nothing, clock=lambda: 0.0)) as server:
        readers = [await server.reader(name) for name in ("alice", "bob", "carol")]
        site.serve("/away", Answer(status=302, headers=[("Location", site.url("/there", "victim.test"))]))
        urls = [site.url("/away", f"m{number}.test") for number in range(45)]
        await asyncio.gather(
            *(asked_of(server, readers[number % 3], action="preview", url=url) for number, url in enumerate(urls))
        )
        assert sum(asked.target == "/there" for asked in site.asked) == 28


async def test_an_address_in_numbers_is_one_host_however_it_is_written(redis: Redis) -> None:
    """`127.1` and `0x07f000001` have no rate limits of their own."""
    async with publisher() as site, asking(redis, here, HostPace(sleep=nothing, clock=lambda: 0.0)) as server:
        readers = [await server.reader(name) for name in ("alice", "bob", "carol")]
        page = Slow()
        urls = [site.url(f"/{number}/", f"0x{'0' * number}7f000001") for number in range(1, 46)]
        for number in range(1, 46):
            site.serve(f"/{number}/", page)
        await asyncio.gather(
            *(asked_of(server, readers[number % 3], action="search", query=url) for number, url in enumerate(urls))
        )
        assert page.most <= 3
        assert len(site.asked) == 28


async def test_slow_names_use_up_only_the_users_share(redis: Redis) -> None:
    """1,200 previews; those beyond the user's share are refused at once.

    Before: another user's preview failed after 30 s. Now: 16 names are looked up, and the other user isn't affected.
    """
    looked_up: list[str] = []

    async def silent(host: str, _port: int) -> Sequence[str]:
        if host.startswith("silent"):
            looked_up.append(host)
            await asyncio.Event().wait()
        return ["127.0.0.1"]

    async with publisher() as site, asking(redis, silent) as server:
        alice, bob = await server.reader("alice"), await server.reader("bob")
        some = asyncio.Semaphore(3 * MOST_LOOK_UPS)

        async def preview(number: int) -> httpx.Response:
            async with some:
                return await asked_of(server, alice, action="preview", url=f"http://silent{number}.test/")

        previews = [asyncio.create_task(preview(number)) for number in range(1200)]

        def refused() -> list[str]:
            done = [task.result() for task in previews if task.done()]
            return [reply.json()["error_description"] for reply in done if reply.status_code == 429]

        await wait_until(lambda: len(refused()) == 1200 - MOST_LOOK_UPS)
        assert len(looked_up) == MOST_LOOK_UPS == 16
        assert "names are being looked up for you" in refused()[0]
        feed = site.serve_document("/feed", rss(dated(3)))
        assert len((await bob.get(action="preview", url=feed))["items"]) == 3
        for task in previews:
            task.cancel()
        await asyncio.gather(*previews, return_exceptions=True)


async def test_polled_documents_count_for_their_followers(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower of 30 heavy feeds takes turns with another user's new feed; a feed of both counts for either of them.

    Before: the other's feed hadn't arrived after 150 s. Now: it counts for the other, so it is read second (`Turns`).
    """
    async with publisher() as site, world(redis) as it:
        heavy = [site.serve_document(f"/{number}", rss(dated(1))) for number in range(30)]
        both, new = (site.serve_document(path, rss(dated(1))) for path in ("/both", "/new"))
        feeds = [await it.follow(url, "alice") for url in (*heavy, both)]
        feeds += [await it.follow(url, "bob") for url in (both, new)]
        read, accounts = it.parser.measured, dict[str, set[str]]()

        async def noted(task: AnyTask, where: str, *given: Any, keys: Sequence[str] = ()) -> object:
            if task == POSTS_IN:
                accounts[where] = set(keys)
            return await read(task, where, *given, keys=keys)

        monkeypatch.setattr(it.parser, "measured", noted)
        for feed in feeds:
            await it.poll(feed)
        assert accounts == {**{url: {"alice"} for url in heavy}, both: {"alice", "bob"}, new: {"bob"}}


async def test_copies_of_previews_are_bounded(redis: Redis) -> None:
    """Previews of 1.4 MB each; another user's copies stay, and all previews are shown.

    Before: 600 a minute left 850 MB for an hour. Now: 8 MiB for one user, 64 MiB for all.
    """
    async with publisher() as site:
        door = Fetcher(FetchSettings(allow_private_networks=LOOPBACK), resolver=here)
        copies = FeedCopies(redis, may_keep=CopyShares(3600.0))
        async with instance(redis, web=CachingFetcher(copies, door, keep=3600.0)) as server:
            alice, bob = await server.reader("alice"), await server.reader("bob")
            noise = random.Random(1).randbytes(1_050_000).hex()[:1_900_000].encode()
            for number in range(12):
                body = rss(dated(1)).replace(b"</channel>", b"<!--%d%s--></channel>" % (number, noise))
                url = site.serve_document(f"/{number}", body)
                assert len((await alice.get(action="preview", url=url))["items"]) == 1
            kept = await copies.urls()
            assert sum([len(await copies.get(url) or b"") for url in kept]) <= COPIES_OF_USER == 8 * 1024 * 1024
            assert COPIES_IN_ALL == 64 * 1024 * 1024
            assert 4 < len(kept) < 12
            small = site.serve_document("/small", rss(dated(1)))
            await bob.get(action="preview", url=small)
            assert len(await copies.urls()) == len(kept) + 1
