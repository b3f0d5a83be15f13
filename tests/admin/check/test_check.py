"""The check of all invariants: a valid store passes; every violation is found, named and repaired."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from microsub.accounts.credentials import LocalCredentials, Passkey
from microsub.accounts.foreign import ForeignTokens, Vouched
from microsub.accounts.sessions import Sessions
from microsub.accounts.store import User
from microsub.admin.check.command import check_store
from microsub.redis import keys
from microsub.redis.connect import connect
from microsub.redis.protocol import Command, Redis
from tests.support.lived_in import LATER, LivedIn
from tests.support.timelines import readings_of_layout_14
from tests.support.waiting import wait_until

A, B, C = "1", "2", "3"
COPIES = keys.duplicates("a.example")


@pytest.fixture
async def lived_in(real_redis: Redis) -> AsyncIterator[LivedIn]:
    here = LivedIn(real_redis)
    await here.begin()
    return here


async def test_a_sound_store_is_clean(lived_in: LivedIn) -> None:
    """Normal use leaves nothing to find, and a repair changes nothing."""
    report = await lived_in.check()
    assert report.left == ()
    assert report.examined["users"] == 2
    assert report.examined["items"] == 20
    assert (await lived_in.check(repair=True)).repaired == ()


async def test_a_foreign_token_is_no_finding(lived_in: LivedIn) -> None:
    """It has its own list, and expires."""
    ann = await lived_in.accounts.user("ann")
    assert ann
    vouched = Vouched(frozenset({"read"}), "https://app.example/", LATER)
    tokens = ForeignTokens(lived_in.redis)
    assert await tokens.remember(User("ann", ann.me), "ab" * 32, vouched, until=LATER + 600, grace=3600)
    report = await lived_in.check(repair=True)
    assert (report.left, report.repaired) == ((), ())
    assert [token.client for token in await lived_in.accounts.tokens("ann")] != ["https://app.example/"]


async def test_a_feeds_temporary_keys_may_expire(lived_in: LivedIn) -> None:
    """This holds for followed feeds, too; without a time to live it is found."""
    await lived_in.redis.command("SET", keys.feed_fingerprints(A), "marks", "EX", 100)
    assert (await lived_in.check()).left == ()
    await lived_in.redis.command("PERSIST", keys.feed_fingerprints(A))
    assert [one.subject for one in (await lived_in.check(repair=True)).repaired] == [keys.feed_fingerprints(A)]
    assert (await lived_in.check()).left == ()


async def test_a_kept_feed_never_expires(lived_in: LivedIn) -> None:
    """Programs save posts into it; a time to live is found and removed."""
    feed = await lived_in.feeds.ensure("https://kept.example/feed", LATER)
    await lived_in.feeds.keep(feed.id)
    assert (await lived_in.check()).left == ()
    await lived_in.redis.command("EXPIRE", keys.feed(feed.id), 100)
    assert [one.subject for one in (await lived_in.check(repair=True)).repaired] == [keys.feed(feed.id)]
    assert (await lived_in.check()).left == ()


async def credentials(lived_in: LivedIn) -> tuple[LocalCredentials, str, Passkey]:
    """Gives Ann a password, a handle and a passkey."""
    store, passkey = LocalCredentials(lived_in.redis), Passkey("aWQ", "Stick", b"key", 0, LATER)
    await store.set_password("ann", "$argon2id$…", LATER)
    await store.add_passkey("ann", passkey)
    return store, await store.handle("ann"), passkey


async def test_credentials_are_sound(lived_in: LivedIn) -> None:
    """Data for signing in isn't a finding."""
    store, _, _ = await credentials(lived_in)
    await store.invite("ann")
    await store.remember_device("ann", LATER)
    await Sessions(lived_in.redis).confirm("ann", "session")
    report = await lived_in.check(repair=True)
    assert (report.left, report.repaired) == ((), ())


async def test_a_handle_leads_to_its_user_again(lived_in: LivedIn) -> None:
    """After a crash between two writes, missing handles are restored and superfluous ones removed."""
    store, handle, _ = await credentials(lived_in)
    await lived_in.redis.command("HDEL", keys.handles(), handle)
    await lived_in.redis.command("HSET", keys.handles(), "00", "bob")
    assert await store.user_of(handle) is None
    repaired = (await lived_in.check(repair=True)).repaired
    assert {one.what for one in repaired} == {"a handle that doesn't point to its user", "a handle without a user"}
    assert await store.user_of(handle) == "ann"
    assert await lived_in.redis.command("HLEN", keys.handles()) == 1
    assert (await lived_in.check()).left == ()


