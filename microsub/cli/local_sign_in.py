"""`microsub user invite` and `microsub user password`: how people get to sign in on the server's own pages."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import click

from microsub import wiring
from microsub.cli.groups import Command
from microsub.cli.options import STORE_FLAGS, fail, restorable, run, settings_flags
from microsub.cli.terminal import say
from microsub.settings import Settings

if TYPE_CHECKING:
    from microsub.identity.local.login import Invitations


@click.command("invite", cls=Command)
@click.argument("name")
@click.option("--afresh", is_flag=True, help="Also remove the password and all passkeys, and sign all browsers out.")
@settings_flags(*STORE_FLAGS, "host", "port", "base_url")
def user_invite(settings: Settings, name: str, afresh: bool) -> None:
    """Print a one-time link to choose a password or a passkey.

    The link works once, within 24 hours, and replaces an earlier one. It opens the account, so hand it over as you
    would a key. With --afresh, a lost or stolen password or passkey no longer works.

    Example: microsub user invite alice --base-url https://reader.example
    """

    from microsub.identity.local.login import INVITATION_PATH

    async def work() -> str:
        async with _opened(settings, name) as enrolling:
            if afresh:
                await enrolling.forget(name)
            return await enrolling.invite(name)

    code = run(work())
    if settings.base_url is None:
        where = f"on this machine alone, where the server listens on port {settings.port}"
        say(f"warning: the link is good {where}; name the server with --base-url", err=True)
    say(f"{settings.public_url}{INVITATION_PATH}#{code}")


@click.command("password", cls=Command)
@click.argument("name")
@settings_flags(*STORE_FLAGS)
def user_password(settings: Settings, name: str) -> None:
    """Set the password of a user.

    It is read from a prompt, or from the first line of standard input where that isn't a terminal. All browsers
    that are signed in to the account are signed out.

    Example: pass show reader | microsub user password alice
    """
    password = _password(name)

    async def work() -> None:
        async with _opened(settings, name) as enrolling:
            await enrolling.set_password(name, password, time.time())

    run(work())
    say(f"the password of {name} is set; signed out of all browsers")


@asynccontextmanager
async def _opened(settings: Settings, name: str) -> AsyncIterator[Invitations]:
    """For a user who exists and isn't disabled; ends the program otherwise."""
    async with wiring.stores.open_stores(settings) as stores:
        await wiring.people.require_user(settings, stores, name)
        found = await stores.accounts.user(name)
        if found is not None and found.disabled is not None:
            fail(f"the user '{name}' is {restorable(name)}")
        local = wiring.local.make_local(stores.redis)
        try:
            yield local.enrolling
        finally:
            local.close()


def _password(name: str) -> str:
    from microsub.identity.local.passwords import LONGEST_PASSWORD, SHORTEST_PASSWORD

    if _is_terminal():
        text = f"Password of {name} ({SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters)"
        password: str = click.prompt(text, hide_input=True, confirmation_prompt=True, err=True)
        return password
    try:
        line = sys.stdin.buffer.readline(4 * LONGEST_PASSWORD + 2).decode()
    except UnicodeDecodeError:
        fail("the password on standard input is not UTF-8")
    return line.removesuffix("\n").removesuffix("\r")


def _is_terminal() -> bool:
    return sys.stdin.isatty()
