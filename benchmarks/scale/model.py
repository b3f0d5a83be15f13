"""From costs and habits to processors, memory and network for any number of users. Pure.

The steps: users → feeds and subscriptions (`population`) → what a day brings and what is kept (`Day`, `Stock`) → what
that takes (`predict`). What is assumed about people and publishers stands in `Habits`, each with its reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.scale.costs import SHORT_SET, Costs, Memory, Work

DAY = 86_400.0
SECOND = 1e6
"""Microseconds."""
GIB = 1024.0**3


@dataclass(frozen=True, slots=True)
class Kind:
    """Feeds that post and are asked so many times a day. `share` is their part of all feeds."""

    share: float
    posts: float
    polls: float


KINDS = (
    Kind(0.03, 42, 79),
    Kind(0.10, 13, 25),
    Kind(0.05, 3.1, 19),
    Kind(0.20, 1.0, 13),
    Kind(0.30, 0.45, 7),
    Kind(0.14, 0.16, 5),
    Kind(0.18, 0.03, 2),
)
"""The publishers of `make simulate` (docs/explanation/polling.md), those that are alike taken together."""


@dataclass(frozen=True, slots=True)
class Habits:
    """What is assumed of people and publishers. Days, bytes, and numbers per day.

    `growth`: distinct feeds grow with the number of users to that power; 0.675 makes 100 feeds of one reader 50,000 of
    ten thousand. `unchanged` is the share of polls that bring a document in which nothing is new, `packed` what is left
    of a document in the cache. `reads` is the share of posts that are ever read, `visits` that of users who read on a
    day, `known` that of a page's posts which the process has in memory; the busiest hour has `peak` times the average.
    `age` is how long the server has been running.
    """

    feeds: float = 100
    channels: float = 5
    growth: float = 0.675
    kinds: tuple[Kind, ...] = KINDS
    unchanged: float = 0.05
    item_bytes: float = 1_800
    document_bytes: float = 27_000
    packed: float = 0.2
    first_items: float = 20
    age: float = 365
    reads: float = 0.3
    visits: float = 0.5
    pages: float = 30
    lists: float = 30
    marks: float = 30
    known: float = 0.5
    peak: float = 3


@dataclass(frozen=True, slots=True)
class Keeping:
    """The product's defaults for what is kept, days and posts; how often a day a channel is looked at and everything
    is, and seconds between looks for posts that are stuck.
    """

    read_days: float = 30
    unread_days: float = 180
    timeline: float = 2000
    per_feed: float = 300
    copy_hours: float = 1
    looks: float = 4
    walks: float = 1
    reminders: float = 600


@dataclass(frozen=True, slots=True)
class Machines:
    """What a process and a node are good for: shares of a processor that may be busy in the busiest hour; how many
    times the data Redis must have (fragments, and what it copies while it rewrites its file); bytes of a node.
    """

    process: float = 0.6
    redis: float = 0.5
    headroom: float = 1.5
    node: float = 32 * GIB


@dataclass(frozen=True, slots=True)
class Stock:
    """What lies in Redis. `sets` are sorted sets of ids: how many, and how long each is. Bytes: `item_bytes` of each
    post's JSON, `other` of everything that isn't counted apart. `long` of the `items` belong to feeds with many posts.
    """

    users: float
    channels: float
    feeds: float
    subscriptions: float
    items: float
    long: float
    item_bytes: float
    sets: tuple[tuple[float, float], ...]
    other: float = 0.0

    @property
    def ids(self) -> float:
        """Places in timelines, with those that were left."""
        return sum(number * length for number, length in self.sets)


@dataclass(frozen=True, slots=True)
class Day:
    """The events of a day."""

    not_modified: float
    unchanged: float
    news: float
    items: float
    deliveries: float
    pages: float
    lists: float
    marks: float

    @property
    def polls(self) -> float:
        """Requests to publishers."""
        return self.not_modified + self.unchanged + self.news


@dataclass(frozen=True, slots=True)
class Prediction:
    """What so many users take: bytes of Redis, seconds of processor time per day, bytes of network per day.

    `upkeep` is what one worker does for all, the sweeps of the store apart, which are `sweep`; `reminding` is what each
    worker does. `upkeep_share` is the part of a worker's time that all three take.
    """

    users: float
    stock: Stock
    day: Day
    memory: dict[str, float]
    polling: Work
    delivering: Work
    reading: Work
    upkeep: Work
    sweep: Work
    reminding: Work
    workers: float
    web: float
    nodes: float
    redis_share: float
    upkeep_share: float
    publishers_bytes: float
    readers_bytes: float

    @property
    def bytes(self) -> float:
        """All of Redis' memory."""
        return sum(self.memory.values())


