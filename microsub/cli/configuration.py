"""`microsub config` and `microsub import`: check backend.json, and import data."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from microsub import server
from microsub.base.errors import ConfigError, MicrosubError
from microsub.base.plaintext import counted
from microsub.base.settings import Settings
from microsub.cli.groups import Group
from microsub.cli.options import (
    FAILED,
    STORE_FLAGS,
    fail,
    json_flag,
    print_json,
    run,
    say,
    settings_flags,
)
from microsub.cli.transfer import conclude, import_freshrss, import_miniflux, import_starred
from microsub.redis.embedded.datafolder import has_data, has_own_data

if TYPE_CHECKING:
    from microsub.configuration.document import BackendReport
    from microsub.transfer import OldFile


@click.group(cls=Group)
def config() -> None:
    """Check and upgrade backend.json."""


@config.command("check")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@json_flag
@settings_flags("backend", "data_dir", "redis_url")
@click.pass_context
def check(context: click.Context, settings: Settings, file: Path | None, as_json: bool) -> None:
    """Check a backend.json before the server reads it.

    By default, FILE is the one that the server reads. Every problem is reported with the file, the place in it, what
    was found there and what was expected. If there is a server's data, FILE is also compared with its users, because
    somebody may have registered with the URL of a user in FILE. Exit code 1 if there is a problem.
    """
    from microsub.configuration import document

    report = _beside_the_accounts(document.check(file or settings.backend, os.environ), settings)
    if as_json:
        print_json(_as_dict(report))
    else:
        _print_report(report)
    if not report.ok:
        context.exit(FAILED)


def _beside_the_accounts(report: BackendReport, settings: Settings) -> BackendReport:
    """The report, with conflicts between the document and existing users added."""
    if report.document is None:
        return report
    import asyncio

    from microsub.configuration.document import alone_channelless

    try:
        # Another system user's data is ignored: starting its embedded Redis would leave our files there.
        if settings.embedded and not has_own_data(settings.data_dir):
            problems = alone_channelless(report.document)
        else:
            problems = asyncio.run(server.backend.clashes(settings, report.document))
    except MicrosubError as error:
        return replace(report, warnings=(*report.warnings, f"not compared with the existing users: {error}"))
    return replace(report, problems=problems, document=None) if problems else report


def _as_dict(report: BackendReport) -> dict[str, object]:
    names = ("path", "line", "column", "found", "expected")
    problems = [{name: getattr(problem, name) for name in names} for problem in report.problems]
    return {"file": report.file, "ok": report.ok, "problems": problems, "warnings": list(report.warnings)}


def _print_report(report: BackendReport) -> None:
    _print_findings(report)
    if report.document is None:
        return
    users = report.document.backend.users
    channels = [channel for user in users.values() for channel in user.channels]
    feeds = {feed.url for channel in channels for feed in channel.feeds}
    counts = (counted(len(users), "user"), counted(len(channels), "channel"), counted(len(feeds), "feed"))
    say(f"{report.file}: valid; {', '.join(counts)}")
    if report.document.legacy:
        say("It has the old single-user form, which still works. `microsub config upgrade` writes the current form.")


def _print_findings(report: BackendReport) -> None:
    for problem in report.problems:
        say(f"error    {problem}", err=True)
    for warning in report.warnings:
        say(f"warning  {warning}", err=True)


@config.command("upgrade")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--in-place", is_flag=True, help="Replace the file; the old one is kept as FILE.old.")
@settings_flags("backend")
def upgrade(settings: Settings, file: Path | None, in_place: bool) -> None:
    """Print an old single-user backend.json in the current form.

    `${…}` isn't expanded. Keys that are dropped or work differently now are listed on standard error.

    Example: microsub config upgrade old.json > backend.json
    """
    from microsub.backend_file import file as backend_file
    from microsub.configuration import document

    path = file or settings.backend
    report = document.check(path, os.environ)
    _print_findings(report)
    if report.document is None:
        fail(f"can't upgrade {path}: correct these errors first")
    text = json.dumps(report.document.raw, indent=2, ensure_ascii=False) + "\n"
    if not in_place:
        say(text, nl=False)
        return
    if not report.document.legacy:
        say(f"{path} already has the current form; nothing was changed")
        return
    try:
        old = backend_file.upgrade(path, text.encode())
    except FileExistsError:
        fail(f"nothing was changed: {path.name}.old already exists, so the old file can't be kept; move it away first")
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from None
    say(f"{path} is upgraded; the old file is {old.name}")


@contextlib.asynccontextmanager
async def _kept(settings: Settings, *, dry_run: bool) -> AsyncIterator[Settings]:
    """The settings; in a dry run without data, those of a data folder that is removed at the end."""
    if not (dry_run and settings.embedded) or has_data(settings.data_dir):
        yield settings
        return
    with tempfile.TemporaryDirectory(prefix="microsub-") as folder:
        yield replace(settings, data_dir=Path(folder) / "data")


_TARGET = tuple(flag for flag in STORE_FLAGS if flag != "backend")


@click.group("import", cls=Group)
def import_group() -> None:
    """Import channels, feeds, posts and read state."""


for one in (import_starred, import_miniflux, import_freshrss):
    import_group.add_command(one)


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
@click.option("--dry-run", is_flag=True, help="Only print what would be imported.")
@json_flag
@settings_flags(*_TARGET)
def ekster(settings: Settings, file: Path, database: str, user: str, dry_run: bool, as_json: bool) -> None:
    """Import from ekster, the older Go server.

    Imports channels in their order, feeds, posts with their times, and read state, from its backend.json and its Redis.
    The old Redis is only read. If you run it again, it imports only what is new; posts that were read here stay read.
    Items that can't be imported are listed and skipped.

    Example: microsub import ekster --backend old.json --redis redis://localhost:6379/0 --user alice --dry-run
    """

    from microsub.transfer import read_old

    async def work(old: OldFile) -> None:
        async with (
            _kept(settings, dry_run=dry_run) as kept,
            server.stores.open_stores(kept, create=True, writes=not dry_run) as stores,
        ):
            report = await server.commands.import_ekster(stores, old, database, user, dry_run=dry_run)
            await conclude(settings, stores, report, dry_run=dry_run, as_json=as_json)

    try:
        old = read_old(file.read_bytes(), str(file), os.environ)
    except ConfigError as error:
        fail(str(error))
    run(work(old))
