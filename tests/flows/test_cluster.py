"""The whole product on a Redis Cluster: from backend.json to a reader app, and every requirement of the suite."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from microsub_conformance.checks import REQUIREMENTS
from microsub_conformance.report import as_text
from microsub_conformance.runner import run
from tests.conformance.real_server import real_server
from tests.support import THOROUGH
from tests.support.polling import dated, rss
from tests.support.process import installation, reader
from tests.support.waiting import wait_until
from tests.support.web import publisher


@pytest.mark.skipif(not THOROUGH, reason="make test-matrix runs the conformance suite on a Redis Cluster too")
@pytest.mark.timeout(600)
def test_the_server_conforms_on_a_cluster(tmp_path: Path, cluster_url: str) -> None:
    """All requirements that are met on a single Redis are met on a cluster."""
    with real_server(tmp_path, redis_url=cluster_url) as (target, _):
        results = list(run(target, REQUIREMENTS))
    wrong = [result for result in results if result.verdict != "pass"]
    assert len(results) == len(REQUIREMENTS)
    assert not wrong, as_text("the server", wrong)


async def test_several_web_and_worker_processes_share_a_cluster(tmp_path: Path, cluster_url: str) -> None:
    """Each feed is requested once per poll, each post is there once, and every process sees another one's changes at
    once.
    """
    count, posts = 12, 5
    async with publisher() as site:
        names = [f"/{number}" for number in range(count)]
        feeds = [site.serve_document(name, rss(of_its_own(name, posts), title=name)) for name in names]
        channels = [{"uid": f"c{n}", "name": f"C {n}", "feeds": feeds[n::4]} for n in range(4)]
        users = {name: {"me": f"https://{name}.example/", "channels": channels} for name in ("alice", "bob", "carol")}
        backend = {"users": users, "settings": {"polling": {"host_interval": 0}}}
        async with installation(tmp_path, backend, MICROSUB_REDIS_URL=cluster_url) as installed:
            urls = [await installed.serve("web"), await installed.serve("web")]
            for _ in range(2):
                await installed.start("work")
            tokens = {name: await installed.token(name) for name in users}
            for name, token in tokens.items():
                async with reader(urls[0], token) as first, reader(urls[1], token) as second:

                    async def complete() -> bool:
                        unread = [
                            channel["unread"] for uid, channel in (await first.channels()).items() if uid[0] == "c"
                        ]
                        return unread == [posts * count // 4] * 4

                    await wait_until(complete)
                    items = await first.timeline("c1")
                    assert len({item["url"] for item in items}) == len(items) == posts * count // 4
                    await first.post(action="timeline", method="mark_read", channel="c1", entry=items[0]["_id"])
                    assert (await second.channels())["c1"]["unread"] == len(items) - 1
                    seen = await second.timeline("global")
                    assert len(seen) == posts * count, name
                    assert [item["_id"] for item in seen if item["_is_read"]] == [items[0]["_id"]]
            assert {path: site.count(path) for path in names} == dict.fromkeys(names, 1)

            # An edit of a post also updates the copies that both web processes cache.
            site.serve_document("/0", rss(of_its_own("/0", posts, "edited "), title="/0"))
            code, out, err = await installed.run("poll", feeds[0])
            assert code == 0, out + err

            async def edited() -> bool:
                found = []
                for url in urls:
                    async with reader(url, tokens["alice"]) as alice:
                        found += [item["name"].startswith("edited") for item in await alice.timeline("c0")]
                return sum(found) == 2 * posts

            await wait_until(edited)
            code, out, err = await installed.run("cleanup", "--dry-run")
            assert code == 0, out + err
        assert not [line for line in installed.log.splitlines() if json.loads(line)["level"] in {"error", "critical"}]


def of_its_own(name: str, count: int, prefix: str = "") -> list[tuple[str, str, str | None]]:
    """Posts with guids that contain the feed's name."""
    return [(f"{guid}-of-{name}", prefix + title, date) for guid, title, date in dated(count)]
