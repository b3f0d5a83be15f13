"""Timelines: coming in, pages, marks, leaving, moving; on a fake and on a real Redis."""

from __future__ import annotations

import pytest

from microsub.errors import NotFound
from microsub.model.reader import Cursor, PageQuery, Reason, TimelineItem, Twin
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.timelines.add import Added, TimelineTarget
from microsub.timelines.rules import Rules
from tests.support.one_reader import ANN, NOW, OneReader, item


@pytest.fixture
async def world(redis: Redis) -> OneReader:
    world = OneReader(redis)
    await world.begin()
    return world


async def test_new_items_come_in_unread_and_newest_first(world: OneReader) -> None:
    """A page shows what was added, newest first, unread, and the channel counts it."""
    result = await world.add("home", item(1), item(3), item(2))
    assert result.added == ("3", "2", "1")
    page = await world.timelines.page(ANN, "home", PageQuery(limit=2), NOW)
    assert [(row.id, row.is_read, row.channel) for row in page.rows] == [("3", False, "home"), ("2", False, "home")]
    assert page.older
    assert page.names == {"home": "Home"}
    assert await world.unread("home") == 3


async def test_a_second_delivery_changes_nothing(world: OneReader) -> None:
    """The same items again leave counts, order and read flags as they are."""
    await world.add("home", item(1), item(2))
    await world.timelines.mark_read(ANN, "home", ["1"], NOW)
    assert await world.add("home", item(1), item(2)) == Added()
    assert await world.unread("home") == 1


async def test_a_channel_that_does_not_follow_takes_nothing(world: OneReader) -> None:
    """A delivery that meets an unfollow, or a deleted channel, does nothing and says so."""
    assert await world.add("work", item(1)) == Added(subscribed=False)
    assert await world.timelines.add(ANN, "nowhere", "1", [item(1)], now=NOW, limit=0) == Added(subscribed=False)
    assert await world.ids("work") == []


async def test_a_first_fill_is_read_but_for_the_newest(world: OneReader) -> None:
    """What a follow finds older than itself comes in as read beyond the `fresh` newest; later items are unread."""
    await world.channels.follow(ANN, "work", "2", "https://2.example/feed", 100.0)
    items = world.items.know("2", *(item(n) for n in range(1, 8)), item(200))
    first = await world.timelines.add(ANN, "work", "2", items, now=NOW, limit=0, fresh=3)
    assert first.added == ("200", "7", "6")
    assert first.read == ("5", "4", "3", "2", "1")
    late = await world.timelines.add(ANN, "work", "2", world.items.know("2", item(8)), now=NOW, limit=0, fresh=3)
    assert late.added == ("8",)


async def test_what_is_not_shown_takes_no_place_among_what_stays_unread(world: OneReader) -> None:
    """Of a new feed whose newest posts are muted or blocked, as many as the setting says are unread all the same."""
    for uid in ("one", "two"):
        await world.channels.create(ANN, uid, NOW, uid)
        await world.channels.follow(ANN, uid, "2", "https://2.example/feed", 1e9)
    rules = Rules(world.redis, world.items)
    await rules.mute(ANN, "one", "https://loud.example/", NOW)
    await rules.block(ANN, "two", "https://loud.example/", NOW)
    loud = [item(n, author="https://loud.example/") for n in range(2000, 2020)]
    items = world.items.know("2", *(item(n) for n in range(1, 1500)), *loud)
    for uid in ("one", "two"):
        filled = await world.timelines.add(ANN, uid, "2", items, now=NOW, limit=0, fresh=3)
        assert filled.added == ("1499", "1498", "1497")
        assert len(filled.read) == 1496
    assert await world.redis.command("ZCARD", keys.hidden(ANN, "one")) == 20


async def test_what_the_reader_is_done_with_takes_its_place(world: OneReader) -> None:
    """Who comes back to a feed whose newest posts they have removed isn't given older ones as unread for them."""
    await world.follow("work", "2")
    items = world.items.know("2", *(item(n) for n in range(1, 8)))
    await world.timelines.add(ANN, "work", "2", items, now=NOW, limit=0)
    await world.timelines.remove(ANN, "work", ["7", "6"], NOW)
    await world.channels.unfollow(ANN, "work", "2")
    await world.timelines.unfollow(ANN, "work", "2", NOW)
    await world.channels.follow(ANN, "work", "2", "https://2.example/feed", 1e9)
    again = await world.timelines.add(ANN, "work", "2", items, now=NOW, limit=0, fresh=3)
    assert again.added == ("5",)


