"""`microsub source`: sources, which post into channels by Micropub."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from microsub import server
from microsub.base.errors import NotFound
from microsub.base.plaintext import on_one_line
from microsub.base.settings import Settings
from microsub.cli.groups import Group
from microsub.cli.options import as_instant, json_flag, on_stores, print_json, say

if TYPE_CHECKING:
    from microsub.server.stores import Stores


@click.group(cls=Group)
def source() -> None:
    """Create, list and revoke sources, which post into a channel.

    A source is a script, a device or an app that posts to /micropub with a token of its own. It can't read anything.
    """


@source.command("create")
@click.argument("user")
@click.argument("channel")
@click.option("--name", default="Source", help="The name that apps show.")
@on_stores()
async def source_create(settings: Settings, stores: Stores, user: str, channel: str, name: str) -> None:
    """Create a source of USER, and print its token.

    It posts into the channel with the uid CHANNEL. Only the token is printed, and only this once, because the server
    stores only its hash.

    Example: TOKEN=$(microsub source create alice home --name Backups)
    """
    await server.backend.require_user(settings, stores, user, enabled=True)
    await server.backend.require_channel(stores, user, channel)
    sources, now = server.stores.sources(stores), time.time()
    made = await sources.create(user, channel, name, now)
    await server.backend.write_back(settings, stores)
    say(await sources.renew_token(user, made.id, now))


@source.command("list")
@click.argument("user")
@json_flag
@on_stores()
async def source_list(settings: Settings, stores: Stores, user: str, as_json: bool) -> None:
    """List the sources of USER.

    Shows their ids, channels and names, and the app of a source that an app was granted.
    """
    await server.backend.require_user(settings, stores, user)
    found = await server.stores.sources(stores).with_channels(user)
    if as_json:
        print_json(
            [
                {
                    "id": one.id,
                    "name": one.name,
                    "channel": channel,
                    "app": one.app or None,
                    "created": as_instant(one.created),
                }
                for one, channel in found
            ]
        )
        return
    for one, channel in found:
        app = f"  {on_one_line(one.app)}" if one.app else ""
        say(f"{one.id}  {channel or 'in no channel'}  {on_one_line(one.name)}{app}")
    if not found:
        say("no sources")


@source.command("token")
@click.argument("user")
@click.argument("source_id", metavar="ID")
@on_stores()
async def source_token(settings: Settings, stores: Stores, user: str, source_id: str) -> None:
    """Print a new token for the source ID; the old one is revoked.

    Use it if a token was lost, or for a source without one, which backend.json declares or an import created.
    """
    await server.backend.require_user(settings, stores, user, enabled=True)
    await _require(stores, user, source_id)
    say(await server.stores.sources(stores).renew_token(user, source_id, time.time()))


@source.command("revoke")
@click.argument("user")
@click.argument("source_id", metavar="ID")
@on_stores()
async def source_revoke(settings: Settings, stores: Stores, user: str, source_id: str) -> None:
    """Revoke the source ID of USER, with its token.

    Its posts stay in the channel until the source is unfollowed there, like any feed.
    """
    await server.backend.require_user(settings, stores, user)
    await _require(stores, user, source_id)
    await server.stores.sources(stores).revoke(user, source_id)
    await server.backend.write_back(settings, stores)
    say(f"source '{source_id}' revoked")


async def _require(stores: Stores, user: str, source_id: str) -> None:
    """Require a source. Raises NotFound, which says where ids are listed."""
    try:
        await server.stores.sources(stores).get(user, source_id)
    except NotFound as error:
        raise NotFound(f"{error}; see: microsub source list {user}") from None
