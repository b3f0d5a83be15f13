"""Impressions are exact with parallel and broken replies, killed processes, and feeds that change meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import orjson
import pytest
import structlog

from microsub.base.errors import StoreUnavailable
from microsub.feeds import OutputFeed
from microsub.outputs import OutputContents
from microsub.outputs.api import documents
from microsub.redis import keys
from microsub.redis.protocol import Redis
from tests.outputs.conftest import Publisher
from tests.support.world import World

MOST = 4


async def one_item(alice: Publisher) -> tuple[OutputFeed, str, dict[str, str]]:
    """A feed with one item and a maximum of four impressions."""
    addresses, ids = await alice.make(max_impressions=MOST), await alice.items()
    await alice.add(ids["a"])
    return await alice.server.outputs.get("alice", "picks"), ids["a"], addresses


async def reserve(server: World, feed: OutputFeed) -> tuple[str, frozenset[str]]:
    return await server.outputs.reserve(feed, await server.outputs.rows(feed, server.now), server.now)


async def test_a_feed_that_goes_while_replies_are_sent(alice: Publisher) -> None:
    """Its keys are deleted, and a late reply doesn't restore any."""
    server = alice.server
    feed, _, _ = await one_item(alice)
    held, items = await reserve(server, feed)
    await server.outputs.delete("alice", "picks", server.now)
    assert not await server.outputs.settle(feed, held, server.now, shown=items)
    assert await server.outputs.all_of("alice", removed_too=True) == []


async def asked(
    server: World,
    address: str,
    *,
    leave_after: int | None = None,
    client: str = "192.0.2.1",
    until: asyncio.Event | None = None,
) -> tuple[list[dict[str, Any]], bytes]:
    """One GET to the application: messages and body. Its client may leave after more than some bytes, or read nothing
    `until` an event.
    """
    path, _, query = address.removeprefix("http://server.test").partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"server.test")],
        "client": (client, 4711),
        "server": ("server.test", 80),
    }
    sent: list[dict[str, Any]] = []
    gone = asyncio.Event()
    begun = False

    async def receive() -> dict[str, Any]:
        nonlocal begun
        if not begun:
            begun = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        if until is not None and sent[0]["status"] == 200:
            await until.wait()
        if leave_after is not None and sum(len(one.get("body", b"")) for one in sent) > leave_after:
            gone.set()
        await asyncio.sleep(0)

    await server.app(scope, receive, send)  # type: ignore[arg-type]
    return sent, b"".join(one.get("body", b"") for one in sent)


async def test_leaving_before_the_first_item_counts_nothing(alice: Publisher) -> None:
    """Its impressions are returned at once, and the body stays incomplete."""
    server = alice.server
    _, _, addresses = await one_item(alice)
    for form in ("rss", "atom", "json"):
        sent, part = await asked(server, addresses[form], leave_after=0)
        assert sent[-1]["more_body"]
        assert b"https://blog.example/a" not in part
    assert await alice.state() == {"a": ("published", 0)}
    assert await server.redis.command("HLEN", "user:{alice}:output:picks:held") == 0


