"""Search in posts with real processes: from a poll to the reply, after kills and lost files, and with commands."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

from tests.flows.test_serve import document, renamed
from tests.flows.test_worker_beside import worker_of
from tests.support.polling import dated, rss
from tests.support.process import PROGRAM, Installation, installation, reader
from tests.support.reader import Reader
from tests.support.waiting import wait_until
from tests.support.web import publisher


async def found(app: Reader, query: str, **more: Any) -> list[str] | None:
    """The titles that a search finds; None while the server says that search isn't available."""
    parameters = {"action": "search", "channel": "global", "query": query, "limit": 100, **more}
    reply = await app.client.get(app.endpoint, params=parameters, headers=app.headers)
    if reply.status_code == 503:
        assert reply.headers["retry-after"] == "5"
        return None
    assert reply.status_code == 200, reply.text
    return [item["name"] for item in reply.json()["items"]]


async def finds(app: Reader, query: str, count: int) -> None:
    async def there() -> bool:
        await asyncio.sleep(0.5)  # the limit is 120 a minute
        return len(await found(app, query) or ()) == count

    await wait_until(there)


async def status(installed: Installation) -> dict[str, Any]:
    code, out, err = await installed.run("search", "status", "--json")
    assert code == 0, err
    described: dict[str, Any] = json.loads(out)
    return described


async def test_polled_posts_are_found_after_any_loss_of_the_index(tmp_path: Path) -> None:
    """Posts are found with an index built at the start, updated, built by command, and rebuilt after kill and loss."""
    async with publisher() as site:
        first = site.serve_document("/first", rss(dated(3), title="First"))
        second = site.serve_document("/second", rss(renamed(2), title="Second"))
        async with installation(tmp_path, document(home=[first]), program=PROGRAM) as installed:
            url = await installed.serve()
            async with reader(url, await installed.token("alice")) as alice:
                await alice.has(3)
                titles = [item["name"] for item in await alice.timeline()]
                await finds(alice, "feed:first", 3)
                assert await found(alice, "feed:first") == titles
                assert await found(alice, f'"{titles[0]}"') == titles[:1]
                await alice.post(action="follow", channel="home", url=second)
                await finds(alice, "kind:article OR -kind:article", 8)

                before = await status(installed)
                assert (before["posts"], before["usable"], before["followed"]) == (8, True, True)
                code, out, err = await installed.run("search", "rebuild")
                assert (code, "built: 8 posts" in out) == (0, True), err
                assert (await status(installed))["built"] >= before["built"]
                assert len(await found(alice, "feed:second") or ()) == 5

                worker: int = await wait_until(lambda: worker_of(installed.processes[0].pid))
                os.kill(worker, signal.SIGKILL)
                shutil.rmtree(tmp_path / "data" / "search")
                await finds(alice, "feed:first", 3)
                assert (await alice.client.get(f"{url}/health")).status_code == 200
        code, out, err = await installed.run("search", "status")
        assert code == 0, err
        assert "no process updates it" in out


async def test_a_machine_that_only_answers_writes_its_own_index(tmp_path: Path) -> None:
    """A process with search off has no index, and its reply reports this."""
    async with publisher() as site:
        feed = site.serve_document("/first", rss(dated(3), title="First"))
        async with installation(tmp_path, document(home=[feed])) as installed:
            await installed.start("work", "--search", "off")
            url = await installed.serve("web", "--search-dir", str(tmp_path / "here"))
            off = await installed.serve("web", "--search", "off")
            async with reader(url, await installed.token("alice")) as alice:
                await alice.has(3)
                assert await found(alice, "feed:first") in (None, [], [item["name"] for item in await alice.timeline()])
                await finds(alice, "feed:first", 3)
                assert (tmp_path / "here" / "current").exists()
                assert not (tmp_path / "data" / "search").exists()
                metrics = (await alice.client.get(f"{url}/metrics")).text
                assert "microsub_search_posts 3.0" in metrics
            async with reader(off, alice.token) as other:
                reply = await other.get(400, action="search", channel="home", query="x")
                assert reply["error"] == "not_implemented"


async def test_an_unwritable_index_affects_only_search(tmp_path: Path) -> None:
    """Posts still arrive, and the log says why search isn't available."""
    async with publisher() as site:
        feed = site.serve_document("/first", rss(dated(2), title="First"))
        place = tmp_path / "a-file"
        place.write_text("no folder")
        async with installation(tmp_path, document(home=[feed]), MICROSUB_SEARCH_DIR=str(place)) as installed:
            url = await installed.serve()
            async with reader(url, await installed.token("alice")) as alice:
                await alice.has(2)
                assert await found(alice, "first") is None
                await wait_until(lambda: "the index of posts can't be written" in installed.log)
            code, _, err = await installed.run("search", "rebuild")
            assert (code, "can't write the index" in err) == (1, True), err
            described = await status(installed)
            assert (described["usable"], described["posts"]) == (False, 0)
