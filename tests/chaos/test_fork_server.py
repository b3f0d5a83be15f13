"""The fork server of the tests outlives all processes that ask it to fork; storms kill them at any moment."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

from tests.support.fork_server import ForkServer

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
