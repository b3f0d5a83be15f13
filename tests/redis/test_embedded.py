"""The embedded Redis: one server per data folder, shared and adopted, never started twice."""

import asyncio
import errno
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import redis as redis_py

from microsub.base.errors import ConfigError, SchemaMismatch, StoreUnavailable, StoreUnusable
from microsub.redis.embedded import programs as programs_module
from microsub.redis.embedded import server as embedded
from microsub.redis.embedded.datafolder import Folder
from microsub.redis.embedded.programs import choose, engine_of, programs
from microsub.redis.embedded.server import start_embedded
from microsub.redis.engine import Engine

ROOT = Path(__file__).parents[2]
OF_REDIS = ROOT / "tests" / "data" / "engines"
"""What Redis 6.2.14 and 7.0.15 left: each type of value, and changes after the last rewrite of the file."""
(WHEELS,) = map(Path, programs_module._wheel_programs())


@pytest.fixture
def data_dir(tmp_path):
    """A data folder; a server that still runs in it is stopped afterwards."""
    folder = tmp_path / "data"
    yield folder
    record = folder / "redis.json"
    if record.exists():
        server = Folder(folder)
        while server.is_running():
            embedded._terminate(json.loads(record.read_text())["pid"])


def client(server) -> redis_py.Redis:
    return redis_py.Redis.from_url(server.url)


