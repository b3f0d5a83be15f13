"""What a killed test process leaves behind is ended: an embedded Redis survives its starter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MARK = "MADE_BY_TESTS_IN"

_GUARD = """
import os, signal, sys, time
folder = os.fsencode(sys.argv[1])
mark = sys.argv[2].encode() + b"=" + folder + b"\\0"

def ours(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            found = mark in file.read()
        return found or os.fsencode(os.readlink(f"/proc/{pid}/cwd")).startswith(folder + b"/")
    except OSError:
        return False

sys.stdin.read()
for _ in range(50 if os.path.isdir("/proc/self") else 0):
    left = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid() and ours(name)]
    if not left:
        break
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    time.sleep(0.1)
"""
"""Its standard input ends with the test process, however that ends."""


@contextmanager
def none_left(folder: Path) -> Iterator[None]:
    """Kill, when the block or this process ends, what works in `folder` or was started meanwhile. Linux only."""
    guard = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _GUARD, str(folder), _MARK], stdin=subprocess.PIPE, start_new_session=True
    )
    os.environ[_MARK] = str(folder)
    try:
        yield
    finally:
        del os.environ[_MARK]
        guard.communicate()
