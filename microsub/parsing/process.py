"""A process that parses foreign documents, with limits of processor time and memory.

A thread can't be ended, and a few kilobytes of markup can keep a parser busy for minutes. A process can be ended, and
then returns all its memory. It has no access to settings, Redis or the environment, only to the documents.

The child loads the functions of its tasks, and writes one byte when it is ready. After that, both sides exchange JSON,
which can't run code. The parent sends the task's name, followed by the bare body; the child replies with the outcome
and the result. The system ends a child that uses more processor time than a document may have (`ITIMER_PROF`), whatever
it is doing and however busy the machine is. The parent ends a child that hasn't replied after a much longer real time.
"""

from __future__ import annotations

import io
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import orjson

from microsub import parsing  # pydantic is loaded with the first result, and never by the child
from microsub.base.errors import ParseError, ParsingStopped
from microsub.parsing.task import AnyTask, bytes_among, result_of

MEMORY = 512 * 1024 * 1024
"""Bytes of address space that one document may use, in addition to what the process itself needs."""

PATIENCE = 20.0
"""Seconds of real time for each second of processor time that a document may use, and at least `_LEAST_PATIENCE`: if
that isn't enough, the machine is broken.
"""

_LEAST_PATIENCE = 60.0
_START = 300.0
"""Seconds of real time for loading all tasks: a second or two of processor time, of which a machine with twenty busy
programs leaves little for niceness. An attempt that is given up too early has to be made again, and none would succeed.
"""
_READY = b"\n"
_HEAD = struct.Struct(">QQ")
_LARGEST_REPLY = 32 * 1024 * 1024
_LONGEST_DETAIL = 2000
_ROOT = Path(__file__).resolve().parents[2]
_NICENESS = 5
"""Minimum niceness: requests of readers have priority over documents."""


# --- values -------------------------------------------------------------------------------------------------------
#
# Frozen dataclasses as JSON, and back by their types: reading creates only such values and runs no code.


def dumps(value: Any) -> bytes:
    """Encode `value` as JSON: dataclasses as objects, datetimes in ISO 8601, bytes in base64.

    Lone surrogates, which have no UTF-8 form, become U+FFFD.
    """
    try:
        return orjson.dumps(value, default=_plain)
    except orjson.JSONEncodeError:
        return orjson.dumps(_whole(value), default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, frozenset):
        return list(value)
    raise TypeError(f"can't write {type(value)} as JSON")


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _whole(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {_whole(key): _whole(each) for key, each in value.items()}
    if isinstance(value, list | tuple | frozenset):
        return [_whole(each) for each in value]
    return value


# --- the parent's side --------------------------------------------------------------------------------------------


class ProcessEnded(Exception):
    """The process has ended: it was ended from outside, or crashed by the document."""


class OutOfTime(ProcessEnded):
    """The process was ended because the document exceeded its time limit."""


class Done(NamedTuple):
    """How a task ended: its result or `failure`, and the processor `seconds` it took."""

    value: Any
    failure: ParseError | None
    seconds: float


_Outcome = tuple[str | None, bool, float, int]
"""How a task ended: why there is no result, and whether that is a lack of memory; the processor time it took in
seconds; the process's present bytes of memory.
"""


class ParserProcess:
    """The parent's handle of a parser process; calls block, so make them in threads.

    It carries out `tasks` alone. The constructor also blocks until the process is ready, so that no document's time is
    spent on it. Raises OSError if it doesn't start. `resident` is the process's memory in bytes after its last
    document.
    """

    def __init__(self, tasks: Iterable[AnyTask], memory: int = MEMORY) -> None:
        self.resident = 0
        self._socket, other = socket.socketpair()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this very module
                [sys.executable, "-P", "-m", __name__, str(memory), *(task.name for task in tasks)],
                env={"PYTHONPATH": str(_ROOT), "PATH": os.defpath},
                stdin=other.fileno(),
                stdout=other.fileno(),
                stderr=subprocess.DEVNULL,
                process_group=0,  # the parent handles Ctrl-C at a terminal
            )
        except OSError:
            self._socket.close()
            raise
        finally:
            other.close()
        try:
            self._receive(len(_READY), time.monotonic() + _START)
        except (ProcessEnded, OSError) as error:
            self.close()
            why = f"wasn't ready after {_START:g} s" if isinstance(error, TimeoutError) else "ended before it was ready"
            raise OSError(f"the process for parsing documents {why}") from None

    @property
    def pid(self) -> int:
        """The process id."""
        pid: int = self._process.pid
        return pid

    def run(self, task: AnyTask, body: bytes, arguments: tuple[Any, ...], *, seconds: float, where: str) -> Done:
        """Run one of its tasks, which may use `seconds` of processor time.

        `where` is the document's address, for its failure. Raises OutOfTime and ProcessEnded if the process has
        ended.
        """
        until = time.monotonic() + max(PATIENCE * seconds, _LEAST_PATIENCE)
        head = dumps((task.name, seconds, arguments))
        try:
            self._send(_HEAD.pack(len(head), len(body)) + head, until)
            self._send(body, until)
            sizes = _HEAD.unpack(self._receive(_HEAD.size, until))
            outcome, data = (self._receive(size, until) for size in sizes if sum(sizes) <= _LARGEST_REPLY)
            said: _Outcome = parsing.reader(_Outcome)(outcome)
            failure, stopped, spent, self.resident = said
            if failure is not None:
                kind = ParsingStopped if stopped else ParseError
                return Done(None, kind(where, failure[:_LONGEST_DETAIL]), spent)
            return Done(parsing.reader(result_of(task.do))(data), None, spent)
        except TimeoutError:
            raise OutOfTime from None
        except (ProcessEnded, OSError, ValueError) as error:
            self.kill()
            ended = OutOfTime if self._process.wait() == -signal.SIGPROF else ProcessEnded
            raise ended(str(error)) from None

    def kill(self) -> None:
        """End the process at once; a call in another thread then raises ProcessEnded."""
        self._process.kill()

    def close(self) -> None:
        """End the process and free its resources. Must not be called during another call."""
        self._process.kill()
        self._process.wait()
        self._socket.close()

    def _send(self, data: bytes, until: float) -> None:
        self._socket.settimeout(_left(until))
        self._socket.sendall(data)

    def _receive(self, size: int, until: float) -> bytearray:
        data = bytearray(size)
        rest = memoryview(data)
        while rest:
            self._socket.settimeout(_left(until))
            got = self._socket.recv_into(rest)
            if not got:
                raise ProcessEnded
            rest = rest[got:]
        return data


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


