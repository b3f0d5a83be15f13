"""If a process dies between any two round trips while it applies backend.json, the next one completes the edit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from microsub.base.errors import StoreUnavailable
from microsub.base.urls import host_of
from microsub.redis import keys
from microsub.redis.protocol import Redis
from tests.support.configured import NOW, Configured
from tests.support.redis_wrappers import Between

A, B, C, D = (f"https://{name}.example/feed" for name in "abcd")


def document(**users: Any) -> dict[str, Any]:
    return {
        "users": {
            name: {
                "me": f"https://{name}.example/",
                "channels": [{"uid": uid, "feeds": feeds} for uid, feeds in channels.items()],
            }
            for name, channels in users.items()
        }
    }


BEFORE = document(ann={"home": [A, B], "news": [C]}, bob={"home": [C]})

EDITS = {
    "feeds come and go": document(ann={"home": [B, D], "news": [A, C]}, bob={"home": [C]}),
    "a channel comes and one goes": document(ann={"home": [A, B], "more": [C, D]}, bob={"home": [C]}),
    "a user comes and one goes": document(ann={"home": [A, B], "news": [C]}, eve={"home": [A, D]}),
    "a feed gets a sign-in": document(
        ann={"home": [{"url": A, "sign_in": {"password": "pass"}, "name": "Mine"}, B], "news": [C]}, bob={"home": [C]}
    ),
    "a user is somebody else": document(ann={"home": [A]}, bob={"else": [C, D]}),
}


class Killed(Exception):
    """The death of the process."""


async def outcome(configured: Configured) -> Any:
    """The follows of each user, as users, feeds and the schedule have them."""
    feeds = {}
    state = await configured.state()
    followed = {url for channels in state.values() for _, urls in channels.values() for url in urls}
    for url in sorted({A, B, C, D, *followed}):
        feed = await configured.feeds.find(url)
        if feed is not None:
            due = await configured.redis.command("ZSCORE", keys.host_due(host_of(url)), feed)
            followers = await configured.feeds.subscribers(feed)
            feeds[url] = followers, due is not None or not followers
    users = {user.name: user.disabled is None for user in await configured.accounts.users()}
    return state, feeds, users, [key async for key in stray(configured.redis)]


async def stray(redis: Redis) -> Any:
    if await redis.command("HEXISTS", keys.applied_config(), "begun"):
        yield "begun"


async def prepared(redis: Redis, tmp_path: Path, edit: str) -> Configured:
    """A server with the file before the edit applied, and the edited file saved."""
    configured = Configured(redis, tmp_path / "backend.json", key_file=tmp_path / "key")
    await configured.apply(BEFORE, at=NOW)
    if edit == "a user is somebody else":
        await configured.apply(document(ann={"home": [A]}), at=NOW + 1)
    configured.save(EDITS[edit], at=NOW + 2)
    return configured


@pytest.mark.parametrize("edit", EDITS)
async def test_the_next_process_completes_a_partial_edit(real_redis: Redis, tmp_path: Path, edit: str) -> None:
    """A death before any of the round trips changes nothing in the result, followers and schedule included."""
    redis, key = real_redis, tmp_path / "key"
    whole = await prepared(redis, tmp_path, edit)
    names = await redis.command("KEYS", "*")
    copies = await redis.pipeline([("DUMP", name) for name in names])
    beginning = [("RESTORE", name, 0, copy) for name, copy in zip(names, copies, strict=True)]
    assert await whole.configuration.look() == "applied"
    expected = await outcome(whole)
    trips = 0
    while True:
        left = trips

        async def before(_name: str, _args: Any) -> None:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1

        await redis.command("FLUSHDB")
        await redis.pipeline(beginning)
        try:
            await Configured(Between(redis, before), tmp_path / "backend.json", key_file=key).configuration.look()
        except Killed:
            await redis.command("DEL", keys.lease("config"))
            after = Configured(redis, tmp_path / "backend.json", key_file=key)
            assert await after.configuration.look() in {"applied", "unchanged"}
            assert await outcome(after) == expected, f"after {trips} round trips"
        else:
            break
        trips += 1
    assert trips > 10


async def test_an_edit_that_is_taken_back_after_a_crash_leaves_nothing(redis: Redis, tmp_path: Path) -> None:
    """The interrupted edit is completed first, so that the next edit is compared with it."""
    await prepared(redis, tmp_path, "feeds come and go")
    follows = 0

    async def before(name: str, _args: Any) -> None:
        nonlocal follows
        follows += name == "subscription_write"
        if follows == 2:
            raise StoreUnavailable("gone")

    broken = Configured(Between(redis, before), tmp_path / "backend.json")
    with pytest.raises(StoreUnavailable):
        await broken.configuration.look()
    await redis.command("DEL", keys.lease("config"))
    after = Configured(redis, tmp_path / "backend.json")
    await after.apply(BEFORE, at=NOW + 3)
    state = (await after.state())["ann"]
    assert {uid: set(feeds) for uid, (_, feeds) in state.items()} == {"home": {A, B}, "news": {C}}
