"""Unit costs: the measured constants of the model. Pure."""

from __future__ import annotations

from dataclasses import dataclass

SHORT_SET = 128
"""Maximum members of a sorted set that Redis stores as a listpack (`zset-max-listpack-entries`)."""


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
    first follower; `subscription` both sides of one. `item` is a post without its JSON: the other fields, its guid, its
    places in lists; `item_long` the same for feeds with more than `SHORT_SET` posts, whose lists Redis stores in
    another form. A sorted set takes `set_key`, and per id `id_short` if it is short, otherwise `id_long`; an
    id that is unread, or has left a timeline, takes `id_number`, and the time when a post was read `id_read`.
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
    id_number: float
    id_read: float

    def sorted_set(self, length: float) -> float:
        """Bytes of one sorted set with `length` ids."""
        if length <= 0:
            return 0.0
        return self.set_key + length * (self.id_short if length <= SHORT_SET else self.id_long)


@dataclass(frozen=True, slots=True)
class Polling:
    """The costs of one poll, by its result. `news` has one new post, which is stored and delivered once; `item` is each
    further one. `handshake` is a TLS connection; its bytes are those of both directions.
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
    """The costs of a reader's request. `miss`: each post of a page that the process hasn't cached yet."""

    page: Work
    miss: Work
    channels: Work
    mark: Work
    page_bytes: float
    channels_bytes: float
    mark_bytes: float


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The costs of upkeep. Once a day: `repair` per subscription, `plan` per channel, `sweep` per post in a timeline.
    `clean` is the check of a channel that is due, `remind` the check of a feed for posts that are stuck.
    """

    repair: Work
    plan: Work
    clean: Work
    sweep: Work
    remind: Work


@dataclass(frozen=True, slots=True)
class Costs:
    """All measured costs. `delivery` is one new post for one timeline."""

    memory: Memory
    polling: Polling
    reading: Reading
    delivery: Work
    upkeep: Upkeep
