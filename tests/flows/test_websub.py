"""WebSub in production setup: a server with its worker, a publisher and a hub, over HTTP."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.hub import Hub, hub
from tests.support.process import Installation, installation, reader
from tests.support.reader import Reader
from tests.support.waiting import wait_until
from tests.support.web import Publisher

POLLED_RARELY = {"polling": {"min_interval": 86_400, "host_interval": 0}}


def free_port() -> int:
    """A free port."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@pytest.fixture
async def made(tmp_path: Path, site: Publisher) -> AsyncIterator[Installation]:
    """An installation that knows its address; Alice follows a feed that names a hub."""
    users = {"alice": {"channels": [{"uid": "home", "name": "Home", "feeds": [site.url("/feed")]}]}}
    port = str(free_port())
    environ = {"MICROSUB_BASE_URL": f"http://127.0.0.1:{port}", "MICROSUB_PORT": port}
    async with installation(tmp_path, {"users": users, "settings": POLLED_RARELY}, **environ) as found:
        yield found


async def follow(site: Publisher, one: Hub, names: list[str]) -> None:
    """Serve a feed that names the hub, by an address that the server can resolve."""
    site.serve_document("/feed", document(site, one, names))


def document(site: Publisher, one: Hub, names: list[str]) -> bytes:
    return one.document(site.url("/feed"), *names).replace(b"hub.test", b"127.0.0.1")


async def in_timeline(alice: Reader, name: str) -> bool:
    return name in await alice.names(limit=100)


async def status(made: Installation) -> dict[str, Any]:
    code, out, err = await made.run("push", "status", "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


async def test_published_posts_are_there_without_a_poll(made: Installation, site: Publisher) -> None:
    """The worker subscribes, the web port verifies and receives; follow lists, status and metrics show it."""
    async with hub(site) as one:
        await follow(site, one, ["first"])
        url = await made.serve()
        await wait_until(lambda: one.callbacks)
        async with reader(url, await made.token("alice")) as alice:
            await wait_until(lambda: in_timeline(alice, "first"))
            polls = site.count("/feed")
            names = ["first"]
            for number in range(5):
                names.insert(0, f"post {number}")
                assert await one.publish(site.url("/feed"), document(site, one, names)) == [202]
                await wait_until(lambda number=number: in_timeline(alice, f"post {number}"))
            assert site.count("/feed") == polls

            async def shown() -> dict[str, Any] | None:
                (feed,) = (await alice.get(action="follow", channel="home"))["items"]
                return feed if feed["_push"] == "pushed" and feed["_posts_pushed"] == "5" else None

            feed = await wait_until(shown)
            assert feed["_push_reason"] == "its hub delivers"
            assert {"_lease_until", "_last_delivery"} <= feed.keys()
            metrics = (await alice.client.get(f"{url}/metrics")).text
            assert 'microsub_websub_deliveries_total{end="accepted"} 5.0' in metrics
        found = await status(made)
        assert (found["feeds"][0]["way"], found["feeds"][0]["posts_pushed"]) == ("pushed", 5)
        (counts,) = found["hubs"].values()
        assert counts["counts"]["delivered"] == 5
        _, out, _ = await made.run("push", "status")
        assert "5 posts pushed, 0 polled" in out
        assert "1 feed, 1 pushed; asked 1, verified 1, deliveries 5, new posts 5" in out
        _, out, _ = await made.run("push", "status", site.url("/feed"), "--json")
        assert json.loads(out) == {**found, "callbacks": {}}
        code, _, err = await made.run("push", "status", site.url("/elsewhere"))
        assert (code, "nobody follows" in err) == (1, True)
        _, out, _ = await made.run("feed", "list", "--json")
        assert json.loads(out)[0]["push"]["posts_pushed"] == 5
        _, out, _ = await made.run("feed", "list")
        assert "  pushed  next poll in " in out
        log = made.log
        (callback,) = one.callbacks
        assert callback.rpartition(".")[2] not in log
        assert next(iter(one.subscriptions.values())).secret not in log


async def test_killed_at_any_moment_nothing_acknowledged_is_lost(made: Installation, site: Publisher) -> None:
    """Server and worker are killed repeatedly; each post whose delivery was answered with 2xx is there once."""
    async with hub(site) as one:
        await follow(site, one, ["first"])
        url = await made.serve()
        await wait_until(lambda: one.callbacks)
        names, sent = ["first"], []
        for number in range(4):
            names.insert(0, f"post {number}")
            if await one.publish(site.url("/feed"), document(site, one, names)) == [202]:
                sent.append(f"post {number}")
            await made.stop(signal.SIGKILL)
            url = await made.serve()
        assert len(sent) == 4
        async with reader(url, await made.token("alice")) as alice:
            await wait_until(lambda: in_timeline(alice, "post 3"))
            found = await alice.names(limit=100)
        assert sorted(found) == sorted(["first", *sent])
