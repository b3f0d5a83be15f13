"""The index of URLs: entries of `feeds:by-url`, and deletion of those whose feed is gone.

An entry is the feed's id, or `<id> <Unix time>` if it is condemned: its feed had no record at that time. A process that
wants to use such a feed removes the mark first, and the sweep deletes only entries with the mark that it has seen, an
hour later. The feed is in another slot, so no step can check both. The hour is for processes that have just read an
unmarked entry.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass

from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import reading, score_text, text
from microsub.redis.scan import scanned
from microsub.redis.structures import Hash, existing, together


@dataclass(frozen=True, slots=True)
class Address:
    """An entry: the feed that `url` leads to, and the entry's text."""

    url: str
    text: str

    @property
    def feed(self) -> str:
        """The feed's id."""
        return self.text.partition(" ")[0]

    @property
    def condemned(self) -> float | None:
        """The Unix time when it was marked, or None."""
        at = self.text.partition(" ")[2]
        return float(at) if at else None


async def find(redis: Redis, url: str) -> Address | None:
    """The entry of a canonical URL."""
    found = await _index(redis).get(url)
    return _read(url, found) if found is not None else None


async def find_many(redis: Redis, urls: Sequence[str]) -> list[Address | None]:
    """The entries of canonical URLs, in their order. One round trip."""
    found = await _index(redis).get_many(urls)
    return [_read(url, entry) if entry is not None else None for url, entry in zip(urls, found, strict=True)]


async def all_addresses(redis: Redis) -> AsyncIterator[list[Address]]:
    """All entries in batches, possibly with repetitions."""
    async for pairs in scanned(redis, "HSCAN", keys.feeds_by_url()):
        yield [_read(url, entry) for url, entry in zip(pairs[0::2], pairs[1::2], strict=True)]


async def spare(redis: Redis, address: Address) -> bool:
    """Remove the mark; False if the entry has changed, and must be read again."""
    if address.condemned is None:
        return True
    return await lead(redis, address, address.feed)


async def lead(redis: Redis, address: Address, feed_id: str) -> bool:
    """Point an address to another feed, or with '' to none; False if the entry has changed."""
    return await _index(redis).change((address.url, address.text, feed_id))


async def forget_gone_addresses(
    redis: Redis, batch: Sequence[Address], followed: Collection[str], now: float, grace: float
) -> int:
    """Condemn entries of feeds that are gone, and delete those condemned `grace` s ago; the number deleted.

    A feed is gone if it has no record, guids or followers; `followed` are the feeds of all subscriptions, including
    those of users who may come back.
    """
    parts = (keys.feed, keys.feed_guids, keys.feed_subscribers)
    left = await together(*(existing(redis, *(key(one.feed) for key in parts)) for one in batch))
    forgotten = 0
    for one, keys_left in zip(batch, left, strict=True):
        after: str | None = None
        if keys_left or one.feed in followed:
            after = one.feed if one.condemned is not None else None
        elif one.condemned is None:
            after = f"{one.feed} {score_text(now)}"
        elif one.condemned <= now - grace:
            after = ""
        if after is not None:
            changed = await _index(redis).change((one.url, one.text, after))
            forgotten += changed and not after
    return forgotten


def _index(redis: Redis) -> Hash:
    return Hash(redis, keys.feeds_by_url())


def _read(url: str | bytes, entry: bytes) -> Address:
    one = Address(url if isinstance(url, str) else text(url), text(entry))
    with reading(f"{keys.feeds_by_url()} {one.url}"):
        _ = int(one.feed), one.condemned
    return one
