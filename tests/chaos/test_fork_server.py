"""The fork server of the tests outlives all processes that ask it to fork; storms kill them at any moment."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

from tests.support.fork_server import ForkServer
from tests.support.waiting import wait_until

BODY = json.dumps({"module": "json.tool", "arguments": ["x"], "environment": dict(os.environ), "folder": "/"}).encode()


async def test_processes_killed_while_they_ask_end_no_fork_server(tmp_path: Path) -> None:
    """They may die before their request, after a part of it, and before they know their child's process id."""
    server = ForkServer(tmp_path)
    for sent in (None, 0, 50, len(BODY)):
        with socket.socket(socket.AF_UNIX) as asking, open(os.devnull, "r+b") as nothing:
            asking.connect(server.address)
            if sent is not None:
                socket.send_fds(asking, [len(BODY).to_bytes(4, "big")], [nothing.fileno()] * 3)
                asking.sendall(BODY[:sent])
        with (tmp_path / "out").open("w+b") as out:
            next_one = server.start("json.tool", ["--help"], os.environ, out, out)
            assert await next_one.wait() == 0, sent
    server.close()


async def test_processes_end_with_the_fork_server(tmp_path: Path) -> None:
    """Also if the test run that started it was killed, which closes the server's input."""
    server = ForkServer(tmp_path)
    with (tmp_path / "out").open("w+b") as out:
        running = server.start("http.server", ["0", "--bind", "127.0.0.1"], os.environ, out, out)
    await wait_until(lambda: (tmp_path / "out").read_bytes().startswith(b"Serving"))
    server.close()
    await wait_until(lambda: not _is_running(running.pid))


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
