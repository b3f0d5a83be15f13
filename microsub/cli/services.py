"""`microsub token service`: which other programs may read the post store."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from microsub import wiring
from microsub.cli.groups import Group
from microsub.cli.options import DAYS, STORE_FLAGS, as_instant, fail, print_json, run, settings_flags
from microsub.cli.terminal import say
from microsub.settings import Settings

if TYPE_CHECKING:
    from microsub.identity.store.service_tokens import ServiceToken, ServiceTokens


@click.group(cls=Group)
def service() -> None:
    """Make, list and revoke tokens for programs that read posts.

    These programs see the posts of all feeds in the post store, also of feeds that only one user follows; never a
    user's channels, read state or own posts. The token of a reader app doesn't work there.
    """


@service.command("create")
@click.argument("name")
@click.option("--days", type=DAYS, help="Days until it expires; default: never.")
@settings_flags(*STORE_FLAGS)
def service_create(settings: Settings, name: str, days: float | None) -> None:
    """Make a token for the program NAME, and print it.

    It is shown only once, and nothing else is printed.

    Example: TOKEN=$(microsub token service create planet)
    """

    async def work() -> str:
        async with wiring.stores.open_stores(settings) as stores:
            now = time.time()
            return await _tokens(stores).create(name, now, now + days * 86400 if days else None)

    say(run(work()))


@service.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_flags(*STORE_FLAGS)
def service_list(settings: Settings, as_json: bool) -> None:
    """List the programs that have a token, with its dates."""

    async def work() -> list[ServiceToken]:
        async with wiring.stores.open_stores(settings) as stores:
            return await _tokens(stores).all()

    found = run(work())
    if as_json:
        print_json(
            [
                {"name": one.name, "created": as_instant(one.created), "expires": as_instant(one.expires)}
                for one in found
            ]
        )
        return
    for one in found:
        say(f"{one.name}  {_day(one.created)}  {_until(one, time.time())}")
    if not found:
        say("no tokens of programs")


@service.command("revoke")
@click.argument("name")
@settings_flags(*STORE_FLAGS)
def service_revoke(settings: Settings, name: str) -> None:
    """Revoke the token of the program NAME at once."""

    async def work() -> bool:
        async with wiring.stores.open_stores(settings) as stores:
            return await _tokens(stores).revoke(name)

    if not run(work()):
        fail(f"there is no token for '{name}'; see: microsub token service list")
    say("revoked")


def _tokens(stores: wiring.stores.Stores) -> ServiceTokens:
    from microsub.identity.store.service_tokens import ServiceTokens

    return ServiceTokens(stores.redis)


def _until(one: ServiceToken, now: float) -> str:
    if one.expires is None:
        return "never expires"
    return f"expired {_day(one.expires)}" if one.expires <= now else _day(one.expires)


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(at))
