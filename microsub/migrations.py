"""The version of the data's layout, and migrations from older versions.

Steps run one by one under a lease, and each is recorded when it is done. An interrupted step runs again from its start,
so every step must be idempotent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import orjson

from microsub.errors import SchemaMismatch, StoreError
from microsub.logs import LibraryLogger
from microsub.model.reader import SAVED
from microsub.redis import keys
from microsub.redis.lease import Lease
from microsub.redis.protocol import Redis
from microsub.redis.scripts import batches, load

log = LibraryLogger(__name__)

VERSION = 8
"""The data layout of this version."""

LEASE = 60
"""Seconds after which a process that died while migrating is replaced. A step must take less, or renew."""

_POLL = 0.05

_BATCH = 500

Step = Callable[[Redis], Awaitable[None]]

_JOB = "migration"
_UPDATE = load("item_update")


async def clean_posts(redis: Redis) -> None:
    """To version 2: sanitise the HTML of every stored post again, because scripts got through before.

    That includes posts in streams and among the dead letters. Copies of documents contain cleaned HTML too; they only
    save requests, so they are deleted.
    """
    # Every command imports this module, but few migrate.
    from microsub.cache.redis_storage import FeedCopies
    from microsub.redis.streams import Stream, message_of

    last = int(await redis.command("GET", keys.item_ids()) or 0)
    changed = 0
    for first in range(1, last + 1, _BATCH):
        ids = range(first, min(first + _BATCH, last + 1))
        rows = await redis.pipeline([("HMGET", keys.item(str(one)), "Data", "version") for one in ids])
        dirty = [(one, data, version or b"") for one, (data, version) in zip(ids, rows, strict=True) if data]
        cleaned = [(keys.item(str(one)), _cleaned(data), version) for one, data, version in dirty]
        calls = [(_UPDATE, [key], ["change", version, "", "Data", data]) for key, data, version in cleaned if data]
        if calls:
            await redis.scripts(calls)
        changed += len(calls)
        await redis.command("EXPIRE", keys.lease(_JOB), LEASE)
    for name in ("entries", "dead"):
        for row in await redis.command("XRANGE", keys.stream(name), "-", "+"):
            message = message_of(row)
            fields = {field: _cleaned(value) or value for field, value in message.fields.items()}
            if fields != message.fields:
                await Stream(redis, name).add([fields])
                await Stream(redis, name).done([message])
                changed += 1
    copies = FeedCopies(redis)
    for url in await copies.urls():
        await copies.remove(url)
    if last:
        log.info("stored posts cleaned again", posts=last, changed=changed)


def _cleaned(data: bytes) -> bytes | None:
    """A post's wire JSON with clean HTML; None if it is clean already, or isn't a JSON object."""
    try:
        wire = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    from microsub.formats.wire import dump

    return dump(wire) if isinstance(wire, dict) and _clean(wire) else None


def _clean(wire: dict[str, Any]) -> bool:
    """Clean the HTML of a post and its references in place; whether anything changed."""
    from microsub.formats.html.sanitise import clean_html

    changed = False
    content = wire.get("content")
    if isinstance(content, dict) and isinstance(html := content.get("html"), str):
        cleaned = clean_html(html, str(wire.get("url", "")))
        changed = cleaned != html
        if cleaned:
            content["html"] = cleaned
        else:
            del content["html"]
    refs = wire.get("refs")
    for ref in refs.values() if isinstance(refs, dict) else ():
        changed |= isinstance(ref, dict) and _clean(ref)
    return changed


async def spread_settings(redis: Redis) -> None:
    """To version 3: make a channel's settings fields of its hash, and a user's quotas settings.

    Before, the channel's hash had all settings as one JSON object.
    """
    async for places in _channels_of_users(redis):
        texts = await redis.pipeline([("HGET", key, "settings") for key in places])
        for key, text in zip(places, texts, strict=True):
            if text is not None:
                pairs = [part for name, value in orjson.loads(text).items() for part in (name, _field(value))]
                await redis.command("HSET", key, *pairs)
                await redis.command("HDEL", key, "settings")
    for name in await redis.command("HKEYS", keys.settings()):
        kind, _, user = name.decode().partition(":")
        if kind == "quotas":
            own, quotas = await redis.command("HMGET", keys.settings(), f"user:{user}", name)
            together = {**orjson.loads(own or b"{}"), "quotas": orjson.loads(quotas)}
            await redis.command("HSET", keys.settings(), f"user:{user}", orjson.dumps(together))
            await redis.command("HDEL", keys.settings(), name)


def _field(value: Any) -> bytes:
    return orjson.dumps(value) if isinstance(value, dict) else str(value).encode()


async def store_waiting_posts(redis: Redis) -> None:
    """To version 4: store the posts in the stream of entries, or make them dead letters."""
    from microsub.delivery.dead_letters import DeadLetters
    from microsub.feeds.events import Events
    from microsub.feeds.record import Feeds
    from microsub.posts.ingest import Ingest
    from microsub.posts.items import Items
    from microsub.posts.values import EntriesFound
    from microsub.redis.streams import message_of

    key, feeds = keys.stream("entries"), Feeds(redis)
    ingest, dead = Ingest(redis, feeds, Items(redis), Events(redis)), DeadLetters(redis)
    while rows := await redis.command("XRANGE", key, "-", "+", "COUNT", 1):
        message = message_of(rows[0])
        try:
            await ingest.add_found(EntriesFound.of(message.fields))
        except Exception as error:
            if isinstance(error, StoreError) and error.passing:
                raise
            log.exception("waiting posts can't be stored and become dead letters", message=message.id)
            await dead.add("entries", message, f"{type(error).__name__}: {error}", time.time())
        await redis.command("XDEL", key, message.id)
        await redis.command("EXPIRE", keys.lease(_JOB), LEASE)
    await redis.pipeline([("DEL", key), ("DEL", keys.stream_bytes("entries"))])
    for batch in batches(await feeds.all_ids()):
        await redis.pipeline([("HDEL", keys.feed(feed), "sent", "first", "handled") for feed in batch])


async def note_unread_from(redis: Redis) -> None:
    """To version 5: give a subscription the score from which its feed's items are unread.

    It replaces a hash of unfilled subscriptions. If the first items were added already, the score is the time of
    following. The next step deletes the hashes, so that this step can be resumed.
    """
    async for channels in _channels_of_users(redis):
        for channel in channels:
            unfilled, found = await redis.pipeline(
                [("HGETALL", f"{channel}:unfilled"), ("HGETALL", f"{channel}:feeds")]
            )
            waiting = {
                feed for feed, at in zip(unfilled[::2], unfilled[1::2], strict=True) if not at.startswith(b"left ")
            }
            for feed, text in zip(found[::2], found[1::2], strict=True):
                subscription = orjson.loads(text)
                if feed not in waiting:
                    subscription.setdefault("unread_from", subscription["followed_at"])
                    await redis.command("HSET", f"{channel}:feeds", feed, orjson.dumps(subscription))


async def move_unread_from(redis: Redis) -> None:
    """To version 6: move that score into the channel's hash, where a script can read it directly."""
    async for channels in _channels_of_users(redis):
        for channel in channels:
            found = await redis.command("HGETALL", f"{channel}:feeds")
            for feed, text in zip(found[::2], found[1::2], strict=True):
                subscription = orjson.loads(text)
                score = subscription.pop("unread_from", None)
                if score is not None:
                    await redis.command("HSETNX", channel, f"unread_from {feed.decode()}", f"{score:.6f}")
                await redis.command("HSET", f"{channel}:feeds", feed, orjson.dumps(subscription))
        await redis.pipeline([("DEL", f"{channel}:unfilled") for channel in channels])


