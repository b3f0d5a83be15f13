"""The politeness simulation's engine: real planning, invented publishers, a virtual clock.

Hosts don't influence each other, so each is simulated separately: its feeds are in a queue by the time when they are
due, one request runs at a time, and the next begins a second after the end of the previous one, as in the Redis
schedule. A host gets no requests at all while three of its feeds wait for a `Retry-After`.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heapreplace
from random import Random

from benchmarks.publishers import DAY, MINUTE, WINDOW, Host, Publisher
from microsub.feeds.hosts import FEEDS_FOR_A_HOLD, LONGEST_HOLD
from microsub.polling.plan import (
    Failed,
    FeedAnswered,
    Outcome,
    PollHistory,
    PollPolicy,
    has_moved,
    plan_next,
    with_sighting,
)

INTERVAL = 1.0
"""Seconds between two requests to a host."""
PUSH_WORKS = 0.97
"""The share of posts that a hub delivers."""
PUSH_SECONDS = 2.0
COUNTED_DAYS_BEFORE_END = 2
"""Posts of the last days aren't counted, because a schedule needs time to find them."""

START = 1_800_000_000.0
_QUIET = FeedAnswered()


@dataclass(slots=True)
class Polled:
    """A feed as the schedule knows it."""

    publisher: Publisher
    known: int = 0
    validators: bool = False
    first: bool = True
    history: PollHistory = field(default_factory=PollHistory)
    quiet: FeedAnswered = _QUIET


Plan = Callable[[Polled, Outcome, bool, float, Random], tuple[float, float | None]]
"""(feed, outcome, whether it was redirected permanently, now, random numbers) to (next poll, end of its hold)."""


