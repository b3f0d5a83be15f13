"""The `follow` and `unfollow` actions."""

from __future__ import annotations

import pytest

from tests.support.posts import NOON
from tests.support.readers import Reader, posts
from tests.support.world import World

FEED = "https://blog.example/feed"
SECRET = "https://ann:sesame@blog.example/private"


async def due(server: World, host: str) -> list[str]:
    """The feeds of `host` that a worker would poll now."""
    leases = await server.schedule.take(server.now, 10, 60)
    due = [await server.schedule.due_feeds(lease, server.now, 9) for lease in leases if lease.member == host]
    return [feed for one in due for feed in one.ids]


async def test_an_unknown_feed_is_due_at_once(alice: Reader, server: World) -> None:
    """The reply doesn't wait for the first poll; until then the feed's address is its name."""
    reply = await alice.post(action="follow", channel="home", url=FEED)
    assert reply == {"type": "feed", "url": FEED, "name": FEED, "_id": reply["_id"]}
    assert await due(server, "blog.example") == [reply["_id"]]
    assert await alice.get(action="follow", channel="home") == {"items": [reply]}
    assert await alice.get(action="follow", channel="later") == {"items": []}


async def test_only_real_channels_follow(alice: Reader, server: World) -> None:
    """An unknown channel is not found, and no feed is created for it."""
    await alice.post(404, action="follow", channel="nowhere", url=FEED)
    await alice.post(400, action="follow", channel="global", url=FEED)
    assert await server.feeds.find(FEED) is None
    await alice.get(404, action="follow", channel="nowhere")
    await alice.post(404, action="unfollow", channel="nowhere", url=FEED)


async def test_health_comes_along(alice: Reader, server: World) -> None:
    """The error and its time are strings that clients may ignore."""
    feed = await server.publish(FEED, *posts("a"))
    await alice.post(action="follow", channel="home", url=FEED)
    await server.feeds.update(
        feed.id,
        {
            "failures": "3",
            "last_error": "timeout: no answer",
            "last_error_at": str(NOON),
            "photo": "https://p.example/",
        },
    )
    ((item,),) = (await alice.get(action="follow", channel="home")).values()
    assert item["_error"] == "timeout: no answer"
    assert item["_failures"] == "3"
    assert item["photo"] == "https://p.example/"
    assert all(isinstance(value, str) for value in item.values())
    await server.feeds.update(feed.id, {"gone": "1"})
    ((item,),) = (await alice.get(action="follow", channel="home")).values()
    assert item["_gone"] == "true"


async def test_a_gone_feed_is_not_polled_again(alice: Reader, server: World) -> None:
    """This holds for a new follower too: after 410 there is no request."""
    feed = await server.feeds.ensure(FEED, server.now)
    await server.feeds.update(feed.id, {"gone": "1"})
    await alice.post(action="follow", channel="home", url=FEED)
    assert await due(server, "blog.example") == []


async def test_update_of_an_unfollowed_feed(alice: Reader, bob: Reader) -> None:
    """The reply is 404, even if another user follows it."""
    await bob.post(action="follow", channel="home", url=FEED)
    reply = await alice.post(404, action="follow", method="update", channel="home", url=FEED)
    assert reply["error"] == "not_found"


async def test_update_to_the_same_channel_changes_nothing(alice: Reader, server: World) -> None:
    """It also removes the follow from the other channels."""
    await server.publish(FEED, *posts("a"))
    for uid in ("home", "later"):
        await alice.post(action="follow", channel=uid, url=FEED)
    await alice.post(action="follow", method="update", channel="home", url=FEED)
    assert await alice.names("home") == ["a"]
    assert (await alice.get(action="follow", channel="later"))["items"] == []


async def test_credentials_are_masked_and_still_work(alice: Reader, server: World) -> None:
    """A list shows no password; the address in it works for unfollowing."""
    reply = await alice.post(action="follow", channel="home", url=SECRET)
    listed = await alice.get(action="follow", channel="home")
    tree = await alice.get(action="channels", method="tree")
    assert "sesame" not in f"{reply}{listed}{tree}"
    await alice.post(action="follow", method="update", channel="later", url=reply["url"])
    await alice.post(action="unfollow", channel="later", url=reply["url"])
    assert (await alice.get(action="follow", channel="later"))["items"] == []


