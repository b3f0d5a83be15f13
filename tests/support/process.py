"""The product in real processes, with real HTTP and an embedded Redis in a temporary folder."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import httpx

from microsub.redis.embedded.server import start_embedded
from tests.support.fork_server import Process, fork_server, started
from tests.support.reader import Reader
from tests.support.waiting import PATIENCE, wait_until

PROGRAM = ("-m", "microsub")
"""The program, as users start it."""


@dataclass
class Installation:
    """A folder with backend.json and data, and its processes. Feeds on loopback are allowed.

    The processes are forked from one that has loaded the product. With `program`, Python's arguments before the
    command, those that keep running are started in the usual way.
    """

    folder: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = ()
    processes: list[Process] = field(default_factory=list)

    @property
    def backend(self) -> Path:
        return self.folder / "backend.json"

    @property
    def log(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def write(self, document: Mapping[str, Any] | str) -> None:
        """Save backend.json in place, as an editor would."""
        self.backend.write_text(document if isinstance(document, str) else json.dumps(document, indent=2))

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MICROSUB_")}
        return {
            **kept,
            "MICROSUB_ALLOW_PRIVATE_NETWORKS": "127.0.0.0/8",
            "MICROSUB_ENV_FILE": os.devnull,
            "MICROSUB_BACKEND": str(self.backend),
            "MICROSUB_DATA_DIR": str(self.folder / "data"),
            "MICROSUB_PORT": "0",
            **self.environ,
        }

    async def prepare(self) -> None:
        """Create the data folder, as the first start of a server does."""
        await asyncio.to_thread(lambda: start_embedded(self.folder / "data").stop())

    async def start(self, *arguments: str) -> Process:
        """Start `microsub …`; its output goes into log files in the folder."""
        number = len(self.processes)
        with (
            (self.folder / f"{number}.out").open("wb") as out,
            (self.folder / f"{number}.log").open("wb") as log,
        ):
            if self.program:
                process = started([*self.program, *arguments], self.environment(), out, log)
            else:
                process = self._fork("microsub", arguments, out, log)
        self.processes.append(process)
        return process

    def _fork(self, module: str, arguments: Sequence[str], out: IO[bytes], err: IO[bytes]) -> Process:
        return fork_server().start(module, arguments, self.environment(), out, err)

    async def _output(self, module: str, arguments: Sequence[str]) -> tuple[int, str, str]:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            code = await asyncio.wait_for(self._fork(module, arguments, out, err).wait(), PATIENCE)
            for file in (out, err):
                file.seek(0)
            return code, out.read().decode(), err.read().decode()

    async def serve(self, command: str = "serve", *flags: str) -> str:
        """Start a serving process and return the URL that it prints."""
        process = await self.start(command, *flags)
        out = self.folder / f"{len(self.processes) - 1}.out"

        def address() -> str | None:
            assert process.returncode is None, self.log
            found = re.search(r"Microsub server on (https?://\S+)", out.read_text())
            return found[1] if found and "try " in out.read_text() else None

        url: str = await wait_until(address)
        return url

    async def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command to its end: exit code, standard output, standard error."""
        return await self._output("microsub", arguments)

    async def run_each(self, *commands: str) -> list[str]:
        """Run several commands in one process, and return the output of each. They must succeed.

        For the setup of a test.
        """
        code, out, err = await self._output(__name__, commands)
        assert code == 0, err
        printed: list[str] = json.loads(out)
        return printed

    async def token(self, user: str, *flags: str) -> str:
        code, out, err = await self.run("token", "create", user, *flags)
        assert code == 0, err
        return out.strip()

    async def stop(self, number: int = signal.SIGTERM) -> None:
        """End all processes and wait for them."""
        for process in self.processes:
            if process.returncode is None:
                process.send_signal(number)
        for process in self.processes:
            await asyncio.wait_for(process.wait(), PATIENCE)


@asynccontextmanager
async def installation(
    folder: Path, document: Mapping[str, Any], *, program: tuple[str, ...] = (), **environ: str
) -> AsyncIterator[Installation]:
    """A new installation; all its processes are stopped at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Installation(folder, environ, program)
    made.write(document)
    try:
        yield made
    finally:
        await made.stop()


@asynccontextmanager
async def reader(url: str, token: str) -> AsyncIterator[Reader]:
    """A reader app for the server at `url`."""
    async with httpx.AsyncClient(timeout=60) as http:
        yield Reader("", token, http, f"{url}/microsub")


def _each(commands: Sequence[str]) -> list[str]:
    """Run these commands in this process; the output of each."""
    from microsub.cli import main

    printed = []
    for command in commands:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            main(command.split(), standalone_mode=False)
        printed.append(out.getvalue())
    return printed


if __name__ == "__main__":
    print(json.dumps(_each(sys.argv[1:])))


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
    """Kill all processes in `folder` or started meanwhile when the block or this process ends. Linux only."""
    guard = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _GUARD, str(folder), _MARK], stdin=subprocess.PIPE, start_new_session=True
    )
    os.environ[_MARK] = str(folder)
    try:
        yield
    finally:
        del os.environ[_MARK]
        guard.communicate()
