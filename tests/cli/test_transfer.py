"""`microsub import` of exports from other readers, and files that can't be read or written."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

import pytest

from microsub import server
from microsub.base.settings import read_settings
from microsub.configuration.model import Quotas
from tests.cli.conftest import Run
from tests.support.readers import instance

FILES = Path(__file__).parents[1] / "data" / "other_readers"

pytestmark = pytest.mark.usefixtures("data")


def saved() -> int:
    """The number of items that an app shows as saved."""

    async def look() -> int:
        async with (
            server.stores.open_stores(read_settings(os.environ, {}), create=True) as stores,
            instance(stores.redis) as running,
        ):
            return len(await (await running.reader("alice")).items("saved"))

    return asyncio.run(look())


def test_starred_posts_of_another_reader_come_in(run: Run) -> None:
    """A dry run first, then the import, twice; the app shows the starred posts."""
    for command in (("--dry-run",), (), ()):
        brought = run("import", "starred", str(FILES / "takeout.json"), "alice", *command)
        assert brought.exit_code == 0, brought.stderr
        assert "saved (Saved): 0 feeds, 0 unread, 3 read" in brought.stdout
        assert "2 skipped" in brought.stdout
    assert "3 posts (3 known already) taken over for alice" in brought.stdout
    brought = run("import", "miniflux", str(FILES / "miniflux.json"), "alice", "--json")
    assert (brought.exit_code, json.loads(brought.stdout)["posts"]["channels"][0]["read"]) == (0, 2), brought.stderr
    brought = run("import", "freshrss", str(FILES.parent / "opml" / "freshrss.opml"), "alice")
    assert (brought.exit_code, "2 feeds followed for alice" in brought.stdout) == (0, True), brought.stderr
    assert saved() == 5
    assert run("check").exit_code == 0


def test_imports_of_the_admin_may_exceed_quotas(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user keeps everything, but can't add more; a dry run and an import within the quotas say nothing."""
    monkeypatch.setattr("microsub.accounts.quotas.OF_DECLARED", Quotas(channels=9, feeds=1, saved=2, posts=100))
    opml = str(FILES.parent / "opml" / "freshrss.opml")
    assert "quota" not in run("import", "freshrss", opml, "alice", "--dry-run").stderr
    brought = run("import", "freshrss", opml, "alice")
    assert "alice now has 3 feeds, more than the quota of 1; all were imported" in brought.stderr
    assert "saved posts" not in brought.stderr
    brought = run("import", "starred", str(FILES / "takeout.json"), "alice")
    assert "alice now has 3 saved posts, more than the quota of 2" in brought.stderr
    assert re.search(r"alice now has \d{3,} bytes of posts, more than the quota of 100;", brought.stderr)
    assert saved() == 3


def test_a_users_data_is_exported_and_imported(run: Run, tmp_path: Path) -> None:
    """Only its owner can read the file, and the error for an unwritable one names it."""
    run("import", "starred", str(FILES / "takeout.json"), "alice")
    file = tmp_path / "alice.jsonl"
    wrote = run("user", "export", "alice", str(file))
    assert (wrote.exit_code, f"lines to {file}" in wrote.stdout) == (0, True), wrote.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(run("user", "export", "alice").stdout.splitlines()) == len(file.read_text("utf-8").splitlines())
    refused = run("user", "export", "alice", str(tmp_path / "nowhere" / "alice.jsonl"))
    assert (refused.exit_code, "no such file or directory" in refused.stderr) == (1, True)
    for command in (("--dry-run",), ()):
        brought = run("user", "import", "alice", str(file), *command)
        assert (brought.exit_code, "for alice, 0 skipped" in brought.stdout) == (0, True), brought.stderr
    file.write_text(run("opml", "export", "alice").stdout)
    listed = run("opml", "import", "alice", str(file), "--dry-run")
    assert "0 feeds would be followed for alice" in listed.stdout, listed.stderr
