"""`microsub search`: the index of posts."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import click

from microsub import server
from microsub.base.plaintext import counted
from microsub.cli.groups import Group
from microsub.cli.options import SEARCH_FLAGS, as_instant, fail, json_flag, on_stores, print_json, say

if TYPE_CHECKING:
    from microsub.base.settings import Settings
    from microsub.search import IndexFigures
    from microsub.server.stores import Stores

_LOOK = 0.2
_MOST_COUNTED = 10_000


@click.group(cls=Group)
def search() -> None:
    """Show and rebuild this machine's index of posts."""


@search.command()
@on_stores(*SEARCH_FLAGS)
async def rebuild(settings: Settings, stores: Stores) -> None:
    """Rebuild the index of posts.

    This is rarely needed: the server automatically rebuilds an index that is lost, corrupt or out of date. Until the
    new index is ready, searches use the old one. If a server is running on this machine, it builds the index, and the
    command waits.

    Example: microsub search rebuild
    """
    _require_on(settings)
    began = time.monotonic()
    follower = server.jobs.follower(settings, stores)
    try:
        while not await follower.build():
            if await _asked_for(settings):
                break
    except OSError as error:
        fail(f"can't write the index in {settings.index}: {error.strerror}")
    figures = await _figures(settings)
    say(f"built: {counted(figures.posts, 'post')} in {time.monotonic() - began:.1f} s, {settings.index}")


async def _asked_for(settings: Settings) -> bool:
    """Ask the writer process to rebuild, and wait; False if it ended before it was done."""
    from microsub.search import IndexFolder

    folder = IndexFolder(settings.index)
    folder.ask_for_rebuild()
    while folder.has_wish():
        if not folder.has_writer():
            return False
        await asyncio.sleep(_LOOK)
    return True


@search.command()
@json_flag
@on_stores(*SEARCH_FLAGS)
async def status(settings: Settings, stores: Stores, as_json: bool) -> None:
    """Show the state of the index of posts.

    Prints its size, how many posts it has, how many changes it is behind, and when it was built.
    """
    from microsub.feeds import Events

    _require_on(settings)
    figures = await _figures(settings)
    behind = None
    if figures.usable:
        behind = len(await Events(stores.redis).since(figures.cursor, _MOST_COUNTED))
    if as_json:
        times = {"built": as_instant(figures.built), "written": as_instant(figures.written)}
        found = {**figures.as_dict(), **times, "behind": behind, "folder": str(settings.index)}
        print_json({name: value for name, value in found.items() if value is not None})
        return
    say(_described(figures, behind, settings))


def _described(figures: IndexFigures, behind: int | None, settings: Settings) -> str:
    writer = "a process on this machine updates it" if figures.followed else "no process updates it"
    lines = [f"folder   {settings.index} ({figures.bytes / 1e6:.1f} MB)"]
    if not figures.usable:
        lines.append("posts    none: no readable index; the next worker builds one, or run `microsub search rebuild`")
    else:
        changes = "10,000 changes or more" if behind == _MOST_COUNTED else counted(behind or 0, "change")
        lines += [
            f"posts    {figures.posts:,}",
            f"behind   {changes}; {writer}",
            f"built    {as_instant(figures.built)}, in {figures.took or 0:.1f} s",
        ]
    return "\n".join(lines)


async def _figures(settings: Settings) -> IndexFigures:
    from microsub.search import IndexFolder, IndexReader

    reader = IndexReader(IndexFolder(settings.index))
    try:
        return await reader.figures()
    finally:
        reader.close()


def _require_on(settings: Settings) -> None:
    if not server.jobs.can_search(settings):
        fail("posts can't be searched here: MICROSUB_SEARCH is off, or this Python's SQLite has no FTS5")
