"""`microsub opml`: lists of feeds, into a user's channels and out of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, BinaryIO

import click

from microsub import wiring
from microsub.cli.groups import Group
from microsub.cli.options import on_stores, print_json, say
from microsub.settings import Settings

if TYPE_CHECKING:
    from microsub.wiring.stores import Stores


@click.group(cls=Group)
def opml() -> None:
    """Import and export lists of feeds."""


@opml.command("import")
@click.argument("user_name", metavar="USER")
@click.argument("file", type=click.File("rb"))
@click.option("--channel", metavar="NAME", default="Home", show_default=True, help="Channel for feeds in no folder.")
@click.option("--dry-run", is_flag=True, help="Only say what would be imported.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@on_stores("allow_private_networks")
async def opml_import(
    settings: Settings, stores: Stores, user_name: str, file: BinaryIO, channel: str, dry_run: bool, as_json: bool
) -> None:
    """Follow for USER what a list of feeds names, OPML or RDF.

    Folders become channels; a channel of that name is filled. What is followed already stays as it is, so a list can
    be imported again. No publisher is asked meanwhile: a running server polls the new feeds afterwards. What can't be
    taken over is named with its line. FILE may be - for standard input.

    Example: microsub opml import alice feedly.opml --dry-run
    """
    from microsub.parsing.pool import ParsePool
    from microsub.transfer.feed_lists import adapted
    from microsub.transfer.outlines import MOST_BYTES

    await wiring.backend.require_user(settings, stores, user_name, enabled=True)
    parser = ParsePool()
    try:
        report = await wiring.stores.feed_lists(settings, stores, parser).import_list(
            user_name,
            file.read(MOST_BYTES + 1),
            time.time(),
            dry_run=dry_run,
            loose=adapted(channel),
            progress=_Progress(),
        )
    finally:
        parser.close()
    if not dry_run:
        await wiring.backend.configuration(settings, stores).write_back()
    if as_json:
        print_json(report.as_dict())
    else:
        say(report.as_text())


class _Progress:
    """Says how far an import is, at every thousandth feed."""

    def __init__(self) -> None:
        self._said = 0

    def __call__(self, done: int, count: int) -> None:
        if done // 1000 > self._said:
            self._said = done // 1000
            say(f"{done} of {count} feeds", err=True)


@opml.command("export")
@click.argument("user_name", metavar="USER")
@on_stores("allow_private_networks")
async def opml_export(settings: Settings, stores: Stores, user_name: str) -> None:
    """Print the channels of USER and what they follow as OPML.

    With own settings and names, which come back when the list is imported here. Passwords and keys in addresses are in
    it too.

    Example: microsub opml export alice > alice.opml
    """
    from microsub.parsing.pool import ParsePool

    await wiring.backend.require_user(settings, stores, user_name)
    lists = wiring.stores.feed_lists(settings, stores, ParsePool())
    say((await lists.export(user_name, time.time(), masked=False)).decode(), nl=False)
