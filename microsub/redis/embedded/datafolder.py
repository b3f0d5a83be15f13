"""The data folder of an embedded engine: its locks, and the record of its last server.

Files in the folder:

- `redis.lock`: held by the process that starts or stops the server, so that only one does;
- `redis.running`: held by the server itself, through an inherited descriptor, until it exits. It outlives a `kill -9`
  of the process that started it, and shows reliably when the server ends, unlike pids and sockets;
- `redis.users`: held, shared, by every attached process until it stops or dies;
- `redis.json`: pid, engine and socket of the server that was started last. One that can't read that engine's files is
  refused: Redis 6.2 on a folder written by 7.0 would start empty;
- `redis.sock`, unless the path is too long for a socket; then it is in a private temporary folder;
- `redis.log`, and the data as the engine writes it;
- `before-valkey`: a copy of the data as Redis had left it, made before Valkey took it over.

The locks are those of flock(2): they end with the process that holds them, however it ends.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pwd
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from microsub import base  # logs take long to load, and help has none
from microsub.base.errors import ConfigError, DataFolderUnusable, NotFound
from microsub.redis.engine import REDIS, VALKEY, Engine


@dataclass(frozen=True, slots=True)
class Record:
    """The content of `redis.json`: the server that was started last on this folder."""

    pid: int
    engine: Engine
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
        with private(self.path / "redis.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def is_running(self) -> bool:
        """Whether a server that one of ours started is alive, answering or not."""
        with private(self.running) as lock:
            return not try_lock(lock)

    def record(self) -> Record | None:
        """The server that was started last, if any."""
        require_own(self._record)
        try:
            # This doesn't wait for a FIFO: it reads as empty, which no record is.
            with open(self._record, "rb", opener=_at_once) as file:
                record = _parsed(json.loads(file.read(_MOST_RECORD)))
            usable = _is_usable(record)
        except FileNotFoundError:
            return None
        except (TypeError, ValueError, RecursionError) as error:
            raise self._no_record() from error
        if not usable:
            raise self._no_record()
        return record

    def written_by(self, record: Record | None) -> Engine | None:
        """The engine that wrote the data; also for a folder that was restored without our record."""
        if record is not None:
            return record.engine
        newer = (self.path / "appendonlydir").is_dir()
        for snapshot in (self.path / "appendonly.aof", *(self.path / "appendonlydir").glob("*.base.rdb")):
            with suppress(FileNotFoundError), snapshot.open("rb") as file:
                # Valkey has had its own form since 9.0.
                valkey = file.read(6) == b"VALKEY"
                return Engine(VALKEY, (9, 0)) if valkey else Engine(REDIS, (7, 0) if newer else (6, 2))
        return Engine(REDIS, (7, 0)) if newer else None

    def copy_data(self, name: str) -> Path:
        """Copy the data files of a server that doesn't run into the folder `name`, which is replaced as a whole.

        Raises OSError, for example if the disk is full; then no half of a copy is left.
        """
        copy, new = self.path / name, self.path / f"{name}.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        try:
            for data in filter(Path.exists, map(self.path.joinpath, DATA)):
                (shutil.copytree if data.is_dir() else shutil.copy2)(data, new / data.name)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        shutil.rmtree(copy, ignore_errors=True)
        return new.rename(copy)

    def write_record(self, record: Record) -> None:
        """Replace the record as a whole."""
        new = self._record.with_suffix(".new")
        new.unlink(missing_ok=True)
        with private(new) as file:
            file.write(json.dumps({**asdict(record), "engine": str(record.engine)}).encode())
        new.replace(self._record)

    def _no_record(self) -> ConfigError:
        expected = "pid (a number), engine and socket (texts); remove the file if no server runs on the folder"
        return ConfigError(file=str(self._record), path="", found="no record of ours", expected=expected)


_MOST_RECORD = 64 * 1024
DATA = ("appendonly.aof", "appendonlydir", "dump.rdb")
"""What an engine may have written."""


def _at_once(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NONBLOCK)


def _parsed(said: Any) -> Record:
    """The record as it was written; those of before Valkey have a version alone. Raises TypeError and ValueError."""
    if not isinstance(said, dict):
        raise TypeError(said)
    engine = said.pop("engine", None) or said.pop("version", None)
    return Record(**said, engine=Engine.parse(engine))


def _is_usable(record: Record) -> bool:
    """Whether the record can be one of ours. Raises TypeError and ValueError, as for an impossible path."""
    if type(record.pid) is not int or not 0 <= record.pid < 2**31:  # 0: the folder was restored
        return False
    path = os.fsencode(record.socket)
    return path != b"" and b"\0" not in path


def private(path: Path) -> IO[bytes]:
    """Open the file to append, or create it, readable only by us, regardless of the umask.

    Raises OSError, also if the file belongs to another user.
    """

    def opener(name: str, flags: int) -> int:
        descriptor = os.open(name, flags, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    return open(path, "ab", opener=opener)


def require_own(path: str | Path) -> None:
    """Raise DataFolderUnusable if the file belongs to another system user."""
    try:
        owner = os.lstat(path).st_uid
    except OSError:
        return
    if owner != os.geteuid():
        name = Path(path).name
        raise DataFolderUnusable("use", Path(path).parent, f"{name} in it belongs to the system user {_name_of(owner)}")


def prepared(data_dir: Path) -> Path:
    """The folder, created if missing. Raises ConfigError if it can't be used.

    It must be ours, and others must not be able to write to it: they could change our data. Write access
    for a group only logs a warning, as many systems have a group for each user.
    """
    path = data_dir.resolve()
    try:
        _make(path)
        found = path.stat()
    except OSError as error:
        raise DataFolderUnusable("make", path, error) from error
    if found.st_uid != os.geteuid():
        raise DataFolderUnusable("use", path, f"it belongs to the system user {_name_of(found.st_uid)}")
    if found.st_mode & stat.S_IWOTH:
        raise DataFolderUnusable(
            "use", path, f"every system user can write to it; correct that with: chmod go-w {path}"
        )
    if found.st_mode & stat.S_IWGRP:
        base.logs.LibraryLogger(__name__).warning(
            "the group of the data folder can write to it; correct that with: chmod g-w", folder=str(path)
        )
    if not os.access(path, os.W_OK | os.X_OK):
        raise DataFolderUnusable("write to", path, "permission denied")
    return path


def _make(path: Path) -> None:
    """Create a folder for us alone, with its missing parents."""
    for folder in [*reversed(path.parents), path]:
        with suppress(FileExistsError):
            if not folder.is_dir():
                folder.mkdir(mode=0o700)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def _name_of(owner: int) -> str:
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return str(owner)


def try_lock(file: IO[bytes]) -> bool:
    """Lock the file exclusively; False if another process holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def has_data(data_dir: Path) -> bool:
    """Whether a server has worked on that folder. Raises OSError if it can't be read."""
    return any((data_dir / name).exists() for name in ("redis.json", *DATA))


