"""What a user's settings for a feed do: hide it in All, filter it, end its unread posts, in this channel alone."""

from __future__ import annotations

from typing import Any

import pytest

from microsub.base.clock import DAY
from microsub.model.settings import OwnChannelSettings
from microsub.timelines import Retention
from tests.support.posts import NOON
from tests.support.readers import FEED, OTHER, Reader, posts
from tests.support.world import World


async def setting(reader: Reader, uid: str = "home", url: str = FEED, **given: str) -> dict[str, Any]:
    """Changes settings of a followed feed."""
    return await reader.post(action="follow", method="settings", channel=uid, url=url, **given)


async def nobody() -> tuple[str, ...]:
    """No user is declared."""
    return ()


async def unread(server: World, user: str) -> int:
    """The number of unread posts in All."""
    return (await server.channels.distinct_counts(user))[2]


@pytest.fixture
async def two_feeds(alice: Reader, server: World) -> Reader:
    """Alice follows a quiet feed and a loud one in one channel."""
    await server.publish(OTHER, *posts("quiet", host="other.example"))
    await server.publish(FEED, *posts("loud 2", "loud 1"))
    for url in (FEED, OTHER):
        await alice.post(action="follow", channel="home", url=url)
    return alice


async def test_a_feed_hidden_in_all(two_feeds: Reader, server: World) -> None:
    """All neither lists nor counts its posts, old and new; the channel does, until they are shown again."""
    alice = two_feeds
    await setting(alice, hide_in_all="true")
    await server.publish(FEED, *posts("loud 3", at=NOON + 100))
    assert sorted(await alice.names("home")) == ["loud 1", "loud 2", "loud 3", "quiet"]
    assert await alice.names("global") == ["quiet"]
    page = await alice.get(action="timeline", channel="global", is_read="false")
    assert [item["name"] for item in page["items"]] == ["quiet"]
    assert await unread(server, "alice") == 1
    await alice.post(action="timeline", method="mark_read", channel="global", last_read_entry="everything")
    assert await unread(server, "alice") == 0
    (home,) = [one for one in (await server.channels.list("alice")) if one.uid == "home"]
    assert home.unread == 3
    await setting(alice, hide_in_all="false")
    await server.publish(FEED, *posts("loud 4", at=NOON + 200))
    assert sorted(await alice.names("global")) == ["loud 1", "loud 2", "loud 3", "loud 4", "quiet"]
    assert await unread(server, "alice") == 4


async def test_a_hidden_feed_in_two_channels(two_feeds: Reader, server: World) -> None:
    """All shows its posts because of the channel in which it isn't hidden."""
    alice = two_feeds
    await alice.post(action="follow", channel="later", url=FEED)
    await setting(alice, hide_in_all="true")
    assert sorted(await alice.names("global")) == ["loud 1", "loud 2", "quiet"]
    assert await unread(server, "alice") == 3
    await setting(alice, uid="later", hide_in_all="true")
    assert (await alice.names("global"), await unread(server, "alice")) == (["quiet"], 1)


async def test_a_hidden_feed_moves(two_feeds: Reader, server: World) -> None:
    """Its posts, old ones too, stay out of All."""
    alice = two_feeds
    await setting(alice, hide_in_all="true")
    server.now += 3600
    await alice.post(action="follow", method="update", channel="later", url=FEED)
    assert sorted(await alice.names("later")) == ["loud 1", "loud 2"]
    assert (await alice.names("global"), await unread(server, "alice")) == (["quiet"], 1)


async def test_a_hidden_feed_between_others(alice: Reader, server: World) -> None:
    """Pages of All skip hundreds of hidden posts, in both directions, and miss none of the others."""
    loud = [f"l{n}" for n in range(300)]
    await server.publish(FEED, *posts(*loud, at=NOON))
    await server.publish(OTHER, *posts("new", at=NOON + 1000, host="other.example"))
    await server.publish(OTHER, *posts("old", at=NOON - 1000, host="other.example"))
    for url in (FEED, OTHER):
        await alice.post(action="follow", channel="home", url=url)
    await setting(alice, hide_in_all="true")
    first = await alice.get(action="timeline", channel="global", limit=1)
    assert [item["name"] for item in first["items"]] == ["new"]
    rest = await alice.get(action="timeline", channel="global", limit=1, after=first["paging"]["after"])
    assert [item["name"] for item in rest["items"]] == ["old"]
    back = await alice.get(action="timeline", channel="global", limit=1, before=rest["paging"]["before"])
    assert [item["name"] for item in back["items"]] == ["new"]


