"""Whole syncs of native apps: each shows afterwards what the server has, also after changes by other apps."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import pytest

from microsub.accounts import create_app_password
from microsub.configuration.effective import EffectiveSettings
from microsub.greader import reads
from microsub.redis import keys
from microsub.redis.foresight import Foresight
from microsub.redis.multiplexer import Multiplexed
from microsub.redis.scripts import batches
from microsub.redis.tracking import Tracker
from microsub.timelines import ItemCache
from tests.support import THOROUGH
from tests.support.native_app import NativeApp, numbered, publish_notice
from tests.support.native_clients import (
    ALL,
    CLIENTS,
    READ,
    STARRED,
    CapyReader,
    ConnectionLostError,
    FluentReader,
    Liferea,
    NativeClient,
    NetNewsWire,
    Readrops,
    ReadYou,
    RssGuard,
)
from tests.support.reader import Reader
from tests.support.readers import posts
from tests.support.redis_wrappers import InRow
from tests.support.world import World

FEED = "https://blog.example/feed"
OTHER = "https://other.example/feed"
LATE = "https://late.example/feed"


@pytest.fixture
async def signed_in(server: World, alice: Reader) -> Callable[[type[NativeClient]], Awaitable[NativeClient]]:
    """Signs an app of Alice in, who follows two feeds in two channels."""
    names = [f"{number:02}" for number in range(30)]
    await server.publish(FEED, *posts(*names))
    await server.publish(OTHER, *posts("z", "y", host="other.example"), title="Another blog")
    for channel, url in (("home", FEED), ("later", OTHER), ("later", FEED)):
        await alice.post(action="follow", channel=channel, url=url)
    await publish_notice(server, alice)
    ids = await alice.ids("home", limit=100)
    await alice.post(action="timeline", method="mark_unread", channel="global", **{"entry[]": ids})
    await alice.post(action="timeline", method="mark_read", channel="global", **{"entry[]": ids[2:5]})
    await alice.post(action="timeline", method="save", entry=ids[6])
    password = await create_app_password(server.accounts, alice.name, "An app", server.now)

    async def sign_in(kind: type[NativeClient]) -> NativeClient:
        made = kind(server, alice.name, password)
        await made.sign_in()
        return made

    return sign_in


@pytest.fixture(params=CLIENTS, ids=lambda one: one.__name__)
async def client(request: pytest.FixtureRequest, signed_in) -> NativeClient:
    """An app of Alice, signed in."""
    made: NativeClient = await signed_in(request.param)
    return made


async def agree(client: NativeClient, app: NativeApp, *, known_only: bool = False) -> None:
    """The app shows every post with the server's state, each in a feed that it lists; and the server's folders."""
    everything = await app.ids(ALL)
    unread, starred = await app.ids(ALL, xt=READ), await app.ids(STARRED)
    shown = client.posts if not known_only else {one: client.posts[one] for one in client.posts if one in everything}
    there = [one for one in everything if one in client.posts] if known_only else everything
    assert set(shown) >= set(there)
    for one in there:
        post = shown[one]
        assert (post.is_read, post.is_starred) == (one not in unread, one in starred), one
        assert post.feed in client.feeds
        assert post.title
    listed = (await app.json("subscription/list"))["subscriptions"]
    folders = {one["id"]: [category["label"] for category in one["categories"]] for one in listed}
    assert {name: [feed.folder] if feed.folder else [] for name, feed in client.feeds.items()} == folders


async def save(alice: Reader, one: str, method: str = "save") -> None:
    await alice.post(action="timeline", method=method, entry=str(int(one) - 10**15))


async def test_a_first_sync_and_later_ones(server: World, alice: Reader, app: NativeApp, client: NativeClient) -> None:
    """New posts, a new feed with old posts, marks and stars from elsewhere, and an unfollow that keeps posts."""
    await client.sync()
    read_only_unread = isinstance(client, Readrops)
    """It doesn't read posts that were read before its first sync."""
    await agree(client, app, known_only=read_only_unread)
    assert len(client.posts) == (30 if read_only_unread else 33)
    ids = await app.ids(ALL, xt=READ)
    server.now += 600
    await server.publish(FEED, *posts("new", at=server.now))
    await server.publish(LATE, *posts("w", "v", host="late.example", at=1_000_000_000), title="A late blog")
    await alice.post(action="follow", channel="home", url=LATE)
    await alice.post(
        action="timeline", method="mark_read", channel="global", **{"entry[]": [str(int(ids[0]) - 10**15)]}
    )
    await save(alice, ids[1])
    await client.sync()
    await agree(client, app, known_only=read_only_unread)
    fresh = numbered(await alice.ids("home", limit=100))[:1]
    assert set(client.posts) >= {*fresh, *ids}
    server.now += 600
    await alice.post(action="unfollow", channel="later", url=OTHER)
    await client.sync()
    await save(alice, ids[1], "unsave")
    await client.sync()
    await agree(client, app, known_only=True)


