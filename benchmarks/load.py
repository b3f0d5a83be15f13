"""Measures how fast a server answers one kind of request on 8 busy connections.

`wrk` generates the load if it is installed. Otherwise `benchmarks.generator` does the same in Python; it needs more
processor time, so all results are slower, including the static bytes.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CONNECTIONS = 8
HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Target:
    """A request: an address, headers as `Name: value`, and for POST a file of bodies and the first one to use."""

    url: str
    headers: tuple[str, ...] = ()
    bodies: Path | None = None
    skip: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """The result: requests per second, latencies in milliseconds, and replies that reported one change."""

    rate: float
    p50: float
    p99: float
    requests: int
    counted: int


class LoadFailedError(Exception):
    """Some requests failed or had no reply, so the figures are meaningless."""


def has_wrk() -> bool:
    """Whether `wrk` is on the PATH."""
    return shutil.which("wrk") is not None


def run(target: Target, seconds: float) -> Load:
    """Send requests for `seconds`. Raises LoadFailedError if any of them failed."""
    command = _wrk(target, seconds) if has_wrk() else _generator(target, seconds)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + 60)
    line = next((line for line in done.stdout.splitlines() if line.startswith('{"requests"')), None)
    if line is None:
        raise LoadFailedError(f"{command[0]} failed for {target.url}: {done.stderr or done.stdout}")
    found = json.loads(line)
    if found["failed"]:
        raise LoadFailedError(f"{found['failed']} of {found['requests']} requests failed: {target.url}")
    return Load(
        rate=found["requests"] / found["microseconds"] * 1e6,
        p50=found["p50"] / 1000,
        p99=found["p99"] / 1000,
        requests=found["requests"],
        counted=found["counted"],
    )


def _wrk(target: Target, seconds: float) -> Sequence[str]:
    script = HERE / ("bodies.lua" if target.bodies else "report.lua")
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{max(1, round(seconds))}s", "-s", str(script)]
    for header in target.headers:
        command += ["-H", header]
    arguments = ["--", str(target.bodies), str(target.skip)] if target.bodies else []
    return [*command, target.url, *arguments]


def _generator(target: Target, seconds: float) -> Sequence[str]:
    command = [sys.executable, "-m", "benchmarks.generator", target.url, str(seconds), str(CONNECTIONS)]
    for header in target.headers:
        command += ["--header", header]
    if target.bodies:
        command += ["--bodies", str(target.bodies), "--skip", str(target.skip)]
    return command
