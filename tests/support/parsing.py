"""One set of parser processes for all tests of a process: starting one takes a fifth of a second."""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Iterator

from microsub.parsing.pool import ParsePool
from microsub.server.parsers import TASKS
from tests.support.fork_server import COUNTED, CountedParser, fork_parsers, fork_server

PARSER = ParsePool(TASKS)
atexit.register(PARSER.close)


@contextlib.contextmanager
def counted_parsers() -> Iterator[None]:
    """Let `make coverage` count the parser processes of this process too."""
    if not COUNTED:
        yield
        return
    fork_parsers(fork_server().address)
    yield
    for parser in CountedParser.begun:
        parser.kill()
        parser.wait()
