"""What the figures of waiting readers, and of a post on its way to many, come to."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from benchmarks import busy, fanout
from benchmarks.followers import Turn, length_of
from benchmarks.latency import Compared, Waiting, comparison


def seconds(most: float, slowest: float, requests: int = 1000, slow: int = 20) -> list[float]:
    """Requests of which most take as long, and some the other time; both in milliseconds."""
    return [most / 1e3] * (requests - slow) + [slowest / 1e3] * slow


def compared(*turns: tuple[Sequence[float], Sequence[float]]) -> Compared:
    return Compared.of(turns)


def found(waits: Compared, whole: float = 0.4, last: float = 0.3, small: float = 0.004) -> fanout.Found:
    ways = [fanout.Way.of([Turn(took, 0.1, 0.2, 0.01)]) for took in (whole, last, small)]
    lines = (fanout.Line(100, ways[0], ways[2]), fanout.Line(10_000, ways[0], ways[1]))
    return fanout.Found(lines, 1000, 170.0, waits)


def test_all_requests_together_are_judged() -> None:
    """A stall in one short turn, idle or busy, is one of many slow requests, and decides nothing by itself."""
    quiet = (seconds(1, 2), seconds(2, 5))
    stalled_idle = (seconds(1, 90, slow=5), seconds(2, 5))
    stalled_busy = (seconds(1, 2), seconds(2, 200, slow=5))
    waits = compared(*[quiet] * 8, stalled_idle, stalled_busy)
    assert (waits.idle.requests, waits.busy.requests) == (10_000, 10_000)
    assert waits.slower == 2.5
    assert waits.within(3) is True
    assert [turn[0].p99 for turn in waits.turns[-2:]] == [1.0, 2.0]


def test_the_slowest_hundredth_decides() -> None:
    """Whatever the others wait; exactly so many times as long is within the aim."""
    assert compared((seconds(1, 2), seconds(5, 6))).within(3) is True
    assert compared((seconds(1, 2), seconds(1, 6.1))).within(3) is False


def test_a_machine_that_stalls_by_itself_hides_nothing() -> None:
    """Where the idle server's slowest are slow for other reasons, work that looks light isn't called so; what is too
    slow even so is.
    """
    stalls = seconds(1, 80)
    assert compared((stalls, seconds(2, 90))).within(3) is None
    assert compared((stalls, seconds(2, 300))).within(3) is False
    assert compared((seconds(0.5, 4), seconds(1, 6))).within(3) is True


async def test_which_comes_first_changes() -> None:
    """Else what one kind leaves behind would always fall to the other one."""
    asked: list[str] = []

    async def ask(kind: str) -> list[float]:
        asked.append(kind)
        return [0.001 if kind == "idle" else 0.002]

    waits = await comparison(lambda: ask("idle"), lambda: ask("busy"), 4)
    assert asked == ["idle", "busy", "busy", "idle"] * 2
    assert (waits.idle, waits.busy) == (Waiting(4, 1.0, 1.0), Waiting(4, 2.0, 2.0))


def test_the_whole_way_of_a_post_is_judged() -> None:
    """From the poll to the last timeline; that the last stage alone is quick enough counts for nothing."""
    waits = compared((seconds(1, 2), seconds(2, 5)))
    assert found(waits).met
    assert not found(waits, whole=0.51).met
    rows = fanout.text(found(waits, whole=0.51)).splitlines()
    (row,) = [row for row in rows if "from the poll to 10,000 channels" in row]
    assert [cell.strip() for cell in row.strip("|").split("|")][1:] == ["0.510 of 0.5", "MISSED"]
    assert "0.40 s after a poll has found it" in fanout.in_short(found(waits))


def test_portions_take_every_feed_once() -> None:
    """Whether or not they divide evenly."""
    portions = list(busy.portions(100, 7))
    assert portions[0][0] == 0
    assert portions[-1][1] == 100
    assert all(first[1] == second[0] for first, second in itertools.pairwise(portions))


def test_most_timelines_are_short() -> None:
    """And each has the same length in every run."""
    lengths = [length_of(f"reader{number}") for number in range(1000)]
    assert lengths == [length_of(f"reader{number}") for number in range(1000)]
    assert sum(length <= 120 for length in lengths) > 500
    assert max(lengths) >= 400
