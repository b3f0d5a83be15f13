"""`microsub webmention`: who has mentioned a user's pages, and what becomes of that."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from microsub import wiring
from microsub.cli.groups import Group
from microsub.cli.options import as_instant, fail, json_flag, on_stores, print_json, say
from microsub.model.plaintext import escaped, on_one_line
from microsub.settings import Settings

if TYPE_CHECKING:
    from microsub.webmention.mention import Mention
    from microsub.webmention.store import Order
    from microsub.wiring.stores import Stores

_OVER = frozenset({"deleted", "rejected", "failed"})


@click.group(cls=Group)
def webmention() -> None:
    """List, approve, reject and delete webmentions of a user's pages.

    Name a webmention by its id, or by the beginning of it. A worker carries out within seconds what you order here.
    """


@webmention.command("list")
@click.argument("user")
@click.option("--all", "everything", is_flag=True, help="Also what was deleted or rejected, or has failed.")
@json_flag
@on_stores()
async def webmention_list(settings: Settings, stores: Stores, user: str, everything: bool, as_json: bool) -> None:
    """List the webmentions of USER, the latest first.

    Each has an id, a state and a kind, an author, a source and a target. The newest 2,000 are kept. States: new (the
    source hasn't been read yet), shown, held (waits for approval), rejected, withdrawn (to be deleted), deleted,
    failed.

    Example: microsub webmention list alice --all
    """
    from microsub.webmention.store import MentionStore

    await wiring.backend.require_user(settings, stores, user)
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
    """Let webmentions of USER come into `notifications`.

    Their sources are looked at once more; later updates of them need no approval.
    """
    await _order(settings, stores, user, ids, "approved")


@webmention.command("reject")
@click.argument("user")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@on_stores()
async def webmention_reject(settings: Settings, stores: Stores, user: str, ids: tuple[str, ...]) -> None:
    """Take webmentions of USER out of `notifications`, for good.

    The same source and target are dropped from now on; the sender isn't told.
    """
    await _order(settings, stores, user, ids, "rejected")


@webmention.command("delete")
@click.argument("user")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@on_stores()
async def webmention_delete(settings: Settings, stores: Stores, user: str, ids: tuple[str, ...]) -> None:
    """Delete webmentions of USER; sent again, they come back."""
    await _order(settings, stores, user, ids, "withdrawn")


async def _order(settings: Settings, stores: Stores, user: str, ids: tuple[str, ...], what: Order) -> None:
    from microsub.webmention.store import MentionStore

    await wiring.backend.require_user(settings, stores, user, enabled=True)
    store = MentionStore(stores.redis)
    known = [one.id for one in await store.all_of(user)]
    chosen = []
    for given in ids:
        matching = [one for one in known if one.startswith(given)]
        if len(matching) != 1:
            fail(f"{len(matching)} webmentions of {user} have an id that begins with '{escaped(given[:80])}'")
        chosen += matching
    for one in chosen:
        await store.order(user, one, what, time.time())
        say(f"{one}  {what}")


def _line(one: Mention) -> str:
    parts = [one.id, as_instant(one.received), one.state, one.kind, one.author, f"{one.source} -> {one.target}"]
    return escaped("  ".join(on_one_line(part) for part in (*parts, one.title, one.why) if part))
