"""`microsub webmention` on a server's webmentions."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from microsub import server
from microsub.base.settings import read_settings
from microsub.webmention.mention import Mention
from microsub.webmention.store import MentionStore
from tests.cli.conftest import Run

TARGET = "https://alice.example/post"
HELD = Mention("https://bob.example/1", TARGET, 1000.0, "held", kind="reply", author="B\x1b[2Job", title="Well said")
GONE = Mention("https://bob.example/2", TARGET, 2000.0, "deleted", why="the source is gone")


@pytest.fixture
def mentions(data: Path) -> None:
    """One webmention that waits for approval, and one that was deleted."""

    async def write() -> None:
        async with server.stores.open_stores(read_settings(os.environ, {}), create=True) as stores:
            await stores.accounts.add_user("alice", "https://alice.example/", 0.0)
            for mention in (HELD, GONE):
                await MentionStore(stores.redis).write("alice", mention, None, mention.received)

    asyncio.run(write())


def found(run: Run) -> dict[str, str]:
    """State by source; one that waits for a worker is in brackets."""
    listed = json.loads(run("webmention", "list", "alice", "--all", "--json").stdout)
    return {one["source"][-1]: one["state"] for one in listed}


@pytest.mark.usefixtures("mentions")
def test_list_shows_all_webmentions(run: Run) -> None:
    """Finished ones are left out by default; text of strangers can't control the terminal."""
    shown = run("webmention", "list", "alice").stdout
    assert f"{HELD.id}  1970-01-01T00:16:40+00:00  held  reply" in shown
    assert "https://bob.example/1 -> https://alice.example/post  Well said" in shown
    assert "\x1b" not in shown
    assert "bob.example/2" not in shown
    assert found(run) == {"1": "held", "2": "deleted"}
    assert run("webmention", "list", "bob").exit_code != 0


@pytest.mark.usefixtures("mentions")
@pytest.mark.parametrize(("command", "state"), [("approve", "held"), ("reject", "rejected"), ("delete", "withdrawn")])
def test_orders_are_noted_for_the_worker(run: Run, command: str, state: str) -> None:
    """An id may be shortened; an unknown or ambiguous one is refused, and nothing is done."""
    assert run("webmention", command, "alice", "zz").exit_code == 1
    assert run("webmention", command, "alice", HELD.id[:8], "").exit_code == 1
    assert found(run)["1"] == "held"
    assert run("webmention", command, "alice", HELD.id[:8]).exit_code == 0
    assert found(run) == {"1": state, "2": "deleted"}


@pytest.mark.usefixtures("mentions")
def test_one_that_was_rejected_is_not_approved(run: Run) -> None:
    """The rejection is final, and the message says how it can come back."""
    run("webmention", "reject", "alice", HELD.id)
    refused = run("webmention", "approve", "alice", HELD.id)
    assert refused.exit_code == 1
    assert "once it is deleted, it can be sent again" in refused.stderr
    assert found(run)["1"] == "rejected"
    assert run("webmention", "delete", "alice", HELD.id).exit_code == 0
    assert found(run)["1"] == "withdrawn"
