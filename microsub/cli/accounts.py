"""`microsub user`, `microsub token` and `microsub doctor`: users and their access."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

import click

from microsub import accounts, server
from microsub.base.identifiers import PROFILE, identifier, unfit_profile
from microsub.base.plaintext import counted, escaped
from microsub.base.settings import Settings, mask_password
from microsub.cli.groups import Command, Group
from microsub.cli.options import (
    DAYS,
    FAILED,
    FETCH_FLAGS,
    STORE_FLAGS,
    as_instant,
    fail,
    json_flag,
    on_stores,
    print_json,
    print_report,
    run,
    run_on,
    say,
    server_address,
    settings_flags,
)
from microsub.cli.transfer import user_export, user_import
from microsub.model.reader import ALL_SCOPES, BUILT_IN

if TYPE_CHECKING:
    from microsub.accounts import ServiceTokens
    from microsub.server.stores import Stores


@click.group(cls=Group)
def user() -> None:
    """List, add, invite, remove, export and import users.

    Users declared in backend.json don't need these commands.
    """


user.add_command(user_export)
user.add_command(user_import)


@user.command("list")
@json_flag
@on_stores()
async def user_list(settings: Settings, stores: Stores, as_json: bool) -> None:
    """List all users with their URL and number of channels.

    Admins are marked. The channels `notifications` and `saved`, which every user has, aren't counted. Users who created
    their account by signing in are marked as registered, with the date.
    """

    rows = [
        {
            "name": found.name,
            "me": mask_password(found.me),
            "admin": found.admin,
            "disabled": as_instant(found.disabled),
            "registered": as_instant(found.created) if found.registered else None,
            "channels": sum(each.uid not in BUILT_IN for each in await stores.channels.list(found.name)),
        }
        for found in await stores.accounts.users()
    ]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        state = f"  (registered {str(row['registered'])[:10]})" if row["registered"] else ""
        state += "  (admin)" if row["admin"] else ""
        state += "  (disabled)" if row["disabled"] else ""
        channels = counted(int(str(row["channels"])), "channel")
        say(escaped(f"{row['name']}  {row['me'] or '-'}  {channels}{state}"))


@user.command("add")
@click.argument("name")
@click.option("--me", default="", help="The URL that identifies the user, such as https://alice.example/.")
@on_stores()
async def user_add(settings: Settings, stores: Stores, name: str, me: str) -> None:
    """Add a user.

    Example: microsub user add alice --me https://alice.example/
    """
    _require_profile("--me", me)
    known = await stores.accounts.user(name)
    if known is not None:
        back = f", who is disabled; to restore them: microsub user restore {name}" if known.disabled else ""
        fail(f"there is already a user '{name}'{back}")
    await server.backend.add_user(stores, name, me, time.time())
    await server.backend.write_back(settings, stores)
    say(f"added {name}; to invite them: microsub user invite {name}; for an app: microsub token create {name}")


@user.command("me")
@click.argument("name")
@click.argument("url")
@on_stores()
async def user_me(settings: Settings, stores: Stores, name: str, url: str) -> None:
    """Change the URL that identifies a user whose site has moved.

    From then on, the account belongs to the owner of that URL. All browsers are signed out, and cached answers of the
    previous provider are dropped. Apps keep their access, and the password stays, because it is the same person. To
    give the name to another person, remove the user first.
    """
    _require_profile("URL", url or "''")
    await server.backend.require_user(settings, stores, name)
    await server.backend.change_me(stores, name, url, time.time())
    await server.backend.write_back(settings, stores)
    say(f"{name} is now {url}; apps keep their access (microsub token list {name})")


@user.command("admin")
@click.argument("name")
@click.argument("switch", metavar="on|off", type=click.Choice(["on", "off"]))
@on_stores()
async def user_admin(settings: Settings, stores: Stores, name: str, switch: str) -> None:
    """Give a user access to the admin pages, or take it away.

    The pages at /admin show the feeds of all users with their errors, dead letters, users and configuration. They don't
    show other users' posts or read state. The change applies from the next request on.

    Example: microsub user admin alice on
    """
    await server.backend.require_user(settings, stores, name)
    await server.backend.set_admin(stores, name, switch == "on", time.time())
    await server.backend.write_back(settings, stores)
    say(f"{name} is now an admin" if switch == "on" else f"{name} is no longer an admin")


@user.command("remove")
@click.argument("name")
@on_stores()
async def user_remove(settings: Settings, stores: Stores, name: str) -> None:
    """Disable a user at once, and delete the account after 30 days.

    If the server writes to backend.json, it removes the user's entry and saves the previous file in the folder of
    versions next to it. Otherwise, remove the entry yourself. While the account is disabled, nobody can register with
    its URL.
    """
    await server.backend.require_user(settings, stores, name)
    config = server.backend.configuration(settings, stores)
    taken_out = await server.backend.remove_user(config, stores, name, time.time())
    done = f"removed {name}, from {settings.backend} too" if taken_out else f"removed {name}"
    say(f"{done}; to restore them within 30 days: microsub user restore {name}")


@user.command("restore")
@click.argument("name")
@on_stores()
async def user_restore(settings: Settings, stores: Stores, name: str) -> None:
    """Restore a user who was removed less than 30 days ago.

    Apps and browsers have to sign in again.
    """
    await server.backend.require_user(settings, stores, name)
    await server.backend.restore_user(stores, name, time.time())
    await server.backend.write_back(settings, stores)
    say(f"restored {name}; apps and browsers have to sign in again; for a new token: microsub token create {name}")


def _require_profile(what: str, me: str) -> None:
    """Require a URL that can be used to sign in; `what` names the option."""
    if me and (problem := unfit_profile(me)):
        fail(f"{what}: found '{mask_password(me)}', {problem}; expected {PROFILE}")


@click.group(cls=Group)
def token() -> None:
    """Create, list and revoke tokens for reader apps."""


def _scopes(_context: click.Context, _parameter: click.Parameter, value: str) -> frozenset[str]:
    scopes, known = frozenset(value.split()), " ".join(ALL_SCOPES)
    if foreign := sorted(scopes.difference(ALL_SCOPES)):
        raise click.BadParameter(f"'{' '.join(foreign)[:80]}' is unknown: expected one or more of {known}")
    if not scopes:
        raise click.BadParameter(f"found no scope, expected one or more of {known}")
    return scopes


@token.command("create")
@click.argument("user_name", metavar="USER")
@click.option(
    "--scope",
    default=" ".join(ALL_SCOPES),
    show_default=True,
    callback=_scopes,
    help="What the token allows, separated by spaces.",
)
@click.option("--client", default="command line", show_default=True, help="A name by which you recognise the token.")
@click.option("--days", type=DAYS, help="Days until it expires; default: never.")
@click.option("--app", metavar="NAME", help="Print an app password instead, for a native app of this name.")
@on_stores()
async def token_create(
    settings: Settings,
    stores: Stores,
    user_name: str,
    scope: frozenset[str],
    client: str,
    days: float | None,
    app: str | None,
) -> None:
    """Create a token for an app of USER, and print it.

    It is shown only once, and nothing else is printed. With --app it is a password for an app that speaks the Google
    Reader API; it opens nothing else.

    Example: TOKEN=$(microsub token create alice --scope "read follow")
    """
    await server.backend.require_user(settings, stores, user_name, enabled=True)
    now = time.time()
    if app is not None:
        say(await accounts.create_app_password(stores.accounts, user_name, app, now))
        return
    say(await stores.accounts.create_token(user_name, scope, client, now, now + days * 86400 if days else None))


@token.command("list")
@click.argument("user_name", metavar="USER")
@json_flag
@on_stores()
async def token_list(settings: Settings, stores: Stores, user_name: str, as_json: bool) -> None:
    """List the tokens of USER, with the ids for `token revoke`.

    Shows app, scopes and dates of each, never the token itself.
    """
    await server.backend.require_user(settings, stores, user_name)
    rows = [
        {
            "id": found.digest[:12],
            "client": found.client,
            "scope": " ".join(sorted(found.scopes)),
            "created": as_instant(found.created),
            "expires": as_instant(found.expires),
        }
        for found in await stores.accounts.tokens(user_name)
    ]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        made, until = (str(row[name] or "")[:10] for name in ("created", "expires"))
        say(escaped(f"{row['id']}  {made}  {until or 'never expires'}  {row['client']}  [{row['scope']}]"))


@token.command("revoke")
@click.argument("user_name", metavar="USER")
@click.argument("token_id", metavar="ID")
@on_stores()
async def token_revoke(settings: Settings, stores: Stores, user_name: str, token_id: str) -> None:
    """Revoke a token of USER at once, by its ID from `token list`."""
    await server.backend.require_user(settings, stores, user_name)
    if not await stores.accounts.revoke(user_name, token_id):
        fail(f"{user_name} has no token '{token_id}'; see: microsub token list {user_name}")
    say("revoked")


@user.command("invite")
@click.argument("name")
@click.option("--afresh", is_flag=True, help="Also remove the password and all passkeys, and sign all browsers out.")
@on_stores("host", "port", "base_url")
async def user_invite(settings: Settings, stores: Stores, name: str, afresh: bool) -> None:
    """Print a one-time link to choose a password or a passkey.

    The link works once, within 24 hours, and replaces earlier links. It gives access to the account, so treat it like a
    password. With --afresh, a lost or stolen password or passkey stops working.

    Example: microsub user invite alice --base-url https://reader.example
    """
    from microsub.identity import INVITATION_PATH, LocalSignIn

    await server.backend.require_user(settings, stores, name, enabled=True)
    with closing(LocalSignIn(stores.redis)) as local:
        if afresh:
            await local.forget(name)
        code = await local.credentials.invite(name)
    base = await server_address(stores, settings)
    if settings.base_url is None and (base is None or identifier(base).is_loopback):
        where = "only on this machine" + ("" if base else f", if the server listens on port {settings.port}")
        say(f"warning: the link works {where}; for a public link use --base-url", err=True)
    say(f"{base or settings.public_url}{INVITATION_PATH}#{code}")


@user.command("password")
@click.argument("name")
@settings_flags(*STORE_FLAGS)
def user_password(settings: Settings, name: str) -> None:
    """Set the password of a user.

    The command prompts for it, or reads the first line of standard input if that isn't a terminal. All browsers are
    signed out of the account.

    Example: pass show reader | microsub user password alice
    """
    from microsub.identity import LocalSignIn

    password = _password(name)

    async def work(stores: Stores) -> None:
        await server.backend.require_user(settings, stores, name, enabled=True)
        with closing(LocalSignIn(stores.redis)) as local:
            await local.set_password(name, password, time.time())

    run_on(settings, work)
    say(f"the password of {name} is set; signed out of all browsers")


def _password(name: str) -> str:
    from microsub.identity import LONGEST_PASSWORD, SHORTEST_PASSWORD

    if _is_terminal():
        text = f"Password of {name} ({SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters)"
        password: str = click.prompt(text, hide_input=True, confirmation_prompt=True, err=True)
        return password
    try:
        line = sys.stdin.buffer.readline(4 * LONGEST_PASSWORD + 2).decode()
    except UnicodeDecodeError:
        fail("can't read the password: standard input isn't valid UTF-8")
    return line.removesuffix("\n").removesuffix("\r")


def _is_terminal() -> bool:
    return sys.stdin.isatty()


@token.group()
def service() -> None:
    """Create, list and revoke tokens for programs that read posts.

    These programs see the posts of all feeds in the post store, even of feeds that only one user follows, but never a
    user's channels, read state or own posts. Tokens of reader apps don't work there.
    """


@service.command("create")
@click.argument("name")
@click.option("--days", type=DAYS, help="Days until it expires; default: never.")
@on_stores()
async def service_create(settings: Settings, stores: Stores, name: str, days: float | None) -> None:
    """Create a token for the program NAME, and print it.

    It is shown only once, and nothing else is printed.

    Example: TOKEN=$(microsub token service create planet)
    """
    now = time.time()
    say(await _tokens(stores).create(name, now, now + days * 86400 if days else None))


@service.command("list")
@json_flag
@on_stores()
async def service_list(settings: Settings, stores: Stores, as_json: bool) -> None:
    """List the programs that have a token, with the token's dates."""
    found = await _tokens(stores).all()
    rows = [
        {"name": name, "created": as_instant(created), "expires": as_instant(expires)}
        for name, created, expires in found
    ]
    if as_json:
        print_json(rows)
        return
    for row, (_, _, expires) in zip(rows, found, strict=True):
        made, until = (str(row[name] or "")[:10] for name in ("created", "expires"))
        expired = "expired " if expires is not None and expires <= time.time() else ""
        say(f"{row['name']}  {made}  {expired}{until or 'never expires'}")
    if not found:
        say("no program has a token")


