"""The arithmetic of the model, the synthetic population, and a small run of `make scale` on a real Redis."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.scale import __main__ as command
from benchmarks.scale import observing, report
from benchmarks.scale.costs import Costs, Memory, Polling, Reading, Upkeep, Work
from benchmarks.scale.model import (
    DAY,
    GIB,
    Habits,
    Keeping,
    Kind,
    Machines,
    day,
    distinct_feeds,
    limit,
    population,
    predict,
)
from benchmarks.scale.plan import Size, deal, followers, size_for
from benchmarks.scale.polls import Handshake, Polled

SMALL = Size(users=24, per_user=10, channels=2, feeds=60, items=6)


def costs() -> Costs:
    """Round numbers."""
    one = Work(1.0, 1.0)
    return Costs(
        memory=Memory(1000, 200, 1500, 200, 1700, 1800, set_key=100, id_short=10, id_long=100, id_number=4, id_read=9),
        polling=Polling(Work(1000, 100), Work(2000, 100), Work(10_000, 1000), Work(100, 50), Work(500), 600, 700, 5000),
        reading=Reading(Work(100, 50), Work(10, 5), Work(50, 20), Work(80, 30), 36_000, 800, 600),
        delivery=Work(40, 30),
        upkeep=Upkeep(one, one, one, one, one),
    )


DAILY = Habits(
    feeds=10, channels=2, kinds=(Kind(1.0, 1.0, 10.0),), unchanged=0.1, item_bytes=2000, first_items=20, age=100,
    reads=0.5, visits=1.0, pages=2, lists=3, marks=4, packed=0.5, document_bytes=24_000,
)  # fmt: skip
"""Each user follows ten feeds in two channels; each feed posts once a day and is polled ten times."""


def test_a_day_is_what_people_and_feeds_do() -> None:
    """One reader: ten feeds and a hundred polls; ten bring new posts, ten nothing new, and the rest a 304."""
    today = day(1, DAILY)
    assert (today.polls, today.news, today.unchanged, today.not_modified) == (100, 10, 10, 80)
    assert (today.items, today.deliveries) == (10, 10)
    assert (today.pages, today.lists, today.marks) == (2, 3, 4)


def test_the_stock_is_what_retention_leaves() -> None:
    """After 100 days a channel with five daily feeds has 250 unread posts, and 75 read ones of 30 days."""
    stock = population(1, DAILY)
    assert stock.feeds == 10
    assert stock.items == 10 * 120, "the first documents' twenty posts, and one each day"
    (shown, arrivals), read = stock.sets, stock.read
    unread, gone = stock.numbers
    assert arrivals == (0.3, 2 * 325)
    assert shown == (2, 325)
    assert (unread[1], read[1]) == (250, 75)
    assert stock.newest == (2, 110)
    # 65 of each feed's 100 posts are still in the timeline.
    assert gone == (2, pytest.approx(5 * (100 - 65)))
    assert stock.other == pytest.approx(10 * 10 / 24 * 12_000), "ten polls a day: a copy is there for ten hours of 24"


def test_a_full_timeline_is_full() -> None:
    """If nobody reads, a timeline holds its maximum, and a feed the number of posts that is kept."""
    idle = replace(DAILY, reads=0.0, age=10_000)
    stock = population(1, idle, Keeping(unread_days=10_000))
    assert stock.sets[0] == (2, 2000)
    # 2,000 posts of five feeds are 400 of each, more than the 300 that the store always keeps.
    assert stock.items == 10 * 400
    assert population(1, idle, Keeping(unread_days=10)).items == 10 * 300


def test_more_users_share_their_feeds() -> None:
    """10,000 users with a hundred feeds each follow 50,000 feeds; ten times as many users follow 4.7 times as many."""
    assert distinct_feeds(1) == 100
    assert distinct_feeds(10_000) == pytest.approx(50_000, rel=0.01)
    assert distinct_feeds(100_000) / distinct_feeds(10_000) == pytest.approx(4.73, rel=0.01)
    assert predict(100_000, costs()).bytes < 100 * predict(1_000, costs()).bytes


def test_processes_and_nodes_follow_from_the_busiest_hour() -> None:
    """Twice the peak takes twice the web processes; half the node twice the nodes; slow upkeep more workers."""
    many = predict(1e8, costs())
    twice = predict(1e8, costs(), replace(Habits(), peak=2 * Habits().peak))
    assert twice.web == pytest.approx(2 * many.web)
    small = Machines(node=16 * GIB)
    assert predict(1e6, costs(), machines=small).nodes == pytest.approx(2 * predict(1e6, costs()).nodes)
    assert many.reading.ours * 3 / DAY / 0.6 == pytest.approx(many.web)
    slow = replace(costs(), upkeep=Upkeep(Work(1000, 1), Work(), Work(50_000, 1), Work(), Work()))
    assert predict(1e5, slow).upkeep_share > predict(1e5, costs()).upkeep_share
    assert predict(1e5, slow).workers > predict(1e5, costs()).workers


def test_upkeep_goes_by_what_is_due() -> None:
    """Everything once a day, each channel four times; checks for undelivered posts follow each other after a pause."""
    second, none = Work(1e6), Work()
    habits = replace(Habits(), feeds=100, channels=20)
    kinds = {
        "repair": (Upkeep(second, none, none, none, none), 1000),
        "plan": (Upkeep(none, second, none, none, none), 200),
        "clean": (Upkeep(none, none, second, none, none), 4 * 200),
    }
    for upkeep, seconds in kinds.values():
        assert predict(10, replace(costs(), upkeep=upkeep), habits).upkeep.ours == pytest.approx(seconds)
    slow = replace(costs(), upkeep=Upkeep(none, none, none, none, Work(600e6 / distinct_feeds(10, habits))))
    found = predict(10, slow, habits)
    assert found.reminding.ours == pytest.approx(DAY / 2)
    assert found.upkeep_share == pytest.approx(0.5)


def test_a_limit_is_found() -> None:
    """The largest number that is possible, zero, or the maximum that was given."""
    assert limit(lambda users: users <= 12_345) == pytest.approx(12_345, rel=0.002)
    assert limit(lambda _users: False) == 0
    assert limit(lambda _users: True, 1000) == 1000


def test_few_feeds_have_many_followers() -> None:
    """10,000 users, a million follows and 50,000 feeds; three users in ten follow the first feed."""
    size = size_for(10_000)
    counts = followers(size)
    assert (sum(counts), len(counts)) == (1_000_000, 50_000)
    assert counts[0] == pytest.approx(3000, rel=0.01)
    assert 5 < counts[25_000] < 20
    assert min(counts) >= 1
    assert followers(Size(users=1, feeds=100)) == [1] * 100
    with pytest.raises(ValueError, match="distinct"):
        followers(Size(users=2, per_user=3, feeds=7))


def test_all_follow_the_same_number_of_distinct_feeds() -> None:
    """Feeds are dealt like cards."""
    hands = deal(followers(SMALL), SMALL.users)
    assert {len(hand) for hand in hands} == {SMALL.per_user}
    assert all(len(set(hand)) == len(hand) for hand in hands)


def test_a_small_population_is_loaded_and_measured(tmp_path: Path) -> None:
    """Bulk writes are the same as the stores'. Every request, mark and delivery works, and the figures are printed as
    tables and as JSON that can be read again.
    """
    found = observing.observe(SMALL, tmp_path)
    assert found.reading.page_bytes > 10_000
    assert found.most.followers > found.few.followers
    asked = Polled(Work(700, 100), Work(900, 100), Work(9000, 700), 600, 700)
    known = (96.0, 13.0, 110.0, 4.0, 9.0, 1800.0)
    unit = observing.costs(found, asked, Handshake(Work(500), 5000), known)
    stored = json.loads(json.dumps(report.document(unit, found)))
    assert command.costs_from(stored["costs"]) == unit
    assert stored["engine"].partition(" ")[0] in {"Valkey", "Redis"}
    assert stored["predicted"]["10000"]["bytes"] > 10_000 * stored["predicted"]["1"]["bytes"] / 100
    assert "all of it" in report.check_table(found, unit)
    assert "60 feeds each" in report.check_line(found)
    stock, places = report.stock_of(found), SMALL.subscriptions * SMALL.items
    (channels, unread), (_, read) = *stock.numbers, stock.read
    assert channels * (unread + read) == pytest.approx(places)
    assert stock.ids == pytest.approx(2 * places + stock.sets[1][0] * stock.sets[1][1])
    assert stock.newest == (stock.channels, min(110, unread))
    assert found.memory["newest unread posts"] > stock.newest[0] * stock.newest[1] * 8


def test_costs_of_an_earlier_run_serve_for_other_assumptions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--costs` skips the measurement, `--set` changes assumptions, `--update` writes between the marks of a page."""
    figures, page = tmp_path / "figures.json", tmp_path / "page.md"
    figures.write_text(json.dumps({"costs": report.document_of(costs())}))
    page.write_text("a\n<!-- scale model -->\nold\n<!-- /scale model -->\nb\n")
    assert command.main(["--costs", str(figures), "--set", "feeds=200", "--update", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "| distinct feeds " in printed
    assert "what is full" in printed
    written = page.read_text()
    assert written.startswith("a\n<!-- scale model -->\n| users")
    assert "**web processes**" in written
    with pytest.raises(SystemExit):
        command.main(["--costs", str(figures), "--set", "weather=1"])
