"""The output of a server's start, and when it contains a token: on a terminal, or on request."""

from __future__ import annotations

import contextlib
import json
import os
import pty
from pathlib import Path

from tests.support.fork_server import started
from tests.support.process import PROGRAM, Installation, installation
from tests.support.waiting import wait_until

USERS = {"users": {"alice": {"me": "https://alice.example/"}}}
MAKE_ONE = "microsub token create USER"


async def greeting(installed: Installation, *command: str) -> str:
    """The output of one start; the process ends afterwards."""
    await installed.serve(*command)
    out = installed.folder / f"{len(installed.processes) - 1}.out"
    await installed.stop()
    return out.read_text()


async def test_the_first_start_is_quiet(tmp_path: Path) -> None:
    """With the example file no warning is logged, also without internet.

    Without a terminal, as under systemd, a line says how to create a token, and none is created.
    """
    example = (Path(__file__).parents[2] / "backend.json.example").read_text()
    async with installation(tmp_path, json.loads(example), MICROSUB_LOG_FORMAT="text") as installed:
        shown = await greeting(installed, "serve")
        assert "now        0 feeds, 1 user" in shown
        assert "Bearer" not in shown
        assert MAKE_ONE in shown
        assert (await installed.run("token", "list", "alice"))[1] == ""
        assert "server started: 0 feeds, 1 user" in installed.log
        assert installed.log.endswith(" stopped\n")
        assert "warning" not in installed.log
        assert "error" not in installed.log


async def test_a_public_server_shows_no_token(tmp_path: Path) -> None:
    """It shows none even with `--show-token`, as in `make serve`: readers of its log could use it from anywhere."""
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    assert "microsub serve --show-token $(ARGS)" in makefile
    async with installation(tmp_path, USERS, MICROSUB_BASE_URL="https://reader.example") as installed:
        shown = await greeting(installed, "serve", "--show-token")
        assert "Bearer" not in shown
        assert MAKE_ONE in shown


async def test_a_token_is_shown_on_a_terminal(tmp_path: Path) -> None:
    """`microsub serve` prints it if its output is a terminal."""
    async with installation(tmp_path, USERS) as installed:
        ours, theirs = pty.openpty()
        with os.fdopen(theirs, "wb") as terminal, (tmp_path / "0.log").open("wb") as log:
            process = started([*PROGRAM, "serve"], installed.environment(), terminal, log)
        installed.processes.append(process)
        os.set_blocking(ours, False)
        shown = b""

        def greeted() -> bool:
            nonlocal shown
            with contextlib.suppress(BlockingIOError):
                shown += os.read(ours, 65536)
            return b"try " in shown and shown.endswith(b"\n")

        await wait_until(greeted)
        assert b"Bearer alice." in shown
        await installed.stop()
        os.close(ours)
