"""The follows of a generated population. Pure.

A few feeds have very many followers and most have few: the number of followers falls with a feed's rank by a power law,
whose exponent depends on the number of subscriptions. The most popular feed is followed by 30 % of all users.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.scale.model import distinct_feeds
from microsub.model.reader import BUILT_IN

TOP = 0.3
"""Share of the users who follow the most popular feed."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a population: users, follows and channels of each user, distinct feeds, posts of each feed."""

    users: int = 10_000
    per_user: int = 100
    channels: int = 5
    feeds: int = 50_000
    items: int = 10

    @property
    def subscriptions(self) -> int:
        """The number of all follows."""
        return self.users * self.per_user

    @property
    def all_channels(self) -> int:
        """The number of all channels, including those that every user has."""
        return self.users * (self.channels + len(BUILT_IN))


def size_for(users: int) -> Size:
    """The usual size for that many users: 50,000 distinct feeds for 10,000 users."""
    return Size(users=users, feeds=50_000 if users == 10_000 else round(distinct_feeds(users)))


def followers(size: Size) -> list[int]:
    """The number of followers of each feed, the most popular one first; the sum is `size.subscriptions`."""
    if not size.feeds <= size.subscriptions <= size.feeds * size.users:
        raise ValueError(f"{size.users} users with {size.per_user} feeds can't follow {size.feeds} distinct ones")
    first = min(float(size.users), max(TOP * size.users, 2.0 * size.subscriptions / size.feeds))
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if sum(_law(size, first, middle)) < size.subscriptions else (middle, high)
    found = _law(size, first, low)
    missing = size.subscriptions - sum(found)
    while missing:
        for rank in range(1, size.feeds):
            step = (missing > 0) - (missing < 0)
            if step and 1 <= found[rank] + step <= size.users:
                found[rank] += step
                missing -= step
        if missing > 0 and found[0] < size.users:
            found[0] += 1
            missing -= 1
    return found


def _law(size: Size, first: float, exponent: float) -> list[int]:
    return [max(1, min(size.users, round(first * rank**-exponent))) for rank in range(1, size.feeds + 1)]


def deal(counts: Sequence[int], users: int) -> list[list[int]]:
    """The ranks that each user follows: all users get the same number of feeds, and none twice."""
    hands: list[list[int]] = [[] for _ in range(users)]
    place = 0
    for rank, count in enumerate(counts):
        for number in range(place, place + count):
            hands[number % users].append(rank)
        place = (place + count) % users
    return hands
