"""A Redis Cluster: one multiplexed connection per master; commands go to their slot's master.

https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/ (Redirection and resharding). A
command that a node refuses, because the slot is elsewhere or the cluster isn't ready, is sent again to the right
node; so is a read whose connection broke. A write whose connection broke isn't sent again: nobody knows whether it
ran. The layout is read again after every refusal and every few seconds. So calls to a silent master wait no longer
than the cluster itself takes to replace it.

A master that can't be reached for `PATIENCE`, and that nobody replaces, counts as away until it replies again: calls
for its slots fail at once, so that readers of the other masters don't wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from redis.crc import key_slot
from redis.exceptions import AskError, MovedError, RedisError, ResponseError

from microsub.base.errors import ConfigError, StoreError, StoreIncomplete, StoreSilent, StoreUnavailable, StoreUnreached
from microsub.base.logs import LibraryLogger
from microsub.base.tasks import cancel_all
from microsub.redis.multiplexer import Acknowledged, all_good, connection_maker, translate
from microsub.redis.protocol import ALIVE, READS, Arg, Command, Script, ScriptCall

log = LibraryLogger(__name__)

Address = tuple[str, int]

PORT = 6379
NEXT_AFTER = 0.3
"""Seconds without an answer after which the next node is tried as well."""
ANSWER_WITHIN = 3.0


# --- layout of the slots ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Layout:
    """`ranges`: first slot, last slot and their master; `replicas`: all other nodes."""

    ranges: tuple[tuple[int, int, Address], ...]
    replicas: frozenset[Address] = frozenset()

    @property
    def masters(self) -> frozenset[Address]:
        """The nodes that hold slots."""
        return frozenset(address for _, _, address in self.ranges)


def split_url(url: str) -> tuple[str, list[Address]]:
    """Split a cluster's URL into the URL pattern of a single node and the nodes that it names.

    The form is `redis+cluster://[user:password@]host[:port][,host[:port]…]`. Raises ValueError for an invalid port.
    """
    parts = urlsplit(url.replace("+cluster://", "://", 1))
    credentials, at, places = parts.netloc.rpartition("@")
    nodes = []
    for place in places.split(","):
        one = urlsplit(f"//{place}")
        nodes.append((one.hostname or "localhost", one.port or PORT))
    host, port = nodes[0]
    first = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    # A cluster has only database 0.
    return urlunsplit((parts.scheme, f"{credentials}{at}{first}", "", parts.query, "")), nodes


def layout_of(reply: Sequence[Any], asked: Address) -> Layout:
    """The reply of `CLUSTER SLOTS` from the node at `asked`; nodes without an address are left out."""
    ranges: list[tuple[int, int, Address]] = []
    replicas: set[Address] = set()
    # Per range of slots: first, last, master, replicas. Per node: address, port, id; more since Redis 7.
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
    """The layout, from the first of the `known` nodes to answer; `url` defines how to connect.

    Nodes are tried in random order, so that an outdated node isn't read every time. Raises StoreUnreached if no node
    answers, and ConfigError if only nodes answer that aren't part of a cluster.
    """
    waiting = list(dict.fromkeys(known))
    random.shuffle(waiting)
    asking: set[asyncio.Task[Layout]] = set()
    trouble, outside = "no node was contacted", None
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
                    except ConfigError as error:
                        outside = error
    except TimeoutError:
        trouble = f"no answer within {ANSWER_WITHIN:g} s"
    finally:
        await cancel_all(asking)
    if outside is not None:
        raise outside
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
            found=f"a Redis at {host}:{port} that isn't part of a cluster",
            expected="redis:// for a single server",
        ) from error
    finally:
        await connection.disconnect(nowait=True)
    if not layout.ranges:
        raise ResponseError(f"{host}:{port} knows no master")
    return layout


# --- slots --------------------------------------------------------------------------------------------------------

SLOTS = 16384

_KEYLESS: tuple[Arg, ...] = (
    *("CLIENT", "CLUSTER", "COMMAND", "CONFIG", "DBSIZE", "ECHO", "FLUSHALL", "FLUSHDB", "INFO", "KEYS", "PING"),
    *("PUBLISH", "RANDOMKEY", "ROLE", "SCAN", "SCRIPT", "TIME", "WAIT"),
)
# Position of the first key; 0 for commands without a key, which any server can run. It is 1 for commands not listed.
_PLACES: dict[Arg, int] = dict.fromkeys(_KEYLESS, 0) | {
    "EVAL": 3,
    "EVALSHA": 3,
    "ZINTER": 2,
    "XGROUP": 2,
    "XINFO": 2,
    "OBJECT": 2,
    "MEMORY": 2,
    "XREAD": -1,
    "XREADGROUP": -1,
}


def slot_of(key: Arg) -> int:
    """The slot of a key: CRC16 of its hash tag, or of the whole key."""
    return key_slot(key if isinstance(key, bytes) else str(key).encode())


def key_of(command: Command) -> Arg | None:
    """The key that decides which node runs the command; None if any server will do."""
    place = _PLACES.get(command[0], 1)
    if place == 1:
        return command[1]
    if place == 0 or (place == 3 and not int(command[2])):
        return None
    if place == -1:
        place = command.index("STREAMS") + 1
    return command[place]


# --- calls --------------------------------------------------------------------------------------------------------

PATIENCE = 2.0
"""Seconds for which calls are retried while the cluster recovers."""

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.25
LOOK_EVERY = 5.0
"""Seconds between two reads of the layout while nothing is wrong."""
BACK_EVERY = 1.0
"""Seconds between two attempts to reach a master that is away."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A command or a script call. `slot` None: any master will do."""

    command: Command
    script: Script | None = None
    keys: Sequence[str] = ()
    args: Sequence[Arg] = ()

    @property
    def slot(self) -> int | None:
        key = key_of(self.command)
        return None if key is None else slot_of(key)

    @property
    def reads(self) -> bool:
        return self.command[0] in READS if self.script is None else not self.script.writes


