"""One set of parser processes for all tests of a process, forked: starting one takes half a second."""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Iterator

from microsub.parsing.pool import ParsePool
from microsub.server.parsers import TASKS
from tests.support.fork_server import CountedParser, fork_parsers, fork_server

PARSER = ParsePool(TASKS)
atexit.register(PARSER.close)


@contextlib.contextmanager
def forked_parsers() -> Iterator[None]:
    """Fork the parser processes of this process too."""
    fork_parsers(lambda: fork_server().address)
    yield
    for parser in CountedParser.begun:
        parser.kill()
        parser.wait()
