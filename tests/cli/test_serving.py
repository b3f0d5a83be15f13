"""The server's processes before they serve: ports, the demo's own settings, the greeting."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from microsub import server
from microsub.base.errors import NotFound, Unauthorized
from microsub.base.settings import Settings
from microsub.cli import main, serving
from microsub.cli.serving import process
from microsub.library import open_post_store
from microsub.redis.embedded.server import start_embedded
from microsub.server.backend import GREETING
from microsub.timelines import choice_of
from tests.cli.conftest import in_a_process
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and an environment without settings."""
    monkeypatch.chdir(tmp_path)
    for name in ("REDIS_URL", "BACKEND", "DATA_DIR", "LOG_LEVEL", "PORT", "HOST"):
        monkeypatch.delenv(f"MICROSUB_{name}", raising=False)
    return tmp_path


@pytest.fixture
def taken() -> Iterator[int]:
    """A port of 127.0.0.1 on which another program listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings with which a process would have been started."""
    calls: list[Settings] = []

    def start(settings: Settings, *_: Any, **__: Any) -> None:
        calls.append(settings)

    monkeypatch.setattr(serving, "start", start)
    return calls


DEMO = ("demo", "--port", "0", "--publisher-port", "0")


def test_the_demo_never_touches_a_redis_or_a_file_of_yours(
    folder: Path, started: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables that name a Redis and a backend file are ignored; flags for them don't exist."""
    monkeypatch.setenv("MICROSUB_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("MICROSUB_BACKEND", "mine.json")
    assert CliRunner().invoke(main, DEMO).exit_code == 0
    (settings,) = started
    assert settings.embedded
    assert settings.backend == Path("data/demo/backend.json")
    assert settings.data_dir == Path("data/demo")
    assert CliRunner().invoke(main, [*DEMO, "--redis-url", "redis://127.0.0.1/0"]).exit_code == 2
    assert CliRunner().invoke(main, [*DEMO, "--backend", "mine.json"]).exit_code == 2


def test_the_demo_logs_only_warnings_by_default(started: list[Settings], monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo's default is `warning`; the flag and the variable both change it."""
    CliRunner().invoke(main, DEMO)
    CliRunner().invoke(main, [*DEMO, "--log-level", "info"])
    monkeypatch.setenv("MICROSUB_LOG_LEVEL", "debug")
    CliRunner().invoke(main, DEMO)
    assert [settings.log_level for settings in started] == ["warning", "info", "debug"]


@pytest.mark.parametrize("flag", ["--port", "--publisher-port"])
def test_a_demo_that_gets_no_port_writes_nothing(folder: Path, taken: int, flag: str) -> None:
    """The file in data/demo may be that of a running demo. The message names the flag to use, once, in one line."""
    file = folder / "data" / "demo" / "backend.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    result = CliRunner().invoke(main, [*DEMO, flag, str(taken)])
    assert result.exit_code == 1
    assert file.read_text() == "{}"
    assert f"127.0.0.1:{taken}: Address already in use. Choose another with {flag}" in result.stderr
    assert "('" not in result.stderr


def test_a_second_demo_leaves_the_firsts_file_alone(
    folder: Path, started: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with ports of its own: one line names the folder of the other, its pid, and the flag for another folder."""
    start = serving.start

    def while_running(*arguments: Any, **more: Any) -> None:
        start(*arguments, **more)
        if len(started) > 1:
            return
        file = folder / "data" / "demo" / "backend.json"
        before = file.read_text()
        second = CliRunner().invoke(main, DEMO)
        assert (second.exit_code, second.stdout, second.stderr.count("\n")) == (1, "", 1)
        assert f"{file.parent} is already running (pid {os.getpid()})" in second.stderr
        assert "--data-dir" in second.stderr
        assert file.read_text() == before
        assert CliRunner().invoke(main, [*DEMO, "--data-dir", "elsewhere"]).exit_code == 0

    monkeypatch.setattr(serving, "start", while_running)
    assert CliRunner().invoke(main, DEMO).exit_code == 0
    assert len(started) == 2
    assert CliRunner().invoke(main, DEMO).exit_code == 0, "the folder is free again"


DECLARES_ALICE = '{"users": {"alice": {"me": "https://alice.example/"}}}'


async def test_a_greeting_takes_the_place_of_the_earlier_one(tmp_path: Path) -> None:
    """After any number of starts, only one greeting token is valid; a token with that name made by hand stays."""
    settings = Settings(data_dir=tmp_path / "data", backend=tmp_path / "backend.json")
    settings.backend.write_text(DECLARES_ALICE)
    async with server.stores.open_stores(settings, create=True) as stores:
        now = time.time()  # Redis forgets expired tokens by its own clock
        accounts = stores.accounts
        await server.backend.configuration(settings, stores).look()
        by_hand = await accounts.create_token("alice", ["read"], GREETING, now, now + 86_400)
        first = await server.backend.greeting_token(stores, now)
        second = await server.backend.greeting_token(stores, now + 1)
        assert first
        assert second
        for token in (by_hand, second):
            credential = accounts.credential(token)
            assert credential
            assert (await accounts.verify(credential, now + 2)).user == "alice"
        ended = accounts.credential(first)
        assert ended
        with pytest.raises(Unauthorized):
            await accounts.verify(ended, now + 2)
        assert len(await accounts.tokens("alice")) == 2


async def test_a_greeting_has_only_tokens_of_declared_users(tmp_path: Path) -> None:
    """Users who registered, aren't in backend.json, or are disabled are skipped, wherever their names sort."""
    settings = Settings(data_dir=tmp_path / "data", backend=tmp_path / "backend.json")
    async with server.stores.open_stores(settings, create=True) as stores:
        now = time.time()
        await stores.accounts.register("aaron", "https://aaron.example/", now)
        await stores.accounts.add_user("adam", "https://adam.example/", now)
        assert await server.backend.greeting_token(stores, now) is None
        settings.backend.write_text(
            DECLARES_ALICE.replace('{"alice"', '{"aaron": {"me": "https://aaron.example/"}, "alice"')
        )
        await server.backend.configuration(settings, stores).look()
        made = await server.backend.greeting_token(stores, now)
        assert made
        assert made.startswith("alice.")
        await stores.accounts.disable_user("alice", now)
        assert await server.backend.greeting_token(stores, now) is None


def test_commands_that_need_data_create_no_folder(folder: Path) -> None:
    """In the wrong folder one line names the folder and the flag, and creates no file."""
    commands = (
        *("user list", "user list --json", "user add bob", "user invite bob", "user remove bob", "token list a"),
        *("token revoke a b", "token create bob", "token service create planet", "poll", "cleanup", "events"),
        *("poll https://blog.example/feed --json", "cleanup --dry-run --json", "check --repair", "backup b.tar.gz"),
    )
    for command in commands:
        result = CliRunner().invoke(main, command.split())
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1), command
        assert f"{folder / 'data'} holds no server's data" in result.stderr
        assert "--data-dir" in result.stderr
        assert list(folder.iterdir()) == []


def test_commands_beside_a_demo_name_its_flag(folder: Path) -> None:
    """The demo's data is inside the default data folder."""
    demo = folder / "data" / "demo"
    demo.mkdir(parents=True)
    (demo / "redis.json").write_text("{}")
    result = CliRunner().invoke(main, ["feed", "list"])
    assert result.exit_code == 1
    assert f"add --data-dir {demo}" in result.stderr


def test_a_missing_folder_of_metrics_is_named(folder: Path) -> None:
    """The client library of Prometheus would only raise an exception with a traceback."""
    for command in ("serve", "web", "work", "poll"):
        result = CliRunner().invoke(main, [command], env={"PROMETHEUS_MULTIPROC_DIR": str(folder / "metrics")})
        assert result.exit_code == 2
        assert f"PROMETHEUS_MULTIPROC_DIR: found '{folder / 'metrics'}', expected a writable folder" in result.stderr


async def test_the_library_creates_no_data_unless_asked(folder: Path) -> None:
    """The same holds for the post store as a library, unless it is asked to create data."""
    with pytest.raises(NotFound, match="holds no server's data"):
        async with open_post_store():
            pass
    assert list(folder.iterdir()) == []
    async with open_post_store(data_dir="mine", create=True) as posts:
        assert (await posts.feeds()).feeds == ()
    async with open_post_store(data_dir="mine"):
        pass


def test_a_data_folder_of_somebody_else_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it can't be read, created or written to: what, where, why, and what to do."""
    (folder / "file").write_text("")
    for command, flags in ((("user", "list"), "file"), (("work",), "file/data")):
        refused = CliRunner().invoke(main, [*command, "--data-dir", flags])
        assert refused.exit_code == 1
        assert str(folder / "file") in refused.stderr
    monkeypatch.setattr(os, "access", lambda *_: False)
    refused = CliRunner().invoke(main, ["work", "--data-dir", "made"])
    assert f"can't write to the data folder {folder / 'made'}: permission denied. Run" in refused.stderr


def test_commands_find_the_settings_of_the_service(folder: Path) -> None:
    """From any folder, by a file in systemd's format; the environment and flags take precedence."""
    start_embedded(folder / "srv" / "data").stop()
    (folder / "srv" / "backend.json").write_text('{"users": {"alice": {"me": "https://${WHO}.example/"}}}')
    (folder / "microsub.env").write_text(
        f"# the service\nMICROSUB_DATA_DIR={folder}/srv/data\nMICROSUB_BACKEND='{folder}/srv/backend.json'\n\n"
        'WHO=alice\nMICROSUB_BASE_URL="https://reader.example"\n'
    )
    (folder / "elsewhere").mkdir()
    os.chdir(folder / "elsewhere")
    named = {"MICROSUB_ENV_FILE": str(folder / "microsub.env")}
    assert in_a_process("config", "check", **named).stdout.startswith(f"{folder}/srv/backend.json: valid")
    made = in_a_process("user", "invite", "alice", **named)
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout.startswith("https://reader.example/")
    other = in_a_process("user", "list", "--data-dir", "here", **named)
    assert (other.returncode, f"{folder}/elsewhere/here" in other.stderr) == (1, True)
    other = in_a_process("user", "list", MICROSUB_DATA_DIR="there", **named)
    assert (other.returncode, f"{folder}/elsewhere/there" in other.stderr) == (1, True)


@pytest.mark.parametrize(
    ("content", "said"), [(None, "can't read"), ("MICROSUB_PORT 80", "line 1"), ("A=b\nMICROSUB_PORT=x", "--port")]
)
def test_a_file_of_settings_that_cant_be_used_is_named(folder: Path, content: str | None, said: str) -> None:
    """The message has the file, and the line or the setting."""
    if content is not None:
        (folder / "my.env").write_text(content)
    refused = in_a_process("user", "list", MICROSUB_ENV_FILE="my.env")
    assert refused.returncode == 2
    assert said.replace("--port", "MICROSUB_PORT") in refused.stderr


async def greeted(settings: Settings, capsys: pytest.CaptureFixture[str], *users: str) -> dict[str, str]:
    """The lines of the greeting by their first word."""
    async with server.stores.open_stores(settings, create=True) as stores:
        for user in users:
            await stores.accounts.add_user(user, "", time.time())
        config = server.backend.configuration(settings, stores)
        await config.look()
        sizes, problems = await process._sizes(stores), config.status.problems
        await process._greet(settings, stores, sizes, problems, web=True, show_token=True)
    return dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())


async def test_the_greeting_says_what_is_missing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a usable file and without users it names the next step, and doesn't claim that the file is used."""
    lines = await greeted(Settings(), capsys)
    assert "doesn't exist" in lines["config"]
    assert "user add" in lines["try"]
    lines = await greeted(Settings(backend=folder), capsys)
    assert lines["config"].startswith(f"none: {folder} isn't a file")
    (folder / "backend.json").write_text('{"users": {"alice": {"channels": 7}}}')
    lines = await greeted(Settings(), capsys)
    problem = "users.alice.channels (line 1): found the number 7, expected a list"
    assert (lines["config"], lines["try"]) == (f"backend.json is refused: {problem}", "microsub config check")
    assert "now" not in lines
    lines = await greeted(Settings(), capsys, "ann")
    assert (lines["now"], lines["try"]) == ("0 feeds, 1 user, by the last valid file", "microsub token create USER")


async def test_the_greeting_counts_what_is_followed(folder: Path) -> None:
    """Feeds whose records stay for a month after the last follow don't count."""
    url = "https://posts.example/feed"
    async with server.stores.open_stores(Settings(), create=True) as stores:
        follows, now = server.stores.following(stores), time.time()
        await stores.accounts.add_user("ann", "", now)
        await stores.channels.create("ann", "Home", now, "home")
        await follows.follow("ann", "home", url, now)
        assert await process._sizes(stores) == "1 feed, 1 user"
        await follows.unfollow("ann", "home", url, now)
        assert await process._sizes(stores) == "0 feeds, 1 user"


async def test_the_greeting_shows_a_token_only_to_this_machine(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If others can reach the server, by its address or by a web server in front: how to make a token."""
    (folder / "backend.json").write_text(DECLARES_ALICE)
    for local in (Settings(), Settings(base_url="http://localhost:9000"), Settings(host="::1")):
        assert "Bearer alice." in (await greeted(local, capsys))["try"]
    for public in (Settings(host="0.0.0.0"), Settings(base_url="https://reader.example")):
        shown = await greeted(public, capsys)
        assert shown["try"] == "microsub token create USER"
        assert shown["read"].startswith("microsub user invite USER ")


async def test_the_greeting_is_the_last_of_the_first_screen(folder: Path) -> None:
    """On a terminal, which shows both the greeting and the log, it stays visible below the log lines of the start."""
    (folder / "backend.json").write_text(DECLARES_ALICE)
    screen = folder / "screen"
    with screen.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "microsub", "serve", "--port", "0", "--log-format", "json"),
            stdout=out,
            stderr=out,
        )
    try:
        shown = await wait_until(lambda: text if "\ntry " in (text := screen.read_text()) else None)
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), 60)
    logged, greeting = shown.splitlines()[:-7], shown.splitlines()[-7:]
    assert [line.split()[0] for line in greeting] == ["Microsub", "read", "endpoint", "data", "config", "now", "try"]
    assert "server started: 0 feeds, 1 user" in [json.loads(line)["event"] for line in logged]


def test_a_number_of_replicas_is_a_flag_of_servers_and_commands(
    folder: Path, started: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--redis-replicas` takes precedence over the variable, and the error names an invalid number."""
    monkeypatch.setenv("MICROSUB_REDIS_REPLICAS", "1")
    store = ("--redis-url", "redis://127.0.0.1:1/0")
    for command in ("serve", "work", "web"):
        port = () if command == "work" else ("--port", "0")
        assert CliRunner().invoke(main, [command, *port, *store, "--redis-replicas", "2"]).exit_code == 0
    assert CliRunner().invoke(main, ["work", *store]).exit_code == 0
    assert [settings.redis_replicas for settings in started] == [2, 2, 2, 1]
    refused = CliRunner().invoke(main, ["user", "list", *store, "--redis-replicas", "many"])
    assert refused.exit_code == 2
    assert "'many'" in refused.stderr
    assert "redis-replicas" in refused.stderr or "REDIS_REPLICAS" in refused.stderr


def test_a_command_logs_more_on_request(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default it logs only problems; flag and variable add more, in either form, and its output stays the same."""
    start_embedded(folder / "data").stop()
    ways: list[tuple[dict[str, str], tuple[str, ...]]] = [
        ({}, ()),
        ({"MICROSUB_LOG_LEVEL": "info"}, ()),
        ({"MICROSUB_LOG_LEVEL": "warning"}, ("--log-level", "info", "--log-format", "json")),
    ]
    logs = []
    for number, (environ, flags) in enumerate(ways):
        (folder / "backend.json").write_text(json.dumps({"users": {f"user{n}": {} for n in range(number + 1)}}))
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        made = CliRunner().invoke(main, ["token", "create", f"user{number}", *flags])
        assert (made.exit_code, made.stdout.count("\n")) == (0, 1), made.stderr
        logs.append(made.stderr)
    silent, text, as_json = logs
    assert silent == ""
    assert "user user1 added" in text
    assert "user user2 added" in [json.loads(line).get("change") for line in as_json.splitlines()]


async def test_a_worker_that_cant_be_started_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that can't start a process now may be able to a second later."""
    tries: list[int] = []

    async def refuse(*_args: Any, **_more: Any) -> None:
        tries.append(len(tries))
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(process, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    worker = process.WorkerBeside(Settings(), tmp_path)
    task = asyncio.create_task(worker.run())
    async with asyncio.timeout(60):
        while len(tries) < 3 and not task.done():
            await asyncio.sleep(0)
        worker.stop()
        await task
    assert len(tries) == 3


async def test_the_first_feeds_of_a_new_server_have_automatic_full_texts(folder: Path) -> None:
    """A declared feed, and one followed before any post has arrived, get full texts if they cut their posts."""
    home = '{"uid": "home", "name": "Home", "feeds": ["https://posts.example/declared"]}'
    (folder / "backend.json").write_text(f'{{"users": {{"ann": {{"channels": [{home}]}}}}}}')
    async with server.stores.open_stores(Settings(), create=True) as stores:
        await server.backend.configuration(Settings(), stores).look()
        await server.stores.following(stores).follow("ann", "home", "https://posts.example/chosen", time.time())
        follows = await stores.channels.subscriptions("ann", "home")
        assert len(follows) == 2
        since = await stores.channels.automatic_since()
        assert {choice_of(follow, since) for follow in follows} == {"auto"}
