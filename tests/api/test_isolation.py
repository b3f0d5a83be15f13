"""What a token may do by its scopes; that nothing crosses between users shows `tests/flows/test_isolation.py`."""

from __future__ import annotations

import pytest

from tests.support.readers import ANN, FEED, OTHER, Reader, posts
from tests.support.world import World


@pytest.fixture
async def ids(alice: Reader, bob: Reader, server: World) -> list[str]:
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


async def test_read_alone_is_enough_to_read_and_mark(alice: Reader, server: World, ids: list[str]) -> None:
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


async def test_scopes_are_asked_before_parameters(alice: Reader, server: World) -> None:
    """A token that may not ask doesn't learn what is wrong with the question, nor which channels exist."""
    token = await server.grant("alice", "follow")
    reader = Reader("alice", token, server.client)
    for channel in ("home", "nowhere", "!"):
        await reader.get(403, action="timeline", channel=channel)
    await reader.get(403, action="timeline", channel="home", after="!")
    await reader.post(403, action="mute")
