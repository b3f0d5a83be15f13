"""Timelines: adding, paging, marking, removing and moving items; on a fake and on a real Redis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from microsub.model.reader import Cursor, Duplicate, PageQuery, Reason, View
from microsub.model.settings import Filters, FollowSettings, OwnChannelSettings
from microsub.redis import keys
from microsub.redis.protocol import Refusal, ScriptCall
from microsub.timelines.add import Added, TimelineTarget
from microsub.timelines.rules import set_apart
from microsub.timelines.sync.arrivals import keep_order
from tests.support.one_reader import ANN, NOW, OneReader, item
from tests.support.redis_wrappers import Between


async def test_a_large_first_fill_keeps_its_time_of_following(world: OneReader) -> None:
    """A first fill that is larger than a script call keeps its time of following for all of its batches."""
    await world.channels.follow(ANN, "work", "2", "https://2.example/feed", 1e9)
    items = world.items.know("2", *(item(n) for n in range(1, 2301)))
    filled = await world.timelines.add(ANN, "work", "2", items, now=NOW, limit=0)
    assert (len(filled.added), len(filled.read)) == (10, 2290)


async def test_a_large_first_fill_respects_fresh(world: OneReader) -> None:
    """Also if that is more than a script call takes; a later item is unread if it is newer than those."""
    await world.channels.follow(ANN, "work", "2", "https://2.example/feed", 1e9)
    items = world.items.know("2", *(item(n) for n in range(1, 2301)))
    filled = await world.timelines.add(ANN, "work", "2", items, now=NOW, limit=0, fresh=1500)
    assert (len(filled.added), len(filled.read)) == (1500, 800)
    late = world.items.know("2", item(9000), item(3000, 800.5), item(3001, 801.5))
    again = await world.timelines.add(ANN, "work", "2", late, now=NOW, limit=0, fresh=3)
    assert (again.added, again.read) == (("9000", "3001"), ("3000",))


async def test_own_posts_are_added_as_read(world: OneReader) -> None:
    """Also if another feed could have the same post; and what they mark as unread stays unread."""
    own = replace(item(8, NOW), is_own=True, duplicates=(Duplicate("9", "2"),))
    result = await world.add("home", own, replace(item(7, NOW), is_own=True), item(6, NOW))
    assert (result.added, set(result.read)) == (("6",), {"7", "8"})
    assert await world.unread("home") == 1
    await world.timelines.mark_unread(ANN, "home", ["7"], NOW)
    await world.add("home", replace(item(7, NOW), is_own=True))
    assert await world.unread("home") == 2


async def test_a_muted_post_that_arrives_twice_is_added_once(world: OneReader) -> None:
    """It is found among the hidden ones."""
    await world.rules.mute(ANN, "home", "https://bob.example/", NOW)
    assert (await world.add("home", item(7, NOW, author="https://bob.example/"))).hidden == ("7",)
    assert await world.add("home", item(7, NOW, author="https://bob.example/")) == Added()


async def test_a_hidden_post_stays_hidden_without_rules(world: OneReader) -> None:
    """It arrives again while an unmute gives posts back in steps."""
    await world.rules.mute(ANN, "home", "https://bob.example/", NOW)
    assert (await world.add("home", item(7, NOW, author="https://bob.example/"))).hidden == ("7",)
    await world.redis.command("DEL", keys.muted(ANN, "home"))
    assert await world.add("home", item(7, NOW, author="https://bob.example/")) == Added()
    assert await world.ids("home") == []


async def test_a_post_of_two_feeds_is_hidden_only_if_both_are(world: OneReader) -> None:
    """One is hidden in *All*; the post is shown there as soon as the other brings it."""
    hidden = FollowSettings(hide_in_all=True)
    await world.channels.follow(ANN, "home", "2", "https://2.example/feed", NOW - 10_000, settings=hidden)
    await world.add("home", item(7, NOW), feed="2")
    assert await world.redis.command("SMEMBERS", keys.apart(ANN, "home"))
    await world.add("home", item(7, NOW), feed="1")
    assert not await world.redis.command("EXISTS", keys.apart(ANN, "home"))


async def test_scores_round_trip_through_cursors(world: OneReader) -> None:
    """Scores that differ in the last microsecond, and those near 1970, make cursors that hold their place."""
    scores = [1_700_000_000.000001, 1_700_000_000.000002, 0.000001, 0.000003, 123456.789, -5.5]
    await world.add("home", *(item(n, score) for n, score in enumerate(scores, 1)))
    page = await world.timelines.page(ANN, "home", PageQuery(limit=100), NOW)
    assert [row.id for row in page.rows] == ["2", "1", "5", "4", "3", "6"]
    for index, row in enumerate(page.rows):
        cursor = Cursor.decode(Cursor(row.score, row.id).encode(), "after")
        assert await world.ids("home", after=cursor) == [other.id for other in page.rows[index + 1 :]]


async def test_long_timelines_are_marked_in_batches(world: OneReader) -> None:
    """More items than one script call takes are all marked and counted once, in one channel and in all channels."""
    await world.follow("work", "1")
    for uid in ("home", "work"):
        await world.add(uid, *(item(n) for n in range(1, 2501)))
    assert await world.timelines.mark_read_before(ANN, "home", "2400", NOW) == 2400
    assert await world.timelines.mark_all_read(ANN, "global", NOW) == 2500
    assert await world.unread("work") == 0


async def test_a_page_of_one_source_is_bounded(world: OneReader) -> None:
    """A source with many posts: it looks at 1,000 ids, returns a short page, and continues where it stopped."""
    await world.follow("home", "2")
    await world.add("home", *(item(n) for n in range(2000, 4500)))
    await world.add("home", *(item(n) for n in range(1, 31)), feed="2")
    for n in range(10_000, 11_000):
        world.items.know("2", item(n))
    cursor, seen, requests = None, [], 0
    while requests < 10:
        requests += 1
        page = await world.timelines.page(ANN, "home", PageQuery(limit=20, after=cursor, source="2"), NOW)
        seen += [row.id for row in page.rows]
        if not page.older:
            break
        last = page.rows[-1:]
        cursor = page.resume or Cursor(last[0].score, last[0].id)
    assert seen == [str(n) for n in range(30, 0, -1)]
    assert requests == 4


@pytest.mark.parametrize("uid", ["home", "global"])
@pytest.mark.parametrize("view", ["all", "unread", "read"])
async def test_posts_of_one_source_are_found_behind_any_number(world: OneReader, uid: str, view: View) -> None:
    """Each page is full and ends exactly, in both directions; hidden, muted and removed posts aren't on it."""
    for feed in ("2", "3"):
        await world.follow("home", feed)
    await world.follow("work", "2")
    await world.rules.mute(ANN, "home", "https://loud.example/", NOW)
    await world.add("home", *(item(n) for n in range(2000, 3200)))
    await world.add("home", *(item(n) for n in range(1, 31)), item(31, author="https://loud.example/"), feed="2")
    await world.add("work", *(item(n) for n in range(28, 36)), feed="2")
    await set_apart(world.redis, world.items, ANN, "work", "2", hides=True)
    await world.timelines.remove(ANN, "home", ["5"], NOW)
    await world.timelines.mark_read(ANN, "home", [str(n) for n in range(1, 31, 3)], NOW)
    there = [n for n in range(30, 0, -1) if n != 5]
    expected = [str(n) for n in there if view == "all" or (n % 3 == 1) == (view == "read")]
    for direction in ("after", "before"):
        seen, cursor, query = [], None, PageQuery(limit=4, view=view, source="2")
        if direction == "before":
            cursor = Cursor("0", "0")
        for _ in range(12):
            page = await world.timelines.page(ANN, uid, query._replace(**{direction: cursor}), NOW)
            seen += page.ids if direction == "after" else page.ids[::-1]
            assert all(row.score for row in page.rows)
            assert {row.channel for row in page.rows} <= set(page.names)
            cursor = page.last if direction == "after" else page.first
            if cursor is None or (direction == "after" and not page.older):
                break
        assert (seen if direction == "after" else seen[::-1]) == expected


