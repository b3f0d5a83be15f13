"""Unit costs: the measured constants that the model multiplies. Pure."""

from __future__ import annotations

from dataclasses import dataclass

SHORT_SET = 128
"""Members up to which Redis keeps a sorted set in one compact piece (`zset-max-listpack-entries`)."""


@dataclass(frozen=True, slots=True)
class Work:
    """Microseconds of processor time: of our process, and of Redis."""

    ours: float = 0.0
    redis: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(self.ours + other.ours, self.redis + other.redis)

    def __sub__(self, other: Work) -> Work:
        return Work(self.ours - other.ours, self.redis - other.redis)

    def __mul__(self, times: float) -> Work:
        return Work(self.ours * times, self.redis * times)


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of Redis. `user` is without channels but with a token; `feed` the record with its schedule, host, URL and
    first follower; `subscription` both sides of one. `item` is what a post takes beside its JSON: the other fields, its
    guid, its places; `item_long` the same for feeds with more than `SHORT_SET` posts, whose lists Redis keeps in
    another form. A sorted set takes `set_key`, and per id `id_short` while it is short, else `id_long`.
    """

    user: float
    channel: float
    feed: float
    subscription: float
    item: float
    item_long: float
    set_key: float
    id_short: float
    id_long: float

    def sorted_set(self, length: float) -> float:
        """Bytes of one sorted set with so many ids."""
        if length <= 0:
            return 0.0
        return self.set_key + length * (self.id_short if length <= SHORT_SET else self.id_long)


@dataclass(frozen=True, slots=True)
class Polling:
    """What asking for one feed takes, by the answer. `news` holds one post that is new, stored and delivered once;
    `item` is each further one. `handshake` is a TLS connection, in both directions of traffic.
    """

    not_modified: Work
    unchanged: Work
    news: Work
    item: Work
    handshake: Work
    not_modified_bytes: float
    head_bytes: float
    handshake_bytes: float


@dataclass(frozen=True, slots=True)
class Reading:
    """What a request of a reader takes. `miss` is each post of a page that the process doesn't have yet."""

    page: Work
    miss: Work
    channels: Work
    mark: Work
    page_bytes: float
    channels_bytes: float
    mark_bytes: float


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What upkeep takes: of what is done once a day `repair` per subscription, `plan` per channel and `sweep` per post
    in a timeline; `clean` is a look at a channel that is due, `remind` a look at a feed for posts that are stuck.
    """

    repair: Work
    plan: Work
    clean: Work
    sweep: Work
    remind: Work


@dataclass(frozen=True, slots=True)
class Costs:
    """Everything that was measured. `delivery` is one new post for one timeline."""

    memory: Memory
    polling: Polling
    reading: Reading
    delivery: Work
    upkeep: Upkeep
