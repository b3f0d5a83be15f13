"""A process whose embedded Redis dies ends with it, and says so."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import redis as redis_py

from microsub.redis.embedded.datafolder import Folder
from microsub.redis.embedded.server import start_embedded
from tests.support.process import installation
from tests.support.waiting import wait_until


async def killed(data_dir: Path) -> None:
    """The server is gone when this returns."""
    os.kill(json.loads((data_dir / "redis.json").read_text())["pid"], signal.SIGKILL)
    await wait_until(lambda: not Folder(data_dir).is_running())


async def test_a_server_whose_redis_has_died_ends_and_starts_again_with_its_data(tmp_path: Path) -> None:
    """Exit code 1 and the reason as its last words; the next start brings Redis up again, with all that was in it."""
    async with installation(tmp_path, {"users": {"alice": {}}}) as installed:
        await installed.serve()
        await killed(installed.folder / "data")
        (process,) = installed.processes
        assert await asyncio.wait_for(process.wait(), 60) == 1
        assert installed.log.splitlines()[-1].startswith("microsub: the embedded Redis has ended")
        assert "Traceback" not in installed.log
        assert "alice" in (await installed.run("user", "list"))[1]


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
