"""Connections by URL: each scheme has its implementation of `protocol.Redis`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence

from redis.exceptions import RedisError as RedisError  # noqa: PLC0414 - for callers that use somebody else's Redis

from microsub.base.errors import ConfigError, MicrosubError, StoreError, StoreUnusable
from microsub.redis.cluster import ClusterRedis
from microsub.redis.engine import VALKEY, Engine
from microsub.redis.multiplexer import Acknowledged, Multiplexed
from microsub.redis.protocol import ALIVE, Redis
from microsub.redis.replies import text

CLUSTER = "redis+cluster://"
SECURE_CLUSTER = "rediss+cluster://"
SCHEMES = ("redis://", "rediss://", "unix://", CLUSTER, SECURE_CLUSTER)


async def connect(url: str, *, replicas: int | None = None, most_bytes: float = math.inf) -> Redis:
    """A connection to the Redis at `url`, which has answered.

    `redis://host:port/db`, `rediss://…` (TLS), `unix:///path?db=n` lead to one server; `redis+cluster://host:port` and
    `rediss+cluster://…`, which may name several nodes, to all nodes of a cluster. `replicas` is how many replicas
    must confirm a change before it counts as made. None means one in a cluster whose masters have replicas, otherwise
    none. `most_bytes` bounds the replies to one call of a server that isn't ours.

    Raises ConfigError for any other URL, StoreUnavailable when nothing answers there, and StoreUnusable
    when it refuses.
    """
    redis = _make(url, replicas, most_bytes)
    try:
        await redis.command(*ALIVE)
        if not isinstance(redis, ClusterRedis):
            await _no_cluster(redis)
    except RedisError as error:
        await redis.aclose()
        raise StoreUnusable(f"Redis refuses to answer: {error}") from error
    except MicrosubError:
        await redis.aclose()
        raise
    return redis


async def _no_cluster(redis: Redis) -> None:
    """Raise ConfigError if this is a single node of a cluster: it would refuse most keys."""
    try:
        reply = await redis.command("INFO", "cluster")
    except (StoreError, RedisError):  # a rented one may forbid it
        return
    if isinstance(reply, bytes) and b"cluster_enabled:1" in reply:
        raise ConfigError(
            file="MICROSUB_REDIS_URL",
            path="",
            found="a node of a Redis Cluster",
            expected="redis+cluster:// (or rediss+cluster://) in place of redis://",
        )


async def doubts(redis: Redis) -> list[str]:
    """Warnings about settings of that Redis that can lose data or waste memory, as far as they can be read."""
    try:
        servers = await _servers(redis)
        replies = [await server.command("INFO") for server in servers]
    except (StoreError, RedisError):  # a rented one may forbid it
        return []
    found = [doubts_about(reply.decode(errors="replace")) for reply in replies if isinstance(reply, bytes)]
    with contextlib.suppress(StoreError, RedisError):
        for server in servers:
            found.append(_wasteful(await server.command("CONFIG", "GET", COMPACT[0])))
            found.append(await _made_compact(server))
    return list(dict.fromkeys(sentence for sentences in found for sentence in sentences))


async def engine_of(redis: Redis) -> Engine | None:
    """The engine, of a cluster that of one master; None if it doesn't say."""
    lines = text(await (await _servers(redis))[0].command("INFO", "server")).splitlines()
    try:
        return Engine.of_info(dict(line.split(":", 1) for line in lines if ":" in line))
    except ValueError:
        return None


async def _servers(redis: Redis) -> Sequence[Redis]:
    return await redis.masters() if isinstance(redis, ClusterRedis) else [redis]


COMPACT = ("hash-max-ziplist-value", 4096)
"""The setting by which Redis keeps a packed post in one piece, and a value for nearly all. Redis 6.2 has no other name
for it, and later versions know this one.
"""


