"""Storages for copies: any mapping from text to bytes, or an asynchronous one."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

Mapping = MutableMapping[str, bytes]
Opener = Callable[[], Mapping]


class UrlLock(Protocol):
    """The exclusive right to send a request for one URL, among all processes that share a storage."""

    @property
    def lease(self) -> float | None:
        """Seconds after which it expires unless it is renewed; None: it ends with its process."""
        ...

    async def acquire(self) -> bool:
        """Take it if it is free; don't wait."""
        ...

    async def begin(self) -> tuple[bool, bytes | None]:
        """`acquire`, then `Storage.get`: whether the lock is ours, and the bytes."""
        ...

    async def end(self, value: bytes, seconds: float) -> None:
        """`Storage.put`, then `release`."""
        ...

    async def renew(self) -> object:
        """Extend the lease, if it is still ours."""
        ...

    async def release(self) -> None:
        """Release it, if it is still ours."""
        ...


class Storage(Protocol):
    """Bytes by URL. Its errors are logged and in `CachedFeed.storage_error`, and it then counts as empty."""

    async def get(self, url: str) -> bytes | None:
        """The bytes last stored, or None."""
        ...

    async def put(self, url: str, value: bytes, seconds: float) -> None:
        """Store all of `value` or nothing; after `seconds` (may be `inf`) it isn't needed."""
        ...

    async def remove(self, url: str) -> None:
        """Forget the URL, if it is stored."""
        ...

    async def urls(self) -> list[str]:
        """All stored URLs."""
        ...

    async def tidy(self) -> None:
        """Remove what dead writers left behind."""
        ...

    def lock(self, url: str) -> UrlLock | None:
        """A lock for that URL, not taken yet; None if no other process can use the storage."""
        ...

    async def aclose(self) -> None:
        """Close threads and files."""
        ...


class KeyLock(Protocol):
    """A mapping's own lock, from `lock(key)`: a blocking `UrlLock`."""

    @property
    def lease(self) -> float | None:
        """See `UrlLock.lease`."""
        ...

    def acquire(self) -> bool:
        """Take it if it is free; don't wait."""
        ...

    def renew(self) -> None:
        """Extend the lease, if it is still ours."""
        ...

    def release(self) -> None:
        """Release it, if it is still ours."""
        ...


class Lockable(Protocol):
    """A thread-safe mapping that offers a lock per key, across processes."""

    def lock(self, key: str) -> KeyLock:
        """A lock for that key, not taken yet."""
        ...


class MappingStorage:
    """A mapping of text to bytes as a storage, or a function that opens one. Raises TypeError for anything else.

    A mapping is what values can be read from and written to by key (`__getitem__`, which raises KeyError, or `get`, and
    `__setitem__`); without `__delitem__` it gets an empty value instead, and without a list of its keys `purge` finds
    nothing. The function is for mappings that must be used in the thread that opened them (`shelve` on SQLite).

    A dict is used directly. A mapping with a `lock` method is used from several threads at once, any other from only
    one thread, so it needn't be thread-safe.
    """

    def __init__(self, mapping: Mapping | Opener) -> None:
        is_open = _is_mapping(mapping)
        if not is_open and not callable(mapping):
            raise _no_storage(mapping)
        if type(offered(mapping, "dict")).__module__ == "dbm.sqlite3":
            raise TypeError(
                "the storage of a feed cache is a shelf on SQLite, as usual from Python 3.13 on, which works only in "
                "the thread that opened it: expected a function that opens it, FeedCache(lambda: shelve.open(path))"
            )
        self._open: Any = None if is_open else mapping
        self._mapping: Any = mapping if is_open else None
        self._plain: Mapping | None = mapping if isinstance(mapping, dict) else None
        self._lockable: Any = mapping if is_open and callable(offered(mapping, "lock")) else None
        self._threads: ThreadPoolExecutor | None = None
        self._process = os.getpid()

    async def get(self, url: str) -> bytes | None:
        """See `Storage.get`."""
        return await self._run(lambda mapping: _value(mapping, url))

    async def put(self, url: str, value: bytes, seconds: float) -> None:
        """See `Storage.put`. A mapping doesn't expire values: `FeedCache.purge` does."""
        await self._run(lambda mapping: mapping.__setitem__(url, value))

    async def remove(self, url: str) -> None:
        """See `Storage.remove`."""
        await self._run(lambda mapping: _forget(mapping, url))

    async def urls(self) -> list[str]:
        """See `Storage.urls`."""
        return await self._run(_keys)

    async def tidy(self) -> None:
        """See `Storage.tidy`."""
        await self._run(_tidy)

    def lock(self, url: str) -> UrlLock | None:
        """See `Storage.lock`."""
        return None if self._lockable is None else _ThreadedLock(self._lockable.lock(url), self, url)

    async def aclose(self) -> None:
        """See `Storage.aclose`. A mapping that was passed open stays open."""
        if self._open is not None and self._mapping is not None:
            await self._run(_close)
            self._mapping = None
        if self._threads is not None and self._process == os.getpid():
            self._threads.shutdown(wait=False)
        self._threads = None

    async def _run(self, work: Callable[[Any], T]) -> T:
        if self._plain is not None:
            return work(self._plain)
        if self._lockable is not None and self._mapping is not None:
            return await asyncio.to_thread(work, self._mapping)
        return await asyncio.get_running_loop().run_in_executor(self._thread(), self._work, work)

    def _work(self, work: Callable[[Any], T]) -> T:
        if self._mapping is None:
            opened = self._open()
            if not _is_mapping(opened):
                raise _no_storage(opened)
            self._mapping = opened
        return work(self._mapping)

    def _thread(self) -> ThreadPoolExecutor:
        if self._threads is None or self._process != os.getpid():  # threads don't survive a fork
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="feed-cache")
            self._process = os.getpid()
        return self._threads


