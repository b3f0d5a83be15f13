"""The search finds only posts of the user's timelines; pages, cursors, bounds."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from microsub.base.rate_limits import RateLimit
from microsub.model.reader import Grant
from microsub.redis import keys
from microsub.search import post_search
from microsub.search.index import Generation, QueryTooSlow
from microsub.search.post_search import BEHIND_SECONDS
from microsub.search.replica import THREADS
from microsub.server.app import create_app
from microsub.timelines import READ_EVERYWHERE
from tests.search.conftest import FEED, Replica
from tests.support import examples
from tests.support.posts import NOON
from tests.support.readers import Reader, posts
from tests.support.visitor import Visitor, begin_session
from tests.support.world import World

OTHER = "https://other.example/feed"


async def built(replica: Replica) -> None:
    assert await replica.follower().build()


async def matching(reader: Reader, query: str, channel: str = "global", **more: Any) -> list[dict[str, Any]]:
    """The items of all pages."""
    found: list[dict[str, Any]] = []
    after: str | None = ""
    while after is not None:
        page = await reader.get(action="search", channel=channel, query=query, after=after, **more)
        found += page["items"]
        after = page["paging"].get("after")
    return found


async def names(reader: Reader, query: str, channel: str = "global", **more: Any) -> list[str]:
    """The titles of all pages."""
    return [item["name"] for item in await matching(reader, query, channel, **more)]


async def test_items_are_as_in_a_timeline(alice: Reader, server: World, replica: Replica) -> None:
    """GET and POST return the same objects in the same order, with their channel."""
    await server.publish(FEED, *posts("tide two", "tide one", "fog"))
    await built(replica)
    timeline = await alice.get(action="timeline", channel="home")
    for page in (
        await alice.get(action="search", channel="home", query="tide"),
        await alice.post(action="search", channel="global", query="tide"),
    ):
        assert page["items"] == timeline["items"][:2]
        assert list(page["paging"]) == ["before"]
        assert page["items"][0]["_channel"]["uid"] == "home"
        assert page["items"][0]["_is_read"] is False
        assert isinstance(page["items"][0]["_source"], str)
    assert (await alice.get(action="search", channel="later", query="tide"))["items"] == []
    assert (await alice.get(action="search", channel="home", query="nothing"))["items"] == []


async def test_matches_among_given_items(alice: Reader, server: World, replica: Replica) -> None:
    """The result doesn't depend on the number of other matches, and says whether the index has all these items yet."""
    await server.publish(FEED, *posts("tide three", "tide two", "fog", "tide one"))
    await built(replica)
    search = server.parts.post_search
    assert search is not None
    three, two, fog, one = await alice.ids("home")
    assert await search.newest("alice", "home", "tide", server.now) == [three, two, one]
    found, is_whole = await search.matching("alice", "home", "tide", [one, fog, three, "987654"], server.now)
    assert (set(found), is_whole) == ({one, three}, True)
    assert await search.matching("alice", "later", "tide", [one, two], server.now) == ([], True)
    assert await search.matching("alice", "home", "tide before:1999", [one, two], server.now) == ([], True)
    await server.publish(FEED, *posts("tide four", at=NOON + 50))
    new = (await alice.ids("home"))[0]
    found, is_whole = await search.matching("alice", "home", "tide", [one, new], server.now)
    assert (set(found), is_whole) == ({one}, False)


async def test_without_a_channel_feeds_are_searched(alice: Reader, server: World, replica: Replica) -> None:
    """That is what the specification says; an empty `channel` counts as none."""
    await server.publish(FEED, *posts("tide"))
    await built(replica)
    for reply in (
        await alice.get(action="search", query="tide"),
        await alice.post(action="search", query="tide"),
        await alice.post(action="search", query="tide", channel=""),
    ):
        assert "results" in reply
        assert "items" not in reply


