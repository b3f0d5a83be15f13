"""Results of checks: a check returns, or raises `Violation` or `Skip`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from microsub_conformance.exchange import Exchange
from microsub_conformance.requirement import Requirement

Verdict = Literal["pass", "fail", "skipped", "error"]

SHOWN = 600
"""Characters of a found value that a report shows."""


class Violation(Exception):
    """The server doesn't do what the requirement expects."""

    def __init__(self, expected: str, found: object) -> None:
        self.expected = expected
        self.found = "nothing" if found is None or found == "" else shorten(found)
        super().__init__(f"expected {expected}; found {self.found}")


NO_HEADER = "no such header"


class Skip(Exception):
    """The requirement can't be judged here, and that isn't the server's fault."""


class Unready(Exception):
    """A situation that several requirements need couldn't be set up, so they can't be judged."""


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict on one requirement, with its exchanges; `reason` is set unless it passed."""

    requirement: Requirement
    verdict: Verdict
    seconds: float
    exchanges: tuple[Exchange, ...] = ()
    reason: str = ""
    expected: str = ""
    found: str = ""


def expect(condition: bool, expected: str, found: object) -> None:
    """Raise Violation unless `condition` holds."""
    if not condition:
        raise Violation(expected, found)


def same(found: object, wanted: object, what: str) -> None:
    """Raise Violation unless `found` equals `wanted`."""
    if found != wanted:
        raise Violation(f"{what} to be {shorten(wanted)}", found)


def shorten(value: object, limit: int = SHOWN) -> str:
    """`value` as readable text of at most `limit` characters."""
    text = value if isinstance(value, str) else _dump(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def _dump(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(value)
