"""A process that does nothing but parse: what is large or full of markup is read there, with an end in time and memory.

A thread can't be ended, and ten megabytes of empty elements keep one busy for minutes and take a gigabyte. A process
can be, and gives all its memory back. It knows nothing but the documents: no settings, no Redis, no environment.

The child says with one byte that it is ready. Then they exchange pickles, each behind its length: (task, arguments,
length of the body) and the bare body one way; the result, why there is none, and the bytes that the child holds, the
other.
"""

from __future__ import annotations

import io
import os
import pickle
import resource
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

from microsub.errors import ParseError, ParsingStopped
from microsub.formats.discovery import better_feeds, discover
from microsub.formats.parse import parse
from microsub.formats.rereading import reread

MEMORY = 512 * 1024 * 1024
"""Bytes of address space that one document may take on top of what the process needs to live."""

TASKS: Mapping[str, Callable[..., Any]] = {
    "parse": parse,
    "reread": reread,
    "discover": discover,
    "better_feeds": better_feeds,
}
"""What can be done with a document: functions of its body, its address, and what else they ask for."""

_READY = b"\n"
_LENGTH = struct.Struct(">Q")
_LARGEST_REPLY = 64 * 1024 * 1024
_ROOT = Path(__file__).resolve().parents[2]


class ProcessEnded(Exception):
    """The process isn't there any more: it was ended from outside, or by the document."""


class ParserProcess:
    """The parent's hold on one such process; calls block, so they are made in threads. So does beginning one, until the
    process is ready: no document pays for that with its time. Raises ProcessEnded when it never is.

    `resident` is how many bytes it held after its last document; `answered` is false while it is busy, and after a
    document that it never answered.
    """

    def __init__(self, memory: int = MEMORY) -> None:
        self.resident = 0
        self.answered = True
        self._process = subprocess.Popen(  # noqa: S603 - this very module
            [sys.executable, "-P", "-m", __name__, str(memory)],
            env={"PYTHONPATH": str(_ROOT), "PATH": os.defpath},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C at a terminal is the parent's to handle; what niceness it has counts here too
        )
        assert self._process.stdout is not None
        try:
            _exactly(self._process.stdout, len(_READY))
        except ProcessEnded:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def run(self, task: str, body: bytes, url: str, *others: str | bytes | None) -> Any:
        """The result of one of `TASKS`. Raises ParseError as that does, and ProcessEnded when the process has."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.answered = False
        try:
            for part in (*_framed(pickle.dumps((task, (url, *others), len(body)))), body):
                self._process.stdin.write(part)
            self._process.stdin.flush()
            (size,) = _LENGTH.unpack(_exactly(self._process.stdout, _LENGTH.size))
            if size > _LARGEST_REPLY:
                raise ProcessEnded
            reply = _exactly(self._process.stdout, size)
        except (OSError, ValueError):
            raise ProcessEnded from None
        self.answered = True
        found, failure, self.resident = pickle.loads(reply)  # noqa: S301 - our own code wrote it
        if failure is not None:
            detail, stopped = failure
            raise (ParsingStopped if stopped else ParseError)(url, detail)
        return found

    def kill(self) -> None:
        """End it, whatever it does; a call in another thread then raises ProcessEnded."""
        self._process.kill()

    def close(self) -> None:
        """End it and give back what the system holds of it. Not while a call is under way."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def _exactly(source: IO[bytes], size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise ProcessEnded
    return data


def _framed(data: bytes) -> tuple[bytes, bytes]:
    return _LENGTH.pack(len(data)), data


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Do what is asked until the parent closes the pipe."""
    while len(head := source.read(_LENGTH.size)) == _LENGTH.size:
        task, others, size = pickle.loads(source.read(_LENGTH.unpack(head)[0]))  # noqa: S301 - the parent wrote it
        for part in _framed(pickle.dumps((*_outcome(task, source, size, others), _resident()))):
            sink.write(part)
        sink.flush()


def _outcome(task: str, source: BinaryIO, size: int, others: tuple[Any, ...]) -> tuple[Any, tuple[str, bool] | None]:
    """The result, or what a ParseError says and whether it is for want of memory."""
    too_much = ("reading it takes too much memory", True)
    try:
        # The body has no name here, so that it can go as soon as its text is there.
        return TASKS[task](source.read(size), *others), None
    except ParseError as error:
        return None, too_much if isinstance(error.__cause__, MemoryError) else (error.detail, False)
    except MemoryError:
        return None, too_much


def _resident() -> int:
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    return 0


def _limit_memory(extra: int) -> None:
    """Let the address space grow by `extra` bytes at most. Where the system has no such limit, time alone limits."""
    with suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + extra
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Run the child: documents from standard input, results to standard output."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing that a library prints gets between the replies
    _limit_memory(int(sys.argv[1]))
    sink.write(_READY)
    sink.flush()
    with suppress(BrokenPipeError, KeyboardInterrupt):
        serve(io.BufferedReader(io.FileIO(0)), sink)


if __name__ == "__main__":
    main()