async def test_search_sees_the_timelines_current_state(alice: Reader, server: World, replica: Replica) -> None:
    """Read, saved, removed, moved, muted, unmuted, unfollowed: the search sees the timelines as they are now."""
    await server.publish(FEED, *posts("tide e", "tide d", "tide c", "tide b", "tide a"))
    await server.publish(OTHER, *posts("tide o", host="other.example", at=NOON - 50))
    await alice.post(action="follow", channel="later", url=OTHER)
    await built(replica)
    e, d, c, b, a = await alice.ids("home")
    assert await names(alice, "tide") == ["tide e", "tide d", "tide c", "tide b", "tide a", "tide o"]
    await alice.post(action="timeline", method="mark_read", channel="home", entry=d)
    await alice.post(action="timeline", method="save", entry=c)
    await alice.post(action="timeline", method="remove", channel="home", entry=b)
    await alice.post(action="timeline", method="move", channel="later", entry=a)
    assert await names(alice, "tide is:read") == ["tide d"]
    assert await names(alice, "tide -is:read") == ["tide e", "tide c", "tide a", "tide o"]
    assert await names(alice, "is:saved") == ["tide c"]
    assert await names(alice, "tide -is:saved", "home") == ["tide e", "tide d"]
    assert await names(alice, "tide", "saved") == ["tide c"]
    assert await names(alice, "tide", "later") == ["tide a", "tide o"]
    found = await alice.get(action="search", channel="global", query="is:saved")
    assert found["items"][0]["_saved"] is True
    await alice.post(action="mute", channel="global", url=OTHER)
    assert await names(alice, "tide", "later") == ["tide a"]
    await alice.post(action="unmute", channel="global", url=OTHER)
    assert await names(alice, "tide", "later") == ["tide a", "tide o"]
    await alice.post(action="unfollow", channel="home", url=FEED)
    assert await names(alice, "tide", "home") == ["tide d"]
    await alice.post(action="channels", method="delete", channel="home")
    assert await names(alice, "tide") == ["tide c", "tide a", "tide o"]
    assert e


async def test_other_users_posts_arent_found(alice: Reader, server: World, replica: Replica) -> None:
    """No query finds another user's posts or feed names, not even by its paging."""
    bob = await server.reader("bob", "home")
    await bob.post(action="follow", channel="home", url=OTHER)
    await server.publish(FEED, *posts("tide"))
    secret = await server.publish(
        OTHER, *posts(*(f"secret {n}" for n in range(450)), host="other.example"), title="Vault"
    )
    await built(replica)
    assert len(await names(bob, "secret")) == 450
    for query in ("secret", "secret*", "author:ann secret", f"feed:{secret.id}", "feed:vault", "feed:other", "-tide",
                  "secret OR tide -tide", "other.example", "title:secret", "kind:article -tide"):  # fmt: skip
        for order in ("newest", "relevance"):
            reply = await alice.get(action="search", channel="global", query=query, sort=order)
            assert reply == {"items": [], "paging": {}}, (query, order)
    assert "secret 1" in await names(bob, "feed:vault")


async def test_feeds_by_what_they_are_called(alice: Reader, server: World, replica: Replica) -> None:
    """The query is the beginning of a word in the feed's name or URL; the name of a feed's successor works, too."""
    await server.publish(FEED, *posts("one"), title="Harbour Café")
    other = await server.publish(OTHER, *posts("two", host="other.example", at=NOON - 50), title="東京の港")
    await alice.post(action="follow", channel="later", url=OTHER)
    await built(replica)
    for query, found in {
        "feed:harb": ["one"], "feed:CAFE": ["one"], 'feed:"harbour cafe"': ["one"], "feed:bour": [],
        "feed:blog": ["one"],
        "feed:other.example": ["two"], "feed:東京": ["two"], "feed:港": ["two"], f"feed:{other.id}": ["two"],
        "feed:harb OR feed:東京": ["one", "two"], "-feed:harb": ["two"], "feed:nowhere": [],
        "-feed:nowhere": ["one", "two"], "feed:999": [],
    }.items():  # fmt: skip
        assert await names(alice, query) == found, query
    former = await server.feeds.ensure("https://new.example/feed", server.now)
    await alice.post(action="unfollow", channel="later", url=OTHER)
    await server.publish("https://new.example/feed", title="Moved here")
    await alice.post(action="follow", channel="later", url="https://new.example/feed")
    await server.redis.command("HSET", keys.former_feeds("alice"), other.id, former.id)
    await server.redis.command("EXPIRE", keys.former_feeds("alice"), 1000)
    await alice.post(action="timeline", method="mark_read", channel="home", last_read_entry="everything")
    assert await names(alice, "feed:moved") == []  # unread items leave with their feed
    await alice.post(action="follow", channel="later", url=OTHER)
    assert await names(alice, "feed:moved") == ["two"]