async def test_leaving_early_counts_only_items_sent(alice: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaking off shortly before the end reads nothing uncounted; items that were not sent are not counted."""
    server = alice.server
    addresses, ids = await alice.make(max_impressions=MOST), await alice.items()
    await alice.add(ids["a"], ids["b"])
    monkeypatch.setattr(documents, "_PIECE", 64)
    whole, body = await asked(server, addresses["rss"])
    assert not whole[-1].get("more_body")
    first = body.index(b"<item>")
    second = body.index(b"<item>", first + 1)
    await asked(server, addresses["rss"], leave_after=first + 10)
    assert await alice.state() == {"b": ("published", 2), "a": ("published", 1)}
    for place in (second + 10, len(body) - 100):
        sent, part = await asked(server, addresses["rss"], leave_after=place)
        assert len(part) < len(body)
        assert sent[-1]["more_body"]
    assert await alice.state() == {"b": ("imported", 4), "a": ("published", 3)}
    assert await server.redis.command("HLEN", "user:{alice}:output:picks:held") == 0


async def test_items_are_sent_as_often_as_they_have_left(alice: Publisher) -> None:
    """One item has one impression left and two have four: forty fetchers get them so often, and no more are counted."""
    addresses, ids = await alice.make(max_impressions=MOST), await alice.items()
    await alice.add(ids["a"])
    for _ in range(MOST - 1):
        assert await alice.shown(addresses["json"]) == ["a"]
    await alice.add(ids["b"], ids["c"])
    clients = [f"192.0.2.{number}" for number in range(40)]
    replies = await asyncio.gather(*(asked(alice.server, addresses["json"], client=client) for client in clients))
    shown = [[item["title"] for item in orjson.loads(body)["items"]] for _, body in replies]
    assert Counter(title for titles in shown for title in titles) == {"a": 1, "b": MOST, "c": MOST}
    assert await alice.state() == dict.fromkeys("abc", ("imported", MOST))


async def test_pages_and_the_owners_requests_count_nothing(alice: Publisher) -> None:
    """The page never counts, nor does any format for the feed's owner, by token or signed in; others count."""
    server = alice.server
    _, _, addresses = await one_item(alice)
    me = (await server.redis.command("HGET", keys.user("alice"), "me")).decode()
    cookie = await server.parts.sessions.begin("alice", me, "password", "", server.now)
    bob = await server.reader("bob", "home")
    for headers in (
        {"authorization": f"Bearer {alice.reader.token}"},
        {"cookie": f"microsub-session-80={cookie}; __Host-microsub-session={cookie}; microsub-session={cookie}"},
    ):
        for form in addresses:
            reply = await server.client.get(addresses[form], headers=headers)
            assert (reply.status_code, "blog.example/a" in reply.text) == (200, True)
    await server.client.get(addresses["html"])
    assert await alice.state() == {"a": ("published", 0)}
    await server.client.get(addresses["rss"], headers={"authorization": f"Bearer {bob.token}"})
    await server.client.get(
        addresses["rss"], headers={"authorization": "Bearer unknown", "cookie": "microsub-session=x"}
    )
    assert await alice.state() == {"a": ("published", 2)}


async def test_a_part_of_a_limited_feed_is_all_of_it_and_counts(alice: Publisher) -> None:
    """Otherwise a client could get the items in ranges without any impression."""
    _, _, addresses = await one_item(alice)
    for count, asked_for in enumerate(("bytes=0-", "bytes=1-", "bytes=-100000"), 1):
        reply = await alice.get(addresses["json"], range=asked_for)
        assert (reply.status_code, reply.headers["accept-ranges"]) == (200, "none")
        assert [item["title"] for item in reply.json()["items"]] == ["a"]
        assert await alice.state() == {"a": ("published", count)}


async def test_redis_that_goes_away_counts_nothing(alice: Publisher, redis: Redis) -> None:
    """If an impression can't be counted, the body stays incomplete."""
    server = alice.server
    _, _, addresses = await one_item(alice)
    outputs = server.outputs

    async def fail(*_: Any, **__: Any) -> bool:
        raise StoreUnavailable("gone")

    whole = outputs.settle
    outputs.settle = fail  # type: ignore[method-assign]
    with structlog.testing.capture_logs() as logs:
        sent, body = await asked(server, addresses["rss"])
    outputs.settle = whole  # type: ignore[method-assign]
    assert sent[-1]["more_body"]
    assert b"<item>" not in body
    assert [(one["event"], one["detail"]) for one in logs if one["log_level"] == "error"] == [("store failed", "gone")]
    assert "exc_info" not in logs[-1]
    assert await alice.state() == {"a": ("published", 0)}


async def test_slow_readers_dont_block_other_networks(alice: Publisher) -> None:
    """One network gets ten replies at a time; other networks aren't affected."""
    server = alice.server
    _, _, addresses = await one_item(alice)
    going_on = asyncio.Event()

    async def slow(client: str) -> list[int]:
        return [one["status"] for one in (await asked(server, addresses["rss"], client=client, until=going_on))[0][:1]]

    held = [asyncio.create_task(slow("8.8.8.8")) for _ in range(15)]
    await asyncio.wait(held, return_when=asyncio.FIRST_COMPLETED)
    assert [one.result() for one in held if one.done()] == [[429]] * sum(one.done() for one in held)
    other = asyncio.create_task(slow("9.9.9.9"))
    going_on.set()
    assert await other == [200]
    assert sorted(await asyncio.gather(*held)) == [[200]] * 10 + [[429]] * 5


async def test_a_reply_that_can_not_be_written_holds_nothing(alice: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another reply took an impression and then Redis fails, the reservations are released at once."""
    server = alice.server
    feed, item, addresses = await one_item(alice)
    await alice.add((await alice.items())["b"])
    rows = await server.outputs.rows(feed, server.now)
    filled, reserve_of = OutputContents.filled, server.outputs.reserve
    written = 0

    async def failing(contents: OutputContents, *listed: Any) -> Any:
        nonlocal written
        written += 1
        if written > 1:
            raise StoreUnavailable("Redis is away")
        for _ in range(MOST):
            await reserve_of(feed, [row for row in rows if row.item == item], server.now)
        return await filled(contents, *listed)

    monkeypatch.setattr(OutputContents, "filled", failing)
    assert (await alice.get(addresses["json"])).status_code == 503
    held = await server.redis.command("HVALS", keys.output_held("alice", "picks"))
    other = next(row.item for row in rows if row.item != item)
    assert not [one for one in held if f" {other}:".encode() in one]
