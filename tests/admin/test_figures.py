"""Figures for /metrics: gauges from Redis, and counters of all processes."""

from __future__ import annotations

import pytest

from microsub.admin import figures
from microsub.admin.figures import Figures
from microsub.admin.hours import Hours
from microsub.base import metrics
from microsub.base.errors import StoreUnavailable
from microsub.redis.presence import ProcessCounts
from microsub.redis.protocol import Redis
from tests.support.readers import instance
from tests.support.world import World


async def read(server: World) -> dict[str, float]:
    body, _ = await server.parts.figures.exposition(server.now)
    lines = [line.rpartition(" ") for line in body.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


async def test_gauges_count_feeds_by_health(redis: Redis) -> None:
    """Followed feeds by state, followers, users who aren't disabled, and live workers."""
    async with instance(redis) as server:
        ann, bob = await server.reader("ann", "home"), await server.reader("bob", "home")
        for reader, urls in ((ann, "abcd"), (bob, "a")):
            for letter in urls:
                await reader.post(action="follow", channel="home", url=f"https://{letter}.example/feed")
        await server.feeds.ensure("https://unfollowed.example/", server.now)
        for letter, fields in (
            ("a", {"last_success": "1"}),
            ("b", {"failures": "2", "last_error": "no answer"}),
            ("c", {"gone": "1"}),
        ):
            feed_id = await server.feeds.find(f"https://{letter}.example/feed")
            assert feed_id
            await server.feeds.update(feed_id, fields)
        await server.presence.beat("worker-1", server.now)
        await server.presence.beat("server-to-come", server.now)
        found = await read(server)
        states = {state: found[f'microsub_feeds{{state="{state}"}}'] for state in ("ok", "failing", "gone", "new")}
        assert states == {"ok": 1, "failing": 1, "gone": 1, "new": 1}
        assert (found["microsub_followers"], found["microsub_users"], found["microsub_workers"]) == (5, 2, 1)
        await server.accounts.disable_user("bob", server.now)
        assert (await read(server))["microsub_users"] == 2, "every feed is looked at for them: not at each request"
        server.now += figures.FRESH_SECONDS
        assert (await read(server))["microsub_users"] == 1


async def test_counts_of_other_processes_are_added(redis: Redis) -> None:
    """They are added to our own of the same name and labels, including histograms and counts that only others have."""
    metrics.POLLS.labels("changed").inc(2)
    counts = ProcessCounts(redis)
    before = metrics.counts()
    await counts.add({name: 3.0 for name in before if "polls_total" in name and "changed" in name})
    await counts.add({'["microsub_polls_total", {"outcome": "elsewhere"}]': 7.0})
    async with instance(redis) as server:
        found = await read(server)
    own = before['["microsub_polls_total", {"outcome": "changed"}]']
    assert found['microsub_polls_total{outcome="changed"}'] == own + 3
    assert found['microsub_polls_total{outcome="elsewhere"}'] == 7


async def test_a_worker_publishes_what_it_counts(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each count is published once, also after Redis was away; with a shared folder, only by the hour."""
    monkeypatch.setattr(figures, "PUBLISH_SECONDS", 0.0)
    name = '["microsub_items_new_total", {}]'
    start = metrics.counts()[name]

    class Counts(ProcessCounts):
        calls = 0

        async def add(self, more: object) -> None:
            self.calls += 1
            if self.calls == 2:
                raise StoreUnavailable("away")
            if self.calls > 4:
                raise EOFError
            metrics.ITEMS_NEW.inc()
            await super().add(more)  # type: ignore[arg-type]  # as it was given

    async with instance(redis) as server:
        service = Figures(server.feeds, server.accounts, server.presence, Counts(redis))
        with pytest.raises(EOFError):
            await service.publish_forever(Hours(redis))
        assert (await ProcessCounts(redis).read())[name] == start + 2
        monkeypatch.setenv(metrics.FOLDER_VARIABLE, "/nowhere")

        class Once(Hours):
            async def add(self, more: object, now: float) -> None:
                raise EOFError("by the hour")

        with pytest.raises(EOFError, match="by the hour"):
            await service.publish_forever(Once(redis))
