"""Between the feed's record in the store and the schedule's values. Pure.

`gap`, `last_change`, `ttl`, `max_age`, `hold_until` and `push` are the pipeline's own fields; the store keeps them as
any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from microsub.model.moments import is_ahead
from microsub.polling.plan import Answered, Failed, Gone, MovePlan, Outcome, PollHistory, PollPlan, held_now

if TYPE_CHECKING:
    from microsub.feeds.store.record import FeedRecord


def history_of(feed: FeedRecord) -> PollHistory:
    """What the record tells the schedule."""
    return PollHistory(
        interval=feed.interval,
        gap=_number(feed.extra.get("gap")),
        last_change=_number(feed.extra.get("last_change")),
        failures=feed.failures,
        ttl=_number(feed.extra.get("ttl")),
        max_age=_number(feed.extra.get("max_age")),
        push=feed.extra.get("push") == "1",
        moved_to=feed.moved_to,
        moved_seen=feed.moved_seen,
        moved_since=feed.moved_since,
    )


def held_until(feed: FeedRecord, now: float) -> float | None:
    """Until when the publisher wants this URL left alone, as a Unix time after `now`; None: it may be asked."""
    until = _number(feed.extra.get("hold_until"))
    # What was written while the clock was ahead counts for nothing.
    return until if held_now(until, now) and not is_ahead(feed.last_poll, now) else None


def last_looked(feed: FeedRecord) -> float:
    """The end of the last poll, as a Unix time. What a preview has fetched since is as good as asking again."""
    # Times are kept in milliseconds, and what that poll itself has fetched is no news.
    return max(feed.last_success or 0.0, feed.last_error_at or 0.0) + 0.001


def fields_of(
    outcome: Outcome, plan: PollPlan, move: MovePlan | None, asked: float, now: float
) -> dict[str, str | None]:
    """What of a poll's end is written into the record; None removes a field.

    `last_poll` is when the publisher was asked, not when all was done: whoever waits for a poll that began after some
    moment compares with it.
    """
    fields: dict[str, str | None] = {
        "last_poll": _text(asked),
        "next_poll": _text(plan.next_poll),
        "interval": _text(plan.interval),
        "gap": _text(plan.gap),
        "last_change": _text(plan.last_change),
        "failures": str(plan.failures),
        "max_age": _text(plan.max_age),
        "hold_until": _text(plan.hold_until),
    }
    match outcome:
        case Answered():
            fields |= {"last_success": _text(now), "last_error": None, "last_error_at": None}
        case Failed():
            fields |= {"last_error": f"{outcome.reason}: {outcome.detail}", "last_error_at": _text(now)}
        case Gone():
            fields |= {"last_error": f"gone: {outcome.detail}", "last_error_at": _text(now), "gone": "1"}
    if move is not None:
        fields |= {
            "moved_to": move.moved_to,
            "moved_seen": str(move.seen),
            "moved_since": _text(move.since),
        }
    return fields


def _text(number: float | None) -> str | None:
    return None if number is None else f"{number:.3f}"


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
