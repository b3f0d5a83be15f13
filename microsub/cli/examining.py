"""`microsub doctor`: what somebody's page lacks for signing in and reading."""

from __future__ import annotations

import click

from microsub import wiring
from microsub.cli.groups import Command
from microsub.cli.options import FAILED, FETCH_FLAGS, STORE_FLAGS, print_json, run, settings_flags
from microsub.cli.terminal import say
from microsub.settings import Settings


@click.command(cls=Command)
@click.argument("url")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_flags(*STORE_FLAGS, *FETCH_FLAGS, "host", "port", "base_url")
@click.pass_context
def doctor(context: click.Context, settings: Settings, url: str, as_json: bool) -> None:
    """Check somebody's home page for sign-in and reading.

    URL is what a person enters in an app: their own web address. The page is read as reader apps read it, and the
    report says what is there, what is missing and how to correct it. Everything that the page names is asked once,
    without any secret: identity provider, Microsub endpoint, feed. A line that concerns certain apps only names
    them. With the data of a server the page is also compared with its users. Exit code 1 when something has to be
    corrected.

    Example: microsub doctor alice.example --base-url https://reader.example
    """
    report = run(wiring.examining.examine(settings, url))
    if as_json:
        print_json(report.as_dict())
    else:
        say(report.as_text())
    if not report.is_complete:
        context.exit(FAILED)
