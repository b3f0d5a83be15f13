"""`microsub webmention`: webmentions of a user's pages, and their moderation."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from microsub import server
from microsub.base.plaintext import escaped, on_one_line
from microsub.base.settings import Settings
from microsub.cli.groups import Group
from microsub.cli.options import as_instant, fail, json_flag, on_stores, print_json, say

if TYPE_CHECKING:
    from microsub.server.stores import Stores
    from microsub.webmention import Mention, Order

_OVER = frozenset({"deleted", "rejected", "failed"})


@click.group(cls=Group)
def webmention() -> None:
    """List, approve, reject and delete webmentions of a user's pages.

    Give a webmention's id, or the beginning of it. A worker carries out these commands within seconds.
    """


@webmention.command("list")
@click.argument("user")
@click.option("--all", "everything", is_flag=True, help="Also list deleted, rejected and failed ones.")
@json_flag
@on_stores()
async def webmention_list(settings: Settings, stores: Stores, user: str, everything: bool, as_json: bool) -> None:
    """List the webmentions of USER, newest first.

    Each has an id, a state, a kind, an author, a source and a target. The newest 2,000 are kept. States: new (the
    source hasn't been read yet), shown, held (waiting for approval), rejected, withdrawn (about to be deleted),
    deleted, failed.

    Example: microsub webmention list alice --all
    """
    from microsub.webmention import MentionStore

    await server.backend.require_user(settings, stores, user)
    found = [one for one in await MentionStore(stores.redis).all_of(user) if everything or one.state not in _OVER]
    if as_json:
        print_json([{"id": one.id, **asdict(one)} for one in found])
        return
    for one in found:
        say(_line(one))
    if not found:
        say("no webmentions", err=True)


@webmention.command("approve")
@click.argument("user")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@on_stores()
async def webmention_approve(settings: Settings, stores: Stores, user: str, ids: tuple[str, ...]) -> None:
    """Approve webmentions of USER for `notifications`.

    Their sources are fetched again; later updates need no approval.
    """
    await _order(settings, stores, user, ids, "approved")


@webmention.command("reject")
@click.argument("user")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@on_stores()
async def webmention_reject(settings: Settings, stores: Stores, user: str, ids: tuple[str, ...]) -> None:
    """Remove webmentions of USER from `notifications` permanently.

    From now on, webmentions with the same source and target are dropped; the sender isn't notified.
    """
    await _order(settings, stores, user, ids, "rejected")


@webmention.command("delete")
@click.argument("user")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@on_stores()
async def webmention_delete(settings: Settings, stores: Stores, user: str, ids: tuple[str, ...]) -> None:
    """Delete webmentions of USER; they return if sent again."""
    await _order(settings, stores, user, ids, "withdrawn")


async def _order(settings: Settings, stores: Stores, user: str, ids: tuple[str, ...], what: Order) -> None:
    from microsub.webmention import MentionStore

    await server.backend.require_user(settings, stores, user, enabled=True)
    store = MentionStore(stores.redis)
    known = [one.id for one in await store.all_of(user)]
    chosen = []
    for given in ids:
        matching = [one for one in known if one.startswith(given)]
        if len(matching) != 1:
            found = f"{len(matching)} webmentions of {user} have an id that begins with '{escaped(given[:80])}'"
            fail(f"{found}, expected exactly one")
        chosen += matching
    for one in chosen:
        await store.order(user, one, what, time.time())
        say(f"{one}  {what}")


def _line(one: Mention) -> str:
    parts = [one.id, as_instant(one.received), one.state, one.kind, one.author, f"{one.source} -> {one.target}"]
    return escaped("  ".join(on_one_line(part) for part in (*parts, one.title, one.why) if part))