def has_own_data(data_dir: Path) -> bool:
    """Whether a server of this system user has worked on that folder; False if it can't be read."""
    try:
        return has_data(data_dir) and data_dir.stat().st_uid == os.geteuid()
    except OSError:
        return False


def require_data(data_dir: Path) -> None:
    """Raise NotFound if no server has worked on the folder, ConfigError if it can't be read."""
    path = data_dir.absolute()
    try:
        found, is_demo_there = has_data(path), has_data(path / "demo")
    except OSError as error:
        raise DataFolderUnusable("read", path, error) from error
    if found:
        return
    if is_demo_there:
        raise NotFound(f"{path} holds no server's data, only the demo's: add --data-dir {path / 'demo'}")
    raise NotFound(
        f"{path} holds no server's data. Name the server's data folder with --data-dir or "
        "MICROSUB_DATA_DIR, or its settings with MICROSUB_ENV_FILE; `microsub serve` creates it"
    )


# --- the socket ---------------------------------------------------------------------------------------------------

SOCKET_PATH_LIMIT = 107
"""Bytes that fit into `sun_path` in addition to its final NUL (unix(7), Linux)."""

_TEMPORARY = "microsub-"


def socket_url(path: str) -> str:
    """The URL of a unix socket."""
    return f"unix://{quote(path)}"


def socket_path(data_dir: Path, before: Record | None) -> str:
    """The socket of a new server: in the folder if the path fits, otherwise in a short private one.

    The previous path is used again if possible, so that clients find it.
    """
    path = str(data_dir / "redis.sock")
    if len(os.fsencode(path)) <= SOCKET_PATH_LIMIT:
        return path
    if before is not None and _is_made_again(Path(before.socket).parent):
        return before.socket
    for parent in (tempfile.gettempdir(), "/tmp"):  # noqa: S108 - mkdtemp makes it private
        if len(os.fsencode(parent)) <= SOCKET_PATH_LIMIT - 32:
            return os.path.join(tempfile.mkdtemp(prefix=_TEMPORARY, dir=parent), "redis.sock")
    raise ConfigError(file="TMPDIR", path="", found=tempfile.gettempdir(), expected="a folder with a short path")


def _is_made_again(folder: Path) -> bool:
    """Whether the private folder of a server that has ended could be created again."""
    if not folder.name.startswith(_TEMPORARY):
        return False
    try:
        folder.mkdir(mode=0o700)
    except OSError:
        return False
    return True


def remove_socket(record: Record | None, data_dir: Path) -> None:
    """Remove the socket of a server that has ended, with its temporary folder if it had one.

    A copied data folder contains the record of the original's socket, so a socket in use stays.
    """
    if record is None:
        return
    path = Path(record.socket)
    if path.parent != data_dir and _is_listening(record.socket):
        return
    path.unlink(missing_ok=True)
    if path.parent != data_dir and path.parent.name.startswith(_TEMPORARY):
        try:
            path.parent.rmdir()
        except OSError:
            return


def _is_listening(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(path)
        except OSError:
            return False
    return True
