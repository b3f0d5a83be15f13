"""A channel's own filters and limits, which apply when items come into its timeline."""

from __future__ import annotations

import threading
import tracemalloc

import orjson
import pytest

from microsub.model.filters import Filter, Searched
from microsub.model.reader import TimelineItem
from microsub.model.settings import Filters, FollowSettings, OwnChannelSettings
from microsub.redis import keys
from microsub.timelines.add import TimelineTarget
from tests.support.one_reader import ANN, NOW, OneReader, item

NO_SPAM = OwnChannelSettings(filters=Filters.of({"exclude_words": ["spam"]}))


def says(world: OneReader, number: int, text: str, kind: str = "note", score: float | None = None) -> TimelineItem:
    """A post of feed 1 with that text."""
    made = item(number, score)
    world.items.know("1", made)
    world.items.data[made.id] = orjson.dumps({"type": "entry", "post-type": kind, "content": {"text": text}})
    return made


async def settings(world: OneReader, value: OwnChannelSettings, uid: str = "home") -> None:
    await world.channels.set_settings(ANN, uid, value, NOW)


async def for_all(world: OneReader, filters: str) -> None:
    """Keeps the filter for all channels."""
    await world.accounts.set_settings(ANN, {"filters": filters})


async def test_a_post_passes_three_filters(world: OneReader) -> None:
    """Of all channels, except in `notifications`, its channel and its feed; also in a channel that is made later."""
    await for_all(world, NO_SPAM.filters.stored())
    await settings(world, OwnChannelSettings(filters=Filters(exclude_types=("photo",))))
    quiet = FollowSettings(filter=Filters(include_words=("ham", "spam")))
    await world.channels.create(ANN, "Late", NOW, "late")
    for uid in ("late", "notifications"):
        await world.follow(uid, "1")
    await world.channels.unfollow(ANN, "home", "1")
    await world.channels.follow(ANN, "home", "1", "https://1.example/feed", NOW, settings=quiet)
    items = [
        *(says(world, 1, "ham"), says(world, 2, "ham", "photo"), says(world, 3, "ham and spam"), says(world, 4, "egg")),
        *(says(world, 5, "spam", "photo"), says(world, 6, "more ham")),
    ]
    for _ in range(2):
        targets = [TimelineTarget(ANN, uid, 0) for uid in ("home", "late", "notifications")]
        await world.timelines.add_to(targets, world.timelines.delivery("1", items, NOW))
    found = [await world.ids(uid) for uid in ("home", "late", "notifications")]
    assert found == [["6", "1"], ["6", "4", "2", "1"], ["6", "5", "4", "3", "2", "1"]]
    known = [(ANN, uid) for uid in ("home", "late", "notifications")]
    assert await world.timelines.filtering("1", known) == known[:2]
    await for_all(world, "")
    await world.add("late", says(world, 7, "spam"))
    assert await world.ids("late") == ["7", "6", "4", "2", "1"]
    assert await world.timelines.filtering("1", known) == known[:1]


async def test_a_change_by_another_process_counts_at_once(world: OneReader) -> None:
    """A process with an outdated filter gets the current one from the script that adds."""
    await settings(world, NO_SPAM)
    await world.add("home", says(world, 1, "spam"))
    await settings(world, OwnChannelSettings(filters=Filters.of({"exclude_words": ["ham"]}), max_items=5))
    await world.add("home", says(world, 2, "spam"), says(world, 3, "ham"))
    assert await world.ids("home") == ["2"]
    await settings(world, OwnChannelSettings(max_items=5))
    await world.add("home", says(world, 4, "ham"))
    assert await world.ids("home") == ["4", "2"]


