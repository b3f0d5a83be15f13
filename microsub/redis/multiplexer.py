"""One connection to Redis for all callers of a process, at very little cost per call.

redis-py's `Connection` connects (TCP, TLS, unix socket, authentication). Replies have the shape of RESP2, as in any
other implementation of `protocol.Redis`. Redis sends them in the order of the commands; hiredis parses them, and each
sets its caller's future.

The reply to a cancelled caller is discarded. A lost connection fails all outstanding calls, since nobody can know
whether they ran; the next call connects again.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import hiredis
from redis._parsers.base import BaseParser
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    InvalidResponse,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from microsub.base.errors import (
    StoreFull,
    StoreSilent,
    StoreUnavailable,
    StoreUnconfirmed,
    StoreUnreached,
    StoreUnusable,
)
from microsub.base.logs import LibraryLogger
from microsub.redis.protocol import READS, Arg, Command, ScriptCall

log = LibraryLogger(__name__)

CONNECT_TIMEOUT = 5.0
REPLY_TIMEOUT = 8.0
"""Seconds without a reply, while any are due, after which a connection counts as dead; readers wait ten at most."""

LOOKS = 8
"""How often a connection is looked at within that time: a process that was paused itself misses a single look."""

SAID_AFTER = 3
"""Looks without a reply after which the log says that Redis is silent."""

AT_ONCE = 8
"""Number of calls in flight up to which a command is written at once. With eight clients, batching costs a fifth of the
requests per second: Redis idles while requests are read, then this process idles while Redis handles them.
"""

_Run = Callable[[Sequence[Command]], Awaitable[list[Any]]]
Changed = Callable[[list[bytes] | None], None]
"""Called with the keys that have changed; None stands for all."""

# redis-py packs in Python; hiredis does the same in a tenth of the time.
_pack: Callable[[Command], bytes] = hiredis.pack_command  # type: ignore[assignment]  # its stub means a 1-tuple


def connection_maker(url: str, *, protocol: int = 2, **changes: Any) -> Callable[[], AbstractConnection]:
    """A function that makes unconnected connections to a `redis`, `rediss` or `unix` URL.

    `changes` override parts of the URL (`host`, `port`). Raises ValueError for other schemes.
    """
    pool = ConnectionPool.from_url(url)
    options = {
        **pool.connection_kwargs,
        "protocol": protocol,
        "decode_responses": False,
        "socket_timeout": None,  # replies are watched as a whole, not one by one
        "socket_connect_timeout": pool.connection_kwargs.get("socket_connect_timeout") or CONNECT_TIMEOUT,
        "driver_info": None,  # CLIENT SETINFO is newer than 6.2
    }
    options |= changes
    if "path" not in options:
        options["socket_keepalive"] = True
    return lambda: pool.connection_class(**options)


SILENT = "Redis accepts connections, but doesn't reply"


class Outage:
    """What the log says about a server that has replied before: once that it is away, and once that it is back."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._has_replied = False
        self.why = ""
        """The last logged state; empty while the server replies."""
        self._since: float | None = None

    def begin(self, why: str) -> None:
        """Note that the server is away."""
        self.why = why
        if self._since is None and self._has_replied:
            self._since = time.monotonic()
            log.warning(why, server=self._server)

    def end(self) -> None:
        """Note that the server replies."""
        self._has_replied, self.why = True, ""
        if self._since is not None:
            log.warning("Redis replies again", server=self._server, seconds=round(time.monotonic() - self._since, 1))
            self._since = None


def _name(connection: AbstractConnection) -> str:
    path: str | None = getattr(connection, "path", None)
    return path or f"{getattr(connection, 'host', '')}:{getattr(connection, 'port', '')}"


