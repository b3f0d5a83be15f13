"""Many requests of one user: none of them, and nobody else, waits for long."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextlib import suppress

import pytest

from microsub.base.errors import StoreSilent, TooManyRequests
from microsub.greader.api import NativeCall, text_reply
from microsub.greader.turns import WAITING, UserTurns
from microsub.model.reader import Credential
from microsub.redis.protocol import Redis
from microsub.timelines import ArrivedItems, keep_order, views
from microsub.web import params, responses
from microsub.web.params import FEW_PAIRS, Params
from microsub.web.responses import UNITS_SENT_OF_USER, HttpReply
from tests.support.native_app import ADDRESS, NativeApp
from tests.support.reader import Reader
from tests.support.readers import posts
from tests.support.world import World

FEED = "https://blog.example/feed"


def call_of(user: str) -> NativeCall:
    return NativeCall(user, Credential(user, "digest"), 0.0, Params({}))


async def test_a_small_request_does_not_wait_for_large_ones() -> None:
    """Another kind of the same user has a turn of its own; too many of one kind are refused, with the time to wait."""
    turns, ended = UserTurns(), asyncio.Event()

    async def large(_: NativeCall) -> HttpReply:
        await ended.wait()
        return text_reply("large")

    async def small(_: NativeCall) -> HttpReply:
        return text_reply("small")

    contents, lists = turns.route("contents", large), turns.route("lists", small)
    waiting = [asyncio.ensure_future(contents.run(call_of("alice"))) for _ in range(WAITING.most)]
    await asyncio.sleep(0)
    assert (await lists.run(call_of("alice"))).body == b"small"
    with pytest.raises(TooManyRequests) as refused:
        await contents.run(call_of("alice"))
    assert refused.value.retry_after == 5
    other = asyncio.ensure_future(contents.run(call_of("bob")))
    ended.set()
    assert {reply.body for reply in await asyncio.gather(*waiting, other)} == {b"large"}
    assert (await contents.run(call_of("alice"))).body == b"large"


async def test_while_redis_is_silent_all_fail_with_the_first() -> None:
    """A request that begins afterwards asks Redis itself."""
    turns, silent, asked = UserTurns(), asyncio.Event(), list[str]()

    async def ask(call: NativeCall) -> HttpReply:
        asked.append(call.user)
        if len(asked) == 1:
            await silent.wait()
            raise StoreSilent("no reply")
        return text_reply("there")

    route = turns.route("ids", ask)
    waiting = [asyncio.ensure_future(route.run(call_of("alice"))) for _ in range(8)]
    await asyncio.sleep(0)
    silent.set()
    failed = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(one) for one in failed] == [StoreSilent] * 8
    assert len(asked) == 1
    assert (await route.run(call_of("alice"))).body == b"there"


async def test_a_failed_request_stays_in_memory_no_longer() -> None:
    """Its error names all that it had received, and is kept only for those that wait."""

    class Received:
        """What a request had in memory."""

    kept = weakref.WeakSet[Received]()

    async def ask(_: NativeCall) -> HttpReply:
        received = Received()
        kept.add(received)
        raise StoreSilent("no reply")

    route = UserTurns().route("marks", ask)
    for user in ("alice", "bob"):
        with suppress(StoreSilent):
            await route.run(call_of(user))
    gc.collect()
    assert not kept


async def test_a_large_reply_that_is_refused(
    server: World, alice: Reader, app: NativeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line of text, as for every error, though it is refused after it was made."""
    await server.publish(FEED, *posts("a", "b", "c"))
    await alice.post(action="follow", channel="home", url=FEED)
    monkeypatch.setattr(responses, "SENT_UNIT", 16)
    give_back = responses._SENT.take([(UNITS_SENT_OF_USER, "alice")] * UNITS_SENT_OF_USER.most)
    try:
        reply = await app.get("stream/contents", 429)
    finally:
        give_back()
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "5")
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert reply.text == "Too many large replies are being sent. Try again in a few seconds.\n"


async def test_the_first_requests_at_once_order_the_posts_once(
    server: World, alice: Reader, app: NativeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others wait for it. Eighty that each did it kept Redis busy for minutes with 150,000 posts."""
    await server.publish(FEED, *posts("a", "b", "c"))
    await alice.post(action="follow", channel="home", url=FEED)
    were_kept = list[bool]()

    async def noted(redis: Redis, items: ArrivedItems, user: str, now: float) -> bool:
        were_kept.append(await keep_order(redis, items, user, now))
        return were_kept[-1]

    monkeypatch.setattr(views, "keep_order", noted)
    replies = await asyncio.gather(*(app.get("stream/items/ids") for _ in range(8)))
    assert {len(reply.json()["itemRefs"]) for reply in replies} == {3}
    assert were_kept.count(False) == 1


BODY = "&".join(f"i={number}" for number in range(FEW_PAIRS + 1))
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    "place",
    [
        f"{ADDRESS}/accounts/ClientLogin",
        f"{ADDRESS}/reader/api/0/edit-tag",
        f"{ADDRESS}/reader/api/0/stream/items/contents",
        "/microsub",
        "/micropub",
        "/token",
        "/webmention",
    ],
)
async def test_bodies_of_many_parameters_take_turns(server: World, app: NativeApp, place: str) -> None:
    """At every address that takes one, with a right token or a wrong one."""
    async with params._turns.of(""):
        headers = {**FORM, **(app.headers if "/api/0/" in place else {})}
        sent = asyncio.create_task(server.client.post(place, content=BODY, headers=headers))
        await app.get("token")
        await app.get("user-info")
        assert not sent.done()
    assert (await sent).status_code in {200, 400, 401}