async def test_a_first_sync_of_many_posts(server: World, alice: Reader, app: NativeApp, signed_in) -> None:
    """More than a page of most apps. Readrops reads 2,500 posts, Fluent Reader 5,000, Liferea fifty of a feed."""
    feeds = 11 if THOROUGH else 3
    bounded = {Readrops, Liferea, FluentReader} if THOROUGH else {Readrops, Liferea}
    for number in range(feeds):
        host = f"{number}.many.example"
        await server.publish(f"https://{host}/feed", *posts(*map(str, range(1000)), host=host), title=host)
        channel = (await alice.post(action="channels", name=host))["uid"]
        await alice.post(action="follow", channel=channel, url=f"https://{host}/feed")
    everything = await app.ids(ALL, n=200_000)
    assert len(everything) == 33 + feeds * 1000
    for some in batches(everything, 10_000):
        await app.post("edit-tag", i=some, r=READ)
    for kind in CLIENTS:
        if kind not in bounded:
            client = await signed_in(kind)
            await client.sync()
            await agree(client, app)
            assert len(client.posts) == len(everything), kind.__name__


async def test_changes_that_were_made_offline(
    server: World, alice: Reader, app: NativeApp, client: NativeClient
) -> None:
    """They reach the server with the next sync, in all channels, and marks from elsewhere stay."""
    await client.sync()
    ids = [one for one in await app.ids(ALL, xt=READ) if one in client.posts]
    client.mark(READ, ids[:10], adds=True)
    client.mark(READ, ids[:1], adds=False)
    client.mark(STARRED, ids[3:5], adds=True)
    starred = await app.ids(STARRED)
    client.mark(STARRED, starred, adds=False)
    await alice.post(
        action="timeline", method="mark_read", channel="later", **{"entry[]": [str(int(ids[12]) - 10**15)]}
    )
    await client.sync()
    assert set(await app.ids(STARRED)) == set(ids[3:5])
    unread = set(await app.ids(ALL, xt=READ))
    assert unread.isdisjoint(ids[1:10])
    assert ids[0] in unread
    await agree(client, app, known_only=True)
    assert not set(ids[1:10]) & set(numbered(await alice.ids("home", limit=100, is_read="false")))


async def test_feeds_and_folders_that_it_changes(
    server: World, alice: Reader, app: NativeApp, client: NativeClient
) -> None:
    """A followed feed is in the folder that was chosen, and nowhere else; its old posts come with the next sync."""
    await client.sync()
    server.now += 60
    await server.publish(LATE, *posts("w", "v", host="late.example", at=1_000_000_000), title="A late blog")
    document = b"<rss version='2.0'><channel><title>A late blog</title><item><guid>w</guid></item></channel></rss>"
    server.web.documents[LATE] = (document, "application/rss+xml")
    feed = await client.subscribe(LATE, "New ones")
    await client.sync()
    await agree(client, app, known_only=True)
    assert client.feeds[feed].folder == "New ones"
    assert len([one for one in client.posts.values() if one.feed == feed]) == 2
    await client.move(feed, "Later")
    await client.rename(feed, "My name")
    await client.sync()
    assert (client.feeds[feed].title, client.feeds[feed].folder) == ("My name", "Later")
    assert len(numbered(await alice.ids("later", limit=100))) == 34
    await client.unsubscribe(feed)
    await client.sync()
    assert feed not in client.feeds