class Multiplexed:
    """`Redis` for a single server. Belongs to one event loop; connects with the first call.

    `changes` override parts of the URL (`host`, `port`). `most_bytes` bounds the replies to one call of an untrusted
    server: larger replies end the connection. `changed` is called at the first change of each key that was read by this
    connection, before the reply to any later call, and when the connection is lost
    (https://redis.io/docs/latest/develop/reference/client-side-caching/).
    """

    is_cluster = False

    def __init__(
        self,
        url: str,
        *,
        reply_timeout: float = REPLY_TIMEOUT,
        most_bytes: float = math.inf,
        changed: Changed | None = None,
        **changes: Any,
    ) -> None:
        self._make = connection_maker(url, protocol=2 if changed is None else 3, **changes)
        self._url, self._changes, self._changed = url, changes, changed
        self.name = _name(self._make())
        """The address of the server, without a password."""
        self.outage = Outage(self.name)
        self._reply_timeout = reply_timeout
        self._most_bytes = most_bytes
        self._link: _Link | None = None
        self._connecting: asyncio.Task[_Link] | None = None
        self._made: AbstractConnection | None = None
        self._closed = False

    def reporting(self, changed: Changed) -> Multiplexed:
        """Another connection to the same server, which reports changes."""
        made = Multiplexed(self._url, reply_timeout=self._reply_timeout, changed=changed, **self._changes)
        made.outage = self.outage
        return made

    @property
    def is_accepted(self) -> bool:
        """Whether the server has accepted a connection that isn't lost, even if it doesn't reply."""
        if self._link is not None and not self._link.lost:
            return True
        return self._made is not None and self._made.is_connected

    async def command(self, *args: Arg) -> Any:
        """See `Redis.command`."""
        link = self._link
        if link is None or link.lost:
            link = await self._connected()
        return await link.send(_pack(args))

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """See `Redis.pipeline`."""
        return all_good(await self.run(commands))

    async def script(self, call: ScriptCall) -> Any:
        """See `Redis.script`."""
        link = self._link
        if link is None or link.lost:
            link = await self._connected()
        script, keys, args = call
        packed = _pack(("EVALSHA", script.sha, len(keys), *keys, *args))
        try:
            return await link.send(packed)
        except NoScriptError:
            await self.command("SCRIPT", "LOAD", script.text)
            link = await self._connected()
            return await link.send(packed)

    async def scripts(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """See `Redis.scripts`."""
        return all_good(await self.run_scripts(calls))

    async def scan(self, count: int = 1000) -> AsyncIterator[list[bytes]]:
        """See `Redis.scan`."""
        cursor = b"0"
        while True:
            cursor, found = await self.command("SCAN", cursor, "COUNT", count)
            if found:
                yield found
            if cursor == b"0":
                return

    async def aclose(self) -> None:
        """Close the connection; calls in flight and later ones raise StoreUnavailable."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        if self._link is not None:
            await self._link.aclose()

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """The replies in order; errors are values among them, of redis-py's classes."""
        if not commands:
            return []
        link = self._link
        if link is None or link.lost:
            link = await self._connected()
        return await link.send_all([_pack(command) for command in commands])

    async def run_scripts(self, calls: Sequence[ScriptCall], run: _Run | None = None) -> list[Any]:
        """Run scripts as `scripts` does; errors are values among the replies. `run` replaces our own."""
        run = run or self.run
        commands: list[Command] = [("EVALSHA", script.sha, len(keys), *keys, *args) for script, keys, args in calls]
        replies = await run(commands)
        unknown = [index for index, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if unknown:
            missing = {calls[index][0].sha: calls[index][0] for index in unknown}.values()
            await self.pipeline([("SCRIPT", "LOAD", script.text) for script in missing])
            again = await run([commands[index] for index in unknown])
            for index, reply in zip(unknown, again, strict=True):
                replies[index] = reply
        return replies

    async def _connected(self) -> _Link:
        """The live connection; one caller makes it for all that wait."""
        if self._closed:
            raise StoreUnavailable("this connection to Redis was closed")
        if self._link is not None and not self._link.lost:
            return self._link
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect(), name="redis-connect")
            self._connecting.add_done_callback(self._connect_done)
        # A caller that is cancelled must not take the connection away from the others.
        return await asyncio.shield(self._connecting)

    async def _connect(self) -> _Link:
        connection = self._made = self._make()
        try:
            async with asyncio.timeout(self._reply_timeout):  # redis-py waits for replies to AUTH without a limit
                await connection.connect()  # type: ignore[no-untyped-call]
                limits = self._reply_timeout, self._most_bytes, self.outage
                if self._changed is None:
                    self._link = _Link(connection, *limits)
                else:
                    self._link = await _reporting(_ReportingLink(connection, *limits, self._changed))
        except AuthenticationError as error:
            raise StoreUnusable(f"Redis refuses the password of the URL: {error}") from error
        except (RedisError, OSError) as error:
            why = SILENT if connection.is_connected else f"Redis can't be reached: {error}"
            self.outage.begin(why)
            raise (StoreSilent if connection.is_connected else StoreUnreached)(why) from error
        finally:
            self._made = None
            if self._link is None or self._link.lost:
                await connection.disconnect(nowait=True)
        return self._link

    def _connect_done(self, task: asyncio.Task[_Link]) -> None:
        self._connecting = None
        if not task.cancelled():
            task.exception()  # marks the error as seen, even if all waiting callers were cancelled


class _Link(asyncio.Protocol):
    """A live connection with the callers that wait for its replies; not used after a loss.

    redis-py connects, secures and authenticates; then this protocol takes over its transport. While Redis has little
    to do, commands are written at once, so that it works while this process reads the next request. Further commands
    are collected during one turn of the loop and written together.
    """

    def __init__(self, connection: AbstractConnection, reply_timeout: float, most_bytes: float, outage: Outage) -> None:
        self.lost = False
        self._outage = outage
        self._most_bytes = most_bytes
        self._bytes = 0
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._gathered: list[bytes] = []
        # One entry per call: the caller's future, and for a batch the replies so far and their number.
        self._waiting: deque[tuple[asyncio.Future[Any], list[Any] | None, int]] = deque()
        self._replies = 0
        self._reply_timeout = reply_timeout
        self._reader = hiredis.Reader(protocolError=InvalidResponse, replyError=BaseParser.parse_error)
        writer: asyncio.StreamWriter = connection._writer  # type: ignore[assignment]  # connected, so there is one
        self._transport = writer.transport
        self._transport.set_protocol(self)
        self._watch = self._loop.call_later(reply_timeout / LOOKS, self._check, -1)

    def send(self, packed: bytes) -> asyncio.Future[Any]:
        """The future reply to one packed command."""
        if self.lost:
            raise StoreUnavailable("the connection to Redis was lost")
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append((future, None, 1))
        self._put(packed)
        return future

    def send_all(self, packed: list[bytes]) -> asyncio.Future[list[Any]]:
        """The future replies to several packed commands, errors among them as values."""
        if self.lost:
            raise StoreUnavailable("the connection to Redis was lost")
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        self._waiting.append((future, [], len(packed)))
        self._put(b"".join(packed))
        return future

    def _put(self, packed: bytes) -> None:
        if len(self._waiting) <= AT_ONCE and not self._gathered:
            self._transport.write(packed)
            return
        if not self._gathered:
            self._loop.call_soon(self._flush)
        self._gathered.append(packed)

    def _flush(self) -> None:
        if not self.lost:
            self._transport.write(b"".join(self._gathered))
        self._gathered.clear()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`: pass complete replies to their callers."""
        reader = self._reader
        self._bytes += len(data)
        if self._bytes > self._most_bytes:
            self._lose(RedisConnectionError(f"it sent more than {self._most_bytes} bytes for one call"))
            return
        try:
            reader.feed(data)
            while (reply := reader.gets()) is not False:  # RESP2 has no booleans: False means no more replies
                if isinstance(reply, RedisConnectionError):
                    # Redis is loading, or out of clients: no command in the queue was run.
                    self._lose(reply)
                    return
                self._replies += 1
                self._hand_out(reply)
        except RedisError as error:
            self._lose(error)
        except MemoryError:  # for example, the announced length of a list
            self._lose(RedisConnectionError("a reply is larger than memory"))
        except IndexError:
            self._lose(RedisConnectionError("it sent a reply without a request"))

    def _hand_out(self, reply: Any) -> None:
        self._outage.end()
        future, replies, wanted = self._waiting[0]
        if replies is not None:
            replies.append(reply)
            if len(replies) < wanted:
                return
            reply = replies
        self._waiting.popleft()
        self._bytes = 0
        if future.done():  # its caller was cancelled
            return
        if isinstance(reply, ResponseError):
            future.set_exception(translate(reply))
        else:
            future.set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._lose(exc or RedisConnectionError("the server closed it"))

    def _check(self, replies_before: int, silent: int = 0) -> None:
        """Close a connection that owes replies and has sent none in all of the last looks."""
        if self.lost:
            return
        silent = silent + 1 if self._waiting and self._replies == replies_before else 0
        if silent >= SAID_AFTER:
            self._outage.begin(SILENT)
        if silent >= LOOKS:
            self._lose(TimeoutError(f"no reply within {self._reply_timeout:g} s"))
            return
        # With nothing outstanding now, the next look would blame a call made right after this one.
        before = self._replies if self._waiting else -1
        self._watch = self._loop.call_later(self._reply_timeout / LOOKS, self._check, before, silent)

    def _lose(self, error: BaseException) -> None:
        if self.lost:
            return
        self.lost = True
        self._watch.cancel()
        kind: type[StoreUnavailable] = StoreSilent if isinstance(error, TimeoutError) else StoreUnavailable
        kind = StoreUnreached if isinstance(error, BusyLoadingError) else kind
        if isinstance(error, BusyLoadingError):
            self._outage.begin(f"Redis is not ready: {error}")
        for future, _, _ in self._waiting:
            if not future.done():
                future.set_exception(kind(f"the connection to Redis was lost: {error}"))
        self._waiting.clear()
        # Unsent data doesn't matter any more, so there is nothing to wait for.
        self._transport.abort()
        closing = self._loop.create_task(self._connection.disconnect(nowait=True))
        closing.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def aclose(self) -> None:
        """Fail the outstanding calls and close the socket."""
        self._lose(RedisConnectionError("closed"))
        await self._connection.disconnect(nowait=True)


class _ReportingLink(_Link):
    """A link in RESP3, over which Redis also sends the keys that have changed."""

    def __init__(
        self, connection: AbstractConnection, reply_timeout: float, most_bytes: float, outage: Outage, changed: Changed
    ) -> None:
        super().__init__(connection, reply_timeout, most_bytes, outage)
        self._changed = changed

    def _hand_out(self, reply: Any) -> None:
        if isinstance(reply, hiredis.PushNotification):
            self._changed(reply[1])
        else:
            super()._hand_out(_as_in_resp2(reply))

    def _lose(self, error: BaseException) -> None:
        super()._lose(error)
        self._changed(None)


_REPORTS_ALL = (7, 2)
"""The first version of Redis that reports keys which a script has read without being called with them."""
_VERSION = re.compile(rb"redis_version:(\d+)\.(\d+)")


async def _reporting(link: _ReportingLink) -> _ReportingLink:
    try:
        found = _VERSION.search(await link.send(_pack(("INFO", "server"))))
        await link.send(_pack(("CLIENT", "TRACKING", "ON")))
    except ResponseError as error:
        raise StoreUnusable(f"Redis refuses to report changes: {error}") from error
    if found is None or tuple(map(int, found.groups())) < _REPORTS_ALL:
        raise StoreUnusable("Redis reports only some changes before version 7.2")
    return link


def _as_in_resp2(reply: Any) -> Any:
    """A reply of RESP3 to one of `READS`: maps are lists there, scores texts, and members with scores one list."""
    if isinstance(reply, dict):
        return [_as_in_resp2(part) for pair in reply.items() for part in pair]
    if isinstance(reply, float):
        return b"%.17g" % reply
    if isinstance(reply, list | set):
        parts = [_as_in_resp2(part) for part in reply]
        has_scores = isinstance(reply, list) and any(_is_scored(part) for part in reply)
        return [part for pair in parts for part in pair] if has_scores else parts
    return reply


def _is_scored(part: Any) -> bool:
    return isinstance(part, list) and len(part) == 2 and isinstance(part[1], float)


# --- errors ----------------------------------------------------------------------------------------------------

_REFUSALS = ("OOM ", "MISCONF ", "NOREPLICAS ", "READONLY ")
# redis-py has classes for them, whose text lacks the word.
_NOT_READY = (BusyLoadingError, ClusterDownError, TryAgainError)  # MASTERDOWN is a ClusterDownError
_MOVING_IN_SCRIPT = "non local key"
# Until Redis 7 an error inside a script arrives wrapped: "ERR Error running script (…): … -OOM command not allowed".
_REFUSALS_IN_SCRIPT = tuple(f"-{word}" for word in _REFUSALS)
_WHERE_IN_SCRIPT = re.compile(r"\s*script: [0-9a-f]{40}, on @user_script:\d+\.?|\A.*@user_script: ?\d+: -?")
"""The place in our script, as Redis 7 and Redis 6 write it: of no use to an admin."""


def translate(error: BaseException) -> BaseException:
    """A StoreError in place of `error` if Redis can't serve, otherwise `error` itself (a bug)."""
    if isinstance(error, OutOfMemoryError | ReadOnlyError):
        return StoreFull(f"Redis refuses writes: {_plain(str(error))}")
    if isinstance(error, _NOT_READY):
        return StoreUnreached(f"Redis is not ready: {error}")
    if isinstance(error, ResponseError):
        text = str(error)
        if text.startswith(_REFUSALS) or any(word in text for word in _REFUSALS_IN_SCRIPT):
            return StoreFull(f"Redis refuses writes: {_plain(text)}")
        if _MOVING_IN_SCRIPT in text:
            return StoreUnavailable(f"a slot of the Redis Cluster is moving from one master to another: {_plain(text)}")
        return error
    if isinstance(error, RedisConnectionError | RedisTimeoutError | RedisClusterException | OSError):
        return StoreUnavailable(f"Redis can't be reached: {error}")
    return error


def all_good(replies: list[Any]) -> list[Any]:
    """The replies. Raises the first error among them, translated."""
    for reply in replies:
        if isinstance(reply, Exception):
            raise translate(reply) from reply
    return replies


def _plain(text: str) -> str:
    return _WHERE_IN_SCRIPT.sub("", text)


# --- replicas --------------------------------------------------------------------------------------------------

WAIT_SECONDS = 1.0
"""Seconds that replicas have to confirm a write. They answer at once unless something is wrong."""

# If one of these is lost, the next call finds the message again and another consumer gets it.
_HARMLESS = READS | {"XREADGROUP", "XAUTOCLAIM", "XCLAIM"}


class Acknowledged(Multiplexed):
    """`Redis` for one server; a change counts as made once `replicas` replicas have it.

    Redis answers before its replicas get the change, and a replica that takes over lacks the last moments. So every
    write is followed by `WAIT` (https://redis.io/docs/latest/commands/wait/) in the same packet; it costs the way to
    the replica and back, but no further round trip from here. Writes have a connection of their own: Redis delays all
    commands after a `WAIT` on the same connection, and reads must not wait.

    A write that replicas don't confirm raises StoreUnconfirmed: it was made, but might be lost. `replicas` None means
    one, if a replica is connected and up to date. `changes` as in `Multiplexed`.
    """

    def __init__(self, url: str, replicas: int | None, **changes: Any) -> None:
        super().__init__(url, **changes)
        self._asked_for = replicas
        self._wanted = replicas
        self._writes = Multiplexed(url, **changes)
        self._writes.outage = self.outage

    def look_again(self) -> None:
        """Count the replicas again at the next write: some may have come or gone."""
        self._wanted = self._asked_for

    async def command(self, *args: Arg) -> Any:
        """See `Redis.command`."""
        if self._wanted == 0 or args[0] in _HARMLESS:
            return await super().command(*args)
        return all_good(await self._written([args]))[0]

    async def script(self, call: ScriptCall) -> Any:
        """See `Redis.script`."""
        if self._wanted == 0 or not call[0].writes:
            return await super().script(call)
        return (await self.scripts([call]))[0]

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """See `Multiplexed.run`."""
        if all(command[0] in _HARMLESS for command in commands):
            return await super().run(commands)
        return await self._written(commands)

    async def run_scripts(self, calls: Sequence[ScriptCall], run: _Run | None = None) -> list[Any]:
        """See `Multiplexed.run_scripts`."""
        return await super().run_scripts(calls, run or self._run_for(calls))

    async def aclose(self) -> None:
        """See `Redis.aclose`."""
        await super().aclose()
        await self._writes.aclose()

    def _run_for(self, calls: Sequence[ScriptCall]) -> _Run:
        return self._written if any(script.writes for script, _, _ in calls) else super().run

    async def _written(self, commands: Sequence[Command]) -> list[Any]:
        wanted = self._wanted
        if wanted is None:
            wanted = self._wanted = await self._replicas()
        if not wanted:
            return await super().run(commands)
        *replies, have = await self._writes.run([*commands, ("WAIT", wanted, int(WAIT_SECONDS * 1000))])
        if isinstance(have, int) and have >= wanted:
            return replies
        if all(isinstance(reply, Exception) for reply in replies):
            return replies  # nothing was written, so there is nothing to lose
        self.look_again()
        if self._asked_for is None and not await self._replicas():
            log.warning("a master has lost its last replica; new writes are not replicated")
            return replies
        raise StoreUnconfirmed(f"written, but only {have} of {wanted} replicas had it within {WAIT_SECONDS:g} s")

    async def _replicas(self) -> int:
        """The number of replicas to wait for by default: one, if one is connected and has caught up."""
        try:
            role = await super().command("ROLE")
        except ResponseError:  # a rented Redis may forbid it
            return 0
        return int(role[0] == b"master" and len(role[2]) > 0)
