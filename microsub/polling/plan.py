"""The next poll of a feed, its host's rate, and whether the feed has moved. Pure.

The interval adapts to the feed: it grows with the square root of the usual time between two posts, or of the time since
the last one if that is longer. So a silent feed is polled less and less often until its next post. The
square root makes the best use of a number of requests: it shares them among the feeds so that posts are found as early
as possible on average (docs: explanation, polling). Edits don't count, because many documents differ with every
request.
The publisher's wishes (`max-age`, `Expires`, `ttl`) can only lengthen the interval.

Every wait is drawn from [base, 1.25 × base], so that feeds followed at the same time drift apart. The bounds apply to
the drawn value: the base is kept low enough.

`gap`, `last_change`, `ttl`, `max_age`, `hold_until`, `notified`, `answers` and `push` are fields of the record that
only polling uses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from microsub.base.clock import DAY, HOUR
from microsub.base.urls import canonical_feed_url, without_sign_in
from microsub.configuration.model import FeedPolicy, InstanceSettings
from microsub.feeds import LONGEST_HOLD, Trouble, push_health
from microsub.model.settings import UserAgent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from microsub.feeds import FeedRecord


@dataclass(frozen=True, slots=True)
class PollPolicy:
    """Bounds of the time between two polls of one feed, in seconds.

    `daily` is the interval of a feed that posts once a day, and of an unknown feed; `least` and `most` bound the
    adaptive interval; `fixed` replaces it, and `ttl` the publisher's wishes. `user_agent` names this server in another
    way.
    """

    least: float = 300.0
    most: float = DAY
    fixed: float | None = None
    ttl: float | None = None
    daily: float = 1.5 * HOUR
    user_agent: UserAgent | None = None


def poll_policy(settings: InstanceSettings, url: str, chosen: FeedPolicy | None = None) -> PollPolicy:
    """The settings of the feed at the canonical `url`, in any spelling of its address, with or without a sign-in.

    What its followers have `chosen` holds where backend.json says nothing; their interval has the usual bounds.
    """
    polling = settings.polling
    own = settings.feeds.get(url)
    if own is None:
        spelled = {url, without_sign_in(url)}
        own = next((value for key, value in settings.feeds.items() if canonical_feed_url(key) in spelled), None)
    bounds = PollPolicy(least=polling.min_interval, most=polling.max_interval)
    if chosen is not None:
        fixed = None if chosen.interval is None else min(max(chosen.interval, bounds.least), bounds.most)
        bounds = replace(bounds, fixed=fixed, user_agent=chosen.user_agent)
    if own is None:
        return bounds
    fixed, agent = own.interval or bounds.fixed, own.user_agent or bounds.user_agent
    return replace(bounds, fixed=fixed, ttl=own.ttl, user_agent=agent)


def host_limits(settings: InstanceSettings, host: str) -> tuple[float, int]:
    """Seconds between two requests to `host`, and how many may run at a time.

    A setting may name the host with or without its port.
    """
    polling = settings.polling
    own = settings.hosts.get(host) or settings.hosts.get(host.rpartition(":")[0])
    interval = polling.host_interval if own is None or own.interval is None else own.interval
    concurrency = polling.host_concurrency if own is None or own.concurrency is None else own.concurrency
    return interval, max(1, concurrency)


DEFAULT_POLICY = PollPolicy()
SPREAD = 0.25
_LONGEST_WISH = 2 * DAY
"""More of a publisher's wishes doesn't count."""
_LONGEST_BACK_OFF = DAY
_PUSHED = DAY
"""Seconds between two polls of a feed whose posts a hub delivers."""

SPARING = 600.0
"""A feed isn't polled again before this multiple of the processor time that its document took."""

MOVE_SIGHTINGS = 3
MOVE_SECONDS = DAY
PAGE_MOVE_SECONDS = 3 * DAY
"""Longer than for a redirect: a page at a feed's address may be a mistake that its publisher still has to notice."""
_SHORTEST_GAP = 60.0
_LONGEST_GAP = 60 * DAY
_LEARNING = 0.3
_DATES_FOR_FIRST_GUESS = 10


@dataclass(frozen=True, slots=True)
class PollHistory:
    """Facts from earlier polls of a feed, and the plan that follows. Seconds and Unix times; None: not known yet.

    `gap` is the smoothed time between two posts, `last_change` when the last new ones were found; `failures` are
    counted in a row; `ttl` is the document's own wish when it was last parsed, `max_age` that of the last reply that
    had one; `push`: a working WebSub subscription exists. `moved_to` is the target of a permanent redirect, or the feed
    that pages name instead, with the number of its sightings and the time of the first. `next_poll` is None for never
    again; `hold_until` is set when the publisher asked for a pause: the schedule counts it against the host.
    """

    interval: float | None = None
    gap: float | None = None
    last_change: float | None = None
    failures: int = 0
    ttl: float | None = None
    max_age: float | None = None
    push: bool = False
    moved_to: str | None = None
    moved_seen: int = 0
    moved_since: float | None = None
    next_poll: float | None = None
    hold_until: float | None = None


