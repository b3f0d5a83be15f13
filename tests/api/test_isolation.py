"""Two users with the same channels, feeds and items: nothing that one does, sees or counts crosses to the other.

And what every action asks of a token's scopes.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from microsub.api.microsub import TABLE
from microsub.model.scopes import ALL_SCOPES
from tests.support.readers import ENDPOINT, Instance, Reader, posts

FEED = "https://blog.example/feed"
OTHER = "https://other.example/feed"
ANN = "https://blog.example/"

Key = tuple[str, str, str]


def parameters(key: Key, ids: list[str]) -> dict[str, Any]:
    """A request of each kind that, from its own user, changes or shows as much as it can."""
    verb, action, method = key
    more: dict[Key, dict[str, Any]] = {
        ("POST", "channels", ""): {"channel": "home", "name": "Taken over"},
        ("POST", "channels", "delete"): {"channel": "home"},
        ("POST", "channels", "order"): {"channels[]": ["later", "home"]},
        ("GET", "timeline", ""): {"channel": "global", "limit": 100},
        ("POST", "timeline", "mark_read"): {"channel": "global", "entry[]": ids},
        ("POST", "timeline", "mark_unread"): {"channel": "global", "entry[]": ids},
        ("POST", "timeline", "remove"): {"channel": "global", "entry[]": ids},
        ("POST", "timeline", "move"): {"channel": "later", "entry[]": ids},
        ("GET", "follow", ""): {"channel": "global"},
        ("POST", "follow", ""): {"channel": "later", "url": OTHER},
        ("POST", "follow", "update"): {"channel": "later", "url": FEED},
        ("POST", "unfollow", ""): {"channel": "home", "url": FEED},
        ("GET", "search", ""): {"query": "private words"},
        ("POST", "search", ""): {"query": "private words"},
        ("GET", "preview", ""): {"url": FEED},
        ("POST", "preview", ""): {"url": FEED},
        ("POST", "mute", ""): {"url": ANN},
        ("POST", "unmute", ""): {"url": ANN},
        ("POST", "block", ""): {"url": ANN},
        ("POST", "unblock", ""): {"url": ANN},
    }
    assert verb == "GET" or key in more, f"say here what a good request for {key} is"
    return {"action": action, **({"method": method} if method else {}), **more.get(key, {})}


async def snapshot(reader: Reader) -> str:
    """Everything that a user can see of their own things."""
    views: list[Any] = [
        await reader.get(action="channels", method="tree"),
        await reader.get(action="follow", channel="global"),
        await reader.get(action="mute"),
        await reader.get(action="block"),
        await reader.get(action="timeline", channel="global", limit=100),
    ]
    for channel in views[0]["channels"]:
        for is_read in ("true", "false"):
            views.append(await reader.get(action="timeline", channel=channel["uid"], limit=100, is_read=is_read))
    return json.dumps(views, sort_keys=True)


@pytest.fixture
async def ids(alice: Reader, bob: Reader, server: Instance) -> list[str]:
    """Items that both users have in `home`, the first one read by both; Bob has a feed that Alice doesn't."""
    await server.publish(FEED, *posts("a", "b", "c"))
    await server.publish(OTHER, *posts("private words", host="other.example"), title="Only private words")
    for reader in (alice, bob):
        await reader.post(action="follow", channel="home", url=FEED)
    await bob.post(action="follow", channel="home", url=OTHER)
    found = await bob.ids("home", limit=100)
    for reader in (alice, bob):
        await reader.post(action="timeline", method="mark_read", channel="home", entry=found[0])
    return found


@pytest.mark.parametrize("key", sorted(TABLE), ids=lambda key: "-".join(filter(None, key)))
async def test_nothing_crosses(alice: Reader, bob: Reader, server: Instance, ids: list[str], key: Key) -> None:
    """Whatever Alice asks for, about whatever of Bob's: he sees afterwards exactly what he saw before."""
    before = await snapshot(bob)
    verb = key[0]
    params = parameters(key, ids)
    send = {"params": params} if verb == "GET" else {"data": params}
    replies = [
        await server.client.request(verb, ENDPOINT, headers=alice.headers, **send),  # type: ignore[arg-type]
        await server.client.request(verb, f"{ENDPOINT}/bob", headers=alice.headers, **send),  # type: ignore[arg-type]
    ]
    assert replies[0].status_code in {200, 400}, replies[0].text
    assert replies[1].status_code == 403
    shown = replies[0].text
    if key != ("POST", "follow", ""):
        assert "other.example" not in shown
        assert "private words" not in shown
    assert await snapshot(bob) == before


@pytest.mark.parametrize("key", sorted(TABLE), ids=lambda key: "-".join(filter(None, key)))
async def test_too_few_scopes(alice: Reader, server: Instance, ids: list[str], key: Key) -> None:
    """A token with every scope but the one that is needed gets 403, learns which, and changes nothing."""
    needed = TABLE[key].scope
    token = await server.grant("alice", *(scope for scope in ALL_SCOPES if scope != needed), "create", "profile")
    before = await snapshot(alice)
    params = parameters(key, ids)
    send = {"params": params} if key[0] == "GET" else {"data": params}
    response = await server.client.request(key[0], ENDPOINT, headers={"Authorization": f"Bearer {token}"}, **send)  # type: ignore[arg-type]
    reply = Reader.checked(response, 403)
    assert reply["error"] == "insufficient_scope"
    assert reply["scope"] == needed
    assert "items" not in reply
    assert await snapshot(alice) == before


async def test_read_alone_is_enough_to_read_and_mark(alice: Reader, server: Instance, ids: list[str]) -> None:
    """Some clients ask for nothing else."""
    reader = Reader("alice", await server.grant("alice", "read"), server.client)
    for action in ("channels", "mute", "block"):
        await reader.get(action=action)
    await reader.get(action="channels", method="tree")
    await reader.get(action="follow", channel="home")
    await reader.get(action="timeline", channel="home")
    assert (await reader.post(**{"action": "timeline", "method": "mark_read"}, channel="home", entry=ids[1]))["updated"]
    assert (await reader.post(**{"action": "timeline", "method": "remove"}, channel="home", entry=ids[1]))["updated"]
    await reader.get(action="search", query="words")
    for params in (
        {"action": "channels", "name": "x"},
        {"action": "follow", "channel": "home", "url": FEED},
        {"action": "mute", "url": ANN},
        {"action": "block", "url": ANN},
    ):
        await reader.post(403, **params)


async def test_scopes_are_asked_before_parameters(alice: Reader, server: Instance) -> None:
    """A token that may not ask doesn't learn what is wrong with the question, nor which channels exist."""
    token = await server.grant("alice", "follow")
    reader = Reader("alice", token, server.client)
    for channel in ("home", "nowhere", "!"):
        await reader.get(403, action="timeline", channel=channel)
    await reader.get(403, action="timeline", channel="home", after="!")
    await reader.post(403, action="mute")
