"""Backup and restore: data of an embedded engine and backend.json, in one archive.

The archive is a gzipped tar file with `backup.json` (the versions that made it), `redis.rdb` (the engine's snapshot),
`backend.json` and the files of `backend.json.versions`. A snapshot is also a valid append-only file, because the
engine starts its own with one. So a restored folder has it as `appendonly.aof`, which all since Redis 6.2 read.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

import redis
from redis.exceptions import RedisError

import microsub
from microsub.base.errors import ConfigError, SchemaMismatch, StoreUnavailable
from microsub.redis import keys
from microsub.redis.embedded.datafolder import Folder, Record, has_data, prepared, require_data
from microsub.redis.embedded.programs import choose, programs
from microsub.redis.embedded.server import start_embedded
from microsub.redis.engine import Engine

_FACTS, _DATA, _BACKEND, _VERSIONS = "backup.json", "redis.rdb", "backend.json", "backend.json.versions"
_MOST_FACTS = 64 * 1024
"""Bytes that are read of `backup.json`; a longer one is forged, and might not fit into memory."""
_POLL = 0.05
_YEAR_10000 = 253_402_300_800
"""The first Unix time that is too large for a `datetime`."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Metadata of a backup: time (Unix seconds), version, engine (as text) and layout of the data."""

    made: float
    microsub: str
    engine: str
    layout: int


def save(data_dir: Path, backend: Path, file: Path, program: Path | None = None) -> Facts:
    """Write the archive `file`, readable only by this system user. The server can keep running.

    Raises NotFound if there is no data, ConfigError if the file exists or can't be written, and StoreUnavailable if
    Redis can't write a snapshot, such as for lack of space.
    """
    require_data(data_dir)
    server = start_embedded(data_dir, program=program)
    try:
        with redis.Redis.from_url(server.url) as client:
            layout = int(client.get(keys.schema()) or 0)
            facts = Facts(time.time(), microsub.__version__, str(server.engine), layout)
            snapshot = server.data_dir / "dump.rdb"  # Redis always uses this name
            _snapshot(client, snapshot)
        try:
            _write(file, facts, snapshot, backend)
        finally:
            snapshot.unlink(missing_ok=True)
    finally:
        server.stop()
    return facts


def restore(
    file: Path,
    data_dir: Path,
    backend: Path,
    require_layout: Callable[[int], None],
    program: Path | None = None,
) -> Facts:
    """Make the data folder and backend.json from the archive `file`.

    `require_layout` raises SchemaMismatch for a layout of the data that this server can't open.

    Nothing is overwritten: raises ConfigError if there is data or a backend.json already, or if the file isn't a
    backup; SchemaMismatch if the installed engine can't read its data, or if a newer server made it or one of before
    the first release.
    """
    try:
        _read_through(file)
        archive = tarfile.open(file)  # noqa: SIM115 - closed below
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise _no_backup(file, error) from error
    with archive:
        try:
            members = {member.name: archive.extractfile(member) for member in _members(archive)}
            facts = _facts(json.loads((members[_FACTS] or io.BytesIO()).read(_MOST_FACTS)))
            data = members[_DATA]
        except (OSError, tarfile.TarError, KeyError, TypeError, ValueError) as error:
            raise _no_backup(file, error) from error
        try:
            require_layout(facts.layout)
        except SchemaMismatch as error:
            raise SchemaMismatch(f"{file} was made by version {facts.microsub}: {error}") from None
        engine = Engine.parse(facts.engine)
        choose(programs(program), engine, file)
        _require_room(data_dir, backend)
        try:
            _unpack(members, data, Folder(prepared(data_dir)), backend, engine)
        except OSError as error:
            raise _not_written(data_dir, error) from error
    return facts


def _unpack(
    members: Mapping[str, IO[bytes] | None], data: IO[bytes] | None, folder: Folder, backend: Path, engine: Engine
) -> None:
    versions = backend.with_name(f"{backend.name}.versions")
    # In the archive's order: to go back in it is to read it again from its beginning.
    for name in (name for name in members if name not in {_FACTS, _DATA}):
        place = backend if name == _BACKEND else versions / PurePosixPath(name).name
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _put(members[name], place)
    folder.write_record(Record(pid=0, engine=engine, socket=str(folder.path / "redis.sock")))
    _put(data, folder.path / "appendonly.aof")


