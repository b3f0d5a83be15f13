"""A process that reads foreign documents, with limits in processor time and memory.

A thread can't be ended, and some kilobytes of markup keep a parser busy for minutes. A process can be, and gives all
its memory back. It knows nothing but the documents: no settings, no Redis, no environment.

The child says with one byte that it is ready. Then they exchange JSON, which can't run code on either side:
what to do, behind it the bare body, one way; how it ended and the result the other. The system ends a child that uses
more processor time than a document may have (`ITIMER_PROF`), whatever it is doing and however busy the machine is; the
parent ends one that hasn't answered after a much longer time of the clock.
"""

from __future__ import annotations

import functools
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
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO, get_args, get_type_hints

import orjson

from microsub.errors import ParseError, ParsingStopped

MEMORY = 512 * 1024 * 1024
"""Bytes of address space that one document may take on top of what the process needs to live."""

PATIENCE = 20.0
"""Seconds of the clock for each second of processor time that a document may use, and at least `_LEAST_PATIENCE`: a
machine that is so busy is out of order.
"""

_LEAST_PATIENCE = 60.0
_START = 60.0
_READY = b"\n"
_HEAD = struct.Struct(">QQ")
_LARGEST_REPLY = 32 * 1024 * 1024
_LONGEST_DETAIL = 2000
_ROOT = Path(__file__).resolve().parents[2]
_NICENESS = 5
"""At least: readers come before documents."""


# --- values -------------------------------------------------------------------------------------------------------
#
# Values of frozen dataclasses as JSON, and back by their types: reading it makes such values and runs no code.


def dumps(value: Any) -> bytes:
    """`value` as JSON: dataclasses as objects, datetimes in ISO 8601, bytes in base64.

    Halves of surrogate pairs, which have no UTF-8 form, become U+FFFD.
    """
    try:
        return orjson.dumps(value, default=_plain)
    except orjson.JSONEncodeError:
        return orjson.dumps(_whole(value), default=_plain)


@functools.cache
def reader(hint: Any) -> Callable[[bytes | bytearray], Any]:
    """A function that reads JSON as a value of that type; ValueError for any other JSON."""
    from pydantic import ConfigDict, TypeAdapter  # what only asks for documents doesn't need it, nor does the child

    # Only a type around others may say how these are read.
    adapter = TypeAdapter(list[hint], config=ConfigDict(strict=True, extra="forbid", val_json_bytes="base64"))
    return lambda data: adapter.validate_json(b"".join((b"[", data, b"]")))[0]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, frozenset):
        return list(value)
    raise TypeError(f"no rule writes {type(value)}")


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


# --- tasks --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Task:
    """Something to do with a document: a function of its body and other arguments.

    `takes_bytes` tells which of these are bytes; `result` is the type of what it returns.
    """

    do: Callable[..., Any]
    takes_bytes: tuple[bool, ...]
    result: Any

    @classmethod
    def of(cls, do: Callable[..., Any]) -> Task:
        """The task that a function with annotations is."""
        hints = get_type_hints(do)
        result = hints.pop("return")
        taken = (hint for name, hint in hints.items() if name != "body")
        return cls(do, tuple(hint is bytes or bytes in get_args(hint) for hint in taken), result)


@functools.cache
def tasks() -> Mapping[str, Task]:
    """All that is done with foreign documents.

    The parsers are loaded here: the child does so before it says that it is ready, its parent with the first result,
    which a command that has yet to fetch a document needn't wait for.
    """
    from microsub.discovery.feedlinks import profile_in
    from microsub.discovery.links import better_feeds, discover, forwarded
    from microsub.ekster import old_post
    from microsub.formats.hfeed import posted_entry
    from microsub.formats.parse import parse
    from microsub.formats.references import author_on, target_on
    from microsub.formats.xml import syndication  # noqa: F401 - which `parse` loads with its first document otherwise
    from microsub.identity.protocol.clients import read_client
    from microsub.identity.protocol.links import examined, profile_links
    from microsub.posts.entries import posts_in
    from microsub.transfer.foreign_posts import exported_posts, posts_of_reader
    from microsub.transfer.outlines import read_list
    from microsub.webmention.source import mention_in

    done = (
        *(parse, posts_in, discover, better_feeds, forwarded, profile_in),
        *(
            author_on,
            target_on,
            profile_links,
            read_client,
            examined,
            old_post,
            read_list,
            exported_posts,
            posts_of_reader,
            mention_in,
            posted_entry,
        ),
    )
    return {do.__name__: Task.of(do) for do in done}


# --- the parent's side --------------------------------------------------------------------------------------------


class ProcessEnded(Exception):
    """The process isn't there any more: it was ended from outside, or by the document."""


