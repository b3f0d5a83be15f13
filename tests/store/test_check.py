"""The check of all invariants: a sound store passes; every broken one is found, named and mended."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from microsub.store import identitykeys, keys
from microsub.store.connect import connect
from microsub.store.identity.credentials import Credentials, Passkey
from microsub.store.identity.foreign import ForeignTokens, Principal, Vouched
from microsub.store.port import Command, Redis
from tests.support.lived_in import LATER, LivedIn

A, B, C = "1", "2", "3"
FEEDS = keys.channel_feeds("ann", "home")
GONE = keys.gone("ann", "home")
OLD = keys.channel("bob", "old")


@pytest.fixture
async def lived_in(real_redis: Redis) -> AsyncIterator[LivedIn]:
    here = LivedIn(real_redis)
    await here.begin()
    return here


async def test_a_sound_store_is_clean(lived_in: LivedIn) -> None:
    """Nothing is found in a store that was used as it should be, and a repair changes nothing."""
    report = await lived_in.check()
    assert report.left == ()
    assert report.examined["users"] == 2
    assert report.examined["items"] == 20
    assert report.examined["tokens"] == 1
    assert (await lived_in.check(mend=True)).repaired == ()


async def test_a_disabled_user_with_a_removed_channel_is_sound(lived_in: LivedIn) -> None:
    """Their channels stand where they stood, and a repair leaves them there."""
    await lived_in.accounts.disable_user("bob", LATER)
    await lived_in.feeds.unsubscribe(A, "bob", "home")
    report = await lived_in.check(mend=True)
    assert (report.left, report.repaired) == ((), ())


async def test_a_token_of_another_provider_is_no_stray(lived_in: LivedIn) -> None:
    """It has a list of its own, and ends by itself."""
    ann = await lived_in.accounts.user("ann")
    assert ann
    vouched = Vouched(frozenset({"read"}), "https://app.example/", LATER)
    tokens = ForeignTokens(lived_in.redis)
    assert await tokens.remember(Principal("ann", ann.me), "ab" * 32, vouched, until=LATER + 600, grace=3600)
    report = await lived_in.check(mend=True)
    assert (report.left, report.repaired) == ((), ())
    assert [token.client for token in await lived_in.accounts.tokens("ann")] != ["https://app.example/"]


async def test_what_a_feed_has_for_a_while_may_end(lived_in: LivedIn) -> None:
    """Also while somebody follows the feed; without an end it is found."""
    await lived_in.redis.command("SET", keys.feed_marks(A), "marks", "EX", 100)
    assert (await lived_in.check()).left == ()
    await lived_in.redis.command("PERSIST", keys.feed_marks(A))
    assert [one.subject for one in (await lived_in.check(mend=True)).repaired] == [keys.feed_marks(A)]
    assert (await lived_in.check()).left == ()


async def test_a_feed_that_is_kept_has_no_end(lived_in: LivedIn) -> None:
    """Programs save posts into it; a hand that gave it an end is found and mended."""
    feed = await lived_in.feeds.ensure("https://kept.example/feed", LATER)
    await lived_in.feeds.keep(feed.id)
    assert (await lived_in.check()).left == ()
    await lived_in.redis.command("EXPIRE", keys.feed(feed.id), 100)
    assert [one.subject for one in (await lived_in.check(mend=True)).repaired] == [keys.feed(feed.id)]
    assert (await lived_in.check()).left == ()


async def credentials(lived_in: LivedIn) -> tuple[Credentials, str, Passkey]:
    """Ann has a password, a handle and a passkey."""
    store, passkey = Credentials(lived_in.redis), Passkey("aWQ", "Stick", b"key", 0, LATER)
    await store.set_password("ann", "$argon2id$…", LATER)
    await store.add_passkey("ann", passkey)
    return store, await store.handle("ann"), passkey


async def test_credentials_are_sound(lived_in: LivedIn) -> None:
    """What somebody signs in by is no stray, and counted."""
    store, _, _ = await credentials(lived_in)
    await store.invite("ann")
    await store.remember_device("ann", LATER)
    await store.confirm("ann", "session", 60)
    report = await lived_in.check(mend=True)
    assert (report.left, report.repaired) == ((), ())
    assert report.examined["passkeys"] == 1


async def test_a_passkey_that_cant_be_read_is_removed_alone(lived_in: LivedIn) -> None:
    """And isn't shown before that."""
    store, _, passkey = await credentials(lived_in)
    for row in ("{}", "no JSON", '{"name":"x","key":"!","count":"1","created":1,"used":null,"transports":[]}', "[]"):
        await lived_in.redis.command("HSET", identitykeys.passkeys("ann"), "YmFk", row)
        assert (await store.overview("ann")).passkeys == (passkey,)
        assert await store.passkey("ann", "YmFk") is None
        (mended,) = (await lived_in.check(mend=True)).repaired
        assert mended.what == "a passkey that can't be read"
        assert (await lived_in.check()).left == ()
    assert (await store.overview("ann")).passkeys == (passkey,)


