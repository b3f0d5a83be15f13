"""`microsub backup` and `microsub restore`, on a real Redis."""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import redis as redis_py

from microsub.redis.embedded.programs import programs
from microsub.redis.embedded.server import EmbeddedEngine, start_embedded
from microsub.redis.engine import Engine
from tests.cli.conftest import BACKEND, Run

EARLIER = Path("backend.json.versions") / "20260131T081500.000000Z-0a1b2c3d.json"


@pytest.fixture(autouse=True)
def _earlier(run: Run) -> None:
    """Creates an older version of backend.json."""
    EARLIER.parent.mkdir()
    EARLIER.write_text("{}")


def contents(server: EmbeddedEngine) -> tuple[dict[bytes, object], dict[bytes, float]]:
    """The value of every key, and the Unix time at which it expires."""
    values: dict[bytes, object] = {}
    ends: dict[bytes, float] = {}
    with redis_py.Redis.from_url(server.url) as client:
        for key in client.scan_iter():
            values[key] = READ[client.type(key)](client, key)
            left = client.pttl(key)  # Redis 6.2, which is included, has no PEXPIRETIME
            if left >= 0:
                ends[key] = time.time() + left / 1000
    return values, ends


def assert_same(server: EmbeddedEngine, values: dict[bytes, object], ends: dict[bytes, float]) -> None:
    """The server has these contents."""
    assert contents(server) == (values, pytest.approx(ends, abs=5, rel=0))


READ: dict[bytes, Callable[[redis_py.Redis, bytes], object]] = {
    b"string": lambda client, key: client.get(key),
    b"hash": lambda client, key: client.hgetall(key),
    b"set": lambda client, key: client.smembers(key),
    b"list": lambda client, key: client.lrange(key, 0, -1),
    b"zset": lambda client, key: client.zrange(key, 0, -1, withscores=True),
}


def test_a_backup_of_a_running_server_is_restored_whole(run: Run, tmp_path: Path) -> None:
    """Every key with its time to live, backend.json and its versions; the server may write meanwhile, and continues."""
    server = start_embedded(tmp_path / "data")
    try:
        assert run("token", "create", "alice", "--days", "30").exit_code == 0
        with redis_py.Redis.from_url(server.url) as client:
            client.rpush("list", *range(10_000))
            client.set("short", "x", ex=600)
        before = contents(server)
        assert b"short" in before[1]
        saved = run("backup", "everything.tar.gz")
        assert (saved.exit_code, "everything.tar.gz" in saved.stdout) == (0, True), saved.stderr
        assert_same(server, *before)
        assert not (tmp_path / "data" / "dump.rdb").exists()
    finally:
        server.stop()
    assert Path("everything.tar.gz").stat().st_mode & 0o077 == 0

    done = run("restore", "everything.tar.gz", "--data-dir", "new/data", "--backend", "new/backend.json")
    assert (done.exit_code, "microsub check" in done.stdout) == (0, True), done.stderr
    assert Path("new/backend.json").read_text() == json.dumps(BACKEND)
    assert "{}" in [path.read_text() for path in Path("new/backend.json.versions").iterdir()]
    assert Path("new/data").stat().st_mode & 0o077 == 0
    again = start_embedded(tmp_path / "new" / "data")
    try:
        assert_same(again, *before)
    finally:
        again.stop()
    listed = run("token", "list", "alice", "--data-dir", "new/data", "--backend", "new/backend.json")
    assert listed.stdout.count("\n") == 1


