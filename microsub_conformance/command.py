"""`microsub-conformance`: the suite as a command."""

from __future__ import annotations

import math
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from microsub_conformance.verdict import Result

_CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that could set colours or titles, or reverse the text after them; not ends of lines."""

EPILOG = """\b
Examples:
  microsub-conformance --endpoint http://127.0.0.1:8080/microsub --token "$TOKEN"
  microsub-conformance --endpoint … --token … --only paging --only 'reading.*'
  microsub-conformance --endpoint … --token … --source spec --format junit --output report.xml
  microsub-conformance --list
  microsub-conformance --greader https://reader.example/api/greader.php --user alice --password …

\b
Exit codes: 0 the server meets the specification, 1 a requirement of it is not met or
can't be judged, 2 the suite could not run. Requirements of apps and of the design of
microsub-server count only with --strict, or if --only or --source selects them; those of
the Google Reader API, which has no specification, count always.
"""


def _finite(context: click.Context, option: click.Parameter, value: float) -> float:
    if not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a number of seconds.", context, option)
    return value


@click.command(epilog=EPILOG)
@click.option("--endpoint", metavar="URL", help="The Microsub endpoint of the server under test.")
@click.option("--token", metavar="T", help="A token of the first user, with all scopes.")
@click.option("--greader", metavar="URL", help="Check the Google Reader API at this address instead, as apps have it.")
@click.option("--user", metavar="NAME", help="The user who signs in to the Google Reader API.")
@click.option("--password", metavar="PW", help="The password of that user for apps.")
@click.option("--second-token", metavar="T", help="A token of another user, to check that users are isolated.")
@click.option("--second-endpoint", metavar="URL", help="The other user's endpoint, if it is different.")
@click.option(
    "--read-token", metavar="T", help="A token of the first user with only the scope 'read', to check scopes."
)
@click.option("--user-endpoint", metavar="URL", help="The form of the endpoint that names the first user.")
@click.option(
    "--feed-host", metavar="HOST", default="127.0.0.1", show_default=True,
    help="Name or address of this machine, from which the server under test fetches the suite's feeds.",
)  # fmt: skip
@click.option(
    "--feed-port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    default=0,
    help="The port at the feed host; by default any free one.",
)
@click.option(
    "--feed-listen", metavar="HOST[:PORT]",
    help="Listen here instead, if a tunnel or proxy leads from the feed host's port to this address.",
)  # fmt: skip
@click.option(
    "--poll-command", metavar="COMMAND",
    help="A command that makes the server fetch a feed at once; {url} stands for the feed: 'microsub poll {url}'. "
    "Without it, checks of a second poll are skipped unless the server polls again within --patience.",
)  # fmt: skip
@click.option(
    "--patience",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    callback=_finite,
    default=60,
    show_default=True,
    help="How long to wait for the server.",
)
@click.option(
    "--only",
    metavar="PATTERN",
    multiple=True,
    help="Check only requirements with this id, pattern or chapter; repeatable.",
)
@click.option(
    "--source",
    metavar="SOURCE",
    multiple=True,
    help="Check only those from 'spec', 'client', 'client:NAME' or 'design'.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 also if a requirement of clients or of the design isn't met.")
@click.option("--must", "must_only", is_flag=True, help="Check only what a server must do, not what it should do.")
@click.option("--format", "form", type=click.Choice(["text", "json", "junit"]), default="text", show_default=True)
@click.option(
    "--output", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write the report here."
)
@click.option("--list", "list_only", is_flag=True, help="Print the requirements, and check nothing.")
def conformance(
    endpoint: str | None,
    token: str | None,
    greader: str | None,
    user: str | None,
    password: str | None,
    second_token: str | None,
    second_endpoint: str | None,
    read_token: str | None,
    user_endpoint: str | None,
    feed_host: str,
    feed_port: int,
    feed_listen: str | None,
    poll_command: str | None,
    patience: float,
    only: tuple[str, ...],
    source: tuple[str, ...],
    strict: bool,
    must_only: bool,
    form: str,
    output: Path | None,
    list_only: bool,
) -> None:
    """Check any Microsub server from outside, or any server of the Google Reader API.

    The suite publishes its own feeds, follows them in channels with unique names, and deletes these when it is done.
    Use a test account: a run that is killed leaves its channels behind.
    """
    from microsub_conformance import report
    from microsub_conformance.checks import NATIVE_REQUIREMENTS, REQUIREMENTS, pick
    from microsub_conformance.runner import CouldNotRun, Target, run

    requirements = pick(only, source, must_only, NATIVE_REQUIREMENTS if greader else REQUIREMENTS)
    if not requirements:
        raise click.UsageError("no requirement matches --only and --source")
    if list_only:
        _say(report.as_list(requirements))
        return
    address, secret = (greader, password) if greader else (endpoint, token)
    if not address or not secret or (greader and not user):
        raise click.UsageError("expected --endpoint and --token, or --greader, --user and --password")
    target = Target(
        endpoint=address,
        token=secret,
        user=user or "",
        second_endpoint=second_endpoint,
        second_token=second_token,
        read_token=read_token,
        user_endpoint=user_endpoint,
        listen=_listen(feed_listen, feed_host, feed_port),
        feed_host=feed_host,
        feed_port=feed_port or None,
        poll_command=tuple(shlex.split(poll_command or "")),
        patience=patience,
    )
    try:
        results = run(target, requirements, _tell)
    except CouldNotRun as problem:
        _say(f"microsub-conformance: {problem}", err=True)
        sys.exit(2)
    text = {"text": report.as_text, "json": report.as_json, "junit": report.as_junit}[form](address, results)
    if output:
        output.write_text(text, encoding="utf-8")
        _say(", ".join(f"{count} {verdict}" for verdict, count in report.counts(results).items() if count))
    else:
        _say(text, nl=False)
    sys.exit(report.exit_code(results, spec_only=not (greader or strict or only or source)))


def _listen(feed_listen: str | None, feed_host: str, feed_port: int) -> tuple[str, int]:
    """The address for publishing: the feed host if that is a loopback address, otherwise all interfaces."""
    if feed_listen:
        host, _, port = feed_listen.partition(":")
        if port and not port.isdigit():
            raise click.BadParameter("expected HOST or HOST:PORT", param_hint="--feed-listen")
        return host, int(port or feed_port)
    local = feed_host == "localhost" or feed_host.startswith("127.")
    return (feed_host if local else "0.0.0.0"), feed_port  # noqa: S104 - another machine must reach it


def _tell(result: Result) -> None:
    """Show the verdict at once on a terminal."""
    from microsub_conformance import report

    if sys.stderr.isatty():
        _say(report.line(result), err=True)


def _say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print text that may come from the server under test, with control characters in Python's notation."""
    click.echo(_CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text), err=err, nl=nl)