async def test_one_source_in_hundreds_of_channels_is_bounded(world: OneReader) -> None:
    """In all channels, few posts are looked up; many are found by examining posts, as those of a large feed."""
    redis, visits = world.redis, 0

    async def before(name: str, args: Any) -> None:
        nonlocal visits
        visits += name == "timeline_shown"

    world = OneReader(Between(redis, before))
    await world.follow("home", "2")
    await world.follow("home", "3")
    await redis.command("ZADD", keys.channels(ANN), *(part for n in range(500) for part in (10 + n, f"c{n}")))
    await redis.pipeline([("HSET", keys.channel(ANN, f"c{n}"), "name", f"C{n}") for n in range(500)])
    await world.add("home", *(item(n) for n in range(2000, 2300)))
    await world.add("home", *(item(n) for n in range(1, 801)), feed="2")
    await world.add("home", *(item(n) for n in range(900, 930)), feed="3")
    for source, ids, most in (("2", range(800, 0, -1), 0), ("3", range(929, 899, -1), 10)):
        visits, seen, query = 0, list[str](), PageQuery(limit=20, source=source)
        page = await world.timelines.page(ANN, "global", query, NOW)
        while page.older:
            seen += page.ids
            page = await world.timelines.page(ANN, "global", query._replace(after=page.end()), NOW)
        assert [*seen, *page.ids] == [str(n) for n in ids]
        assert visits <= most


