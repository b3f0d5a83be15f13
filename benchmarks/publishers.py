"""Generated publishers for the politeness simulation: times of their posts, and responses of their servers.

Everything is derived from a seed and the feed's number, so that both schedules poll the same publishers. Times are
seconds from the start of the simulation; times before it are negative.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
WINDOW = 20
"""Entries in a document."""

AWAKE = [0.2] * 7 + [1.0] * 15 + [0.5] * 2
"""Weights of the hours of a day: people write when they are awake, newsrooms also a little at night."""
OFFICE = [0.0] * 9 + [1.0] * 8 + [0.0] * 7

Posts = Callable[[Random, float], list[float]]


def steady(per_day: float, hours: Sequence[float] = AWAKE, *, week: int = 7, spread: float = 0.4) -> Posts:
    """Posts at random times, `per_day` on average, in a time zone of the feed's own.

    `week` is the number of days of the week that have posts; `spread` is how much the feeds differ from each other.
    """

    def posts(rng: Random, end: float) -> list[float]:
        rate = per_day * math.exp(rng.gauss(0, spread))
        before = min(30 / rate, 1500) * DAY
        zone, peak = rng.randrange(24) * HOUR, max(hours)
        fastest = rate * peak * 24 / sum(hours) * 7 / week / DAY
        times, moment = [], -before
        while (moment := moment + rng.expovariate(fastest)) < end:
            local = moment + zone
            if local // DAY % 7 < week and rng.random() * peak < hours[int(local % DAY // HOUR)]:
                times.append(moment)
        return times

    return posts


def bursts(every_days: float) -> Posts:
    """Silence, then several posts within three hours."""

    def posts(rng: Random, end: float) -> list[float]:
        times, moment = [], -20 * every_days * DAY
        while (moment := moment + rng.expovariate(1 / every_days) * DAY) < end:
            times += [moment + rng.random() * 3 * HOUR for _ in range(rng.randint(4, 12))]
        return sorted(time for time in times if time < end)

    return posts


def dead(rng: Random, _end: float) -> list[float]:
    """A blog whose last post is years old."""
    last = -rng.uniform(200, 2000) * DAY
    return sorted(last - rng.random() * 300 * DAY for _ in range(WINDOW))


@dataclass(frozen=True, slots=True)
class Habit:
    """A kind of feed. `share` is in percent of all feeds; `active` ones post about daily or more often.

    `max_ages` are the lifetimes in HTTP headers, `ttls` those in documents (0: none). `restless` documents differ in
    every reply, but not in their posts; servers with `pauses` answer 503 at times, those that are `gone` 410 after a
    while; `moved` feeds redirect permanently; `push` feeds have a hub; with `hoster`, all feeds are on one host.
    """

    name: str
    share: float
    posts: Posts
    active: bool = False
    validators: bool = True
    max_ages: tuple[float, ...] = (0,)
    ttls: tuple[float, ...] = (0,)
    restless: bool = False
    pauses: bool = False
    gone: bool = False
    moved: bool = False
    push: bool = False
    hoster: bool = False


HABITS = (
    Habit("news site, 40 a day", 3, steady(40), active=True),
    Habit("lively, 12 a day", 5, steady(12), active=True),
    Habit("office hours, 4 a day", 5, steady(4 * 5 / 7, OFFICE, week=5), active=True),
    Habit("daily blog", 14, steady(1), active=True, ttls=(0, 0, HOUR)),
    Habit("weekly blog", 14, steady(1 / 7), ttls=(0, 0, HOUR)),
    Habit("monthly blog", 10, steady(1 / 30), ttls=(0, 0, HOUR)),
    Habit("bursts, every 10 days", 5, bursts(10)),
    Habit("silent for years", 7, dead),
    Habit("blog hoster, one host", 25, steady(1 / 5, spread=1.2), hoster=True, ttls=(0, HOUR)),
    Habit("daily, no validators", 2, steady(1), active=True, validators=False),
    Habit("daily, restless page", 1, steady(1), active=True, restless=True),
    Habit("lively, max-age 1 to 6 h", 2, steady(12), max_ages=(HOUR, 2 * HOUR, 6 * HOUR)),
    Habit("daily, 503 and Retry-After", 2, steady(1), pauses=True),
    Habit("daily, then 410", 1, steady(1), gone=True),
    Habit("daily, moves for good", 1, steady(1), active=True, moved=True),
    Habit("lively, if its hub were used", 3, steady(12), push=True),
)
HOSTER = next(habit for habit in HABITS if habit.hoster)


@dataclass(slots=True)
class Publisher:
    """One feed as its publisher sees it, with the publisher's demands so far, and counts of requests against them."""

    habit: Habit
    posts: list[float]
    max_age: float | None = None
    ttl: float | None = None
    gone_at: float = math.inf
    moved_at: float = math.inf
    pauses: tuple[tuple[float, float], ...] = ()
    told_gone: bool = False
    wait_until: float = -math.inf
    after_gone: int = 0
    too_early: int = 0

    def status(self, now: float) -> int:
        """The server's status at `now`: 200, 301, 410 or 503. Counts requests after a 410 or before a pause ends."""
        if self.told_gone:
            self.after_gone += 1
        if now < self.wait_until:
            self.too_early += 1
        if now >= self.gone_at:
            self.told_gone = True
            return 410
        for begin, end in self.pauses:
            if begin <= now < end:
                self.wait_until = max(self.wait_until, now + self.retry_after(now))
                return 503
        return 301 if now >= self.moved_at else 200

    def retry_after(self, now: float) -> float:
        """The pause in a 503: the rest of the disruption, at most two hours."""
        return next((min(end - now, 2 * HOUR) for begin, end in self.pauses if begin <= now < end), 0.0)

    def count(self, now: float) -> int:
        """The number of posts at `now`."""
        return bisect_right(self.posts, now)