async def test_a_number_names_feeds_too(alice: Reader, server: World, replica: Replica) -> None:
    """The number may be a word of the name or the id of a feed."""
    await alice.post(action="follow", channel="later", url=OTHER)
    feed = await server.publish(FEED, *posts("one"), title="Harbour")
    await server.publish(OTHER, *posts("two", host="other.example", at=NOON - 50), title=f"2024 news {feed.id}")
    await built(replica)
    for query, found in {
        "feed:2024": ["two"], "feed:202": ["two"], "-feed:2024": ["one"], f"feed:{feed.id}": ["one", "two"],
        "feed:2025": [],
    }.items():  # fmt: skip
        assert await names(alice, query) == found, query


async def test_a_follow_is_found_by_the_id_that_apps_were_given(alice: Reader, server: World, replica: Replica) -> None:
    """This also holds if another feed has replaced it."""
    feed = await server.publish(OTHER, *posts("two", host="other.example"))
    given = await alice.post(action="follow", channel="later", url="https://page.example/")
    await server.channels.update_subscription("alice", "later", given["_id"], new_feed=feed.id)
    await alice.post(action="follow", channel="later", url=OTHER)
    await server.redis.command("DEL", keys.former_feeds("alice"))  # which expires
    await built(replica)
    assert await names(alice, f"feed:{given['_id']}") == ["two"]


async def test_a_word_of_too_many_feeds_is_refused(
    alice: Reader, server: World, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise feeds would be left out silently."""
    monkeypatch.setattr(post_search, "MOST_FEEDS", 1)
    await server.publish(FEED, *posts("one"))
    await server.publish(OTHER, *posts("two", host="other.example", at=NOON - 50))
    await alice.post(action="follow", channel="later", url=OTHER)
    await built(replica)
    assert await names(alice, "-feed:blog.example") == ["two"]
    for query in ("-feed:example", "feed:example", "tide OR -feed:EXAMPLE"):
        refused = await alice.get(400, action="search", channel="global", query=query)
        assert refused["error"] == "invalid_request"
        assert "expected a 'feed:' that matches at most 1 feeds, found 2" in refused["error_description"]


async def test_pages_visit_everything_once_while_posts_come_in(alice: Reader, server: World, replica: Replica) -> None:
    """`after` visits each item once; `before` leads back to the previous page and to new items."""
    await server.publish(FEED, *posts(*(f"tide {number:02d}" for number in range(45, 0, -1))))
    await built(replica)
    first = await alice.get(action="search", channel="home", query="tide")
    assert [item["name"] for item in first["items"]] == [f"tide {number:02d}" for number in range(45, 25, -1)]
    await server.publish(FEED, *posts("tide 99", at=NOON + 500))
    replica.folder.ask_for_rebuild()
    await built(replica)
    second = await alice.get(action="search", channel="home", query="tide", after=first["paging"]["after"])
    third = await alice.get(action="search", channel="home", query="tide", after=second["paging"]["after"])
    found = [item["name"] for page in (second, third) for item in page["items"]]
    assert found == [f"tide {number:02d}" for number in range(25, 0, -1)]
    assert list(third["paging"]) == ["before"]
    back = await alice.get(action="search", channel="home", query="tide", before=third["paging"]["before"])
    assert back["items"] == second["items"]
    new = await alice.get(action="search", channel="home", query="tide", before=first["paging"]["before"])
    assert [item["name"] for item in new["items"]] == ["tide 99"]
    none = await alice.get(action="search", channel="home", query="tide", before=new["paging"]["before"])
    assert none == {"items": [], "paging": {}}


@pytest.mark.parametrize("order", [{}, {"sort": "relevance"}])
async def test_a_page_of_large_posts_ends_early(
    alice: Reader, server: World, replica: Replica, monkeypatch: pytest.MonkeyPatch, order: dict[str, str]
) -> None:
    """The next page continues after it."""
    monkeypatch.setattr("microsub.timelines.item_cache.PIECE", 200_000)
    wanted = [f"tide {number}" for number in range(5, 0, -1)]
    await server.publish(FEED, *posts(*wanted, text="x" * 40_000))
    await built(replica)
    found, after = [], {}
    while True:
        page = await alice.get(action="search", channel="home", query="tide", **order, **after)
        assert len(page["items"]) <= 2
        found += [item["name"] for item in page["items"]]
        if "after" not in page["paging"]:
            break
        after = {"after": page["paging"]["after"]}
    assert found == wanted


async def test_times_and_the_best(alice: Reader, server: World, replica: Replica) -> None:
    """Days limit the time, and pages of the best matches don't overlap."""
    await server.publish(
        FEED, *posts("fog", at=NOON + 900), *posts("other", text="fog and fog", at=NOON),
        *posts("old", text="a long text in which fog comes once, and much else beside it", at=NOON - 86_400),
        *posts("older fog", text="fog", at=NOON - 40 * 86_400),
    )  # fmt: skip
    await built(replica)
    assert await names(alice, "fog after:2023-11-14") == ["fog", "other"]
    assert await names(alice, "fog before:2023-11-14") == ["old", "older fog"]
    assert await names(alice, "fog after:2023-11-13 before:2023-11-14") == ["old"]
    assert await names(alice, "fog after:2d") == ["fog", "other", "old"]
    best = await names(alice, "fog", sort="relevance")
    assert (set(best[:2]), best[-1]) == ({"fog", "older fog"}, "old")
    assert await names(alice, "fog", sort="relevance", limit=1) == best
    page = await alice.get(action="search", channel="home", query="fog", sort="relevance", limit=1)
    await alice.get(400, action="search", channel="home", query="fog", after=page["paging"]["after"])


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"query": 'tide "fog'}, "character 6"),
        ({"query": "kind:poem"}, "character 1"),
        ({}, "'query' is missing"),
        ({"query": "tide", "sort": "best"}, "newest, relevance"),
        ({"query": "tide", "after": "x"}, "'after'"),
        ({"query": "tide", "after": "n" + "9" * 30}, "'after'"),
        ({"query": "tide", "before": "n1", "after": "n2"}, "together"),
        ({"query": "tide", "sort": "relevance", "before": "n1"}, "'before'"),
        ({"query": "tide", "limit": "many"}, "'limit'"),
        ({"query": "t" * 10_300}, "character 10241"),
    ],
)
async def test_invalid_queries_are_refused(alice: Reader, parameters: dict[str, str], words: str) -> None:
    """The reply is 400 and names the position."""
    reply = await alice.post(400, action="search", channel="home", **parameters)
    assert reply["error"] == "invalid_request"
    assert words in reply["error_description"]


