"""What Redis remembers of backend.json, spoilt by a hand: edits are applied and API changes written all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from microsub.redis import keys
from microsub.redis.protocol import Redis
from tests.support.configured import NOW, Configured

A, B, C = "https://a.example/feed", "https://b.example/feed", "https://c.example/feed"

SPOILT: dict[str, list[tuple[str, bytes]]] = {
    "text": [("document", b"abc")],
    "binary": [("document", b"\xff\xfe")],
    "another object": [("document", b'{"users": [1]}')],
    "a list": [("document", b"[]")],
    "time": [("mtime", b"soon")],
    "endless": [("mtime", b"inf")],
    "far": [("mtime", b"1e300")],
    "applied": [("at", b"")],
    "hash": [("document", b"{"), ("hash", b"\xff")],
    "everything": [("document", b"{"), ("hash", b"x"), ("mtime", b"inf"), ("at", b"nan"), ("place", b"\xff")],
}


def file(*feeds: str, name: str = "Home") -> dict[str, Any]:
    channel = {"uid": "home", "name": name, "feeds": list(feeds)}
    return {"users": {"alice": {"me": "https://alice.example/", "channels": [channel]}}}


async def spoil(redis: Redis, how: str) -> None:
    for field, value in SPOILT[how]:
        await redis.command("HSET", keys.applied_config(), field, value)


@pytest.fixture
async def configured(redis: Redis, tmp_path: Path) -> Configured:
    """A feed of the file was left in an app, and another one followed."""
    it = Configured(redis, tmp_path / "backend.json", write_back=True)
    it.save(file(A, B), at=NOW)
    assert await it.configuration.look() == "applied"
    await it.following.unfollow("alice", "home", B, NOW + 1)
    await it.following.follow("alice", "home", C, NOW + 1)
    return it


async def feeds(it: Configured) -> list[str]:
    return (await it.state())["alice"]["home"][1]


@pytest.mark.parametrize("how", SPOILT)
async def test_an_edit_is_applied_and_undoes_nothing_of_the_apps(configured: Configured, how: str) -> None:
    """While the server runs it knows itself what it applied, as long as the hash says that it was that."""
    await spoil(configured.redis, how)
    configured.save(file(A, B, name="Haus"), at=NOW + 2)
    assert await configured.configuration.look() == "applied"
    name, there = (await configured.state())["alice"]["home"]
    assert name == "Haus"
    assert {A, C} <= set(there)
    if how not in {"hash", "everything"}:
        assert there == [A, C]
    assert await configured.server().look() == "unchanged"


@pytest.mark.parametrize("how", SPOILT)
async def test_changes_of_apps_are_written_back(configured: Configured, how: str) -> None:
    """The file that stands there is what was applied, if its hash says so."""
    await spoil(configured.redis, how)
    server = configured.server()
    await server.write_back()
    await server.write_back()
    [written] = configured.saved()["users"]["alice"]["channels"]
    assert {A, C} <= set(written["feeds"])
    if how not in {"hash", "everything"}:
        assert written["feeds"] == [A, C]
    assert await configured.server().look() == "unchanged"


@pytest.mark.parametrize("how", SPOILT)
async def test_a_server_that_starts_takes_the_same_file_for_applied(configured: Configured, how: str) -> None:
    """Nothing comes back that was left in an app, where the hash is sound."""
    await spoil(configured.redis, how)
    assert await configured.server().look() == "applied"
    assert {A, C} <= set(await feeds(configured))
    if how not in {"hash", "everything"}:
        assert await feeds(configured) == [A, C]


async def test_an_emptied_store_never_empties_the_file(configured: Configured) -> None:
    """Everything in Redis is gone while the server runs: the file is what is left, and is applied anew."""
    await configured.redis.command("FLUSHDB")
    await configured.configuration.write_back()
    [written] = configured.saved()["users"]["alice"]["channels"]
    assert written["feeds"] == [A, B]
    assert await feeds(configured) == [A, B]