def offered(value: object, name: str) -> Any:
    """An attribute, or None; some classes refuse names that they don't know with errors of their own."""
    with suppress(Exception):
        return getattr(value, name)
    return None


def _is_mapping(value: object) -> bool:
    readable, writable = offered(value, "__getitem__"), offered(value, "__setitem__")
    return bool(readable and writable) and not isinstance(value, Sequence | type)


def _no_storage(value: object) -> TypeError:
    return TypeError(
        f"the storage of a feed cache is {type(value).__name__}: expected a mapping of text to bytes, a function that "
        "opens one, or a Storage; a folder is DirectoryMapping(path)"
    )


def _value(mapping: Any, key: str) -> bytes | None:
    value = None
    if offered(mapping, "get"):
        value = mapping.get(key)
    else:
        with suppress(KeyError):
            value = mapping[key]
    return value if offered(mapping, "__delitem__") else value or None


def _forget(mapping: Any, key: str) -> None:
    with suppress(KeyError):
        if offered(mapping, "__delitem__"):
            del mapping[key]
        elif _value(mapping, key) is not None:
            mapping[key] = b""


def _keys(mapping: Any) -> list[str]:
    # Without `__iter__`, Python would read the items 0, 1 and so on.
    return list(mapping) if offered(mapping, "__iter__") else list(mapping.keys()) if offered(mapping, "keys") else []


class _ThreadedLock:
    """A mapping's lock, used off the event loop."""

    def __init__(self, lock: KeyLock, storage: MappingStorage, url: str) -> None:
        self._lock = lock
        self._storage = storage
        self._url = url
        self.lease = lock.lease

    async def acquire(self) -> bool:
        return await asyncio.to_thread(self._lock.acquire)

    async def begin(self) -> tuple[bool, bytes | None]:
        return await self.acquire(), await self._storage.get(self._url)

    async def end(self, value: bytes, seconds: float) -> None:
        try:
            await self._storage.put(self._url, value, seconds)
        finally:
            await self.release()

    async def renew(self) -> None:
        await asyncio.to_thread(self._lock.renew)

    async def release(self) -> None:
        await asyncio.to_thread(self._lock.release)


def _tidy(mapping: Any) -> None:
    if tidy := offered(mapping, "tidy"):
        tidy()


def _close(mapping: Any) -> None:
    if close := offered(mapping, "close"):
        close()


_COPY = ".copy"
_LOCK = ".lock"
_UNFINISHED = ".tmp"
_ABANDONED_AFTER = 3600.0


class DirectoryMapping(MutableMapping[str, bytes]):
    """A folder as a mapping of text without line breaks to bytes, with one file per key.

    Any number of threads and processes may use it at once. The first write creates the folder, for this user alone. A
    file contains its key in the first line, followed by the value; its name is a digest of the key. A reader gets the
    old value or the new one, never a part, even after a crash: a value is complete on the disk before it gets its name.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def __getitem__(self, key: str) -> bytes:
        try:
            data = self._file(key, _COPY).read_bytes()
        except FileNotFoundError:
            raise KeyError(key) from None
        first, line_break, value = data.partition(b"\n")
        if not line_break or first != _line(key):
            raise KeyError(key)
        return value

    def __setitem__(self, key: str, value: bytes) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        target = self._file(key, _COPY)
        unfinished = target.with_name(f"{target.stem}.{secrets.token_hex(4)}{_UNFINISHED}")
        try:
            with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(_line(key) + b"\n")
                file.write(value)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, target)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise

    def __delitem__(self, key: str) -> None:
        try:
            self._file(key, _COPY).unlink()
        except FileNotFoundError:
            raise KeyError(key) from None
        # Another process may hold the lock, and a third one would lock a new file. The worst case is two requests
        # instead of one.
        self._file(key, _LOCK).unlink(missing_ok=True)

    def __iter__(self) -> Iterator[str]:
        for path in sorted(self.folder.glob("*" + _COPY)):
            with suppress(OSError, UnicodeDecodeError), path.open("rb") as file:
                first = file.readline()
                key = first.removesuffix(b"\n").decode("utf-8", "surrogatepass")
                if first.endswith(b"\n") and self._file(key, _COPY).name == path.name:
                    yield key

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def lock(self, key: str) -> DirectoryLock:
        """A lock for that key among processes, not taken yet."""
        return DirectoryLock(self._file(key, _LOCK))

    def tidy(self) -> None:
        """Remove files of dead writers: unfinished ones after an hour, and unreadable ones."""
        readable = {self._file(key, _COPY).name for key in self}
        for path in self.folder.glob("*"):
            with suppress(OSError):
                old = time.time() - path.stat().st_mtime > _ABANDONED_AFTER
                if (path.suffix == _UNFINISHED and old) or (path.suffix == _COPY and path.name not in readable):
                    path.unlink()

    def _file(self, key: str, suffix: str) -> Path:
        return self.folder / (hashlib.sha256(_line(key)).hexdigest()[:40] + suffix)


class DirectoryLock:
    """A lock on a file, which the system releases when its process ends, even if it crashes."""

    lease: float | None = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def acquire(self) -> bool:
        """Take it if it is free. Raises OSError if the folder can't be written."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            if isinstance(error, BlockingIOError):
                return False
            raise
        self._file = file
        return True

    def __del__(self) -> None:
        """Release it with its last reference: a request that took it in a thread may have been cancelled meanwhile."""
        self.release()

    def renew(self) -> None:
        """Nothing to do: it doesn't expire."""

    def release(self) -> None:
        """Release it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _line(key: str) -> bytes:
    if "\n" in key:
        raise ValueError("the key of a folder can't contain line breaks")
    return key.encode("utf-8", "surrogatepass")
