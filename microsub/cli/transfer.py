"""`microsub opml`, `user export`, `user import`, `import starred` …: users' imports and exports."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from microsub import server
from microsub.base.plaintext import counted
from microsub.base.settings import Settings
from microsub.cli.groups import Command, Group
from microsub.cli.options import Report, fail, json_flag, on_stores, print_report, say

if TYPE_CHECKING:
    from microsub.server.stores import Stores


class _OfUserAndFile(Command):
    """A command with the arguments USER and FILE; an error points out if they are swapped."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See `click.Command`."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            if error.param is None or error.param.name != "file" or not any(Path(one).is_file() for one in given):
                raise
            names = [one.make_metavar(ctx) for one in self.params if isinstance(one, click.Argument)]
            raise click.UsageError(f"the order is {' '.join(names)}: {error.format_message()}", ctx) from None


@click.group(cls=Group)
def opml() -> None:
    """Import and export lists of feeds."""


@opml.command("import", cls=_OfUserAndFile)
@click.argument("user_name", metavar="USER")
@click.argument("file", type=click.File("rb"))
@click.option(
    "--channel", metavar="NAME", default="Home", show_default=True, help="Channel for feeds without a folder."
)
@click.option("--dry-run", is_flag=True, help="Only print what would be imported.")
@json_flag
@on_stores("allow_private_networks")
async def opml_import(
    settings: Settings, stores: Stores, user_name: str, file: BinaryIO, channel: str, dry_run: bool, as_json: bool
) -> None:
    """Follow the feeds of a list (OPML or RDF) for USER.

    Folders become channels; an existing channel of that name is used. Existing follows stay unchanged, so a list can be
    imported again. The import sends no requests: a running server polls the new feeds afterwards. Whatever can't be
    imported is listed with its line. FILE can be - for standard input.

    Example: microsub opml import alice feedly.opml --dry-run
    """
    from microsub.parsing.pool import ParsePool
    from microsub.server.parsers import TASKS
    from microsub.transfer import MOST_BYTES, adapted

    await server.backend.require_user(settings, stores, user_name, enabled=True)
    parser = ParsePool(TASKS)
    try:
        report = await server.stores.feed_lists(settings, stores, parser).import_list(
            user_name,
            file.read(MOST_BYTES + 1),
            time.time(),
            dry_run=dry_run,
            loose=adapted(channel),
            progress=_Progress("feeds"),
        )
    finally:
        parser.close()
    await conclude(settings, stores, report, user_name, dry_run=dry_run, as_json=as_json)