# --- the child's side ---------------------------------------------------------------------------------------------


def _function(name: str) -> tuple[Callable[..., Any], tuple[bool, ...]]:
    """The function of the task with that name (`Task.name`), and which of the arguments after the body are bytes."""
    module, _, function = name.partition(":")
    do = getattr(import_module(module), function)
    return do, bytes_among(do)


def serve(
    functions: Mapping[str, tuple[Callable[..., Any], tuple[bool, ...]]], source: BinaryIO, sink: BinaryIO
) -> None:
    """Carry out tasks until the parent closes its end."""
    while len(head := source.read(_HEAD.size)) == _HEAD.size:
        length, size = _HEAD.unpack(head)
        name, seconds, arguments = orjson.loads(source.read(length))
        (do, takes_bytes), before = functions[name], time.process_time()
        signal.setitimer(signal.ITIMER_PROF, seconds)
        given = [
            b64decode(one) if is_bytes and one is not None else one
            for is_bytes, one in zip(takes_bytes, arguments, strict=False)
        ]
        data, failure, stopped = _outcome(do, source, size, given)
        signal.setitimer(signal.ITIMER_PROF, 0)
        outcome = dumps((failure, stopped, time.process_time() - before, _resident()))
        for part in (_HEAD.pack(len(outcome), len(data)), outcome, data):
            sink.write(part)
        sink.flush()


def _outcome(
    do: Callable[..., Any], source: BinaryIO, size: int, arguments: list[Any]
) -> tuple[bytes, str | None, bool]:
    """The result as JSON, or the reason why there is none, and whether that is a lack of memory."""
    too_much = (b"", "parsing it takes too much memory", True)
    try:
        # The body isn't stored in a variable here, so that its memory is freed once it is decoded.
        data = dumps(do(source.read(size), *arguments))
    except ParseError as error:
        return too_much if isinstance(error.__cause__, MemoryError) else (b"", error.detail[:_LONGEST_DETAIL], False)
    except MemoryError:
        return too_much
    except Exception as error:  # the underlying parsers can raise anything on hostile documents
        return b"", f"the document can't be read ({type(error).__name__})", False
    return too_much if len(data) > _LARGEST_REPLY // 2 else (data, None, False)


def _resident() -> int:
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    return 0


def _limit_memory(extra: int) -> None:
    """Let the address space grow by at most `extra` bytes, if the system supports such a limit."""
    with suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + extra
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Run the child: documents from standard input, results to standard output."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output that a library prints must not mix with the replies
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})
    functions = {name: _function(name) for name in sys.argv[2:]}
    os.nice(max(0, _NICENESS - os.nice(0)))  # from the first document on, which waits for the start
    _limit_memory(int(sys.argv[1]))
    sink.write(_READY)
    sink.flush()
    with suppress(BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        serve(functions, io.BufferedReader(io.FileIO(0)), sink)


if __name__ == "__main__":
    main()
