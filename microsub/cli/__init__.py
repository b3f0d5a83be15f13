"""The command `microsub`: its commands in sections, each with its module."""

from __future__ import annotations

import gc
import sys

import click

import microsub
from microsub.base.settings import SETTINGS
from microsub.cli.groups import COMMON, WIDTH, Sections

THRESHOLD = gc.get_threshold()
"""Python's default for garbage collection, which a server that runs for months needs."""

# Loading modules makes many objects and no garbage: collecting would take a tenth of the time of a short command.
gc.set_threshold(50_000)
# structlog and httpx load it if it is installed, though no command uses it. None makes Python refuse.
sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # documented, and unknown to the type

_SECTIONS = {
    "Run": {
        "serve": "microsub.cli.serving:serve",
        "web": "microsub.cli.serving:web",
        "work": "microsub.cli.serving:work",
        "demo": "microsub.cli.serving:demo",
    },
    "People": {
        "user": "microsub.cli.accounts:user",
        "token": "microsub.cli.accounts:token",
        "doctor": "microsub.cli.accounts:doctor",
        "opml": "microsub.cli.transfer:opml",
        "import": "microsub.cli.configuration:import_group",
        "output": "microsub.cli.outputs:output",
        "webmention": "microsub.cli.webmention:webmention",
        "source": "microsub.cli.sources:source",
    },
    "Feeds": {
        "feed": "microsub.cli.feeds:feed",
        "parse": "microsub.cli.feeds:parse",
        "fetch": "microsub.cli.feeds:fetch",
        "poll": "microsub.cli.feeds:poll",
        "post": "microsub.cli.feeds:post",
        "push": "microsub.cli.push:push",
    },
    "Look after": {
        "config": "microsub.cli.configuration:config",
        "check": "microsub.cli.upkeep:check",
        "backup": "microsub.cli.upkeep:backup",
        "restore": "microsub.cli.upkeep:restore",
        "cleanup": "microsub.cli.feeds:cleanup",
        "pack": "microsub.cli.upkeep:pack",
        "rebuild": "microsub.cli.pipeline:rebuild",
        "search": "microsub.cli.search:search",
        "deadletter": "microsub.cli.pipeline:deadletter",
    },
    "Develop": {
        "events": "microsub.cli.pipeline:events",
    },
}


@click.group(
    cls=Sections,
    sections=_SECTIONS,
    common=[(f"{one.flag} {one.placeholder}", one.described) for one in SETTINGS if one.name in COMMON],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH},
)
@click.version_option(microsub.__version__, prog_name="microsub")
def main() -> None:
    """A multi-user Microsub server: follows feeds, stores timelines in Redis, serves them to reader apps.

    `microsub COMMAND --help` explains a command. Options go after the command. Most can also be set by the
    environment variable in brackets.
    """