def _not_written(place: Path, error: OSError) -> ConfigError:
    return ConfigError(file=str(place), path="", found=f"{error.strerror}", expected="enough disk space")


def _facts(said: dict[str, Any]) -> Facts:
    """The metadata of an archive. Raises TypeError and ValueError if it isn't valid."""
    facts = Facts(**said)
    Engine.parse(facts.engine)
    if type(facts.layout) is not int or not 0 <= facts.made < _YEAR_10000:
        raise ValueError("without valid metadata")
    return facts


def _read_through(file: Path) -> None:
    """Check the checksum, which `tarfile` doesn't reach. Raises what `gzip` raises."""
    with gzip.open(file) as whole:
        while whole.read(1 << 20):
            pass


def _no_backup(file: Path, error: Exception) -> ConfigError:
    if isinstance(error, EOFError | zlib.error) or "CRC check failed" in str(error):
        why = "a file that is corrupt or cut off"
    else:
        why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else "which isn't a backup"
    return ConfigError(file=str(file), path="", found=why, expected="a file made by `microsub backup`")


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members of a backup that are its files; others are left out."""
    for member in archive:
        path = PurePosixPath(member.name)
        known = member.name in {_FACTS, _DATA, _BACKEND} or (path.parts[:-1] == (_VERSIONS,) and path.suffix == ".json")
        if known and member.isfile():
            yield member


def _require_room(data_dir: Path, backend: Path) -> None:
    for place, taken in ((data_dir, has_data(data_dir)), (backend, backend.exists())):
        if taken:
            raise ConfigError(
                file=str(place),
                path="",
                found="what a server uses",
                expected=f"nothing there: stop the server and move it away first (mv {place} {place}.before)",
            )


def _put(source: object, place: Path) -> None:
    """Write a member of the archive atomically, readable only by this system user."""
    assert isinstance(source, io.BufferedIOBase)
    new = place.with_name(place.name + ".new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as target:
        while block := source.read(1 << 20):
            target.write(block)
        target.flush()
        os.fsync(target.fileno())
    new.replace(place)


def _snapshot(client: redis.Redis, place: Path) -> None:
    """Let Redis write its snapshot to `place`."""
    why = f"see {place.with_name('redis.log')}"
    try:
        _wait_for_snapshot(client)
        client.bgsave()
        written = _wait_for_snapshot(client) and place.exists()
    except RedisError as error:
        written, why = False, str(error)
    if not written:
        raise StoreUnavailable(f"Redis can't write a snapshot to {place}: {why}")


def _wait_for_snapshot(client: redis.Redis) -> bool:
    """Wait until Redis has finished background writes; whether its last snapshot succeeded."""
    while True:
        facts: dict[str, object] = client.info("persistence")
        if not (facts["rdb_bgsave_in_progress"] or facts["aof_rewrite_in_progress"] or facts["aof_rewrite_scheduled"]):
            return facts["rdb_last_bgsave_status"] == "ok"
        time.sleep(_POLL)


def _write(file: Path, facts: Facts, snapshot: Path, backend: Path) -> None:
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ConfigError(file=str(file), path="", found="a file", expected="a name that isn't in use") from None
    except OSError as error:
        raise ConfigError(file=str(file), path="", found=f"{error.strerror}", expected="a writable file") from error
    try:
        with open(handle, "wb") as target, tarfile.open(fileobj=target, mode="w:gz") as archive:
            text = json.dumps(asdict(facts)).encode()
            head = tarfile.TarInfo(_FACTS)
            head.size, head.mtime, head.mode = len(text), int(facts.made), 0o600
            archive.addfile(head, io.BytesIO(text))
            archive.add(snapshot, _DATA)
            if backend.is_file():
                archive.add(backend.resolve(), _BACKEND)
                real = backend.resolve()
                for version in sorted(real.with_name(real.name + ".versions").glob("*.json")):
                    archive.add(version, f"{_VERSIONS}/{version.name}")
            target.flush()
    except OSError as error:
        file.unlink(missing_ok=True)
        raise _not_written(file, error) from error
