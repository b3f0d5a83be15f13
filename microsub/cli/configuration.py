"""`microsub config`: look at backend.json before the server does, and bring an old file up to date."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from microsub import wiring
from microsub.cli.groups import Group
from microsub.cli.options import FAILED, counted, fail, print_json, settings_flags
from microsub.cli.terminal import say
from microsub.errors import MicrosubError
from microsub.settings import Settings

if TYPE_CHECKING:
    from microsub.configuration.document import BackendReport


@click.group(cls=Group)
def config() -> None:
    """Check and upgrade backend.json."""


@config.command("check")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_flags("backend", "data_dir", "redis_url")
@click.pass_context
def check(context: click.Context, settings: Settings, file: Path | None, as_json: bool) -> None:
    """Check a backend.json before the server reads it.

    FILE is by default the one that the server reads. Every problem names the file, the place in it, what stands
    there, and what was expected. Where there is data of a server, its users are compared too: somebody who
    registered may have the URL of a user in FILE. Exit code 1 when there is a problem.
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
    """The report, and what the users that there are have against the document."""
    if report.document is None:
        return report
    import asyncio

    try:
        problems = asyncio.run(wiring.backend.clashes(settings, report.document))
    except MicrosubError as error:
        return replace(report, warnings=(*report.warnings, f"not compared with the users that there are: {error}"))
    return replace(report, problems=problems, document=None) if problems else report


def _as_dict(report: BackendReport) -> dict[str, object]:
    problems = [
        {
            "path": problem.path,
            "line": problem.line,
            "column": problem.column,
            "found": problem.found,
            "expected": problem.expected,
        }
        for problem in report.problems
    ]
    return {"file": report.file, "ok": report.ok, "problems": problems, "warnings": list(report.warnings)}


def _print_report(report: BackendReport) -> None:
    _print_findings(report)
    if report.document is None:
        return
    users = report.document.backend.users
    channels = [channel for user in users.values() for channel in user.channels]
    feeds = {feed.url for channel in channels for feed in channel.feeds}
    counts = (counted(len(users), "user"), counted(len(channels), "channel"), counted(len(feeds), "feed"))
    say(f"{report.file}: good; {', '.join(counts)}")
    if report.document.legacy:
        say("It has the old single-user form, which works as it is; `microsub config upgrade` writes today's form.")


def _print_findings(report: BackendReport) -> None:
    for problem in report.problems:
        say(f"error    {problem}", err=True)
    for warning in report.warnings:
        say(f"warning  {warning}", err=True)


@config.command("upgrade")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--in-place", is_flag=True, help="Replace the file; the old one stays beside it as FILE.old.")
@settings_flags("backend")
def upgrade(settings: Settings, file: Path | None, in_place: bool) -> None:
    """Print an old single-user backend.json in today's form.

    Nothing in `${…}` is expanded. Keys that are dropped, or work differently now, are named on standard error.

    Example: microsub config upgrade old.json > backend.json
    """
    from microsub.configuration import document
    from microsub.configuration import file as backend_file

    path = file or settings.backend
    report = document.check(path, os.environ)
    _print_findings(report)
    if report.document is None:
        fail(f"{path} can't be upgraded before this is corrected")
    text = json.dumps(report.document.raw, indent=2, ensure_ascii=False) + "\n"
    if not in_place:
        say(text, nl=False)
        return
    if not report.document.legacy:
        say(f"{path} has today's form already; nothing was changed")
        return
    try:
        old = backend_file.upgrade(path, text.encode())
    except FileExistsError:
        fail(f"nothing was changed: {path.name}.old, where the old file would be kept, exists; move it away first")
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from None
    say(f"{path} is upgraded; the old file is {old.name}")
