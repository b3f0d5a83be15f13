"""Processes of the product, forked from one that has loaded it: starting Python and importing it takes a second each.

A fork server has no threads and has only imported modules. A child gets its own arguments, environment, files and
session, and runs a module as `python -m` does. A server's worker and its parser processes are forked in the same way.

`python fork_server.py SOCKET MODULE ARGUMENTS…` lets a running fork server run a module.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence

TYPE_CHECKING = False  # a process that only uses a fork server imports little
if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO, Any, ClassVar, NoReturn

COUNTED = "COVERAGE_PROCESS_CONFIG" in os.environ
"""Whether coverage is measured: `make coverage`."""


class Process:
    """A running program. `poll` returns its exit code, the negative number of the signal that ended it, or None."""

    def __init__(self, pid: int, poll: Callable[[], int | None]) -> None:
        self.pid = pid
        self.poll = poll

    @property
    def returncode(self) -> int | None:
        """The current exit code."""
        return self.poll()

    async def wait(self) -> int:
        """Wait for the exit code."""
        import asyncio

        pause = 0.002
        while (code := self.poll()) is None:
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, 0.03)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal. Raises ProcessLookupError if the process has ended."""
        if self.poll() is not None:
            raise ProcessLookupError(self.pid)
        os.kill(self.pid, number)

    def end(self, seconds: float) -> None:
        """Terminate the process, outside of an event loop; kill it if it runs longer than `seconds`."""
        until = time.monotonic() + seconds
        if self.poll() is None:
            self.terminate()
        while self.poll() is None:
            if time.monotonic() > until:
                self.kill()
            time.sleep(0.01)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def started(arguments: Sequence[str], environment: Mapping[str, str], stdout: IO[bytes], stderr: IO[bytes]) -> Process:
    """Start Python with these arguments in the usual way."""
    import subprocess

    child = subprocess.Popen([sys.executable, *arguments], env=environment, stdout=stdout, stderr=stderr)
    return Process(child.pid, child.poll)


def forked(
    address: str, module: str, arguments: Sequence[str], environment: Mapping[str, str], files: Sequence[int]
) -> Process:
    """Run `python -m module arguments…` with the fork server at this address; `files` are the standard files."""
    link = socket.socket(socket.AF_UNIX)
    link.connect(address)
    request = {"module": module, "arguments": list(arguments), "environment": dict(environment), "folder": os.getcwd()}
    body = json.dumps(request).encode()
    socket.send_fds(link, [len(body).to_bytes(4, "big")], files)
    link.sendall(body)
    started = _line(link)
    assert started, "the fork server of the tests has ended"
    return Process(int(started), _Ending(link).poll)


