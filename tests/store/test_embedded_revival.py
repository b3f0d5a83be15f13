"""A redis-server that is killed under a running process is started again, at the same address, with its data."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py

from microsub import wiring
from microsub.errors import StoreError, StoreUnavailable
from microsub.health import Health
from microsub.redis.embedded import revival
from microsub.redis.embedded import server as embedded
from microsub.redis.embedded.datafolder import Folder
from microsub.redis.embedded.server import start_embedded
from microsub.settings import Settings
from tests.support.process import installation
from tests.support.waiting import wait_until

IMPATIENT = """
from microsub.cli import main
from microsub.store import revival
revival.WATCH_SECONDS = 0.05
revival.GIVE_UP_SECONDS = 0.5
main()
"""


@pytest.fixture(params=["short", "long"])
def data_dir(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder, once with a path too long for a socket; whatever server is left on it is ended."""
    folder = tmp_path / "data" if request.param == "short" else tmp_path / ("ä" * 50) / ("x" * 100)
    yield folder
    server = Folder(folder)
    while server.is_running():
        embedded._terminate(json.loads((folder / "redis.json").read_text())["pid"])


async def killed(data_dir: Path, pid: int) -> None:
    """The server is gone when this returns."""
    os.kill(pid, signal.SIGKILL)
    await wait_until(lambda: not Folder(data_dir).is_running())


async def test_a_killed_server_is_revived_once(data_dir: Path) -> None:
    """Of two that are attached one starts it; both keep their address, and the last to leave stops it."""
    first, second = start_embedded(data_dir), start_embedded(data_dir)
    with redis_py.Redis.from_url(first.url) as client:
        client.set("here", "still")
    assert not first.revive()
    await killed(data_dir, first.pid)
    assert first.revive()
    assert not second.revive()
    assert first.pid == second.pid
    with redis_py.Redis.from_url(second.url) as client:
        assert client.get("here") == b"still"
    assert not first.stop()
    assert not first.revive()
    assert second.stop()


async def test_a_process_notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open stores work again without anybody's doing."""
    monkeypatch.setattr(revival, "WATCH_SECONDS", 0.05)
    data_dir = tmp_path / "data"
    async with wiring.stores.open_stores(Settings(data_dir=data_dir), create=True) as stores:
        before = json.loads((data_dir / "redis.json").read_text())["pid"]
        await killed(data_dir, before)

        async def works() -> bool:
            try:
                return bool(await stores.redis.command("PING"))
            except StoreError:
                return False

        await wait_until(works)
        assert json.loads((data_dir / "redis.json").read_text())["pid"] != before
    assert not Folder(data_dir).is_running()


@pytest.mark.parametrize(("niceness", "looks"), [(0, 1), (10, 3)])
async def test_a_process_of_low_priority_lets_others_start_the_server(
    monkeypatch: pytest.MonkeyPatch, niceness: int, looks: int
) -> None:
    """A server has the priority of its starter, so workers look twice more before they do it themselves."""
    monkeypatch.setattr(revival, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(revival.os, "nice", lambda _: niceness)
    happened: list[str] = []

    class Gone:
        pid = 1

        async def command(self, *_: object) -> None:
            happened.append("look")
            raise StoreUnavailable("it is gone")

        def revive(self) -> bool:
            happened.append("revive")
            return True

    gone: Any = Gone()
    async with revival.kept_alive(gone, gone, ended=lambda _: None):
        await wait_until(lambda: "revive" in happened)
    assert happened[: looks + 1] == [*["look"] * looks, "revive"]


def spoil(data_dir: Path) -> int:
    """Make that no server at hand may start on the folder again; returns the pid of the one that runs."""
    path = data_dir / "redis.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "version": "99.0.0"}))
    return int(record["pid"])


async def test_what_can_not_be_revived_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/health has the reason, in words that give no folder away; once the server can be started, it is well again."""
    monkeypatch.setattr(revival, "WATCH_SECONDS", 0.05)
    data_dir = tmp_path / "data"
    async with wiring.stores.open_stores(Settings(data_dir=data_dir), create=True) as stores:
        health = Health(stores.presence, lambda: stores.watch.trouble)
        before = (data_dir / "redis.json").read_text()
        await killed(data_dir, spoil(data_dir))
        await wait_until(lambda: stores.watch.trouble)
        report = await health.check(0.0)
        assert (report.status, report.redis, report.reason) == ("failing", "unreachable", stores.watch.trouble)
        assert str(tmp_path) not in str(stores.watch.trouble)
        assert not stores.watch.lost.is_set()
        (data_dir / "redis.json").write_text(before)
        await wait_until(lambda: stores.watch.trouble is None)
        assert (await health.check(10.0)).redis == "ok"


async def test_a_server_process_ends_when_its_redis_can_not_be_revived(tmp_path: Path) -> None:
    """With exit code 1 and the reason as its last words, so that a supervisor starts it again and a person can see."""
    async with installation(tmp_path, {"users": {"alice": {}}}) as installed:
        installed.program = ("-c", IMPATIENT)
        await installed.serve()
        await killed(installed.folder / "data", spoil(installed.folder / "data"))
        (process,) = installed.processes
        assert await asyncio.wait_for(process.wait(), 60) == 1
        last = installed.log.splitlines()[-1]
        assert last.startswith("microsub: the embedded Redis has ended and could not be started")
        assert "99.0" in last
        assert "Traceback" not in installed.log


def test_what_the_server_writes_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Also in a folder that was there before and that others may look into."""
    tmp_path.chmod(0o755)
    server = start_embedded(tmp_path)
    with redis_py.Redis.from_url(server.url) as client:
        client.set("secret", "1")
    assert server.stop()
    written = list(tmp_path.rglob("appendonly*"))
    assert written
    assert [path for path in written if path.stat().st_mode & 0o077] == []