async def test_a_first_fill_of_more_than_one_batch_stays_one(world: OneReader) -> None:
    """A fill that is larger than a script call keeps its time of following for all of its batches."""
    await world.channels.follow(ANN, "work", "2", "https://2.example/feed", 1e9)
    items = world.items.know("2", *(item(n) for n in range(1, 2301)))
    filled = await world.timelines.add(ANN, "work", "2", items, now=NOW, limit=0)
    assert (len(filled.added), len(filled.read)) == (10, 2290)


async def test_as_many_of_a_large_first_fill_are_unread_as_are_to_be(world: OneReader) -> None:
    """Also where that is more than a script call takes; what comes later is unread if it is newer than those."""
    await world.channels.follow(ANN, "work", "2", "https://2.example/feed", 1e9)
    items = world.items.know("2", *(item(n) for n in range(1, 2301)))
    filled = await world.timelines.add(ANN, "work", "2", items, now=NOW, limit=0, fresh=1500)
    assert (len(filled.added), len(filled.read)) == (1500, 800)
    late = world.items.know("2", item(9000), item(3000, 800.5), item(3001, 801.5))
    again = await world.timelines.add(ANN, "work", "2", late, now=NOW, limit=0, fresh=3)
    assert (again.added, again.read) == (("9000", "3001"), ("3000",))


async def test_items_go_to_several_timelines_at_once(world: OneReader) -> None:
    """One call serves several targets and reports on each."""
    await world.follow("work", "1")
    targets = [TimelineTarget(ANN, "home", 0), TimelineTarget(ANN, "nowhere", 0), TimelineTarget(ANN, "work", 1)]
    results = await world.timelines.add_to(targets, world.timelines.delivery("1", [item(1), item(2)], NOW))
    assert [(len(one.added), one.subscribed) for one in results] == [(2, True), (0, False), (1, True)]


@pytest.mark.parametrize("view", ["all", "unread", "read"])
async def test_a_walk_visits_every_item_once_also_among_ties(world: OneReader, view: str) -> None:
    """Following `after` gives every item once, in Redis' order, though members of one score sort as strings."""
    await world.add("home", *(item(n, 5.25) for n in range(990, 1011)), *(item(n) for n in (1, 2, 7)))
    if view == "read":
        await world.timelines.mark_all_read(ANN, "home", NOW)
    seen: list[str] = []
    cursor = None
    for _ in range(20):
        query = PageQuery(limit=3, after=cursor, view=view)  # type: ignore[arg-type]
        page = await world.timelines.page(ANN, "home", query, NOW)
        seen += [row.id for row in page.rows]
        if not page.older:
            break
        cursor = Cursor.decode(Cursor(page.rows[-1].score, page.rows[-1].id).encode(), "after")
    expected = ["7", *sorted((str(n) for n in range(990, 1011)), reverse=True), "2", "1"]
    assert seen == expected


async def test_before_gives_the_adjacent_newer_items_newest_first(world: OneReader) -> None:
    """`before` returns the neighbours, not the newest ones, and nothing when there are none."""
    await world.add("home", *(item(n) for n in range(1, 10)))
    page = await world.timelines.page(ANN, "home", PageQuery(limit=3, before=Cursor("4", "4")), NOW)
    assert [row.id for row in page.rows] == ["7", "6", "5"]
    assert page.older
    top = await world.timelines.page(ANN, "home", PageQuery(limit=3, before=Cursor("9", "9")), NOW)
    assert top.rows == ()


@pytest.mark.parametrize("uid", ["home", "global"])
async def test_a_cursor_outlives_its_item(world: OneReader, uid: str) -> None:
    """A cursor whose item has left, also one among ties, still finds its place in both directions."""
    await world.add("home", *(item(n, 5.0) for n in range(10, 20)), item(1), item(30))
    await world.timelines.remove(ANN, "home", ["15"], NOW)
    cursor = Cursor("5", "15")
    assert await world.ids(uid, after=cursor, limit=2) == ["14", "13"]
    assert await world.ids(uid, before=cursor, limit=2) == ["17", "16"]


