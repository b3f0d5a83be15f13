"""A process of its own that answers questions: one JSON object per line, questions in, answers out."""

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
    """Somebody to ask."""

    @property
    def pid(self) -> int:
        """The number of its process."""
        ...

    def ask(self, verb: str, **details: object) -> dict[str, Any]:
        """The answer to one question. Raises RuntimeError where the process has ended instead."""
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
    """Run a program that answers questions; its standard error goes into `log`. It ends with its standard input."""
    # Neither proxies nor settings of the person at the terminal shall make a difference.
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
    """The other side: answer every question by the act of its name, until there are no more."""
    for line in source:
        details = json.loads(line)
        print(json.dumps(acts[details.pop("do")](**details)), flush=True)
