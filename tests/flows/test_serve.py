"""From backend.json to a reader app, with real processes: the core promises of the product."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.polling import dated, rss
from tests.support.process import PROGRAM, Installation, installation, reader
from tests.support.waiting import wait_until
from tests.support.web import Answer, Publisher, publisher

CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "feeds"
QUICK = {"polling": {"host_interval": 0}}

H_FEED = b"""<!doctype html><meta charset=utf-8><title>Harbour notes</title>
<div class=h-feed><h1 class=p-name>Harbour notes</h1>
<article class=h-entry><a class=u-url href=/n/1><time class=dt-published datetime=2026-01-02T10:00:00Z>2 Jan</time></a>
<div class=e-content>The tide was late, and so was the ferry that waits for it.</div></article>
<article class=h-entry><a class=u-url href=/n/2><time class=dt-published datetime=2026-01-03T10:00:00Z>3 Jan</time></a>
<div class=e-content>Nobody on the pier but two gulls. See <a href=/gulls>the gulls</a>.</div></article></div>"""


def document(**channels: list[str]) -> dict[str, Any]:
    """A backend.json in which Alice has these channels with these feeds."""
    listed = [{"uid": uid, "name": uid.title(), "feeds": feeds} for uid, feeds in channels.items()]
    return {"users": {"alice": {"me": "https://alice.example/", "channels": listed}}, "settings": QUICK}


async def settled(site: Publisher, installed: Installation, feeds: int) -> None:
    """Wait until that many polls are done."""
    await wait_until(lambda: installed.log.count('"feed polled"') >= feeds)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real feeds is not beside the project")
async def test_real_feeds_reach_two_users_once_each_in_order(tmp_path: Path) -> None:
    """There are 255 posts if each file has its own channel, 230 if all share one, and the same after a second poll."""
    names = sorted(path.name for path in CORPUS.iterdir())
    async with publisher() as site:
        urls = [site.serve_document(f"/{name}", (CORPUS / name).read_bytes(), "text/xml") for name in names]
        page = site.serve_document("/notes", H_FEED, "text/html")
        each = {f"c{number}": [url] for number, url in enumerate(urls)} | {"notes": [page]}
        backend = document(**each)
        backend["users"]["bob"] = document(all=[*urls, page])["users"]["alice"] | {"me": "https://bob.example/"}
        async with installation(tmp_path, backend, program=PROGRAM) as installed:
            url = await installed.serve()
            await settled(site, installed, 9)
            tokens = await installed.token("alice"), await installed.token("bob")
            async with reader(url, tokens[0]) as alice, reader(url, tokens[1]) as bob:
                for polls in (1, 2):
                    own = {uid: await alice.timeline(uid) for uid in each}
                    shared = await bob.timeline("all")
                    assert sum(len(items) for uid, items in own.items() if uid != "notes") == 255
                    assert len(own["notes"]) == 2
                    assert len(shared) == 230 + 2
                    assert len({item["_id"] for item in shared}) == len(shared)
                    published = [datetime.fromisoformat(item["published"]) for item in shared]
                    assert published == sorted(published, reverse=True)
                    assert {path: site.count(f"/{path}") for path in names} == dict.fromkeys(names, polls)
                    if polls == 1:
                        code, out, err = await installed.run("poll")
                        assert (code, out.count("polled")) == (0, 9), err
        second = [asked for asked in site.asked if "if-none-match" in asked.headers]
        assert len(second) == 9


async def test_an_edit_of_the_file_takes_effect_without_a_restart(tmp_path: Path) -> None:
    """Feed, name and user are applied; the app's changes stay, and appear in the file; a typo changes nothing."""
    async with publisher() as site:
        first = site.serve_document("/first", rss(dated(3)))
        second = site.serve_document("/second", rss(dated(2), title="Second"))
        by_app = site.serve_document("/by-app", rss(dated(1), title="By app"))
        async with installation(tmp_path, document(home=[first]) | {"x-note": "mine", "x-version": "1"}) as installed:
            url = await installed.serve()
            async with reader(url, await installed.token("alice")) as alice:
                made = await alice.post(action="channels", name="Made in the app")
                await alice.post(action="follow", channel="home", url=by_app)
                await wait_until(lambda: by_app in installed.backend.read_text())
                edited = json.loads(installed.backend.read_text())
                assert edited["x-note"] == "mine"
                assert [one["uid"] for one in edited["users"]["alice"]["channels"]] == ["home", made["uid"]]

                edited = document(home=[first, second]) | {"x-version": "1"}  # as opened before the app's changes
                edited["users"]["alice"]["channels"][0]["name"] = "Harbour"
                edited["users"]["bob"] = {"me": "https://bob.example/"}
                installed.write(edited)

                async def taken_over() -> bool:
                    if (await alice.channels())["home"]["name"] != "Harbour":
                        return False
                    feeds = {feed["url"] for feed in (await alice.get(action="follow", channel="home"))["items"]}
                    assert feeds >= {first, by_app}
                    return feeds == {first, second, by_app}

                await wait_until(taken_over)
                assert made["uid"] in await alice.channels()
                assert await installed.token("bob")

                before = installed.backend.read_text()
                installed.write(before.replace('"name": "Harbour"', '"name": "Pier",,'))
                await wait_until(lambda: "backend.json refused" in installed.log)
                assert (await alice.channels())["home"]["name"] == "Harbour"
                problem = next(line for line in installed.log.splitlines() if "backend.json refused" in line)
                assert "line " in json.loads(problem)["problem"]