async def test_a_handle_leads_to_its_user_again(lived_in: LivedIn) -> None:
    """What a death between two writes left out is made good; what it left over goes."""
    store, handle, _ = await credentials(lived_in)
    await lived_in.redis.command("HDEL", identitykeys.handles(), handle)
    await lived_in.redis.command("HSET", identitykeys.handles(), "00", "bob")
    assert await store.user_of(handle) is None
    mended = (await lived_in.check(mend=True)).repaired
    assert {one.what for one in mended} == {"a handle that doesn't lead to its user", "a handle of nobody"}
    assert await store.user_of(handle) == "ann"
    assert await lived_in.redis.command("HLEN", identitykeys.handles()) == 1
    assert (await lived_in.check()).left == ()


SET_ZSET = "of the wrong type: found string, expected zset"

DAMAGE: dict[str, tuple[list[Command], str, str]] = {
    # name: commands of a hand, the subject and the sentence that name it
    "user not listed": ([("SREM", keys.users(), "ann")], keys.user("ann"), "isn't listed"),
    "user without record": ([("DEL", keys.user("ann"))], keys.user("ann"), "without their user's record"),
    "listed nobody": ([("SADD", keys.users(), "eve")], keys.user("eve"), "without a record"),
    "remains of nobody": (
        [("HSET", keys.token("eve", "0" * 64), "scope", "read"), ("SADD", keys.tokens("eve"), "0" * 64)],
        keys.user("eve"), "remains of a user",
    ),
    "waits for nothing": ([("HSET", keys.behind("ann"), "home 1", "soon")], keys.behind("ann"), "can't be read"),
    "no notifications": (
        [("ZREM", keys.channels("ann"), "notifications"), ("DEL", keys.channel("ann", "notifications"))],
        keys.channel("ann", "notifications"), "everybody has it",
    ),
    "channel not listed": ([("ZREM", keys.channels("ann"), "home")], keys.channel("ann", "home"), "in no list"),
    "channel undescribed": ([("DEL", keys.channel("ann", "home"))], keys.channel("ann", "home"), "without a descr"),
    "channel nameless": ([("HDEL", keys.channel("ann", "home"), "name")], keys.channel("ann", "home"), "a name"),
    "channel in both lists": (
        [("ZADD", keys.removed_channels("ann"), 5, "home")], keys.channel("ann", "home"), "in both lists",
    ),
    "channel marked as removed": (
        [("HSET", keys.channel("ann", "home"), "removed", 5)], keys.channel("ann", "home"), "marked as removed",
    ),
    "removed channel unmarked": ([("HDEL", OLD, "removed", "position")], OLD, "couldn't come back"),
    "settings": ([("HSET", keys.channel("ann", "home"), "settings", "{")], keys.channel("ann", "home"), "be read"),
    "settings in force": ([("HSET", keys.settings(), "user:ann", "{")], f"{keys.settings()} user:ann", "can't be read"),
    "remains of a channel": (
        [("ZADD", keys.posts("ann", "lost"), 1, "1")], keys.channel("ann", "lost"), "remains of a channel",
    ),
    "unlisted token": ([("DEL", keys.tokens("ann"))], "user:{ann}:token:", "isn't listed"),
    "rule in a wrong form": (
        [("HSET", keys.muted("ann", "work"), "HTTP://X.example", "HTTP://X.example")],
        f"{keys.muted('ann', 'work')} HTTP://X.example", "never asked for",
    ),
    "subscription unreadable": ([("HSET", FEEDS, "2", "{")], f"{FEEDS} 2", "can't be read"),
    "unfilled in vain": (
        [("HSET", keys.channel_unfilled("ann", "home"), "77", 5)], keys.channel_unfilled("ann", "home"), "waits for",
    ),
    "both unread and read": ([("ZADD", keys.unread("ann", "home"), 5, "1")], "ann/home 1", "both unread and read"),
    "gone without reason": ([("ZADD", GONE, 5, "99")], "ann/home 99", "without a reason"),
    "dangling id": ([("DEL", keys.item("7"))], "ann/home 7", "an id without an item"),
    "no id": ([("ZADD", keys.posts("ann", "home"), 5, "x")], "ann/home x", "no id of an item"),
    "wrong place": (
        [("ZADD", keys.posts("ann", "home"), 5, "9"), ("ZADD", keys.unread("ann", "home"), 5, "9")],
        "ann/home 9", "another place",
    ),
    "muted but shown": (
        [("HSET", keys.muted("bob", "home"), "https://a.example/", "https://a.example/")],
        "bob/home 1", "shown, though muted",
    ),
    "blocked but there": (
        [("HSET", keys.blocked("bob", "global"), "https://a.example/", "https://a.example/")],
        "bob/home 1", "though blocked",
    ),
    "hidden for nothing": ([("DEL", keys.muted("ann", "work"))], "ann/work 13", "nobody mutes it"),
    "item without data": ([("HDEL", keys.item("7"), "Data")], keys.item("7"), "no Data"),
    "item without score": ([("HDEL", keys.item("7"), "score")], keys.item("7"), "no score"),
    "item with another id": ([("HSET", keys.item("7"), "ID", "8")], keys.item("7"), "another item's ID"),
    "item unclaimed": (
        [("HDEL", keys.feed_guids(A), "https://a.example/3")], keys.item("9"), "without its guid's claim",
    ),
    "item not in the index": ([("ZREM", keys.feed_items(A), "9")], keys.item("9"), "missing in its feed's index"),
    "index of nothing": ([("ZADD", keys.feed_items(A), 5, "0")], f"{keys.feed_items(A)} 0", "isn't there"),
    "index of another's": ([("ZADD", keys.feed_items(A), 5, "14")], f"{keys.feed_items(A)} 14", "another feed's"),
    "pending for nothing": ([("SADD", keys.feed_pending(A), "x")], f"{keys.feed_pending(A)} x", "isn't there"),
    "guid of nothing": ([("HSET", keys.feed_guids(A), "g", "x")], f"{keys.feed_guids(A)} g", "which is no item"),
    "guid of another's": ([("HSET", keys.feed_guids(A), "g", "14")], f"{keys.feed_guids(A)} g", "another feed's"),
    "double item": (
        [
            ("INCR", keys.item_ids()),
            ("HSET", keys.feed(A), "created", "1500000000"),
            ("HSET", keys.item("21"), "ID", "21", "Data", '{"type":"entry"}', "score", "5", "feed", A,
             "discovered", "1600000000", "guid", "https://a.example/3"),
        ],
        keys.item("21"), "belongs to item 9",
    ),
    "twin unreadable": ([("SADD", "twins:twin a.example 1", "x")], "twins:twin a.example 1", "can't be read"),
    "copy of too few parts": (
        [("SADD", "twins:twin b.example 1", "x y")], "twins:twin b.example 1", "can't be read",
    ),
    "user of no name": ([("SADD", keys.users(), b"\xff")], keys.users(), "no name"),
    "channel of no name": ([("ZADD", keys.channels("ann"), 5, "z z")], keys.channels("ann"), "no name"),
    "removed channel of no name": (
        [("ZADD", keys.removed_channels("bob"), 5, b"\xff")], keys.removed_channels("bob"), "no name",
    ),
    "shown: no text": ([("ZADD", keys.posts("ann", "home"), 5, b"\xff")], keys.posts("ann", "home"), "no text"),
    "host: no text": ([("ZADD", keys.hosts_due(), 5, b"\xff")], keys.hosts_due(), "no text"),
    "feed without record": ([("DEL", keys.feed(A))], keys.feed(A), "without a record"),
    "feed without url": ([("HDEL", keys.feed(A), "url")], keys.feed(A), "without a URL"),
    "user with text for times": (
        [("HSET", keys.user("ann"), "created", "x")], keys.user("ann"), "not a number: created",
    ),
    "user disabled at no time": (
        [("HSET", keys.user("bob"), "disabled", "x")], keys.user("bob"), "not a number: disabled",
    ),
    "feed with text for a number": ([("HSET", keys.feed(A), "interval", "x")], keys.feed(A), "not a number: interval"),
    "feed of no address": ([("HSET", keys.feed(A), "url", "x")], keys.feed(A), "without a URL"),
    "channel of no text": (
        [("HSET", keys.channel("ann", "home"), "name", b"\xff")], keys.channel("ann", "home"), "no text",
    ),
    "guid of no text": ([("HSET", keys.feed_guids(A), "https://a.example/3", b"\xff")], keys.feed_guids(A), "no item"),
    **{
        f"token until {end}": (
            [
                ("HSET", keys.token("ann", "ab" * 32), "scope", "read", "client", "", "created", "5", "expires", end),
                ("SADD", keys.tokens("ann"), "ab" * 32),
            ],
            keys.token("ann", "ab" * 32), "allows nothing",
        )
        for end in ("nan", "inf", "1e+300", "-1", "soon")
    },
    "token of no day": (
        [
            ("HSET", keys.token("ann", "ab" * 32), "scope", "read", "client", "", "created", "nan"),
            ("SADD", keys.tokens("ann"), "ab" * 32),
        ],
        keys.token("ann", "ab" * 32), "without client or date",
    ),
    "user of no day": ([("HSET", keys.user("ann"), "created", "inf")], keys.user("ann"), "not a number: created"),
    "token of nothing": (
        [("HSET", keys.token("ann", "ab" * 32), "strange", "x")], keys.token("ann", "ab" * 32), "allows nothing",
    ),
    "feed unreachable": ([("DEL", keys.feeds_by_url())], keys.feed(A), "no URL leads to"),
    "url to nowhere": ([("HSET", keys.feeds_by_url(), "https://x.example/", "x")], keys.feeds_by_url(), "no feed"),
    "follower unknown": ([("SREM", keys.feed_subscribers(A), "ann/home")], keys.feed_subscribers(A), "isn't among"),
    "follower in vain": ([("SADD", keys.feed_subscribers(A), "ann/work")], keys.feed_subscribers(A), "doesn't follow"),
    "follower of no form": ([("SADD", keys.feed_subscribers(A), "x")], keys.feed_subscribers(A), "no channel"),
    "followed and ending": ([("EXPIRE", keys.feed_guids(A), 99)], keys.feed_guids(A), "though the feed is followed"),
    "unfollowed and staying": ([("PERSIST", keys.feed_guids(C))], keys.feed_guids(C), "nobody follows"),
    "unscheduled": ([("ZREM", keys.host_due("a.example"), A)], keys.feed(A), "never polled"),
    "host not in line": ([("ZREM", keys.hosts_due(), "a.example")], f"{keys.hosts_due()} a.example", "in line"),
    "host not in line but leased": (
        [("ZREM", keys.hosts_due(), "a.example"), ("HSET", keys.hosts_leases(), "a.example", 9)],
        f"{keys.hosts_due()} a.example", "in line",
    ),
    "host in line too late": (
        [("ZADD", keys.hosts_due(), LATER + 90000, "a.example")], f"{keys.hosts_due()} a.example", "later than",
    ),
    "feed at a time that never comes": (
        [("ZADD", keys.host_due("a.example"), "inf", A)], keys.host_due("a.example"), "never comes",
    ),
    "feed at a wrong host": ([("ZADD", keys.host_due("x.example"), 5, A)], keys.host_due("x.example"), "its own"),
    "nobody's feed waits": ([("ZADD", keys.host_due("a.example"), 5, "99")], keys.host_due("a.example"), "no such"),
    "unfollowed feed waits": ([("ZADD", keys.host_due("c.example"), 5, C)], keys.host_due("c.example"), "nobody"),
    "gone feed waits": (
        [("HSET", keys.feed(A), "gone", 1)], f"{keys.host_due('a.example')} 1", "gone for good",
    ),
    "counter of items": ([("SET", keys.item_ids(), 5)], keys.item_ids(), "behind"),
    "counter of feeds": ([("DEL", keys.feed_ids())], keys.feed_ids(), "behind"),
    "no time to live": ([("PERSIST", "twins:twin a.example 1")], "twins:twin a.example 1", "without a time to live"),
    "a time to live": ([("EXPIRE", keys.posts("ann", "home"), 99)], keys.posts("ann", "home"), "ends by itself"),
    "wrong type: timeline": (
        [("DEL", keys.posts("ann", "home")), ("SET", keys.posts("ann", "home"), "x")],
        keys.posts("ann", "home"), "found string, expected zset",
    ),
    "wrong type: users": ([("DEL", keys.users()), ("SET", keys.users(), "x")], keys.users(), "expected set"),
    "wrong type: user": ([("DEL", keys.user("ann")), ("SET", keys.user("ann"), "x")], keys.user("ann"), "wrong type"),
    "wrong type: channels": (
        [("DEL", keys.channels("ann")), ("SET", keys.channels("ann"), "x")], keys.channels("ann"), "wrong type",
    ),
    "wrong type: item": ([("DEL", keys.item("7")), ("SET", keys.item("7"), "x")], keys.item("7"), "wrong type"),
    "wrong type: feed": ([("DEL", keys.feed(A)), ("SADD", keys.feed(A), "x")], keys.feed(A), "wrong type"),
    "wrong type: guids": (
        [("DEL", keys.feed_guids(A)), ("SADD", keys.feed_guids(A), "x")], keys.feed_guids(A), "wrong type",
    ),
    "wrong type: hosts": ([("DEL", keys.hosts_due()), ("SET", keys.hosts_due(), "x")], keys.hosts_due(), "wrong type"),
    "wrong type: counter": ([("DEL", keys.item_ids()), ("SADD", keys.item_ids(), 1)], keys.item_ids(), "wrong type"),
    "wrong type: rules": (
        [("DEL", keys.muted("ann", "work")), ("SET", keys.muted("ann", "work"), 1)], keys.muted("ann", "work"), "type",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
async def test_damage_is_found_named_and_mended(lived_in: LivedIn, name: str) -> None:
    """One broken invariant: the check names it and changes nothing, the repair mends it, nothing comes back unread."""
    commands, subject, what = DAMAGE[name]
    unread = {
        (user, uid): await lived_in.redis.command("ZRANGE", keys.unread(user, uid), 0, -1)
        for user, uid in (("ann", "home"), ("ann", "work"), ("bob", "home"))
    }
    for command in commands:
        await lived_in.redis.command(*command)
    report = await lived_in.check()
    assert any(one.subject.startswith(subject) and what in one.what for one in report.left), report.as_text()
    assert set((await lived_in.check()).left) == set(report.left)
    mended = await lived_in.check(mend=True)
    assert mended.left == (), mended.as_text()
    assert set(report.left) <= set(mended.repaired)
    assert (await lived_in.check()).left == ()
    if name not in {"hidden for nothing", "wrong type: rules"}:  # without a rule, nothing is muted
        for (user, uid), before in unread.items():
            assert set(await lived_in.redis.command("ZRANGE", keys.unread(user, uid), 0, -1)) <= set(before)


async def test_a_mended_dangling_id_doesnt_come_back(lived_in: LivedIn) -> None:
    """It left with a reason; the feed that still lists it is none to bring it back."""
    await lived_in.redis.command("DEL", keys.item("7"))
    await lived_in.check(mend=True)
    assert "7" not in dict(await lived_in.shown("ann", "home"))
    await lived_in.post("a.example", 12)
    assert "7" in await lived_in.timelines.left_for_good("ann", "home", ["7"])
    assert len(await lived_in.shown("ann", "home")) == 10


async def test_what_a_sweep_is_about_to_delete_is_no_finding(lived_in: LivedIn) -> None:
    """The feed forgets a condemned item first; a crash behind that is for the next sweep."""
    await lived_in.redis.command("HSET", keys.item("18"), "condemned", "5")
    await lived_in.redis.command("ZREM", keys.feed_items(C), "18")
    assert (await lived_in.check()).left == ()


async def test_a_key_of_a_wrong_type_is_put_aside(lived_in: LivedIn) -> None:
    """Its content stays for a month under a name in the same slot."""
    await lived_in.redis.command("DEL", keys.posts("ann", "home"))
    await lived_in.redis.command("SET", keys.posts("ann", "home"), "precious")
    await lived_in.check(mend=True)
    name = keys.aside("ann", keys.posts("ann", "home"))
    assert await lived_in.redis.command("GET", name) == b"precious"
    assert await lived_in.redis.command("TTL", name) > 29 * 86400


@pytest.mark.parametrize("lost", ["all", "some"])
async def test_lost_posts_whose_state_is_known_are_shown_again(lived_in: LivedIn, lost: str) -> None:
    """Only `posts` was lost: what is left says of each post whether it was read, and that holds."""
    before = await lived_in.shown("ann", "home")
    if lost == "all":
        await lived_in.redis.command("DEL", keys.posts("ann", "home"))
    else:
        await lived_in.redis.command("ZREM", keys.posts("ann", "home"), "1", "5", "6")
    report = await lived_in.check(mend=True)
    assert report.left == (), report.as_text()
    assert await lived_in.shown("ann", "home") == before
    assert (await lived_in.check()).left == ()


async def test_what_has_left_is_not_shown_again(lived_in: LivedIn) -> None:
    """Nor is what is muted, nor what has no item."""
    before = await lived_in.shown("ann", "home")
    await lived_in.redis.command("ZADD", keys.unread("ann", "home"), 5, "4", 5, "999")
    await lived_in.redis.command("ZADD", keys.unread("ann", "work"), 5, "13")
    report = await lived_in.check(mend=True)
    assert report.left == (), report.as_text()
    assert await lived_in.shown("ann", "home") == before
    assert await lived_in.shown("ann", "work") == []


async def test_a_key_without_a_name_is_named_and_left_alone(lived_in: LivedIn) -> None:
    """A misspelt key of ours is a finding that no repair takes away; keys of other programs are counted only."""
    await lived_in.redis.command("SET", "user:{ann}:zchannel:home:post", 1)
    await lived_in.redis.command("SET", "zchannel:home:posts", 1)
    report = await lived_in.check(mend=True)
    assert [one.subject for one in report.left] == ["user:{ann}:zchannel:home:post"]
    assert report.examined["keys of others"] == 2
    assert await lived_in.redis.command("EXISTS", "user:{ann}:zchannel:home:post") == 1
    await lived_in.redis.pipeline([("DEL", "user:{ann}:zchannel:home:post"), ("DEL", "zchannel:home:posts")])


async def test_a_repair_keeps_read_state_order_and_rules(lived_in: LivedIn) -> None:
    """After much damage at once, what readers see is what they saw."""
    before = [await lived_in.shown(user, uid) for user, uid in (("ann", "home"), ("bob", "home"))]
    order = [channel.uid for channel in await lived_in.channels.list("ann")]
    for command in (
        ("DEL", keys.user("ann")), ("DEL", keys.users()), ("DEL", keys.feed(A)), ("DEL", keys.feeds_by_url()),
        ("DEL", keys.feed_subscribers(A)), ("DEL", keys.hosts_due()), ("DEL", keys.host_due("a.example")),
        ("DEL", keys.feed_items(A)), ("ZADD", keys.unread("ann", "home"), 5, "1"),
    ):  # fmt: skip
        await lived_in.redis.command(*command)
    report = await lived_in.check(mend=True)
    assert report.left == (), report.as_text()
    assert [await lived_in.shown(user, uid) for user, uid in (("ann", "home"), ("bob", "home"))] == before
    assert [channel.uid for channel in await lived_in.channels.list("ann")] == order
    assert await lived_in.schedule.holds([(A, "a.example")]) == [True]


async def test_it_works_on_a_cluster(cluster_url: str) -> None:
    """Keys of every master are examined, and what is wrong there is mended."""
    redis = await connect(cluster_url)
    try:
        here = LivedIn(redis)
        await here.begin()
        report = await here.check()
        assert report.left == (), report.as_text()
        assert report.examined["items"] == 20
        for name in ("dangling id", "wrong type: users", "wrong type: timeline", "unscheduled", "item unclaimed"):
            for command in DAMAGE[name][0]:
                await redis.command(*command)
        assert len((await here.check()).left) >= 5
        assert (await here.check(mend=True)).left == ()
    finally:
        await redis.aclose()


async def test_what_a_death_left_a_moment_ago_is_left_to_the_sweep(lived_in: LivedIn) -> None:
    """A worker that died between writing a post and claiming its guid: no finding for a day."""
    written = ("HSET", keys.item("21"), "ID", "21", "Data", '{"type":"entry"}', "score", "5", "feed", A, "guid", "g")
    await lived_in.redis.command("INCR", keys.item_ids())
    await lived_in.redis.command("HSET", keys.feed(A), "created", "1500000000")
    await lived_in.redis.command(*written, "discovered", str(LATER - 3600))
    assert (await lived_in.check()).left == ()
    await lived_in.redis.command("HSET", keys.item("21"), "discovered", str(LATER - 2 * 86400))
    assert [one.subject for one in (await lived_in.check()).left] == [keys.item("21")]
