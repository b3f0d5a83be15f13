"""`microsub backup`, `restore`, `check` and `pack`: backups, checks of the invariants, and packing of posts."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from microsub import server
from microsub.base.errors import MicrosubError
from microsub.base.settings import Settings, mask_password
from microsub.cli.groups import Command
from microsub.cli.options import (
    FAILED,
    STORE_FLAGS,
    fail,
    json_flag,
    on_stores,
    print_json,
    print_report,
    run,
    say,
    settings_flags,
)

if TYPE_CHECKING:
    from microsub.admin import Facts
    from microsub.posts import RepackingReport
    from microsub.server.stores import Stores
    from microsub.timelines import TimelineRepacking


@click.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path))
@settings_flags(*STORE_FLAGS)
def backup(settings: Settings, file: Path) -> None:
    """Save all data and backend.json in one FILE.

    The archive contains the embedded engine's data, backend.json and its saved versions. Only the archive's owner
    can read it, because its contents give access to accounts. The server can keep running.

    Example: microsub backup "microsub-$(date +%F).tar.gz"
    """
    from microsub.admin import save

    _require_embedded(settings)
    try:
        facts = save(settings.data_dir, settings.backend, file, settings.redis_server)
    except MicrosubError as error:
        fail(str(error))
    say(f"saved {settings.data_dir.absolute()} and {settings.backend.absolute()} in {file} ({_said(facts)})")


@click.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path))
@settings_flags(*STORE_FLAGS)
def restore(settings: Settings, file: Path) -> None:
    """Restore all data and backend.json from a backup FILE.

    Nothing is overwritten: if there is data or a backend.json already, the command says what to move away. The
    installed engine must be able to read what the one that made the backup has written.

    Example: microsub restore microsub-2026-01-31.tar.gz
    """
    from microsub.admin import restore as restore_
    from microsub.redis.migrations import require_layout

    _require_embedded(settings)
    try:
        facts = restore_(file, settings.data_dir, settings.backend, require_layout, settings.redis_server)
    except MicrosubError as error:
        fail(str(error))
    say(f"restored {settings.data_dir.absolute()} and {settings.backend.absolute()} ({_said(facts)})")
    say("now start the server; to check the data, run `microsub check`")


def _require_embedded(settings: Settings) -> None:
    if settings.redis_url is not None:
        fail(
            f"the data is in the Redis at {mask_password(settings.redis_url)}, not in an embedded one: use that Redis' "
            "tools, such as redis-cli --rdb FILE, and copy backend.json; see the how-to “Back up”"
        )


def _said(facts: Facts) -> str:
    made = datetime.fromtimestamp(facts.made, UTC).isoformat(timespec="seconds")
    return f"made {made}, version {facts.microsub}, {facts.engine}"


@click.command(cls=Command)
@click.option("--repair", is_flag=True, help="Repair what was found.")
@json_flag
@on_stores()
async def check(settings: Settings, stores: Stores, repair: bool, as_json: bool) -> None:
    """Check all data in Redis for errors, and repair them.

    Checks users, channels, timelines, items, feeds, the schedule and every key. The server can keep running; an error
    is reported only if two more looks confirm it. Nothing is changed without --repair. A repair loses nothing that a
    user can see; in doubt, an item becomes read, not unread. Exit code 1 if errors were found (with --repair: if any
    are left).
    """
    report = await server.jobs.check_store(stores, repair=repair)
    print_report(report, as_json=as_json)
    if not report.is_clean:
        sys.exit(FAILED)


@click.command(cls=Command)
@click.option("--dry-run", is_flag=True, help="Only print what would be packed. Nothing is changed or migrated.")
@json_flag
@settings_flags(*STORE_FLAGS)
def pack(settings: Settings, dry_run: bool, as_json: bool) -> None:
    """Pack the posts and timelines of an earlier version now.

    Packed posts take a third of the memory, and the ids of posts that have left a timeline a twentieth; orders of
    arrival that nothing needs are deleted. New ones are
    packed when they are stored, and workers pack those that an earlier version stored, with pauses: this command does
    it now and prints the result. A server of this version can keep running. With --dry-run the data may still be that
    of the earlier version, and stays so; of many posts, some are looked at.

    Example: microsub pack --dry-run
    """
    from microsub.redis.migrations import FIRST, VERSION
    from microsub.server.stores import open_stores

    async def work() -> tuple[RepackingReport, TimelineRepacking]:
        async with open_stores(settings, writes=False, oldest=FIRST if dry_run else VERSION) as stores:
            posts, timelines = server.jobs.repacking(stores), server.jobs.gone_repacking(stores)
            if dry_run:
                return await posts.foresee(), await timelines.foresee()
            return await posts.run(), await timelines.run()

    posts, timelines = run(work())
    if as_json:
        print_json({**posts.as_dict(), "timelines": timelines.as_dict()})
    else:
        say(f"{posts.as_text()}\n{timelines.as_text()}")
