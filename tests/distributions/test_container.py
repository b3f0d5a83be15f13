"""The container's files: what they copy exists, and the image's command serves as its environment says."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def commands() -> dict[str, list[str]]:
    """The image's command and its health check."""
    return {name: json.loads(rest[rest.index("[") :]) for name, rest in steps() if name in {"CMD", "HEALTHCHECK"}}


async def check_that_it_serves(folder: Path, volume: Path, variables: dict[str, str], *prefix: str) -> None:
    """The image's command after `prefix`: it becomes healthy, takes a user, and ends cleanly by SIGTERM."""

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*prefix, *command], check=False, env=variables, capture_output=True, text=True)

    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([*prefix, *commands()["CMD"]], cwd=folder, env=variables, stdout=log, stderr=log)
    try:

        def is_healthy() -> bool:
            assert server.poll() is None, (folder / "log").read_text()
            return run(*commands()["HEALTHCHECK"]).returncode == 0

        await wait_until(is_healthy)
        added = run("microsub", "user", "add", "alice")
        assert added.returncode == 0, added.stderr
        await wait_until((volume / "backend.json").exists)  # the server writes it
    finally:
        server.terminate()
        assert server.wait(60) in {0, 143}
    assert run(*commands()["HEALTHCHECK"]).returncode != 0


async def test_the_image_serves_and_is_healthy(tmp_path: Path) -> None:
    """Its command with its environment in an empty volume: the health check succeeds, and SIGTERM ends it cleanly."""
    [port] = map(str, free_ports(1))
    variables = {name: value.replace("/data", str(tmp_path)) for name, value in environment().items()}
    variables |= {"PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"], "HOME": str(tmp_path)}
    variables |= {"MICROSUB_PORT": port, "MICROSUB_HOST": "127.0.0.1"}
    await check_that_it_serves(tmp_path, tmp_path, variables)


@pytest.mark.skipif(
    "CONTAINER_ROOT" not in os.environ,
    reason="CONTAINER_ROOT names no clean Debian; docs/how-to/release.md says how to make one",
)
async def test_all_steps_of_the_containerfile_in_a_clean_root() -> None:
    """Debian's Python stands for the base image; every step runs as written, the last ones not as root.

    For machines that reach no registry of images. The folder is changed, and can be used again.
    """
    root = Path(os.environ["CONTAINER_ROOT"])
    if not (root / "opt/python").exists():
        subprocess.run(["chroot", root, "python3", "-m", "venv", "/opt/python"], check=True)
    for name in ("app", "data"):
        shutil.rmtree(root / name, ignore_errors=True)
    subprocess.run(["chroot", root, "userdel", "microsub"], check=False, capture_output=True)
    [port] = map(str, free_ports(1))
    variables = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    variables |= {"PATH": "/opt/python/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    user, folder = "root", root
    for name, rest in steps():
        if name == "WORKDIR":
            folder = root / rest.lstrip("/")
            folder.mkdir(exist_ok=True)
        elif name == "COPY":
            *sources, target = rest.split()
            for source in sources:
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, folder / target)
                else:
                    shutil.copy(ROOT / source, folder / target)
        elif name == "USER":
            user = rest
        elif name == "RUN":
            assert user == "root"
            step = f"cd /{folder.relative_to(root)} && {rest}"
            subprocess.run(["chroot", root, "/bin/sh", "-ec", step], check=True, env=variables)
    variables = {"PATH": variables["PATH"], "HOME": "/data"} | environment() | {"MICROSUB_PORT": port}
    within = "chroot", "--userspec", f"{user}:{user}", str(root), "/bin/sh", "-c", 'cd /data && exec "$0" "$@"'
    await check_that_it_serves(folder, folder, variables, *within)