async def test_posts_that_are_large_together(
    app: NativeApp, client: NativeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replies end before all posts, and apps that ask for posts by id have all of them after some more syncs."""
    monkeypatch.setattr(reads, "MOST_BYTES", 10_000)
    for _ in range(4):
        await client.sync()
    await agree(client, app, known_only=True)
    if isinstance(client, NetNewsWire | ReadYou | RssGuard | CapyReader):
        assert set(client.posts) == set(await app.ids(ALL))


async def test_an_interrupted_sync_is_repeated(
    server: World, alice: Reader, app: NativeApp, client: NativeClient
) -> None:
    """After any number of requests: nothing is lost or marked twice, whatever comes meanwhile."""
    await client.sync()
    number = 1
    while True:
        server.now += 60
        await server.publish(FEED, *posts(f"more {number}", at=server.now))
        ids = [one for one in await app.ids(ALL, xt=READ) if one in client.posts]
        client.mark(READ, ids[:1], adds=True)
        client.lose_after = number
        try:
            await client.sync()
        except ConnectionLostError:
            client.lose_after = None
            await client.sync()
            await agree(client, app, known_only=isinstance(client, Readrops))
            number += 1
        else:
            break
    assert number > 3


@pytest.mark.parametrize("kind", CLIENTS, ids=lambda one: one.__name__)
async def test_a_sync_with_nothing_new_waits_three_times(
    server: World, alice: Reader, redis_url: str, kind: type[NativeClient]
) -> None:
    """At most, for Redis; where it reports no changes, as in a cluster or before Redis 7.2, once for each request."""
    await server.publish(FEED, *posts(*(f"{number:02}" for number in range(30))))
    await server.publish(OTHER, *posts("z", "y", host="other.example"), title="Another blog")
    for channel, url in (("home", FEED), ("later", OTHER), ("later", FEED)):
        await alice.post(action="follow", channel=channel, url=url)
    ids = await alice.ids("home", limit=100)
    await alice.post(action="timeline", method="mark_unread", channel="global", **{"entry[]": ids[:9]})
    await alice.post(action="timeline", method="save", entry=ids[6])
    version = re.search(rb"redis_version:(\d+)\.(\d+)", await server.redis.command("INFO", "server"))
    assert version is not None
    is_reporting = tuple(map(int, version.groups())) >= (7, 2)
    for reports in (True, False):
        waits, sent = await _later_sync(server, redis_url, kind, reports=reports)
        assert sent >= 3
        assert len(waits) <= (3 if reports and is_reporting else sent), waits


async def _later_sync(
    server: World, redis_url: str, kind: type[NativeClient], *, reports: bool
) -> tuple[list[list[str]], int]:
    """The waits for Redis of a client's later sync, and the number of its requests."""
    redis = InRow(server.redis)
    far = server.through(redis)
    far.effective = EffectiveSettings(far.declared, far.own_settings, remembered=600)
    far.parts.cache = ItemCache(far.items, Tracker(redis_url, keys.ITEM_PREFIX), 1_000_000)
    if reports:
        far.parts.foresight = Foresight(
            redis, lambda changed: InRow(Multiplexed(redis_url, changed=changed), beside=redis)
        )
    client = kind(far, "alice", await create_app_password(server.accounts, "alice", "An app", server.now))
    await client.sign_in()
    for _ in range(3):
        server.now += 600
        redis.rows.clear()
        client.sent.clear()
        await client.sync()
    await far.parts.cache.aclose()
    await far.parts.foresight.aclose()
    # Nobody waits for the note that the user was seen.
    return [row for row in redis.rows if not all("users:seen" in call for call in row)], len(client.sent)
