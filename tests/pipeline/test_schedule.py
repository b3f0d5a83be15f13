"""When a feed is polled next: tables of cases. Times are in hours from a fixed now."""

from __future__ import annotations

import pytest

from microsub.pipeline.policy import PollPolicy
from microsub.pipeline.schedule import (
    LONGEST_HOLD,
    Answered,
    Failed,
    Gone,
    PollHistory,
    PollPlan,
    guess_gap,
    plan_move,
    plan_next,
)

NOW = 1_800_000_000.0
HOUR = 3600.0
DAY = 24 * HOUR


def wait(plan: PollPlan) -> float:
    assert plan.next_poll is not None
    return plan.next_poll - NOW


ANSWERS = {
    "changes every hour": (PollHistory(gap=HOUR, last_change=NOW - HOUR), Answered(new=1), 450),
    "changes daily": (PollHistory(gap=DAY, last_change=NOW - 100), Answered(), 3 * HOUR),
    "changes all the time": (PollHistory(gap=60, last_change=NOW - 60), Answered(new=5), 300),
    "changes monthly": (PollHistory(gap=30 * DAY, last_change=NOW - DAY), Answered(), 24 * HOUR / 1.25),
    "was lively, silent for a week": (PollHistory(gap=HOUR, last_change=NOW - 7 * DAY), Answered(), 24 * HOUR / 1.25),
    "was lively, silent for a day": (PollHistory(gap=HOUR, last_change=NOW - DAY), Answered(), 3 * HOUR),
    "new, without dates": (PollHistory(), Answered(new=3), HOUR),
    "new, ten posts in ten days": (
        PollHistory(),
        Answered(new=10, dates=tuple(NOW - day * DAY for day in range(1, 11))),
        3 * HOUR,
    ),
    "new, silent for years": (PollHistory(), Answered(new=9, dates=(NOW - 900 * DAY,)), 24 * HOUR / 1.25),
    "max-age raises": (PollHistory(gap=HOUR, last_change=NOW), Answered(max_age=2 * HOUR), 2 * HOUR),
    "max-age never lowers": (PollHistory(gap=DAY, last_change=NOW), Answered(max_age=60), 3 * HOUR),
    "max-age of a year": (PollHistory(gap=HOUR, last_change=NOW), Answered(max_age=365 * DAY), 48 * HOUR / 1.25),
    "ttl raises": (PollHistory(gap=HOUR, last_change=NOW), Answered(ttl=30 * HOUR), 30 * HOUR),
    "a ttl is remembered": (PollHistory(gap=HOUR, last_change=NOW, ttl=5 * HOUR), Answered(), 5 * HOUR),
    "WebSub": (PollHistory(gap=HOUR, last_change=NOW, push=True), Answered(), 24 * HOUR / 1.25),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_interval_follows_the_feed(case: str) -> None:
    """The shortest possible wait is the table's, the longest is a quarter more."""
    history, answer, base = ANSWERS[case]
    assert wait(plan_next(history, answer, NOW, 0.0)) == pytest.approx(base)
    assert wait(plan_next(history, answer, NOW, 1.0)) == pytest.approx(base * 1.25)


@pytest.mark.parametrize("gap", [1, 60, HOUR, DAY, 365 * DAY])
@pytest.mark.parametrize("max_age", [None, 0, HOUR, 40 * HOUR, 1000 * HOUR])
@pytest.mark.parametrize("random", [0.0, 0.3, 0.999999])
def test_waits_stay_in_bounds(gap: float, max_age: float | None, random: float) -> None:
    """Never under 5 minutes, over 24 hours only by the publisher's wish, never over 48."""
    history = PollHistory(gap=gap, last_change=NOW - gap)
    found = wait(plan_next(history, Answered(new=1, max_age=max_age), NOW, random))
    assert 300 <= found <= 48 * HOUR + 1
    if not max_age or max_age <= 300:
        assert found <= 24 * HOUR + 1


@pytest.mark.parametrize("history", [PollHistory(), PollHistory(gap=DAY, last_change=NOW), PollHistory(push=True)])
@pytest.mark.parametrize("outcome", [Answered(), Answered(max_age=1000 * HOUR), Failed("timeout", "")])
def test_jitter_is_twenty_percent_at_least(history: PollHistory, outcome: Answered | Failed) -> None:
    """Whatever decides the wait, the latest moment is a fifth or more behind the earliest."""
    waits = [wait(plan_next(history, outcome, NOW, part / 100)) for part in range(100)]
    assert max(waits) >= 1.2 * min(waits)
    assert len(set(waits)) == 100


def test_interval_settles_at_the_real_rate() -> None:
    """A feed that changes every six hours ends near six eighths of an hour, wherever it began."""
    for start in (None, 60.0, 30 * DAY):
        history = PollHistory(gap=start, last_change=NOW)
        for step in range(1, 40):
            plan = plan_next(history, Answered(new=1), NOW + step * 6 * HOUR, 0.0)
            history = PollHistory(gap=plan.gap, last_change=plan.last_change)
        assert history.gap == pytest.approx(6 * HOUR, rel=0.05)


def test_an_admins_interval_replaces_the_adaptive_one() -> None:
    """A fixed interval of five seconds holds whatever the feed does; failures still back off from it."""
    policy = PollPolicy(fixed=5)
    assert wait(plan_next(PollHistory(gap=DAY, last_change=NOW), Answered(), NOW, 0.0, policy)) == 5
    assert wait(plan_next(PollHistory(failures=3), Failed("connect", ""), NOW, 0.0, policy)) == 40


@pytest.mark.parametrize(
    ("failures", "interval", "hours"),
    [
        (0, None, 1 / 12),
        (1, None, 1 / 6),
        (3, None, 8 / 12),
        (0, HOUR, 1),
        (1, HOUR, 2),
        (4, HOUR, 16),
        (5, HOUR, 24 / 1.25),
        (50, HOUR, 24 / 1.25),
        (10_000, None, 24 / 1.25),
    ],
)
def test_failures_back_off_to_a_day_and_never_stop(failures: int, interval: float | None, hours: float) -> None:
    """Each failure in a row doubles the wait, from the feed's own interval up to 24 hours."""
    plan = plan_next(PollHistory(interval=interval, failures=failures), Failed("http", "500"), NOW, 0.0)
    assert wait(plan) == pytest.approx(hours * HOUR)
    assert plan.failures == failures + 1
    assert plan.interval == interval
    assert plan.hold_until is None


@pytest.mark.parametrize(
    ("retry_after", "shortest"),
    [(10.0, 300), (7200.0, 7200), (100 * HOUR, 100 * HOUR), (10_000 * DAY, LONGEST_HOLD), (0.0, 300)],
)
def test_retry_after_holds(retry_after: float, shortest: float) -> None:
    """No request before the time that the publisher names; the back-off still counts."""
    plan = plan_next(PollHistory(), Failed("throttled", "429", retry_after), NOW, 0.0)
    assert wait(plan) == pytest.approx(shortest)
    assert plan.hold_until == NOW + min(retry_after, LONGEST_HOLD)


def test_gone_stops() -> None:
    """After a 410 there is no next poll."""
    assert plan_next(PollHistory(interval=HOUR), Gone("410"), NOW, 0.5).next_poll is None


def test_success_ends_the_back_off() -> None:
    """One answer sets the count of failures to nothing."""
    assert plan_next(PollHistory(gap=HOUR, last_change=NOW, failures=9), Answered(), NOW, 0.0).failures == 0


MOVES = {
    "seen once": ([(0, "b")], False),
    "three times within a day": ([(0, "b"), (1, "b"), (23.9, "b")], False),
    "twice over two days": ([(0, "b"), (48, "b")], False),
    "three times over a day": ([(0, "b"), (12, "b"), (24, "b")], True),
    "often, then over a day": ([(0, "b"), (1, "b"), (2, "b"), (3, "b"), (25, "b")], True),
    "the target changed": ([(0, "b"), (12, "b"), (24, "c")], False),
    "the old address answered meanwhile": ([(0, "b"), (12, None), (24, "b"), (30, "b")], False),
}


@pytest.mark.parametrize("case", MOVES)
def test_a_feed_moves_after_three_sightings_over_a_day(case: str) -> None:
    """One permanent redirect proves nothing: hotel networks and broken deployments send them too."""
    sightings, moves = MOVES[case]
    history = PollHistory()
    plan = plan_move(history, None, NOW)
    for hours, target in sightings:
        plan = plan_move(history, target, NOW + hours * HOUR)
        history = PollHistory(moved_to=plan.moved_to, moved_seen=plan.seen, moved_since=plan.since)
    assert plan.move is moves


def test_the_first_guess_uses_the_newest_dates() -> None:
    """Years of archive don't hide that the blog is lively now; future dates don't count."""
    lively = [NOW - n * HOUR for n in range(1, 11)] + [NOW - 1000 * DAY] * 50 + [NOW + DAY]
    assert guess_gap(lively, NOW) == HOUR
    assert guess_gap([], NOW) is None
