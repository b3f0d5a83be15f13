"""`microsub poll` as its users run it: its output, and the records that it doesn't change."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from microsub.cli import main
from microsub.fetch import Fetcher, FetchSettings
from microsub.polling import on_demand
from microsub.redis.embedded.server import start_embedded
from microsub.redis.protocol import Redis
from tests.support.polling import dated, next_time, rss, world
from tests.support.process import installation
from tests.support.waiting import wait_until
from tests.support.web import Answer, publisher


async def test_a_refusal_of_our_own_is_not_the_feeds_failure(real_redis: Redis) -> None:
    """An address that the command may not request is reported; the feed's record and due time stay unchanged."""
    async with world(real_redis) as it:
        feed = await it.follow("http://10.1.2.3/feed", uid="private")
        refused: dict[str, str] = {}
        before = await it.record(feed)
        reports = await it.poll_now_refusing(refused).poll([feed.id], patience=60)
        assert reports[feed.id].outcome == "refused"
        assert "10.1.2.3" in refused[feed.id]
        after = await it.record(feed)
        assert replace(after, reading=before.reading) == before  # a reading gets its number before the request
        due = await next_time(it.redis)
        assert due is not None
        assert due < it.clock() + 5


async def test_refused_polls_are_left_to_the_worker(real_redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """However late the server's own worker polls it: it may have more rights than the command's shell."""
    monkeypatch.setattr(on_demand, "_FIRST_CHANCE", 0.0)
    refused: dict[str, str] = {}

    async with publisher() as site, world(real_redis) as it, aclosing(Fetcher(FetchSettings())) as strict:
        feed = await it.follow(site.serve_document("/feed", rss(dated(3))))
        asking = it.poll_now_refusing(refused, strict, beside_others=True).poll([feed.id], patience=60)
        answer = asyncio.create_task(asking)
        await wait_until(lambda: feed.id in refused)
        await asyncio.sleep(0.2)
        assert not answer.done()
        running = asyncio.create_task(it.worker.run())
        assert (await answer)[feed.id].outcome == "polled"
        it.worker.stop()
        await running


async def test_a_poll_says_what_happened(tmp_path: Path) -> None:
    """It prints counts of new and updated items, polls only followed feeds by default, and has an exit code."""
    async with publisher() as site:
        url = site.serve_document("/feed", rss(dated(3)))
        left = site.serve_document("/left", rss(dated(1)))
        backend = {"users": {"alice": {"channels": [{"uid": "home", "feeds": [url, left]}]}}}
        async with installation(tmp_path, backend) as installed:
            await installed.prepare()
            assert (await installed.run("token", "create", "alice"))[0] == 0
            code, out, _ = await installed.run("poll", url)
            assert (code, out.split()) == (0, ["polled", url, "3", "new"])
            code, out, _ = await installed.run("poll", url)
            assert (code, out.split()) == (0, ["polled", url, "unchanged"])
            site.serve_document("/feed", rss(dated(4)).replace(b"About Post 2", b"About Post Two"))
            code, out, _ = await installed.run("poll", url)
            assert (code, out.split()) == (0, ["polled", url, "1", "new,", "1", "updated"])
            installed.write({"users": {"alice": {"channels": [{"uid": "home", "feeds": [url]}]}}})
            assert (await installed.run("token", "create", "nobody"))[0] == 1
            code, out, err = await installed.run("poll")
            assert (code, out.split()) == (0, ["polled", url, "unchanged"]), err
            site.serve("/feed", Answer(status=500))
            code, out, _ = await installed.run("poll", "--json")
            assert (code, json.loads(out)[0]["outcome"]) == (1, "failed")


def test_poll_without_follows_prints_a_message(tmp_path: Path) -> None:
    """A server without feeds isn't an error, but a message reports this."""
    place = ["--data-dir", str(tmp_path / "data"), "--backend", str(tmp_path / "none.json")]
    start_embedded(tmp_path / "data").stop()  # like the first start of a server
    assert CliRunner().invoke(main, ["user", "add", "alice", *place]).exit_code == 0
    result = CliRunner().invoke(main, ["poll", *place])
    assert (result.exit_code, "no followed feeds" in result.stderr) == (0, True)