@dataclass(frozen=True, slots=True)
class FeedAnswered:
    """The publisher answered properly, with `new` and `updated` entries, or none of either.

    `max_age` as in `fetch.Fetched`; `dates` are the publication times of the document's entries, for the first guess;
    `not_modified` marks a 304, after which everything that it doesn't mention remains valid (RFC 9111, 4.3.4);
    `seconds` is the processor time for reading the document.
    """

    new: int = 0
    updated: int = 0
    max_age: float | None = None
    ttl: float | None = None
    dates: tuple[float, ...] = ()
    not_modified: bool = False
    seconds: float = 0.0


class Failed(NamedTuple):
    """No document, for a reason: `gone` (410) means that the publisher wants no further requests.

    `retry_after`: the requested pause, in seconds; `seconds` as in `FeedAnswered`.
    """

    reason: str
    detail: str
    retry_after: float | None = None
    seconds: float = 0.0


Outcome = FeedAnswered | Failed


def plan_next(
    history: PollHistory, outcome: Outcome, now: float, random: float, policy: PollPolicy = DEFAULT_POLICY
) -> PollHistory:
    """Decide when to poll next: the history with the outcome. `random` is in [0, 1) and the only source of chance."""
    history = replace(history, next_poll=None, hold_until=None)
    if history.last_change is not None and history.last_change > now:
        history = replace(history, last_change=now)  # a clock was ahead at that time
    match outcome:
        case Failed(reason="gone"):
            return replace(history, failures=history.failures + 1, max_age=None)
        case Failed():
            return _after_failure(history, outcome, now, random, policy)
        case FeedAnswered():
            return _after_answer(history, outcome, now, random, policy)


def with_sighting(history: PollHistory, moved_to: str | None, now: float) -> PollHistory:
    """Count a sighting of the new address; another one, or a clock set back, restarts the count; None ends it."""
    if moved_to is None:
        return replace(history, moved_to=None, moved_seen=0, moved_since=None)
    if moved_to != history.moved_to or history.moved_since is None or history.moved_since > now:
        return replace(history, moved_to=moved_to, moved_seen=1, moved_since=now)
    return replace(history, moved_seen=history.moved_seen + 1)


def has_moved(history: PollHistory, now: float, move_seconds: float = MOVE_SECONDS) -> bool:
    """Whether the new address was seen often and long enough."""
    since = history.moved_since
    return since is not None and history.moved_seen >= MOVE_SIGHTINGS and now - since >= move_seconds


def draw(base: float, random: float, most: float) -> float:
    """A wait in [base, 1.25 × base], never above `most`."""
    return min(base, most / (1 + SPREAD)) * (1 + SPREAD * random)


def interval_for(gap: float, policy: PollPolicy = DEFAULT_POLICY) -> float:
    """The interval that suits a feed with `gap` seconds between two posts, before any bounds."""
    return policy.daily * math.sqrt(gap / DAY)


def guess_gap(dates: Iterable[float], now: float) -> float | None:
    """The time between two posts, by the newest dates of a document; None without dates."""
    newest = sorted((date for date in dates if date <= now), reverse=True)[:_DATES_FOR_FIRST_GUESS]
    if not newest:
        return None
    return _bounded((now - newest[-1]) / len(newest))


def _after_answer(
    history: PollHistory, answer: FeedAnswered, now: float, random: float, policy: PollPolicy
) -> PollHistory:
    gap, last_change = _learn(history, answer, now)
    if policy.fixed is not None:
        base = policy.fixed
    elif history.push and not answer.new:
        base = _PUSHED
    else:
        # The hub may have stopped working if we find posts first: poll again as if there were none.
        base = max(policy.least, min(policy.most, interval_for(max(gap, now - last_change), policy)))
        base = max(base, answer.seconds * SPARING)
    max_age = history.max_age if answer.not_modified and answer.max_age is None else answer.max_age
    wish = max(max_age or 0.0, answer.ttl or history.ttl or 0.0) if policy.ttl is None else policy.ttl
    most = _LONGEST_WISH if wish > base or policy.fixed is not None else policy.most
    wait = draw(max(base, wish), random, most)
    return replace(
        history,
        interval=wait,
        gap=gap,
        last_change=last_change,
        failures=0,
        max_age=max_age,
        next_poll=now + wait,
    )


def _learn(history: PollHistory, answer: FeedAnswered, now: float) -> tuple[float, float]:
    """The smoothed gap and the time of the last new posts, with what this answer adds."""
    if history.last_change is None:
        guess = guess_gap(answer.dates, now)
        newest = max((date for date in answer.dates if date <= now), default=now)
        return (DAY if guess is None else guess), newest
    gap = DAY if history.gap is None else history.gap
    if not answer.new:
        return gap, history.last_change
    observed = _bounded((now - history.last_change) / answer.new)
    return _bounded(gap + _LEARNING * (observed - gap)), now


