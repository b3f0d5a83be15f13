"""Between the record in the store and the schedule's values."""

from __future__ import annotations

import pytest

from microsub.feeds.store.record import FeedRecord
from microsub.polling.plan import Answered, Failed, Gone, Outcome, PollHistory, plan_move, plan_next
from microsub.polling.record import fields_of, held_until, history_of

NOW = 1_800_000_000.0
URL = "http://blog.test/feed"


def record(fields: dict[str, str | None]) -> FeedRecord:
    """The record as the store would read it back."""
    own = {name: fields[name] for name in ("gap", "last_change", "max_age", "hold_until") if fields.get(name)}
    times = {name: float(fields[name] or 0) for name in ("interval", "moved_since") if fields.get(name)}
    counts = {name: int(fields[name] or 0) for name in ("failures", "moved_seen") if name in fields}
    return FeedRecord("1", URL, moved_to=fields.get("moved_to"), extra={"ttl": "60", **own}, **times, **counts)


@pytest.mark.parametrize("outcome", [Answered(new=3, max_age=900.5), Failed("timeout", "10 s")])
def test_what_is_planned_is_remembered(outcome: Outcome) -> None:
    """The history that the next poll reads is what this one's plan says, to the millisecond."""
    before = PollHistory(interval=500, gap=4000.25, last_change=NOW - 9, failures=2, ttl=60, max_age=7)
    plan = plan_next(before, outcome, NOW, 0.5)
    move = plan_move(before, "http://new.test/", NOW)
    after = history_of(record(fields_of(outcome, plan, move, NOW - 1, NOW)))
    assert after == PollHistory(
        interval=None if plan.interval is None else round(plan.interval, 3),
        gap=None if plan.gap is None else round(plan.gap, 3),
        last_change=plan.last_change,
        failures=plan.failures,
        ttl=60,
        max_age=plan.max_age,
        moved_to="http://new.test/",
        moved_seen=1,
        moved_since=NOW,
    )


def test_gone_is_written_down() -> None:
    """The record says so, and why, and has no next poll."""
    fields = fields_of(Gone("the server answered 410"), plan_next(PollHistory(), Gone(""), NOW, 0), None, NOW, NOW)
    assert (fields["gone"], fields["next_poll"]) == ("1", None)
    assert fields["last_error"] == "gone: the server answered 410"


@pytest.mark.parametrize(
    ("text", "until"),
    [(None, None), ("nonsense", None), (f"{NOW - 1}", None), (f"{NOW + 60}", NOW + 60), ("9e12", None)],
)
def test_a_hold_that_is_in_force(text: str | None, until: float | None) -> None:
    """What is over, unreadable, or from a clock that was wrong, holds nothing."""
    extra = {} if text is None else {"hold_until": text}
    assert held_until(FeedRecord("1", URL, extra=extra), NOW) == until


def test_a_record_that_is_no_number() -> None:
    """Fields that somebody spoilt count as not known."""
    history = history_of(FeedRecord("1", URL, extra={"gap": "x", "last_change": "", "ttl": "-", "push": "yes"}))
    assert history == PollHistory()