async def add_saved(redis: Redis) -> None:
    """To version 7: add the channel `saved` to every user, after all others."""
    for member in await redis.command("SMEMBERS", keys.users()):
        user = member.decode()
        # The name first: a listed channel must have one.
        await redis.pipeline(
            [
                ("HSETNX", keys.channel(user, SAVED), "name", SAVED.title()),
                ("HSETNX", keys.channel(user, SAVED), "created", time.time()),
                ("ZADD", keys.channels(user), "NX", "+inf", SAVED),
            ]
        )
        await redis.command("EXPIRE", keys.lease(_JOB), LEASE)


async def order_by_arrival(redis: Redis) -> None:
    """To version 8: add the order of arrival to each user's items; older items by publication."""
    from microsub.timelines.sync.arrivals import derive_arrivals

    for member in await redis.command("SMEMBERS", keys.users()):
        await derive_arrivals(redis, member.decode())
        await redis.command("EXPIRE", keys.lease(_JOB), LEASE)


async def _channels_of_users(redis: Redis) -> AsyncIterator[list[str]]:
    """The keys of each user's channels, including removed ones; renews the lease after each user."""
    for member in await redis.command("SMEMBERS", keys.users()):
        user = member.decode()
        lists = await redis.pipeline(
            [("ZRANGE", key, 0, -1) for key in (keys.channels(user), keys.removed_channels(user))]
        )
        yield [keys.channel(user, uid.decode()) for uids in lists for uid in uids]
        await redis.command("EXPIRE", keys.lease(_JOB), LEASE)


