"""The one place that touches backend.json on disk: reads it, replaces it, sees when it changes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog

from microsub.configuration.document import digest
from microsub.configuration.versions import is_saved, is_version_of, surplus, version_name

log = structlog.get_logger(__name__)

_LOOK_EVERY_MS = 1000
"""A look at the file's stamp at least this often, for file systems that tell of no changes (network, containers)."""


@dataclass(frozen=True, slots=True)
class FileState:
    """The file at one moment; `edited_at` is the time of its last modification in Unix seconds."""

    body: bytes
    digest: str
    edited_at: float


class BackendFile:
    """backend.json at `path`. A symbolic link stays one: what it points to is replaced."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def versions(self) -> Path:
        """The folder with the versions, beside the file itself."""
        real = self.path.resolve()
        return real.with_name(real.name + ".versions")

    def read(self) -> FileState | None:
        """The file now, None where there is none. Raises OSError."""
        try:
            with self.path.open("rb") as stream:
                edited_at = os.fstat(stream.fileno()).st_mtime_ns / 1e9
                body = stream.read()
        except FileNotFoundError:
            return None
        return FileState(body, digest(body), edited_at)

    def replace(self, body: bytes, expected: str, now: float) -> FileState | None:
        """Put `body` in the place of the file whose digest is `expected`, whole or not at all, and keep the old one.

        None, and nothing is written, when the file is another one by now. Mode and, where possible, owner stay; the
        time of modification never goes back. Raises OSError.
        """
        real = self.path.resolve()
        with _beside(real, body) as temporary:
            old = self.read()
            if old is None or old.digest != expected:
                return None
            self.keep(old, now)
            temporary.replace(real)
        _sync_folder(real.parent)
        written = self.read()
        if written is not None and written.body == body:
            with contextlib.suppress(OSError):  # such as a full disk: the file itself is there
                self.keep(written, now)
        return written

    def keep(self, state: FileState, now: float, *, by_hand: bool = False) -> None:
        """Copy the file as it is into the folder of versions, unless the newest one there is the same, and drop there
        what need not stay. The copy has the file's mode. Raises OSError.
        """
        self.versions.mkdir(mode=0o700, exist_ok=True)
        names = self.version_names()
        newest = names[-1] if names else ""
        if not is_version_of(newest, state.digest) or (by_hand and not is_saved(newest)):
            name = version_name(state.digest, now, by_hand=by_hand, after=newest)
            mode = self.path.stat().st_mode & 0o777
            copy = self.versions / name
            with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as stream:
                os.fchmod(stream.fileno(), mode)
                stream.write(state.body)
            names.append(name)
        for old in surplus(names, now):
            (self.versions / old).unlink(missing_ok=True)

    def version_names(self) -> list[str]:
        """The names of the versions that are kept, oldest first."""
        return sorted(path.name for path in self.versions.glob("*.json"))

    def version(self, name: str) -> bytes:
        """The content of that version. Raises OSError."""
        return (self.versions / name).read_bytes()

    async def changes(self, stop: asyncio.Event) -> AsyncIterator[None]:
        """One yield at the start, and one each time when the file may have become another one: replaced, written in
        place, gone or back.
        """
        from watchfiles import awatch  # only who watches loads it

        seen = self._stamp()
        yield
        while not stop.is_set():
            try:
                async for _ in awatch(
                    *self._folders(),
                    recursive=False,
                    debounce=200,
                    step=50,
                    rust_timeout=_LOOK_EVERY_MS,
                    yield_on_timeout=True,
                    stop_event=stop,
                ):
                    stamp = self._stamp()
                    if stamp != seen:
                        seen = stamp
                        yield
            except (OSError, RuntimeError) as error:  # no such folder, or no watches left
                log.debug("watching by looking", file=str(self.path), reason=str(error))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _LOOK_EVERY_MS / 1000)
            stamp = self._stamp()
            if stamp != seen:
                seen = stamp
                yield

    def _folders(self) -> set[Path]:
        return {self.path.absolute().parent, self.path.resolve().parent}

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def upgrade(path: Path, body: bytes) -> Path:
    """Put `body` in the place of the file at `path`, whole or not at all, with its mode; returns where the old file is
    now: beside it, `….old`. Raises FileExistsError where there is one of that name already, and OSError.
    """
    real = path.resolve()
    old = real.with_name(real.name + ".old")
    with _beside(real, body) as temporary:
        old.hardlink_to(real)
        temporary.replace(real)
    _sync_folder(real.parent)
    return old


@contextlib.contextmanager
def _beside(real: Path, body: bytes) -> Iterator[Path]:
    """A file with `body` beside the one at `real`, to be put in its place: with its mode and, where possible, its
    owner, and modified no earlier. It is gone after the block.
    """
    status = real.stat()
    handle, name = tempfile.mkstemp(prefix=f".{real.name}.", suffix=".new", dir=real.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(body)
            stream.flush()
            os.fchmod(stream.fileno(), status.st_mode & 0o7777)
            with contextlib.suppress(OSError):
                os.fchown(stream.fileno(), status.st_uid, status.st_gid)
            os.fsync(stream.fileno())
        if temporary.stat().st_mtime_ns < status.st_mtime_ns:
            os.utime(temporary, ns=(status.st_atime_ns, status.st_mtime_ns))
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a loss of power, where the system allows that."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
