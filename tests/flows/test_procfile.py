"""Web and worker as processes of their own, as the Procfile starts them, and what the admin sees of their work."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from tests.support.polling import dated, rss
from tests.support.process import installation
from tests.support.waiting import wait_until
from tests.support.web import Answer, publisher


async def test_the_web_process_shows_what_workers_count_and_how_feeds_fare(tmp_path: Path) -> None:
    """Without any variable: polls and fetches of the worker, workers, users, feeds by state, followers."""
    async with publisher() as site:
        good = site.serve_document("/good", rss(dated(3), title="Good"))
        bad = site.serve("/bad", Answer(status=500))
        channels = [{"uid": "home", "feeds": [good, bad]}]
        users = {"ann": {"channels": channels}, "bob": {"channels": [{"uid": "x", "feeds": [good]}]}}
        async with installation(tmp_path, {"users": users}, MICROSUB_LOG_FORMAT="json") as installed:
            url = await installed.serve("web")
            await installed.start("work")
            async with httpx.AsyncClient(timeout=60) as http:

                async def shown() -> str | None:
                    text = (await http.get(f"{url}/metrics")).text
                    return text if 'microsub_polls_total{outcome="changed"} 1.0' in text else None

                text: str = await wait_until(shown)
                health = (await http.get(f"{url}/health")).json()
            assert 'microsub_polls_total{outcome="http"} 1.0' in text
            assert "microsub_fetch_seconds_count 2.0" in text
            assert "microsub_users 2.0" in text
            assert isinstance(health["worker_last_seen_seconds"], float)

            code, out, err = await installed.run("feed", "list", "--json")
            assert code == 0, err
            found = {one["url"]: one for one in json.loads(out)}
            assert {url: (one["state"], one["followers"]) for url, one in found.items()} == {
                good: ("ok", 2),
                bad: ("failing", 1),
            }
            assert found[good]["title"] == "Good"
            assert "500" in found[bad]["error"]
            assert found[bad]["next_poll"].endswith("+00:00")
            _, out, _ = await installed.run("feed", "list", "--failing")
            (line,) = out.splitlines()
            assert line.startswith("failing  1 follower")
            assert "next poll in" in line
            assert (await installed.run("check"))[0] == 0