STEPS: Mapping[int, Step] = {
    2: clean_posts,
    3: spread_settings,
    4: store_waiting_posts,
    5: note_unread_from,
    6: move_unread_from,
    7: add_saved,
    8: order_by_arrival,
}
"""Version → the step from the previous version to it."""


async def migrate(redis: Redis, *, version: int = VERSION, steps: Mapping[int, Step] = STEPS) -> int:
    """Bring the data to `version` and return the version that it had (0 for an empty database).

    Any number of processes may call this at once: one migrates, the others wait for it. Raises SchemaMismatch if the
    data has a newer layout, or an older one that can't be migrated.
    """
    found = await schema_version(redis)
    if found == 0:
        # An empty database needs no change; of several processes, one writes the version.
        await redis.command("SET", keys.schema(), version, "NX")
        return found
    _check(found, version, steps)
    current = found
    while current < version:
        lease = Lease(redis, _JOB, LEASE)
        if not await lease.acquire():
            await asyncio.sleep(_POLL)
        else:
            try:
                await _next_step(redis, steps, version)
            finally:
                await lease.release()
        current = await schema_version(redis)
    return found


async def check_layout(redis: Redis) -> int:
    """The layout of the data, 0 for an empty database. Raises SchemaMismatch unless it is the current one."""
    found = await schema_version(redis)
    if found:
        _check(found, VERSION, STEPS)
    if 0 < found < VERSION:
        raise SchemaMismatch(f"the data has layout {found}: start the server first, which migrates it to {VERSION}")
    return found


async def schema_version(redis: Redis) -> int:
    """The layout of the data; 0 if there is none yet. Raises SchemaMismatch if it isn't a number."""
    found = await redis.command("GET", keys.schema())
    if found is None:
        return 0
    if not found.isdigit():
        raise SchemaMismatch(f"{keys.schema()}: found '{found.decode(errors='replace')[:40]}', expected a number")
    return int(found)


async def _next_step(redis: Redis, steps: Mapping[int, Step], version: int) -> None:
    """Run one step, unless another process has done the last one in the meantime."""
    current = await schema_version(redis)
    if current < version:
        await steps[current + 1](redis)
        await redis.command("SET", keys.schema(), current + 1)


def _check(found: int, version: int, steps: Mapping[int, Step]) -> None:
    if found > version:
        raise SchemaMismatch(
            f"the data has layout {found}, but this version supports layouts up to {version}: upgrade the software"
        )
    missing = [step for step in range(found + 1, version + 1) if step not in steps]
    if missing:
        raise SchemaMismatch(f"the data has layout {found}, which can't be migrated to layout {version}")
