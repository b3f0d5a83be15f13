"""The results of the politeness simulation at any size, and that it follows its own rules."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from benchmarks.politeness import Compared, Size, active, compare, document, main, quantiles, table
from benchmarks.publishers import DAY, HABITS, HOSTER, HOUR, Host, Publisher, habit_of, publisher
from benchmarks.simulation import Tally, adaptive, fixed, play
from microsub.polling.plan import PollPolicy

WEEK = Size(feeds=300, days=7)


@pytest.fixture(scope="module")
def week() -> Compared:
    return compare(WEEK)


def per_day(tally: Tally, habit: str) -> float:
    """Requests per feed of that habit and day."""
    return tally.requests[habit] / tally.feeds[habit] / WEEK.days


def test_fewer_requests_find_the_posts_of_active_feeds_earlier(week: Compared) -> None:
    """Less than two thirds of the hourly schedule's requests; median and p90 of the delay are better."""
    assert week.adaptive.total < 0.67 * week.fixed.total
    for ours, theirs in list(zip(quantiles(active(week.adaptive)), quantiles(active(week.fixed)), strict=True))[:2]:
        assert ours < theirs


@pytest.mark.parametrize("habit", ["news site, 40 a day", "lively, 12 a day"])
def test_news_is_new(week: Compared, habit: str) -> None:
    """Posts of livelier feeds are found earlier, including the slowest one in a hundred."""
    ours, theirs = quantiles(week.adaptive.late[habit]), quantiles(week.fixed.late[habit])
    assert all(mine < other for mine, other in zip(ours, theirs, strict=True))


@pytest.mark.parametrize(
    ("habit", "most"),
    [("silent for years", 2), ("lively, if its hub were used", 3), ("monthly blog", 6), ("daily, restless page", 20)],
)
def test_quiet_feeds_are_polled_rarely(week: Compared, habit: str, most: float) -> None:
    """Requests per feed and day; a page that differs each time has no more posts."""
    assert per_day(week.adaptive, habit) < most


def test_publishers_wishes_are_respected(week: Compared) -> None:
    """No request after a 410, before the end of a Retry-After, to a host on hold, or twice in a second."""
    ours, theirs = week.adaptive, week.fixed
    assert (ours.after_gone, ours.too_early, ours.in_host_hold) == (0, 0, 0)
    assert ours.closest >= 1
    assert theirs.after_gone > 0, "the simulation has no 410"
    assert theirs.failures > 4 * ours.failures > 0


def test_most_requests_are_conditional(week: Compared) -> None:
    """All but the first of each feed and those of feeds without validators; most are answered with 304."""
    assert week.adaptive.conditional > 0.9 * week.adaptive.total
    assert week.adaptive.not_modified > 0.5 * week.adaptive.total


def test_both_schedules_meet_the_same_posts(week: Compared) -> None:
    """Every post counts once in each, except for feeds that are gone."""
    for habit in HABITS:
        if not habit.gone:
            assert len(week.adaptive.late.get(habit.name, ())) == len(week.fixed.late.get(habit.name, ()))


def test_a_host_in_trouble_is_left_alone() -> None:
    """A host with 60 feeds asks for pauses for four hours: it gets three requests in two hours."""
    pauses = ((HOUR, 5 * HOUR),)
    pressed = play([_hoster(60, pauses)], fixed(HOUR), DAY, push=False)
    ours = play([_hoster(60, pauses)], adaptive(PollPolicy(daily=HOUR)), DAY, push=False)
    assert pressed.failures >= 3 * 60
    assert 3 <= ours.failures <= 9
    assert (ours.too_early, ours.in_host_hold) == (0, 0)
    assert ours.total > 10 * 60


def test_thousands_on_one_host_queue() -> None:
    """3,000 feeds of a host are followed at once: all are polled in turn, and never two in a second."""
    found = play([_hoster(3000, ())], adaptive(PollPolicy()), DAY, push=False)
    assert found.closest >= 1
    assert found.busiest_minute <= 60
    assert found.total > 3000


def test_the_same_seed_gives_the_same_figures() -> None:
    """The number of processes doesn't matter; another seed gives other figures."""
    small = Size(feeds=40, days=3)
    once = document(compare(small))
    assert once == document(compare(small, processes=2))
    assert once["adaptive"] != document(compare(replace(small, seed=2)))["adaptive"]


def test_every_habit_has_its_share() -> None:
    """The shares add up to 100, and each kind of feed occurs among a hundred."""
    assert sum(habit.share for habit in HABITS) == 100
    assert {habit_of(number, 100).name for number in range(100)} == {habit.name for habit in HABITS}
    news = publisher(0, 100, 30 * DAY, seed=1)
    assert news.posts == sorted(news.posts)
    assert news.posts == publisher(0, 100, 30 * DAY, seed=1).posts


def test_the_table_and_the_figures(tmp_path, capsys) -> None:
    """One row for each habit; the same figures as JSON."""
    target = tmp_path / "found.json"
    assert main(["--feeds", "32", "--days", "3", "--processes", "1", "--json", str(target)]) == 0
    printed = capsys.readouterr().out
    assert all(f"| {habit.name} |" in printed for habit in HABITS)
    assert '"requests per day"' in target.read_text()
    assert "requests per day" in "\n".join(table(compare(Size(feeds=16, days=3))))


def _hoster(feeds: int, pauses: tuple[tuple[float, float], ...]) -> Host:
    some = (Publisher(HOSTER, [-DAY, number * 60.0], pauses=pauses) for number in range(feeds))
    return Host("hoster", tuple(some), Random(1))
