"""Scores: places in timelines and times, as the decimal text that Redis keeps."""

from __future__ import annotations


def score_text(seconds: float) -> str:
    """Unix seconds as decimal text with microseconds, in the shortest form."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def number_in(value: str | bytes | None) -> float:
    """The number that a field holds; 0 where it holds none, which `microsub check` finds: one post must not stop the
    others.
    """
    try:
        return float(value or 0)
    except ValueError:
        return 0.0