@dataclass(slots=True)
class Tally:
    """The result of a schedule. `late` is in seconds, by habit; `per_day` counts requests by day."""

    requests: Counter[str] = field(default_factory=Counter)
    feeds: Counter[str] = field(default_factory=Counter)
    late: dict[str, array[float]] = field(default_factory=dict)
    per_day: Counter[int] = field(default_factory=Counter)
    conditional: int = 0
    not_modified: int = 0
    failures: int = 0
    busiest_day: int = 0
    busiest_minute: int = 0
    closest: float = math.inf
    after_gone: int = 0
    too_early: int = 0
    in_host_hold: int = 0

    def add(self, other: Tally) -> None:
        """Add the counts of another tally."""
        self.requests += other.requests
        self.feeds += other.feeds
        self.per_day += other.per_day
        for habit, late in other.late.items():
            self.late.setdefault(habit, array("d")).extend(late)
        for name in ("conditional", "not_modified", "failures", "after_gone", "too_early", "in_host_hold"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.busiest_day = max(self.busiest_day, other.busiest_day)
        self.busiest_minute = max(self.busiest_minute, other.busiest_minute)
        self.closest = min(self.closest, other.closest)

    @property
    def total(self) -> int:
        """The number of all requests."""
        return sum(self.requests.values())


def adaptive(policy: PollPolicy) -> Plan:
    """Plan with the product's own functions."""

    def plan(feed: Polled, outcome: Outcome, redirected: bool, now: float, rng: Random) -> tuple[float, float | None]:
        history = feed.history
        planned = plan_next(history, outcome, START + now, rng.random(), policy)
        sighted = with_sighting(planned, "http://new.test/" if redirected else None, START + now)
        publisher = feed.publisher
        if has_moved(sighted, START + now):
            publisher.moved_at = math.inf  # from now on the new address is polled
            sighted = with_sighting(sighted, None, START + now)
        feed.history = replace(sighted, ttl=publisher.ttl, push=publisher.habit.push)
        hold = None if planned.hold_until is None else planned.hold_until - START
        return (math.inf if planned.next_poll is None else planned.next_poll - START), hold

    return plan


def fixed(interval: float) -> Plan:
    """The fixed schedule: every feed `interval` seconds after its last poll, whatever the replies are. It sends
    validators and has the same host queues.
    """

    def plan(_feed: Polled, _outcome: Outcome, _redirected: bool, now: float, _rng: Random) -> tuple[float, None]:
        return now + interval, None

    return plan


def play(hosts: Sequence[Host], plan: Plan, end: float, *, push: bool) -> Tally:
    """Simulate polls of `hosts` for `end` seconds. `push`: whether hubs deliver."""
    tally = Tally()
    for host in hosts:
        _Queue(host, plan, end, tally, push).run()
    return tally


class _Queue:
    """The queue of one host's feeds."""

    def __init__(self, host: Host, plan: Plan, end: float, tally: Tally, push: bool) -> None:
        self._feeds = [Polled(one) for one in host.feeds]
        self._plan = plan
        self._end = end
        self._tally = tally
        self._push = push
        self._rng = host.rng
        self._waiting: dict[int, float] = {}
        self._hold = -math.inf
        self._hops: Counter[int] = Counter()

    def run(self) -> None:
        feeds, tally = self._feeds, self._tally
        queue = [(0.0, number) for number in range(len(feeds))]
        heapify(queue)
        spacing, last, free = INTERVAL, -math.inf, 0.0
        minutes: Counter[int] = Counter()
        days: Counter[int] = Counter()
        while True:
            due, number = queue[0]
            begin = max(due, free, self._hold)
            if begin >= self._end:
                break
            tally.in_host_hold += len(feeds) > 1 and self._is_held(begin)
            tally.closest = min(tally.closest, begin - last)
            last = begin
            minutes[int(begin // MINUTE)] += 1
            days[int(begin // DAY)] += 1
            now, next_due = self._poll(number, begin)
            free = now + spacing
            heapreplace(queue, (next_due, number))
        tally.per_day += days + self._hops
        tally.busiest_minute = max(tally.busiest_minute, *minutes.values())
        tally.busiest_day = max(tally.busiest_day, *days.values())
        for feed in feeds:
            self._close(feed)

    def _poll(self, number: int, begin: float) -> tuple[float, float]:
        """Simulate one request; returns when it ended, and when the feed is due again."""
        feed, tally, rng = self._feeds[number], self._tally, self._rng
        publisher = feed.publisher
        tally.requests[publisher.habit.name] += 1
        tally.conditional += feed.validators
        status = publisher.status(begin)
        now = begin + 0.1 + 0.4 * rng.random()
        outcome: Outcome
        if status == 410:
            outcome = Failed("gone", "410")
        elif status == 503:
            outcome = Failed("throttled", "503", publisher.retry_after(begin))
        else:
            outcome = self._answer(feed, begin, now)
        if status in {410, 503}:
            tally.failures += 1
        elif status == 301:
            # The redirect causes a second request, to the new address.
            tally.requests[publisher.habit.name] += 1
            tally.conditional += feed.validators
            self._hops[int(begin // DAY)] += 1
        next_due, hold = self._plan(feed, outcome, status == 301, now, rng)
        if hold is not None:
            self._note_hold(number, hold, now)
        return now, next_due

    def _answer(self, feed: Polled, begin: float, now: float) -> FeedAnswered:
        """The reply with the document at `begin`; its new posts were found at `now`."""
        publisher = feed.publisher
        count = publisher.count(begin)
        changed = count > feed.known or publisher.habit.restless
        if not changed and not feed.first:
            self._tally.not_modified += feed.validators
            return feed.quiet
        known, feed.known = feed.known, count
        dates = tuple(START + time for time in publisher.posts[max(0, count - WINDOW) : count])
        if feed.first:
            feed.first, feed.validators = False, publisher.habit.validators
            # A 304 has no headers here, so the values of the first reply must be kept.
            feed.quiet = FeedAnswered(not_modified=True) if feed.validators else FeedAnswered(max_age=publisher.max_age)
            return FeedAnswered(min(count, WINDOW), 0, publisher.max_age, publisher.ttl, dates)
        new = self._find(publisher, known, count, now)
        return FeedAnswered(new, int(publisher.habit.restless), publisher.max_age, publisher.ttl, dates)

    def _find(self, publisher: Publisher, known: int, count: int, now: float) -> int:
        """Record how late the posts from `known` to `count` are; returns how many of them no hub delivered."""
        late = self._tally.late.setdefault(publisher.habit.name, array("d"))
        until = self._end - COUNTED_DAYS_BEFORE_END * DAY
        pushed = 0
        for posted in publisher.posts[known:count]:
            brought = self._push and publisher.habit.push and self._rng.random() < PUSH_WORKS
            pushed += brought
            if posted < until:
                late.append(PUSH_SECONDS if brought else now - posted)
        return count - known - pushed

    def _close(self, feed: Polled) -> None:
        """Record at the end how late the posts are that weren't found."""
        publisher = feed.publisher
        self._tally.feeds[publisher.habit.name] += 1
        if not publisher.habit.gone:
            self._find(publisher, feed.known, publisher.count(self._end), self._end)
        self._tally.after_gone += publisher.after_gone
        self._tally.too_early += publisher.too_early

    def _note_hold(self, number: int, until: float, now: float) -> None:
        """Hold the host if three feeds wait, like `feeds/lua/schedule_hold.lua`."""
        waiting = self._waiting
        waiting[number] = min(until, now + LONGEST_HOLD)
        for other in [other for other, end in waiting.items() if end <= now]:
            del waiting[other]
        if len(waiting) >= FEEDS_FOR_A_HOLD:
            self._hold = sorted(waiting.values(), reverse=True)[FEEDS_FOR_A_HOLD - 1]

    def _is_held(self, moment: float) -> bool:
        return sum(end > moment for end in self._waiting.values()) >= FEEDS_FOR_A_HOLD
