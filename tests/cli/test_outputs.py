"""`microsub output` on two items of a channel."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from microsub import server
from microsub.base.settings import read_settings
from tests.cli.conftest import Run
from tests.support.readers import FEED, instance, posts


@pytest.fixture
def ids(data: Path) -> list[str]:
    """The ids of two items in Alice's channel `home`."""

    async def write() -> list[str]:
        async with (
            server.stores.open_stores(read_settings(os.environ, {}), create=True) as stores,
            instance(stores.redis) as running,
        ):
            alice = await running.reader("alice", "home")
            await alice.post(action="follow", channel="home", url=FEED)
            await running.publish(FEED, *posts("a", "b"))
            return await alice.ids("home")

    return asyncio.run(write())


def declared() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("backend.json").read_text())["users"]["alice"].get("outputs", {})
    return found


def test_addresses_are_those_of_the_running_server(run: Run, ids: list[str]) -> None:
    """Of the web process that started last, unless host, port or base URL are given; before any, they are assumed."""

    async def start(url: str) -> None:
        async with server.stores.open_stores(read_settings(os.environ, {}), create=True) as stores:
            await stores.applied.note_address(url)

    assumed = run("output", "create", "alice", "picks", "--public")
    assert "No server has been started on this data yet" in assumed.stderr
    asyncio.run(start("http://127.0.0.1:9321"))
    for command in (["create", "alice", "more", "--public"], ["list", "alice"]):
        known = run("output", *command)
        assert ("http://127.0.0.1:9321/feeds/alice/more.rss" in known.stdout, known.stderr) == (True, "")
    (feed, _) = json.loads(run("output", "list", "alice", "--json").stdout)
    assert feed["addresses"]["rss"] == "http://127.0.0.1:9321/feeds/alice/more.rss"
    assert "http://127.0.0.1:9999/feeds/" in run("output", "list", "alice", "--port", "9999").stdout


def test_settings_are_changed_one_by_one(run: Run, ids: list[str]) -> None:
    """The others stay, and an empty value removes one; invalid values are named."""
    assert run("output", "create", "alice", "picks", "--title", "Tides", "--language", "de").exit_code == 0
    image = "https://alice.example/cover.png"
    changes = ["--image", image, "--language", "", "--max-impressions", "4", "--republish", "edits"]
    changed = run("output", "change", "alice", "picks", *changes)
    assert (changed.exit_code, changed.stdout) == (0, "settings of 'picks' changed\n")
    assert declared() == {"picks": {"title": "Tides", "image": image, "max_impressions": 4, "republish": "edits"}}
    wrong = run("output", "change", "alice", "picks", "--image", "cover.png")
    assert (wrong.exit_code, "'image' can't be used: found 'cover.png'" in wrong.stderr) == (2, True)


def test_the_commands(run: Run, ids: list[str]) -> None:
    """Their output, and the resulting backend.json."""

    def command(*arguments: str) -> str:
        result = run("output", *arguments)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    assert command("list", "alice") == "no output feeds\n"
    printed = command("create", "alice", "picks", "--title", "My picks", "--max-age", "24h", "--public")
    assert [line.split()[0] for line in printed.splitlines()] == ["picks", "rss", "atom", "json", "html"]
    assert "/feeds/alice/picks.rss" in printed
    assert declared() == {"picks": {"title": "My picks", "max_age": 86_400, "public": True}}
    assert "'picks' has no items yet; to add some: microsub output add alice picks ITEM" in command(
        "list", "alice", "picks"
    )
    assert command("add", "alice", "picks", *ids) == "2 items published\n"
    assert "2 published, 0 imported" in command("list", "alice")
    assert command("remove", "alice", "picks", ids[0]) == "1 item removed\n"
    states = {line.split()[0]: line.split()[1:4] for line in command("list", "alice", "picks").splitlines()}
    assert states == {ids[0]: ["removed", "0", "impressions"], ids[1]: ["published", "0", "impressions"]}
    listed = json.loads(command("list", "alice", "picks", "--json"))["items"]
    assert {one["id"]: (one["state"], one["impressions"]) for one in listed}[ids[0]] == ("removed", 0)
    assert "its readable address stays" in command("revoke", "alice", "picks")
    assert "/feeds/alice/picks.rss" in command("list", "alice")
    first = json.loads(command("renew", "alice", "picks", "--json"))
    assert first["addresses"]["rss"].endswith("/feeds/alice/picks.rss")
    (about,) = json.loads(command("list", "alice", "--json"))
    assert about["name"] == "picks"
    for arguments, problem in (
        (("add", "alice", "picks", "x"), "'x' is not an item id"),
        (("add", "alice", "picks", "99999"), "not found in the channels of alice: 99999"),
        (("remove", "alice", "picks", "99999"), "not found in 'picks': 99999"),
        (("list", "alice", "nothing"), "there is no output feed 'nothing'; see: microsub output list alice"),
        (("create", "alice", "picks"), "there is an output feed 'picks' already"),
        (("create", "alice", "all", "--channel", "nowhere"), "alice has no channel 'nowhere'; channels: "),
        (("create", "alice", "all", "--max-age", "soon"), "expected a number with s, m, h, d or w"),
        (("create", "nobody", "all"), "there is no user 'nobody'"),
    ):
        result = run("output", *arguments)
        assert result.exit_code in {1, 2}
        assert problem in result.stderr
    command("create", "alice", "kept", "--channel", "saved")
    assert "no posts of the channel 'saved' yet" in command("list", "alice", "kept")
    command("delete", "alice", "kept")
    command("create", "alice", "found", "--search", "nothing-of-the-kind")
    assert "the search of 'found' has found nothing yet" in command("list", "alice", "found")
    assert "the address of 'found' is revoked" in command("revoke", "alice", "found")
    command("delete", "alice", "found")
    assert command("delete", "alice", "picks") == "output feed 'picks' deleted\n"
    assert command("list", "alice") == "no output feeds\n"
    assert declared() == {}
