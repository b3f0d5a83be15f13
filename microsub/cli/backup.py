"""`microsub backup` and `microsub restore`: everything of a server in one file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from microsub.cli.groups import Command
from microsub.cli.options import STORE_FLAGS, fail, settings_flags
from microsub.cli.terminal import say
from microsub.errors import MicrosubError
from microsub.settings import Settings, mask_password

if TYPE_CHECKING:
    from microsub.backup import Facts


@click.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path))
@settings_flags(*STORE_FLAGS)
def backup(settings: Settings, file: Path) -> None:
    """Save all data and backend.json in one FILE.

    The archive holds a snapshot of the embedded Redis, backend.json and its kept versions. With it somebody could get
    into accounts, so only its owner can read it. The server may run meanwhile.

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
