"""The real server in its own process, with users and tokens created by the command line, as a target of the suite."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from microsub_conformance.runner import Target
from tests.support import fork_server as fork_server_module
from tests.support.cluster import until
from tests.support.fork_server import Process, fork_server
from tests.support.waiting import PATIENCE

PREPARED = (
    *("user add alice", "user add bob"),
    *("token create alice", "token create bob", "token create alice --scope read", "token create alice --app Suite"),
)

START = PATIENCE
"""Seconds that a start may take on a busy machine."""


@contextmanager
def real_server(folder: Path, redis_url: str | None = None) -> Iterator[tuple[Target, Target]]:
    """`serve` on a free port, with two users and a read-only token: the Microsub API, and the Google Reader API.

    The data is in `folder` or in the Redis at `redis_url`.
    """
    settings = {
        "MICROSUB_DATA_DIR": str(folder / "data"),
        "MICROSUB_BACKEND": str(folder / "backend.json"),
        "MICROSUB_HOST": "127.0.0.1",
        "MICROSUB_PORT": "0",
        "MICROSUB_ALLOW_PRIVATE_NETWORKS": "127.0.0.0/8",
    }
    if redis_url is not None:
        settings["MICROSUB_REDIS_URL"] = redis_url
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MICROSUB_")} | settings
    forks, log = fork_server(), folder / "server.log"
    with log.open("wb") as output:
        process = forks.start("microsub", ["serve"], environment, output, output)
    try:
        endpoint = f"{_address(process, log)}/microsub"
        with (folder / "tokens").open("w+b") as printed, log.open("ab") as output:
            prepared = forks.start("tests.support.process", PREPARED, environment, printed, output)
            until(lambda: prepared.poll() is not None, START)
            assert prepared.poll() == 0, log.read_text()
            printed.seek(0)
            *_, token, second_token, read_token, password = map(str.strip, json.load(printed))
        exported = [f"{name}={value}" for name, value in environment.items()]
        program = (sys.executable, "-I", "-S", fork_server_module.__file__, forks.address)
        target = Target(
            endpoint=endpoint,
            token=token,
            second_token=second_token,
            read_token=read_token,
            user_endpoint=f"{endpoint}/alice",
            poll_command=("env", *exported, *program, "microsub", "poll", "{url}"),
            patience=60,
        )
        address = endpoint.replace("/microsub", "/api/greader.php")
        yield target, replace(target, endpoint=address, token=password, user="alice", patience=PATIENCE)
    finally:
        process.end(START)


def _address(process: Process, log: Path) -> str:
    """The address that the server prints once it answers requests."""
    found: re.Match[str] | None = None

    def said() -> bool:
        nonlocal found
        text = log.read_text(errors="replace")
        found = re.search(r"Microsub server on (http://\S+)\n", text)
        assert process.poll() is None, f"the server ended: {text[-3000:]}"
        return found is not None

    until(said, START)
    assert found is not None
    return found[1]
