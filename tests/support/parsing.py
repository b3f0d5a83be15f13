"""One set of parser processes for all tests of a process: starting one takes half a second."""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Iterator

from microsub.parsing import pool
from microsub.parsing.pool import ParsePool
from microsub.server.parsers import TASKS
from tests.support.fork_server import COUNTED, CountedParser, fork_parsers, fork_server, has_fork_server

# A forked parser counts the modules that it shares with the fork server, and would be ended after a document or two.
pool.RETIRE += 64 * 1024 * 1024

PARSER = ParsePool(TASKS)
atexit.register(PARSER.close)


@contextlib.contextmanager
def forked_parsers() -> Iterator[None]:
    """Fork the parser processes of this process too, once it has a fork server, and for `make coverage` always."""
    fork_parsers(lambda: fork_server().address if COUNTED or has_fork_server() else None)
    yield
    for parser in CountedParser.begun:
        parser.kill()
        parser.wait()
