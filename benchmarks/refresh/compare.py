"""The comparison: a publisher, our worker and `reader`, each in its own process; the two programs alternate."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.refresh.feeds import ENTRIES
from benchmarks.refresh.lines import ROOT, Child, child
from benchmarks.refresh.processes import children, peak_bytes, processor_seconds
from benchmarks.refresh.report import STEPS, Line, Memory, Pair, Step, Turn, fastest, line, most

FEEDS = 200
WORKERS = (1, 10, 20)
READER_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
"""A separate Python with `reader`, which `make bench` installs from requirements-bench.lock."""


class NotComparedError(Exception):
    """A program had a wrong result, so the figures are meaningless."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of the comparison."""

    lines: tuple[Line, ...]
    memory: Memory
    reader: str


@dataclass(frozen=True, slots=True)
class _Publisher:
    child: Child
    urls: list[str]


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two programs. `workers`: the number of threads for each step, only for `reader`."""

    child: Child
    redis: int | None = None
    workers: tuple[int, ...] = ()


def can_compare() -> bool:
    """Whether `reader` is installed and the system is Linux."""
    return READER_PYTHON.exists() and is_linux()


def is_linux() -> bool:
    """Whether the system is Linux: others have only one loopback address and show less about processes."""
    return Path("/proc/self/stat").exists()


def compare(repeats: int, feeds: int = FEEDS) -> Compared:
    """Let both refresh `feeds` feeds in all steps, `repeats` times, each time from an empty database."""
    with tempfile.TemporaryDirectory(prefix="microsub-refresh-") as name:
        folder = Path(name)
        with child([sys.executable, "-m", "benchmarks.refresh.publisher", str(feeds)], folder / "publisher.log") as one:
            publisher = _Publisher(one, one.ask("urls")["urls"])
            workers = _best_setting(publisher, folder)
            found: list[list[Pair]] = []
            memory: list[Memory] = []
            for number in range(repeats):
                pairs, peaks = _repeat(publisher, folder / str(number), workers, ours_first=number % 2 == 0)
                found.append(pairs)
                memory.append(peaks)
                _progress(f"refresh, repeat {number + 1}/{repeats}")
    print(file=sys.stderr)
    lines = [
        line(step, feeds, threads, [pairs[at] for pairs in found])
        for at, (step, threads) in enumerate(zip(STEPS, workers, strict=True))
    ]
    return Compared(tuple(lines), most(memory), reader_version())


def reader_version() -> str:
    """The version of the installed `reader`."""
    ask = "import importlib.metadata as m; print(m.version('reader'))"
    return subprocess.run([READER_PYTHON, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()


def _best_setting(publisher: _Publisher, folder: Path) -> list[int]:
    """The number of threads with which `reader` is fastest, for each step."""
    trials: dict[int, list[float]] = {}
    for threads in WORKERS:
        _progress(f"refresh, reader with workers={threads}")
        place = folder / f"workers-{threads}"
        place.mkdir()
        with _theirs(place, tuple(threads for _ in STEPS)) as side:
            _begin(publisher, side)
            trials[threads] = [_turn(publisher, side, at).seconds for at in range(len(STEPS))]
    return fastest(trials)


def _repeat(
    publisher: _Publisher, folder: Path, workers: Sequence[int], *, ours_first: bool
) -> tuple[list[Pair], Memory]:
    folder.mkdir()
    with ExitStack() as stack:
        ours = stack.enter_context(_ours(folder))
        theirs = stack.enter_context(_theirs(folder, tuple(workers)))
        for side in (ours, theirs):
            _begin(publisher, side)
        pairs = []
        parsers = 0
        for at in range(len(STEPS)):
            turns = {side: _turn(publisher, side, at) for side in ((ours, theirs) if ours_first else (theirs, ours))}
            pairs.append(Pair(turns[ours], turns[theirs]))
            parsers = max([parsers, *map(peak_bytes, _parsers(ours))])
        assert ours.redis is not None
        peaks = Memory(peak_bytes(ours.child.pid), parsers, peak_bytes(ours.redis), peak_bytes(theirs.child.pid))
    return pairs, peaks


@contextmanager
def _ours(folder: Path) -> Iterator[_Side]:
    data = folder / "data"
    data.mkdir()
    with child([sys.executable, "-m", "benchmarks.refresh.ours", str(data)], folder / "ours.log") as one:
        yield _Side(one, one.ask("redis")["pid"])


@contextmanager
def _theirs(folder: Path, workers: tuple[int, ...]) -> Iterator[_Side]:
    command = [str(READER_PYTHON), "-m", "benchmarks.refresh.theirs", str(folder / "reader.sqlite")]
    with child(command, folder / "theirs.log") as one:
        yield _Side(one, workers=workers)


def _begin(publisher: _Publisher, side: _Side) -> None:
    publisher.child.ask("mode", name=STEPS[0].mode)
    side.child.ask("follow", urls=publisher.urls)


def _turn(publisher: _Publisher, side: _Side, at: int) -> Turn:
    """Measure one side's refresh in one step, and check its requests and the stored posts."""
    step = STEPS[at]
    publisher.child.ask("mode", name=step.mode)
    before, redis_before = _spent(side)
    asked = {"workers": side.workers[at]} if side.workers else {}
    seconds = side.child.ask("refresh", **asked)["seconds"]
    after, redis_after = _spent(side)
    _check(step, len(publisher.urls), publisher.child.ask("served"), side.child.ask("state"))
    return Turn(seconds, after - before, redis_after - redis_before)


def _spent(side: _Side) -> tuple[float, float]:
    own = processor_seconds(side.child.pid, *_parsers(side))
    return own, 0.0 if side.redis is None else processor_seconds(side.redis)


def _parsers(side: _Side) -> list[int]:
    return [pid for pid in children(side.child.pid) if pid != side.redis]


def _check(step: Step, feeds: int, served: dict[str, int], state: dict[str, int]) -> None:
    """Check that every feed was requested once with the right status, and that its posts are stored."""
    entries = feeds * (ENTRIES + (step.mode == "news"))
    if served != {str(step.status): feeds} or state != {"feeds": feeds, "entries": entries}:
        raise NotComparedError(
            f"{step.name}: served {served}, stored {state}; expected {feeds} feeds, {entries} entries"
        )


def _progress(text: str) -> None:
    print(f"\r  {text:<76}", end="", file=sys.stderr, flush=True)
