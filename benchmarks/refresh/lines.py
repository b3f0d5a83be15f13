"""Requests to a child process and its replies: one JSON object per line, on standard input and output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

ROOT = Path(__file__).resolve().parents[2]
_END_SECONDS = 30


class Child(Protocol):
    """A child process that answers requests."""

    @property
    def pid(self) -> int:
        """The process id."""
        ...

    def ask(self, verb: str, **details: object) -> dict[str, Any]:
        """The reply to one request. Raises RuntimeError if the process has ended."""
        ...


class _Child:
    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, verb: str, **details: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": verb, **details}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            raise RuntimeError(f"{' '.join(map(str, self._process.args))} has ended:\n{self._log.read_text()}")  # type: ignore[arg-type]
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def child(command: Sequence[str], log: Path) -> Iterator[Child]:
    """Run a program that answers requests; its standard error is written to `log`. It ends with its standard input."""
    # Proxies and settings of the user's environment must not change the results.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MICROSUB_") and not name.lower().endswith("_proxy")
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, text=True, cwd=ROOT, env=environment
        )
    try:
        yield _Child(process, log)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(_END_SECONDS)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def answer(acts: Mapping[str, Callable[..., dict[str, Any]]], source: IO[str] = sys.stdin) -> None:
    """In the child: answer each request with the function of that name, until the input ends."""
    for line in source:
        details = json.loads(line)
        print(json.dumps(acts[details.pop("do")](**details)), flush=True)
