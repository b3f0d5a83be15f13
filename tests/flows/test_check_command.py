"""`microsub check` on a store that is in use."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

from microsub.admin.check.command import CheckReport, check_store
from microsub.redis import keys
from microsub.redis.multiplexer import Multiplexed
from microsub.redis.protocol import Redis
from tests.support.polling import World, dated, rss, world
from tests.support.process import installation
from tests.support.web import Answer, Publisher, publisher


async def checked(here: World, redis: Redis) -> CheckReport:
    return await check_store(redis, here.follow_repair, clock=here.clock, pause=0.2)


_ROUNDS = 25
"""Polls of each feed while the check runs."""


async def _publish(site: Publisher, here: World, names: list[str]) -> None:
    """Publish and edit posts in feeds continuously, and poll them."""
    for rounds in range(1, _ROUNDS):
        entries = [(guid, f"{title} {rounds // 3}", date) for guid, title, date in dated(10, start=rounds)]
        for name in names:
            site.serve(f"/{name}", Answer(rss([(f"{name} {guid}", title, date) for guid, title, date in entries])))
        ids = await here.feeds.all_ids()
        await asyncio.gather(*(here.poller.poll(feed) for feed in ids))
        await here.stages.run_once()


async def _read(here: World, user: str, urls: list[str], stop: asyncio.Event, chance: random.Random) -> None:
    """Mark, remove, move, mute, follow and unfollow continuously."""
    while not stop.is_set():
        ids = [row.id for row in await here.rows(user, "home")]
        some = chance.sample(ids, min(4, len(ids)))
        match chance.randrange(5):
            case 0:
                await here.timelines.mark_read(user, "home", some, here.clock())
            case 1:
                await here.timelines.remove(user, "home", some[:1], here.clock())
            case 2:
                await here.timelines.move(user, "other", some[:1], here.clock())
            case 3:
                await here.following.unfollow(user, "home", chance.choice(urls), here.clock())
            case _:
                await here.following.follow(user, "home", chance.choice(urls), here.clock())
        await asyncio.sleep(0)


async def test_a_busy_server_has_no_findings(real_redis: Redis, redis_url: str) -> None:
    """The check reports no findings while polls, edits, marks, moves and follows are in progress."""
    async with publisher() as site, world(real_redis) as here:
        names = [f"feed{n}" for n in range(6)]
        urls = [site.url(f"/{name}", f"{name}.test") for name in names]
        for name in names:
            site.serve(f"/{name}", Answer(rss(dated(3))))
        for user in ("ann", "bob"):
            for url in urls:
                await here.follow(url, user, "home")
            await here.channels.create(user, "other", here.clock(), "other")
        stop = asyncio.Event()
        chance = random.Random(7)
        polling = asyncio.create_task(_publish(site, here, names))
        reading = [asyncio.create_task(_read(here, user, urls, stop, chance)) for user in ("ann", "bob")]
        connection = Multiplexed(redis_url)
        looks = 0
        try:
            while not polling.done():
                report = await checked(here, connection)
                assert report.left == (), report.as_text()
                looks += 1
        finally:
            stop.set()
            await asyncio.gather(polling, *reading)
            await connection.aclose()
        assert looks > 5
        here.clock.advance(1000)
        assert (await checked(here, real_redis)).left == ()


async def test_poll_and_check_on_a_running_server(tmp_path: Path) -> None:
    """The server polls for the command. A check exits with 0 and figures if the data is sound, with 1 and the findings
    if it isn't, and with 0 again after --repair.
    """
    async with publisher() as site:
        site.serve_document("/feed", rss(dated(5)))
        document = {"users": {"alice": {"channels": [{"uid": "home", "name": "Home", "feeds": [site.url("/feed")]}]}}}
        async with installation(tmp_path, document) as made:
            nothing = await made.run("check")
            assert nothing[0] == 1
            assert "no server's data" in nothing[2]
            await made.serve()
            # The server may request a private address, the command's shell may not: the server's settings apply.
            code, out, err = await made.run("poll", "--allow-private-networks", "192.0.2.0/24", site.url("/feed"))
            assert (code, out.split()[:2]) == (0, ["polled", site.url("/feed")]), err
            code, out, err = await made.run("check", "--json")
            assert (code, json.loads(out)["clean"]) == (0, True), out + err
            redis = Multiplexed(f"unix://{tmp_path}/data/redis.sock")
            await redis.command("SADD", keys.users(), "eve")
            code, out, _ = await made.run("check")
            assert (code, "found   users: user:{eve}: a listed user without a record" in out) == (1, True), out
            assert "1 finding, 1 of which --repair can repair" in out
            code, out, _ = await made.run("check", "--repair", "--json")
            assert (code, [one["subject"] for one in json.loads(out)["repaired"]]) == (0, ["user:{eve}"])
            code, out, _ = await made.run("check")
            assert (code, out.endswith("all is well\n")) == (0, True)
            await redis.aclose()
