"""Notes of posts that wait for timelines, and of the users' last visits."""

from __future__ import annotations

from microsub.accounts.records import Activity
from microsub.redis import keys
from tests.support.one_reader import ANN, NOW, OneReader


async def test_the_latest_visit_counts(world: OneReader) -> None:
    """The order of the notes doesn't matter; a user without a visit is left out, and a deleted user is forgotten."""
    activity = Activity(world.redis)
    assert await activity.last_seen([]) == {}
    await activity.note(ANN, NOW)
    await activity.note(ANN, NOW - 100)
    assert await activity.last_seen([ANN, "eve", ANN]) == {ANN: round(NOW)}
    await world.timelines.put_off("1", "5", [(ANN, "home")])
    assert await world.redis.command("EXISTS", keys.behind(ANN)) == 1
    await world.accounts.disable_user(ANN, NOW)
    leaving = await world.accounts.user(ANN)
    assert leaving is not None
    assert await world.accounts.delete_disabled(leaving)
    assert await activity.last_seen([ANN]) == {}
    assert await world.redis.command("EXISTS", keys.behind(ANN)) == 0
