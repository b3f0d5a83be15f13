"""The followers that get a post at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from microsub.base.clock import DAY
from microsub.configuration.model import DeliverySettings
from microsub.delivery.delivery import chooses, recipients

NOW = 1_700_000_000.0
PLACES = [("ann", "home"), ("ann", "work"), ("bob", "home"), ("eve", "home")]
SEEN = {"ann": NOW - 3 * DAY, "bob": NOW - 60}


def test_by_default_all_followers_get_posts_at_once() -> None:
    """In this case the times when users were last seen aren't needed."""
    assert recipients(PLACES, {}, DeliverySettings(), NOW)[0] == PLACES
    assert not chooses(DeliverySettings(fan_out_limit=4), 4)
    assert chooses(DeliverySettings(fan_out_limit=3), 4)
    assert chooses(DeliverySettings(away_days=1), 1)


def test_the_most_recently_active_come_first() -> None:
    """The order of the list decides between channels of a user, and between users who were never seen."""
    now, later = recipients(PLACES, SEEN, DeliverySettings(fan_out_limit=2), NOW)
    assert [now, later] == [[PLACES[2], PLACES[0]], [PLACES[1], PLACES[3]]]


def test_posts_of_absent_users_wait() -> None:
    """Users who were never seen don't either; a limit counts only users who are present."""
    now, later = recipients(PLACES, SEEN, DeliverySettings(away_days=2), NOW)
    assert [now, later] == [[PLACES[2]], [PLACES[0], PLACES[1], PLACES[3]]]
    now, later = recipients(PLACES, SEEN, DeliverySettings(away_days=4, fan_out_limit=2), NOW)
    assert now == [PLACES[2], PLACES[0]]


@given(
    st.sets(st.tuples(st.sampled_from("abcdef"), st.sampled_from("xyz"))).map(sorted),
    st.dictionaries(st.sampled_from("abcdef"), st.floats(0, NOW)),
    st.integers(0, 5),
    st.sampled_from([0, 1, 1000]),
)
def test_every_follower_is_in_one_list_once(places, seen, limit, days) -> None:
    """Each channel is in one of the lists, once; at most `limit` get it now, those seen last first."""
    now, later = recipients(places, seen, DeliverySettings(fan_out_limit=limit, away_days=days), NOW)
    assert sorted([*now, *later]) == list(places)
    assert not limit or len(now) <= limit
    if now and later:
        assert min(seen.get(user, -1) for user, _ in now) >= max(seen.get(user, -1) for user, _ in later)
