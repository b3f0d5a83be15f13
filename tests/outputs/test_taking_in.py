"""All posts that came to a feed's channel or search between two requests are taken in, in any number and order."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import aclosing
from datetime import datetime
from unittest.mock import patch

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from microsub.base.errors import SearchUnavailable
from microsub.configuration.model import Quotas, UserSettings
from microsub.outputs import contents
from microsub.outputs.contents import _STEPS, _WINDOW
from microsub.redis import keys
from microsub.redis.multiplexer import Multiplexed
from microsub.server.stores import output_contents
from tests.outputs.conftest import Publisher
from tests.support import examples
from tests.support.posts import NOON, candidate
from tests.support.readers import FEED, instance

ONE_REQUEST = _STEPS * _WINDOW


async def standing(alice: Publisher, name: str = "picks") -> set[str]:
    """The ids of all items that the feed shows."""
    server = alice.server
    return {row.item for row in await server.outputs.rows(await server.outputs.get("alice", name), server.now)}


async def titles(alice: Publisher) -> set[str]:
    """The titles of all items that the feed shows."""
    found = await alice.server.items.data(list(await standing(alice)))
    return {orjson.loads(data)["name"] for data in found if data is not None}


async def come(alice: Publisher, count: int, stem: str = "new", *, at: float | None = None) -> set[str]:
    """Publish this many posts in the channel, 500 per document."""
    names = [f"{stem} {number}" for number in range(count)]
    for start in range(0, count, 500):
        alice.server.now += 1
        when = alice.server.now - 1000 if at is None else at
        await alice.publish(*names[start : start + 500], at=when)
    return set(names)


@pytest.fixture
async def feed(alice: Publisher) -> dict[str, str]:
    """The addresses of `picks`, which passes on the large channel `home`, after its first request."""
    server = alice.server
    await server.redis.command("HSET", keys.channel("alice", "home"), "max_items", 10_000)
    await server.declared.set_user("alice", UserSettings(quotas=Quotas(output_items=10_000)))
    addresses = await alice.make(channel="home")
    assert await alice.shown(addresses["json"]) == ["a", "b", "c"]
    return addresses


@pytest.mark.parametrize("count", [_WINDOW + 1, ONE_REQUEST])
async def test_all_posts_between_two_requests_are_added(alice: Publisher, feed: dict[str, str], count: int) -> None:
    """The numbers are one more than the window of newest items, and the maximum of one request."""
    new = await come(alice, count)
    await alice.shown(feed["json"])
    assert await titles(alice) == new | {"a", "b", "c"}


async def test_a_backlog_is_added_over_several_requests(alice: Publisher, feed: dict[str, str]) -> None:
    """The oldest arrivals are taken in first, also if more posts arrive meanwhile."""
    new = await come(alice, ONE_REQUEST + 1)
    await alice.shown(feed["json"])
    assert len(await titles(alice)) == 3 + ONE_REQUEST
    more = await come(alice, 5, "more")
    await alice.shown(feed["json"])
    assert await titles(alice) == new | more | {"a", "b", "c"}


async def test_late_posts_are_added(alice: Publisher, feed: dict[str, str]) -> None:
    """This holds even if the channel has more newer posts than the window."""
    await come(alice, 2 * _WINDOW)
    await alice.shown(feed["json"])
    late = await come(alice, 3, "late", at=NOON - 1_000_000)
    await alice.shown(feed["json"])
    assert late <= await titles(alice)


async def test_saved_and_moved_posts_are_added(alice: Publisher) -> None:
    """This holds whenever the post arrived, and whatever newer posts the channel has."""
    old = await alice.items()
    await come(alice, _WINDOW + 5)
    newer = [item["_id"] for item in await alice.reader.timeline("home") if item["_id"] not in old.values()]
    kept, later = await alice.make("kept", channel="saved"), await alice.make("later", channel="later")
    for addresses in (kept, later):
        assert await alice.shown(addresses["json"]) == []
    await alice.reader.post(action="timeline", method="save", **{"entry[]": newer})
    await alice.get(kept["json"])
    await alice.reader.post(action="timeline", method="save", **{"entry[]": [old["a"]]})
    await alice.reader.post(action="timeline", method="move", channel="later", **{"entry[]": [old["b"]]})
    await alice.get(kept["json"])
    await alice.get(later["json"])
    assert await standing(alice, "kept") == {*newer, old["a"]}
    assert await standing(alice, "later") == {old["b"]}


@pytest.mark.parametrize("requested_meanwhile", [False, True])
async def test_no_post_is_from_a_time_after_its_publication(alice: Publisher, requested_meanwhile: bool) -> None:
    """Not even one that came while the clock was years ahead; it moves down, and its date is the same each time."""
    server, addresses = alice.server, await alice.make(channel="home")
    right = server.now + 100
    server.now = right + 70 * 365 * 86400
    await alice.publish("ahead", at=server.now - 10)
    if requested_meanwhile:
        assert (await alice.shown(addresses["json"]))[0] == "ahead"
    server.now = right
    await alice.shown(addresses["json"])
    server.now += 1000
    await alice.publish("later", at=server.now - 10)
    first = {form: (await alice.get(addresses[form])).content for form in ("rss", "atom", "json")}
    items = orjson.loads(first["json"])["items"]
    assert [item["title"] for item in items][:2] == ["later", "ahead"]
    ahead = datetime.fromisoformat(items[1]["date_published"]).timestamp()
    assert right - 1 <= ahead <= right + 1
    assert b"2093" not in b"".join(first.values())
    server.now += 1000
    assert first == {form: (await alice.get(addresses[form])).content for form in ("rss", "atom", "json")}


async def test_a_feed_begins_with_the_newest(alice: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most as many as one request may read, once for each channel of the feed; later arrivals are added."""
    monkeypatch.setattr(contents, "_FIRST", _WINDOW)
    await come(alice, 2 * _WINDOW)
    addresses = await alice.make(channel="home")
    await alice.shown(addresses["json"])
    assert len(await titles(alice)) == _WINDOW
    await alice.reader.post(action="outputs", method="change", output="picks", channel="later")
    await alice.shown(addresses["json"])
    new = await come(alice, 3, "later", at=alice.server.now)
    await alice.reader.post(action="outputs", method="change", output="picks", channel="home")
    await alice.shown(addresses["json"])
    assert len(await titles(alice)) == _WINDOW + len(new)


