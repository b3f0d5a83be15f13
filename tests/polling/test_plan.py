"""The next poll of a feed, politeness and moves: decisions, and the data in the record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from microsub.configuration.model import FeedPolicy, HostPolicy, InstanceSettings, Polling
from microsub.feeds.condition import LONGEST_HOLD, held_now, held_until
from microsub.feeds.record import FeedRecord
from microsub.polling.plan import (
    Failed,
    FeedAnswered,
    Outcome,
    PollHistory,
    PollPolicy,
    fields_of,
    guess_gap,
    has_moved,
    history_of,
    host_limits,
    interval_for,
    plan_next,
    poll_policy,
    with_sighting,
)

SETTINGS = InstanceSettings(
    polling=Polling(min_interval=600, max_interval=7200, host_interval=2, host_concurrency=1),
    hosts={"own.test": HostPolicy(interval=0, concurrency=8), "half.test": HostPolicy(concurrency=2)},
    feeds={"HTTP://Demo.Test:80/feed": FeedPolicy(interval=5), "http://ttl.test/": FeedPolicy(ttl=60)},
)


def test_hosts() -> None:
    """The instance's setting fills in for a host's missing one."""
    found = [host_limits(SETTINGS, host) for host in ("own.test", "half.test", "other.test")]
    assert found == [(0, 8), (2, 2), (2, 1)]


def test_feeds() -> None:
    """Any spelling of its URL finds a feed's own policy; the bounds are the instance's."""
    assert poll_policy(SETTINGS, "http://demo.test/feed").fixed == 5
    assert poll_policy(SETTINGS, "http://demo.test/feed").ttl is None
    own = poll_policy(SETTINGS, "http://ttl.test/")
    assert (own.least, own.most, own.fixed, own.ttl) == (600, 7200, None, 60)
    plain = poll_policy(SETTINGS, "http://else.test/")
    assert (plain.least, plain.most, plain.fixed, plain.ttl) == (600, 7200, None, None)


def test_what_a_follower_chose() -> None:
    """Their interval has the instance's bounds; backend.json comes first."""
    chosen = FeedPolicy(interval=60, user_agent="browser")
    plain = poll_policy(SETTINGS, "http://else.test/", chosen)
    assert (plain.fixed, plain.user_agent) == (600, "browser")
    assert poll_policy(SETTINGS, "http://else.test/", FeedPolicy(interval=9e9)).fixed == 7200
    assert poll_policy(SETTINGS, "http://demo.test/feed", chosen).fixed == 5
    own = replace(SETTINGS, feeds={"http://else.test/": FeedPolicy(user_agent="compatible")})
    assert poll_policy(own, "http://else.test/", chosen).user_agent == "compatible"


NOW = 1_800_000_000.0
URL = "http://blog.test/feed"


def record(fields: dict[str, str | None]) -> FeedRecord:
    """The record as the store would return it."""
    own = {name: fields[name] for name in ("gap", "last_change", "max_age", "hold_until") if fields.get(name)}
    times = {name: float(fields[name] or 0) for name in ("interval", "moved_since") if fields.get(name)}
    counts = {name: int(fields[name] or 0) for name in ("failures", "moved_seen") if name in fields}
    return FeedRecord("1", URL, moved_to=fields.get("moved_to"), extra={"ttl": "60", **own}, **times, **counts)


@pytest.mark.parametrize("outcome", [FeedAnswered(new=3, max_age=900.5), Failed("timeout", "10 s")])
def test_the_history_equals_the_plan(outcome: Outcome) -> None:
    """The history for the next poll is equal to this plan, to the millisecond."""
    before = PollHistory(interval=500, gap=4000.25, last_change=NOW - 9, failures=2, ttl=60, max_age=7)
    plan = plan_next(before, outcome, NOW, 0.5)
    sighted = with_sighting(before, "http://new.test/", NOW)
    after = history_of(record(fields_of(outcome, plan, sighted, NOW - 1, NOW)), NOW)
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
    """The record has the reason, and has no next poll."""
    outcome = Failed("gone", "the server answered 410")
    fields = fields_of(outcome, plan_next(PollHistory(), outcome, NOW, 0), None, NOW, NOW)
    assert (fields["gone"], fields["next_poll"]) == ("1", None)
    assert fields["last_error"] == "gone: the server answered 410"


@pytest.mark.parametrize(
    ("text", "until"),
    [(None, None), ("nonsense", None), (f"{NOW - 1}", None), (f"{NOW + 60}", NOW + 60), ("9e12", None)],
)
def test_a_hold_that_is_in_force(text: str | None, until: float | None) -> None:
    """An expired or unreadable hold, or one from a clock that was wrong, has no effect."""
    extra = {} if text is None else {"hold_until": text}
    assert held_until(FeedRecord("1", URL, extra=extra), NOW) == until