async def test_a_known_filter_costs_one_round_trip(world: OneReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first delivery to a channel with filters takes two calls of the script, every later one takes one."""
    await settings(world, NO_SPAM)
    await for_all(world, Filters(exclude_words=("egg",)).stored())
    calls: list[int] = []
    scripts = world.redis.scripts

    async def counted(batch):
        if batch[0][0].name != "timeline_agree":  # asks what is read elsewhere
            calls.append(len(batch))
        return await scripts(batch)

    monkeypatch.setattr(world.redis, "scripts", counted)
    await world.add("home", says(world, 1, "ham"))
    assert calls == [1, 1]
    await world.add("home", says(world, 2, "ham"))
    await world.add("home", says(world, 3, "spam"))
    assert calls == [1, 1, 1, 1]


@pytest.mark.parametrize("corrupt", ["{", "[]", '{"include_words": [7]}', b"\xff"])
async def test_corrupt_filters_affect_only_their_channel(world: OneReader, corrupt: str | bytes) -> None:
    """They are ignored, as is an expression that is no longer valid; the others get the same posts in one step."""
    await settings(world, NO_SPAM, "work")
    await world.redis.command("HSET", keys.channel(ANN, "home"), "filters", corrupt)
    await world.follow("work", "1")
    spam, ham = says(world, 1, "spam"), says(world, 2, "ham")
    both = [TimelineTarget(ANN, uid, 0) for uid in ("home", "work")]
    await world.timelines.add_to(both, world.timelines.delivery("1", [spam, ham], NOW))
    assert (await world.ids("home"), await world.ids("work")) == (["2", "1"], ["2"])


async def test_the_filter_for_all_channels_is_in_memory_once(world: OneReader) -> None:
    """Fifty channels share its 20 KB: copies would take a megabyte."""
    words = tuple(f"{'x' * 190} {number}" for number in range(100))
    await for_all(world, Filters(exclude_words=words).stored())
    targets = [TimelineTarget(ANN, f"c{number}", 0) for number in range(50)]
    for _, uid, *_ in targets:
        await world.channels.create(ANN, uid, NOW, uid)
        await world.follow(uid, "1")
    await world.timelines.add_to(targets[:1], world.timelines.delivery("1", [says(world, 1, "ham")], NOW))
    tracemalloc.start()
    await world.timelines.add_to(targets, world.timelines.delivery("1", [says(world, 1, "ham")], NOW))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 600_000
    assert [await world.ids(uid) for _, uid, *_ in targets] == [["1"]] * 50


async def test_a_corrupt_filter_for_all_channels_is_ignored(world: OneReader) -> None:
    """That of the channel applies."""
    await for_all(world, "{")
    await settings(world, NO_SPAM)
    await world.add("home", says(world, 1, "spam"), says(world, 2, "ham"))
    assert await world.ids("home") == ["2"]


async def test_each_channel_chooses_for_itself(world: OneReader) -> None:
    """One delivery to several channels, some with different filters; the posts are read once."""
    for uid in ("work", "notifications"):
        await world.follow(uid, "1")
    await settings(world, NO_SPAM)
    await settings(world, OwnChannelSettings(filters=Filters.of({"include_types": ["photo"]})), "work")
    items = [says(world, 1, "spam"), says(world, 2, "ham"), says(world, 3, "spam", "photo")]
    targets = [TimelineTarget(ANN, uid, 0) for uid in ("home", "work", "notifications")]
    found = await world.timelines.add_to(targets, world.timelines.delivery("1", items, NOW))
    assert [one.added for one in found] == [("2",), ("3",), ("3", "2", "1")]


async def test_an_own_limit_takes_precedence(world: OneReader) -> None:
    """The channel's settings for its size and for the unread items of a new feed replace the caller's."""
    await settings(world, OwnChannelSettings(max_items=2, first_fetch_unread=1), "work")
    await world.channels.follow(ANN, "work", "1", "https://1.example/feed", NOW)
    posts = [says(world, number, "ham") for number in range(1, 6)]
    found = await world.timelines.add(ANN, "work", "1", posts, now=NOW, limit=100, fresh=100)
    assert (found.added, found.read) == (("5",), ("4",))
    await settings(world, OwnChannelSettings(max_items=0), "work")
    assert len((await world.timelines.add(ANN, "work", "1", posts, now=NOW, limit=1)).read) == 3


async def test_posts_are_filtered_in_a_thread(world: OneReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow expression, or a word that almost matches everywhere in a long text, doesn't block the event loop."""
    threads = []
    takes = Filter.takes

    def noting(rule: Filter, post: Searched) -> bool:
        threads.append(threading.current_thread())
        return takes(rule, post)

    monkeypatch.setattr(Filter, "takes", noting)
    await settings(world, NO_SPAM)
    await world.add("home", says(world, 1, "spam"), says(world, 2, "ham"))
    assert await world.ids("home") == ["2"]
    assert threads
    assert threading.current_thread() not in threads
