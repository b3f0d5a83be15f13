"""`microsub`, with a log line when a parser of foreign documents is called in this process.

It also logs when the event loop has been busy for long without looking at its connections. All names resolve to this
machine, and the time limit for documents is shorter than in production.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

PARSED_HERE = "parsed in the process that serves or polls:"
HELD_UP = "everybody was kept waiting for"
MOMENT = 3.0
"""Seconds of processor time for which the event loop may be busy: hundredths are usual, and a parser without a guard
takes more for some of the documents.
"""
QUICK, SECONDS = 1.2, 1.5
"""The first page that a process reads loads half a second of code on a busy machine."""
PARSERS = (
    ("selectolax.lexbor", "LexborHTMLParser"),
    ("nh3", "Cleaner"),
    ("nh3", "clean"),
    ("xml.parsers.expat", "ParserCreate"),
    ("feedparser.api", "LooseFeedParser.__init__"),
    ("feedparser.api", "StrictFeedParser.__init__"),
    ("bs4", "BeautifulSoup.__init__"),
    ("mf2py", "Parser.__init__"),
    ("microsub.formats.jsonfeed", "to_jf2"),
)


def telling(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which also writes a line into the log."""

    def told(*arguments: Any, **named: Any) -> Any:
        print(PARSED_HERE, name, file=sys.stderr, flush=True)
        return real(*arguments, **named)

    return told


def watch_parsers() -> None:
    """Makes all parsers log their calls, before any module imports them by name."""
    for module, path in PARSERS:
        owner: Any = import_module(module)
        *classes, name = path.split(".")
        for each in classes:
            owner = getattr(owner, each)
        setattr(owner, name, telling(f"{module}.{path}", getattr(owner, name)))


async def watch_loop() -> None:
    """Writes into the log when the event loop was busy for too long."""
    while True:
        before = time.thread_time()
        await asyncio.sleep(0.01)
        if (used := time.thread_time() - before) > MOMENT:
            print(HELD_UP, f"{used:.1f} s", file=sys.stderr, flush=True)


def main() -> None:
    watch_parsers()
    look_up = socket.getaddrinfo

    def here(host: Any, *rest: Any, **named: Any) -> Any:
        return look_up("127.0.0.1" if str(host).endswith(".test") else host, *rest, **named)

    socket.getaddrinfo = here
    from microsub.parsing.pool import ParsePool

    begin = ParsePool.__init__

    def begin_short(self: ParsePool, *rest: Any, **named: Any) -> None:
        begin(self, *rest, **{**named, "quick": QUICK, "seconds": SECONDS})
        self.watching = asyncio.get_running_loop().create_task(watch_loop())  # type: ignore[attr-defined]

    ParsePool.__init__ = begin_short  # type: ignore[method-assign]
    from microsub.cli import main as microsub

    microsub()


if __name__ == "__main__":
    main()
