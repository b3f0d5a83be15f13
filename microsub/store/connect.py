"""From a URL to a connection: which implementation of `port.Redis` serves which scheme."""

from __future__ import annotations

from redis.asyncio.cluster import RedisCluster
from redis.exceptions import RedisError

from microsub.errors import ConfigError, StoreError
from microsub.store.client import ClientRedis
from microsub.store.multiplexer import CONNECT_TIMEOUT, REPLY_TIMEOUT, Multiplexed
from microsub.store.port import Redis

CLUSTER = "redis+cluster://"
SECURE_CLUSTER = "rediss+cluster://"
SCHEMES = ("redis://", "rediss://", "unix://", CLUSTER, SECURE_CLUSTER)


async def connect(url: str) -> Redis:
    """A connection to the Redis at `url`, known to answer.

    `redis://host:port/db`, `rediss://…` (TLS), `unix:///path?db=n` are multiplexed; `redis+cluster://host:port` and
    `rediss+cluster://…` find the other nodes by themselves. Raises ConfigError for any other URL and StoreUnavailable
    when nothing answers there.
    """
    redis = _make(url)
    try:
        await redis.command("PING")
    except StoreError:
        await redis.aclose()
        raise
    return redis


async def doubts(redis: Redis) -> list[str]:
    """Sentences about settings of that Redis under which data can be lost; empty where all is well or unknown."""
    try:
        reply = await redis.command("INFO")
    except (StoreError, RedisError):  # a rented one may forbid it
        return []
    # A cluster's client answers in a form of its own.
    return doubts_about(reply.decode(errors="replace")) if isinstance(reply, bytes) else []


def doubts_about(info: str) -> list[str]:
    """`doubts`, from what `INFO` said (https://redis.io/docs/latest/commands/info/)."""
    facts = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
    found = []
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        found.append(
            f"Redis may drop posts and tokens when its memory is full: its maxmemory-policy is {policy}, "
            "set it to noeviction"
        )
    if facts.get("aof_enabled", "1") == "0":
        found.append("Redis may lose what was written last when it ends: set its appendonly to yes")
    return found


def _make(url: str) -> Redis:
    if not url.startswith(SCHEMES):
        scheme = url.partition("://")[0] if "://" in url else "no scheme"
        raise ConfigError(file="MICROSUB_REDIS_URL", path="", found=scheme, expected=f"one of {', '.join(SCHEMES)}")
    if "+cluster://" in url:
        return ClientRedis(
            RedisCluster.from_url(
                url.replace("+cluster", "", 1),
                protocol=2,
                socket_connect_timeout=CONNECT_TIMEOUT,
                socket_timeout=REPLY_TIMEOUT,
            )
        )
    try:
        return Multiplexed(url)
    except ValueError as error:
        raise ConfigError(
            file="MICROSUB_REDIS_URL", path="", found=str(error), expected="a URL that Redis clients understand"
        ) from error