DAMAGE: dict[str, tuple[list[Command], str, str]] = {
    # name: the state after a crash, or after Redis has lost a second; its subject, its message
    "user not listed": ([("SREM", keys.users(), "ann")], keys.user("ann"), "isn't listed"),
    "listed nobody": ([("SADD", keys.users(), "eve")], keys.user("eve"), "without a record"),
    "both unread and read": ([("SADD", keys.unread("ann", "home"), "1")], "ann/home 1", "both unread and read"),
    "dangling id": ([("DEL", keys.item("7"))], "ann/home 7", "an id without an item"),
    "muted but shown": (
        [("HSET", keys.muted("bob", "home"), "https://a.example/", "https://a.example/")],
        "bob/home 1", "shown, though muted",
    ),
    "blocked but there": (
        [("HSET", keys.blocked("bob", "global"), "https://a.example/", "https://a.example/")],
        "bob/home 1", "though blocked",
    ),
    "no place in the order of arrival": (
        [("ZREM", keys.arrivals("ann"), "1")], "ann 1", "not in the order of arrival",
    ),
    "a place of nothing": ([("ZADD", keys.arrivals("ann"), 5, "99")], "ann 99", "though no channel shows it"),
    "counted wrong": (
        [("HSET", keys.arrivals_more("ann"), "1", 3)],
        "ann 1", "counted as shown in 4 channels by the order of arrival, not in 1",
    ),
    "no order of arrival": ([("DEL", keys.arrivals("bob"))], "bob 1", "not in the order"),
    "hidden for nothing": ([("DEL", keys.muted("ann", "work"))], "ann/work 13", "though not muted"),
    "item unclaimed": (
        [("HDEL", keys.feed_guids(A), "https://a.example/3")], keys.item("9"), "without its guid's claim",
    ),
    "item not in the index": ([("ZREM", keys.feed_items(A), "9")], keys.item("9"), "missing from its feed's index"),
    "index of nothing": ([("ZADD", keys.feed_items(A), 5, "0")], f"{keys.feed_items(A)} 0", "doesn't exist"),
    "an outbox of nothing": ([("SADD", keys.feed_outbox(A), "0")], f"{keys.feed_outbox(A)} 0", "doesn't exist"),
    "feed lost": (
        [("DEL", keys.feed(A), keys.feed_subscribers(A))], f"{keys.feed_subscribers(A)} ann/home", "isn't among",
    ),
    "feed unreachable": ([("DEL", keys.feeds_by_url())], keys.feed(A), "no URL points to"),
    "follower unknown": ([("SREM", keys.feed_subscribers(A), "ann/home")], keys.feed_subscribers(A), "isn't among"),
    "follower in vain": ([("SADD", keys.feed_subscribers(A), "ann/work")], keys.feed_subscribers(A), "doesn't follow"),
    "followed and ending": ([("EXPIRE", keys.feed_guids(A), 99)], keys.feed_guids(A), "followed or kept"),
    "unfollowed and staying": ([("PERSIST", keys.feed_guids(C))], keys.feed_guids(C), "nobody follows"),
    "unscheduled": ([("ZREM", keys.host_due("a.example"), A)], keys.feed(A), "never polled"),
    "host not in line": ([("ZREM", keys.hosts_due(), "a.example")], keys.feed(A), "never polled"),
    "counter of items": ([("SET", keys.item_ids(), 5)], keys.item_ids(), "lower than"),
    "counter of feeds": ([("DEL", keys.feed_ids())], keys.feed_ids(), "lower than"),
    "no time to live": ([("PERSIST", COPIES)], COPIES, "has no time to live"),
    "a time to live": ([("EXPIRE", keys.posts("ann", "home"), 99)], keys.posts("ann", "home"), "must be permanent"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
async def test_damage_is_found_named_and_repaired(lived_in: LivedIn, name: str) -> None:
    """The check names it and changes nothing, the repair restores it, and no item becomes unread again."""
    commands, subject, what = DAMAGE[name]
    unread = {
        (user, uid): await lived_in.redis.command("SMEMBERS", keys.unread(user, uid))
        for user, uid in (("ann", "home"), ("ann", "work"), ("bob", "home"))
    }
    for command in commands:
        await lived_in.redis.command(*command)
    report = await lived_in.check()
    assert any(one.subject.startswith(subject) and what in one.what for one in report.left), report.as_text()
    assert set((await lived_in.check()).left) == set(report.left)
    repaired = await lived_in.check(repair=True)
    assert repaired.left == (), repaired.as_text()
    assert set(report.left) <= set(repaired.repaired)
    assert (await lived_in.check()).left == ()
    if name != "hidden for nothing":  # without a rule, nothing is muted
        for (user, uid), before in unread.items():
            assert set(await lived_in.redis.command("SMEMBERS", keys.unread(user, uid))) <= set(before)


async def test_duplicates_that_were_permanent_get_their_year(lived_in: LivedIn) -> None:
    """The repaired key lives for 400 days, as when it was written."""
    await lived_in.redis.command("PERSIST", COPIES)
    await lived_in.check(repair=True)
    assert await lived_in.redis.command("TTL", COPIES) > 399 * 86400


async def test_a_repaired_dangling_id_doesnt_come_back(lived_in: LivedIn) -> None:
    """It left with a reason, so the feed that still lists it doesn't bring it back."""
    await lived_in.redis.command("DEL", keys.item("7"))
    await lived_in.check(repair=True)
    assert "7" not in dict(await lived_in.shown("ann", "home"))
    await lived_in.post("a.example", 12)
    assert "7" in await lived_in.timelines.left_for_good("ann", "home", ["7"])
    assert len(await lived_in.shown("ann", "home")) == 10


async def test_a_condemned_item_is_no_finding(lived_in: LivedIn) -> None:
    """The feed forgets a condemned item first; after a crash, the next sweep deletes it."""
    await lived_in.redis.command("HSET", keys.item("18"), "condemned", "5")
    await lived_in.redis.command("ZREM", keys.feed_items(C), "18")
    assert (await lived_in.check()).left == ()


async def test_a_number_of_channels_that_grows_is_no_finding(lived_in: LivedIn) -> None:
    """It differs from look to look while the feeds of a user are filled."""

    async def count() -> None:
        while True:
            await lived_in.redis.command("HINCRBY", keys.arrivals_more("ann"), "1", 1)
            await asyncio.sleep(0.01)

    counting = asyncio.create_task(count())
    await wait_until(lambda: lived_in.redis.command("HGET", keys.arrivals_more("ann"), "1"))
    report = await check_store(lived_in.redis, lived_in.follow_repair, clock=lived_in.clock, pause=0.3)
    counting.cancel()
    assert report.left == ()
    await lived_in.redis.command("HDEL", keys.arrivals_more("ann"), "1")


async def test_an_unknown_key_is_reported_and_not_changed(lived_in: LivedIn) -> None:
    """A misspelt key of ours is a finding that a repair leaves; keys of other programs are only counted."""
    await lived_in.redis.command("SET", "user:{ann}:zchannel:home:post", 1)
    await lived_in.redis.command("SET", "zchannel:home:posts", 1)
    report = await lived_in.check(repair=True)
    assert [one.subject for one in report.left] == ["user:{ann}:zchannel:home:post"]
    assert report.examined["keys of others"] == 2
    assert await lived_in.redis.command("EXISTS", "user:{ann}:zchannel:home:post") == 1
    await lived_in.redis.pipeline([("DEL", "user:{ann}:zchannel:home:post"), ("DEL", "zchannel:home:posts")])


async def test_a_repair_keeps_read_state_order_and_rules(lived_in: LivedIn) -> None:
    """After several kinds of damage at once, timelines show the same as before."""
    before = [await lived_in.shown(user, uid) for user, uid in (("ann", "home"), ("bob", "home"))]
    order = [channel.uid for channel in await lived_in.channels.list("ann")]
    for command in (
        ("DEL", keys.users()), ("DEL", keys.feed(A), keys.feed_subscribers(A)), ("DEL", keys.feeds_by_url()),
        ("DEL", keys.hosts_due()), ("DEL", keys.host_due("a.example")),
        ("DEL", keys.feed_items(A)), ("SADD", keys.unread("ann", "home"), "1"),
    ):  # fmt: skip
        await lived_in.redis.command(*command)
    report = await lived_in.check(repair=True)
    assert report.left == (), report.as_text()
    assert [await lived_in.shown(user, uid) for user, uid in (("ann", "home"), ("bob", "home"))] == before
    assert [channel.uid for channel in await lived_in.channels.list("ann")] == order
    assert await lived_in.schedule.holds([(A, "a.example")]) == [True]


async def test_a_post_shown_twice_isnt_removed(lived_in: LivedIn) -> None:
    """A claim was lost, and a second item has taken it: the repair can't decide between the two."""
    await lived_in.redis.command("HDEL", keys.feed_guids(A), "https://a.example/3")
    await lived_in.post("a.example", 12)
    await readings_of_layout_14(lived_in.redis, "ann", "home")
    for key in (keys.posts("ann", "home"), keys.read("ann", "home")):
        await lived_in.redis.command("ZADD", key, 5, "21")
    (left,) = (await lived_in.check(repair=True)).left
    assert (left.subject, left.remedy) == (keys.item("9"), None)
    assert "both are shown" in left.what


async def test_it_works_on_a_cluster(cluster_url: str) -> None:
    """Keys of all masters are checked and repaired."""
    redis = await connect(cluster_url)
    try:
        here = LivedIn(redis)
        await here.begin()
        report = await here.check()
        assert report.left == (), report.as_text()
        assert report.examined["items"] == 20
        for name in ("dangling id", "user not listed", "both unread and read", "unscheduled", "item unclaimed"):
            for command in DAMAGE[name][0]:
                await redis.command(*command)
        assert len((await here.check()).left) >= 5
        assert (await here.check(repair=True)).left == ()
    finally:
        await redis.aclose()


async def test_an_unclaimed_post_is_left_to_the_sweep(lived_in: LivedIn) -> None:
    """A worker died between writing a post and claiming its guid: no timeline has the post, so it isn't a finding."""
    written = ("HSET", keys.item("21"), "ID", "21", "Data", '{"type":"entry"}', "score", "5", "feed", A, "guid", "g")
    await lived_in.redis.command("INCR", keys.item_ids())
    await lived_in.redis.command(*written, "discovered", str(LATER - 2 * 86400))
    assert (await lived_in.check()).left == ()
