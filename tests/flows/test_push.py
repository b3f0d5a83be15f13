"""From our own hub to our own subscriber: two instances as people run them, polling off, with an open event stream."""

from __future__ import annotations

import json
from pathlib import Path

from tests.flows.test_websub import POLLED_RARELY, document, follow, free_port, in_timeline
from tests.support.event_stream import listening_by_http, next_item
from tests.support.hub import hub
from tests.support.process import Installation, installation, reader
from tests.support.waiting import wait_until
from tests.support.web import publisher


def environ(port: int) -> dict[str, str]:
    return {"MICROSUB_BASE_URL": f"http://127.0.0.1:{port}", "MICROSUB_PORT": str(port)}


async def subscribers(made: Installation) -> int:
    """How many subscriptions an instance's own hub has."""
    code, out, err = await made.run("push", "status", "--json")
    assert code == 0, err
    return sum(one["subscriptions"] for one in json.loads(out)["callbacks"].values())


async def test_a_post_goes_from_hub_to_hub(tmp_path: Path) -> None:
    """Bob's output feed passes on what a hub delivers to him; it stands once in Alice's timeline and in her stream."""
    ours, theirs = free_port(), free_port()
    passed_on = f"http://127.0.0.1:{theirs}/feeds/bob/all.rss"
    async with publisher() as site, hub(site) as one:
        await follow(site, one, ["first"])

        def followed(user: str, url: str) -> dict[str, object]:
            channels = [{"uid": "home", "name": "Home", "feeds": [url]}]
            return {"users": {user: {"channels": channels}}, "settings": POLLED_RARELY}

        async with (
            installation(tmp_path / "bob", followed("bob", site.url("/feed")), **environ(theirs)) as giving,
            installation(tmp_path / "alice", followed("alice", passed_on), **environ(ours)) as taking,
        ):
            async with reader(await giving.serve(), await giving.token("bob")) as bob:
                await wait_until(lambda: in_timeline(bob, "first"))
            code, _, err = await giving.run("output", "create", "bob", "all", "--channel", "home", "--public")
            assert code == 0, err
            await wait_until(lambda: one.callbacks)
            async with reader(await taking.serve(), await taking.token("alice")) as alice:
                await wait_until(lambda: subscribers(giving))
                async with listening_by_http(alice) as events:
                    for number in range(3):
                        names = [f"post {past}" for past in range(number, -1, -1)]
                        body = document(site, one, [*names, "first"])
                        assert await one.publish(site.url("/feed"), body) == [202]
                        assert await next_item(events) == f"post {number}"
                        assert (await alice.names(limit=100)).count(f"post {number}") == 1
            code, out, err = await taking.run("push", "status", passed_on, "--json")
            assert code == 0, err
            (feed,) = json.loads(out)["feeds"]
            assert (feed["way"], feed["posts_pushed"]) == ("pushed", 3)
