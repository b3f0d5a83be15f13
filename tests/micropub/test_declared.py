"""Sources in backend.json: declared, written back, and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from microsub.redis.protocol import Redis
from tests.micropub.conftest import SourceClient, items
from tests.support.reader import Reader
from tests.support.world import world

DECLARED: dict[str, Any] = {
    "users": {
        "alice": {
            "channels": [{"uid": "home"}, {"uid": "later"}],
            "sources": {"backups": {"channel": "home", "name": "Backups"}},
        }
    }
}


def changed(**source: str) -> dict[str, Any]:
    return {"users": {"alice": {**DECLARED["users"]["alice"], "sources": {"backups": source} if source else {}}}}


async def test_a_declared_source_is_made_moved_and_revoked(real_redis: Redis, tmp_path: Path) -> None:
    """The file contains no token; a command creates one, which stays valid while the source is moved and renamed."""
    async with world(real_redis, file=tmp_path / "backend.json", write_back=True) as it:
        it.save(DECLARED, at=it.now + 1)
        assert await it.configuration.look() == "applied"
        (source,) = await it.sources.all_of("alice")
        sender = SourceClient(it, source, await it.sources.renew_token("alice", "backups", it.now))
        await sender.note("one")
        it.save(changed(channel="later", name="Nightly"), at=it.now + 10)
        assert await it.configuration.look() == "applied"
        await sender.note("two")
        alice = Reader("alice", await it.grant("alice", "read"), it.client)
        assert [item["author"]["name"] for item in await items(alice, "later")] == ["Nightly", "Backups"]
        ((shown,),) = (await alice.get(action="follow", channel="global")).values()
        assert shown["name"] == "Nightly"
        assert sender.token.partition(".")[2] not in it.file.read_text()
        it.save(changed(), at=it.now + 20)
        assert await it.configuration.look() == "applied"
        await sender.send(401, data={"content": "x"})


async def test_a_source_that_is_made_by_command_is_written_back(real_redis: Redis, tmp_path: Path) -> None:
    """The file gets the source with its channel, and no internal feed."""
    async with world(real_redis, file=tmp_path / "backend.json", write_back=True) as it:
        it.save(changed())
        assert await it.configuration.look() == "applied"
        await it.sources.create("alice", "home", "My Script", it.now)
        await it.configuration.write_back()
        alice = it.saved()["users"]["alice"]
        assert alice["sources"] == {"my-script": {"channel": "home", "name": "My Script"}}
        assert "microsub:" not in it.file.read_text()


@pytest.mark.parametrize("channel", ["nowhere", "saved"])
async def test_a_channel_that_can_not_be_posted_into_is_refused(
    real_redis: Redis, tmp_path: Path, channel: str
) -> None:
    """The error names the place in the file, and nothing is changed."""
    async with world(real_redis, file=tmp_path / "backend.json") as it:
        it.save(DECLARED, at=it.now + 1)
        assert await it.configuration.look() == "applied"
        it.save(changed(channel=channel), at=it.now + 10)
        assert await it.configuration.look() == "invalid"
        assert "users.alice.sources.backups.channel" in str(it.configuration.status.problems)
        assert [source.name for source in await it.sources.all_of("alice")] == ["Backups"]