async def test_two_passwords_are_two_feeds(alice: Reader, bob: Reader, server: World) -> None:
    """Each follower gets what their own password opens, and none of the other's posts."""
    other = SECRET.replace("sesame", "mustard")
    hers = await alice.post(action="follow", channel="home", url=SECRET)
    his = await bob.post(action="follow", channel="home", url=other)
    assert hers["_id"] != his["_id"]
    await server.publish(SECRET, *posts("hers"))
    assert (await alice.names("home"), await bob.names("home")) == (["hers"], [])


async def test_a_page_and_its_feed_are_one(alice: Reader, bob: Reader, server: World) -> None:
    """The list shows the given address and the feed's; each of them identifies the follow."""
    page = "https://blog.example/"
    followed = await alice.post(action="follow", channel="home", url=page)
    assert "_feed_url" not in followed
    await server.feeds.rename(followed["_id"], FEED)
    await server.publish(FEED, *posts("a"))
    (item,) = (await alice.get(action="follow", channel="home"))["items"]
    assert (item["url"], item["_feed_url"], item["name"]) == (page, FEED, "A blog")
    assert await bob.post(action="follow", channel="home", url=FEED) == {
        name: value for name, value in item.items() if name != "_feed_url"
    } | {"url": FEED}
    assert (await alice.post(action="follow", channel="home", url=FEED))["url"] == page
    await alice.post(action="follow", method="update", channel="later", url=FEED)
    await alice.post(action="unfollow", channel="later", url=FEED)
    await bob.post(action="unfollow", channel="home", url=page)
    for reader in (alice, bob):
        assert (await reader.get(action="follow", channel="global"))["items"] == []


async def test_settings_of_a_feed(alice: Reader, bob: Reader, server: World) -> None:
    """Each is changed alone, by its name and values in backend.json; other followers have their own."""
    for reader in (alice, bob):
        await reader.post(action="follow", channel="home", url=SECRET)
    asked = {"action": "follow", "method": "settings", "channel": "home", "url": SECRET}
    assert await alice.get(**asked) == {"settings": {}}
    await alice.post(**asked, name="Mine", filter='{"exclude_words": ["sport"]}', view="list")
    reply = await alice.post(**asked, keep_unread_days="2.5", hide_in_all="true", reset="view")
    own = {"name": "Mine", "filter": {"exclude_words": ["sport"]}, "keep_unread_days": 2.5, "hide_in_all": True}
    assert reply == await alice.get(**asked) == {"settings": own}
    assert await bob.get(**asked) == {"settings": {}}
    ((item,),) = (await alice.get(action="follow", channel="home")).values()
    assert item["name"] == "Mine"
    await alice.post(action="follow", method="update", channel="later", url=SECRET)
    assert await alice.get(**asked | {"channel": "later"}) == {"settings": own}
    await alice.get(404, **asked)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("view", "sideways"),
        ("hide_in_all", "perhaps"),
        ("keep_unread_days", "-1"),
        ("name", "x" * 10_000),
        ("filter", '{"exclude_regex": "("}'),
        ("filter", "[" * 10_000),
    ],
)
async def test_settings_that_no_file_may_have(alice: Reader, name: str, value: str) -> None:
    """The error names the setting, and nothing changes."""
    await alice.post(action="follow", channel="home", url=FEED)
    asked = {"action": "follow", "method": "settings", "channel": "home", "url": FEED}
    reply = await alice.post(400, **asked, **{name: value})
    assert f"invalid '{name}" in reply["error_description"]
    assert await alice.get(**asked) == {"settings": {}}


async def test_the_list_of_global_is_everything_once(alice: Reader) -> None:
    """A feed in two channels is one feed."""
    for uid in ("home", "later"):
        await alice.post(action="follow", channel=uid, url=FEED)
    assert len((await alice.get(action="follow", channel="global"))["items"]) == 1
