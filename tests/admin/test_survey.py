"""The data about all feeds on pages: the survey, and figures by the hour."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, replace
from typing import Any

import orjson
import pytest

from microsub.admin.hours import SHOWN, Hours
from microsub.admin.survey import QUICK, REST, Survey
from microsub.base.clock import HOUR
from microsub.base.errors import StoreFull, StoreUnavailable
from microsub.base.urls import host_of
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.structures import Scores
from tests.support.readers import instance
from tests.support.redis_wrappers import Between, Wrapped
from tests.support.world import World


@pytest.fixture
async def server(redis: Redis) -> AsyncIterator[World]:
    """A server with a user, Ann."""
    async with instance(redis) as made:
        await made.reader("ann", "home")
        yield made


async def _feed(server: World, name: str, *, followed: bool = True, **fields: str) -> str:
    url = f"https://{name}.example/feed"
    feed = await server.feeds.ensure(url, server.now)
    await server.feeds.update(feed.id, fields)
    if followed:
        await server.feeds.subscribe(feed.id, "ann", "home")
    return feed.id


def _survey(server: World) -> Survey:
    return Survey(server.redis, server.feeds, server.schedule)


async def _signs(server: World) -> set[str]:
    """The feeds with a sign in Ann's channels."""
    return {name.rpartition("/")[2] for name in await Scores(server.redis, keys.surveyed_failing()).names()}


class Full(Wrapped):
    """A Redis that refuses writes."""

    async def _trip(self, name: str, args: Any, run: Callable[[], Awaitable[Any]]) -> Any:
        if name == "ZADD":
            raise StoreFull("OOM")
        return await run()


async def test_feeds_are_ordered_by_urgency(server: World) -> None:
    """Failing feeds come first, of these the longest without success; feeds without followers are left out."""
    now, hub = server.now, "https://hub.example/"
    well = await _feed(server, "well", last_success=str(now), hub=hub)
    new = await _feed(server, "new")
    lately = await _feed(server, "lately", failures="1", last_success=str(now - 60))
    long = await _feed(server, "long", failures="9", last_success=str(now - 9000), hub=hub, push_until=str(now + 9))
    gone = await _feed(server, "gone", gone="1", last_success=str(now))
    written = await _feed(server, "written", kept="1")
    await _feed(server, "nobodys", followed=False)
    survey = _survey(server)
    assert await survey.last() is None
    assert await survey.feeds("", 10) == []
    await survey.look(now)
    assert [one.id for one, _ in await survey.feeds("", 10)] == [long, lately, gone, new, well, written]
    assert [one.id for one, _ in await survey.feeds("written", 10)] == [written]
    assert [one.id for one, _ in await survey.feeds("", 2, 1)] == [lately, gone]
    assert [one.id for one, _ in await survey.feeds("failing", 10)] == [long, lately]
    assert [followers for _, followers in await survey.feeds("ok", 10)] == [1]
    sums = await survey.last()
    assert sums is not None
    assert dict(sums.states) == {"failing": 2, "gone": 1, "new": 1, "ok": 1, "written": 1}
    assert (sums.feeds, sums.followers, dict(sums.hubs)) == (6, 6, {"hub.example": [2, 0]})
    assert dict(sums.ways) == {"pushed": 0, "subscribed": 1, "polled": 1}
    await server.feeds.unsubscribe(long, "ann", "home")
    await survey.look(now)
    assert [one.id for one, _ in await survey.feeds("failing", 10)] == [lately]


async def test_held_hosts_are_found(server: World) -> None:
    """Hosts of followed feeds are listed as long as the hold lasts."""
    now = server.now
    feed = await _feed(server, "busy")
    host = host_of("https://busy.example/feed")
    for n in range(3):
        await server.schedule.hold(host, f"{feed}{n}", now + 600, now)
    await _survey(server).look(now)
    assert [(name, round(until - now)) for name, until in await _survey(server).held(now, 10)] == [(host, 600)]
    assert await _survey(server).held(now + 601, 10) == []


async def test_a_survey_pauses_in_proportion_to_its_cost(server: World) -> None:
    """The pause grows with the duration of the survey."""
    survey = _survey(server)
    await survey.look(server.now)
    before = await survey.last()
    assert before is not None
    await survey._round(before.at + REST * before.seconds / 2)
    assert await survey.last() == before
    await survey._round(before.at + REST * before.seconds + 1)
    after = await survey.last()
    assert after is not None
    assert after.at > before.at


async def test_a_page_runs_a_quick_survey_itself(server: World) -> None:
    """A page makes a new one after the pause, but never the first one; if Redis is full, it shows the last one."""
    survey = _survey(server)
    assert await survey.recent(server.now) is None
    await survey.look(server.now)
    await _feed(server, "new")
    later = server.now + 60
    full = await Survey(Full(server.redis), server.feeds, server.schedule).recent(later)
    assert full is not None
    assert (full.at, full.feeds) == (server.now, 0)
    sums = await survey.recent(later)
    assert sums is not None
    assert (sums.at, sums.feeds) == (later, 1)
    assert await survey.recent(later) == sums
    said = orjson.dumps({**asdict(sums), "seconds": 2 * QUICK})
    await server.redis.command("SET", keys.survey(), said, "EX", 60)
    assert await survey.recent(later + 9 * REST) == replace(sums, seconds=2 * QUICK)


