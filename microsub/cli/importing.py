"""`microsub import`: taking over what a reader had on another server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from microsub import wiring
from microsub.cli.groups import Group
from microsub.cli.options import STORE_FLAGS, fail, print_json, run, settings_flags
from microsub.cli.terminal import say
from microsub.errors import ConfigError
from microsub.settings import Settings

if TYPE_CHECKING:
    from microsub.ekster.importing import OldFile
    from microsub.ekster.report import ImportReport

_TARGET = tuple(flag for flag in STORE_FLAGS if flag != "backend")


@click.group("import", cls=Group)
def import_group() -> None:
    """Import channels, feeds, posts and read state."""


@import_group.command("ekster")
@click.option(
    "--backend",
    "file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The backend.json of the older server.",
)
@click.option("--redis", "database", required=True, metavar="URL", help="Its Redis, such as redis://localhost:6379/0.")
@click.option("--user", required=True, metavar="NAME", help="User to import into; created if missing.")
@click.option("--dry-run", is_flag=True, help="Only say what would be imported.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_flags(*_TARGET)
def ekster(settings: Settings, file: Path, database: str, user: str, dry_run: bool, as_json: bool) -> None:
    """Import from ekster, the older Go server.

    Imports channels with their order, feeds, posts with their times, and read state, from its backend.json and its
    Redis. The old Redis is only read. Running it again imports what has come meanwhile; nothing is doubled, and
    posts that were read here stay read. Items that can't be used are named and left out.

    Example: microsub import ekster --backend old.json --redis redis://localhost:6379/0 --user alice --dry-run
    """

    from microsub.ekster.importing import read_old

    async def work(old: OldFile) -> ImportReport:
        async with wiring.stores.open_stores(settings, create=True) as stores:
            report = await wiring.upkeep.import_ekster(stores, old, database, user, dry_run=dry_run)
            if not dry_run:
                await wiring.backend.configuration(settings, stores).write_back()
            return report

    try:
        old = read_old(file.read_bytes(), str(file), os.environ)
    except ConfigError as error:
        fail(str(error))
    report = run(work(old))
    if as_json:
        print_json(report.as_dict())
    else:
        say(report.as_text())