class _Ending:
    """The exit code of a forked process, as reported by the fork server."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None and select.select([self._link], [], [], 0)[0]:
            # At the end of a test process the server may end first; its processes end with it.
            self._code = int(_line(self._link) or -signal.SIGKILL)
            self._link.close()
        return self._code


def _line(link: socket.socket) -> bytes:
    """The next line, or nothing if the server has ended."""
    said = b""
    while not said.endswith(b"\n"):
        byte = link.recv(1)
        if not byte:
            return b""
        said += byte
    return said


class ForkServer:
    """The fork server of this process; it ends with the process."""

    def __init__(self, folder: Path) -> None:
        import subprocess

        self.address = str(folder / "fork")
        self._server = subprocess.Popen(
            [sys.executable, "-m", __name__, self.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._server.stdout is not None
        assert self._server.stdout.readline() == b"ready\n"

    def start(
        self, module: str, arguments: Sequence[str], environment: Mapping[str, str], out: IO[bytes], err: IO[bytes]
    ) -> Process:
        """Run `python -m module arguments…` with an empty standard input."""
        with open(os.devnull, "rb") as nothing:
            files = [nothing.fileno(), out.fileno(), err.fileno()]
            return forked(self.address, module, arguments, environment, files)

    def close(self) -> None:
        self._server.communicate()


_servers: dict[int, ForkServer] = {}


def fork_server() -> ForkServer:
    """The fork server of this process, started at the first call."""
    if os.getpid() not in _servers:
        import atexit
        import shutil
        import tempfile
        from pathlib import Path

        # From Python 3.13 on, a child of multiprocessing drops its exit handlers, and with them would end the last
        # reference to a `TemporaryDirectory`, which is deleted then.
        folder = Path(tempfile.mkdtemp(prefix="fork-"))
        made = _servers[os.getpid()] = ForkServer(folder)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        atexit.register(made.close)
    return _servers[os.getpid()]


def has_fork_server() -> bool:
    """Whether the fork server of this process has been started."""
    return os.getpid() in _servers


# --- the server's side -----------------------------------------------------------------------------------------------


def _load() -> None:
    import gc
    import importlib
    import pkgutil

    import microsub
    from tests.support.compiled_templates import keep_compiled

    keep_compiled()
    found = [each.name for each in pkgutil.walk_packages(microsub.__path__, "microsub.")]
    loaded_by_name = ("uvicorn.lifespan.on", "uvicorn.logging", "uvicorn.protocols.http.auto", "uvloop")
    for name in ("microsub.cli", *found, *loaded_by_name):
        if not name.endswith(("__main__", "_process")):
            importlib.import_module(name)
    _make_readers()
    gc.collect()
    gc.freeze()


def _make_readers() -> None:
    """Make the readers of backend.json and of parsed documents, which take as long as the rest of a forked start."""
    from microsub import parsing
    from microsub.configuration import shape
    from microsub.parsing.task import result_of
    from microsub.server.parsers import TASKS

    shape.adapter()
    for task in TASKS:
        parsing.reader(result_of(task.do))


def _serve(listener: socket.socket) -> dict[str, Any]:
    """Fork until the standard input ends. Returns in each child, with its request."""
    links: dict[int, socket.socket] = {}
    wake, woken = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    while True:
        ready = select.select([0, wake, listener], [], [])[0]
        if wake in ready:
            os.read(wake, 4096)
            _reap(links)
        if 0 in ready:  # a test run that was killed ends nothing by itself
            for running in links:
                os.kill(running, signal.SIGTERM)
            os._exit(0)
        if listener not in ready:
            continue
        link, _ = listener.accept()
        head, files, *_ = socket.recv_fds(link, 4, 3)
        body, size = b"", int.from_bytes(head, "big")
        while len(body) < size and (more := link.recv(size - len(body))):
            body += more
        # Processes that ask are killed at any moment. Without its whole request there is nothing to run.
        pid = os.fork() if body and len(body) == size else -1
        if pid:
            links[pid] = link
            with contextlib.suppress(OSError):  # it was killed while it waited
                link.sendall(b"%d\n" % pid)
            for file in files:
                os.close(file)
            if pid < 0:
                links.pop(pid).close()
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        for number, file in enumerate(files):
            os.dup2(file, number)
        for open_here in (*files, wake, woken):
            os.close(open_here)
        for connected in (listener, link, *links.values()):
            connected.close()
        request: dict[str, Any] = json.loads(body)
        return request


def _reap(links: dict[int, socket.socket]) -> None:
    while links:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with links.pop(pid) as link:
            try:
                link.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
            except OSError:  # nobody waits for it any more
                continue


def _run(request: dict[str, Any], address: str) -> None:
    import runpy

    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    time.tzset()
    _count_for_others()
    _fork_beside(address)
    fork_parsers(lambda: address)
    _stay_urgent()
    if COUNTED and request["module"] == "microsub.parsing.process":
        signal.signal(signal.SIGTERM, _save_and_die)
    sys.argv[1:] = request["arguments"]
    sys.modules.pop(request["module"], None)
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


def _leave(code: int) -> NoReturn:
    """End like the interpreter, but without destroying all modules, which would copy the memory that a fork shares and
    take longer than most commands.
    """
    import atexit
    import threading

    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _count_for_others() -> None:
    """Make the metrics library count in files for other processes, which it decides when it is imported."""
    from prometheus_client import REGISTRY, values

    from microsub.base.metrics import FOLDER_VARIABLE

    if FOLDER_VARIABLE in os.environ:
        values.ValueClass = values.get_value_class()
        for metric in REGISTRY._collector_to_names:
            if hasattr(metric, "_metric_init") and metric._is_observable():
                metric._metric_init()


def _stay_urgent() -> None:
    """Keep a worker at normal priority: among test processes it would hardly run, while its test polls for results."""
    os.nice = lambda _by: 0  # type: ignore[assignment]
    os.getsid = lambda _process: 0  # type: ignore[assignment]  # nor has it a session to say it for


def _fork_beside(address: str) -> None:
    """Let a server's worker be forked too."""
    import asyncio

    async def fork(_python: str, _m: str, module: str, *, env: dict[str, str], **_files: Any) -> Process:
        end, held = os.pipe()
        with open(end, "rb") as parent, open(os.devnull, "wb") as nothing:
            process = forked(address, module, (), env, [parent.fileno(), nothing.fileno(), 2])
        process.stdin = os.fdopen(held, "wb", buffering=0)  # type: ignore[attr-defined]  # it ends with us
        return process

    asyncio.create_subprocess_exec = fork  # type: ignore[assignment]