def _wasteful(reply: list[bytes]) -> list[str]:
    """A warning about `COMPACT`, from the reply to `CONFIG GET`."""
    name, least = COMPACT
    if len(reply) == 2 and int(reply[1]) < least:
        return [f"Redis needs twice the memory for posts: its {name} is {int(reply[1])}, set it to {least}"]
    return []


COMPACT_SETS = ("set-max-intset-entries", 100_000)
"""The setting by which Redis keeps the ids that have left a timeline in four bytes each, and a value for nearly all."""


_LOOSE, _LOOSE_VALKEY = 62, 39
"""Bytes of an id in a set that isn't compact; the second number since Valkey 8.1."""


async def bytes_in_sets(redis: Redis) -> Callable[[int], int]:
    """The function from the number of ids in a set to its bytes: four an id in one that the servers keep compact."""
    most, each = 512, _LOOSE
    with contextlib.suppress(StoreError, RedisError, ValueError):  # a rented one may forbid it
        engine = await engine_of(redis)
        if engine is not None and engine.name == VALKEY and engine.version >= (8, 1):
            each = _LOOSE_VALKEY
        replies = [await server.command("CONFIG", "GET", COMPACT_SETS[0]) for server in await _servers(redis)]
        most = min(int(size) for _, size in replies)
    return lambda count: count * (4 if count <= most else each)


async def _made_compact(server: Redis) -> list[str]:
    """Change `COMPACT_SETS` if it is too low; a warning that it is, or will be after a restart of Redis."""
    name, least = COMPACT_SETS
    reply = await server.command("CONFIG", "GET", name)
    if len(reply) != 2 or int(reply[1]) >= least:
        return []
    needs = "Redis needs ten times the memory for the ids of posts that have left timelines"
    try:
        await server.command("CONFIG", "SET", name, least)
    except (StoreError, RedisError):  # a rented one may forbid it
        return [f"{needs}: its {name} is {int(reply[1])}, set it to {least}"]
    return [f"{needs} after its next start: its {name} was {int(reply[1])}, set it to {least} in its configuration"]


async def memory(redis: Redis) -> tuple[int, int] | None:
    """Bytes that all its servers use together, and their limit, 0 for none; None if unknown."""
    try:
        replies = [await server.command("INFO", "memory") for server in await _servers(redis)]
    except (StoreError, RedisError):  # a rented one may forbid it
        return None
    facts = [_facts(reply.decode(errors="replace")) for reply in replies if isinstance(reply, bytes)]
    if not facts or not all("used_memory" in one for one in facts):
        return None
    used, most = (sum(int(one.get(name, "0")) for one in facts) for name in ("used_memory", "maxmemory"))
    return used, most


def doubts_about(info: str) -> list[str]:
    """`doubts`, from the reply of `INFO` (https://redis.io/docs/latest/commands/info/)."""
    facts = _facts(info)
    found = []
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        found.append(
            f"Redis may drop posts and tokens when its memory is full: its maxmemory-policy is {policy}, "
            "set it to noeviction"
        )
    if facts.get("aof_enabled", "1") == "0":
        found.append("Redis may lose the latest writes when it stops: set its appendonly to yes")
    return found


def _facts(info: str) -> dict[str, str]:
    return dict(line.split(":", 1) for line in info.splitlines() if ":" in line)


def _make(url: str, replicas: int | None, most_bytes: float) -> Redis:
    if not url.startswith(SCHEMES):
        scheme = url.partition("://")[0] if "://" in url else "no scheme"
        raise ConfigError(file="MICROSUB_REDIS_URL", path="", found=scheme, expected=f"one of {', '.join(SCHEMES)}")
    try:
        if url.startswith((CLUSTER, SECURE_CLUSTER)):
            return ClusterRedis(url, replicas=replicas)
        return Acknowledged(url, replicas) if replicas else Multiplexed(url, most_bytes=most_bytes)
    except ValueError as error:
        raise ConfigError(
            file="MICROSUB_REDIS_URL", path="", found=str(error), expected="a URL that Redis clients understand"
        ) from error