def _after_failure(history: PollHistory, failed: Failed, now: float, random: float, policy: PollPolicy) -> PollHistory:
    failures = history.failures + 1
    usual = policy.fixed or history.interval or policy.least
    usual = max(usual, failed.seconds * SPARING)
    base = min(_LONGEST_BACK_OFF, usual * 2.0 ** min(failures - 1, 32))
    wait = draw(base, random, _LONGEST_BACK_OFF)
    hold = None
    if failed.retry_after is not None:
        pause = min(failed.retry_after, LONGEST_HOLD)
        hold = now + pause
        wait = max(wait, pause * (1 + SPREAD * random))
    return replace(history, failures=failures, next_poll=now + wait, hold_until=hold)


def _bounded(gap: float) -> float:
    return min(_LONGEST_GAP, max(_SHORTEST_GAP, gap))


def history_of(feed: FeedRecord, now: float) -> PollHistory:
    """The facts in the record at a Unix time."""
    return PollHistory(
        interval=feed.interval,
        gap=_number(feed.extra.get("gap")),
        last_change=_number(feed.extra.get("last_change")),
        failures=feed.failures,
        ttl=_number(feed.extra.get("ttl")),
        max_age=_number(feed.extra.get("max_age")),
        push=push_health(feed, now).pushed,
        moved_to=feed.moved_to,
        moved_seen=feed.moved_seen,
        moved_since=feed.moved_since,
    )


def pushed_fields(feed: FeedRecord, new: int, now: float) -> dict[str, str]:
    """The fields of the record that a delivery with so many new posts changes; edits change none."""
    history = history_of(feed, now)
    if not new or history.last_change is None:
        return {}
    gap, last_change = _learn(replace(history, last_change=min(history.last_change, now)), FeedAnswered(new), now)
    return {"gap": f"{gap:.3f}", "last_change": f"{last_change:.3f}"}


def polled_first(feed: FeedRecord, new: int, now: float) -> dict[str, str | None]:
    """The fields of the record that change if a poll found so many new posts before a hub.

    A hub that was overtaken isn't trusted until its next delivery with something new.
    """
    health = push_health(feed, now)
    if not new or not health.subscribed:
        return {}
    found: dict[str, str | None] = {"poll_posts": str(health.posts_polled + new)}
    return found | (
        {"push": None, "push_why": "a poll found posts before the hub delivered them"} if health.pushed else {}
    )


def last_looked(feed: FeedRecord) -> float:
    """The end of the last poll, as a Unix time; a preview's later copy counts as new."""
    # Times are stored in milliseconds, and that poll's own copy isn't new.
    return max(feed.last_success or 0.0, feed.last_error_at or 0.0) + 0.001


def fields_of(
    outcome: Outcome, plan: PollHistory, sighted: PollHistory | None, asked: float, now: float
) -> dict[str, str | None]:
    """The fields of the record to write at a poll's end; None removes a field.

    `sighted` is the history with this poll's sighting of another address, None if what is known of it doesn't change.
    `last_poll` is the time of the request, not of the poll's end: `PollNow` compares with it.
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
        case FeedAnswered():
            fields |= {"last_success": _text(now), "last_error": None, "last_error_at": None}
        case Failed():
            fields |= {"last_error": f"{outcome.reason}: {outcome.detail}", "last_error_at": _text(now)}
            if outcome.reason == "gone":
                fields["gone"] = "1"
    if sighted is not None:
        fields |= {
            "moved_to": sighted.moved_to,
            "moved_seen": str(sighted.moved_seen),
            "moved_since": _text(sighted.moved_since),
        }
    return fields


LASTING = 7 * DAY
LASTING_FAILURES = 8
"""Seconds, and failures in a row, after which a failing feed's followers are notified."""


def trouble_of(feed: FeedRecord, outcome: Outcome, failures: int, now: float) -> Trouble | None:
    """The trouble to report to followers after a poll; None if there is none, or it was reported."""
    match outcome:
        case Failed(reason="gone"):
            return Trouble("gone")
        case Failed(detail=why):
            since = feed.last_success or feed.created or now
            lasts = failures >= LASTING_FAILURES and now - since >= LASTING
            return Trouble("unreadable", why, since) if lasts and feed.extra.get("notified") != _text(since) else None
        case FeedAnswered():
            return None


def notified(trouble: Trouble) -> dict[str, str | None]:
    """The fields that remember a notice, so that it isn't repeated with each poll."""
    return {"notified": _text(trouble.since)} if trouble.kind == "unreadable" else {}


def _text(number: float | None) -> str | None:
    return None if number is None else f"{number:.3f}"


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
