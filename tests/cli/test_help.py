"""The help of the command line, and the modules that a command loads before it knows what to do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from microsub.cli import main
from microsub.cli.groups import COMMON
from microsub.redis.embedded.server import start_embedded
from tests.support.waiting import PATIENCE

HEAVY = (
    *("argon2", "bs4", "feedparser", "fido2", "h11", "httpx", "jinja2", "mf2py", "nh3", "pydantic"),
    *("prometheus_client", "re2", "redis", "selectolax", "starlette", "structlog", "uvicorn", "watchfiles"),
    *("microsub.backend_file.sync", "microsub_demo.documents", "microsub.timelines.add"),
)
"""Packages that take long to load, and modules of ours. No command's help needs them."""

STORE = {"redis", "re2", "structlog"}
"""Packages for every command that opens the store."""

LOADED = """
import sys
from click.testing import CliRunner
from microsub.cli import main
for arguments in {commands!r}:
    assert CliRunner().invoke(main, arguments).exit_code in (0, 1, 2)
print(*sorted({heavy!r} & sys.modules.keys()))
"""


def commands(group: click.Command = main, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command and group, as it is typed."""
    found = [path]
    if isinstance(group, click.Group):
        for name, command in group.commands.items():
            found += commands(command, (*path, name))
    return found


def loaded(*lines: tuple[str, ...]) -> set[str]:
    """The heavy packages that a fresh process has loaded after these commands."""
    program = LOADED.format(commands=[list(line) for line in lines], heavy=set(HEAVY))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE)
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """Flags for the data and the file of a running server with the user alice."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "backend.json").write_text('{"users": {"alice": {}}}')
    server = start_embedded(folder / "data")
    flags = "--data-dir", str(folder / "data"), "--backend", str(folder / "backend.json")
    assert CliRunner().invoke(main, ["token", "create", "alice", *flags]).exit_code == 0
    yield flags
    server.stop()


def test_help_loads_nothing_heavy() -> None:
    """The help of all commands, one after the other, loads none of the packages for their work."""
    assert len(commands()) > 30
    assert loaded(*((*path, "--help") for path in commands()), ("--version",)) == set()


@pytest.mark.parametrize(
    ("commands", "needed"),
    [
        (("token list alice", "user list", "feed list"), set[str]()),
        (("check",), {"microsub.timelines.add"}),
        (("config check",), {"pydantic", "microsub.backend_file.sync", "microsub.timelines.add"}),
        # A command that polls publishers has an HTTP client, and names the parsers' tasks by their functions.
        (
            ("poll",),
            {"feedparser", "h11", "httpx", "microsub.timelines.add", "nh3", "prometheus_client", "selectolax"},
        ),
    ],
)
def test_a_command_loads_what_its_work_needs(
    place: tuple[str, ...], commands: tuple[str, ...], needed: set[str]
) -> None:
    """Modules for work that not every call has, such as reading a document, are loaded only for that work."""
    found = loaded(*((*command.split(), *place) for command in commands))
    assert "redis" in found
    assert found <= STORE | needed


def test_config_check_loads_no_redis_where_there_is_no_data(tmp_path: Path) -> None:
    """A file on a machine without a server isn't compared with any users."""
    (tmp_path / "backend.json").write_text('{"users": {"alice": {}}}')
    place = ("--data-dir", str(tmp_path / "data"), "--backend", str(tmp_path / "backend.json"))
    assert loaded(("config", "check", *place)) <= {"pydantic", "re2", "structlog"}


def test_a_worker_loads_no_pages_and_no_web_server() -> None:
    """A server starts its worker as a process of its own, which takes as long to load as the web side."""
    program = "import sys, microsub.cli.serving.process, microsub.server.worker; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE)
    needless = {"jinja2", "uvicorn", "microsub.api.endpoint", "microsub.reader.frame", "microsub.server.app"}
    assert not needless & set(done.stdout.split())


def test_the_list_of_commands_loads_none() -> None:
    """`microsub --help` prints each command's first sentence without importing its module."""
    program = (
        "import sys; from click.testing import CliRunner; from microsub.cli import main\n"
        "CliRunner().invoke(main, ['--help'])\n"
        "print(*(name for name in sys.modules if name.startswith('microsub.cli.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stdout.split() == ["microsub.cli.groups"]
    rows = [line.split(None, 1) for line in CliRunner().invoke(main, ["--help"]).stdout.splitlines()]
    shown = {tuple(row) for row in rows}
    assert {(name, main.commands[name].get_short_help_str(200)) for name in main.commands} <= shown


def test_a_summary_fits_into_a_line_of_a_list() -> None:
    """The first sentence of a command's help fits untruncated next to the command on 80 columns."""
    for path in commands():
        shown = CliRunner().invoke(main, [*path, "--help"]).stdout
        assert "..." not in shown.partition("\n")[2], path
    if path:
        command: click.Command = main
        for name in path:
            assert isinstance(command, click.Group)
            command = command.commands[name]
        assert 10 < len(command.get_short_help_str(200)) <= 63


def test_common_options_are_explained_once() -> None:
    """`microsub --help` explains them; the page of a command lists those that it takes."""
    top = CliRunner().invoke(main, ["--help"]).stdout
    page = CliRunner().invoke(main, ["token", "list", "--help"]).stdout
    for name in COMMON:
        flag = "--" + name.replace("_", "-")
        assert top.count(f"  {flag} ") == 1
        assert page.count(flag) == 1
        assert f"  {flag} " not in page
    assert "--json" in page


def test_a_mistyped_command_is_recognised() -> None:
    """The error suggests the most similar of all commands."""
    assert "serve" in CliRunner().invoke(main, ["severe"]).stderr
