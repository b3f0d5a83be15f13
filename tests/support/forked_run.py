"""Runs test files side by side, in processes that are forked from one that has collected all tests.

The plugin xdist collects in each process, which takes eight seconds of processor time.
`-n 3` sets the number of processes, `-n 0` runs all tests in the one that has collected them, for a debugger.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, NoReturn

import pytest

NUMBER, COUNT = "TEST_PROCESS", "TEST_PROCESSES"
"""The environment variables with the number of this process, from 0 on, and the number of all; absent with `-n 0`."""
_SIZE = 4
"""Bytes of a file's number in the pipe from which the processes take the next file."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option `-n`, whose short name pytest reserves for itself."""
    group = parser.getgroup("processes")
    group._addoption("-n", dest="processes", default="auto", help="number of test processes; 0 is this one")


def processes(wanted: str) -> int:
    """The number of test processes. Tests spend a part of their time waiting, so it is more than there are cores."""
    return min(3 * (os.cpu_count() or 1), 7) if wanted == "auto" else int(wanted)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run all files in several processes, in the order in which they were collected; None leaves it to pytest."""
    options = session.config.option
    files = [list(items) for _, items in groupby(session.items, lambda item: item.nodeid.partition("::")[0])]
    count = min(processes(options.processes), len(files))
    if count < 2 or session.testsfailed or options.collectonly or options.usepdb:
        return None
    queue, feed = os.pipe()
    os.write(feed, b"".join(number.to_bytes(_SIZE, "big") for number in range(len(files))))
    os.close(feed)
    folder = session.config._tmp_path_factory  # type: ignore[attr-defined]
    folders = [folder.mktemp(f"p{number}", numbered=False) for number in range(count)]
    os.environ[COUNT] = str(count)
    alive, held = os.pipe()
    links: dict[Connection, int] = {}
    for number in range(count):
        link, end = Pipe(duplex=False)
        sys.stdout.flush()
        sys.stderr.flush()
        if not (pid := os.fork()):
            os.close(held)
            for other in (link, *links):
                other.close()
            os.environ[NUMBER] = str(number)
            threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
            _work(session, files, queue, end, folders[number])
        end.close()
        links[link] = pid
    os.close(queue)
    os.close(alive)
    _show(session, links)
    os.close(held)
    return True


def _show(session: pytest.Session, links: dict[Connection, int]) -> None:
    """Report what the processes report, until all have ended."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        terminal.showfspath = False
    hook, running = session.config.hook, dict.fromkeys(links, "no test")
    try:
        while running:
            for link in wait(list(running)):
                assert isinstance(link, Connection)
                try:
                    kind, *what = link.recv()
                except EOFError:
                    session.shouldfail = f"a test process ended while it ran {running[link]}"
                    raise session.Failed(session.shouldfail) from None
                match kind:
                    case "begins":
                        hook.pytest_runtest_logstart(nodeid=what[0], location=what[1])
                        running[link] = what[0]
                    case "report":
                        hook.pytest_runtest_logreport(
                            report=hook.pytest_report_from_serializable(config=session.config, data=what[0])
                        )
                    case "warning":
                        text, category, file, line, when, nodeid, location = what
                        message = warnings.WarningMessage(Warning(text), category, file, line)
                        hook.pytest_warning_recorded.call_historic(
                            kwargs={"warning_message": message, "when": when, "nodeid": nodeid, "location": location}
                        )
                    case "ends":
                        del running[link]
                        os.waitpid(links.pop(link), 0)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)
    finally:
        for pid in links.values():
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)


def _end_with(alive: int) -> None:
    """End this process when the one that holds the other end of the pipe has ended, even if it was killed."""
    os.read(alive, 1)
    os._exit(1)


def _work(
    session: pytest.Session, files: Sequence[list[pytest.Item]], queue: int, end: Connection, folder: Path
) -> NoReturn:
    """Run files until there are no more. Ends this process."""
    try:
        manager = session.config.pluginmanager
        if capture := manager.get_plugin("capturemanager"):
            capture.stop_global_capturing()  # whose files are shared with the other processes
            capture.start_global_capturing()
            capture.suspend_global_capture()
        if terminal := manager.unregister(name="terminalreporter"):
            manager.register(_Silent(terminal._tw), "terminalreporter")
        manager.register(_Teller(session.config, end))
        session.config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
        items = _taken(files, queue)
        item = next(items, None)
        while item is not None:
            following = next(items, None)
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            item = following
        end.send(("ends",))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    # Like the interpreter, but without destroying all modules, which would copy the memory that processes share.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    os._exit(0)


def _taken(files: Sequence[list[pytest.Item]], queue: int) -> Iterator[pytest.Item]:
    """The tests of the files that this process takes, each when the test before it begins."""
    while number := os.read(queue, _SIZE):
        yield from files[int.from_bytes(number, "big")]


class _Silent:
    """Stands for the terminal in a test process: pytest-timeout writes to it."""

    def __init__(self, writer: Any) -> None:
        self._tw = writer


class _Teller:
    """Sends each event to the process that reports it."""

    def __init__(self, config: pytest.Config, end: Connection) -> None:
        self._config = config
        self._end = end

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._end.send(("begins", nodeid, location))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook
        self._end.send(("report", hook.pytest_report_to_serializable(config=self._config, report=report)))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        one = warning_message
        said = (str(one.message), one.category, one.filename, one.lineno, when, nodeid, location)
        self._end.send(("warning", *said))
