"""Notes of what waits for timelines, and of when users were last seen."""

from __future__ import annotations

import pytest

from microsub.identity.store.accounts import Activity
from microsub.model.reader import PageQuery
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.timelines.add import Behind
from tests.support.one_reader import ANN, NOW, OneReader

pytestmark = pytest.mark.fake_and_cluster


@pytest.fixture
async def world(redis: Redis) -> OneReader:
    world = OneReader(redis)
    await world.begin()
    return world


async def test_a_note_keeps_the_earliest_place_and_counts(world: OneReader) -> None:
    """Per channel and feed, in a fixed order; channels that don't exist get none."""
    behind = Behind(world.redis)
    assert await behind.note("2", "50.5", {ANN: ["work", "home", "nowhere"], "eve": ["home"]}) == 2
    await behind.note("2", "9", {ANN: ["home"]})
    await behind.note("2", "100", {ANN: ["home"]})
    await behind.note("10", "1", {ANN: ["home"]})
    found = [(one.uid, one.feed, one.since, one.value) for one in await behind.of(ANN)]
    assert found == [("home", "10", 1, b"1 1"), ("home", "2", 9, b"9 3"), ("work", "2", 50.5, b"50.5 1")]
    assert await behind.of("eve") == []


async def test_a_note_that_grew_meanwhile_stays(world: OneReader) -> None:
    """What was noted after the note was read isn't taken back with it; the rest is, and the key goes with the last."""
    behind = Behind(world.redis)
    await behind.note("1", "5", {ANN: ["home", "work"]})
    read = await behind.of(ANN)
    await behind.note("1", "5", {ANN: ["home"]})
    assert await behind.caught_up(ANN, read) == 1
    assert [(one.uid, one.value) for one in await behind.of(ANN)] == [("home", b"5 2")]
    assert await behind.caught_up(ANN, await behind.of(ANN)) == 1
    assert await world.redis.command("EXISTS", keys.behind(ANN)) == 0


async def test_every_page_and_list_of_channels_says_that_something_waits(world: OneReader) -> None:
    """In its own round trip, for whatever channel and view."""
    token = await world.accounts.create_token(ANN, ["read"], "tests", NOW)
    credential = world.accounts.credential(token)
    assert credential is not None
    behind = Behind(world.redis)
    for waits in (False, True):
        if waits:
            await behind.note("1", "5", {ANN: ["home"]})
        assert (await world.channels.counts_with_token(credential, NOW))[0].behind is waits
        for uid in ("home", "work", "global"):
            for query in (PageQuery(), PageQuery(view="unread"), PageQuery(view="read"), PageQuery(source="1")):
                assert (await world.timelines.page_with_token(credential, uid, query, NOW))[0].behind is waits


async def test_the_latest_visit_counts(world: OneReader) -> None:
    """Whichever note arrives last; who was never seen is left out, and a user who is deleted is forgotten."""
    activity = Activity(world.redis)
    assert await activity.last_seen([]) == {}
    await activity.note(ANN, NOW)
    await activity.note(ANN, NOW - 100)
    assert await activity.last_seen([ANN, "eve", ANN]) == {ANN: round(NOW)}
    await Behind(world.redis).note("1", "5", {ANN: ["home"]})
    await world.accounts.disable_user(ANN, NOW)
    leaving = await world.accounts.user(ANN)
    assert leaving is not None
    assert await world.accounts.delete_disabled(leaving)
    assert await activity.last_seen([ANN]) == {}
    assert await world.redis.command("EXISTS", keys.behind(ANN)) == 0
