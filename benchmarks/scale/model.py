"""Prediction of processors, memory and network for any number of users, from costs and habits. Pure.

The steps: users → feeds and subscriptions (`population`) → events of a day and stored data (`Day`, `Stock`) → resources
(`predict`). `Habits` has the assumptions about people and publishers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.scale.costs import SHORT_SET, Costs, Memory, Work
from microsub.timelines.pages import NEWEST

DAY = 86_400.0
SECOND = 1e6
"""A second in microseconds."""
GIB = 1024.0**3


@dataclass(frozen=True, slots=True)
class Kind:
    """Feeds with that many posts and polls per day. `share` is their part of all feeds."""

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
"""The publishers of `make simulate` (docs/explanation/polling.md), with similar ones combined."""


@dataclass(frozen=True, slots=True)
class Habits:
    """Assumptions about people and publishers. Days, bytes, and numbers per day.

    `growth`: the number of distinct feeds grows with this power of the number of users; with 0.675, one reader has 100
    feeds and ten thousand have 50,000. `unchanged` is the share of polls that return a document without new posts,
    `packed` the compressed part of a document in the cache, `item_packed` that of a post's JSON in Redis (real
    feeds: 0.27 to 0.39). `reads` is the share of posts that are ever read, `visits` that of users who read on a day,
    `known` that of a page's posts in the process's memory; the busiest hour has `peak` times the average. `age` is how
    long the server has been running.
    """

    feeds: float = 100
    channels: float = 5
    growth: float = 0.675
    kinds: tuple[Kind, ...] = KINDS
    unchanged: float = 0.05
    item_bytes: float = 1_800
    item_packed: float = 0.3
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
    syncing: float = 0.3
    peak: float = 3


@dataclass(frozen=True, slots=True)
class Keeping:
    """The product's defaults for retention in days and posts; checks per day of a channel (`looks`) and of everything
    (`walks`), and seconds between checks for posts that are stuck.
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
    """The capacity of a process and a node: shares of a processor that may be busy in the busiest hour; the memory that
    Redis needs as a multiple of the data (fragmentation, and copies while it rewrites its file); bytes of a node.
    """

    process: float = 0.6
    redis: float = 0.5
    headroom: float = 1.5
    node: float = 32 * GIB


@dataclass(frozen=True, slots=True)
class Stock:
    """The data in Redis. `sets` are sorted sets of ids: their number and their length; `numbers` sets of whole
    numbers: of unread ids, and of ids that have left timelines; `read` the times of reading, `newest` the sorted sets
    of the newest unread ids of channels, which are all read within thirty days. Bytes:
    `item_bytes` of each post's packed JSON, `other` of everything not counted separately. `long` of the `items` belong
    to feeds with many posts.
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
    numbers: tuple[tuple[float, float], ...] = ()
    read: tuple[float, float] = (0.0, 0.0)
    newest: tuple[float, float] = (0.0, 0.0)

    @property
    def ids(self) -> float:
        """The number of ids in all timelines, including those that left."""
        return sum(number * length for number, length in (*self.sets, *self.numbers, self.read))


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
    """The resources for that many users: bytes of Redis, seconds of processor time per day, bytes of network per day.

    `upkeep` is done by one worker for all, as is `sweep`, which is separate; `reminding` is done by each worker.
    `upkeep_share` is the part of a worker's time that all three need.
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
    """The number of distinct feeds that `users` users follow."""
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
    shown = (channels, read + unread)
    arrivals = (users * habits.syncing, habits.channels * (read + unread))
    documents = sum(kind.share * min(1.0, kind.polls / 24 * keeping.copy_hours) for kind in habits.kinds)
    copies = feeds * documents * habits.document_bytes * habits.packed
    items, many = feeds * stored, feeds * long
    return Stock(
        users,
        channels,
        feeds,
        users * habits.feeds,
        items,
        many,
        habits.item_bytes * habits.item_packed,
        (shown, arrivals),
        copies,
        ((channels, unread), (channels, per_channel * gone)),
        (channels, read),
        (channels, min(NEWEST, unread)),
    )


def day(users: float, habits: Habits = Habits()) -> Day:
    """The events of a day with that many users and their feeds."""
    feeds = distinct_feeds(users, habits)
    polls = feeds * sum(kind.share * kind.polls for kind in habits.kinds)
    # Posts within minutes of each other are found by the same poll.
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
    """Bytes of Redis by purpose."""
    return {
        "posts": stock.items * (stock.item_bytes + costs.item) + stock.long * (costs.item_long - costs.item),
        "timelines": sum(number * costs.sorted_set(length) for number, length in stock.sets)
        + sum(number * (costs.set_key + length * costs.id_number) for number, length in stock.numbers)
        + stock.read[0] * (costs.set_key + stock.read[1] * costs.id_read)
        + stock.newest[0] * costs.sorted_set(stock.newest[1]),
        "follows": stock.subscriptions * costs.subscription,
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
    """The resources for that many users, and the number of processes and nodes in the busiest hour."""
    stock, today = population(users, habits, keeping), day(users, habits)
    polling, delivering, reading = _polling(today, costs), _delivering(today, costs), _reading(today, costs, habits)
    upkeep = costs.upkeep.repair * (stock.subscriptions * keeping.walks / SECOND)
    upkeep += (costs.upkeep.plan * keeping.walks + costs.upkeep.clean * keeping.looks) * (stock.channels / SECOND)
    sweep = costs.upkeep.sweep * (_reachable(stock) * keeping.walks / SECOND)
    # A check begins after a pause since the last one. Each worker does its own, because each remembers what it saw.
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
    """The largest number of users for which `holds` is true, to within 0.1 %; `most` if it always is."""
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
    """The number of ids that a sweep reads: the posts of timelines, the first of `sets`."""
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