async def test_scores_round_trip_through_cursors(world: OneReader) -> None:
    """Scores that differ in the last microsecond, and those near 1970, make cursors that hold their place."""
    scores = [1_700_000_000.000001, 1_700_000_000.000002, 0.000001, 0.000003, 123456.789, -5.5]
    await world.add("home", *(item(n, score) for n, score in enumerate(scores, 1)))
    page = await world.timelines.page(ANN, "home", PageQuery(limit=100), NOW)
    assert [row.id for row in page.rows] == ["2", "1", "5", "4", "3", "6"]
    for index, row in enumerate(page.rows):
        cursor = Cursor.decode(Cursor(row.score, row.id).encode(), "after")
        assert await world.ids("home", after=cursor) == [other.id for other in page.rows[index + 1 :]]


async def test_marks_count_changes_and_ignore_the_unknown(world: OneReader) -> None:
    """Marking twice changes nothing; an id that isn't there is neither counted nor created."""
    await world.add("home", item(1), item(2))
    assert await world.timelines.mark_read(ANN, "home", ["1", "1", "99"], NOW) == 1
    assert await world.timelines.mark_read(ANN, "home", ["1"], NOW) == 0
    assert await world.unread("home") == 1
    assert await world.timelines.mark_unread(ANN, "home", ["1", "2", "99"], NOW) == 1
    assert await world.unread("home") == 2
    assert await world.timelines.mark_read(ANN, "home", [], NOW) == 0
    assert await world.ids("home") == ["2", "1"]


async def test_last_read_entry_marks_it_and_everything_older(world: OneReader) -> None:
    """The named item and the older ones become read, newer ones stay, unknown ids change nothing."""
    await world.add("home", *(item(n) for n in range(1, 8)))
    mark = world.timelines.mark_read_before
    assert await mark(ANN, "home", "nonsense", world.items.places, NOW) == 0
    world.items.know("9", item(77))
    assert await mark(ANN, "home", "77", world.items.places, NOW) == 0
    assert await mark(ANN, "home", "3", world.items.places, NOW) == 3
    await world.timelines.remove(ANN, "home", ["6"], NOW)
    assert await mark(ANN, "home", "6", world.items.places, NOW) == 2
    assert await world.ids("home", view="unread") == ["7"]
    assert await world.timelines.mark_all_read(ANN, "home", NOW) == 1


async def test_long_timelines_are_marked_in_batches(world: OneReader) -> None:
    """More items than one script call takes are all marked and counted once, in one channel and in all."""
    await world.follow("work", "1")
    for uid in ("home", "work"):
        await world.add(uid, *(item(n) for n in range(1, 2501)))
    assert await world.timelines.mark_read_before(ANN, "home", "2400", world.items.places, NOW) == 2400
    assert await world.timelines.mark_all_read(ANN, "global", NOW) == 2500
    assert await world.unread("work") == 0


async def test_removed_items_never_come_back(world: OneReader) -> None:
    """A removal is for good: the next poll doesn't bring the item again."""
    await world.add("home", item(1), item(2))
    assert await world.timelines.remove(ANN, "home", ["1", "5"], NOW) == 1
    assert (await world.add("home", item(1), item(2))).suppressed == ("1",)
    assert await world.ids("home") == ["2"]
    assert await world.timelines.mark_unread(ANN, "home", ["1"], NOW) == 0


async def test_global_merges_channels_and_shows_each_item_once(world: OneReader) -> None:
    """`global` is the merge of all channels; an item is unread there while it is unread in any of them."""
    await world.follow("work", "1")
    await world.follow("work", "2")
    await world.add("home", *(item(n) for n in range(1, 30, 2)))
    await world.add("work", *(item(n) for n in range(1, 30, 2)))
    await world.add("work", *(item(n) for n in range(2, 31, 2)), feed="2")
    assert await world.ids("global") == [str(n) for n in range(30, 0, -1)]
    await world.timelines.mark_read(ANN, "home", ["29"], NOW)
    page = await world.timelines.page(ANN, "global", PageQuery(limit=2), NOW)
    assert [(row.id, row.is_read, row.channel) for row in page.rows] == [("30", False, "work"), ("29", False, "work")]
    await world.timelines.mark_read(ANN, "work", ["29"], NOW)
    assert "29" not in await world.ids("global", view="unread")
    assert await world.ids("global", view="read") == ["29"]
    assert await world.timelines.mark_read(ANN, "global", ["27", "28"], NOW) == 2
    assert (await world.unread("home"), await world.unread("work")) == (13, 27)


