"""`microsub user` and `microsub token`: who may come in, and with what."""

from __future__ import annotations

import time

import click

from microsub import wiring
from microsub.cli.groups import Group
from microsub.cli.local_sign_in import user_invite, user_password
from microsub.cli.options import (
    DAYS,
    STORE_FLAGS,
    as_instant,
    counted,
    fail,
    print_json,
    restorable,
    run,
    settings_flags,
)
from microsub.cli.services import service
from microsub.cli.terminal import say
from microsub.kit.identifiers import PROFILE, unfit_profile
from microsub.model.plaintext import escaped
from microsub.model.reader import NOTIFICATIONS
from microsub.model.scopes import ALL_SCOPES, read_scopes
from microsub.settings import Settings, mask_password


@click.group(cls=Group)
def user() -> None:
    """List, add, invite and remove users.

    Users who are declared in backend.json need no command.
    """


@user.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_flags(*STORE_FLAGS)
def user_list(settings: Settings, as_json: bool) -> None:
    """List all users with their URL and number of channels.

    The channel `notifications`, which everybody has, isn't counted. Users who made their account themselves, by signing
    in, are marked as registered, with the day.
    """

    async def work() -> list[dict[str, object]]:
        async with wiring.stores.open_stores(settings) as stores:
            return [
                {
                    "name": found.name,
                    "me": mask_password(found.me),
                    "disabled": as_instant(found.disabled),
                    "registered": as_instant(found.created) if found.registered else None,
                    "channels": sum(each.uid != NOTIFICATIONS for each in await stores.channels.list(found.name)),
                }
                for found in await stores.accounts.users()
            ]

    rows = run(work())
    if as_json:
        print_json(rows)
        return
    for row in rows:
        state = f"  (registered {str(row['registered'])[:10]})" if row["registered"] else ""
        state += "  (disabled)" if row["disabled"] else ""
        channels = counted(int(str(row["channels"])), "channel")
        say(escaped(f"{row['name']}  {row['me'] or '-'}  {channels}{state}"))


@user.command("add")
@click.argument("name")
@click.option("--me", default="", help="The URL that identifies the user, such as https://alice.example/.")
@settings_flags(*STORE_FLAGS)
def user_add(settings: Settings, name: str, me: str) -> None:
    """Add a user.

    Example: microsub user add alice --me https://alice.example/
    """

    _require_profile("--me", me)

    async def work() -> None:
        async with wiring.stores.open_stores(settings) as stores:
            known = await stores.accounts.user(name)
            if known is not None:
                fail(f"there is already a user '{name}'" + (f", who is {restorable(name)}" if known.disabled else ""))
            await wiring.people.add_user(stores, name, me, time.time())
            await wiring.backend.configuration(settings, stores).write_back()

    run(work())
    say(f"added {name}; to let them sign in: microsub user invite {name}; for an app: microsub token create {name}")


@user.command("me")
@click.argument("name")
@click.argument("url")
@settings_flags(*STORE_FLAGS)
def user_me(settings: Settings, name: str, url: str) -> None:
    """Change the URL that identifies a user whose site has moved.

    From then on the owner of that URL owns the account. All browsers are signed out, and the answers of the former
    provider are forgotten. Apps that have access keep it, and the password stays: it is the same person. To give the
    name to another person, remove the user first.
    """

    _require_profile("URL", url or "''")

    async def work() -> None:
        async with wiring.stores.open_stores(settings) as stores:
            await wiring.people.require_user(settings, stores, name)
            await wiring.people.change_me(stores, name, url, time.time())
            await wiring.backend.configuration(settings, stores).write_back()

    run(work())
    say(f"{name} is {url} now; apps that were let in stay (microsub token list {name})")


@user.command("remove")
@click.argument("name")
@settings_flags(*STORE_FLAGS)
def user_remove(settings: Settings, name: str) -> None:
    """Disable a user at once, and delete the account after 30 days.

    Where the server writes into backend.json, the user's entry is taken out of it; the file as it was stays in the
    folder of versions beside it. Otherwise take out the entry yourself. While the account is disabled, nobody can
    register with its address.
    """

    async def work() -> bool:
        async with wiring.stores.open_stores(settings) as stores:
            await wiring.people.require_user(settings, stores, name)
            return await wiring.people.remove_user(settings, stores, name, time.time())

    done = f"removed {name}, from {settings.backend} too" if run(work()) else f"removed {name}"
    say(f"{done}; within 30 days they can be brought back: microsub user restore {name}")