async def test_an_unfollow_that_meets_a_refollow_takes_nothing(world: OneReader) -> None:
    """Late batches of an unfollow don't remove items of a new follow."""
    await world.add("home", item(1))
    await world.timelines.unfollow(ANN, "home", "1", NOW)
    assert await world.ids("home") == ["1"]


async def test_items_can_be_put_in_without_a_feed(world: OneReader) -> None:
    """A post that comes from no feed is added once, and stays out after it was removed."""
    world.items.know("", item(5))
    assert (await world.timelines.put(ANN, "notifications", item(5), NOW)).added == ("5",)
    await world.timelines.remove(ANN, "notifications", ["5"], NOW)
    assert await world.timelines.put(ANN, "notifications", item(5), NOW) == Added()


async def test_an_item_that_was_deleted_on_its_way_in_is_taken_back(world: OneReader) -> None:
    """A process that saw the item before the deletion may add it afterwards: then it is removed again permanently."""
    world.items.know("1", item(2))
    added = await world.timelines.add(ANN, "home", "1", [item(1), item(2)], now=NOW, limit=0)
    assert added.added == ("2",)
    assert await world.ids("home") == ["2"]
    assert await world.add("home", item(1)) == Added()


async def test_withdrawing_everywhere_reaches_removed_channels(world: OneReader) -> None:
    """A removed channel that is restored doesn't bring back items that were withdrawn meanwhile."""
    await world.add("home", item(1))
    await world.channels.disable(ANN, "home", NOW)
    assert await world.timelines.withdraw(ANN, "global", ["1"], Reason.SWEPT, NOW) == 1
    assert await world.redis.command("ZCARD", keys.posts(ANN, "home")) == 0


async def test_timelines_that_share_a_call_are_changed_apart(world: OneReader) -> None:
    """A post for 70 timelines of two users takes four calls; each user gets the arrivals and events of their own."""
    await world.accounts.add_user("bob", "https://bob.example/", NOW)
    uids = [f"c{number}" for number in range(35)]
    for user in (ANN, "bob"):
        await keep_order(world.redis, world.items, user, NOW - 100_000)
        for uid in uids:
            await world.channels.create(user, uid, NOW, uid)
            assert await world.channels.follow(user, uid, "1", "https://1.example/feed", NOW - 10_000)
    await world.redis.command("XADD", keys.live_events("bob"), "*", "event", "begin")
    await world.redis.command("EXPIRE", keys.live_events("bob"), 60)
    sizes = []
    scripts = world.redis.scripts

    async def counted(calls: Sequence[ScriptCall]) -> list[Any]:
        sizes.append(len(calls))
        return await scripts(calls)

    world.redis.scripts = counted  # type: ignore[method-assign]
    targets = [TimelineTarget(user, uid, 0) for user in (ANN, "bob") for uid in uids]
    [one] = world.items.know("1", item(7, NOW))
    found = await world.timelines.add_to(targets, world.timelines.delivery("1", [one], NOW))
    assert sizes == [70 if world.redis.is_cluster else 4]
    assert [added.added for added in found] == [("7",)] * 70
    for user in (ANN, "bob"):
        assert await world.redis.command("ZCARD", keys.arrivals(user)) == 1
        assert await world.redis.command("HGET", keys.arrivals_more(user), "7") == b"34"
    events = await world.redis.command("XRANGE", keys.live_events("bob"), "-", "+")
    assert [fields[3].decode() for _, fields in events[1:]] == uids
    assert await world.redis.command("EXISTS", keys.live_events(ANN)) == 0