def test_a_record_that_is_no_number() -> None:
    """Corrupt fields count as unknown."""
    history = history_of(FeedRecord("1", URL, extra={"gap": "x", "last_change": "", "ttl": "-", "push": "yes"}), NOW)
    assert history == PollHistory()


HOUR = 3600.0
DAY = 24 * HOUR


def wait(plan: PollHistory) -> float:
    assert plan.next_poll is not None
    return plan.next_poll - NOW


CAP = 48 * HOUR / 1.25
"""The base of the longest wait that a publisher can ask for; jitter is added."""

SELDOM = 24 * HOUR / 1.25
LIVELY = PollHistory(gap=DAY / 16, last_change=NOW - 60)
DAILY = PollHistory(gap=DAY, last_change=NOW - 100)

ANSWERS = {
    "posts daily": (DAILY, FeedAnswered(), 1.5 * HOUR),
    "posts 16 times a day": (LIVELY, FeedAnswered(), 1.5 * HOUR / 4),
    "posts all the time": (PollHistory(gap=60, last_change=NOW - 60), FeedAnswered(new=5), 300),
    "posts every nine days": (PollHistory(gap=9 * DAY, last_change=NOW - DAY), FeedAnswered(), 4.5 * HOUR),
    "was lively, silent for a day": (PollHistory(gap=HOUR, last_change=NOW - DAY), FeedAnswered(), 1.5 * HOUR),
    "was lively, silent for 25 days": (PollHistory(gap=HOUR, last_change=NOW - 25 * DAY), FeedAnswered(), 7.5 * HOUR),
    "was lively, silent for years": (PollHistory(gap=HOUR, last_change=NOW - 900 * DAY), FeedAnswered(), SELDOM),
    "new, without dates": (PollHistory(), FeedAnswered(new=3), 1.5 * HOUR),
    "new, ten posts in ten days": (
        PollHistory(),
        FeedAnswered(new=10, dates=tuple(NOW - day * DAY for day in range(1, 11))),
        1.5 * HOUR,
    ),
    "new, silent for years": (PollHistory(), FeedAnswered(new=9, dates=(NOW - 900 * DAY,)), SELDOM),
    "new, all dates in the future": (PollHistory(), FeedAnswered(new=9, dates=(NOW + 900 * DAY,)), 1.5 * HOUR),
    "edits only": (PollHistory(gap=DAY, last_change=NOW - 4 * DAY), FeedAnswered(updated=20), 3 * HOUR),
    "max-age raises": (LIVELY, FeedAnswered(max_age=2 * HOUR), 2 * HOUR),
    "max-age never lowers": (DAILY, FeedAnswered(max_age=60), 1.5 * HOUR),
    "no-cache never lowers": (DAILY, FeedAnswered(max_age=0), 1.5 * HOUR),
    "max-age of 30 hours": (DAILY, FeedAnswered(max_age=30 * HOUR), 30 * HOUR),
    "max-age of 48 hours": (DAILY, FeedAnswered(max_age=48 * HOUR), CAP),
    "max-age of a year": (LIVELY, FeedAnswered(max_age=365 * DAY), CAP),
    "max-age on a 304": (LIVELY, FeedAnswered(max_age=2 * HOUR, not_modified=True), 2 * HOUR),
    "a 304 that doesn't mention it": (
        PollHistory(gap=HOUR, last_change=NOW, max_age=2 * HOUR),
        FeedAnswered(not_modified=True),
        2 * HOUR,
    ),
    "a 304 that takes it back": (
        PollHistory(gap=DAY, last_change=NOW, max_age=9 * HOUR),
        FeedAnswered(max_age=0, not_modified=True),
        1.5 * HOUR,
    ),
    "a 200 that doesn't mention it": (
        PollHistory(gap=DAY, last_change=NOW, max_age=9 * HOUR),
        FeedAnswered(),
        1.5 * HOUR,
    ),
    "ttl raises": (LIVELY, FeedAnswered(ttl=30 * HOUR), 30 * HOUR),
    "ttl never lowers": (DAILY, FeedAnswered(ttl=60), 1.5 * HOUR),
    "ttl of a year": (LIVELY, FeedAnswered(ttl=365 * DAY), CAP),
    "a ttl is remembered": (PollHistory(gap=HOUR, last_change=NOW, ttl=5 * HOUR), FeedAnswered(), 5 * HOUR),
    "the longer of ttl and max-age": (LIVELY, FeedAnswered(ttl=5 * HOUR, max_age=6 * HOUR), 6 * HOUR),
    "WebSub": (PollHistory(gap=HOUR, last_change=NOW, push=True), FeedAnswered(), SELDOM),
    "WebSub, and the hub missed a post": (
        PollHistory(gap=DAY, last_change=NOW - DAY, push=True),
        FeedAnswered(new=1),
        5400,
    ),
    "WebSub, and a wish for 30 hours": (
        PollHistory(gap=HOUR, last_change=NOW, push=True),
        FeedAnswered(max_age=30 * HOUR),
        30 * HOUR,
    ),
    "the clock was set back by years": (PollHistory(gap=DAY, last_change=NOW + 900 * DAY), FeedAnswered(), 1.5 * HOUR),
    "the clock was set ahead by years": (PollHistory(gap=DAY, last_change=NOW - 9000 * DAY), FeedAnswered(), SELDOM),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_interval_follows_the_feed(case: str) -> None:
    """The shortest possible wait is that of the table, the longest a quarter more."""
    history, answer, base = ANSWERS[case]
    assert wait(plan_next(history, answer, NOW, 0.0)) == pytest.approx(base)
    assert wait(plan_next(history, answer, NOW, 1.0)) == pytest.approx(base * 1.25)


@pytest.mark.parametrize("gap", [1, 60, HOUR, DAY, 365 * DAY])
@pytest.mark.parametrize("max_age", [None, 0, HOUR, 40 * HOUR, 1000 * HOUR])
@pytest.mark.parametrize("random", [0.0, 0.3, 0.999999])
def test_waits_stay_in_bounds(gap: float, max_age: float | None, random: float) -> None:
    """Never under 5 minutes, over 24 hours only if the publisher asks for it, never over 48."""
    history = PollHistory(gap=gap, last_change=NOW - gap)
    found = wait(plan_next(history, FeedAnswered(new=1, max_age=max_age), NOW, random))
    assert 300 <= found <= 48 * HOUR + 1
    if not max_age or max_age <= 300:
        assert found <= 24 * HOUR + 1


@pytest.mark.parametrize("history", [PollHistory(), PollHistory(gap=DAY, last_change=NOW), PollHistory(push=True)])
@pytest.mark.parametrize("outcome", [FeedAnswered(), FeedAnswered(max_age=1000 * HOUR), Failed("timeout", "")])
def test_jitter_is_twenty_percent_at_least(history: PollHistory, outcome: FeedAnswered | Failed) -> None:
    """For each kind of wait, the latest time is at least a fifth after the earliest."""
    waits = [wait(plan_next(history, outcome, NOW, part / 100)) for part in range(100)]
    assert max(waits) >= 1.2 * min(waits)
    assert len(set(waits)) == 100


def test_the_interval_grows_with_the_square_root() -> None:
    """The interval grows with the square root of the time between posts, which finds posts earliest on average."""
    for gap in (HOUR, DAY, 9 * DAY):
        assert interval_for(4 * gap) == pytest.approx(2 * interval_for(gap))


@pytest.mark.parametrize("start", [None, 60.0, 30 * DAY])
def test_interval_settles_at_the_real_rate(start: float | None) -> None:
    """A feed that posts every six hours gets the interval for six hours, whatever its first interval."""
    history = PollHistory(gap=start, last_change=NOW)
    plan = plan_next(history, FeedAnswered(new=1), NOW, 0.0)
    for step in range(1, 40):
        plan = plan_next(history, FeedAnswered(new=1), NOW + step * 6 * HOUR, 0.0)
        history = PollHistory(gap=plan.gap, last_change=plan.last_change)
    assert history.gap == pytest.approx(6 * HOUR, rel=0.05)
    assert plan.interval == pytest.approx(interval_for(6 * HOUR), rel=0.03)


def test_silence_slows_polls_and_a_post_speeds_them_up() -> None:
    """A daily blog that pauses for a year is polled less and less; after the next posts it is polled as before."""
    history, now, waits = PollHistory(gap=DAY, last_change=NOW), NOW, []
    while now < NOW + 365 * DAY:
        plan = plan_next(history, FeedAnswered(not_modified=True), now, 0.5)
        waits.append(plan.next_poll - now)
        history, now = PollHistory(gap=plan.gap, last_change=plan.last_change), plan.next_poll
    assert waits == sorted(waits)
    assert waits[0] < 2 * HOUR
    assert waits[-1] > 20 * HOUR
    for _ in range(8):
        now += DAY
        plan = plan_next(history, FeedAnswered(new=1), now, 0.0)
        history = PollHistory(gap=plan.gap, last_change=plan.last_change)
    assert plan.interval < 3 * HOUR


def test_a_page_that_differs_at_every_look_is_not_hunted() -> None:
    """Counters and advertisements edit the entries all the time; the interval depends only on new posts."""
    history, now = PollHistory(gap=DAY, last_change=NOW), NOW
    for _ in range(50):
        plan = plan_next(history, FeedAnswered(updated=20), now, 0.0)
        assert plan.interval >= 1.5 * HOUR
        history, now = PollHistory(gap=plan.gap, last_change=plan.last_change), plan.next_poll


def test_an_archive_that_comes_again_is_one_surprise() -> None:
    """300 entries with new guids at once shorten the interval a little, not a hundred times."""
    plan = plan_next(DAILY, FeedAnswered(new=300), NOW, 0.0)
    assert 0.8 * 5400 < plan.interval < 5400


ADMINS = {
    "a fixed interval of five seconds": (PollPolicy(fixed=5), DAILY, FeedAnswered(), 5),
    "a fixed interval of two days": (PollPolicy(fixed=2 * DAY), LIVELY, FeedAnswered(), CAP),
    "a fixed interval, WebSub": (PollPolicy(fixed=HOUR), PollHistory(push=True), FeedAnswered(), HOUR),
    "a fixed interval, raised by a wish": (PollPolicy(fixed=60), DAILY, FeedAnswered(max_age=HOUR), HOUR),
    "a fixed interval, with a time to live": (PollPolicy(fixed=60, ttl=0), DAILY, FeedAnswered(max_age=HOUR), 60),
    "a time to live raises": (PollPolicy(ttl=10 * HOUR), DAILY, FeedAnswered(), 10 * HOUR),
    "a time to live replaces longer wishes": (
        PollPolicy(ttl=2 * HOUR),
        DAILY,
        FeedAnswered(max_age=DAY, ttl=DAY),
        2 * HOUR,
    ),
    "a time to live replaces shorter wishes": (PollPolicy(ttl=5 * HOUR), DAILY, FeedAnswered(max_age=HOUR), 5 * HOUR),
    "a time to live of nothing": (PollPolicy(ttl=0), DAILY, FeedAnswered(max_age=DAY, ttl=DAY), 1.5 * HOUR),
    "at least ten hours": (PollPolicy(least=10 * HOUR), LIVELY, FeedAnswered(), 10 * HOUR),
    "at most an hour": (PollPolicy(most=HOUR), DAILY, FeedAnswered(), HOUR / 1.25),
    "at most an hour, and a wish": (PollPolicy(most=HOUR), DAILY, FeedAnswered(max_age=3 * HOUR), 3 * HOUR),
    "least and most the same": (PollPolicy(least=HOUR, most=HOUR), DAILY, FeedAnswered(), HOUR / 1.25),
}


@pytest.mark.parametrize("case", ADMINS)
def test_the_admins_settings_precede(case: str) -> None:
    """`interval` replaces the adaptive interval, `ttl` the publisher's wishes; bounds apply."""
    policy, history, answer, base = ADMINS[case]
    assert wait(plan_next(history, answer, NOW, 0.0, policy)) == pytest.approx(base)
    assert wait(plan_next(history, answer, NOW, 1.0, policy)) == pytest.approx(base * 1.25)


def test_failures_back_off_from_a_fixed_interval() -> None:
    """Five seconds, doubled three times."""
    assert wait(plan_next(PollHistory(failures=3), Failed("connect", ""), NOW, 0.0, PollPolicy(fixed=5))) == 40


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
    """Each consecutive failure doubles the wait, from the feed's own interval up to 24 hours."""
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
    """No request is made before the publisher's time; the back-off still counts."""
    plan = plan_next(PollHistory(), Failed("throttled", "429", retry_after), NOW, 0.0)
    assert wait(plan) == pytest.approx(shortest)
    assert plan.hold_until == NOW + min(retry_after, LONGEST_HOLD)


@pytest.mark.parametrize("random", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("retry_after", [400.0, 7200.0, 47 * HOUR])
@pytest.mark.parametrize("failures", [0, 3, 100])
def test_no_poll_before_retry_after(retry_after: float, failures: int, random: float) -> None:
    """Neither jitter nor back-off leads to an earlier poll, and not all feeds of a host are polled at that moment."""
    plan = plan_next(PollHistory(failures=failures), Failed("throttled", "503", retry_after), NOW, random)
    assert wait(plan) >= retry_after * (1 + 0.25 * random)
    assert plan.hold_until == NOW + retry_after


HOLDS = [
    (None, False),
    (NOW - 1, False),
    (NOW, False),
    (NOW + 1, True),
    (NOW + LONGEST_HOLD, True),
    (NOW + LONGEST_HOLD + HOUR, True),
    (NOW + 365 * DAY, False),
]


@pytest.mark.parametrize(("until", "held"), HOLDS)
def test_holds_end(until: float | None, held: bool) -> None:
    """A hold ends at its time; one from a clock that was a year ahead is ignored."""
    assert held_now(until, NOW) is held


@pytest.mark.parametrize("outcome", [Failed("timeout", ""), Failed("throttled", "", 60), Failed("gone", "410")])
def test_a_failure_teaches_nothing(outcome: Failed) -> None:
    """The learnt interval stays for the time when the feed answers again."""
    history = PollHistory(interval=HOUR, gap=DAY, last_change=NOW - DAY, max_age=60)
    plan = plan_next(history, outcome, NOW, 0.5)
    assert (plan.interval, plan.gap, plan.last_change) == (HOUR, DAY, NOW - DAY)
    if outcome.reason != "gone":
        assert plan.max_age == 60


def test_gone_stops() -> None:
    """After a 410 there is no next poll."""
    assert plan_next(PollHistory(interval=HOUR), Failed("gone", "410"), NOW, 0.5).next_poll is None


def test_success_ends_the_back_off() -> None:
    """One answer resets the count of failures."""
    assert plan_next(PollHistory(gap=HOUR, last_change=NOW, failures=9), FeedAnswered(), NOW, 0.0).failures == 0


MOVES = {
    "seen once": ([(0, "b")], False),
    "three times within a day": ([(0, "b"), (1, "b"), (23.9, "b")], False),
    "twice over two days": ([(0, "b"), (48, "b")], False),
    "three times over a day": ([(0, "b"), (12, "b"), (24, "b")], True),
    "often, then over a day": ([(0, "b"), (1, "b"), (2, "b"), (3, "b"), (25, "b")], True),
    "the target changed": ([(0, "b"), (12, "b"), (24, "c")], False),
    "the old address answered meanwhile": ([(0, "b"), (12, None), (24, "b"), (30, "b")], False),
    "the clock was ahead at first": ([(9000, "b"), (0, "b"), (12, "b"), (23, "b")], False),
    "the clock was ahead at first, then a day": ([(9000, "b"), (0, "b"), (12, "b"), (24, "b")], True),
}


@pytest.mark.parametrize("case", MOVES)
def test_a_feed_moves_after_three_sightings_over_a_day(case: str) -> None:
    """One permanent redirect proves nothing: hotel networks and broken deployments send them, too."""
    sightings, moves = MOVES[case]
    history = PollHistory()
    for hours, target in sightings:
        history = with_sighting(history, target, NOW + hours * HOUR)
    assert has_moved(history, NOW + sightings[-1][0] * HOUR) is moves


def test_the_first_guess_uses_the_newest_dates() -> None:
    """Years of archive don't hide that the blog is lively now; future dates are ignored."""
    lively = [NOW - n * HOUR for n in range(1, 11)] + [NOW - 1000 * DAY] * 50 + [NOW + DAY]
    assert guess_gap(lively, NOW) == HOUR
    assert guess_gap([], NOW) is None


COSTLY = {
    "takes longer than the feed's posts": (LIVELY, FeedAnswered(seconds=20), 20 * 600),
    "costs less than the feed's pace": (LIVELY, FeedAnswered(seconds=0.5), 1.5 * HOUR / 4),
    "never above the longest wait": (LIVELY, FeedAnswered(seconds=3000), SELDOM),
    "with push, seldom as it is": (PollHistory(push=True), FeedAnswered(seconds=20), SELDOM),
    "a publisher's wish may be longer": (LIVELY, FeedAnswered(seconds=20, max_age=5 * HOUR), 5 * HOUR),
    "failed after all its time": (PollHistory(interval=300), Failed("parse", "", seconds=20), 20 * 600),
    "failed twice": (PollHistory(interval=300, failures=1), Failed("parse", "", seconds=20), 2 * 20 * 600),
    "failed at once": (PollHistory(interval=300), Failed("parse", "", seconds=0.01), 300),
}


@pytest.mark.parametrize(("history", "outcome", "base"), COSTLY.values(), ids=COSTLY)
def test_a_feed_that_is_costly_to_read_is_polled_less(
    history: PollHistory, outcome: FeedAnswered | Failed, base: float
) -> None:
    """The wait is at least 600 times the processor time of its document."""
    assert wait(plan_next(history, outcome, NOW, 0.0)) == pytest.approx(base)
    assert wait(plan_next(history, outcome, NOW, 1.0)) == pytest.approx(base * 1.25)
