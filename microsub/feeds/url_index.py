"""Where URLs lead: entries of `feeds:by-url`, and deletion of those whose feed is gone.

An entry is the feed's id, or `<id> <Unix time>` for one that is condemned: its feed had no record at that time. Who
wants to use such a feed takes the mark away before anything else, and the sweep forgets only what carries the mark it
has seen, an hour after. The feed lies in another slot, so no step could ask for both. What isn't marked yet, somebody
may just have read: that is what the hour is for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import reading, score_text, text
from microsub.redis.scripts import load

_CHANGE = load("compare_and_set")
_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Address:
    """An entry: where `url` leads, with the text that says so."""

    url: str
    text: str

    @property
    def feed(self) -> str:
        """The feed's id."""
        return self.text.partition(" ")[0]

    @property
    def condemned(self) -> float | None:
        """Since when it is marked."""
        at = self.text.partition(" ")[2]
        return float(at) if at else None


async def find(redis: Redis, url: str) -> Address | None:
    """The entry of a canonical URL."""
    found = await redis.command("HGET", keys.feeds_by_url(), url)
    return _read(url, found) if found is not None else None


async def find_many(redis: Redis, urls: Sequence[str]) -> list[Address | None]:
    """The entries of canonical URLs, in their order. One round trip."""
    found = await redis.command("HMGET", keys.feeds_by_url(), *urls)
    return [_read(url, entry) if entry is not None else None for url, entry in zip(urls, found, strict=True)]


async def walk(redis: Redis) -> AsyncIterator[list[Address]]:
    """All entries in batches; one may come repeatedly."""
    cursor: Any = "0"
    while True:
        cursor, pairs = await redis.command("HSCAN", keys.feeds_by_url(), cursor, "COUNT", _BATCH)
        yield [_read(url, entry) for url, entry in zip(pairs[0::2], pairs[1::2], strict=True)]
        if int(cursor) == 0:
            return


async def spare(redis: Redis, address: Address) -> bool:
    """Take the mark away; False where the entry isn't as it was read, and must be read again."""
    if address.condemned is None:
        return True
    return await lead(redis, address, address.feed)


async def lead(redis: Redis, address: Address, feed_id: str) -> bool:
    """Let an address lead to another feed, or with '' to none; False where the entry isn't as it was read."""
    return bool(await redis.script(_CHANGE, [keys.feeds_by_url()], [address.url, address.text, feed_id]))


async def forget_gone(
    redis: Redis, batch: Sequence[Address], followed: Collection[str], now: float, grace: float
) -> int:
    """Condemn entries of feeds that are gone, forget those condemned `grace` s ago; how many.

    Gone is a feed without record, guids and followers; `followed` are those that any subscription names, also of who
    may come back.
    """
    parts = (keys.feed, keys.feed_guids, keys.feed_subscribers)
    left = await redis.pipeline([("EXISTS", *(key(one.feed) for key in parts)) for one in batch])
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
            changed = await redis.script(_CHANGE, [keys.feeds_by_url()], [one.url, one.text, after])
            forgotten += changed if not after else 0
    return forgotten


def _read(url: str | bytes, entry: bytes) -> Address:
    one = Address(url if isinstance(url, str) else text(url), text(entry))
    with reading(f"{keys.feeds_by_url()} {one.url}"):
        _ = int(one.feed), one.condemned
    return one
