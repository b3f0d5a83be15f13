"""A worker's daily jobs, with real stores."""

from __future__ import annotations

import json
from pathlib import Path

from microsub.base.settings import Settings
from microsub.redis.embedded.server import Watch
from microsub.redis.protocol import Redis
from microsub.server.stores import Stores
from microsub.server.worker import daily_jobs, open_subscriber, open_verifier
from microsub.timelines.retention import RESTORABLE
from tests.micropub.conftest import source_of
from tests.support.readers import FEED, instance, posts


async def test_each_job_deletes_only_month_old_leftovers(real_redis: Redis, tmp_path: Path) -> None:
    """Only a file without a post, a removed output feed and a disabled user outside backend.json are deleted."""
    async with instance(real_redis) as server:
        alice = await server.reader("alice", "home")
        await server.publish(FEED, *posts("a", "b"))
        await alice.post(action="follow", channel="home", url=FEED)
        sender = await source_of(server, "alice")
        sent = {"path": "/media", "files": {"file": ("a.jpg", b"\xff\xd8\xff\xe0j", "image/jpeg")}}
        file = (await sender.send(**sent)).headers["location"]
        for name in ("picks", "more"):
            await alice.post(action="outputs", method="create", output=name)
        await server.outputs.remove("alice", "picks", server.now)
        for name in ("bob", "carol"):
            await server.accounts.add_user(name, "", server.now)
            await server.accounts.disable_user(name, server.now)
        backend = tmp_path / "backend.json"
        backend.write_text(json.dumps({"users": {"carol": {}}}))
        settings, stores = Settings(data_dir=tmp_path, backend=backend), Stores(server.redis, "", "", Watch())
        async with open_subscriber(settings, stores) as subscriber, open_verifier(settings, stores) as verifier:
            jobs = daily_jobs(settings, stores, subscriber, verifier).values()
            for wait in (0.0, RESTORABLE + 3 * 86_400):
                server.clock.advance(wait)
                for job in jobs:
                    await job(server.now)
        assert (await server.client.get(file)).status_code == 404
        assert [feed.name for feed in await server.outputs.all_of("alice", removed_too=True)] == ["more"]
        assert [user.name for user in await server.accounts.users()] == ["alice", "carol"]
        assert [item["name"] for item in await alice.timeline("home")] == ["a", "b"]
        assert (await server.check()).left == ()
