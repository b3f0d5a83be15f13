"""The container's files: what they copy exists, and the image's command serves as its environment says."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from microsub.base.settings import SETTINGS
from tests.support.cluster import free_ports
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
VARIABLES = {setting.variable for setting in SETTINGS}


def steps() -> Iterator[tuple[str, str]]:
    """Each instruction of the Containerfile with its arguments."""
    text = (ROOT / "Containerfile").read_text().replace("\\\n", " ")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, rest = line.strip().partition(" ")
            yield name, rest.strip()


def environment() -> dict[str, str]:
    """The variables that the image sets."""
    return dict(pair.split("=", 1) for name, rest in steps() if name == "ENV" for pair in shlex.split(rest))


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    """Everything else stays out of the image: `.git`, `.venv`, data and tokens beside the files."""
    copied = {one for name, rest in steps() if name == "COPY" for one in rest.split()[:-1]}
    assert all((ROOT / one).exists() for one in copied)
    ignored = (ROOT / ".containerignore").read_text()
    assert {line[1:] for line in ignored.splitlines() if line.startswith("!")} == copied
    assert (ROOT / ".dockerignore").read_text() == ignored


def test_all_variables_are_settings() -> None:
    """Those of the image and of compose.yaml."""
    composed = re.findall(r"MICROSUB_\w+", (ROOT / "compose.yaml").read_text())
    assert {name for name in (*environment(), *composed) if name.startswith("MICROSUB_")} <= VARIABLES


async def test_the_image_serves_and_is_healthy(tmp_path: Path) -> None:
    """Its command with its environment in an empty volume: the health check succeeds, and SIGTERM ends it cleanly."""
    [port] = map(str, free_ports(1))
    variables = {name: value.replace("/data", str(tmp_path)) for name, value in environment().items()}
    variables |= {"PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"], "HOME": str(tmp_path)}
    variables |= {"MICROSUB_PORT": port, "MICROSUB_HOST": "127.0.0.1"}
    commands = {name: json.loads(rest[rest.index("[") :]) for name, rest in steps() if name in {"CMD", "HEALTHCHECK"}}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, check=False, env=variables, capture_output=True, text=True)

    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(commands["CMD"], cwd=tmp_path, env=variables, stdout=log, stderr=log)
    try:

        def is_healthy() -> bool:
            assert server.poll() is None, (tmp_path / "log").read_text()
            return run(*commands["HEALTHCHECK"]).returncode == 0

        await wait_until(is_healthy)
        added = run("microsub", "user", "add", "alice")
        assert added.returncode == 0, added.stderr
        await wait_until((tmp_path / "backend.json").exists)  # the server writes it
    finally:
        server.terminate()
        assert server.wait(60) in {0, 143}
    assert run(*commands["HEALTHCHECK"]).returncode != 0
