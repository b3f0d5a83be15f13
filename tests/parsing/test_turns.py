"""The order in which many callers get a parser."""

from __future__ import annotations

import pytest

from microsub.parsing.pool import Turns


def order(turns: Turns[str], seconds: float = 1.0) -> list[str]:
    """All waiting jobs in their order, if each takes `seconds`; jobs are named after their keys."""
    found = []
    while (job := turns.next()) is not None:
        found.append(job)
        turns.used(job[0], seconds)
    return found


@pytest.mark.parametrize("many", [30, 60])
def test_one_document_doesnt_wait_for_another_users_thirty(many: int) -> None:
    """This holds for 30 heavy feeds and for 60 previews.

    Behind 30 heavy feeds a new feed used to take over 150 s instead of 1.5, and behind 60 previews another one took
    38 s. It must be second, after the document that is being parsed.
    """
    turns: Turns[str] = Turns(0.05)
    for number in range(many):
        turns.add(f"a{number}", ["a"])
    assert turns.next() == "a0"
    turns.add("b0", ["b"])
    turns.used("a", 15.0)
    assert turns.next() == "b0"


def test_callers_take_turns_and_their_documents_stay_in_order() -> None:
    """A caller with more documents waits longer."""
    turns: Turns[str] = Turns(0.05)
    for job in ("a1", "a2", "a3", "b1", "b2"):
        turns.add(job, [job[0]])
    assert order(turns) == ["a1", "b1", "a2", "b2", "a3"]


def test_turns_are_shared_by_processor_time() -> None:
    """Processor time counts, not the number of documents."""
    turns: Turns[str] = Turns(0.05)
    for number in range(9):
        turns.add(f"a{number}", ["a"])
        turns.add(f"b{number}", ["b"])
    first = []
    for _ in range(10):
        job = turns.next()
        assert job is not None
        turns.used(job[0], 8.0 if job[0] == "a" else 1.0)
        first.append(job[0])
    assert first.count("a") == 2


def test_a_shared_document_counts_for_the_lightest_user() -> None:
    """A heavy user who follows the same feeds as others delays nobody."""
    turns: Turns[str] = Turns(0.05)
    turns.add("a0", ["a"])
    assert turns.next() == "a0"
    turns.used("a", 20.0)
    assert turns.add("shared", ["a", "c"]) == "c"


def test_idleness_saves_nothing_up() -> None:
    """A caller who comes late takes turns with the others from then on."""
    turns: Turns[str] = Turns(0.05)
    for number in range(4):
        turns.add(f"a{number}", ["a"])
    assert [turns.next(), turns.next()] == ["a0", "a1"]
    turns.used("a", 10.0)
    turns.used("a", 10.0)
    for number in range(4):
        turns.add(f"b{number}", ["b"])
    assert order(turns, 10.0) in (["b0", "b1", "a2", "b2", "a3", "b3"], ["b0", "a2", "b1", "a3", "b2", "b3"])


def test_an_abandoned_job_is_removed() -> None:
    """A second removal has no effect."""
    turns: Turns[str] = Turns(0.05)
    turns.add("a0", ["a"])
    assert turns.remove("a0")
    assert not turns.remove("a0")
    assert turns.next() is None


def test_keys_are_forgotten() -> None:
    """Requests come from many unknown networks."""
    turns: Turns[str] = Turns(0.05)
    for number in range(5000):
        turns.add(str(number), [str(number)])
        turns.next()
        turns.used(str(number), 0.01)
    assert len(turns._used) <= 2001
