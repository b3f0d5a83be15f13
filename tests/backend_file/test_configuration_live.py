"""The running server applies edits of the file, and writes users' changes through the API into it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from prometheus_client import REGISTRY

from microsub.backend_file import file as backend_file
from microsub.backend_file.file import BackendFile
from microsub.backend_file.sync import Timing
from microsub.base.digests import sha256_hex
from microsub.base.errors import StoreFull
from microsub.redis import keys
from microsub.redis.protocol import Redis
from tests.support.configured import NOW, Configured
from tests.support.waiting import wait_until

A, B, C = "https://a.example/feed", "https://b.example/feed", "https://c.example/feed"

TEXT = """{
    "$schema": "backend.schema.json",
    "x-note": "mine",
    "users": {
        "alice": {
            "channels": [
                {"name": "Home", "uid": "home", "x-colour": "red",
                 "feeds": ["${FEED}", {"name": "Bee", "url": "https://b.example/feed"}]},
                {"uid": "news", "feeds": []}
            ],
            "me": "https://alice.example/"
        }
    }
}
"""


@pytest.fixture
def configured(real_redis: Redis, tmp_path: Path) -> Configured:
    return Configured(real_redis, tmp_path / "backend.json", write_back=True, environ={"FEED": A})


@contextlib.asynccontextmanager
async def running(configured: Configured) -> AsyncIterator[asyncio.Event]:
    stop = asyncio.Event()
    task = asyncio.create_task(configured.configuration.run(stop))
    try:
        yield stop
    finally:
        stop.set()
        await asyncio.wait_for(task, 60)


def named(name: str) -> dict[str, Any]:
    return {"users": {"alice": {"channels": [{"uid": "home", "name": name}]}}}


def has(configured: Configured, name: str) -> Callable[[], Any]:
    async def condition() -> bool:
        return (await configured.state()).get("alice", {}).get("home", ("",))[0] == name

    return condition


def remembered(configured: Configured) -> Callable[[], Any]:
    """Whether the current file is the one that was applied last."""

    async def condition() -> bool:
        last = await configured.applied.last()
        return last is not None and last.digest == sha256_hex(configured.file.read_bytes())

    return condition


async def test_edits_take_effect_within_two_seconds(configured: Configured) -> None:
    """Replaced, written in place, removed and created again: each way in which editors save is noticed.

    Only the watch does this, which waits for 0.3 s if a file can't be read.
    """
    assert backend_file.LOOK_EVERY + Timing().settle < 2
    configured.timing = Timing(compare=3600)
    configured.configuration = configured.server()
    configured.save(named("One"))
    async with running(configured):
        await wait_until(has(configured, "One"))
        configured.save(named("Two"))
        await wait_until(has(configured, "Two"))
        configured.file.write_text(json.dumps(named("Three")))
        await wait_until(has(configured, "Three"))
        configured.file.rename(configured.file.with_suffix(".bak"))
        configured.save(named("Four"))
        await wait_until(has(configured, "Four"))


async def test_a_bug_does_not_end_the_watch(configured: Configured, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is logged as an error, and the next edit takes effect."""

    async def broken(*_: object, **__: object) -> None:
        monkeypatch.undo()
        raise RuntimeError("a bug")

    monkeypatch.setattr(configured.applier, "apply", broken)
    with structlog.testing.capture_logs() as lines:
        configured.save(named("One"))
        async with running(configured):
            await wait_until(lambda: any(line["log_level"] == "error" for line in lines))
            configured.save(named("Two"))
            await wait_until(has(configured, "Two"))


async def test_a_file_is_applied_again_when_redis_comes_back_empty(redis: Redis, tmp_path: Path) -> None:
    """Also without write-back. The log reports it, and the status does until the file is applied."""
    configured = Configured(redis, tmp_path / "backend.json")
    configured.save(named("One"))
    with structlog.testing.capture_logs() as lines:
        async with running(configured):
            await wait_until(has(configured, "One"))
            await wait_until(lambda: redis.command("EXISTS", keys.instance()))
            await configured.applied.lease("another", 60).acquire()  # so that it takes some time
            lost = (keys.instance(), keys.applied_config(), keys.users(), keys.user("alice"))
            await redis.pipeline([("DEL", key) for key in lost])
            await wait_until(lambda: configured.configuration.status.lost)
            assert await configured.state() == {}
            await configured.applied.lease("another", 0).release()
            await wait_until(has(configured, "One"))
            await wait_until(lambda: not configured.configuration.status.lost)
    assert [line["event"].partition(":")[0] for line in lines if line["log_level"] == "error"] == [
        "Redis has lost its data"
    ]


