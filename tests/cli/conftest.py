"""The command line in a folder of its own, in this process or in a forked one."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from microsub.cli import main
from microsub.redis.embedded.server import start_embedded
from tests.support.cluster import until
from tests.support.fork_server import fork_server
from tests.support.waiting import PATIENCE

Run = Callable[..., Result]

CHANNELS = [{"uid": "home", "name": "Home", "feeds": ["https://blog.example/feed"]}]
BACKEND = {"users": {"alice": {"me": "https://alice.example/", "channels": CHANNELS}}}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command line in a folder with backend.json, without settings; `given` is its standard input."""
    (tmp_path / "backend.json").write_text(json.dumps(BACKEND))
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("MICROSUB_") and name != "MICROSUB_ENV_FILE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))

    def command(*arguments: str, given: str | bytes = "") -> Result:
        result = CliRunner().invoke(main, arguments, input=given)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return command


@pytest.fixture
def data(run: Run, tmp_path: Path) -> Iterator[Path]:
    """The data folder of a server that runs in the folder of `run`, so that no command has to start a Redis."""
    server = start_embedded(tmp_path / "data")
    yield tmp_path / "data"
    server.stop()


def in_a_process(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, whose environment may name a settings file."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = fork_server().start("microsub", arguments, {**os.environ, **environ}, out, err)
        until(lambda: process.poll() is not None, PATIENCE)
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(arguments, process.poll() or 0, out.read().decode(), err.read().decode())