@user.command("restore")
@click.argument("name")
@settings_flags(*STORE_FLAGS)
def user_restore(settings: Settings, name: str) -> None:
    """Bring back a user who was removed less than 30 days ago."""

    async def work() -> None:
        async with wiring.stores.open_stores(settings) as stores:
            await wiring.people.require_user(settings, stores, name)
            await wiring.people.restore_user(settings, stores, name, time.time())

    run(work())
    say(f"restored {name}")


def _require_profile(what: str, me: str) -> None:
    """Make sure that somebody could sign in with that address, if there is one; `what` is where it was said."""
    if me and (problem := unfit_profile(me)):
        fail(f"{what}: found '{mask_password(me)}', {problem}; expected {PROFILE}")


@click.group(cls=Group)
def token() -> None:
    """Make, list and revoke tokens for reader apps."""


@token.command("create")
@click.argument("user_name", metavar="USER")
@click.option(
    "--scope",
    default=" ".join(ALL_SCOPES),
    show_default=True,
    help="What the token allows, separated by spaces.",
)
@click.option("--client", default="command line", show_default=True, help="A name by which you know it again.")
@click.option("--days", type=DAYS, help="Days until it expires; default: never.")
@settings_flags(*STORE_FLAGS)
def token_create(settings: Settings, user_name: str, scope: str, client: str, days: float | None) -> None:
    """Make a token for an app of USER, and print it.

    It is shown only once, and nothing else is printed.

    Example: TOKEN=$(microsub token create alice --scope "read follow")
    """

    async def work() -> str:
        async with wiring.stores.open_stores(settings) as stores:
            await wiring.people.require_user(settings, stores, user_name)
            found = await stores.accounts.user(user_name)
            if found is not None and found.disabled is not None:
                fail(f"no token would be good, since '{user_name}' is {restorable(user_name)}")
            now = time.time()
            expires = now + days * 86400 if days else None
            return await stores.accounts.create_token(user_name, read_scopes(scope), client, now, expires)

    made = run(work())
    if foreign := sorted(read_scopes(scope).difference(ALL_SCOPES)):
        known = " ".join(ALL_SCOPES)
        say(f"warning: scopes without a meaning here: {' '.join(foreign)}; those with one: {known}", err=True)
    say(made)


@token.command("list")
@click.argument("user_name", metavar="USER")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_flags(*STORE_FLAGS)
def token_list(settings: Settings, user_name: str, as_json: bool) -> None:
    """List the tokens of USER, each with the id to revoke it by.

    Shows its app, scopes and dates, never the token itself.
    """

    async def work() -> list[dict[str, object]]:
        async with wiring.stores.open_stores(settings) as stores:
            await wiring.people.require_user(settings, stores, user_name)
            return [
                {
                    "id": found.digest[:12],
                    "client": found.client,
                    "scope": " ".join(sorted(found.scopes)),
                    "created": as_instant(found.created),
                    "expires": as_instant(found.expires),
                }
                for found in await stores.accounts.tokens(user_name)
            ]

    rows = run(work())
    if as_json:
        print_json(rows)
        return
    for row in rows:
        made, until = (str(row[name] or "")[:10] for name in ("created", "expires"))
        say(escaped(f"{row['id']}  {made}  {until or 'never expires'}  {row['client']}  [{row['scope']}]"))


@token.command("revoke")
@click.argument("user_name", metavar="USER")
@click.argument("token_id", metavar="ID")
@settings_flags(*STORE_FLAGS)
def token_revoke(settings: Settings, user_name: str, token_id: str) -> None:
    """Revoke a token of USER at once, by its ID in `token list`."""

    async def work() -> int:
        async with wiring.stores.open_stores(settings) as stores:
            await wiring.people.require_user(settings, stores, user_name)
            return await stores.accounts.revoke(user_name, token_id)

    if not run(work()):
        fail(f"{user_name} has no token '{token_id}'; see: microsub token list {user_name}")
    say("revoked")


user.add_command(user_invite)
user.add_command(user_password)
token.add_command(service)
