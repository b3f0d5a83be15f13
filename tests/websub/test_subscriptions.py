"""The next steps for a feed's subscriptions, as tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from microsub.base.clock import DAY, HOUR
from microsub.fetch import REST, FetchFailed, Reason, RequestFailure, Sending
from microsub.websub.hubs import Hubs
from microsub.websub.subscriptions import (
    END_AGAIN,
    FIRST_PAUSE,
    LATE,
    LONGEST_PAUSE,
    Callback,
    FeedSubscriptions,
    PushPlan,
    WantedSubscription,
    has_share,
    lease_of,
    new_callback,
    parted,
    pause_after,
    plan_push,
    spend,
)

NOW = 1_700_000_000.0
WANTED, OTHER = (
    WantedSubscription("https://hub.test/", "https://a.test/feed"),
    WantedSubscription("https://hub.test/", "https://b.test/feed"),
)


def callback(token: str, wanted: WantedSubscription = WANTED, asked: float = -HOUR) -> Callback:
    return Callback(token, "secret", wanted.hub, wanted.topic, NOW + asked)


def verified(
    token: str, wanted: WantedSubscription = WANTED, since: float = -HOUR, lease: float = 10 * DAY
) -> Callback:
    return replace(callback(token, wanted, since - 1), verified=NOW + since, until=NOW + since + lease)


PENDING, LIVE, HALF = callback("pending"), verified("live"), verified("half", since=-5 * DAY)
ENDING, LAPSED = replace(verified("ending"), ending=NOW - HOUR), verified("lapsed", since=-11 * DAY)
ASKED = FeedSubscriptions((PENDING,), str(WANTED), 1, NOW + 600)

PLANS: dict[str, tuple[FeedSubscriptions, WantedSubscription | None, PushPlan]] = {
    "nothing is wanted": (FeedSubscriptions(), None, PushPlan()),
    "a first wish": (FeedSubscriptions(), WANTED, PushPlan(ask=True, look=NOW + FIRST_PAUSE)),
    "asked, and not verified yet": (ASKED, WANTED, PushPlan(look=NOW + 600)),
    "not verified for too long": (replace(ASKED, next=NOW - 1), WANTED, PushPlan(ask=True, look=NOW + FIRST_PAUSE)),
    "another wish asks at once": (ASKED, OTHER, PushPlan((PENDING,), ask=True, look=NOW + FIRST_PAUSE)),
    "planned while a clock was ahead": (
        replace(ASKED, next=NOW + 99 * DAY),
        WANTED,
        PushPlan(ask=True, look=NOW + FIRST_PAUSE),
    ),
    "verified": (FeedSubscriptions((LIVE,), str(WANTED)), WANTED, PushPlan(look=LIVE.renewal)),
    "half of the lease is over": (
        FeedSubscriptions((HALF,), str(WANTED)),
        WANTED,
        PushPlan(ask=True, look=NOW + FIRST_PAUSE),
    ),
    "a renewal was asked for": (
        FeedSubscriptions((HALF, PENDING), str(WANTED), 1, NOW + 600),
        WANTED,
        PushPlan(look=NOW + 600),
    ),
    "the renewal is verified": (
        FeedSubscriptions((HALF, LIVE), str(WANTED)),
        WANTED,
        PushPlan(end=(HALF,), look=NOW + END_AGAIN),
    ),
    "the end was asked for": (FeedSubscriptions((ENDING, LIVE), str(WANTED)), WANTED, PushPlan(look=NOW + END_AGAIN)),
    "the lease is over": (
        FeedSubscriptions((LAPSED,), str(WANTED)),
        WANTED,
        PushPlan((LAPSED,), ask=True, look=NOW + FIRST_PAUSE),
    ),
    "nobody follows": (
        FeedSubscriptions((LIVE, PENDING), str(WANTED)),
        None,
        PushPlan((PENDING,), (LIVE,), look=NOW + END_AGAIN),
    ),
    "another topic, not verified yet": (
        FeedSubscriptions((LIVE, callback("new", OTHER)), str(OTHER), 1, NOW + 600),
        OTHER,
        PushPlan(look=NOW + 600),
    ),
    "another topic, verified": (
        FeedSubscriptions((LIVE, verified("new", OTHER)), str(OTHER)),
        OTHER,
        PushPlan(end=(LIVE,), look=NOW + END_AGAIN),
    ),
}


@pytest.mark.parametrize("case", PLANS)
def test_plans_for_each_state(case: str) -> None:
    """The callbacks to forget, to unsubscribe and to request, and the time of the next check."""
    subscriptions, wanted, plan = PLANS[case]
    assert plan_push(subscriptions, wanted, NOW) == plan


@pytest.mark.parametrize("subscriptions", [plan[0] for plan in PLANS.values()])
def test_without_a_wanted_subscription_all_end(subscriptions: FeedSubscriptions) -> None:
    """Every callback is forgotten or unsubscribed, and nothing else is requested from a hub."""
    plan = plan_push(subscriptions, None, NOW)
    assert not plan.ask
    assert {*plan.over, *plan.end} | {ENDING} >= {*subscriptions.callbacks}
    assert plan_push(subscriptions, None, NOW + 20 * DAY + LATE) == PushPlan(subscriptions.callbacks)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        *(("3600", HOUR), ("864000", 10 * DAY), ("1", HOUR), ("0", HOUR), ("9" * 12, 14 * DAY), ("9" * 13, DAY)),
        *(("-5", DAY), ("1e9", DAY), ("", DAY), (None, DAY), ("nan", DAY)),
    ],
)
def test_leases_are_within_bounds(said: str | None, seconds: float) -> None:
    """From one hour to 14 days; one day without a valid lease."""
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
    made = new_callback(WANTED, NOW)
    assert made.token not in repr(FeedSubscriptions((made,)))
    assert made.secret not in repr(made)
    assert Callback.of(made.token, made.to_json()) == made
    assert parted(f"12.{made.token}") == ("12", made.token)
    assert parted(f"12.{made.token} ") is None


class Unreachable:
    """Sends nothing: every request fails for that reason."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        self.asked: list[str] = []

    async def send(self, sending: Sending) -> FetchFailed:
        self.asked.append(sending.url)
        return FetchFailed(sending.url, self.reason, "no reply")


async def asked(hubs: Hubs, wanted: WantedSubscription = WANTED) -> RequestFailure:
    failure = await hubs.ask("1", callback("t", wanted), "subscribe")
    assert failure is not None
    return failure


async def test_failed_requests_to_a_hub() -> None:
    """A shortage of this server is no try, an unusable address lasts, and a server that is away may be back."""
    why = "the request to the hub failed: no reply"
    assert await asked(Hubs(Unreachable("busy"), "https://reader.example")) == RequestFailure(why, ours=True)
    assert await asked(Hubs(Unreachable("private"), "https://reader.example")) == RequestFailure(why, lasting=True)
    assert await asked(Hubs(Unreachable("connect"), "https://reader.example")) == RequestFailure(why)


async def test_a_hub_that_was_away_a_moment_ago_gets_no_request() -> None:
    """It isn't tried for another feed while it rests, which says for how long; others are."""
    sender = Unreachable("connect")
    hubs = Hubs(sender, "https://reader.example")
    await asked(hubs)
    failure = await asked(hubs, OTHER)
    assert sender.asked == [WANTED.hub]
    assert failure.ours
    assert failure.retry_after is not None
    assert 0 < failure.retry_after <= REST
    await asked(hubs, WantedSubscription("https://other.test/", OTHER.topic))
    assert sender.asked == [WANTED.hub, "https://other.test/"]
