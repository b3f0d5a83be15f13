"""As a library, the package leaves standard output and standard error to the program."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio, sys
from microsub.cache import FeedCache, FetchError

async def main():
    async with FeedCache() as cache:
        try:
            await cache.fetch("http://127.0.0.1:8099/feed")
        except FetchError as error:
            return str(error), error.hint

assert not FetchError("https://mistyped.example/", "dns", "isn't known").hint

if {configured}:
    import structlog
    structlog.configure(logger_factory=structlog.WriteLoggerFactory(file=sys.stderr))
message, hint = asyncio.run(main())
assert "PRIVATE_NETWORKS" not in message, message
assert "MICROSUB_ALLOW_PRIVATE_NETWORKS" in hint and "FetchSettings.allow_private_networks" in hint, hint
"""


def run(*, configured: bool) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(configured=configured)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)


def test_a_refused_address_is_an_error_and_no_output() -> None:
    """The error's hint says how a program can allow a private network; nothing is printed."""
    done = run(configured=False)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_program_that_configures_structlog_gets_the_log() -> None:
    """It is written to the configured file."""
    done = run(configured=True)
    assert done.stdout == ""
    assert "a connection to a forbidden address was refused" in done.stderr
