"""The data folder of an embedded Redis: who starts it, whether it runs, and what is known of the server that ran last.

What lies in the folder:

- `redis.lock`: held while somebody starts or stops the server, so that only one does;
- `redis.running`: held by the server itself, through an inherited descriptor, until it exits. It outlives a `kill -9`
  of the process that started it, and its end can't be missed, whatever becomes of pids and sockets;
- `redis.users`: held, shared, by every attached process until it stops or dies;
- `redis.json`: pid, version and socket of the server that was started last. The version is the record that an older
  server is refused by: Redis 6.2 on a folder written by 7.0 would come up empty;
- `redis.sock`, unless the path is too long for a socket; then it stands in a private temporary folder;
- `redis.log`, and the data as Redis writes it.

The locks are those of flock(2): they end with the process that holds them, however it ends.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from microsub.errors import ConfigError, DataFolderUnusable, NotFound


@dataclass(frozen=True, slots=True)
class Record:
    """What `redis.json` holds: the server that was started last on this folder."""

    pid: int
    version: str
    socket: str


class Folder:
    """The data folder at `path` with its lock files and the record."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.users = path / "redis.users"
        self.running = path / "redis.running"
        self.log = path / "redis.log"
        self._record = path / "redis.json"

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Hold the right to start and stop the server."""
        with open(self.path / "redis.lock", "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def is_running(self) -> bool:
        """Whether a server that one of ours started is alive, answering or not."""
        with open(self.running, "ab") as lock:
            return not try_lock(lock)

    def record(self) -> Record | None:
        """The server that was started last, if any."""
        try:
            return Record(**json.loads(self._record.read_text()))
        except FileNotFoundError:
            return None
        except (TypeError, ValueError) as error:
            raise ConfigError(
                file=str(self._record), path="", found="no record of ours", expected="pid, version and socket"
            ) from error

    def written_by(self, record: Record | None) -> str | None:
        """The version that wrote the data; also for a folder that was restored without our record."""
        if record is not None:
            return record.version
        return "7.0" if (self.path / "appendonlydir").is_dir() else None

    def write_record(self, record: Record) -> None:
        """Replace the record as a whole."""
        new = self._record.with_suffix(".new")
        new.write_text(json.dumps(asdict(record)))
        new.replace(self._record)


def prepared(data_dir: Path) -> Path:
    """The folder, made where there was none. Raises ConfigError where it can't be used."""
    path = data_dir.resolve()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DataFolderUnusable("make", path, error) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise DataFolderUnusable("write to", path, "permission denied")
    return path


def try_lock(file: IO[bytes]) -> bool:
    """Take the file for ourselves alone; False where somebody else holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def has_data(data_dir: Path) -> bool:
    """Whether a server has worked on that folder. Changes nothing. Raises OSError where it can't be looked at."""
    return any((data_dir / name).exists() for name in ("redis.json", "appendonlydir", "appendonly.aof"))


def require_data(data_dir: Path) -> None:
    """Raises NotFound, or ConfigError for a folder that can't be looked at, unless a server has worked on it."""
    path = data_dir.absolute()
    try:
        found = has_data(path)
    except OSError as error:
        raise DataFolderUnusable("read", path, error) from error
    if not found:
        raise NotFound(
            f"there is no data of a server in {path}. Name the server's data folder with --data-dir or "
            "MICROSUB_DATA_DIR, or its settings with MICROSUB_ENV_FILE; `microsub serve` makes a new one"
        )
