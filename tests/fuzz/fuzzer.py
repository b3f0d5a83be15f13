"""A fuzzer for `formats.parse`, guided by coverage, that keeps its results.

It damages and mixes documents. A document that makes `microsub.formats` run a new line is added to the corpus,
`tests/data/fuzz`, and is damaged further. A document that breaks a rule is written there as `broken-…` and reported.

    python -m tests.fuzz.fuzzer SECONDS     (or `make fuzz`)
"""

from __future__ import annotations

import hashlib
import random
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import microsub.formats
from microsub.base.errors import ParseError
from microsub.formats.parse import parse
from tests.formats.test_hostile import assert_harmless

CORPUS = Path(__file__).parents[1] / "data" / "fuzz"
CASES = Path(__file__).parents[1] / "data" / "formats"
URL = "https://reader.example/feed"
LARGEST = 20_000
SLOW_SECONDS = 5.0

_OURS = str(Path(microsub.formats.__file__).parent)
_TYPES = (None, "text/html", "application/rss+xml; charset=utf-16", "application/json", "text/plain; charset=zlib")
_WORDS = [
    *(b"<item>", b"</item>", b"<entry>", b"<![CDATA[", b"]]>", b"<!--", b"-->", b"<?xml ", b"<!DOCTYPE x [", b"]>"),
    *(b"<div class='h-entry'>", b"<div class='h-feed'>", b"e-content", b"u-url", b"p-author h-card", b"dt-published"),
    *(b"javascript:", b"data:", b"http://", b"//[", b"&#x0;", b"&#xD800;", b"&a;", b"&amp;", b"\0"),
    *(b"\xff\xfe", b"\xef\xbb\xbf", b"<links>", b"<tags a='b'/>", b"<content>", b"<image>", b"<source url='x'>"),
    *(b'"items":', b"[[[[", b"{}", b"null", b"1e999", b"-1", b"99999999999999999999", b"2024-13-45T99:99:99+99:99"),
    *(b"xml:base='x'", b"xmlns:a='b'", b"type='xhtml'", b"<svg>", b"<noscript>", b"<iframe src="),
    *(b"srcset=", b"<base href=", b"<updated_parsed>", b"<author_detail>", b"<where>", b"<coordinates>", b"<authors>"),
]  # fmt: skip


def seeds() -> list[bytes]:
    """The documents of the tests, and the corpus."""
    documents = [path for path in CASES.iterdir() if not path.name.endswith(".jf2.json")]
    found = [path.read_bytes() for path in sorted([*documents, *CORPUS.glob("*")])]
    return [document for document in found if len(document) <= LARGEST]


def problem(body: bytes, content_type: str | None) -> str | None:
    """The error of `parse` for `body`: a bug of ours behind its ParseError, a harmful result, or slowness."""
    start = time.process_time()
    try:
        assert_harmless(parse(body, URL, content_type))
    except ParseError as error:
        cause = error.__cause__
        frames = traceback.extract_tb(cause.__traceback__) if cause is not None else []
        if frames and frames[-1].filename.startswith(_OURS) and not isinstance(cause, ParseError | ValueError):
            return "".join(traceback.format_exception(cause)[-3:])
    except Exception:
        return traceback.format_exc(limit=-3)
    took = time.process_time() - start
    return f"it takes {took:.1f} s" if took > SLOW_SECONDS else None


def mutated(rng: random.Random, pool: list[bytes]) -> bytes:
    """A document of the pool, damaged a few times."""
    body = bytearray(rng.choice(pool))
    for _ in range(rng.randint(1, 6)):
        at = rng.randint(0, len(body))
        end = min(len(body), at + rng.choice([0, 1, 2, 8, 40, 300]))
        match rng.randrange(7):
            case 0:
                del body[at:end]
            case 1:
                body[at:at] = rng.choice(_WORDS)
            case 2:
                body[at:end] = rng.choice(_WORDS)
            case 3:
                body[at:at] = body[at:end] * rng.randint(1, 8)
            case 4:
                other = rng.choice(pool)
                start = rng.randint(0, len(other))
                body[at:end] = other[start : start + rng.randint(1, 400)]
            case 5 if at < len(body):
                body[at] = rng.randrange(256)
            case _:
                body[at:end] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 8)))
    return bytes(body[:LARGEST])


@dataclass
class Fuzzer:
    """`lines` are our lines that ran; `learnt` the documents that ran new ones; `broken` those that broke a rule.

    One that isn't `guided` watches no lines and learns nothing, in a third of the time.
    """

    rng: random.Random
    guided: bool = True
    pool: list[bytes] = field(default_factory=seeds)
    lines: set[tuple[str, int]] = field(default_factory=set)
    learnt: list[bytes] = field(default_factory=list)
    broken: list[tuple[bytes, str]] = field(default_factory=list)

    def replay(self, types: Sequence[str | None] = _TYPES) -> None:
        """Run all known documents as every type."""
        for body in self.pool:
            for content_type in types:
                self._try(body, content_type)

    def run(self, rounds: Iterator[object]) -> None:
        """Run one new document for each of `rounds`."""
        for _ in rounds:
            body = mutated(self.rng, self.pool)
            if self._try(body, self.rng.choice(_TYPES)):
                self.pool.append(body)
                self.learnt.append(body)

    def _try(self, body: bytes, content_type: str | None) -> bool:
        known = len(self.lines)
        before = sys.gettrace()  # coverage may have set one
        if self.guided:
            sys.settrace(self._called)
        try:
            wrong = problem(body, content_type)
        finally:
            sys.settrace(before)
        if wrong:
            self.broken.append((body, wrong))
        return len(self.lines) > known

    def _called(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        return self._ran if frame.f_code.co_filename.startswith(_OURS) else None

    def _ran(self, frame: FrameType, event: str, _arg: Any) -> Any:
        if event == "line":
            self.lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._ran


def seconds(limit: float) -> Iterator[object]:
    """Rounds until the time limit."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        yield None


def main() -> int:
    """Fuzz for the given time, and write the results."""
    fuzzer = Fuzzer(random.Random())
    fuzzer.replay()
    print(f"{len(fuzzer.pool)} documents run {len(fuzzer.lines)} lines")
    fuzzer.run(seconds(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0))
    CORPUS.mkdir(exist_ok=True)
    for kind, bodies in (("line", fuzzer.learnt), ("broken", [body for body, _ in fuzzer.broken])):
        for body in bodies:
            (CORPUS / f"{kind}-{hashlib.sha256(body).hexdigest()[:16]}").write_bytes(body)
    for body, wrong in fuzzer.broken:
        print(f"{hashlib.sha256(body).hexdigest()[:16]}: {wrong}")
    print(f"now {len(fuzzer.lines)} lines; learnt {len(fuzzer.learnt)} documents, {len(fuzzer.broken)} broke a rule")
    return bool(fuzzer.broken)


if __name__ == "__main__":
    sys.exit(main())
