"""The fuzzer's corpus, and a short run of it; `make fuzz` makes a long one."""

from __future__ import annotations

import random

from tests.fuzz.fuzzer import CORPUS, Fuzzer
from tests.support import examples


def test_everything_that_was_ever_learnt() -> None:
    """A document that once ran a new line or broke a rule is a feed or a ParseError, harmless and quick."""
    corpus = [path.read_bytes() for path in sorted(CORPUS.glob("*"))]
    fuzzer = Fuzzer(random.Random(0), guided=False, pool=corpus)
    fuzzer.replay()
    assert not fuzzer.broken, fuzzer.broken[0]
    watching = Fuzzer(random.Random(0), pool=corpus)
    watching.replay([None])
    assert len(watching.lines) > 1500


def test_damaged_and_mixed_documents() -> None:
    """They are the same in every run, so a failure is caused by the change."""
    fuzzer = Fuzzer(random.Random(1), guided=False)
    fuzzer.run(iter(range(examples(500))))
    assert not fuzzer.broken, fuzzer.broken[0]
