"""Memory of processes in bytes, and their processor time, from the system. Peaks are exact only on Linux."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
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
    found_ids: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found_ids += [int(word) for word in path.read_text().split()]
    return found_ids


def _command(pid: int) -> str:
    if not _LINUX:
        return subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


def processor_time(pid: int) -> float:
    """Seconds of processor time that its threads have used; 0 on systems that don't provide this."""
    found = 0
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):
            found += int(thread.read_text().split()[0])
    return found / 1e9


def _status(pid: int, name: str) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0
