"""The condition of a feed, for people, from its record alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from microsub.base.clock import DAY
from microsub.feeds.advice import advice_on, site_of
from microsub.feeds.push_state import push_health
from microsub.feeds.record import FeedRecord
from microsub.model.moments import is_ahead, number

MONTH = 30 * DAY
LONGEST_HOLD = 7 * DAY
"""Longest `Retry-After` that is honoured: a longer one is a mistake, and would stop the feed."""
_CLOCKS_DIFFER = DAY

State = Literal["gone", "failing", "written", "new", "quiet", "ok"]
Answer = tuple[float, str]
"""Unix time and outcome of a poll."""

ANSWERS = 10
"""Number of polls whose outcomes a record keeps."""


def answered(feed: FeedRecord, outcome: str, now: float) -> str:
    """The record's field `answers` after a poll with that outcome (`PollResult`)."""
    return ",".join([*feed.extra.get("answers", "").split(",")[-ANSWERS + 1 :], f"{now:.0f} {outcome}"]).strip(",")


@dataclass(frozen=True, slots=True)
class FeedCondition:
    """A feed's condition at some moment. Unix times and seconds, 0 for unknown.

    `quiet`: it can be read, and had no new post for a month. `last_read` is the last time its publisher answered well;
    `error` is that of the last poll, `failures` the number in a row. `answers` are the outcomes of the last polls.
    `advice` is what a user can do if it can't be read, in words to translate, and `site` the address of its site.
    """

    state: State
    last_read: float
    last_post: float
    posts_a_month: float
    every: float
    next: float
    held: float
    error: str
    failures: int
    pushed: bool
    advice: str
    site: str
    answers: tuple[Answer, ...] = ()

    @property
    def needs_attention(self) -> bool:
        """Whether the feed can't be read: it is gone, or its last poll failed."""
        return self.state in {"gone", "failing"}

    @classmethod
    def of(cls, feed: FeedRecord, now: float) -> FeedCondition:
        """The condition of a feed from its record."""
        last_post, gap = (number(feed.extra.get(name)) or 0.0 for name in ("last_change", "gap"))
        is_failing = bool(feed.failures or feed.gone)
        state = state_of(feed)
        return cls(
            "quiet" if state == "ok" and now - last_post > MONTH else state,
            feed.last_success or 0.0,
            last_post,
            MONTH / max(gap, now - last_post) if gap and last_post else 0.0,
            feed.interval or 0.0,
            0.0 if feed.gone else feed.next_poll or 0.0,
            held_until(feed, now) or 0.0,
            (feed.last_error or "") if is_failing else "",
            feed.failures,
            push_health(feed, now).pushed,
            advice_on(feed),
            site_of(feed),
            tuple(_answers(feed)),
        )


def state_of(feed: FeedRecord) -> State:
    """`gone` (410: it isn't polled any more), `failing` (the last poll failed), `written` (only programs write it),
    `new` (not polled yet) or `ok`.
    """
    if feed.gone:
        return "gone"
    if feed.failures:
        return "failing"
    if feed.is_written:
        return "written"
    return "new" if feed.last_success is None else "ok"


FAILURE_FIELDS = ("failures", "gone")


def fails(failures: str, gone: str) -> bool:
    """The same as `needs_attention`, from the `FAILURE_FIELDS` of a stored record, '' for a missing one."""
    return failures not in {"", "0"} or gone == "1"


def _answers(feed: FeedRecord) -> list[Answer]:
    """The outcomes of the last polls, newest first."""
    parts = (part.partition(" ") for part in reversed(feed.extra.get("answers", "").split(",")))
    return [(at, outcome) for text, _, outcome in parts if (at := number(text)) is not None and outcome]


def held_now(until: float | None, now: float) -> bool:
    """Whether a pause `until` a Unix time is in force; one beyond any hold comes from a wrong clock."""
    return until is not None and now < until <= now + LONGEST_HOLD + _CLOCKS_DIFFER


def held_until(feed: FeedRecord, now: float) -> float | None:
    """The end of the pause that the publisher asked for, a Unix time after `now`; otherwise None."""
    until = number(feed.extra.get("hold_until"))
    # A time written while a clock was ahead doesn't count.
    return until if held_now(until, now) and not is_ahead(feed.last_poll, now) else None
