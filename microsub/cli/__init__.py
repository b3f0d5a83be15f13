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
# structlog and httpx load these if they are installed, though no command uses them. None makes Python refuse.
for _unused in ("pygments", "rich"):
    sys.modules.setdefault(_unused, None)  # type: ignore[arg-type]  # documented, and unknown to the type

_SECTIONS = {
    "Run": {
        "serve": ("microsub.cli.serving:serve", "Run the whole server: web, worker and, if needed, Redis."),
        "web": ("microsub.cli.serving:web", "Run a web process for reader apps; `work` must run as well."),
        "work": ("microsub.cli.serving:work", "Run a worker, which polls feeds and cleans up."),
        "demo": ("microsub.cli.serving:demo", "Try the server with invented blogs; needs no internet."),
    },
    "People": {
        "user": ("microsub.cli.accounts:user", "List, add, invite, remove, export and import users."),
        "token": ("microsub.cli.accounts:token", "Create, list and revoke tokens for reader apps."),
        "doctor": ("microsub.cli.accounts:doctor", "Check a person's home page for sign-in and reading."),
        "opml": ("microsub.cli.transfer:opml", "Import and export lists of feeds."),
        "import": ("microsub.cli.configuration:import_group", "Import channels, feeds, posts and read state."),
        "output": ("microsub.cli.outputs:output", "Publish feeds of picked items, of a channel or of a search."),
        "webmention": (
            "microsub.cli.webmention:webmention",
            "List, approve, reject and delete webmentions of a user's pages.",
        ),
        "source": ("microsub.cli.sources:source", "Create, list and revoke sources, which post into a channel."),
    },
    "Feeds": {
        "feed": ("microsub.cli.feeds:feed", "List followed feeds, and change a user's settings for one."),
        "parse": ("microsub.cli.feeds:parse", "Print what the server reads from a feed or page, as JSON."),
        "fetch": ("microsub.cli.feeds:fetch", "Print the titles of feeds, fetched in parallel."),
        "poll": ("microsub.cli.feeds:poll", "Poll followed feeds now: the given ones, or all."),
        "post": ("microsub.cli.feeds:post", "Print the post with that ID as JSON."),
        "push": ("microsub.cli.push:push", "Show pushed feeds and the state of their WebSub hubs."),
    },
    "Look after": {
        "config": ("microsub.cli.configuration:config", "Check and upgrade backend.json."),
        "check": ("microsub.cli.upkeep:check", "Check all data in Redis for errors, and repair them."),
        "backup": ("microsub.cli.upkeep:backup", "Save all data and backend.json in one FILE."),
        "restore": ("microsub.cli.upkeep:restore", "Restore all data and backend.json from a backup FILE."),
        "cleanup": ("microsub.cli.feeds:cleanup", "Remove old items now, according to the settings."),
        "pack": ("microsub.cli.upkeep:pack", "Pack the posts and timelines of an earlier version now."),
        "rebuild": ("microsub.cli.pipeline:rebuild", "Refill timelines of USER from the stored posts."),
        "search": ("microsub.cli.search:search", "Show and rebuild this machine's index of posts."),
        "deadletter": ("microsub.cli.pipeline:deadletter", "List, retry or drop messages that no worker could handle."),
    },
    "Develop": {
        "conformance": (
            "microsub.cli.conformance:conformance",
            "Test a server of Microsub or of the Google Reader API.",
        ),
        "events": ("microsub.cli.pipeline:events", "Print changes of feeds and posts, for other programs."),
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