@pytest.mark.parametrize(("path", "engine"), programs().items(), ids=str)
def test_every_redis_reads_its_own_backup(
    run: Run, tmp_path: Path, path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one on PATH and the bundled one; a stopped server can be backed up too."""
    for module in ("redis.embedded.server", "admin.backup"):
        monkeypatch.setattr(f"microsub.{module}.programs", lambda named: {path: engine})
    server = start_embedded(tmp_path / "data")
    with redis_py.Redis.from_url(server.url) as client:
        client.set("schema", 1)
        client.set("kept", "yes")
    server.stop()
    assert run("backup", "b.tar.gz").exit_code == 0
    assert run("restore", "b.tar.gz", "--data-dir", "new", "--backend", "new.json").exit_code == 0
    for _ in range(2):  # its own next data file can be read again too
        again = start_embedded(tmp_path / "new")
        with redis_py.Redis.from_url(again.url) as client:
            assert client.get("kept") == b"yes"
            client.incr("starts")
        again.stop()


def test_backup_and_restore_overwrite_no_file(run: Run, tmp_path: Path) -> None:
    """Neither an archive by a backup nor data or a file by a restore; the message says what to move, and where."""
    start_embedded(tmp_path / "data").stop()
    assert run("backup", "b.tar.gz").exit_code == 0
    taken = run("backup", "b.tar.gz")
    assert (taken.exit_code, "b.tar.gz" in taken.stderr) == (1, True)
    for flags, place in (((), "data"), (("--data-dir", "other"), "backend.json")):
        refused = run("restore", "b.tar.gz", *flags)
        assert (refused.exit_code, f"mv {place} {place}.before" in refused.stderr) == (1, True)
    assert Path("backend.json").read_text() == json.dumps(BACKEND)
    assert not Path("other").exists()


def archive(*more: str, **changed: object) -> None:
    facts = {"made": time.time(), "microsub": "9.9", "engine": "Redis 6.2.14", "layout": 8, **changed}
    text = json.dumps(facts).encode()
    with tarfile.open("b.tar.gz", "w:gz") as file:
        for name, content in (("backup.json", text), ("redis.rdb", b"REDIS0009"), *((name, b"{}") for name in more)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"layout": 99}, "upgrade the software"),
        ({"layout": 7}, "start with empty data"),
        ({"engine": "Redis 99.0.0"}, "Redis 99.0"),
        ({"strange": 1}, "backup"),
        *(({name: value}, "b.tar.gz") for name, value in (("layout", "8"), ("engine", "newest"), ("engine", 7))),
        *(({"made": value}, "b.tar.gz") for value in (1e300, "yesterday", None)),
        ({"microsub": "9" * 1_000_000}, "b.tar.gz"),
    ],
)
def test_a_backups_facts_are_checked_first(run: Run, changed: dict[str, object], said: str) -> None:
    """A backup by a newer server or Redis, by a server from before the first release, or with forged facts, is refused
    before anything is written.
    """
    archive(**changed)
    refused = run("restore", "b.tar.gz", "--data-dir", "new", "--backend", "new.json")
    assert (refused.exit_code, said in refused.stderr) == (1, True), refused.stderr
    assert not Path("new").exists()


def test_a_restore_writes_nowhere_else(run: Run, tmp_path: Path) -> None:
    """Archive members that no backup has are left out, whatever path they name."""
    archive("../evil.json", "backend.json.versions/../../evil.json")
    assert run("restore", "b.tar.gz", "--data-dir", "in/data", "--backend", "in/new.json").exit_code == 0
    assert not list(tmp_path.rglob("evil*"))


def test_a_restore_that_cannot_write_says_so(run: Run) -> None:
    """A full disk, or a file that the file system doesn't take."""
    archive(f"backend.json.versions/{'x' * 300}.json")
    refused = run("restore", "b.tar.gz", "--data-dir", "new", "--backend", "new.json")
    assert (refused.exit_code, "File name too long" in refused.stderr) == (1, True)


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_an_invalid_archive_is_named(run: Run, content: bytes | None) -> None:
    """An empty file, another file, or no file."""
    if content is not None:
        Path("b.tar.gz").write_bytes(content)
    refused = run("restore", "b.tar.gz", "--data-dir", "new", "--backend", "new.json")
    assert (refused.exit_code, "b.tar.gz" in refused.stderr, "Traceback" in refused.stderr) == (1, True, False)


@pytest.mark.parametrize("damage", ["cut off", "without its end", "a changed byte"])
def test_a_corrupt_backup_is_refused(run: Run, damage: str) -> None:
    """The checksum of the whole archive is checked, and the reason shown, before anything is written."""
    archive()
    whole = bytearray(Path("b.tar.gz").read_bytes())
    whole[-6] ^= 1 if damage == "a changed byte" else 0
    short = {"cut off": len(whole) // 2, "without its end": 8}.get(damage, 0)
    Path("b.tar.gz").write_bytes(whole[: len(whole) - short])
    refused = run("restore", "b.tar.gz", "--data-dir", "new", "--backend", "new.json")
    assert (refused.exit_code, "corrupt or cut off" in refused.stderr) == (1, True), refused.stderr
    assert not Path("new").exists()


def test_without_an_embedded_redis_the_command_says_what_to_do(run: Run) -> None:
    """It names that Redis without its password, and the tool that backs it up."""
    for command in ("backup", "restore"):
        refused = run(command, "b.tar.gz", "--redis-url", "redis://:hunter2@127.0.0.1:9/0")
        assert (refused.exit_code, "redis-cli --rdb" in refused.stderr) == (1, True)
        assert "hunter2" not in refused.stderr
        assert not Path("b.tar.gz").exists()