@dataclass(frozen=True, slots=True)
class Host:
    """A host and its feeds, with its own random numbers."""

    name: str
    feeds: tuple[Publisher, ...]
    rng: Random = field(compare=False)


def habit_of(number: int, feeds: int) -> Habit:
    """The habit of the feed with that number."""
    place, upto = (number + 0.5) / feeds * 100, 0.0
    for habit in HABITS:
        upto += habit.share
        if place < upto:
            return habit
    return HABITS[-1]


def publisher(number: int, feeds: int, end: float, seed: int) -> Publisher:
    """The feed with that number."""
    rng = Random(f"{seed}/{number}")
    habit = habit_of(number, feeds)
    made = Publisher(habit, habit.posts(rng, end), rng.choice(habit.max_ages) or None, rng.choice(habit.ttls) or None)
    if habit.gone:
        made.gone_at = rng.uniform(0, end)
        made.posts = made.posts[: made.count(made.gone_at)]
    if habit.moved:
        made.moved_at = rng.uniform(0, end)
    if habit.pauses:
        made.pauses = _troubles(rng, end, every=4 * DAY)
    return made


def hosts_of(numbers: Sequence[int], feeds: int, end: float, seed: int) -> list[Host]:
    """The hosts of those feeds: the hoster's feeds share one host, which has disruptions; the others have their own."""
    made = [publisher(number, feeds, end, seed) for number in numbers]
    hosts = [
        Host(f"feed{number}", (one,), Random(f"{seed}/host/{number}"))
        for number, one in zip(numbers, made, strict=True)
        if not one.habit.hoster
    ]
    shared = tuple(one for one in made if one.habit.hoster)
    if shared:
        troubles = _troubles(Random(f"{seed}/hoster"), end, every=10 * DAY)
        for one in shared:
            one.pauses = troubles
        hosts.append(Host("hoster", shared, Random(f"{seed}/host/hoster")))
    return hosts


def _troubles(rng: Random, end: float, *, every: float) -> tuple[tuple[float, float], ...]:
    times, moment = [], 0.0
    while (moment := moment + rng.expovariate(1 / every)) < end:
        times.append((moment, moment := moment + rng.uniform(0.5, 8) * HOUR))
    return tuple(times)
