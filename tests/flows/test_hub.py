"""Our hub in one server and our subscriber in another, over HTTP: posts from one arrive at the other."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import httpx

from tests.flows.test_websub import document, follow, free_port, in_timeline
from tests.support.hub import hub
from tests.support.process import Installation, installation, reader
from tests.support.waiting import wait_until
from tests.support.web import Publisher

RARELY = {"polling": {"min_interval": 86_400, "host_interval": 0}}


def public(folder: Path, document: dict[str, Any]) -> Any:
    """An installation that knows its address."""
    folder.mkdir()
    port = str(free_port())
    environ = {"MICROSUB_BASE_URL": f"http://127.0.0.1:{port}", "MICROSUB_PORT": port}
    return installation(folder, {**document, "settings": RARELY}, **environ)


def users(name: str, *feeds: str) -> dict[str, Any]:
    return {"users": {name: {"channels": [{"uid": "home", "name": "Home", "feeds": list(feeds)}]}}}


async def status(made: Installation) -> dict[str, Any]:
    _, out, _ = await made.run("push", "status", "--json")
    found: dict[str, Any] = json.loads(out)
    return found


async def site_get(url: str) -> httpx.Response:
    async with httpx.AsyncClient() as client:
        return await client.get(url)


async def topic_of(made: Installation, *arguments: str) -> str:
    _, out, _ = await made.run("push", "topic", "alice", *arguments)
    return out.strip()


async def test_a_post_goes_from_a_hub_through_both_servers(tmp_path: Path, site: Publisher) -> None:
    """A foreign hub delivers to Alice's server, her hub delivers to Bob's, even after a kill of hers; nothing is
    polled.
    """
    async with hub(site) as foreign, public(tmp_path / "a", users("alice", site.url("/feed"))) as one:
        await follow(site, foreign, ["first"])
        url = await one.serve()
        await wait_until(lambda: foreign.callbacks)
        async with reader(url, await one.token("alice")) as alice:
            await wait_until(lambda: in_timeline(alice, "first"))
            made = await alice.post(action="outputs", method="create", output="picks", channel="home")
            topic = made["addresses"]["atom"]
        async with public(tmp_path / "b", users("bob", topic)) as other:
            reading = await other.serve()
            async with reader(reading, await other.token("bob")) as bob:
                await wait_until(lambda: in_timeline(bob, "first"))

                async def subscribed() -> bool:
                    return bool((await status(one))["callbacks"])

                await wait_until(subscribed)
                names = ["first"]
                for number in range(4):
                    names.insert(0, f"post {number}")
                    await foreign.publish(site.url("/feed"), document(site, foreign, names))
                    if number == 2:
                        await one.stop(signal.SIGKILL)
                        await one.serve()
                    await wait_until(lambda number=number: in_timeline(bob, f"post {number}"))
                (feed,) = (await status(other))["feeds"]
                assert (feed["way"], feed["posts_pushed"]) == ("pushed", 4)
            (callbacks,) = (await status(one))["callbacks"].values()
            assert callbacks["counts"]["delivered"] >= 3
            _, out, _ = await one.run("push", "status")
            assert "callbacks 127.0.0.1: 1 subscription, 0 failing; " in out
            assert topic not in one.log
            first, again, renewed = [await topic_of(one, "home", *flag) for flag in ([], [], ["--renew"])]
            assert first == again != renewed
            assert (await site_get(renewed)).json()["items"]
            assert not await topic_of(one, "home", "--revoke")
            assert (await site_get(renewed)).status_code == 404
            code, _, err = await one.run("push", "topic", "alice", "nothing")
            assert code == 1
            assert "nothing" in err
            assert "hub.challenge" not in one.log
