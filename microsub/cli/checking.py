"""`microsub check`: whether everything in Redis is as it should be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from microsub import wiring
from microsub.cli.groups import Command
from microsub.cli.options import FAILED, STORE_FLAGS, print_json, run, settings_flags
from microsub.cli.terminal import say
from microsub.settings import Settings

if TYPE_CHECKING:
    from microsub.check.command import CheckReport


@click.command(cls=Command)
@click.option("--repair", is_flag=True, help="Repair what was found.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_flags(*STORE_FLAGS)
@click.pass_context
def check(context: click.Context, settings: Settings, repair: bool, as_json: bool) -> None:
    """Check all data in Redis for faults, and repair them.

    Users, channels, timelines, items, feeds, the schedule and every key. The server may run meanwhile; a finding counts
    when two further looks find it again. Nothing is changed without --repair. A repair loses nothing that a reader can
    see: in doubt an item is read rather than unread.
    Exit code 1 when something is wrong (and, with --repair, still is).
    """

    async def work() -> CheckReport:
        async with wiring.stores.open_stores(settings) as stores:
            return await wiring.upkeep.checking(stores).run(mend=repair)

    report = run(work())
    if as_json:
        print_json(report.as_dict())
    else:
        say(report.as_text())
    if not report.is_clean:
        context.exit(FAILED)
