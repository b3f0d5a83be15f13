"""One set of parser processes for all tests of a process: beginning one takes a fifth of a second."""

from __future__ import annotations

import atexit

from microsub.parsing.pool import ParsePool

PARSER = ParsePool()
atexit.register(PARSER.close)
