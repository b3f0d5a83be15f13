"""Memory of processes in bytes, and their processor time, from the system. Peaks are exact only on Linux."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MIB = 1024 * 1024
_LINUX = sys.platform == "linux"


def resident(pid: int) -> int:
    """Resident memory of the process; 0 if it has ended."""
    if not _LINUX:
        found = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return int(found.stdout.strip() or 0) * 1024
    return _status(pid, "VmRSS")


def forget_peak(pid: int) -> None:
    """Resets `peak`."""
    if _LINUX:
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak(pid: int) -> int:
    """The maximum memory of the process since `forget_peak`."""
    return _status(pid, "VmHWM") if _LINUX else resident(pid)


def parsers(pid: int) -> list[int]:
    """The parser processes that it started.

    A child that hasn't started its own program yet shows the memory of its parent process.
    """
    return [child for child in children(pid) if "microsub.parsing.process" in _command(child)]


def children(pid: int) -> list[int]:
    """The child processes of the process."""
    if not _LINUX:
        found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
        return [int(line) for line in found.stdout.split()]
    return [int(word) for text in _of_threads(pid, "children") for word in text.split()]


def _command(pid: int) -> str:
    if not _LINUX:
        return subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return _read(f"/proc/{pid}/cmdline")


def processor_time(pid: int) -> float:
    """Seconds of processor time that its threads have used; 0 on systems that don't provide this."""
    return sum(int(text.split()[0]) for text in _of_threads(pid, "schedstat") if text) / 1e9


def _of_threads(pid: int, name: str) -> list[str]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [_read(f"/proc/{pid}/task/{thread}/{name}") for thread in threads]


def _status(pid: int, name: str) -> int:
    _, _, found = _read(f"/proc/{pid}/status").partition(f"\n{name}:")
    return int(found.split(maxsplit=1)[0]) * 1024 if found else 0


def _read(path: str) -> str:
    """The contents of a file, without pathlib: a hundred times a second. Empty if the process has ended."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
