"""A process that does nothing but parse: what is large or full of markup is read there, with an end in time and memory.

A thread can't be ended, and ten megabytes of empty elements keep one busy for minutes and take a gigabyte. A process
can be, and gives all its memory back. It knows nothing but the documents: no settings, no Redis, no environment.

Parent and child exchange pickles, each behind its length: (body, url, content type) one way, a Feed or the text of a
ParseError the other.
"""

from __future__ import annotations

import asyncio
import io
import os
import pickle
import resource
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from microsub.errors import ParseError
from microsub.formats.parse import parse
from microsub.model.jf2 import Feed

MEMORY = 512 * 1024 * 1024
"""Bytes of address space that one document may take on top of what the process needs to live."""

_LENGTH = struct.Struct(">Q")
_LARGEST_REPLY = 64 * 1024 * 1024
_ROOT = Path(__file__).resolve().parents[2]


class ProcessEnded(Exception):
    """The process isn't there any more: it was ended from outside, or by the document."""


class ParserProcess:
    """The parent's hold on one such process. `resident` is how many bytes it held after its last document."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.resident = 0

    @classmethod
    async def start(cls, memory: int = MEMORY) -> ParserProcess:
        """A process that is ready, or will be."""
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                __name__,
                str(memory),
                env={"PYTHONPATH": str(_ROOT), "PATH": os.defpath},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
        )

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    async def parse(self, body: bytes, url: str, content_type: str | None) -> Feed:
        """Parse one document. Raises ParseError for what isn't a feed, ProcessEnded when the process ended over it.

        A call that is cancelled leaves the process in the middle of something: `kill` it.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            for part in _framed(pickle.dumps((body, url, content_type))):
                self._process.stdin.write(part)
                await self._process.stdin.drain()
            (size,) = _LENGTH.unpack(await self._process.stdout.readexactly(_LENGTH.size))
            if size > _LARGEST_REPLY:
                raise ProcessEnded
            reply = await self._process.stdout.readexactly(size)
        except (OSError, asyncio.IncompleteReadError):
            raise ProcessEnded from None
        found, self.resident = pickle.loads(reply)  # noqa: S301 - our own code wrote it
        if isinstance(found, Feed):
            return found
        raise ParseError(url, str(found))

    def kill(self) -> None:
        """End it, whatever it does."""
        with suppress(ProcessLookupError):
            self._process.kill()

    async def wait(self) -> None:
        """Return when it has ended."""
        await self._process.wait()


def _framed(data: bytes) -> tuple[bytes, bytes]:
    return _LENGTH.pack(len(data)), data


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Parse documents until the parent closes the pipe."""
    while len(head := source.read(_LENGTH.size)) == _LENGTH.size:
        body, url, content_type = pickle.loads(source.read(_LENGTH.unpack(head)[0]))  # noqa: S301 - the parent wrote it
        reply: Feed | str
        try:
            reply = parse(body, url, content_type)
        except ParseError as error:
            reply = "reading it takes too much memory" if isinstance(error.__cause__, MemoryError) else error.detail
        for part in _framed(pickle.dumps((reply, _resident()))):
            sink.write(part)
        sink.flush()
        del body, reply


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
    with suppress(BrokenPipeError, KeyboardInterrupt):
        serve(io.BufferedReader(io.FileIO(0)), sink)


if __name__ == "__main__":
    main()
