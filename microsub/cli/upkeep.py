"""`microsub backup`, `restore` and `check`: all data in one file, and its invariants."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from microsub import wiring
from microsub.cli.groups import Command
from microsub.cli.options import (
    FAILED,
    STORE_FLAGS,
    fail,
    json_flag,
    on_stores,
    print_report,
    say,
    settings_flags,
)
from microsub.errors import MicrosubError
from microsub.settings import Settings, mask_password

if TYPE_CHECKING:
    from microsub.backup import Facts
    from microsub.wiring.stores import Stores


@click.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path))
@settings_flags(*STORE_FLAGS)
def backup(settings: Settings, file: Path) -> None:
    """Save all data and backend.json in one FILE.

    The archive holds a snapshot of the embedded Redis, backend.json and its kept versions. Only its owner can read the
    archive, because what it holds opens accounts. The server may run meanwhile.

    Example: microsub backup "microsub-$(date +%F).tar.gz"
    """
    from microsub.backup import save

    _require_embedded(settings)
    try:
        facts = save(settings.data_dir, settings.backend, file)
    except MicrosubError as error:
        fail(str(error))
    say(f"saved {settings.data_dir.absolute()} and {settings.backend.absolute()} in {file} ({_said(facts)})")


@click.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path))
@settings_flags(*STORE_FLAGS)
def restore(settings: Settings, file: Path) -> None:
    """Restore all data and backend.json from a backup FILE.

    Nothing is overwritten: where there is data or a backend.json already, the command says what to move away. The Redis
    at hand must be as new as the one that the backup was made with, or newer.

    Example: microsub restore microsub-2026-01-31.tar.gz
    """
    from microsub.backup import restore as restore_

    _require_embedded(settings)
    try:
        facts = restore_(file, settings.data_dir, settings.backend)
    except MicrosubError as error:
        fail(str(error))
    say(f"restored {settings.data_dir.absolute()} and {settings.backend.absolute()} ({_said(facts)})")
    say("now start the server; `microsub check` examines the data")


def _require_embedded(settings: Settings) -> None:
    if settings.redis_url is not None:
        fail(
            f"the data is in the Redis at {mask_password(settings.redis_url)}, which isn't the server's own: use the "
            "tools of that Redis, such as redis-cli --rdb FILE, and copy backend.json (see docs/how-to/back-up.md)"
        )


def _said(facts: Facts) -> str:
    made = datetime.fromtimestamp(facts.made, UTC).isoformat(timespec="seconds")
    return f"made {made}, version {facts.microsub}, Redis {facts.redis}"


@click.command(cls=Command)
@click.option("--repair", is_flag=True, help="Repair what was found.")
@json_flag
@on_stores()
async def check(settings: Settings, stores: Stores, repair: bool, as_json: bool) -> None:
    """Check all data in Redis for faults, and repair them.

    It examines users, channels, timelines, items, feeds, the schedule and every key. The server may run meanwhile; a
    finding counts when two further looks find it again. Nothing is changed without --repair. A repair loses nothing
    that a reader can see: in doubt an item is read rather than unread. Exit code 1 when something is wrong (and, with
    --repair, still is).
    """
    report = await wiring.worker.checking(stores).run(repair=repair)
    print_report(report, as_json=as_json)
    if not report.is_clean:
        sys.exit(FAILED)
