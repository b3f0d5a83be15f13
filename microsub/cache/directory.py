"""A folder as a mapping: one file per key, replaced in one step, with file locks. Any number of threads and processes
may use one folder at once.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Iterator, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import filelock


_COPY = ".copy"
_LOCK = ".lock"
_UNFINISHED = ".tmp"
_ABANDONED_AFTER = 3600.0


class DirectoryMapping(MutableMapping[str, bytes]):
    """Keys are text without line breaks. The folder is made with the first write, for this user alone.

    A file holds its key in the first line and the value behind it; its name is a digest of the key. A reader meets the
    old value or the new one, never a part, and so does one after a crash: a value is complete on the disk before it
    takes its name.
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
        # Somebody may hold the lock just now, and a third one would lock a new file. Two requests in place of one is
        # all that comes of it.
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
        """A lock on that key among processes, not taken yet."""
        return DirectoryLock(self._file(key, _LOCK))

    def tidy(self) -> None:
        """Remove what writers that were killed left: unfinished files older than an hour, and unreadable ones."""
        readable = {self._file(key, _COPY).name for key in self}
        for path in self.folder.glob("*"):
            with suppress(OSError):
                old = time.time() - path.stat().st_mtime > _ABANDONED_AFTER
                if (path.suffix == _UNFINISHED and old) or (path.suffix == _COPY and path.name not in readable):
                    path.unlink()

    def _file(self, key: str, suffix: str) -> Path:
        return self.folder / (hashlib.sha256(_line(key)).hexdigest()[:40] + suffix)


class DirectoryLock:
    """A lock on a file, which the system gives back when its process ends, however it ends."""

    lease: float | None = None

    def __init__(self, path: Path) -> None:
        import filelock  # loads asyncio and sqlite for locks that nobody here takes

        self._path = path
        # Taken in one thread of a pool and given back in another.
        self._lock: filelock.BaseFileLock = filelock.FileLock(path, thread_local=False, mode=0o600)

    def acquire(self) -> bool:
        """Take it if it is free. Raises OSError where the folder can't be written."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._lock.acquire(blocking=False)
        except TimeoutError:
            return False
        return True

    def renew(self) -> None:
        """Nothing to do: it doesn't run out."""

    def release(self) -> None:
        """Give it back."""
        self._lock.release()


def _line(key: str) -> bytes:
    if "\n" in key:
        raise ValueError("a key of a folder has no line breaks")
    return key.encode("utf-8", "surrogatepass")
