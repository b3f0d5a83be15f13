"""The real server as a process of its own, with users and tokens made by the command line, as a target of the suite."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from microsub.conformance.runner import Target

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "microsub")
START = 60
"""Seconds that a start may take on a busy machine."""


@contextmanager
def real_server(folder: Path, command: Sequence[str] = COMMAND, redis_url: str | None = None) -> Iterator[Target]:
    """`serve` on a free port with its data in `folder` or in the Redis at `redis_url`, two users, and a token that may
    only read.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "MICROSUB_DATA_DIR": str(folder / "data"),
        "MICROSUB_BACKEND": str(folder / "backend.json"),
        "MICROSUB_HOST": "127.0.0.1",
        "MICROSUB_PORT": str(port),
        "MICROSUB_ALLOW_PRIVATE_NETWORKS": "127.0.0.0/8",
        "PYTHONPATH": str(ROOT),
    }
    if redis_url is not None:
        settings["MICROSUB_REDIS_URL"] = redis_url
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MICROSUB_")} | settings
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen([*command, "serve"], env=environment, cwd=folder, stdout=output, stderr=output)
    try:
        endpoint = f"http://127.0.0.1:{port}/microsub"
        _await(process, endpoint, log)

        def run(*arguments: str) -> str:
            done = subprocess.run(  # noqa: PLW1510 - the return code is looked at below
                [*COMMAND, *arguments], env=environment, cwd=folder, capture_output=True, text=True, timeout=START
            )
            assert done.returncode == 0, done.stderr
            return done.stdout.strip()

        for name in ("alice", "bob"):
            run("user", "add", name)
        exported = [f"{name}={value}" for name, value in settings.items()]
        yield Target(
            endpoint=endpoint,
            token=run("token", "create", "alice"),
            second_token=run("token", "create", "bob"),
            read_token=run("token", "create", "alice", "--scope", "read"),
            user_endpoint=f"{endpoint}/alice",
            poll_command=("env", *exported, *command, "poll", "{url}"),
            patience=20,
        )
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(60)


def _await(process: subprocess.Popen[bytes], endpoint: str, log: Path) -> None:
    """Wait until the endpoint answers."""
    deadline = time.monotonic() + START
    while True:
        tail = log.read_text(errors="replace")[-3000:]
        assert process.poll() is None, f"`{shlex.join(map(str, process.args))}` ended: {tail}"  # type: ignore[arg-type]
        assert time.monotonic() < deadline, f"no answer after {START} s: {tail}"
        try:
            if httpx.get(endpoint, trust_env=False, timeout=60).status_code == 401:
                return
        except httpx.HTTPError:
            time.sleep(0.05)