class OutOfTime(ProcessEnded):
    """It was ended because the document took more time than it may."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """How a document ended.

    `failure` says why there is no result, `stopped` that this was for want of memory; the `seconds` of processor time
    that it took, and the bytes that the process holds now.
    """

    failure: str | None
    stopped: bool
    seconds: float
    resident: int


@dataclass(frozen=True, slots=True)
class Done:
    """How a task ended: its result or `failure`, and the processor `seconds` that it took."""

    value: Any
    failure: ParseError | None
    seconds: float


class ParserProcess:
    """The parent's hold on one such process; calls block, so they are made in threads.

    So does beginning one, until the process is ready: no document pays for that with its time. Raises OSError when it
    never is. `resident` is how many bytes it held after its last document.
    """

    def __init__(self, memory: int = MEMORY) -> None:
        self.resident = 0
        self._socket, other = socket.socketpair()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this very module
                [sys.executable, "-P", "-m", __name__, str(memory)],
                env={"PYTHONPATH": str(_ROOT), "PATH": os.defpath},
                stdin=other.fileno(),
                stdout=other.fileno(),
                stderr=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C at a terminal is the parent's to handle
            )
        except OSError:
            self._socket.close()
            raise
        finally:
            other.close()
        try:
            self._receive(len(_READY), time.monotonic() + _START)
        except (ProcessEnded, OSError):
            self.close()
            raise OSError("the process for parsing documents didn't start") from None

    @property
    def pid(self) -> int:
        """Its number."""
        pid: int = self._process.pid
        return pid

    def run(self, task: str, body: bytes, arguments: tuple[Any, ...], *, seconds: float, where: str) -> Done:
        """What came of one of `tasks`, which may use so many `seconds` of processor time.

        `where` is the document's address, for its failure. Raises OutOfTime and ProcessEnded when the process has
        ended.
        """
        until = time.monotonic() + max(PATIENCE * seconds, _LEAST_PATIENCE)
        head = dumps((task, seconds, arguments))
        try:
            self._send(_HEAD.pack(len(head), len(body)) + head, until)
            self._send(body, until)
            sizes = _HEAD.unpack(self._receive(_HEAD.size, until))
            outcome, data = (self._receive(size, until) for size in sizes if sum(sizes) <= _LARGEST_REPLY)
            said: _Outcome = reader(_Outcome)(outcome)
            self.resident = said.resident
            if said.failure is not None:
                kind = ParsingStopped if said.stopped else ParseError
                return Done(None, kind(where, said.failure[:_LONGEST_DETAIL]), said.seconds)
            return Done(reader(tasks()[task].result)(data), None, said.seconds)
        except TimeoutError:
            raise OutOfTime from None
        except (ProcessEnded, OSError, ValueError) as error:
            self.kill()
            ended = OutOfTime if self._process.wait() == -signal.SIGPROF else ProcessEnded
            raise ended(str(error)) from None

    def kill(self) -> None:
        """End it, whatever it does; a call in another thread then raises ProcessEnded."""
        self._process.kill()

    def close(self) -> None:
        """End it and give back what the system holds of it. Not while a call is under way."""
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


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Do what is asked until the parent closes its end."""
    while len(head := source.read(_HEAD.size)) == _HEAD.size:
        length, size = _HEAD.unpack(head)
        name, seconds, arguments = orjson.loads(source.read(length))
        task, before = tasks()[name], time.process_time()
        signal.setitimer(signal.ITIMER_PROF, seconds)
        given = [
            b64decode(one) if is_bytes and one is not None else one
            for is_bytes, one in zip(task.takes_bytes, arguments, strict=False)
        ]
        data, failure, stopped = _outcome(task, source, size, given)
        signal.setitimer(signal.ITIMER_PROF, 0)
        outcome = dumps(_Outcome(failure, stopped, time.process_time() - before, _resident()))
        for part in (_HEAD.pack(len(outcome), len(data)), outcome, data):
            sink.write(part)
        sink.flush()


def _outcome(task: Task, source: BinaryIO, size: int, arguments: list[Any]) -> tuple[bytes, str | None, bool]:
    """The result as JSON, or why there is none and whether that is for want of memory."""
    too_much = (b"", "reading it takes too much memory", True)
    try:
        # The body has no name here, so that it can go as soon as its text is there.
        data = dumps(task.do(source.read(size), *arguments))
    except ParseError as error:
        return too_much if isinstance(error.__cause__, MemoryError) else (b"", error.detail[:_LONGEST_DETAIL], False)
    except MemoryError:
        return too_much
    except Exception as error:  # the parsers beneath raise anything on documents that were made for it
        return b"", f"the document can't be read ({type(error).__name__})", False
    return too_much if len(data) > _LARGEST_REPLY // 2 else (data, None, False)


def _resident() -> int:
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    return 0


def _limit_memory(extra: int) -> None:
    """Let the address space grow by `extra` bytes at most, where the system can limit it."""
    with suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + extra
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Run the child: documents from standard input, results to standard output."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing that a library prints gets between the replies
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})
    os.nice(max(0, _NICENESS - os.nice(0)))
    tasks()
    _limit_memory(int(sys.argv[1]))
    sink.write(_READY)
    sink.flush()
    with suppress(BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        serve(io.BufferedReader(io.FileIO(0)), sink)


if __name__ == "__main__":
    main()
