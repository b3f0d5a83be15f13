"""`microsub user invite` and `microsub user password`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from microsub import server
from microsub.accounts.store import Accounts
from microsub.base.settings import read_settings
from microsub.cli import accounts
from microsub.identity.local_sign_in import LocalSignIn
from microsub.redis.connect import connect
from tests.cli.conftest import Run

PASSWORD = "correct horse battery"
Looked = Callable[[Callable[[LocalSignIn, Accounts], Awaitable[Any]]], Any]


@pytest.fixture
def looked(run: Run, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Looked:
    """Checks the store that the commands work on."""
    monkeypatch.setenv("MICROSUB_REDIS_URL", redis_url)

    async def look(ask: Callable[[LocalSignIn, Accounts], Awaitable[Any]]) -> Any:
        redis = await connect(redis_url)
        local = LocalSignIn(redis)
        try:
            return await ask(local, Accounts(redis))
        finally:
            local.close()
            await redis.aclose()

    return lambda ask: asyncio.run(look(ask))


async def is_right(local: LocalSignIn, password: str = PASSWORD) -> bool:
    return await local._passwords.is_right("alice", await local.credentials.password("alice"), password)


def test_a_link_is_printed_alone_and_invites_its_user(run: Run, looked: Looked) -> None:
    """Its secret is after the `#`, so that no server and no log sees it."""
    result = run("user", "invite", "alice", "--base-url", "https://reader.example/sub")
    link = result.stdout.strip()
    assert result.stderr == ""
    address, _, code = link.partition("#")
    assert address == "https://reader.example/sub/enrol"
    assert code.startswith("alice.")
    assert looked(lambda local, _: local.invited(code)) == "alice"


@pytest.mark.usefixtures("data")
def test_a_link_without_an_address_comes_with_a_warning(run: Run) -> None:
    """The warning is on standard error, so that standard output has only the link."""
    result = run("user", "invite", "alice")
    assert result.stdout.startswith("http://127.0.0.1:8080/enrol#alice.")
    assert "--base-url" in result.stderr


@pytest.mark.usefixtures("data")
def test_a_link_leads_to_the_server_that_started_last(run: Run) -> None:
    """Without a warning if others reach it."""

    async def start(url: str) -> None:
        async with server.stores.open_stores(read_settings(os.environ, {}), create=True) as stores:
            await stores.applied.note_address(url)

    for url, warning in (("http://127.0.0.1:9321", "only on this machine"), ("https://reader.example", "")):
        asyncio.run(start(url))
        result = run("user", "invite", "alice")
        assert result.stdout.startswith(f"{url}/enrol#alice.")
        assert warning in result.stderr
        assert bool(warning) == bool(result.stderr)


def test_inviting_afresh_ends_all_access_first(run: Run, looked: Looked) -> None:
    """Password and sessions are deleted; without the flag they stay."""
    run("user", "password", "alice", given=PASSWORD)

    async def begin(local: LocalSignIn, _: Accounts) -> str:
        return await local.sessions.begin("alice", "https://alice.example/", "x", "", time.time())

    cookie = looked(begin)
    run("user", "invite", "alice")
    assert looked(lambda local, _: is_right(local))
    run("user", "invite", "alice", "--afresh")
    assert not looked(lambda local, _: is_right(local))
    assert looked(lambda local, _: local.sessions.find(cookie, time.time())) is None


@pytest.mark.parametrize("given", [PASSWORD, PASSWORD + "\n", PASSWORD + "\r\n", PASSWORD + "\nand more"])
def test_a_password_comes_from_the_first_line_of_standard_input(run: Run, looked: Looked, given: str) -> None:
    """With or without a line break at its end; it is never printed."""
    result = run("user", "password", "alice", given=given)
    assert result.exit_code == 0
    assert "alice is set" in result.stdout
    assert PASSWORD not in result.output
    assert looked(lambda local, _: is_right(local))


@pytest.mark.parametrize(
    ("given", "why"),
    [("", "fewer"), ("short\n", "fewer"), ("x" * 10_000, "more than"), (b"\xff" * 20, "UTF-8"), ("alice" * 4, "name")],
)
def test_a_password_that_cant_be_taken_changes_nothing(run: Run, looked: Looked, given: str | bytes, why: str) -> None:
    """The error gives the reason, and doesn't show the password."""
    run("user", "password", "alice", given=PASSWORD)
    result = run("user", "password", "alice", given=given)
    assert (result.exit_code, why in result.stderr) == (1, True)
    assert looked(lambda local, _: is_right(local))


def test_a_terminal_asks_for_a_password_twice(run: Run, looked: Looked, monkeypatch: pytest.MonkeyPatch) -> None:
    """It isn't shown, and is asked for again if the two differ."""
    monkeypatch.setattr(accounts, "_is_terminal", lambda: True)
    answers = [PASSWORD, "something else", PASSWORD, PASSWORD]
    result = run("user", "password", "alice", given="\n".join(answers))
    assert result.exit_code == 0
    assert PASSWORD not in result.output
    assert looked(lambda local, _: is_right(local))


@pytest.mark.parametrize("command", ["invite", "password"])
def test_unknown_and_disabled_users_get_no_invitation(run: Run, looked: Looked, command: str) -> None:
    """The error lists the existing users."""
    result = run("user", command, "bob", given=PASSWORD)
    assert (result.exit_code, "alice" in result.stderr) == (1, True)
    looked(lambda _, accounts: accounts.disable_user("alice", time.time()))
    result = run("user", command, "alice", given=PASSWORD)
    assert (result.exit_code, "disabled" in result.stderr) == (1, True)
