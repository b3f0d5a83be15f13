"""The fuzzer's corpus, and a short run of it; `MICROSUB_FUZZ_SECONDS` or `make fuzz` makes it a long one."""

from __future__ import annotations

import os
import random

import pytest

from tests.fuzz.fuzzer import Fuzzer, seconds

LONG = float(os.environ.get("MICROSUB_FUZZ_SECONDS", "0"))


def test_everything_that_was_ever_learnt() -> None:
    """What once ran a new line or broke a rule is a feed or a ParseError, harmless and quick."""
    fuzzer = Fuzzer(random.Random(0))
    fuzzer.replay()
    assert not fuzzer.broken, fuzzer.broken[0]
    assert len(fuzzer.lines) > 700


@pytest.mark.timeout(LONG + 300)
def test_damaged_and_mixed_documents() -> None:
    """The same five hundred in every run, so that a failure is the change's; as many as time allows in a long one."""
    fuzzer = Fuzzer(random.Random() if LONG else random.Random(1))
    fuzzer.run(seconds(LONG) if LONG else iter(range(500)))
    assert not fuzzer.broken, fuzzer.broken[0]