async def test_other_filters_lose_nothing(alice: Publisher) -> None:
    """Posts that arrived before the change, but weren't taken in, are matched with the new filters."""

    async def declare(word: str) -> None:
        outputs = {"picks": {"channel": "home", "filters": {"exclude_words": [word]}}}
        alice.server.save({"users": {"alice": {"outputs": outputs}}}, at=alice.server.now)
        await alice.server.configuration.look()

    await declare("b")
    (made,) = (await alice.reader.get(action="outputs"))["outputs"]
    assert await alice.shown(made["addresses"]["json"]) == ["a", "c"]
    new = await come(alice, _WINDOW + 10)
    alice.server.now += 10
    await declare("c")
    await alice.shown(made["addresses"]["json"])
    assert await titles(alice) == new | {"a", "b", "c"}


async def test_a_quota_bounds_what_is_taken_in(alice: Publisher, feed: dict[str, str]) -> None:
    """The latest items stay."""
    server = alice.server
    await server.declared.set_user("alice", UserSettings(quotas=Quotas(output_items=300)))
    await come(alice, 500, "early")
    late = await come(alice, 200, "late")
    await alice.shown(feed["json"])
    found = await titles(alice)
    assert len(found) <= 300
    assert late <= found


async def test_a_step_that_breaks_off_is_taken_again(
    alice: Publisher, feed: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds if the process dies between adding the items and recording the position."""
    new = await come(alice, _WINDOW + 1)
    note = alice.server.outputs.note_taken

    async def die(*_: object) -> None:
        raise ConnectionError

    monkeypatch.setattr(alice.server.outputs, "note_taken", die)
    feed_now = await alice.server.outputs.get("alice", "picks")
    with pytest.raises(ConnectionError):
        await alice.server.parts.output_contents.refresh(feed_now, alice.server.now)
    monkeypatch.setattr(alice.server.outputs, "note_taken", note)
    await alice.shown(feed["json"])
    assert await titles(alice) == new | {"a", "b", "c"}


async def test_search_results_are_added_once_indexed(alice: Publisher) -> None:
    """All matches are taken in, not just the newest; while the index lacks posts, they aren't skipped."""
    server = alice.server
    knows = True

    class Index:
        async def newest(self, *_: object) -> list[str]:
            if not knows:
                raise SearchUnavailable("no index")
            return []

        async def matching(
            self, _user: str, _uid: str, _query: str, ids: list[str], _now: float
        ) -> tuple[list[str], bool]:
            return (ids[::2], True) if knows else ([], False)

    server.use(output_contents=output_contents(server, search=Index()))
    addresses = await alice.make(search="new", channel="home")
    assert await alice.shown(addresses["json"]) == []
    await come(alice, 2 * _WINDOW)
    knows, server.now = False, server.now + 60
    assert await alice.shown(addresses["json"]) == []
    knows, server.now = True, server.now + 60
    await alice.shown(addresses["json"])
    assert len(await titles(alice)) == _WINDOW


async def test_an_id_is_the_same_on_every_instance(alice: Publisher) -> None:
    """If the guid isn't a URL, the id is derived from guid and feed address, not from ids of this server."""
    server = alice.server
    addresses = await alice.make(channel="home")
    await server.publish(FEED, candidate("plain", guid="post 7", at=NOON + 100))
    reply = await alice.get(addresses["json"])
    (found,) = (item["id"] for item in reply.json()["items"] if item["title"] == "plain")
    assert found == f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{FEED} post 7')}"


_steps = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.integers(1, 3)),
        st.tuples(st.just("late"), st.integers(1, 2)),
        st.tuples(st.sampled_from(["move", "save", "ask"]), st.integers(0, 5)),
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=examples(15), suppress_health_check=list(HealthCheck))
@given(_steps)
def test_a_feed_gets_all_items_of_its_channel(redis_url: str, steps: list[tuple[str, int]]) -> None:
    """Posts may be new, late, moved or saved; a step takes two items, and a request takes two steps."""
    asyncio.run(_history(redis_url, steps))


