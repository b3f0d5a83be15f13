"""backend.json on disk: read, replaced and watched; and its older versions.

The name of a version has the time at which it was the current file (UTC) and the beginning of its SHA-256:
`20260131T081500.000000Z-0a1b2c3d.json`. A version saved by hand ends in `.saved.json`; the server wrote the others.

Whenever the server writes the file, it gives it a random `x-version`, which editors keep. It names the version in which
an edit began.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from microsub.base.digests import sha256_hex
from microsub.configuration.json_text import expand
from microsub.configuration.legacy import is_legacy
from microsub.configuration.model import Backend, decode

LOOK_EVERY = 0.5
"""Seconds between two checks for a change. Not every file system reports changes (network, containers)."""


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Wait until `stop` is set, or for `seconds`."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


class FileState(NamedTuple):
    """The file at one moment; `edited_at` is the Unix time of its last modification."""

    body: bytes
    digest: str
    edited_at: float


class BackendFile:
    """backend.json at `path`. A symbolic link stays, and its target is replaced."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def versions(self) -> Path:
        """The folder with the versions, next to the file."""
        real = self.path.resolve()
        return real.with_name(real.name + ".versions")

    def read(self) -> FileState | None:
        """The file now, None if it doesn't exist. Raises OSError."""
        try:
            with self.path.open("rb") as stream:
                edited_at = os.fstat(stream.fileno()).st_mtime_ns / 1e9
                body = stream.read()
        except FileNotFoundError:
            return None
        return FileState(body, sha256_hex(body), edited_at)

    def replace(self, body: bytes, expected: str, now: float) -> FileState | None:
        """Replace the file, if its digest is still `expected`, with `body`, atomically.

        If the file has changed, nothing is written and None is returned. The mode stays, and the owner if possible;
        the modification time never goes back. Raises OSError.
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
            with contextlib.suppress(OSError):  # such as a full disk: the file itself is written
                self.keep(written, now)
        return written

    def create(self, body: bytes, now: float) -> FileState | None:
        """Write the file if there is none, completely or not at all; None if there is one. Raises OSError.

        Only the folder's owner can read it, since addresses of feeds may have passwords.
        """
        real = self.path.resolve()
        temporary = real.with_name(f".{real.name}.{secrets.token_hex(4)}.new")
        try:
            with temporary.open("xb") as stream:
                stream.write(body)
                stream.flush()
                with contextlib.suppress(OSError):  # the command may run as root, the server as the folder's owner
                    folder = real.parent.stat()
                    os.fchown(stream.fileno(), folder.st_uid, folder.st_gid)
                    os.fchmod(stream.fileno(), 0o600)
                os.fsync(stream.fileno())
            real.hardlink_to(temporary)
        except FileExistsError:
            return None
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(real.parent)
        written = self.read()
        if written is not None and written.body == body:
            with contextlib.suppress(OSError):
                self.keep(written, now)
        return written

    def keep(self, state: FileState, now: float, *, by_hand: bool = False) -> None:
        """Copy the file into the folder of versions, unless the newest version is the same.

        Removes surplus versions. The copy has the file's mode. Raises OSError.
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
        """The names of all versions, oldest first."""
        return sorted(path.name for path in self.versions.glob("*.json"))

    def version(self, name: str) -> bytes:
        """The content of a version. Raises OSError."""
        return (self.versions / name).read_bytes()

    async def changes(self, stop: asyncio.Event) -> AsyncIterator[None]:
        """Yields at the start, and whenever the file may have changed or is gone."""
        seen: object = ()
        while not stop.is_set():
            if (stamp := self._stamp()) != seen:
                seen = stamp
                yield
            await pause(stop, LOOK_EVERY)

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def upgrade(path: Path, body: bytes) -> Path:
    """Replace the file with `body`, atomically; the path of the old file, which ends in `.old`.

    Raises FileExistsError if that path already exists, and OSError.
    """
    real = path.resolve()
    old = real.with_name(real.name + ".old")
    with _beside(real, body) as temporary:
        if not (old.exists() and old.samefile(real)):  # an interrupted upgrade leaves it so
            old.hardlink_to(real)
        temporary.replace(real)
    _sync_folder(real.parent)
    return old


@contextlib.contextmanager
def _beside(real: Path, body: bytes) -> Iterator[Path]:
    """A temporary file with `body` next to `real`, which it can replace within the block.

    It has the same mode and, if possible, the same owner, and its modification time isn't earlier.
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
    """Make a rename survive a power failure, if the system supports that."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# --- versions ------------------------------------------------------------------------------------------------------

NEWEST_KEPT = 10
"""How many of the newest versions are always kept, and how many of those saved by hand."""
_HOURS, _DAYS = 24, 30
_STAMP = "%Y%m%dT%H%M%S.%fZ"


def version_name(digest: str, now: float, *, by_hand: bool, after: str = "") -> str:
    """The name of a version of the Unix time `now`, or one that sorts just after `after`.

    So names sort in the order of the versions, even if the clock went back.
    """
    at = datetime.fromtimestamp(now, UTC)
    with contextlib.suppress(ValueError):
        at = max(at, datetime.strptime(after.partition("-")[0], _STAMP).replace(tzinfo=UTC) + timedelta(microseconds=1))
    stamp = at.strftime(_STAMP)
    return f"{stamp}-{digest[:8]}{'.saved' if by_hand else ''}.json"


def is_saved(name: str) -> bool:
    """Whether that version was saved by hand."""
    return name.endswith(".saved.json")


def is_version_of(name: str, digest: str) -> bool:
    """Whether the version has the content with that SHA-256 (hex)."""
    return name.partition("-")[2].partition(".")[0] == digest[:8]


def surplus(names: Iterable[str], now: float) -> list[str]:
    """The versions that can be removed at `now`.

    Kept are the newest ten, the newest ten saved by hand, the last one of each hour for a day, and the last one of each
    day for 30 days.
    """
    ordered = sorted(names)
    kept = {*ordered[-NEWEST_KEPT:], *[name for name in ordered if is_saved(name)][-NEWEST_KEPT:]}
    for form, length, count in (("%Y%m%dT%H", 3600, _HOURS), ("%Y%m%d", 86_400, _DAYS)):
        periods = {datetime.fromtimestamp(now - length * ago, UTC).strftime(form) for ago in range(count)}
        width = len(datetime.fromtimestamp(now, UTC).strftime(form))
        kept.update({name[:width]: name for name in ordered if name[:width] in periods}.values())
    return [name for name in ordered if name not in kept]


X_VERSION = "x-version"
"""The key of the file that names its version."""


def stamped(raw: Mapping[str, Any], token: str) -> dict[str, Any]:
    """The document with that `x-version`, at the beginning if it had none."""
    return {**raw, X_VERSION: token} if X_VERSION in raw else {X_VERSION: token, **raw}


def token_of(body: bytes) -> str | None:
    """The `x-version` of a file; None if it has none or can't be read."""
    if X_VERSION.encode() not in body:
        return None
    try:
        token = json.loads(body.decode("utf-8-sig")).get(X_VERSION)
    except (ValueError, AttributeError, RecursionError):
        return None
    return token if isinstance(token, str) else None


def said(body: bytes, environ: Mapping[str, str]) -> Backend | None:
    """The declarations of a version; None if it can't be read."""
    try:
        document = json.loads(body.decode("utf-8-sig"))
        if is_legacy(document):
            return None
        return decode(Backend, expand(document, environ, lambda *_: None))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
