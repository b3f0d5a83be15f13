"""The next steps for a feed's subscriptions, as tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from microsub.base.clock import DAY, HOUR
from microsub.websub.agreement import (
    END_AGAIN,
    FIRST_PAUSE,
    LATE,
    LONGEST_PAUSE,
    Agreement,
    Callback,
    PushPlan,
    Wish,
    has_share,
    lease_of,
    new_callback,
    parted,
    pause_after,
    plan_push,
    spend,
)

NOW = 1_700_000_000.0
WISH, OTHER = Wish("https://hub.test/", "https://a.test/feed"), Wish("https://hub.test/", "https://b.test/feed")


def callback(token: str, wish: Wish = WISH, asked: float = -HOUR) -> Callback:
    return Callback(token, "secret", wish.hub, wish.topic, NOW + asked)


def verified(token: str, wish: Wish = WISH, since: float = -HOUR, lease: float = 10 * DAY) -> Callback:
    return replace(callback(token, wish, since - 1), verified=NOW + since, until=NOW + since + lease)


PENDING, LIVE, HALF = callback("pending"), verified("live"), verified("half", since=-5 * DAY)
ENDING, LAPSED = replace(verified("ending"), ending=NOW - HOUR), verified("lapsed", since=-11 * DAY)
ASKED = Agreement((PENDING,), str(WISH), 1, NOW + 600)

PLANS: dict[str, tuple[Agreement, Wish | None, PushPlan]] = {
    "nothing is wanted": (Agreement(), None, PushPlan()),
    "a first wish": (Agreement(), WISH, PushPlan(ask=True, look=NOW + FIRST_PAUSE)),
    "asked, and not verified yet": (ASKED, WISH, PushPlan(look=NOW + 600)),
    "not verified for too long": (replace(ASKED, next=NOW - 1), WISH, PushPlan(ask=True, look=NOW + FIRST_PAUSE)),
    "another wish asks at once": (ASKED, OTHER, PushPlan((PENDING,), ask=True, look=NOW + FIRST_PAUSE)),
    "planned while a clock was ahead": (
        replace(ASKED, next=NOW + 99 * DAY),
        WISH,
        PushPlan(ask=True, look=NOW + FIRST_PAUSE),
    ),
    "verified": (Agreement((LIVE,), str(WISH)), WISH, PushPlan(look=LIVE.renewal)),
    "half of the lease is over": (Agreement((HALF,), str(WISH)), WISH, PushPlan(ask=True, look=NOW + FIRST_PAUSE)),
    "a renewal was asked for": (Agreement((HALF, PENDING), str(WISH), 1, NOW + 600), WISH, PushPlan(look=NOW + 600)),
    "the renewal is verified": (
        Agreement((HALF, LIVE), str(WISH)),
        WISH,
        PushPlan(end=(HALF,), look=NOW + END_AGAIN),
    ),
    "the end was asked for": (Agreement((ENDING, LIVE), str(WISH)), WISH, PushPlan(look=NOW + END_AGAIN)),
    "the lease is over": (Agreement((LAPSED,), str(WISH)), WISH, PushPlan((LAPSED,), ask=True, look=NOW + FIRST_PAUSE)),
    "nobody follows": (
        Agreement((LIVE, PENDING), str(WISH)),
        None,
        PushPlan((PENDING,), (LIVE,), look=NOW + END_AGAIN),
    ),
    "another topic, not verified yet": (
        Agreement((LIVE, callback("new", OTHER)), str(OTHER), 1, NOW + 600),
        OTHER,
        PushPlan(look=NOW + 600),
    ),
    "another topic, verified": (
        Agreement((LIVE, verified("new", OTHER)), str(OTHER)),
        OTHER,
        PushPlan(end=(LIVE,), look=NOW + END_AGAIN),
    ),
}


@pytest.mark.parametrize("case", PLANS)
def test_plans_for_each_state(case: str) -> None:
    """The callbacks to forget, to unsubscribe and to request, and the time of the next check."""
    agreement, wish, plan = PLANS[case]
    assert plan_push(agreement, wish, NOW) == plan


@pytest.mark.parametrize("agreement", [plan[0] for plan in PLANS.values()])
def test_without_a_wish_all_ends(agreement: Agreement) -> None:
    """Every callback is forgotten or unsubscribed, and nothing else is requested from a hub."""
    plan = plan_push(agreement, None, NOW)
    assert not plan.ask
    assert {*plan.over, *plan.end} | {ENDING} >= {*agreement.callbacks}
    assert plan_push(agreement, None, NOW + 20 * DAY + LATE) == PushPlan(agreement.callbacks)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        *(("3600", HOUR), ("864000", 10 * DAY), ("1", HOUR), ("0", HOUR), ("9" * 12, 14 * DAY), ("9" * 13, DAY)),
        *(("-5", DAY), ("1e9", DAY), ("", DAY), (None, DAY), ("nan", DAY)),
    ],
)
def test_leases_are_within_bounds(said: str | None, seconds: float) -> None:
    """From one hour to 14 days; one day if the hub says nothing valid."""
    assert lease_of(said) == seconds


def test_pauses_grow_and_leases_hurry_them() -> None:
    """Pauses double from 15 minutes to a week, limited to a quarter of the remaining lease."""
    pauses = [pause_after(tries, None, NOW) for tries in range(20)]
    assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert pauses[-1] == LONGEST_PAUSE
    assert pause_after(9, HALF, NOW) == 5 * DAY / 4
    assert pause_after(9, replace(HALF, until=NOW + 10), NOW) == 60.0


def test_processor_time_is_a_six_hundredth() -> None:
    """An hour's share may be spent at once; a clock that was ahead costs the feed nothing."""
    spent = 0.0
    taken = 0
    while has_share(spent, NOW):
        spent = spend(spent, 1.0, NOW)
        taken += 1
    assert taken == 7
    assert not has_share(spent, NOW + 590)
    assert has_share(spent, NOW + 610)
    assert has_share(NOW + 30 * DAY, NOW)
    assert spend(NOW + 30 * DAY, 0.1, NOW) < NOW + 2 * HOUR


def test_a_callback_shows_neither_token_nor_secret() -> None:
    """The `repr` of objects that contain one doesn't show them either."""
    made = new_callback(WISH, NOW)
    assert made.token not in repr(Agreement((made,)))
    assert made.secret not in repr(made)
    assert Callback.of(made.token, made.to_json()) == made
    assert parted(f"12.{made.token}") == ("12", made.token)
    assert parted(f"12.{made.token} ") is None