def distinct_feeds(users: float, habits: Habits = Habits()) -> float:
    """How many feeds so many users follow altogether, each counted once."""
    return habits.feeds * math.pow(users, habits.growth)


def population(users: float, habits: Habits = Habits(), keeping: Keeping = Keeping()) -> Stock:
    """The contents of Redis after `age` days."""
    feeds = distinct_feeds(users, habits)
    channels = users * habits.channels
    per_channel = habits.feeds / habits.channels
    arriving = per_channel * sum(kind.share * kind.posts for kind in habits.kinds)
    read = min(keeping.read_days, habits.age) * arriving * habits.reads
    unread = min(keeping.unread_days, habits.age) * arriving * (1 - habits.reads)
    read = min(read, keeping.timeline)
    unread = min(unread, keeping.timeline - read)
    window = (read + unread) / arriving if arriving else 0.0
    stored = long = gone = 0.0
    for kind in habits.kinds:
        has = min(habits.first_items + kind.posts * habits.age, max(keeping.per_feed, kind.posts * window))
        stored += kind.share * has
        long += kind.share * has * (has > SHORT_SET)
        gone += kind.share * max(0.0, min(kind.posts * habits.age, has) - kind.posts * window)
    sets = tuple((channels, length) for length in (read + unread, unread, read, per_channel * gone))
    arrivals = (users, habits.channels * (read + unread))
    documents = sum(kind.share * min(1.0, kind.polls / 24 * keeping.copy_hours) for kind in habits.kinds)
    copies = feeds * documents * habits.document_bytes * habits.packed
    items, many = feeds * stored, feeds * long
    return Stock(
        users, channels, feeds, users * habits.feeds, items, many, habits.item_bytes, (*sets, arrivals), copies
    )


def day(users: float, habits: Habits = Habits()) -> Day:
    """The events of a day with that many users and their feeds."""
    feeds = distinct_feeds(users, habits)
    polls = feeds * sum(kind.share * kind.polls for kind in habits.kinds)
    # A post that comes within minutes of another one is found by the same poll.
    news = feeds * sum(kind.share * min(kind.posts, kind.polls) for kind in habits.kinds)
    posts = sum(kind.share * kind.posts for kind in habits.kinds)
    reading = users * habits.visits
    return Day(
        not_modified=max(0.0, polls * (1 - habits.unchanged) - news),
        unchanged=polls * habits.unchanged,
        news=news,
        items=feeds * posts,
        deliveries=users * habits.feeds * posts,
        pages=reading * habits.pages,
        lists=reading * habits.lists,
        marks=reading * habits.marks,
    )


def memory(stock: Stock, costs: Memory) -> dict[str, float]:
    """Bytes of Redis, by what they are for."""
    return {
        "posts": stock.items * (stock.item_bytes + costs.item) + stock.long * (costs.item_long - costs.item),
        "timelines": sum(number * costs.sorted_set(length) for number, length in stock.sets),
        "subscriptions": stock.subscriptions * costs.subscription,
        "feeds": stock.feeds * costs.feed,
        "users and channels": stock.users * costs.user + stock.channels * costs.channel,
        "copies of documents": stock.other,
    }