def fork_parsers(address: Callable[[], str | None]) -> None:
    """Let parser processes be forked too, by the fork server at that address; without one they are started."""
    import subprocess
    from types import SimpleNamespace

    from microsub.parsing import process

    made = CountedParser if COUNTED else _Parser

    def fork(arguments: Sequence[str], *, env: dict[str, str], stdin: int, stdout: int, **others: Any) -> Any:
        at = address()
        if at is None:
            return subprocess.Popen(arguments, env=env, stdin=stdin, stdout=stdout, **others)
        with open(os.devnull, "wb") as nothing:
            return made(forked(at, process.__name__, arguments[4:], env, [stdin, stdout, nothing.fileno()]))

    process.subprocess = SimpleNamespace(Popen=fork, DEVNULL=subprocess.DEVNULL)  # type: ignore[assignment]


class _Parser:
    """The part of `subprocess.Popen` that the product uses for a parser process; thread-safe."""

    def __init__(self, process: Process) -> None:
        import threading

        self.pid = process.pid
        self._poll = process.poll
        self._one = threading.Lock()

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def wait(self, _seconds: float | None = None) -> int:
        while True:
            with self._one:
                code = self._poll()
            if code is not None:
                return code
            time.sleep(0.002)

    def _send(self, number: int) -> None:
        with self._one, contextlib.suppress(ProcessLookupError):  # it has ended, but its exit code wasn't read yet
            if self._poll() is None:
                os.kill(self.pid, number)


class CountedParser(_Parser):
    """A parser process that saves its coverage data before it is killed, unless it is too busy."""

    begun: ClassVar[list[CountedParser]] = []

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self.begun.append(self)

    def kill(self) -> None:
        import threading

        self._send(signal.SIGTERM)
        late = threading.Timer(5, self._send, [signal.SIGKILL])
        late.daemon = True
        late.start()


def _save_and_die(_number: int, _frame: object) -> None:
    """Save the coverage data, then end as if killed."""
    from coverage import Coverage

    current = Coverage.current()
    assert current is not None
    current.save()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        _process = forked(sys.argv[1], sys.argv[2], sys.argv[3:], os.environ, [0, 1, 2])
        while (_code := _process.poll()) is None:
            time.sleep(0.005)
        sys.exit(_code)
    with socket.socket(socket.AF_UNIX) as _listener:
        _listener.bind(sys.argv[1])
        _listener.listen(64)
        _load()
        print("ready", flush=True)
        _todo = _serve(_listener)
    try:
        _run(_todo, sys.argv[1])
    except SystemExit as _end:
        if _end.code is not None and not isinstance(_end.code, int):
            raise
        _leave(_end.code or 0)
    _leave(0)
