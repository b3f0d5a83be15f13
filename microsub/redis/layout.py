"""Who holds which slots of a Redis Cluster: what `CLUSTER SLOTS` says, and whom to ask for it.

https://redis.io/docs/latest/commands/cluster-slots/. Any node can be asked, so one that is down doesn't matter as long
as the name of another is known: from the URL, which may list several, or from an earlier answer.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from redis.exceptions import RedisError, ResponseError

from microsub.errors import ConfigError, StoreUnreached
from microsub.redis.multiplexer import connection_maker

Address = tuple[str, int]

PORT = 6379
NEXT_AFTER = 0.3
"""Seconds without an answer after which another node is asked as well."""
ANSWER_WITHIN = 3.0


@dataclass(frozen=True, slots=True)
class Layout:
    """`ranges`: first slot, last slot and their master; `replicas`: everybody else."""

    ranges: tuple[tuple[int, int, Address], ...]
    replicas: frozenset[Address] = frozenset()

    @property
    def masters(self) -> frozenset[Address]:
        """Everybody who holds slots."""
        return frozenset(address for _, _, address in self.ranges)


def split_url(url: str) -> tuple[str, list[Address]]:
    """A cluster's URL (`redis+cluster://[user:password@]host[:port][,host[:port]…]`) as the URL that reaches any one
    node, and the nodes that it names. Raises ValueError for an invalid port.
    """
    parts = urlsplit(url.replace("+cluster://", "://", 1))
    credentials, at, places = parts.netloc.rpartition("@")
    nodes = []
    for place in places.split(","):
        one = urlsplit(f"//{place}")
        nodes.append((one.hostname or "localhost", one.port or PORT))
    host, port = nodes[0]
    first = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    # A cluster has database 0 alone.
    return urlunsplit((parts.scheme, f"{credentials}{at}{first}", "", parts.query, "")), nodes


def layout_of(reply: Sequence[Any], asked: Address) -> Layout:
    """The reply of `CLUSTER SLOTS` from the node at `asked`; nodes whose address nobody knows are left out."""
    ranges: list[tuple[int, int, Address]] = []
    replicas: set[Address] = set()
    # Per range of slots: first, last, master, replicas; and per node: address, port, id, and from Redis 7 on more.
    for first, last, *nodes in reply:
        places = [_address(node, asked) for node in nodes]
        if places[0] is not None:
            ranges.append((int(first), int(last), places[0]))
        replicas.update(place for place in places[1:] if place is not None)
    return Layout(tuple(ranges), frozenset(replicas))


def _address(node: Sequence[Any], asked: Address) -> Address | None:
    host = node[0].decode() if node[0] else asked[0]
    return None if host == "?" else (host, int(node[1]))


async def look_up(url: str, known: Iterable[Address]) -> Layout:
    """What the first of the `known` nodes to answer says; `url` tells how to connect.

    They are asked in no fixed order, so that one that has missed something isn't asked for ever. Raises StoreUnreached
    where nobody answers, and ConfigError where the answer is that it is no cluster.
    """
    waiting = list(dict.fromkeys(known))
    random.shuffle(waiting)
    asking: set[asyncio.Task[Layout]] = set()
    trouble = "nobody was asked"
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            while waiting or asking:
                if waiting:
                    asking.add(asyncio.create_task(_ask(url, waiting.pop())))
                patience = NEXT_AFTER if waiting else None
                done, asking = await asyncio.wait(asking, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    try:
                        return task.result()
                    except (RedisError, OSError) as error:
                        trouble = str(error)
    except TimeoutError:
        trouble = f"no answer within {ANSWER_WITHIN:g} s"
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    raise StoreUnreached(f"no node of the Redis Cluster can be reached: {trouble}")


async def _ask(url: str, address: Address) -> Layout:
    host, port = address
    connection: Any = connection_maker(url, host=host, port=port)()
    try:
        await connection.connect()
        await connection.send_command("CLUSTER", "SLOTS")
        layout = layout_of(await connection.read_response(), address)
    except ResponseError as error:
        if "cluster support disabled" not in str(error):
            raise
        raise ConfigError(
            file="MICROSUB_REDIS_URL",
            path="",
            found=f"a Redis at {host}:{port} that belongs to no cluster",
            expected="redis:// for a single server",
        ) from error
    finally:
        await connection.disconnect(nowait=True)
    if not layout.ranges:
        raise ResponseError(f"{host}:{port} knows no master")
    return layout