class _Progress:
    """Prints the progress of an import after every thousand of `what`."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._said = 0

    def __call__(self, done: int, count: int) -> None:
        if done // 1000 > self._said:
            self._said = done // 1000
            say(f"{done} of {count} {self._what}", err=True)


async def conclude(
    settings: Settings, stores: Stores, report: Report, user: str = "", *, dry_run: bool, as_json: bool
) -> None:
    """Write an import's changes back to backend.json, if enabled, and print its report.

    If there is one `user`, the quotas that the user exceeds now are printed too.
    """
    if not dry_run:
        await server.backend.write_back(settings, stores)
    print_report(report, as_json=as_json)
    for line in await server.commands.beyond_quotas(stores, user) if user and not dry_run else ():
        say(line, err=True)


@opml.command("export")
@click.argument("user_name", metavar="USER")
@on_stores("allow_private_networks")
async def opml_export(settings: Settings, stores: Stores, user_name: str) -> None:
    """Print the channels of USER and their follows as OPML.

    The list also has the channels' settings and your names for feeds, which an import here restores. It contains the
    feeds' full addresses, including passwords and keys.

    Example: microsub opml export alice > alice.opml
    """
    from microsub.parsing.pool import ParsePool
    from microsub.server.parsers import TASKS

    await server.backend.require_user(settings, stores, user_name)
    lists = server.stores.feed_lists(settings, stores, ParsePool(TASKS))
    say((await lists.export(user_name, time.time(), masked=False)).decode(), nl=False)


@click.command("export", cls=Command)
@click.argument("user_name", metavar="USER")
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@on_stores()
async def user_export(settings: Settings, stores: Stores, user_name: str, file: Path | None) -> None:
    """Write everything of USER to FILE, or print it, as JSON lines.

    The export has channels with settings and rules, follows, posts with read and saved state, and which posts must not
    come back. It contains passwords and keys in addresses of feeds, but no tokens, passwords or sessions of USER. Use
    `microsub user import` to read it, here or on another server.

    Example: microsub user export alice alice.jsonl
    """
    await server.backend.require_user(settings, stores, user_name)
    found = await stores.accounts.user(user_name)
    if found is None:
        fail(f"there is no user '{user_name}'")
    lines = server.stores.user_export(stores).lines(found, await stores.applied.name_instance(), time.time())
    if file is None:
        async for line in lines:
            say(line.decode(), nl=False)
        return
    count = 0
    try:
        with _replaced(file) as target:
            async for line in lines:
                target.write(line)
                count += 1
    except OSError as error:
        fail(f"{file}: {(error.strerror or str(error)).lower()}")
    say(f"wrote {counted(count, 'line')} to {file}")


@click.command("import", cls=_OfUserAndFile)
@click.argument("user_name", metavar="USER")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only print what would be imported.")
@click.option("--trusted", is_flag=True, help="Share the file's posts with all who follow their feeds.")
@json_flag
@on_stores()
async def user_import(
    settings: Settings, stores: Stores, user_name: str, file: Path, dry_run: bool, trusted: bool, as_json: bool
) -> None:
    """Import a file of `microsub user export` for USER.

    USER is created if missing, with the exported URL. Existing data stays unchanged. Importing again creates no
    duplicates, and finishes an interrupted import. A file that is truncated or corrupt is refused with the number of
    the line, and nothing is changed.

    A file can be edited, so only USER gets its posts that aren't stored here yet. If their feeds list them later, USER
    has them once, with their read state. Use --trusted only for a file that nobody could edit, such as your own backup:
    its posts become posts of their feeds, which all followers get.

    Example: microsub user import alice alice.jsonl --dry-run
    """
    with file.open("rb") as source:
        report = await server.commands.import_user(
            stores, user_name, source, _Progress("lines"), dry_run=dry_run, trusted=trusted
        )
    await conclude(settings, stores, report, user_name, dry_run=dry_run, as_json=as_json)


def _import_from(kind: str, *, has_lists: bool) -> Callable[[Callable[..., None]], click.Command]:
    """A command that imports a file of the reader `kind`; the function only provides its help."""

    def decorate(described: Callable[..., None]) -> click.Command:
        async def run(
            settings: Settings,
            stores: Stores,
            file: Path,
            user_name: str,
            dry_run: bool,
            as_json: bool,
            unread_too: bool = False,
        ) -> None:
            await server.backend.require_user(settings, stores, user_name, enabled=True)
            report = await server.commands.import_from_reader(
                settings, stores, user_name, kind, file, unread_too=unread_too, dry_run=dry_run
            )
            await conclude(settings, stores, report, user_name, dry_run=dry_run, as_json=as_json)

        run.__doc__ = described.__doc__
        command = on_stores("allow_private_networks")(run)
        options = [
            click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path)),
            click.argument("user_name", metavar="USER"),
            click.option("--dry-run", is_flag=True, help="Only print what would be imported."),
            json_flag,
        ]
        if has_lists:
            text = "Also mark posts as unread here if they are unread there."
            options.append(click.option("--unread", "unread_too", is_flag=True, help=text))
        for option in options[::-1]:
            command = option(command)
        return click.command(kind, cls=_OfUserAndFile)(command)

    return decorate


@_import_from("starred", has_lists=False)
def import_starred() -> None:
    """Import starred posts from Google Reader or Inoreader for USER.

    FILE is the starred.json of Google Takeout or of Inoreader. Its posts are saved with their text in the channel
    `saved`. If a post is already here from its feed, that one is saved. Importing again creates no duplicates, and
    posts that were removed from `saved` here stay removed.

    Example: microsub import starred starred.json alice --dry-run
    """


@_import_from("miniflux", has_lists=True)
def import_miniflux() -> None:
    """Import feeds, starred posts and read state from Miniflux.

    FILE is its OPML export, or the response of GET /v1/entries of its API. Import the OPML first, and the entries after
    the server has polled the feeds. Starred entries are saved. Posts that are already here are marked as read if they
    are read there.

    Example: microsub import miniflux entries.json alice
    """


@_import_from("freshrss", has_lists=True)
def import_freshrss() -> None:
    """Import feeds, favourites and read state from FreshRSS.

    FILE is its export, a zip with OPML and JSON, or one file from it. Favourites are saved. Posts that are already here
    are marked as read if they are read there. For feeds that are new here, import again after the server has polled
    them.

    Example: microsub import freshrss freshrss_alice_export.zip alice
    """


@contextlib.contextmanager
def _replaced(file: Path) -> Iterator[BinaryIO]:
    """A temporary file that replaces `file` when complete; only its owner can read it."""
    part = file.with_name(f"{file.name}.part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as target:
            yield target
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
