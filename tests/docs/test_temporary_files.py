"""A test run leaves nothing in the temporary folder, even if it is killed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

_TEST = """
import os, pathlib, tempfile, time

from tests.support.fork_server import fork_server
from tests.support.world import World

def test_with_files(redis_url, tmp_path):
    (tmp_path / "written").write_text("a file")
    World(None).key_file.write_text("key")
    fork_server()
    tempfile.mkdtemp()
    pathlib.Path(os.environ["TEST_BEGUN"]).touch()
    time.sleep(float(os.environ["TEST_SECONDS"]))
"""

CHECKOUT = Path(__file__).parents[2]


@contextlib.contextmanager
def run_of_its_own(folder: Path, temporary: str, seconds: int) -> Iterator[subprocess.Popen[bytes]]:
    """A test run with one test, two test processes, and this temporary folder."""
    (folder / "test_files.py").write_text(_TEST)
    ours = ("PYTEST", "TEST_", "MADE_BY_TESTS_IN")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment |= {
        "TMPDIR": temporary,
        "TEST_BEGUN": str(folder / "begun"),
        "TEST_SECONDS": str(seconds),
    }
    arguments = ["-n", "2", "-p", "tests.conftest", "-c", str(CHECKOUT / "pyproject.toml"), str(folder)]
    command = [sys.executable, "-m", "pytest", *arguments]
    with subprocess.Popen(command, env=environment, cwd=CHECKOUT, stdout=subprocess.PIPE) as run:
        try:
            yield run
        finally:
            run.kill()


def working_in(folder: str) -> list[str]:
    """The processes whose working directory is in that folder, also if it has been deleted. Linux only."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):  # it has ended
            if os.readlink(link).startswith(folder):
                found.append(link.parent.name)
    return found


@pytest.fixture
def temporary() -> Iterator[str]:
    """A folder with a short path, so that the paths of sockets in it fit."""
    with tempfile.TemporaryDirectory() as folder:
        yield folder


def test_a_run_leaves_nothing(tmp_path: Path, temporary: str) -> None:
    with run_of_its_own(tmp_path, temporary, 0) as run:
        printed, _ = run.communicate()
    assert b"1 passed" in printed, printed.decode()
    assert os.listdir(temporary) == []
    assert working_in(temporary) == []


async def test_a_killed_run_leaves_only_the_folders_of_its_tests(tmp_path: Path, temporary: str) -> None:
    """Pytest deletes them after three more runs. Its engine ends."""
    with run_of_its_own(tmp_path, temporary, 60) as run:
        await wait_until((tmp_path / "begun").exists)
        assert len(os.listdir(temporary)) > 1
        run.kill()
        await wait_until(lambda: [name.partition("-of-")[0] for name in os.listdir(temporary)] == ["pytest"])
        await wait_until(lambda: working_in(temporary) == [])