def in_process(script: str, *args: object) -> subprocess.Popen[str]:
    """A separate process that runs `script` and prints a line when the test may continue."""
    head = "import sys\nfrom pathlib import Path\nfrom microsub.redis.embedded.server import start_embedded\n"
    return subprocess.Popen(
        [sys.executable, "-c", head + textwrap.dedent(script), *map(str, args)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


ATTACH = """
server = start_embedded(Path(sys.argv[1]))
print(server.adopted, server.pid, flush=True)
sys.stdin.readline()
print(server.stop(), flush=True)
"""


def said(process: subprocess.Popen[str]) -> list[str]:
    return process.stdout.readline().split()


def let_go(process: subprocess.Popen[str]) -> str:
    return process.communicate("\n", timeout=60)[0].strip()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z" if Path("/proc").exists() else True


def test_it_keeps_data_from_one_start_to_the_next(data_dir):
    """An append-only file, a unix socket without a TCP port, and a folder that is created private."""
    server = start_embedded(data_dir)
    assert not server.adopted
    record = json.loads((data_dir / "redis.json").read_text())
    assert record["engine"] == str(server.engine) == str(next(iter(programs().values())))
    with client(server) as redis:
        assert redis.config_get("appendonly") == {"appendonly": "yes"}
        assert redis.config_get("port") == {"port": "0"}
        redis.set("here", "still")
    assert data_dir.stat().st_mode & 0o077 == 0
    assert server.stop()
    assert not server.stop()
    again = start_embedded(data_dir)
    with client(again) as redis:
        assert redis.get("here") == b"still"
    assert again.stop()
    assert not (data_dir / "redis.sock").exists()


def test_its_memory_has_a_limit(data_dir, tmp_path, monkeypatch):
    """Two thirds of the machine's or the container's; beyond it, nothing is dropped, and writes are refused."""
    for limit, expected in (("3000000", 2_000_000), ("max", 0)):
        (tmp_path / "memory.max").write_text(limit)
        monkeypatch.setattr(embedded, "_LIMITS", (tmp_path / "missing", tmp_path / "memory.max"))
        found = embedded.default_memory()
        assert found == expected if expected else found > 100_000_000
    server = start_embedded(data_dir, 4_000_000)
    with client(server) as redis:
        found = redis.config_get("maxmemory*")
        assert (found["maxmemory"], found["maxmemory-policy"]) == ("4000000", "noeviction")
        replies = [redis.execute_command("SETRANGE", name, 300_000, "x") for name in "abc"]
        redis.config_set("maxmemory", 1_500_000)  # as if there were more
        with pytest.raises(redis_py.exceptions.OutOfMemoryError):
            redis.set("d", "x")
        assert (replies, redis.dbsize()) == ([300_001] * 3, 3)
    assert server.stop()


def test_it_keeps_a_post_in_one_piece(data_dir):
    """A packed post takes half the memory of a table. Large hashes are tables, so that a look-up takes no time."""
    server = start_embedded(data_dir)
    with client(server) as redis:
        redis.hset("item:1", mapping={"ID": "1", "Data": "x" * 4000, "link": "https://blog.example/" + "p" * 80})
        redis.hset("guids", mapping={str(number): "1" for number in range(200)})
        assert [redis.object("encoding", key) for key in ("item:1", "guids")] in (
            [b"listpack", b"hashtable"],
            [b"ziplist", b"hashtable"],
        )
    assert server.stop()


def test_many_processes_at_once_start_one_server(data_dir):
    """The lock file lets one process start the server; the others wait and adopt it."""
    processes = [in_process(ATTACH, data_dir) for _ in range(3)]
    answers = [said(process) for process in processes]
    assert sorted(adopted for adopted, _ in answers) == ["False", "True", "True"]
    assert len({pid for _, pid in answers}) == 1
    assert sorted(let_go(process) for process in processes) == ["False", "False", "True"]


def test_the_server_outlives_its_starter_and_is_adopted(data_dir):
    """Acknowledged writes survive, no second server starts, and the next process can still stop the server."""
    starter = in_process(
        """
        import redis
        server = start_embedded(Path(sys.argv[1]))
        redis.Redis.from_url(server.url).set("acknowledged", "yes")
        print(server.adopted, server.pid, flush=True)
        sys.stdin.readline()
        """,
        data_dir,
    )
    _, pid = said(starter)
    starter.kill()
    starter.wait()
    starter.stdin.close()
    starter.stdout.close()
    assert alive(int(pid))
    heir = start_embedded(data_dir)
    assert heir.adopted
    assert heir.pid == int(pid)
    with client(heir) as redis:
        assert redis.get("acknowledged") == b"yes"
    assert heir.stop()


def test_a_killed_server_is_replaced(data_dir):
    """After `kill -9` of Redis, the next start finds no live server, removes the socket and loads the file."""
    first = start_embedded(data_dir)
    with client(first) as redis:
        redis.config_set("appendfsync", "always")
        redis.set("acknowledged", "yes")
    os.kill(first.pid, signal.SIGKILL)
    second = start_embedded(data_dir)
    assert not second.adopted
    assert second.pid != first.pid
    assert second.url == first.url, "who was connected only has to call again"
    with client(second) as redis:
        assert redis.get("acknowledged") == b"yes"
    assert not first.stop()
    assert second.stop()


def test_a_starter_stops_the_server_that_replaced_its_own(data_dir, monkeypatch):
    """It doesn't stop another process that now has the process id of its own server."""
    monkeypatch.setattr(embedded, "STOP_TIMEOUT", 5)
    first = start_embedded(data_dir)
    embedded._children[first.pid].kill()
    embedded._children.pop(first.pid).wait()
    second = start_embedded(data_dir)
    assert second.pid != first.pid
    assert not second.stop()
    ended = []
    terminate = embedded._terminate
    monkeypatch.setattr(embedded, "_terminate", lambda pid: (ended.append(pid), terminate(pid)))
    assert first.stop()
    assert ended == [second.pid]
    assert not Folder(data_dir).is_running()


def test_a_server_whose_socket_was_deleted_is_not_doubled(data_dir, monkeypatch):
    """A second server on the same files would destroy them, so the start fails with an error that names the first."""
    monkeypatch.setattr(embedded, "START_TIMEOUT", 0.2)
    server = start_embedded(data_dir)
    (data_dir / "redis.sock").unlink()
    with pytest.raises(StoreUnavailable, match=f"kill {server.pid}"):
        start_embedded(data_dir)
    assert alive(server.pid)
    assert server.stop()


_INTERVAL = "loading-process-events-interval-bytes"


@pytest.fixture
def slow_to_load(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose server takes some seconds to read its data at the next start."""
    server = start_embedded(data_dir)
    with redis_py.Redis.from_url(server.url) as client:
        client.mset({f"key {number}": number for number in range(6000)})
        can_be_slow = client.config_get(_INTERVAL)
        client.config_set("auto-aof-rewrite-percentage", 0)
        client.bgrewriteaof()
        while client.info("persistence")["aof_rewrite_in_progress"]:
            time.sleep(0.05)
    assert server.stop()
    if not can_be_slow:
        pytest.skip(f"{server.engine} doesn't have the setting {_INTERVAL}")
    arguments = embedded._arguments
    slowly = ("--key-load-delay", "500", f"--{_INTERVAL}", "1024")
    monkeypatch.setattr(embedded, "_arguments", lambda *given: [*arguments(*given), *slowly])
    return data_dir


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("chosen", ["", "glibc.malloc.arena_max=1"])
def test_glibc_keeps_freed_pieces_for_the_next_call_of_a_script(chosen, data_dir, monkeypatch):
    """A choice of the user takes precedence."""
    if chosen:
        monkeypatch.setenv("GLIBC_TUNABLES", chosen)
    server = start_embedded(data_dir)
    with redis_py.Redis.from_url(server.url) as client:
        begun_with = Path(f"/proc/{client.info('server')['process_id']}/environ").read_bytes().split(b"\0")
    assert server.stop()
    assert f"GLIBC_TUNABLES={chosen or embedded.ALLOCATOR}".encode() in begun_with


def test_a_start_waits_until_the_server_has_read_its_data(slow_to_load):
    """It answers all the time: INFO and ECHO work while it reads."""
    server = start_embedded(slow_to_load)
    with redis_py.Redis.from_url(server.url) as client:
        assert client.info("persistence")["loading"] == 0
        assert client.dbsize() == 6000
    assert server.stop()


def test_a_server_that_never_ends_reading_its_data_is_given_up(slow_to_load, monkeypatch):
    """The error says so and the folder's lock is released, so the next start tries again."""
    with monkeypatch.context() as patch:
        patch.setattr(embedded, "LOADING_TIMEOUT", 0.1)
        with pytest.raises(StoreUnavailable, match="still loading its data"):
            start_embedded(slow_to_load)
    again = start_embedded(slow_to_load)
    assert again.stop()


def test_a_server_that_is_reading_its_data_is_waited_for(data_dir, monkeypatch):
    """A held lock without an answer means that a server is starting or stopping."""
    data_dir.mkdir()
    folder = Folder(data_dir)
    (data_dir / "redis.sock").touch()
    with open(folder.running, "ab") as ending:
        fcntl.flock(ending, fcntl.LOCK_EX)
        waits = []

        def pause(seconds):
            waits.append(seconds)
            fcntl.flock(ending, fcntl.LOCK_UN)

        monkeypatch.setattr(embedded.time, "sleep", pause)
        assert embedded._running(folder) is None
    assert waits


def test_a_server_started_by_hand_is_used_and_not_stopped(data_dir):
    """A server that answers on the folder's socket with the folder's data is used, but not stopped."""
    data_dir.mkdir()
    path = next(iter(programs()))
    by_hand = subprocess.Popen(
        [path, "--port", "0", "--unixsocket", "redis.sock", "--save", ""],
        cwd=data_dir,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert any("ready to accept" in line.lower() for line in by_hand.stdout)
    server = start_embedded(data_dir)
    assert server.adopted
    assert not server.stop()
    assert by_hand.poll() is None
    by_hand.terminate()
    by_hand.communicate()


def test_a_copied_folder_gets_its_own_server(tmp_path):
    """A copied folder contains the record of the original's socket; the copy gets its own server."""
    original = start_embedded(tmp_path / "one")
    with client(original) as redis:
        redis.set("where", "one")
    copy = tmp_path / "two"
    copy.mkdir()
    (copy / "redis.json").write_text((original.data_dir / "redis.json").read_text())
    other = start_embedded(copy)
    assert not other.adopted
    with client(other) as redis:
        assert redis.get("where") is None
    with client(original) as redis:
        assert redis.get("where") == b"one"
    assert other.stop()
    assert original.stop()


def test_a_long_path_has_its_socket_elsewhere(tmp_path):
    """No socket works over 107 bytes: it is put into a short private folder, which is removed with the server."""
    deep = tmp_path / ("ä" * 50) / ("x" * 100)
    server = start_embedded(deep)
    socket = json.loads((deep / "redis.json").read_text())["socket"]
    assert len(os.fsencode(socket)) <= 107
    assert not socket.startswith(str(deep))
    assert Path(socket).parent.stat().st_mode & 0o077 == 0
    other = in_process(ATTACH, deep)
    assert said(other) == ["True", str(server.pid)]
    assert let_go(other) == "False"
    assert server.stop()
    assert not Path(socket).parent.exists()
    again = start_embedded(deep)
    assert again.stop()


def test_a_path_with_strange_characters_works(tmp_path):
    """Blanks, quotes, percent signs and question marks work in the URL and in Redis' own configuration."""
    folder = tmp_path / "a b'c\"d%20?e#f"
    server = start_embedded(folder)
    with client(server) as redis:
        assert redis.set("a", 1)
    assert (folder / "redis.sock").exists()
    assert server.stop()


def test_data_of_a_newer_engine_is_refused(data_dir, monkeypatch):
    """Redis 6.2 would start empty on data that 7.0 wrote, so the server isn't started."""
    assert start_embedded(data_dir).stop()
    record = json.loads((data_dir / "redis.json").read_text())
    (data_dir / "redis.json").write_text(json.dumps({**record, "engine": "Valkey 99.1.0"}))
    with pytest.raises(SchemaMismatch, match=r"written by Valkey 99\.1\.0.*install Valkey 99\.1 or newer"):
        start_embedded(data_dir)
    assert not Folder(data_dir).is_running()


def test_restored_data_of_redis_7_is_known_without_our_record(data_dir, monkeypatch):
    """A backup may contain only the data; its folder of append-only files shows the version."""
    (data_dir / "appendonlydir").mkdir(parents=True)
    old = {Path("/usr/bin/redis-server"): Engine.parse("Redis 6.2.14")}
    monkeypatch.setattr(embedded, "programs", lambda named: old)
    with pytest.raises(SchemaMismatch, match=r"install Redis 7\.0 or newer"):
        start_embedded(data_dir)


def program(path: str, engine: str) -> tuple[Path, Engine]:
    return Path(path), Engine.parse(engine)


WHEEL = program("/wheel/valkey-server", "Valkey 9.1.2")
OLDEST = program("/old/redis-server", "Redis 6.2.14")
NEW = program("/usr/bin/redis-server", "Redis 7.0.15")
NEWER = program("/opt/redis-server", "Redis 8.2.0")
EARLY = program("/usr/bin/valkey-server", "Valkey 7.2.8")
OLD = program("/usr/bin/redis-server", "Redis 6.0.16")


@pytest.mark.parametrize(
    ("candidates", "written_by", "chosen"),
    [
        ([NEW, WHEEL], None, NEW),
        ([NEW, OLDEST], "6.2.14", OLDEST),
        ([OLDEST, NEW], None, OLDEST),
        ([NEWER, NEW], "7.0.1", NEW),
        ([OLDEST, NEWER], "7.0.1", NEWER),
        ([OLD, OLDEST], None, OLDEST),
        ([OLD, OLDEST], "6.2.1", OLDEST),
        ([OLDEST], "6.2.99", OLDEST),
        ([OLDEST, NEW], "7.0.1", NEW),
        ([NEW, WHEEL], "Valkey 9.1.0", WHEEL),
        ([NEW, EARLY, WHEEL], "Valkey 9.0", WHEEL),
        ([OLDEST, WHEEL], "Redis 7.2.4", WHEEL),
        ([WHEEL, NEW], "Redis 6.2.14", NEW),
        ([WHEEL, EARLY], "Valkey 7.2.5", EARLY),
    ],
)
def test_a_program_that_can_read_the_data_is_chosen(candidates, written_by, chosen):
    """The engine that wrote the data, or else the first that reads it; the patch release doesn't matter."""
    assert choose(dict(candidates), written_by and Engine.parse(written_by), Path("/data")) == chosen[0]


@pytest.mark.parametrize(
    ("candidates", "written_by"),
    [
        ([NEW, OLDEST], "Valkey 9.1.2"),
        ([NEWER], "Valkey 7.2.4"),
        ([WHEEL, NEW], "Redis 7.4.0"),
        ([EARLY], "Valkey 9.1"),
    ],
)
def test_an_engine_that_cannot_read_the_data_is_not_started(candidates, written_by):
    """Redis reads no files of Valkey, Valkey those of Redis 7.2 and before; the error names all of them."""
    with pytest.raises(SchemaMismatch, match=rf"/data was written by {written_by}, which .* can't read") as error:
        choose(dict(candidates), Engine.parse(written_by), Path("/data"))
    assert all(str(path) in str(error.value) for path, _ in candidates)


@pytest.mark.parametrize("candidates", [[], [OLD]])
def test_without_a_redis_server_the_error_says_how_to_get_one(candidates):
    """One line says what was found and names three solutions."""
    with pytest.raises(ConfigError) as error:
        choose(dict(candidates), None, Path("/data"))
    text = str(error.value)
    assert "\n" not in text
    assert "apt install valkey-server" in text
    assert {"MICROSUB_REDIS_SERVER", "MICROSUB_REDIS_URL"} <= set(text.split())
    assert ("6.0.16" in text) == bool(candidates)


def test_invalid_programs_are_skipped(tmp_path, monkeypatch):
    """A program on PATH that is only called `redis-server` is skipped."""
    fake = tmp_path / "redis-server"
    fake.write_text("#!/bin/sh\necho hello\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert fake not in programs()
    assert engine_of(tmp_path / "none") is None
    with pytest.raises(ConfigError, match="MICROSUB_REDIS_SERVER"):
        programs(fake)


def test_every_server_on_path_is_looked_at(tmp_path, monkeypatch):
    """In the order of PATH, links once: an older server at the front doesn't hide the one that the data needs."""
    for folder, engine, version in (("one", "Redis", "6.2.1"), ("two", "Valkey", "8.1.3")):
        script = tmp_path / folder / f"{engine.lower()}-server"
        script.parent.mkdir()
        script.write_text(f"#!/bin/sh\necho {engine} server v={version} sha=0\n")
        script.chmod(0o755)
    (tmp_path / "two" / "redis-server").symlink_to("valkey-server")
    (tmp_path / "three").symlink_to(tmp_path / "one")
    monkeypatch.setenv("PATH", os.pathsep.join(str(tmp_path / name) for name in ("one", "two", "three")))
    monkeypatch.setattr(programs_module, "_wheel_programs", lambda: [])
    found = programs()
    assert [str(engine) for engine in found.values()] == ["Redis 6.2.1", "Valkey 8.1.3"]
    valkey = tmp_path / "two" / "valkey-server"
    assert choose(found, Engine.parse("Valkey 8.0.1"), tmp_path) == valkey
    linked = tmp_path / "two" / "redis-server"
    assert programs(linked) == {linked: found[valkey]}


def test_the_wheel_brings_a_server(monkeypatch):
    """No server is needed on PATH."""
    monkeypatch.setenv("PATH", "/nowhere")
    (engine,) = programs().values()
    assert (engine.name, engine.version[0]) == ("Valkey", 9)


@pytest.mark.parametrize("written_by", ["redis-6.2", "redis-7.0"])
def test_data_of_redis_moves_to_valkey_with_a_copy(data_dir, written_by, caplog):
    """All types of values, without a record of ours too; the copy is Redis' own files, byte for byte."""
    shutil.copytree(OF_REDIS / written_by, data_dir)
    if written_by == "redis-6.2":  # as the releases before wrote it
        record = {"pid": 0, "version": "6.2.14", "socket": str(data_dir / "redis.sock")}
        (data_dir / "redis.json").write_text(json.dumps(record))
    server = start_embedded(data_dir, program=WHEELS)
    with client(server) as redis:
        assert (redis.get("text"), redis.get("later")) == (b"still", b"yes")
        assert redis.hgetall("hash") == {b"a": b"1", b"long": b"x" * 100}
        assert redis.zrange("zset", 0, -1) == [*(str(i).encode() for i in range(200)), b"later"]
        assert redis.smembers("ints") == {str(i).encode() for i in range(1000)}
        assert redis.lrange("list", 0, -1) == [str(i).encode() for i in range(50)]
        assert redis.xpending("stream", "g")["pending"] == 1
        redis.set("new", "value")
    assert server.stop()
    assert "takes over the data" in caplog.text
    files = [path for path in (OF_REDIS / written_by).rglob("*") if path.is_file()]
    copy = data_dir / "before-valkey"
    assert [(copy / path.relative_to(OF_REDIS / written_by)).read_bytes() for path in files] == [
        path.read_bytes() for path in files
    ]
    again = start_embedded(data_dir, program=WHEELS)
    with client(again) as redis:
        assert redis.get("new") == b"value"
        redis.bgrewriteaof()
        while redis.info("persistence")["aof_rewrite_in_progress"]:
            time.sleep(0.05)
    assert again.stop()
    assert caplog.text.count("takes over") == 1
    (data_dir / "redis.json").unlink()  # what Valkey has rewritten is known without it
    with pytest.raises(SchemaMismatch, match=r"written by Valkey 9\.0"):
        choose(dict([NEW]), Folder(data_dir).written_by(None), data_dir)


def test_data_that_cannot_be_copied_is_not_moved(data_dir, monkeypatch):
    """The disk is full: no half of a copy is left, and the files stay those of Redis."""
    shutil.copytree(OF_REDIS / "redis-6.2", data_dir)
    before = (data_dir / "appendonly.aof").read_bytes()

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copy2", fail)
    with pytest.raises(ConfigError, match="no space left"):
        start_embedded(data_dir, program=WHEELS)
    assert (data_dir / "appendonly.aof").read_bytes() == before
    assert not list(data_dir.glob("before-valkey*"))


def test_a_server_that_does_not_come_up_says_why(data_dir):
    """The error contains its last output; the next start tries again."""
    data_dir.mkdir()
    (data_dir / "appendonly.aof").write_text("this is no append-only file")
    (data_dir / "appendonlydir").mkdir()
    (data_dir / "appendonlydir" / "appendonly.aof.manifest").write_text("neither is this")
    with pytest.raises((StoreUnavailable, SchemaMismatch)) as error:
        start_embedded(data_dir)
    assert str(data_dir) in str(error.value)
    assert not Folder(data_dir).is_running()


def test_a_corrupt_file_is_cut_as_the_page_says(data_dir, tmp_path):
    """The included engine, under the name of its check program, leaves everything before the corrupt place."""
    with client(server := start_embedded(data_dir, program=WHEELS)) as redis:
        redis.set("before", "kept")
        redis.bgrewriteaof()  # part of it is then in the engine's own format
        while (
            redis.info("persistence")["aof_rewrite_in_progress"] or redis.info("persistence")["aof_rewrite_scheduled"]
        ):
            time.sleep(0.05)
        redis.set("later", "kept")
        file = sorted((data_dir / "appendonlydir").glob("*.incr.aof"))[-1]  # the engine deletes the older one
        good = file.stat().st_size
        redis.set("after", "lost")
    assert server.stop()
    written = file.read_bytes()
    file.write_bytes(written[:good] + b"?" * 20 + written[good + 20 :])
    with pytest.raises(StoreUnusable, match=file.name):
        start_embedded(data_dir, program=WHEELS)
    (tmp_path / "valkey-check-aof").symlink_to(WHEELS)
    page = (ROOT / "docs" / "how-to" / "check-and-repair-redis.md").read_text()
    commands = re.findall(r"^ +(/tmp/valkey-check-aof .*)$", page, re.MULTILINE)
    looked, cut = (
        subprocess.run(
            command.replace("/tmp/", f"{tmp_path}/").replace("data/", f"{data_dir}/"),
            check=False, shell=True, input="y\n", capture_output=True, text=True,
        )
        for command in commands
    )  # fmt: skip
    assert f"ok_up_to={good}" in looked.stdout
    assert cut.returncode == 0
    with client(start_embedded(data_dir, program=WHEELS)) as redis:
        assert redis.mget("before", "later", "after") == [b"kept", b"kept", None]


def test_a_folder_that_cannot_be_used_is_an_error_of_the_setting(tmp_path):
    """The error names the setting and the path."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="the data folder"):
        start_embedded(tmp_path / "file" / "data")


@pytest.mark.parametrize(
    "record",
    [
        '{"some": "thing"}',
        '{"pid": 1, "engine": "Redis 7.0", "socket": 7}',
        '{"pid": "1", "version": "7.0", "socket": "x"}',
        '{"pid": 1, "version": null, "socket": "x"}',
        "[]",
        "7",
        "\x00",
        "[" * 100_000,
        '{"pid": 1, "version": "7.0", "socket": "a\\u0000b"}',
        '{"pid": 1, "version": "7.0", "socket": "\\ud800"}',
        '{"pid": 1, "version": "7.0", "socket": ""}',
        '{"pid": 1, "engine": "Dragonfly 1.0", "socket": "x"}',
        '{"pid": 1, "version": "seven", "socket": "x"}',
        '{"pid": -1, "version": "7.0", "socket": "x"}',
        '{"pid": 1e400, "version": "7.0", "socket": "x"}',
        '{"pid": 99999999999999999999, "version": "7.0", "socket": "x"}',
    ],
)
def test_a_record_that_is_not_ours_is_an_error(data_dir, record):
    """No server is started, so that nobody else's data is used."""
    data_dir.mkdir()
    (data_dir / "redis.json").write_text(record)
    with pytest.raises(ConfigError, match="no record of ours"):
        start_embedded(data_dir)


def test_a_record_that_is_a_fifo_is_an_error(data_dir):
    """The start doesn't wait until somebody writes to it."""
    data_dir.mkdir()
    os.mkfifo(data_dir / "redis.json")
    with pytest.raises(ConfigError, match="no record of ours"):
        start_embedded(data_dir)


def test_files_are_private_for_any_umask(data_dir):
    """Data files, log, locks and created parent folders are private; files from before are made private."""
    before = os.umask(0)
    try:
        start_embedded(data_dir / "below").stop()
        (data_dir / "below" / "redis.lock").chmod(0o666)
        start_embedded(data_dir / "below").stop()
    finally:
        os.umask(before)
    for path in (data_dir, *data_dir.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_folder_to_which_everybody_may_write_is_refused(data_dir, caplog):
    """Anybody who can write there could replace our Redis. A group gets a warning: many users have their own."""
    data_dir.mkdir()
    data_dir.chmod(0o777)
    with pytest.raises(ConfigError, match="every system user can write"):
        start_embedded(data_dir)
    data_dir.chmod(0o770)
    start_embedded(data_dir).stop()
    assert "chmod g-w" in caplog.text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
class TestOtherUsers:
    """Files and servers of other system users."""

    def test_a_folder_of_another_user_is_refused(self, data_dir):
        """Nothing is created in it."""
        data_dir.mkdir(mode=0o700)
        os.chown(data_dir, 65534, -1)
        with pytest.raises(ConfigError, match=r"belongs to the system user \w+"):
            start_embedded(data_dir)
        assert not list(data_dir.iterdir())

    def test_a_redis_that_another_user_has_started_is_refused(self, data_dir):
        """The owner of its socket identifies the user."""
        running = start_embedded(data_dir)
        try:
            os.chown(data_dir / "redis.sock", 65534, -1)
            with pytest.raises(ConfigError, match=r"redis\.sock in it belongs to the system user"):
                start_embedded(data_dir)
        finally:
            os.chown(data_dir / "redis.sock", os.geteuid(), -1)
            running.stop()

    def test_a_file_of_another_user_is_an_error_of_the_setting(self, data_dir):
        """A lock that somebody else may hold protects nothing."""
        data_dir.mkdir(mode=0o700)
        (data_dir / "redis.json").write_text('{"pid": 1, "version": "7.0", "socket": "/nowhere"}')
        os.chown(data_dir / "redis.json", 65534, -1)
        with pytest.raises(ConfigError, match=r"redis\.json in it belongs to the system user"):
            start_embedded(data_dir)


def test_a_lock_that_cannot_be_opened_is_an_error_of_the_setting(data_dir):
    """Whatever the reason, the error is one clear line without a traceback."""
    (data_dir / "redis.lock").mkdir(parents=True)
    with pytest.raises(ConfigError, match="the data folder"):
        start_embedded(data_dir)


def test_a_full_disk_at_start_leaves_no_server_behind(data_dir, monkeypatch):
    """Without its record nobody would find the server, so it is stopped."""

    def full(folder, record):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Folder, "write_record", full)
    with pytest.raises(ConfigError, match=r"(?i)no space left on device"):
        start_embedded(data_dir)
    assert not Folder(data_dir).is_running()


# --- a server that ends ------------------------------------------------------------------------------------------


class Ending:
    """A server that is always found ended; `start_again` raises the next of `failures`, then succeeds."""

    def __init__(self, *failures: Exception) -> None:
        self.data_dir = Path("data")
        self.failures = list(failures)
        self.starts = 0

    def is_running(self) -> bool:
        return False

    def start_again(self) -> None:
        self.starts += 1
        if self.failures:
            raise self.failures.pop(0)


@pytest.mark.parametrize(
    ("ending", "starts", "reason"),
    [
        (Ending(), 3, "it ended again and again"),
        (Ending(*[StoreUnavailable("no memory")] * 3), 3, "no memory"),
        (Ending(StoreUnusable("the file is corrupt")), 1, "the file is corrupt"),
    ],
)
async def test_a_server_that_ends_is_started_a_few_times(monkeypatch, ending, starts, reason):
    """Then the process gives up, and says why; at once if the data can't be read."""
    monkeypatch.setattr(embedded, "WATCH_SECONDS", 0)
    monkeypatch.setattr(embedded, "RESTARTS", (0, 0, 0))
    async with embedded.watched(ending, failed=lambda task: None) as watch:
        watch.raise_if_ended()
        await watch.ended.wait()
        with pytest.raises(StoreUnusable, match=f"can't be started again: {reason}"):
            watch.raise_if_ended()
    assert ending.starts == starts


async def test_a_server_that_had_run_for_long_is_started_as_often(monkeypatch):
    """Only a server that runs forgives earlier attempts, not the time that passes without one."""
    monkeypatch.setattr(embedded, "WATCH_SECONDS", 0)
    monkeypatch.setattr(embedded, "RESTARTS", (0, 0, 0))
    monkeypatch.setattr(embedded, "LASTING", -1.0)
    ending = Ending(*[StoreUnavailable("no memory")] * 9)
    async with embedded.watched(ending, failed=lambda task: None) as watch, asyncio.timeout(60):
        await watch.ended.wait()
    assert ending.starts == 3


def test_a_corrupt_append_only_file_is_named_with_its_remedy(data_dir):
    """The server refuses to start, and the message leads to the page that helps."""
    server = start_embedded(data_dir)
    with client(server) as outside:
        outside.set("a", "x" * 1000)
        outside.set("b", "x")
    server.stop()
    file = max(data_dir.rglob("*.aof"), key=lambda path: path.stat().st_size)
    content = bytearray(file.read_bytes())
    content[100:120] = b"?" * 20
    content[-30:-10] = b"!" * 20
    file.write_bytes(content)
    with pytest.raises(StoreUnusable, match=r"check-and-repair-redis\.md.*A corrupt append-only file"):
        start_embedded(data_dir)