def predict(
    users: float,
    costs: Costs,
    habits: Habits = Habits(),
    keeping: Keeping = Keeping(),
    machines: Machines = Machines(),
) -> Prediction:
    """What so many users take, and how many processes and nodes that is in the busiest hour."""
    stock, today = population(users, habits, keeping), day(users, habits)
    polling, delivering, reading = _polling(today, costs), _delivering(today, costs), _reading(today, costs, habits)
    upkeep = costs.upkeep.repair * (stock.subscriptions * keeping.walks / SECOND)
    upkeep += (costs.upkeep.plan * keeping.walks + costs.upkeep.clean * keeping.looks) * (stock.channels / SECOND)
    sweep = costs.upkeep.sweep * (_reachable(stock) * keeping.walks / SECOND)
    # A look follows the last one after a pause. Each worker remembers what it saw, so each does its own.
    reminding = costs.upkeep.remind * (stock.feeds / SECOND)
    reminding *= DAY / (keeping.reminders + reminding.ours + reminding.redis)
    each = reminding.ours / DAY
    alone = (upkeep.ours + sweep.ours) / DAY
    busy = (polling.ours + delivering.ours) * habits.peak / DAY + alone
    workers = max(1.0, busy / max(machines.process - each, 0.05))
    processors = max(1.0, reading.ours / DAY * habits.peak / machines.process)
    share = (polling.redis + delivering.redis + reading.redis) / DAY * habits.peak
    share += (math.ceil(workers) * reminding.redis + upkeep.redis + sweep.redis) / DAY
    parts = memory(stock, costs.memory)
    held = sum(parts.values()) * machines.headroom
    return Prediction(
        users=users,
        stock=stock,
        day=today,
        memory=parts,
        polling=polling,
        delivering=delivering,
        reading=reading,
        upkeep=upkeep,
        sweep=sweep,
        reminding=reminding,
        workers=workers,
        web=processors,
        nodes=max(1.0, held / machines.node, share / machines.redis),
        redis_share=share,
        upkeep_share=each + alone,
        publishers_bytes=_publishers_bytes(today, costs, habits),
        readers_bytes=today.pages * costs.reading.page_bytes
        + today.lists * costs.reading.channels_bytes
        + today.marks * costs.reading.mark_bytes,
    )


def limit(holds: Callable[[float], bool], most: float = 1e9) -> float:
    """The largest number of users for which that holds, to within one in a thousand; `most` where it always does."""
    low, high = 1.0, most
    if holds(high):
        return high
    if not holds(low):
        return 0.0
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _reachable(stock: Stock) -> float:
    """Ids that a sweep walks: of the posts of timelines, the first of `sets`."""
    number, length = stock.sets[0]
    return number * length


def _polling(today: Day, costs: Costs) -> Work:
    poll = costs.polling
    work = poll.not_modified * today.not_modified + poll.unchanged * today.unchanged + poll.news * today.news
    work += poll.item * max(0.0, today.items - today.news) + poll.handshake * today.polls
    return work * (1 / SECOND)


def _delivering(today: Day, costs: Costs) -> Work:
    # The first delivery of each post is part of its poll.
    return costs.delivery * (max(0.0, today.deliveries - today.items) / SECOND)


def _reading(today: Day, costs: Costs, habits: Habits) -> Work:
    read = costs.reading
    page = read.page + read.miss * (20 * (1 - habits.known))
    return (page * today.pages + read.channels * today.lists + read.mark * today.marks) * (1 / SECOND)


def _publishers_bytes(today: Day, costs: Costs, habits: Habits) -> float:
    poll = costs.polling
    documents = today.unchanged + today.news
    return (
        today.polls * poll.handshake_bytes
        + today.not_modified * poll.not_modified_bytes
        + documents * (poll.head_bytes + habits.document_bytes)
    )