@service.command("revoke")
@click.argument("name")
@on_stores()
async def service_revoke(settings: Settings, stores: Stores, name: str) -> None:
    """Revoke the token of the program NAME at once."""
    if not await _tokens(stores).revoke(name):
        fail(f"there is no token for '{name}'; see: microsub token service list")
    say("revoked")


def _tokens(stores: server.stores.Stores) -> ServiceTokens:
    return accounts.ServiceTokens(stores.redis)


@click.command(cls=Command)
@click.argument("url")
@json_flag
@settings_flags(*STORE_FLAGS, *FETCH_FLAGS, "host", "port", "base_url")
@click.pass_context
def doctor(context: click.Context, settings: Settings, url: str, as_json: bool) -> None:
    """Check a person's home page for sign-in and reading.

    URL is what the person enters in an app: their own web address. The page is read the way reader apps read it. The
    report says what was found, what is missing and how to correct it. Everything the page names (identity provider,
    Microsub endpoint, feed) is requested once, without any secret. A finding that concerns only some apps names them.
    If there is a server's data, the page is also compared with its users. Exit code 1 if something must be corrected.

    Example: microsub doctor alice.example --base-url https://reader.example
    """
    report = run(server.commands.examine(settings, url))
    print_report(report, as_json=as_json)
    if not report.is_complete:
        context.exit(FAILED)