async def test_timelines_of_one_call_keep_their_own_rules(world: OneReader) -> None:
    """Each has its own rules, limit, pause, settings and time of following, and the next one has none of them.

    Some channels take no part.
    """
    now, own = NOW - 10_000, OwnChannelSettings
    for uid, settings, follow in (
        ("muting", own(), FollowSettings()),
        ("blocking", own(), FollowSettings()),
        ("paused", own(), FollowSettings(paused=True)),
        ("apart", own(), FollowSettings(hide_in_all=True)),
        ("full", own(max_items=1), FollowSettings()),
        ("late", own(), FollowSettings()),
        ("choosy", own(filters=Filters.of({"include_types": ["photo"]})), FollowSettings()),
        ("removed", own(), FollowSettings()),
    ):
        for one in (uid, f"{uid}-next"):
            await world.channels.create(ANN, one, NOW, one)
            await world.follow(one, "2")
        await world.channels.set_settings(ANN, uid, settings, NOW)
        await world.channels.follow(ANN, uid, "1", "https://1.example/feed", now, settings=follow)
        await world.channels.follow(ANN, f"{uid}-next", "1", "https://1.example/feed", now)
    await world.rules.mute(ANN, "muting", "https://bob.example/", NOW)
    await world.rules.block(ANN, "blocking", "https://bob.example/", NOW)
    await world.add("full", item(5, NOW + 5), feed="2")
    await world.channels.set_unread_from(ANN, "late", "1", NOW + 1)
    await world.channels.disable(ANN, "removed", NOW)
    expected = {
        "muting": Added(hidden=("7",)), "blocking": Added(), "paused": Added(), "apart": Added(read=("7",)),
        "full": Added(), "late": Added(read=("7",)), "choosy": Added(), "removed": Added(subscribed=False),
    }  # fmt: skip
    in_turn = {
        one: added for uid, added in expected.items() for one, added in ((uid, added), (f"{uid}-next", Added(("7",))))
    }
    targets = [TimelineTarget(ANN, uid, 3 if uid in expected else 0, 0 if uid == "apart" else 10) for uid in in_turn]
    posts = world.items.know("1", item(7, NOW - 20_000, author="https://bob.example/"))
    found = await world.timelines.add_to(targets, world.timelines.delivery("1", posts, NOW))
    assert dict(zip(in_turn, found, strict=True)) == in_turn
    assert [uid for uid in in_turn if await world.redis.command("EXISTS", keys.apart(ANN, uid))] == ["apart"]


@pytest.mark.parametrize("key", [keys.posts, keys.unread])
async def test_a_broken_timeline_keeps_no_other_from_its_posts(
    world: OneReader, key: Callable[[str, str], str]
) -> None:
    """A call ends with the error of the first one; the others get the posts alone, with their own arrivals."""
    await world.accounts.add_user("bob", "https://bob.example/", NOW)
    await keep_order(world.redis, world.items, "bob", NOW - 100_000)
    await world.channels.create("bob", "Home", NOW, "home")
    assert await world.channels.follow("bob", "home", "1", "https://1.example/feed", NOW - 10_000)
    await world.redis.command("SET", key("bob", "home"), "broken")
    targets = [TimelineTarget(user, "home", 0) for user in ("bob", ANN)]
    [one] = world.items.know("1", item(7, NOW))
    with pytest.raises(Refusal):
        await world.timelines.add_to(targets, world.timelines.delivery("1", [one], NOW))
    await world.timelines.add_to(targets[1:], world.timelines.delivery("1", [one], NOW))
    assert await world.ids("home") == ["7"]
    assert await world.redis.command("ZCARD", keys.arrivals(ANN)) == 1
    assert await world.redis.command("HGET", keys.arrivals_more(ANN), "7") is None