async def test_a_hidden_feed_with_many_unread_posts(alice: Reader, server: World) -> None:
    """All counts none of them, though most unread posts are its own."""
    await server.publish(FEED, *posts(*(f"l{n}" for n in range(1100)), at=NOON))
    await server.publish(OTHER, *posts("new", at=NOON + 1000, host="other.example"))
    for url in (FEED, OTHER):
        await server.channels.set_settings("alice", "home", OwnChannelSettings(first_fetch_unread=5000), NOON)
        await alice.post(action="follow", channel="home", url=url)
    (before,) = [one.unread for one in await server.channels.list("alice") if one.uid == "home"]
    await setting(alice, hide_in_all="true")
    assert (before > 1000, await unread(server, "alice")) == (True, 1)


async def test_marking_all_up_to_a_post(two_feeds: Reader, server: World) -> None:
    """A hidden feed keeps its unread posts; of the others, newer ones stay unread."""
    alice = two_feeds
    await setting(alice, hide_in_all="true")
    await server.publish(OTHER, *posts("later", at=NOON + 100, host="other.example"))
    ids = {item["name"]: item["_id"] for item in (await alice.get(action="timeline", channel="home"))["items"]}
    await alice.post(action="timeline", method="mark_read", channel="global", last_read_entry=ids["quiet"])
    page = await alice.get(action="timeline", channel="home", is_read="false")
    assert sorted(item["name"] for item in page["items"]) == ["later", "loud 1", "loud 2"]


async def test_a_filter_of_a_feed(two_feeds: Reader, server: World) -> None:
    """It holds for this feed's new posts, together with the channel's, and no longer once it is removed."""
    alice = two_feeds
    await setting(alice, filter='{"exclude_words": ["advert"]}')
    await server.publish(FEED, *posts("an advert", "news", at=NOON + 100))
    await server.publish(OTHER, *posts("other advert", at=NOON + 100, host="other.example"))
    assert {"news", "other advert"} < {*await alice.names("home")}
    assert "an advert" not in await alice.names("home")
    await setting(alice, filter='{"include_words": ["news"]}')
    await server.publish(FEED, *posts("more news", "more advert", at=NOON + 200))
    assert "more news" in await alice.names("home")
    assert "more advert" not in await alice.names("home")
    await setting(alice, reset="filter")
    await server.publish(FEED, *posts("last advert", at=NOON + 300))
    assert "last advert" in await alice.names("home")


async def test_an_edit_that_passes_a_filter_of_a_feed(two_feeds: Reader, server: World) -> None:
    """A post that was filtered out is added when its publisher corrects it."""
    alice = two_feeds
    await setting(alice, filter='{"exclude_words": ["advert"]}')
    await server.publish(FEED, *posts("news", text="advert", at=NOON + 100))
    assert "news" not in await alice.names("home")
    await server.publish(FEED, *posts("news", text="words", at=NOON + 100))
    assert "news" in await alice.names("home")


async def test_days_that_unread_posts_of_a_feed_are_kept(two_feeds: Reader, server: World) -> None:
    """They are fewer than those of the channel, or unlimited."""
    alice, stores = two_feeds, (server.redis, server.accounts, server.channels, server.items)
    cleanup = Retention(*stores, server.effective.of, nobody)
    await setting(alice, keep_unread_days="3")
    await setting(alice, url=OTHER, keep_unread_days="0")
    await cleanup.run(server.now + 2 * DAY)
    assert len(await alice.names("home")) == 3
    await cleanup.run(server.now + 4 * DAY)
    assert await alice.names("home") == ["quiet"]
    await cleanup.run(server.now + 1000 * DAY)
    assert await alice.names("home") == ["quiet"]


async def test_an_app_that_unfollows_and_follows_loses_its_settings(two_feeds: Reader, server: World) -> None:
    """The posts that were hidden are shown in All."""
    alice = two_feeds
    await setting(alice, hide_in_all="true")
    await alice.post(action="unfollow", channel="home", url=FEED)
    await alice.post(action="follow", channel="home", url=FEED)
    assert sorted(await alice.names("global")) == ["loud 1", "loud 2", "quiet"]
    assert await unread(server, "alice") == 3