async def test_channels_that_arent_there(alice: Reader, replica: Replica) -> None:
    await built(replica)
    assert (await alice.get(404, action="search", channel="nowhere", query="tide"))["error"] == "not_found"
    await alice.get(400, action="search", channel="../x", query="tide")


async def test_without_an_index_search_is_refused(alice: Reader, server: World, replica: Replica) -> None:
    """The reply is 503 until the index is built, and 400 if the search is disabled."""
    reply = await alice.client.get("/microsub", params={"action": "search", "channel": "home", "query": "tide"},
                                   headers=alice.headers)  # fmt: skip
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "5")
    assert "posts can't be searched at the moment" in reply.json()["error_description"]
    server.use(post_search=None)
    assert (await alice.get(400, action="search", channel="home", query="tide"))["error"] == "not_implemented"


@pytest.mark.parametrize("most_own", [0, 5000])
async def test_a_slow_search_ends_with_a_cursor(
    most_own: int, alice: Reader, server: World, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pages are short or empty, but together they contain all matches, also upwards."""
    bob = await server.reader("bob", "home")
    await bob.post(action="follow", channel="home", url=OTHER)
    await server.publish(FEED, *posts("tide z", at=NOON + 5000), *posts("tide y", "tide x", at=NOON - 5000))
    await server.publish(OTHER, *posts(*(f"tide {n}" for n in range(300)), host="other.example"))
    await built(replica)
    monkeypatch.setattr(post_search, "WALK_SECONDS", -1.0)
    monkeypatch.setattr(post_search, "MOST_OWN", most_own)
    monkeypatch.setattr(post_search, "DEPTHS", (10, 10))
    monkeypatch.setattr(post_search, "OWN_DEPTHS", (10, 10))
    page = await alice.get(action="search", channel="home", query="tide")
    assert [item["name"] for item in page["items"]] == ["tide z"]
    pages, found = 1, ["tide z"]
    while "after" in page["paging"]:
        page = await alice.get(action="search", channel="home", query="tide", after=page["paging"]["after"])
        found += [item["name"] for item in page["items"]]
        pages += 1
    assert (found, pages) == (["tide z", "tide y", "tide x"], 31)
    upward = []
    while "before" in page["paging"]:
        page = await alice.get(action="search", channel="home", query="tide", before=page["paging"]["before"])
        upward += [item["name"] for item in page["items"]]
    assert upward == ["tide z"]
    assert await names(alice, "tide", "home", sort="relevance") == ["tide z", "tide y", "tide x"]


@pytest.mark.parametrize("most_own", [0, 5000])
async def test_the_best_of_a_slow_search_come_once(
    most_own: int, alice: Reader, server: World, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later pages rank the posts that the first one had the time to rank, also if they have more; then older ones.

    One that doesn't even come as far is refused, so that none is wrong.
    """
    written = [*(f"tide {'fog ' * n}" for n in range(9, 0, -1)), "tide"]  # the older, the better
    await server.publish(FEED, *posts(*written))
    await built(replica)
    monkeypatch.setattr(post_search, "MOST_OWN", most_own)
    monkeypatch.setattr(post_search, "DEPTHS", (4, 4))
    monkeypatch.setattr(post_search, "OWN_DEPTHS", (4, 4))
    found, paging, more = list[list[str]](), {"after": ""}, []
    for seconds in (-1.0, 10.0, 10.0, 10.0, 10.0, 10.0):
        monkeypatch.setattr(post_search, "WALK_SECONDS", seconds)
        after = {"after": paging["after"]} if paging["after"] else {}
        asked = {"action": "search", "channel": "home", "query": "tide", "sort": "relevance", "count": "true"}
        page = await alice.get(**asked, limit=2, **after)
        found.append([item["name"].strip() for item in page["items"]])
        more.append(page["_found"]["more"])
        if (paging := page["paging"]) == {}:
            break
        if seconds < 0:
            cut = await alice.get(429, **asked, limit=2, after=paging["after"])
            assert cut["error"] == "too_many_requests"
    best = [name.strip() for name in written]
    assert found == [best[3:1:-1], best[1::-1], best[9:7:-1], best[7:5:-1], best[5:3:-1]]
    assert more == [True, True, False, False, False]


@pytest.mark.parametrize("most_own", [0, 5000])
async def test_rare_own_matches_are_all_found(
    most_own: int, alice: Reader, server: World, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of others' matches come first; SQLite gets the ids, or Redis is asked. Unfollowed feeds count, too."""
    monkeypatch.setattr(post_search, "MOST_OWN", most_own)
    bob = await server.reader("bob", "home")
    await bob.post(action="follow", channel="home", url=OTHER)
    await server.publish(OTHER, *posts(*(f"tide {n}" for n in range(3000)), host="other.example"))
    await server.publish(FEED, *posts(*(f"tide z{n}" for n in range(25)), at=NOON - 5000))
    await alice.post(action="timeline", method="mark_read", channel="home", last_read_entry="everything")
    await alice.post(action="unfollow", channel="home", url=FEED)
    await built(replica)
    assert await names(alice, "tide") == [f"tide z{n}" for n in range(25)]
    assert await names(alice, "tide is:unread") == []
    assert len(await names(alice, "tide", sort="relevance")) == 25
    assert (await alice.get(404, action="search", channel="nowhere", query="tide"))["error"] == "not_found"


async def test_waiting_posts_of_an_absent_user_are_found(
    alice: Reader, server: World, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's timelines are filled before the search."""
    reading = server.parts.reading

    async def has_caught_up(granted: Grant, uid: str, now: float) -> bool:
        assert (granted.user, granted.behind, uid) == ("alice", True, "home")
        await server.redis.command("DEL", keys.behind("alice"))
        await server.publish(FEED, *posts("tide"))
        await built(replica)
        return True

    monkeypatch.setattr(reading, "has_caught_up", has_caught_up)
    await built(replica)
    await server.redis.command("HSET", keys.behind("alice"), "home 1", "0 1")
    assert await names(alice, "tide", "home") == ["tide"]


async def test_searches_of_a_user_are_limited(alice: Reader, server: World, replica: Replica) -> None:
    """The rate limit of one user doesn't affect others."""
    await built(replica)
    bob = await server.reader("bob", "home")
    for _ in range(120):
        await alice.get(action="search", channel="home", query="tide")
    assert (await alice.get(429, action="search", channel="home", query="tide"))["error"] == "too_many_requests"
    await bob.get(action="search", channel="home", query="tide")


async def test_a_long_search_counts_as_several(
    alice: Reader, server: World, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later page of the best matches, whose cursor the app chooses, takes a user's searches by its time."""
    await server.publish(FEED, *posts("tide"))
    await built(replica)
    monkeypatch.setattr(post_search, "SEARCHES_OF_USER", RateLimit("searches of posts", "user", 4))
    monkeypatch.setattr(post_search, "time", SimpleNamespace(monotonic=itertools.count().__next__))
    asked = {"action": "search", "channel": "home", "query": "tide", "sort": "relevance"}
    for _ in range(2):
        await alice.get(**asked)
    await alice.get(**asked, after="r999999999999-0--999999999999")
    await alice.get(429, **asked)


async def test_slow_searches_of_one_user_leave_a_thread_to_others(
    alice: Reader, server: World, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one search of each user runs at a time, however many the user sends."""
    await built(replica)
    bob = await server.reader("bob", "home")
    matches, go_on = Generation.matches, threading.Event()

    def slowly(generation: Generation, words: str, *place: Any, **how: Any) -> Any:
        if "ocean" in words:
            go_on.wait(30)
        return matches(generation, words, *place, **how)

    monkeypatch.setattr(Generation, "matches", slowly)
    slow = [asyncio.create_task(alice.get(action="search", channel="home", query="ocean")) for _ in range(THREADS + 1)]
    try:
        await asyncio.sleep(0.1)
        await asyncio.wait_for(bob.get(action="search", channel="home", query="tide"), 10)
    finally:
        go_on.set()
    assert all("items" in page for page in await asyncio.gather(*slow))


async def test_thousands_of_channels_are_visited_in_steps(alice: Reader, server: World, replica: Replica) -> None:
    """An item is unread if any of the channels has it unread."""
    await server.accounts.set_settings("alice", {READ_EVERYWHERE: "no"})
    for number in range(120):
        await server.channels.create("alice", f"c{number}", server.now, f"c{number}")
    server.now = NOON - 100_000  # so that no post is too old to be unread
    for uid in ("c3", "c60", "c119"):
        await alice.post(action="follow", channel=uid, url=FEED)
    server.now = NOON + 10_000
    await server.publish(FEED, *posts(*(f"tide {n}" for n in range(210))))
    await built(replica)
    ids = await alice.ids("home", limit=100)
    for uid in ("home", "c3", "c60"):
        await alice.post(action="timeline", method="mark_read", channel=uid, last_read_entry="everything")
    page = await alice.get(action="search", channel="global", query="tide", limit=100)
    assert [item["_id"] for item in page["items"]] == ids
    assert {(item["_is_read"], item["_channel"]["uid"]) for item in page["items"]} == {(False, "c119")}
    assert len(await names(alice, "is:unread")) == 210


async def test_searches_are_what_a_look_at_every_item_finds(
    alice: Reader, server: World, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random queries over random posts, in both directions, are compared with plain Python."""
    rng = random.Random(5)
    monkeypatch.setattr(post_search, "SEARCHES_OF_USER", RateLimit("searches of posts", "user", 100_000))
    words = ["tide", "fog", "gull", "heron", "東京タワー", "naïve", "ferry"]
    made = [
        (f"p{number}", " ".join(rng.choices(words, k=rng.randint(1, 4))), NOON + rng.randint(-300, 300))
        for number in range(120)
    ]
    for url, part in ((FEED, made[:80]), (OTHER, made[80:])):
        host = url.split("/")[2]
        await server.publish(url, *(posts(name, text=text, at=at, host=host)[0] for name, text, at in part))
    await built(replica)
    read = set(await alice.ids("home", limit=100)) & set(rng.sample(await alice.ids("home", limit=100), 30))
    await alice.post(action="timeline", method="mark_read", channel="home", **{"entry[]": list(read)})
    items = await alice.timeline("home")
    for _ in range(examples(60)):
        wanted, unwanted = rng.choices(words, k=rng.randint(0, 2)), rng.choices(words, k=rng.randint(0, 1))
        either = rng.choices(words, k=2) if rng.random() < 0.4 else []
        unread = rng.choice([None, True, False])
        parts = [*wanted, *(f"-{word}" for word in unwanted), " OR ".join(either)]
        parts += [] if unread is None else ["is:unread" if unread else "is:read"]
        query = " ".join(parts).strip() or "kind:article OR -kind:article"
        expected = [
            item["_id"] for item in items
            if all(word in item["content"]["text"].split() for word in wanted)
            and not any(word in item["content"]["text"].split() for word in unwanted)
            and (not either or any(word in item["content"]["text"].split() for word in either))
            and (unread is None or item["_is_read"] != unread)
        ]  # fmt: skip
        found = await matching(alice, query, "home", limit=7)
        moments = [item["published"] for item in found]
        assert moments == sorted(moments, reverse=True), query
        assert sorted(item["_id"] for item in found) == sorted(expected), query


async def test_a_search_says_that_its_index_is_behind(
    alice: Reader, server: World, replica: Replica, store: Any
) -> None:
    """From a minute on, until the index has caught up: in the reply, above the results, and to admins."""
    await server.publish(FEED, *posts("first sailing"))
    await built(replica)
    assert "_behind" not in await alice.get(action="search", channel="home", query="sailing")
    await store(*posts("second sailing"))
    server.now += 30
    assert "_behind" not in await alice.get(action="search", channel="home", query="sailing")
    server.now += 100
    found = await alice.get(action="search", channel="home", query="sailing")
    assert found["_behind"] == 130
    browser = Visitor(create_app(server.parts, base_url="https://reader.example"), "https://reader.example")
    await server.accounts.set_admin("alice", True)
    await begin_session(browser, server, "alice")
    assert "Posts of the last 3 minutes may be missing." in (await browser.get("/search?q=sailing")).text
    assert "on this machine is 3 minutes behind" in (await browser.get("/admin")).text
    await built(replica)
    server.now += BEHIND_SECONDS
    assert "_behind" not in await alice.get(action="search", channel="home", query="sailing")


async def test_admins_see_that_this_machine_has_no_index(alice: Reader, server: World, replica: Replica) -> None:
    """It may never be written, for example on a full disk; users are only told to try again."""
    await server.publish(FEED, *posts("first sailing"))
    browser = Visitor(create_app(server.parts, base_url="https://reader.example"), "https://reader.example")
    await server.accounts.set_admin(alice.name, True)
    await begin_session(browser, server, alice.name)
    assert (await browser.get("/search?q=sailing")).status == 503
    assert "Posts can’t be searched on this machine" in (await browser.get("/admin")).text
    await built(replica)
    assert "Posts can’t be searched on this machine" not in (await browser.get("/admin")).text


async def test_refusals_of_searches_are_translated(
    alice: Reader, server: World, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All reasons that searches and their cursors give."""
    await server.publish(FEED, *posts("first sailing"))
    await built(replica)
    browser = Visitor(create_app(server.parts, base_url="https://reader.example"), "https://reader.example")
    await begin_session(browser, server, alice.name)

    async def problem(path: str) -> str:
        page = await browser.get(path, **{"accept-language": "de"})
        shown = page.tree.css_first("[role=alert]") or page.tree.css_first("main")
        return " ".join(shown.text().split())

    unclear = "Die Suche ist bei '{}' nicht zu verstehen: nötig ist {}"
    assert unclear.format("is:starred", "is:unread, is:") in await problem("/search?q=is:starred")
    assert unclear.format('"old', "ein zweites Anführungszeichen") in await problem("/search?q=%22old")
    assert "„after“ ist nicht zu gebrauchen: gefunden: 'x', erwartet: eine Seite" in await problem(
        "/search?q=a&after=x"
    )
    assert "eine Seite 'x' gibt es nicht" in await problem("/channel/home?after=x")
    monkeypatch.setattr(post_search, "MOST_FEEDS", 0)
    assert unclear.format("blog", "ein „feed:“, das zu höchst") in await problem("/search?q=feed:blog")

    def too_slow(*_: Any, **__: Any) -> Any:
        raise QueryTooSlow

    monkeypatch.setattr(Generation, "matches", too_slow)
    assert "Zu viele Beiträge passen zu diesen Wörtern" in await problem("/search?q=sailing")
    monkeypatch.setattr(post_search, "SEARCHES_OF_USER", RateLimit("searches of posts", "user", 1))
    assert "Zu viele Suchen: Versuchen Sie es" in [await problem("/search?q=sailing") for _ in range(2)][1]
