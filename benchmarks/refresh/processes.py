"""Processor time, memory and children of processes, as Linux reports them."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def processor_seconds(*pids: int) -> float:
    """Processor time that these processes have used so far, user and system."""
    return sum(_ticks(pid) for pid in pids) / _TICK


def _ticks(pid: int) -> int:
    # The second field is the program's name in parentheses, with any characters in it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def peak_bytes(pid: int) -> int:
    """The peak memory of a process; 0 if it has ended."""
    with suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) * 1024 if found else 0
    return 0


def children(pid: int) -> list[int]:
    """The running child processes of a process."""
    return [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]