async def test_a_repaired_file_is_logged_as_valid(configured: Configured) -> None:
    """Also if the repair restores the earlier content, so that there is nothing to apply."""
    await configured.apply(named("One"))
    good = configured.file.read_text()
    with structlog.testing.capture_logs() as lines:
        configured.save('{"users": {')
        assert await configured.configuration.look() == "invalid"
        assert configured.configuration.status.problems
        assert REGISTRY.get_sample_value("microsub_backend_refused") == 1
        configured.save(good)
        assert await configured.configuration.look() == "unchanged"
    assert not configured.configuration.status.problems
    assert REGISTRY.get_sample_value("microsub_backend_refused") == 0
    assert [line["event"] for line in lines] == [
        "backend.json refused; the last valid configuration stays active",
        "backend.json is valid again",
    ]


async def test_waiting_for_redis_is_logged_once(configured: Configured, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of attempts doesn't matter."""
    tries = 0
    add_user = configured.accounts.add_user

    async def full(name: str, me: str, now: float) -> object:
        nonlocal tries
        tries += 1
        if tries <= 5:
            raise StoreFull("full")
        return await add_user(name, me, now)

    monkeypatch.setattr(configured.accounts, "add_user", full)
    with structlog.testing.capture_logs() as lines:
        configured.save(named("One"))
        async with running(configured):
            await wait_until(has(configured, "One"))
            await wait_until(lambda: any(line["event"].startswith("Redis answers again") for line in lines))
    assert tries > 5
    events = [line["event"] for line in lines if "Redis" in line["event"]]
    assert events == [
        "configuration changes are waiting for Redis",
        "Redis answers again; configuration changes are processed",
    ]


async def test_an_edit_behind_a_symbolic_link_is_seen(configured: Configured, tmp_path: Path) -> None:
    """The file may be a link to another folder, and the link may change to another file."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "one" / "b.json").write_text(json.dumps(named("One")))
    (tmp_path / "two" / "b.json").write_text(json.dumps(named("Two")))
    configured.file.symlink_to(tmp_path / "one" / "b.json")
    async with running(configured):
        await wait_until(has(configured, "One"))
        link = tmp_path / "link"
        link.symlink_to(tmp_path / "two" / "b.json")
        link.replace(configured.file)
        await wait_until(has(configured, "Two"))


async def test_a_file_that_comes_later_is_found(configured: Configured) -> None:
    """The server starts without a file, and an invalid one in between changes nothing."""
    async with running(configured):
        configured.save("{")
        await wait_until(lambda: configured.configuration.status.problems)
        configured.save(named("Late"))
        await wait_until(has(configured, "Late"))


async def test_api_changes_appear_in_the_file(configured: Configured) -> None:
    """Only differences and the version are written: order of keys, unknown keys, variables and lines stay."""
    configured.file.write_text(TEXT)
    await configured.configuration.look()
    await configured.following.unfollow("alice", "home", B, NOW)
    await configured.following.follow("alice", "home", C, NOW)
    await configured.channels.create("alice", "Mine", NOW, uid="mine")
    await configured.channels.rename("alice", "news", "Papers ${FEED}", NOW)
    await configured.channels.order("alice", ["mine", "home"])
    await configured.rules.mute("alice", "global", "https://loud.example/", NOW)
    assert await configured.configuration.write_back()
    version = f'    "x-version": "{configured.saved()["x-version"]}",\n'
    assert configured.file.read_text().replace(version, "") == TEXT.replace(
        """                {"name": "Home", "uid": "home", "x-colour": "red",
                 "feeds": ["${FEED}", {"name": "Bee", "url": "https://b.example/feed"}]},
                {"uid": "news", "feeds": []}
""",
        """                {"uid": "mine", "name": "Mine"},
                {
                    "uid": "news",
                    "feeds": [],
                    "name": "Papers $${FEED}"
                },
                {
                    "name": "Home",
                    "uid": "home",
                    "x-colour": "red",
                    "feeds": [
                        "${FEED}",
                        "https://c.example/feed"
                    ]
                }
""",
    ).replace(
        """"me": "https://alice.example/"\n""",
        """"me": "https://alice.example/",
            "mute": [
                "https://loud.example/"
            ]
""",
    )
    before = await configured.state()
    assert not await configured.configuration.write_back()
    assert await configured.configuration.look() == "unchanged"
    assert await configured.server().look() == "unchanged"
    assert await configured.state() == before


async def test_file_and_api_keep_in_step_without_ping_pong(configured: Configured) -> None:
    """A change through the API reaches the file, an edit of that file the stores; then nothing changes any more."""
    configured.file.write_text(TEXT)
    async with running(configured):
        await wait_until(has(configured, "Home"))
        await configured.channels.rename("alice", "home", "Renamed", NOW)
        configured.configuration.touched()
        await wait_until(lambda: "Renamed" in configured.file.read_text())
        await wait_until(remembered(configured))  # otherwise the edit comes while the server still writes
        document = configured.saved()
        document["users"]["alice"]["channels"][0]["name"] = "Again"
        configured.save(document)
        await wait_until(has(configured, "Again"))
        await wait_until(remembered(configured))  # otherwise the server logs its loading during the next lines
        stamp = configured.file.stat().st_mtime_ns
        with structlog.testing.capture_logs() as lines:
            for _ in range(5):
                assert not await configured.configuration.write_back()
                assert await configured.configuration.look() == "unchanged"
        assert lines == []
        assert configured.file.stat().st_mtime_ns == stamp
    assert len(list(BackendFile(configured.file).versions.iterdir())) == 3


async def test_changes_by_other_processes_are_found_too(configured: Configured) -> None:
    """This process got no notice of the change, and still writes it into the file."""
    configured.file.write_text(TEXT)
    async with running(configured):
        await wait_until(has(configured, "Home"))
        await configured.channels.rename("alice", "home", "Elsewhere", NOW)
        await wait_until(lambda: "Elsewhere" in configured.file.read_text())


async def test_unchanged_files_are_compared_once(configured: Configured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of URLs are compared only when file or stores have changed, not every five seconds."""
    compared = []
    form = configured.applier.form
    monkeypatch.setattr(configured.applier, "form", lambda *users: compared.append(users) or form(*users))
    configured.file.write_text(TEXT)
    await configured.configuration.look()
    compared.clear()
    for _ in range(3):
        assert not await configured.configuration.write_back()
    assert len(compared) == 1
    await configured.channels.rename("alice", "home", "Elsewhere", NOW)
    assert await configured.configuration.write_back()
    assert len(compared) == 2


async def test_pending_changes_are_written_at_the_end(configured: Configured) -> None:
    """A change in the last seconds isn't lost."""
    configured.timing = Timing(quiet=60, longest_quiet=60, compare=60)
    configured.configuration = configured.server()
    configured.file.write_text(TEXT)
    async with running(configured):
        await wait_until(has(configured, "Home"))
        await configured.channels.rename("alice", "home", "Last words", NOW)
        configured.configuration.touched()
    assert "Last words" in configured.file.read_text()


async def test_an_edit_that_is_not_applied_yet_is_never_written_over(configured: Configured) -> None:
    """The file on disk isn't the applied one, so the edit is applied first; then both changes are in the file."""
    configured.file.write_text(TEXT)
    await configured.configuration.look()
    await configured.channels.rename("alice", "news", "By API", NOW)
    document = configured.saved()
    document["users"]["alice"]["channels"][0]["name"] = "By file"
    configured.save(document)
    assert not await configured.configuration.write_back()
    assert configured.saved() == document
    assert await configured.configuration.look() == "applied"
    assert await configured.configuration.write_back()
    assert [channel["name"] for channel in configured.saved()["users"]["alice"]["channels"]] == ["By file", "By API"]


async def test_a_broken_file_is_never_written_over(configured: Configured) -> None:
    """The admin may be editing it."""
    configured.file.write_text(TEXT)
    await configured.configuration.look()
    await configured.channels.rename("alice", "news", "By API", NOW)
    configured.file.write_text(TEXT[:-20])
    assert not await configured.configuration.write_back()
    assert configured.file.read_text() == TEXT[:-20]


async def test_new_users_are_written_and_disabled_ones_stay(configured: Configured) -> None:
    """A user added by command is added to the file; no user is removed from it."""
    configured.file.write_text(TEXT)
    await configured.configuration.look()
    await configured.accounts.add_user("carol", "https://carol.example/", NOW)
    await configured.accounts.disable_user("alice", NOW)
    assert await configured.configuration.write_back()
    assert configured.saved()["users"]["carol"] == {"me": "https://carol.example/"}
    assert configured.saved()["users"]["alice"] == json.loads(TEXT)["users"]["alice"]


async def test_the_old_form_is_not_written_into(configured: Configured) -> None:
    """The Go server's file stays unchanged, and one log line says what to do."""
    await configured.apply({"Me": "https://a.example/", "Channels": {"x": {"uid": "x", "name": "X"}}})
    await configured.channels.rename("a-example", "x", "Y", NOW)
    with structlog.testing.capture_logs() as lines:
        assert not await configured.configuration.write_back()
        assert not await configured.configuration.write_back()
    assert len(lines) == 1
    assert "config upgrade" in lines[0]["event"]


async def test_a_folder_that_cant_be_written_is_one_warning(
    configured: Configured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file may be mounted read-only: the server continues."""

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    configured.file.write_text(TEXT)
    await configured.configuration.look()
    await configured.channels.rename("alice", "news", "By API", NOW)
    monkeypatch.setattr(BackendFile, "replace", refuse)
    with structlog.testing.capture_logs() as lines:
        assert not await configured.configuration.write_back()
        assert not await configured.configuration.write_back()
    assert [line["event"] for line in lines] == ["can't write backend.json: permission denied"]


def test_replacing_keeps_mode_and_the_last_ten_versions(tmp_path: Path) -> None:
    """The newest version is the current file, the one before the previous file; the mode stays."""
    path = tmp_path / "backend.json"
    path.write_text("0")
    path.chmod(0o640)
    file = BackendFile(path)
    for number in range(1, 15):
        state = file.read()
        assert state
        assert file.replace(str(number).encode(), state.digest, NOW + number)
    assert path.read_text() == "14"
    assert path.stat().st_mode & 0o777 == 0o640
    kept = sorted(file.versions.iterdir())
    assert [version.read_text() for version in kept] == [str(number) for number in range(5, 15)]
    assert {version.stat().st_mode & 0o777 for version in kept} == {0o640}
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["backend.json", "backend.json.versions"]


def test_a_file_that_changed_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    """The hash is checked last."""
    path = tmp_path / "backend.json"
    path.write_text("seen")
    file = BackendFile(path)
    state = file.read()
    assert state
    path.write_text("edited")
    assert file.replace(b"mine", state.digest, NOW) is None
    assert path.read_text() == "edited"
    assert not file.versions.exists()


def test_the_time_of_modification_never_goes_back(tmp_path: Path) -> None:
    """The replacement of a file from the future isn't older than that file."""
    path = tmp_path / "backend.json"
    path.write_text("seen")
    future = time.time() + 1000
    os.utime(path, (future, future))
    file = BackendFile(path)
    state = file.read()
    assert state
    new = file.replace(b"mine", state.digest, NOW)
    assert new
    assert new.edited_at >= state.edited_at


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    """The file that it points to is replaced."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "b.json").write_text("old")
    link = tmp_path / "backend.json"
    link.symlink_to(tmp_path / "real" / "b.json")
    file = BackendFile(link)
    state = file.read()
    assert state
    assert file.replace(b"new", state.digest, NOW)
    assert link.is_symlink()
    assert (tmp_path / "real" / "b.json").read_text() == "new"
