"""The folder with all temporary files of a test run, deleted when the run ends, however it ends."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile

RUN_FOLDER = "TEST_RUN_FOLDER"
"""The environment variable with the folder, for the processes of the run."""

_GUARD = """
import os, shutil, sys, time
folder, parent = sys.argv[1:]
sys.stdin.read()
for _ in range(200):
    shutil.rmtree(folder, ignore_errors=True)
    if not os.path.exists(folder):
        break
    time.sleep(0.1)  # the other guards are still ending processes that write there
for name in os.listdir(parent):
    if name.startswith("pytest-of-"):
        try:
            os.rmdir(os.path.join(parent, name))
        except OSError:
            pass  # another run, or folders of failed tests
"""
"""Its standard input ends with the process that has begun the run."""


def use_run_folder() -> None:
    """Make the folder of the run the temporary folder of this process and of all that it starts.

    The folders of tests stay where pytest puts them, so that those of failed tests can be looked at.
    """
    if RUN_FOLDER in os.environ:
        return
    parent = tempfile.gettempdir()
    folder = tempfile.mkdtemp(prefix="test-run-")
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", parent)
    os.environ[RUN_FOLDER] = os.environ["TMPDIR"] = tempfile.tempdir = folder
    guard = [sys.executable, "-I", "-S", "-c", _GUARD, folder, parent]
    atexit.register(subprocess.Popen(guard, stdin=subprocess.PIPE, start_new_session=True).communicate)
