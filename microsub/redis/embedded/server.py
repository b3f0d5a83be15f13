"""The embedded default: a Valkey or Redis for the data folder, shared by all processes.

`redis.embedded.datafolder` describes the folder, `redis.embedded.programs` which program is started.

**The last process to leave stops the server.** `stop()` detaches; if no other process is attached and one of ours
started the server, it is shut down cleanly. So a command never stops the server of a running `web`, and a server
whose starter was killed is stopped by a process that adopts it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import IO

import redis
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, RedisError
from redis.retry import Retry

from microsub.base.errors import DataFolderUnusable, MicrosubError, StoreUnavailable, StoreUnusable
from microsub.base.logs import LibraryLogger
from microsub.redis.embedded.datafolder import (
    Folder,
    Record,
    prepared,
    private,
    remove_socket,
    require_own,
    socket_path,
    socket_url,
    try_lock,
)
from microsub.redis.embedded.programs import choose, programs
from microsub.redis.engine import Engine

log = LibraryLogger(__name__)

START_TIMEOUT = 30.0
LOADING_TIMEOUT = 600.0
"""Seconds that a starting server has to read its data; it reads a few hundred megabytes a second."""

STOP_TIMEOUT = 60.0
_POLL = 0.01
_NO_RETRY = Retry(NoBackoff(), 0)

# --- attached -----------------------------------------------------------------------------------------------------


class EmbeddedEngine:
    """An attached embedded server; `adopted` means that it was running before we attached."""

    def __init__(
        self, data_dir: Path, start: Callable[[], Record], running: Record, *, adopted: bool, users: IO[bytes]
    ) -> None:
        self.url = socket_url(running.socket)
        self.data_dir = data_dir
        self.adopted = adopted
        self.engine = running.engine
        self.pid = running.pid
        self._start = start
        self._users: IO[bytes] | None = users

    def stop(self) -> bool:
        """Detach, and shut the server down if no other process is attached; returns whether it was shut down.

        The data is on disk when this returns True. Raises StoreUnavailable if the server doesn't end in time.
        """
        users, self._users = self._users, None
        if users is None:
            return False
        folder = Folder(self.data_dir)
        with users, folder.starting():
            if not try_lock(users) or not folder.is_running():
                # Other processes are attached, or the server was started manually: it isn't ours to stop.
                return False
            pid = _pid(folder) or self.pid
            _terminate(pid)
            _wait(lambda: not folder.is_running(), STOP_TIMEOUT, f"{self.engine.name} (pid {pid}) does not stop")
            if (child := _children.pop(pid, None)) is not None:
                child.wait()
            remove_socket(folder.record(), folder.path)
            return True

    def start_again(self) -> None:
        """Start the server after it has ended, unless another process has done so; we stay attached.

        Raises as `start_embedded` does, and StoreUnusable if it now has another socket.
        """
        folder = Folder(self.data_dir)
        with folder.starting():
            running = _running(folder) or self._start()
        if socket_url(running.socket) != self.url:
            raise StoreUnusable(f"it listens on another socket than before: {running.socket}")
        self.pid, self.engine = running.pid, running.engine

    def is_running(self) -> bool:
        """Whether the server is alive; False too if another one has replaced it."""
        folder = Folder(self.data_dir)
        record = folder.record()
        return folder.is_running() and (record is None or record.pid == self.pid)


def start_embedded(data_dir: Path, memory: int | None = None, program: Path | None = None) -> EmbeddedEngine:
    """Attach to the server of `data_dir`, starting it if needed. Blocks until it answers.

    A started one uses at most `memory` bytes for data (0: any number; None: `SHARE` of the machine's), and is `program`
    or the one that `choose` finds. Before another engine than the last one takes the data over, its files are copied.

    Raises ConfigError if no usable program exists or the folder can't be used, SchemaMismatch if none of the programs
    can read the data, StoreUnavailable if the server doesn't come up.
    """
    folder = Folder(prepared(data_dir))
    try:
        return _attached(folder, lambda: _start(folder, default_memory() if memory is None else memory, program))
    except OSError as error:
        raise DataFolderUnusable("write to", error.filename or folder.path, error) from error


def _attached(folder: Folder, start: Callable[[], Record]) -> EmbeddedEngine:
    with folder.starting():
        before = _running(folder)
        running = before or start()
        # We attach before we release the lock: nobody can stop the server in between.
        users = private(folder.users)  # it stays open for as long as we are attached
        fcntl.flock(users, fcntl.LOCK_SH)
    return EmbeddedEngine(folder.path, start, running, adopted=before is not None, users=users)


# --- a running server --------------------------------------------------------------------------------------------


def _answer(address: str, data_dir: Path) -> Record | None:
    """The server at that socket if it serves `data_dir`; waits while it reads its data.

    Raises StoreUnavailable if that takes longer than `LOADING_TIMEOUT`.
    """
    require_own(address)
    deadline = time.monotonic() + LOADING_TIMEOUT
    while time.monotonic() < deadline:
        client = redis.Redis(unix_socket_path=address, socket_timeout=5, socket_connect_timeout=5, retry=_NO_RETRY)
        try:
            info = client.info("server")
            where = client.config_get("dir")["dir"] or ""
            client.dbsize()  # see `protocol.ALIVE`
        except BusyLoadingError:
            time.sleep(_POLL * 5)
            continue
        except (RedisError, OSError):
            return None
        finally:
            client.close()
        if Path(where) != data_dir:
            return None
        return Record(pid=int(info["process_id"]), engine=Engine.of_info(info), socket=address)
    raise StoreUnavailable(
        f"the server of {data_dir} is still loading its data after {LOADING_TIMEOUT:.0f} s. Start again when it answers"
    )


def _running(folder: Folder) -> Record | None:
    """The server of this folder, however it was started; None if none is alive.

    A server of ours that is alive but doesn't answer is starting or stopping, or has lost its socket.
    """
    record = folder.record()
    # A process killed between starting the server and recording it leaves no record: try the usual path.
    sockets = {str(folder.path / "redis.sock"), *([record.socket] if record else [])}
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        for address in sockets:
            running = _answer(address, folder.path)
            if running is not None:
                return running
        if not folder.is_running():
            return None
        if time.monotonic() > deadline or not any(map(os.path.exists, sockets)):
            break
        time.sleep(_POLL * 5)
    pid = record.pid if record else "unknown"
    raise StoreUnavailable(
        f"a server (pid {pid}) runs on {folder.path} but does not answer on its socket; stop it with: kill {pid}"
    )


def _pid(folder: Folder) -> int | None:
    """The pid of the process that serves the folder now; it differs if the server was replaced."""
    record = folder.record()
    for address in {str(folder.path / "redis.sock"), *([record.socket] if record else [])}:
        if (answer := _answer(address, folder.path)) is not None:
            return answer.pid
    return record.pid if record else None


def _terminate(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return


def _wait(condition: Callable[[], bool], seconds: float, failure: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise StoreUnavailable(failure)
        time.sleep(_POLL)


# --- starting one ------------------------------------------------------------------------------------------------


def _start(folder: Folder, memory: int, named: Path | None) -> Record:
    before = folder.record()
    written_by = folder.written_by(before)
    candidates = programs(named)
    program = choose(candidates, written_by, folder.path)
    engine = candidates[program]
    if written_by is not None and engine.name != written_by.name:
        copy = folder.copy_data(f"before-{engine.name.lower()}")
        log.warning(
            f"{engine} takes over the data; {written_by} can't read it afterwards, but this copy",
            folder=str(copy),
        )
    remove_socket(before, folder.path)
    _reap()
    address = socket_path(folder.path, before)
    with private(folder.running) as running, private(folder.log) as said:
        fcntl.flock(running, fcntl.LOCK_EX)
        child = subprocess.Popen(  # noqa: S603 - the program was found by us, the arguments are ours
            [str(program), *_arguments(folder.path, address, memory)],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env={TUNABLES: ALLOCATOR} | os.environ,
            pass_fds=[running.fileno()],
            umask=0o077,  # an existing folder may be open to others
            start_new_session=True,  # Ctrl-C in the terminal ends only us; we stop it when our work is done
            cwd=folder.path,
        )
    record = Record(pid=child.pid, engine=engine, socket=address)
    # Recorded before it answers: if we are killed now, the next process can still find it.
    try:
        folder.write_record(record)
    except OSError:  # for example, the disk is full: no process would find that server
        child.terminate()
        child.wait()
        raise
    _children[child.pid] = child
    deadline = time.monotonic() + START_TIMEOUT
    while child.poll() is None:
        answer = _answer(address, folder.path)
        if answer is not None:
            return answer
        if time.monotonic() > deadline:
            child.terminate()
            break
        time.sleep(_POLL)
    words = _last_words(folder.log)
    if any(sign in words for sign in _UNREADABLE):
        raise StoreUnusable(
            f"{program} can't read its data in {folder.path}, because the append-only file is corrupt. "
            f'The page docs/how-to/check-and-repair-redis.md, section "A corrupt append-only file", says how to repair '
            f"it, and what is lost. {engine.name} says: {words}"
        )
    raise StoreUnavailable(f"{engine} did not start on {folder.path}: {words}")


_UNREADABLE = ("redis-check-aof", "Bad file format", "Wrong signature", "Bad RDB", "Unexpected end of file")
"""Words of Redis 6.2 to 8 and Valkey about files that it can't read."""


_children: dict[int, subprocess.Popen[bytes]] = {}
"""Children of this process, kept to reap them when they end."""


def _reap() -> None:
    for pid in [pid for pid, child in _children.items() if child.poll() is not None]:
        del _children[pid]


def _arguments(data_dir: Path, address: str, memory: int) -> list[str]:
    return [
        *("--port", "0"),
        *("--unixsocket", address),
        *("--unixsocketperm", "700"),
        *("--dir", str(data_dir)),
        *("--appendonly", "yes"),
        *("--appendfsync", "everysec"),
        *("--save", ""),  # the append-only file holds everything already
        *("--daemonize", "no"),
        *("--maxmemory", str(memory)),
        *("--maxmemory-policy", "noeviction"),
        *COMPACT,
    ]


COMPACT = (
    *("--hash-max-ziplist-value", "4096", "--hash-max-ziplist-entries", "128"),
    *("--set-max-intset-entries", "100000"),
)
"""Settings that make the engine keep a post in one piece (`connect.COMPACT`): half the memory of a table. In larger
hashes of guids, which would become such pieces too, looking one up would take long. And the one by which it keeps the
ids that have left a timeline in four bytes each.
"""

TUNABLES, ALLOCATOR = "GLIBC_TUNABLES", "glibc.malloc.tcache_count=400"
"""How many freed pieces of one size glibc keeps at hand, 7 by default. Valkey's wheel uses glibc's allocator, and one
call of a script allocates and frees hundreds: with 400 a post for one more timeline takes 0.85 to 0.95 of the
time. Without effect where the engine has another allocator. A value in the environment of this process comes first.
"""


SHARE = 2 / 3
"""The part of the machine's memory that the data may use by default; the rest is for our processes, and for changes of
the data while Redis rewrites its file.
"""
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Files with the limit of a container, for cgroups of both versions."""


def default_memory() -> int:
    """Bytes that the data may use by default; 0 if the machine's memory is unknown."""
    try:
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (ValueError, OSError):
        return 0
    for file in _LIMITS:
        with contextlib.suppress(OSError, ValueError):  # `max` for no limit
            found.append(int(file.read_text()))
    return int(min(found) * SHARE)


def _last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()[-3:]
    return " | ".join(lines) or "its log is empty"


# --- liveness -----------------------------------------------------------------------------------------------------

WATCH_SECONDS = 2.0
"""Seconds between two checks of a process that its embedded server is alive."""

RESTARTS = (0.0, 1.0, 5.0, 15.0)
"""Seconds before each attempt to start an ended server again; after the last one, the process ends too."""

LASTING = 600.0
"""Seconds after which a server counts as lasting: earlier attempts don't count any more."""

ENDED = "the embedded engine has stopped; see redis.log in the data folder"


class Watch:
    """The watch over an embedded server: `ended` is set when the server has ended and can't be started again."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self._why = ""

    def give_up(self, why: str) -> None:
        """Note that the server has ended permanently."""
        self._why = why
        self.ended.set()

    def raise_if_ended(self) -> None:
        """Raise StoreUnusable when the server has ended."""
        if self.ended.is_set():
            raise StoreUnusable(f"{ENDED}; it can't be started again: {self._why}")


@contextlib.asynccontextmanager
async def watched(embedded: EmbeddedEngine, *, failed: Callable[[asyncio.Task[None]], None]) -> AsyncIterator[Watch]:
    """Check regularly that the server is alive, and start it again a few times; `failed` gets the task when it ends."""
    watch = Watch()

    async def look() -> None:
        attempts, began, why = 0, time.monotonic(), "it ended again and again"
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if embedded.is_running():
                attempts = 0 if time.monotonic() - began > LASTING else attempts
                continue
            if attempts == len(RESTARTS):
                watch.give_up(why)
                return
            log.error(f"{ENDED}; starting it again", folder=str(embedded.data_dir), seconds=RESTARTS[attempts])
            await asyncio.sleep(RESTARTS[attempts])
            attempts += 1
            try:
                await asyncio.to_thread(embedded.start_again)
            except StoreUnusable as error:
                watch.give_up(str(error))
                return
            except (MicrosubError, OSError) as error:
                why = str(error)
                log.error("the embedded engine can't be started", reason=why)  # noqa: TRY400
            else:
                began, why = time.monotonic(), "it ended again and again"
                log.warning("the embedded engine runs again", folder=str(embedded.data_dir))

    task = asyncio.create_task(look(), name="embedded engine")
    task.add_done_callback(failed)
    try:
        yield watch
    finally:
        task.cancel()
