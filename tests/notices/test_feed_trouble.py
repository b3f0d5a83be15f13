"""Notices about feed problems: once for each problem, in plain words, unless the user has disabled them."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest

from microsub.base.clock import DAY
from microsub.configuration.model import UserSettings
from microsub.feeds.record import FeedRecord
from microsub.model.settings import OwnChannelSettings
from microsub.polling.plan import LASTING_FAILURES, MOVE_SIGHTINGS
from microsub.work import Patience
from tests.support.polling import World, dated, rss, world
from tests.support.redis_wrappers import KilledError, Killing
from tests.support.web import Answer, Publisher

pytestmark = pytest.mark.usefixtures("redis")


async def told(it: World, user: str = "alice") -> list[dict[str, Any]]:
    await it.stages.run_once()
    return [json.loads(text) for text in await it.texts(user, "notifications")]


async def followed(it: World, site: Publisher, *users: str) -> FeedRecord:
    """A feed that was polled once."""
    site.serve_document("/feed", rss(dated(2)))
    for user in users or ("alice",):
        feed = await it.follow(site.url("/feed", "blog.test"), user)
    await it.poll(feed)
    return feed


async def fail(it: World, site: Publisher, feed: FeedRecord, times: int, every: float = DAY) -> None:
    site.serve("/feed", Answer(b"no", 404))
    for _ in range(times):
        it.clock.advance(every)
        await it.poll(feed)


async def test_a_notice_has_the_users_name_for_the_feed(it: World, site: Publisher) -> None:
    """And the feed's own name for those who gave it none."""
    feed = await followed(it, site, "alice", "bob")
    await it.following.change("alice", "home", feed.id, it.clock(), name="My harbour")
    await fail(it, site, feed, 16)
    (named,), (other,) = await told(it), await told(it, "bob")
    assert named["name"] == "My harbour can't be read"
    assert named["content"]["text"].startswith(f"“My harbour” ({feed.url})")
    assert named["author"]["name"] == "My harbour"
    assert other["name"] == f"{(await it.record(feed)).title} can't be read"


async def test_a_feed_that_fails_for_a_week(it: World, site: Publisher) -> None:
    """The notice has its name, the beginning, the reason and the consequence; each follower gets it once."""
    feed = await followed(it, site, "alice", "bob")
    await fail(it, site, feed, 6)
    assert await told(it) == []
    await fail(it, site, feed, 10)
    for user in ("alice", "bob"):
        (item,) = await told(it, user)
        name = (await it.record(feed)).title
        assert item["name"] == f"{name} can't be read"
        assert "could not be read since" in item["content"]["text"]
        assert "the server answered 404" in item["content"]["text"]
        assert item["author"]["name"] == name
        assert item["published"] > "2020"


async def test_a_few_failures_over_a_long_time_are_nothing(it: World, site: Publisher) -> None:
    """A server that was off for a month creates no notice after its first failure."""
    feed = await followed(it, site)
    await fail(it, site, feed, LASTING_FAILURES - 1, 10 * DAY)
    assert await told(it) == []


async def test_a_feed_that_works_again_may_fail_again(it: World, site: Publisher) -> None:
    """The second failure is another event."""
    feed = await followed(it, site)
    await fail(it, site, feed, 10)
    site.serve_document("/feed", rss(dated(2)), etag='"again"')
    await it.poll(feed)
    await fail(it, site, feed, 10)
    assert len(await told(it)) == 2


async def test_a_feed_that_never_worked(it: World, site: Publisher) -> None:
    """The time counts from the follow; the notice names the feed's URL."""
    feed = await it.follow(site.url("/feed", "blog.test"))
    await fail(it, site, feed, 10)
    (item,) = await told(it)
    assert item["name"] == f"{feed.url} can't be read"


async def test_a_feed_that_is_gone(it: World, site: Publisher) -> None:
    """After 410 it isn't polled any more, and the notice comes at once."""
    feed = await followed(it, site)
    site.serve("/feed", Answer(b"", 410))
    await it.poll(feed)
    await it.poll(feed)
    (item,) = await told(it)
    assert item["name"].endswith(" is gone")
    assert "It is no longer polled" in item["content"]["text"]


async def test_a_feed_that_has_moved(it: World, site: Publisher) -> None:
    """Once the move counts as permanent; the notice names the new URL, and says that nothing needs to be done."""
    feed = await followed(it, site)
    new = site.url("/new", "new.test")
    site.serve_document("/new", rss(dated(2)))
    site.serve("/feed", Answer(status=301, headers=[("Location", new)]))
    for _ in range(MOVE_SIGHTINGS):
        assert await told(it) == []
        it.clock.advance(DAY)
        await it.poll(feed)
    (item,) = await told(it)
    assert item["name"].endswith(" has moved")
    assert f"has moved to {new} permanently" in item["content"]["text"]
    assert (await it.record(feed)).url == new


async def test_a_key_in_an_address_is_not_repeated(it: World, site: Publisher) -> None:
    """Apps and logs would keep it."""
    feed = await it.follow(site.url("/feed?token=abc123secret", "blog.test"))
    await fail(it, site, feed, 10)
    assert "abc123secret" not in json.dumps(await told(it))


@pytest.mark.parametrize("level", ["channel", "user"])
async def test_notices_can_be_disabled(it: World, site: Publisher, level: str) -> None:
    """The channel or the user can disable them; others still get them."""
    feed = await followed(it, site, "alice", "bob")
    if level == "channel":
        settings = OwnChannelSettings(feed_trouble=False)
        await it.channels.set_settings("alice", "notifications", settings, it.now)
    else:
        await it.declared.set_user("alice", UserSettings(feed_trouble=False))
    site.serve("/feed", Answer(b"", 410))
    await it.poll(feed)
    assert await told(it) == []
    assert len(await told(it, "bob")) == 1


async def test_the_feed_of_notices_is_never_polled(it: World, site: Publisher) -> None:
    """It has no URL, is in no host's queue, and in no list of feeds to poll."""
    feed = await followed(it, site)
    site.serve("/feed", Answer(b"", 410))
    await it.poll(feed)
    await told(it)
    subscriptions = await it.channels.subscriptions("alice", "notifications")
    assert [one.url for one in subscriptions] == ["microsub:alice/notices/feeds"]
    assert (await it.check()).is_clean


async def test_killed_at_any_step_it_is_said_once(real_redis: Any, site: Publisher) -> None:
    """The notice is stored before the feed's record: the next poll stores it again, without effect."""
    killing = Killing(real_redis)
    for step in killing.each_step():
        async with world(killing, patience=Patience(idle=0.0, deliveries=1000)) as it:
            await real_redis.command("FLUSHDB")
            feed = await followed(it, site)
            site.serve("/feed", Answer(b"", 410))
            with contextlib.suppress(KilledError), killing.dying(step):
                await it.poll(feed)
            await it.poll(feed)
            assert len(await told(it)) == 1, f"killed at step {step} of {killing.steps}"
            assert (await it.record(feed)).gone
    assert killing.steps > 8