class ClusterRedis:
    """`Redis` for the cluster at `url` (`split_url`); connects with the first call.

    `replicas`: see `Acknowledged`. Belongs to one event loop.
    """

    is_cluster = True

    def __init__(
        self, url: str, *, replicas: int | None = None, patience: float = PATIENCE, look_every: float = LOOK_EVERY
    ) -> None:
        self._url, self._seeds = split_url(url)
        self._replicas = replicas
        self._patience = patience
        self._look_every = look_every
        self._layout: Layout | None = None
        self._masters: dict[Address, Acknowledged] = {}
        self._at: list[Acknowledged | None] = [None] * SLOTS
        self._looking: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._away: dict[Address, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    async def command(self, *args: Arg) -> Any:
        """See `Redis.command`."""
        key = key_of(args)
        master = self._at[slot_of(key)] if key is not None else None
        if master is None:
            return all_good(await self._run([_Call(args)]))[0]
        try:
            return await master.command(*args)
        except (AskError, StoreUnavailable) as error:
            return all_good(await self._run([_Call(args)], [error]))[0]

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """See `Redis.pipeline`. Raises StoreIncomplete if only some of the masters can be reached."""
        return self._complete(await self._run([_Call(command) for command in commands]))

    async def script(self, call: ScriptCall) -> Any:
        """See `Redis.script`."""
        _, keys, _ = call
        master = self._at[slot_of(keys[0])] if keys else None
        if master is None:
            return all_good(await self._run([_script_call(*call)]))[0]
        try:
            return await master.script(call)
        except (AskError, StoreUnavailable) as error:
            return all_good(await self._run([_script_call(*call)], [error]))[0]

    async def scripts(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """See `Redis.scripts`. Raises StoreIncomplete if only some of the masters can be reached."""
        return self._complete(await self._run([_script_call(*call) for call in calls]))

    async def scan(self, count: int = 1000) -> AsyncIterator[list[bytes]]:
        """See `Redis.scan`."""
        for master in await self.masters():
            async for names in master.scan(count):
                yield names

    async def masters(self) -> list[Acknowledged]:
        """Connections to all masters, for commands that each must run; callers don't close them."""
        if self._layout is None:
            await self._look()
        return list(self._masters.values())

    async def one_each(self, names: Iterable[str]) -> list[tuple[Acknowledged, str | None]]:
        """All masters, each with the first of these keys that it holds."""
        masters: dict[Acknowledged, str | None] = dict.fromkeys(await self.masters())
        for name in names:
            if None not in masters.values():
                break
            address = self._address_of(slot_of(name))
            master = self._masters.get(address) if address else None
            if master is not None and masters[master] is None:
                masters[master] = name
        return list(masters.items())

    async def aclose(self) -> None:
        """See `Redis.aclose`."""
        self._closed = True
        await cancel_all(task for task in (self._watch, self._looking, *self._away.values()) if task is not None)
        await asyncio.gather(*self._closing, *(master.aclose() for master in self._masters.values()))

    # --- calls -----------------------------------------------------------------------------------------------------

    async def _run(self, calls: Sequence[_Call], replies: list[Any] | None = None) -> list[Any]:
        """The replies in order, errors among them as values; `replies` are those of a first attempt."""
        if not calls:
            return []
        pause, ends = FIRST_PAUSE, asyncio.get_running_loop().time() + self._patience
        to_try: list[tuple[int, Address | None]]
        if replies is None:
            replies, to_try = [None] * len(calls), [(index, None) for index in range(len(calls))]
            await self._attempt(calls, to_try, replies)
        sent_on = False
        while to_try := self._to_try_again(calls, replies):
            if asyncio.get_running_loop().time() > ends:
                self._note_away(calls[index] for index, _ in to_try)
                break
            if sent_on or any(not isinstance(replies[index], AskError) for index, _ in to_try):
                await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - spreads the callers' retries
                pause = min(2 * pause, LONGEST_PAUSE)
                with contextlib.suppress(StoreError):  # the attempt reports what is wrong
                    await self._look()
            # The first redirection is followed at once: the node that redirects knows the slot's master best.
            sent_on = True
            await self._attempt(calls, to_try, replies)
        return [_final(reply) for reply in replies]

    def _to_try_again(self, calls: Sequence[_Call], replies: Sequence[Any]) -> list[tuple[int, Address | None]]:
        """Calls that didn't run, or can safely run twice; with the node to ask instead of the master."""
        again: list[tuple[int, Address | None]] = []
        if self._closed:
            return again
        for index, reply in enumerate(replies):
            if not isinstance(reply, Exception):
                continue
            error = translate(reply)
            if isinstance(error, MovedError):
                self._at[int(error.slot_id)] = self._master(self._place_of(error))
                self._look_soon()
                again.append((index, None))
            elif isinstance(error, AskError):
                again.append((index, self._place_of(error)))
            elif isinstance(error, StoreSilent):  # its caller has waited long enough
                self._note_away([calls[index]])
            elif self._is_away(calls[index].slot):
                continue
            elif isinstance(error, StoreUnreached) or (isinstance(error, StoreUnavailable) and calls[index].reads):
                again.append((index, None))
        return again

    def _complete(self, replies: list[Any]) -> list[Any]:
        """See `all_good`; StoreIncomplete with the replies if a master is away and others aren't."""
        for reply in replies:
            if isinstance(reply, StoreUnavailable) and self._away and len(self._away) < len(self._masters):
                raise StoreIncomplete(str(reply), replies) from reply
        return all_good(replies)

    def _place_of(self, error: AskError) -> Address:
        return (error.host or self._seeds[0][0], int(error.port))

    async def _attempt(
        self, calls: Sequence[_Call], to_try: Sequence[tuple[int, Address | None]], replies: list[Any]
    ) -> None:
        """Send each call to its master, all concurrently; put the replies in their places."""
        groups: defaultdict[Acknowledged, list[int]] = defaultdict(list)
        asked: dict[Address, list[int]] = defaultdict(list)
        for index, address in to_try:
            if address is not None:
                asked[address].append(index)
                continue
            try:
                groups[await self._master_of(calls[index].slot)].append(index)
            except StoreError as error:
                replies[index] = error
        outcomes = await asyncio.gather(
            *(_sent(master, [calls[index] for index in indexes]) for master, indexes in groups.items()),
            *(self._sent_asking(address, [calls[index] for index in indexes]) for address, indexes in asked.items()),
        )
        for indexes, outcome in zip((*groups.values(), *asked.values()), outcomes, strict=True):
            for index, reply in zip(indexes, outcome, strict=True):
                replies[index] = reply

    async def _sent_asking(self, address: Address, calls: Sequence[_Call]) -> list[Any]:
        """The replies of a node that is importing a slot; it serves only calls that follow ASKING."""
        commands: list[Command] = []
        for call in calls:
            if call.script is not None:
                commands.append(("SCRIPT", "LOAD", call.script.text))
            commands += (("ASKING",), call.command)
        replies = await _values(self._master(address).run(commands), len(commands))
        wanted = [place for place, command in enumerate(commands) if command[0] not in ("ASKING", "SCRIPT")]
        return [replies[place] for place in wanted]

    async def _master_of(self, slot: int | None) -> Acknowledged:
        if self._closed:
            raise StoreUnavailable("this connection to Redis was closed")
        if self._layout is None:
            await self._look()
        if slot is None:
            there = [master for address, master in self._masters.items() if address not in self._away]
            return random.choice(there or list(self._masters.values()))  # noqa: S311
        master = self._at[slot]
        if master is None and self._is_away(slot):
            host, port = self._address_of(slot) or ("", 0)
            raise StoreUnreached(f"Redis can't be reached: the master {host}:{port} is away")
        if master is None:
            raise StoreUnreached(f"no master of the Redis Cluster has slot {slot}")
        return master

    # --- masters that are away -------------------------------------------------------------------------------------

    def _address_of(self, slot: int) -> Address | None:
        ranges = self._layout.ranges if self._layout else ()
        return next((address for first, last, address in ranges if first <= slot <= last), None)

    def _is_away(self, slot: int | None) -> bool:
        return bool(self._away) and slot is not None and self._address_of(slot) in self._away

    def _note_away(self, calls: Iterable[_Call]) -> None:
        """Give up masters whose calls have failed for as long as we wait, until they reply again."""
        slots = {call.slot for call in calls}
        for address in {self._address_of(slot) for slot in slots if slot is not None} - self._away.keys():
            if address is not None and address in self._masters:
                self._away[address] = asyncio.create_task(self._until_back(address), name="redis-cluster-away")
        self._fill()

    async def _until_back(self, address: Address) -> None:
        """Wait until the master replies, or isn't one any more."""
        while (master := self._masters.get(address)) is not None:
            try:
                await master.command(*ALIVE)
                break
            except (StoreError, RedisError):
                await asyncio.sleep(BACK_EVERY)
            with contextlib.suppress(StoreError):
                await self._look()
        del self._away[address]
        self._fill()

    # --- the layout ------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Read the layout, once for all waiting callers. Raises StoreUnreached, and ConfigError for the first one."""
        await asyncio.shield(self._look_soon())

    def _look_soon(self) -> asyncio.Task[None]:
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_now(), name="redis-cluster-layout")
            self._looking.add_done_callback(self._looked)
        return self._looking

    def _looked(self, task: asyncio.Task[None]) -> None:
        self._looking = None
        if not task.cancelled():
            task.exception()  # marks the error as seen, even if all waiting callers have left

    async def _look_now(self) -> None:
        known = [*self._masters, *(self._layout.replicas if self._layout else ()), *self._seeds]
        try:
            layout = await look_up(self._url, known)
        except ConfigError as error:
            if self._layout is None:
                raise
            raise StoreUnreached(f"no node of the Redis Cluster can be reached: found {error.found}") from error
        if self._layout is not None and layout.masters != self._layout.masters:
            log.info(
                "the masters of the Redis Cluster have changed", masters=sorted(f"{h}:{p}" for h, p in layout.masters)
            )
        self._take(layout)
        if self._watch is None and not self._closed:
            self._watch = asyncio.create_task(self._look_now_and_then(), name="redis-cluster-watch")

    def _take(self, layout: Layout) -> None:
        self._layout = layout
        for address in layout.masters:
            self._master(address)
        self._fill()
        for address in self._masters.keys() - layout.masters:
            # Callers would wait forever for a master that was replaced.
            task = asyncio.create_task(self._masters.pop(address).aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        for master in self._masters.values():
            master.look_again()

    def _fill(self) -> None:
        """Give each slot its master, unless that is away."""
        self._at = [None] * SLOTS
        for first, last, address in self._layout.ranges if self._layout else ():
            if address not in self._away:
                self._at[first : last + 1] = [self._master(address)] * (last + 1 - first)

    def _master(self, address: Address) -> Acknowledged:
        if address not in self._masters:
            host, port = address
            self._masters[address] = Acknowledged(self._url, self._replicas, host=host, port=port)
        return self._masters[address]

    async def _look_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self._look_every)
            with contextlib.suppress(StoreError):
                await self._look()


def _script_call(script: Script, keys: Sequence[str], args: Sequence[Arg]) -> _Call:
    return _Call(("EVALSHA", script.sha, len(keys), *keys, *args), script, keys, args)


async def _sent(master: Acknowledged, calls: Sequence[_Call]) -> list[Any]:
    """The replies of a master to commands or to scripts, which `Redis` never mixes."""
    if calls[0].script is None:
        return await _values(master.run([call.command for call in calls]), len(calls))
    scripts = [(call.script, call.keys, call.args) for call in calls if call.script is not None]
    return await _values(master.run_scripts(scripts), len(calls))


async def _values(run: Any, count: int) -> list[Any]:
    """The replies of `run`; if it raises, `count` times that error."""
    try:
        replies: list[Any] = await run
    except StoreError as error:
        return [error] * count
    return replies


def _final(reply: Any) -> Any:
    """The reply, or an error in place of a redirection that led nowhere."""
    return StoreUnavailable(f"the Redis Cluster keeps redirecting: {reply}") if isinstance(reply, AskError) else reply
