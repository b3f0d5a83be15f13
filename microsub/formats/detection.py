"""The encoding of text that declares none, by the frequency of letters."""

from __future__ import annotations

import charset_normalizer


def best_encoding(sample: bytes, among: list[str]) -> str | None:
    """The most probable of these encodings, if any fits."""
    best = charset_normalizer.from_bytes(sample, cp_isolation=among).best()
    return None if best is None else best.encoding