async def _history(redis_url: str, steps: list[tuple[str, int]]) -> None:
    redis = Multiplexed(redis_url)
    await redis.command("FLUSHDB")
    async with aclosing(redis), instance(redis) as server:
        alice = Publisher(server, await server.reader("alice", "home", "later"))
        await alice.publish("a")
        await alice.reader.post(action="follow", channel="home", url=FEED)
        feeds = {uid: (await alice.make(uid, channel=uid))["json"] for uid in ("home", "later", "saved")}
        with patch.object(contents, "_WINDOW", 2), patch.object(contents, "_STEPS", 2):
            for address in feeds.values():
                await alice.get(address)
            for number, (step, value) in enumerate(steps):
                server.now += 1
                if step in {"come", "late"}:
                    at = server.now if step == "come" else NOON - 1000 - number
                    await alice.publish(*(f"{number} {place}" for place in range(value)), at=at)
                    continue
                ids = [item["_id"] for item in await alice.reader.timeline("home")]
                if step == "ask":
                    await alice.get(list(feeds.values())[value % 3])
                elif ids:
                    target = {"channel": "later"} if step == "move" else {}
                    some = [ids[value % len(ids)]]
                    # Items that leave a channel before the next request aren't passed on.
                    await alice.get(feeds["home"])
                    await alice.reader.post(action="timeline", method=step, **target, **{"entry[]": some})
            for _ in range(len(steps) + 2):
                for address in feeds.values():
                    await alice.get(address)
                server.now += 60
        for uid in feeds:
            stands = {item["_id"] for item in await alice.reader.timeline(uid)}
            rows = await server.outputs.rows(await server.outputs.get("alice", uid), server.now)
            assert stands <= {row.item for row in rows}
