"""backend.json and the API name pages, feeds and former addresses of one followed feed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from microsub.polling.move import Mover
from microsub.redis.embedded.server import Watch
from microsub.redis.protocol import Redis
from microsub.server.poller import delivery
from microsub.server.stores import Stores
from tests.support.configured import NOW, Configured

PAGE, FEED, OTHER = "https://blog.example/", "https://blog.example/feed", "https://other.example/feed"


def home(*feeds: Any, name: str = "Home") -> dict[str, Any]:
    return {"users": {"alice": {"channels": [{"uid": "home", "name": name, "feeds": list(feeds)}]}}}


class Site(Configured):
    """A configured server on which a test can turn pages into their feeds."""

    async def declare(self, *feeds: Any, name: str = "Home", at: float | None = None) -> str:
        """Applies a file with these feeds."""
        self.save(home(*feeds, name=name), at)
        return await self.configuration.look()

    async def leave_page(self) -> None:
        """The effect of the page's first poll; polling it again has no further effect."""
        stores = Stores(self.redis, "", "", Watch())
        mover = Mover(self.feeds, stores.items, self.channels, self.schedule, delivery(stores).deliver_to)
        for feed_id in await self.feeds.all_ids():
            record = await self.feeds.get(feed_id)
            if record and record.url == PAGE and await self.feeds.subscribers(feed_id):
                await mover.from_page(record, [FEED], NOW)

    async def followed(self) -> list[tuple[str, str, str | None]]:
        """For each follow: the given address, the feed's address, the owner's name for it."""
        subscriptions = await self.channels.subscriptions("alice", "home")
        records = await self.feeds.get_many(one.feed for one in subscriptions)
        return [(one.url, records[one.feed].url, one.name) for one in subscriptions]

    async def assert_at_rest(self) -> None:
        """File and stores agree, in both directions, also for a new server process."""
        before = self.file.read_text()
        for server in (self.configuration, self.server()):
            assert await server.look() == "unchanged"
            assert not await server.write_back()
        assert self.file.read_text() == before


@pytest.fixture(params=[False, True], ids=["unknown", "known"])
async def site(redis: Redis, tmp_path: Path, request: pytest.FixtureRequest) -> Site:
    """With `known`, the feed was followed before."""
    made = Site(redis, tmp_path / "backend.json", write_back=True)
    if request.param:
        await made.accounts.add_user("bob", "", NOW)
        await made.channels.create("bob", "Home", NOW, "home")
        await made.following.follow("bob", "home", FEED, NOW)
        await made.apply(
            {"users": {"bob": {"channels": [{"uid": "home", "name": "Home", "feeds": [FEED]}]}}}, NOW - 100
        )
    return made


async def declared(site: Site, *feeds: Any) -> None:
    """The page has become its feed since the file was applied."""
    await site.declare(*feeds, at=NOW - 50)
    await site.leave_page()


async def test_a_declared_page_stays_declared(site: Site) -> None:
    """File and stores don't alternate: the file keeps the page, and edits of other parts keep the follow."""
    await declared(site, PAGE)
    assert await site.followed() == [(PAGE, FEED, None)]
    await site.assert_at_rest()
    assert await site.declare(PAGE, OTHER, name="New") == "applied"
    assert [one[:2] for one in await site.followed()] == [(PAGE, FEED), (OTHER, OTHER)]
    await site.assert_at_rest()


async def test_the_page_gives_way_to_the_feed_in_the_file(site: Site) -> None:
    """Replacing the page's address by the feed's in the file changes nothing and loses nothing."""
    await declared(site, PAGE)
    await site.declare(FEED)
    assert await site.followed() == [(PAGE, FEED, None)]
    await site.assert_at_rest()
    await site.declare(OTHER)
    assert await site.followed() == [(OTHER, OTHER, None)]


async def test_a_page_that_leaves_the_file_is_unfollowed(site: Site) -> None:
    """This holds even if it has become a feed."""
    await declared(site, PAGE)
    await site.declare()
    assert await site.followed() == []
    feed_id = await site.feeds.find(PAGE)
    assert feed_id
    assert ("alice", "home") not in await site.feeds.subscribers(feed_id)


@pytest.mark.parametrize("order", [(PAGE, FEED), (FEED, PAGE)])
async def test_page_and_feed_side_by_side(site: Site, order: tuple[str, str]) -> None:
    """Both may be in one channel: one follow, no more changes of the file, and an end with the last of the two."""
    await declared(site, *order)
    assert len(await site.followed()) == 1
    await site.assert_at_rest()
    await site.declare(order[0])
    assert len(await site.followed()) == 1
    await site.assert_at_rest()
    await site.declare()
    assert await site.followed() == []


async def test_names_of_page_and_feed(site: Site) -> None:
    """The follow gets the owner's name under either address; of two names in the file one is shown."""
    await declared(site, {"url": PAGE, "name": "Blog"}, FEED)
    assert len(await site.followed()) == 1
    await site.assert_at_rest()
    await site.declare({"url": FEED, "name": "Garden"})
    assert [one[1:] for one in await site.followed()] == [(FEED, "Garden")]
    await site.assert_at_rest()


async def test_unfollowing_through_the_api_is_written_back(site: Site) -> None:
    """The unfollow may name the feed's address, even if the file has the page's."""
    await declared(site, PAGE, OTHER)
    await site.following.unfollow("alice", "home", FEED, NOW)
    assert [one[0] for one in await site.followed()] == [OTHER]
    assert await site.configuration.write_back()
    assert site.saved()["users"]["alice"]["channels"][0]["feeds"] == [OTHER]


async def test_following_the_page_again_changes_nothing(site: Site) -> None:
    """This holds for its own address and for the feed's."""
    await declared(site, PAGE)
    for url in (PAGE, FEED):
        found = await site.following.follow("alice", "home", url, NOW)
        assert (found.subscription.url, found.record.url) == (PAGE, FEED)
    await site.assert_at_rest()


async def test_moving_a_page_to_another_channel(site: Site) -> None:
    """The move may name either address."""
    await declared(site, PAGE)
    await site.channels.create("alice", "Later", NOW, "later")
    await site.following.move("alice", "later", FEED, NOW)
    await site.following.move("alice", "home", PAGE, NOW)
    assert await site.followed() == [(PAGE, FEED, None)]
