"""Two users with the same channels, feeds and items: nothing that one does, sees or counts crosses to the other.

And what every action asks of a token's scopes.
"""

from __future__ import annotations

import pytest

from microsub.model.reader import ALL_SCOPES
from microsub.timelines.api.endpoint import TABLE
from tests.support.readers import ANN, ENDPOINT, FEED, OTHER, Instance, Key, Reader, parameters, posts, snapshot


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
