"""Scores: places in timelines and times, as the decimal text that Redis keeps."""

from __future__ import annotations


def score_text(seconds: float) -> str:
    """Unix seconds as decimal text with microseconds, in the shortest form."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".")