async def test_killed_at_any_moment_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    """Acknowledged marks survive `kill -9`, every post is there once, and the next start continues."""
    async with publisher() as site:
        count = 12
        feeds = [site.serve_document(f"/{n}", rss(renamed(n), title=f"Feed {n}")) for n in range(count)]
        async with installation(tmp_path, document(home=feeds)) as installed:
            token, marked = "", set[str]()
            for attempt in range(4):
                url = await installed.serve()
                token = token or await installed.token("alice")
                async with reader(url, token) as alice:
                    marked |= await mark_until_killed(installed, alice, after=0.05 + 0.2 * attempt)
            url = await installed.serve()
            async with reader(url, token) as alice:

                async def complete() -> bool:
                    await installed.run("poll")
                    return len(await alice.timeline("home")) == 5 * count

                await wait_until(complete)
                items = await alice.timeline("home")
                counted = Counter(item["url"] for item in items)
                assert set(counted.values()) == {1}
                read = {item["_id"] for item in items if item["_is_read"]}
                assert marked <= read
                unread = (await alice.channels())["home"]["unread"]
                assert unread == sum(not item["_is_read"] for item in items)


def renamed(number: int) -> list[tuple[str, str, str | None]]:
    """Five posts with guids that contain the feed's name."""
    return [(f"{guid}-of-{number}", name, date) for guid, name, date in dated(5)]


async def mark_until_killed(installed: Installation, alice: Any, *, after: float) -> set[str]:
    """Mark posts as read, one by one, until the server is killed; the ids with an acknowledged mark."""
    marked: set[str] = set()

    async def mark() -> None:
        while True:
            for item in await alice.timeline("home", is_read="false"):
                reply = await alice.post(action="timeline", method="mark_read", channel="home", entry=item["_id"])
                assert reply["updated"] in {0, 1}
                marked.add(item["_id"])

    marking = asyncio.create_task(mark())
    await asyncio.wait([marking], timeout=after)
    installed.processes[-1].send_signal(signal.SIGKILL)
    await installed.processes[-1].wait()
    marking.cancel()
    await asyncio.gather(marking, return_exceptions=True)
    return marked


async def test_metrics_and_connections_follow_the_settings(tmp_path: Path) -> None:
    """Metrics require the token, because this machine isn't in the listed networks; without it only the status is
    shown. An address may have five connections.
    """
    token = "a-token-of-the-monitor"
    settings = {"MICROSUB_METRICS_NETWORKS": "10.0.0.0/8", "MICROSUB_METRICS_TOKEN": token}
    settings["MICROSUB_CONNECTIONS_PER_ADDRESS"] = "5"
    async with installation(tmp_path, {"users": {}}, **settings) as installed, httpx.AsyncClient(timeout=60) as http:
        url = await installed.serve("web")
        for headers, status in (({}, 403), ({"Authorization": f"Bearer {token}"}, 200)):
            assert (await http.get(f"{url}/metrics", headers=headers)).status_code == status
            assert ("redis" in (await http.get(f"{url}/health", headers=headers)).json()) is (status == 200)
        host, port = "127.0.0.1", int(url.rpartition(":")[2])
        opened = [await asyncio.open_connection(host, port, local_addr=("127.0.0.7", 0)) for _ in range(6)]
        assert (await opened[5][0].readline()).startswith(b"HTTP/1.1 429")
        opened[0][1].write(b"GET /connect HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await opened[0][0].readline()).startswith(b"HTTP/1.1 200")
        for _, writer in opened:
            writer.close()


async def test_web_and_worker_as_the_procfile_starts_them(tmp_path: Path) -> None:
    """Both use one Redis; the web process shows the worker's counts, the feeds' health, and whether both are alive."""
    async with publisher() as site:
        good = site.serve_document("/good", rss(dated(3), title="Good"))
        bad = site.serve("/bad", Answer(status=500))
        backend = document(home=[good, bad])
        backend["users"]["bob"] = {"channels": [{"uid": "x", "feeds": [good]}]}
        async with installation(tmp_path, backend, program=PROGRAM, MICROSUB_LOG_FORMAT="json") as installed:
            url = await installed.serve("web")
            worker = await installed.start("work")
            async with reader(url, await installed.token("alice")) as alice:

                async def shown() -> str | None:
                    text = (await alice.client.get(f"{url}/metrics")).text
                    polled = (f'microsub_polls_total{{outcome="{one}"}} 1.0' in text for one in ("changed", "http"))
                    return text if all(polled) else None

                text: str = await wait_until(shown)
                assert "microsub_fetch_seconds_count 2.0" in text
                assert "microsub_users 2.0" in text
                assert "microsub_requests_total" in text
                health = await alice.client.get(f"{url}/health")
                assert health.status_code == 200
                assert isinstance(health.json()["worker_last_seen_seconds"], float)
                await feeds_are_listed(installed, good, bad)
                worker.terminate()
                await asyncio.wait_for(worker.wait(), 60)
                assert (await alice.client.get(f"{url}/health")).status_code == 503
                assert len(await alice.timeline("home")) == 3


async def feeds_are_listed(installed: Installation, good: str, bad: str) -> None:
    """The command lists the feeds with state and followers, and the check finds no problem."""
    code, out, err = await installed.run("feed", "list", "--json")
    assert code == 0, err
    found = {one["url"]: one for one in json.loads(out)}
    states = {url: (one["state"], one["followers"]) for url, one in found.items()}
    assert states == {good: ("ok", 2), bad: ("failing", 1)}
    assert found[good]["title"] == "Good"
    assert "500" in found[bad]["error"]
    assert found[bad]["next_poll"].endswith("+00:00")
    _, out, _ = await installed.run("feed", "list", "--failing")
    (line,) = out.splitlines()
    assert line.startswith("failing  1 follower")
    assert "next poll in" in line
    assert (await installed.run("check"))[0] == 0