async def test_a_survey_keeps_signs_of_polls_that_end_meanwhile(server: World) -> None:
    """It takes long on a large server, and the next one is far away: what it read of a feed may be outdated."""
    failing, healed, unfollowed = [await _feed(server, name, failures="1") for name in ("failing", "healed", "left")]
    broken, late = await _feed(server, "broken"), await _feed(server, "late")
    ended = [[(late, "1")], [(healed, "0"), (broken, "1")]]
    seen: list[str] = []

    async def polled(name: str, args: Any) -> None:
        if args[:2] == ("ZRANGE", keys.surveyed_failing()) or seen:  # before it is read, and once it has been
            seen.append(name)
            for feed, failures in ended.pop() if ended else ():
                await server.feeds.update(feed, {"failures": failures})
                await _survey(server).note(feed)

    await _survey(server).look(server.now)
    await server.feeds.unsubscribe(unfollowed, "ann", "home")
    await Survey(Between(server.redis, polled), server.feeds, server.schedule).look(server.now)
    assert await _signs(server) == {failing, broken, late}


async def test_of_two_polls_the_later_one_decides_about_a_sign(server: World) -> None:
    """Also if its worker notes it before the other one does."""
    feed = await _feed(server, "feed", failures="1")
    await _survey(server).note(feed)
    assert await _signs(server) == {feed}

    async def answered(name: str, args: Any) -> None:
        if name == "SMEMBERS":
            await server.feeds.update(feed, {"failures": "0"})
            await _survey(server).note(feed)

    await Survey(server.redis, type(server.feeds)(Between(server.redis, answered)), server.schedule).note(feed)
    assert await _signs(server) == set()


async def test_signs_follow_changes_of_follows(server: World) -> None:
    """Wherever they come from: apps, pages, commands, merges. One that can't be stored is no obstacle."""
    feed, following = await _feed(server, "feed", followed=False, failures="1"), server.parts.following
    url = "https://feed.example/feed"
    await following.follow("ann", "home", url, server.now)
    assert await _signs(server) == {feed}
    await following.unfollow("ann", "home", url, server.now)
    assert await _signs(server) == set()
    await Survey(Full(server.redis), server.feeds, server.schedule).note_follower(feed, "ann", "home", "follow")
    assert await _signs(server) == set()


async def test_hours_add_up_what_workers_counted(redis: Redis) -> None:
    """A week of hours by their beginnings, the current hour last."""
    hours, now = Hours(redis), 500_000.0 * HOUR + 5

    def sample(name: str, **labels: str) -> str:
        return json.dumps([name, labels], sort_keys=True)

    first = {
        sample("microsub_polls_total", outcome="changed"): 3.0,
        sample("microsub_polls_total", outcome="timeout"): 1.0,
        sample("microsub_items_new_total"): 7.0,
        sample("microsub_poll_delay_seconds_bucket", le="60.0"): 3.0,
        sample("microsub_poll_delay_seconds_bucket", le="300.0"): 4.0,
        sample("microsub_poll_delay_seconds_sum"): 100.0,
        sample("microsub_poll_delay_seconds_count"): 4.0,
        sample("microsub_requests_total", action="channels", status="200"): 9.0,
    }
    await hours.add(first, now - HOUR)
    await hours.add({sample("microsub_polls_total", outcome="unchanged"): 2.0}, now - HOUR)
    await hours.add({sample("microsub_items_new_total"): 1.0}, now)
    found = await hours.last(now)
    assert (len(found), found[-1].begin, found[-1].posts) == (SHOWN, 500_000 * HOUR, 1.0)
    past = found[-2]
    assert (past.polls, past.failed, past.posts, past.planned, past.in_time) == (6.0, 1.0, 7.0, 4.0, 3.0)
    assert (past.lateness, found[0].lateness) == (25.0, 0.0)


async def test_stored_figures_always_expire(server: World) -> None:
    """Also if the standby is away: each write fails after Redis has made it."""

    class WithoutStandby(Wrapped):
        async def _trip(self, name: str, args: Any, run: Callable[[], Awaitable[Any]]) -> Any:
            result = await run()
            if name in {"ZADD", "HSET"}:
                raise StoreUnavailable("written, but only 0 of 1 replicas had it")
            return result

    await _feed(server, "a", failures="1")
    survey = Survey(WithoutStandby(server.redis), server.feeds, server.schedule)
    with pytest.raises(StoreUnavailable):
        await survey.look(server.now)
    await survey.note("1")  # which a poll does in passing
    for key in (keys.surveyed_feeds(), keys.surveyed_failing()):
        assert await server.redis.command("TTL", key) > 0
