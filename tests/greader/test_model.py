"""Random changes by a native app, a Microsub app and the page, against one model of what Alice has."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest

from microsub.redis.protocol import Redis
from microsub.timelines import READ_EVERYWHERE
from tests.support.native_app import NativeApp
from tests.support.reader import Reader
from tests.support.readers import instance, posts
from tests.support.three_faces import LABELS, PAGES, Faces, Model, step
from tests.support.visitor import Visitor, begin_session
from tests.support.world import World

FEEDS = ("https://blog.example/feed", "https://other.example/feed")
STEPS = 50
ADDRESS = "https://reader.example"


@pytest.fixture
async def server(real_redis: Redis) -> AsyncIterator[World]:
    """The application at an address at which people can sign in."""
    async with instance(real_redis, base_url=ADDRESS) as made:
        yield made


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("seed", range(4))
async def test_three_faces_never_disagree(
    server: World, alice: Reader, app: NativeApp, seed: int, everywhere: bool
) -> None:
    rng = random.Random(seed)
    await server.accounts.set_settings("alice", {READ_EVERYWHERE: "yes" if everywhere else "no"})
    for number, url in enumerate(FEEDS):
        host = url.split("/")[2]
        await server.publish(url, *posts(*(f"{number}{name}" for name in "abcdef"), host=host))
        await alice.post(action="follow", channel="home", url=url)
    await alice.post(action="follow", channel="later", url=FEEDS[0])
    page = Visitor(server.app, ADDRESS)
    await begin_session(page, server, "alice")
    model = Model(everywhere=everywhere)
    for uid in LABELS:
        items = (await alice.get(action="timeline", channel=uid, limit=100))["items"]
        model.shown[uid] = {one["_id"]: one["_is_read"] for one in items}
    ids = sorted(model.posts())
    faces, history = Faces(app, alice, page), list[str]()
    await faces.agree_with(model, ids, history)
    for number in range(STEPS):
        history.append(await step(rng, faces, model, ids))
        # The pages take turns: a difference stays until it is seen.
        pages = PAGES if number == STEPS - 1 else (PAGES[number % len(PAGES)],)
        await faces.agree_with(model, ids, history, pages)
