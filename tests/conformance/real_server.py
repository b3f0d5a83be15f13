"""The real server as a process of its own, with users and tokens made by the command line, as a target of the suite."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from microsub.conformance.runner import Target
from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "microsub")
COMMANDS = (
    *(
        sys.executable,
        "-c",
        "import sys\nfrom microsub.cli import main\n"
        "for line in sys.argv[1:]: main(line.split(), standalone_mode=False)",
    ),
    *("user add alice", "user add bob"),
    *("token create alice", "token create bob", "token create alice --scope read"),
)
"""Several commands in one process: most of what each of them costs is its start."""

START = PATIENCE
"""Seconds that a start may take on a busy machine."""


@contextmanager
def real_server(folder: Path, command: Sequence[str] = COMMAND, redis_url: str | None = None) -> Iterator[Target]:
    """`serve` on a free port with its data in `folder` or in the Redis at `redis_url`, two users, and a token that may
    only read.
    """
    settings = {
        "MICROSUB_DATA_DIR": str(folder / "data"),
        "MICROSUB_BACKEND": str(folder / "backend.json"),
        "MICROSUB_HOST": "127.0.0.1",
        "MICROSUB_PORT": "0",
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
        endpoint = f"{_address(process, log)}/microsub"
        done = subprocess.run(  # noqa: PLW1510 - the return code is looked at below
            COMMANDS, env=environment, cwd=folder, capture_output=True, text=True, timeout=START
        )
        assert done.returncode == 0, done.stderr
        *_, token, second_token, read_token = done.stdout.split()
        exported = [f"{name}={value}" for name, value in settings.items()]
        yield Target(
            endpoint=endpoint,
            token=token,
            second_token=second_token,
            read_token=read_token,
            user_endpoint=f"{endpoint}/alice",
            poll_command=("env", *exported, *command, "poll", "{url}"),
            patience=60,
        )
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(60)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Where the server says that it is, which it says when it answers."""
    deadline = time.monotonic() + START
    while True:
        text = log.read_text(errors="replace")
        if found := re.search(r"Microsub server on (http://\S+)\n", text):
            return found[1]
        ended = f"`{shlex.join(map(str, process.args))}` ended: {text[-3000:]}"  # type: ignore[arg-type]
        assert process.poll() is None, ended
        assert time.monotonic() < deadline, f"no address after {START} s: {text[-3000:]}"
        time.sleep(0.01)
