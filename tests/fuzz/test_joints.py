"""Composed joints of markup: the sanitiser leaves nothing that runs, requests or breaks out of its element."""

from __future__ import annotations

import random
import re
import time
from itertools import islice, takewhile

import nh3
import pytest

from microsub.formats.html.sanitise import ATTRIBUTES
from microsub.formats.html.shapes import TAGS
from tests.fuzz.joints import endless, kept, tried
from tests.support import examples

SECONDS = examples(5)
"""`make fuzz-html` tries a million inputs instead."""


def test_known_attacks_are_harmless() -> None:
    """Inputs that passed scripts or open frames through an earlier sanitiser are harmless."""
    assert len(kept()) > 50
    assert not list(tried(kept()))


@pytest.mark.timeout(SECONDS + 300)
def test_composed_joints() -> None:
    """They are new in every run: the message contains a harmful input."""
    seed = random.SystemRandom().randrange(2**32)
    inputs = takewhile(lambda _: time.monotonic() < end, endless(random.Random(seed)))
    end = time.monotonic() + SECONDS
    found = next(tried(inputs), None)
    assert found is None, (seed, found)


def test_the_fuzzer_finds_a_sanitiser_that_patches_text() -> None:
    """It removes pictures from the parser's output, including the raw text of frames, and then the frames."""

    def patched(html: str) -> str:
        without_pictures = re.sub(r"<img\b[^>]*>", "", nh3.clean(html, tags=TAGS, attributes=ATTRIBUTES))
        return re.sub(r"(?s)<iframe\b[^>]*>.*?</iframe>", "", without_pictures)

    found = {what for _, what in tried(islice(endless(random.Random(1)), 5000), patched)}
    assert {"<script>", "<svg>"} <= found