@pytest.mark.parametrize("uid", ["home", "global"])
async def test_before_and_after_are_inverse(world: OneReader, uid: str) -> None:
    """Walking down by `after` and up again by `before` visits the same items, in one channel and in all."""
    await world.follow("work", "1")
    await world.add("home", *(item(n, float(n // 3)) for n in range(1, 41)))
    await world.add("work", *(item(n, float(n // 3)) for n in range(1, 41, 2)))
    everything = await world.ids(uid)
    assert len(everything) == 40
    up: list[str] = []
    cursor = Cursor("-1", "0")
    while True:
        page = await world.timelines.page(ANN, uid, PageQuery(limit=7, before=cursor), NOW)
        if not page.rows:
            break
        up = [row.id for row in page.rows] + up
        cursor = Cursor(page.rows[0].score, page.rows[0].id)
    assert up == everything


async def test_a_page_of_one_source_is_bounded(world: OneReader) -> None:
    """A source view looks at 1,000 ids at most, returns a short page, and goes on where it stopped."""
    await world.follow("home", "2")
    await world.add("home", *(item(n) for n in range(1000, 3500)))
    await world.add("home", *(item(n) for n in range(1, 31)), feed="2")
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


async def test_a_full_timeline_takes_only_what_is_newer_than_its_oldest(world: OneReader) -> None:
    """The oldest leaves for a newer item and never comes back; an older one isn't taken."""
    await world.add("home", item(2), item(3), limit=2)
    assert await world.add("home", item(1), limit=2) == Added()
    assert (await world.add("home", item(4), limit=2)).evicted == ("2",)
    assert (await world.add("home", item(2), limit=0)).suppressed == ("2",)
    assert await world.ids("home") == ["4", "3"]


async def test_moved_items_keep_their_read_state(world: OneReader) -> None:
    """A move takes items out of where they are for good and into the target, read or unread as they were."""
    await world.add("home", item(1), item(2), item(3))
    await world.timelines.mark_read(ANN, "home", ["1"], NOW)
    assert await world.timelines.move(ANN, "work", ["1", "2", "9"], NOW) == 2
    page = await world.timelines.page(ANN, "work", PageQuery(), NOW)
    assert [(row.id, row.is_read) for row in page.rows] == [("2", False), ("1", True)]
    assert (await world.add("home", item(1), item(2))).suppressed == ("2", "1")
    assert (await world.unread("home"), await world.unread("work")) == (1, 1)
    assert await world.timelines.move(ANN, "home", ["2"], NOW) == 1
    assert await world.ids("home") == ["3", "2"]


async def test_an_unfollow_takes_unread_items_and_a_refollow_brings_them_back(world: OneReader) -> None:
    """Unread items of the feed leave, read ones stay; after a re-follow what was read isn't unread again."""
    await world.add("home", item(1), item(2))
    await world.follow("home", "2")
    await world.add("home", item(3), feed="2")
    await world.timelines.mark_read(ANN, "home", ["1"], NOW)
    await world.channels.unfollow(ANN, "home", "1")
    assert await world.timelines.unfollow(ANN, "home", "1", NOW) == 1
    assert await world.ids("home") == ["3", "1"]
    await world.follow("home", "1")
    assert (await world.add("home", item(1), item(2))).added == ("2",)
    assert await world.ids("home", view="unread") == ["3", "2"]


async def test_an_unfollow_that_meets_a_refollow_takes_nothing(world: OneReader) -> None:
    """Late batches of an unfollow leave alone what a new subscription holds."""
    await world.add("home", item(1))
    assert await world.timelines.unfollow(ANN, "home", "1", NOW) == 0
    assert await world.ids("home") == ["1"]


def twins(number: int, other: int, other_feed: str, *, wins: bool) -> TimelineItem:
    return item(number, twins=(Twin(str(other), other_feed, wins),))


async def test_of_two_copies_the_winner_stands(world: OneReader) -> None:
    """A copy whose twin wins stays out; a winner takes over the place and read state of the copy."""
    await world.follow("home", "2")
    await world.add("home", item(1))
    assert (await world.add("home", twins(2, 1, "1", wins=True), feed="2")).suppressed == ("2",)
    await world.add("home", item(11))
    await world.timelines.mark_read(ANN, "home", ["11"], NOW)
    assert (await world.add("home", twins(12, 11, "1", wins=False), feed="2")).read == ("12",)
    assert await world.ids("home") == ["12", "1"]
    assert await world.unread("home") == 1


async def test_a_post_stays_while_one_of_its_feeds_is_followed(world: OneReader) -> None:
    """When the winner's feed is unfollowed, the copy that had yielded comes in its place, unread as it was."""
    await world.follow("home", "2")
    await world.add("home", twins(1, 2, "2", wins=False), item(3))
    await world.add("home", twins(2, 1, "1", wins=True), feed="2")
    await world.channels.unfollow(ANN, "home", "1")
    assert await world.timelines.unfollow(ANN, "home", "1", NOW) == 2
    assert await world.ids("home") == ["2"]
    assert await world.unread("home") == 1


async def test_a_copy_of_what_was_read_or_removed_stays_out(world: OneReader) -> None:
    """Neither a removal nor an expiry is undone by another feed's copy of the same post, also not by its rebuild."""
    await world.follow("home", "2")
    await world.add("home", item(1), item(3))
    await world.timelines.remove(ANN, "home", ["1"], NOW)
    copy = twins(2, 1, "1", wins=False)
    assert (await world.add("home", copy, feed="2")).suppressed == ("2",)
    assert (await world.add("home", item(2), feed="2")).suppressed == ("2",)
    await world.timelines.mark_read(ANN, "home", ["3"], NOW)
    await world.channels.unfollow(ANN, "home", "1")
    assert (await world.add("home", twins(4, 3, "1", wins=True), feed="2")).read == ("4",)


async def test_withdrawing_spares_what_was_read_meanwhile(world: OneReader) -> None:
    """With `only_unread` the script asks the read state itself."""
    await world.add("home", item(1), item(2))
    await world.timelines.mark_read(ANN, "home", ["1"], NOW)
    withdraw = world.timelines.withdraw
    assert await withdraw(ANN, "home", ["1", "2"], Reason.UNREAD_EXPIRED, NOW, only_unread=True) == 1
    assert await world.ids("home") == ["1"]


async def test_items_can_be_put_in_without_a_feed(world: OneReader) -> None:
    """A post that comes from no feed is taken once, and stays out when it was removed."""
    world.items.know("", item(5))
    assert (await world.timelines.put(ANN, "notifications", item(5), NOW)).added == ("5",)
    await world.timelines.remove(ANN, "notifications", ["5"], NOW)
    assert (await world.timelines.put(ANN, "notifications", item(5), NOW)).suppressed == ("5",)


async def test_an_item_that_was_deleted_on_its_way_in_is_taken_back(world: OneReader) -> None:
    """Who looked at it before may add it after: then it is gone again, and doesn't come back."""
    world.items.know("1", item(2))
    added = await world.timelines.add(ANN, "home", "1", [item(1), item(2)], now=NOW, limit=0)
    assert added.added == ("2",)
    assert await world.ids("home") == ["2"]
    assert (await world.add("home", item(1))).suppressed == ("1",)


async def test_withdrawing_everywhere_reaches_removed_channels(world: OneReader) -> None:
    """A channel that can be restored doesn't bring back what was withdrawn meanwhile."""
    await world.add("home", item(1))
    await world.channels.disable(ANN, "home", NOW)
    assert await world.timelines.withdraw(ANN, "global", ["1"], Reason.SWEPT, NOW) == 1
    assert await world.redis.command("ZCARD", keys.posts(ANN, "home")) == 0


async def test_writes_to_what_is_not_there_name_it(world: OneReader) -> None:
    """An unknown user or channel raises NotFound with its name, whatever the write."""
    timelines = world.timelines
    for call in (
        timelines.page(ANN, "nix", PageQuery(), NOW),
        timelines.mark_read(ANN, "nix", ["1"], NOW),
        timelines.mark_unread(ANN, "nix", [], NOW),
        timelines.mark_all_read(ANN, "nix", NOW),
        timelines.remove(ANN, "nix", [], NOW),
        timelines.move(ANN, "nix", ["1"], NOW),
        timelines.put(ANN, "nix", item(1), NOW),
    ):
        with pytest.raises(NotFound, match="no channel 'nix'"):
            await call
    for call in (
        timelines.page("bob", "home", PageQuery(), NOW),
        timelines.page("bob", "global", PageQuery(), NOW),
        timelines.mark_read("bob", "global", ["1"], NOW),
        timelines.mark_all_read("bob", "global", NOW),
        timelines.remove("bob", "global", ["1"], NOW),
    ):
        with pytest.raises(NotFound, match="no user 'bob'"):
            await call
