"""Use cases of commands that read foreign documents: imports, and the check of a page."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from microsub.accounts import resolved
from microsub.base.errors import NotFound
from microsub.base.settings import Settings
from microsub.identity import CheckedAgainst, PageDoctor, PageReport, profile_page
from microsub.model.reader import BUILT_IN
from microsub.parsing.pool import ParsePool
from microsub.posts import Imported
from microsub.server.backend import applier
from microsub.server.fetching import open_fetcher
from microsub.server.jobs import post_bytes
from microsub.server.parsers import TASKS
from microsub.server.stores import Stores, feed_lists, following, open_stores, sources
from microsub.timelines import SAVED_POSTS, ChannelDisplays, count_saved
from microsub.transfer import BroughtReport, Importing, ImportReport, OldFile, OtherReaders, UserImport, open_old


async def examine(settings: Settings, address: str) -> PageReport:
    """The check of the page at `address`, compared with the server's users.

    Raises InvalidRequest, and what `open_stores` raises for unusable data.
    """
    here, stores = CheckedAgainst(settings.base_url), None
    async with contextlib.AsyncExitStack() as stack:
        with contextlib.suppress(NotFound):
            stores = await stack.enter_async_context(open_stores(settings))
            users = [user for user in await stores.accounts.users() if user.disabled is None]
            known = {user.name: user.me or profile_page(settings.public_url, user.name) for user in users}
            here = CheckedAgainst(settings.public_url, known, everybody=True)
        parser = ParsePool(TASKS)
        stack.callback(parser.close)
        fetcher = await stack.enter_async_context(open_fetcher(settings, stores))
        doctor = PageDoctor(fetcher, parser, private=bool(settings.allow_private_networks), asks_itself=True)
        return await doctor.examine(address, here)


async def import_user(
    stores: Stores, user: str, file: BinaryIO, progress: Callable[[int, int], None], *, dry_run: bool, trusted: bool
) -> ImportReport:
    """Import a user's export for the user of that name (`UserImport`). Raises InvalidRequest for an invalid file."""
    parser = ParsePool(TASKS)
    importing = UserImport(stores.redis, stores.accounts, stores.channels, stores.rules, stores.feeds, stores.items,
                           following(stores), stores.outputs, sources(stores), ChannelDisplays(stores.redis),
                           Imported(stores.redis),
                           applier(stores), parser, await stores.applied.name_instance())  # fmt: skip
    try:
        return await importing.run(user, file, time.time(), dry_run=dry_run, trusted=trusted, progress=progress)
    finally:
        parser.close()


async def import_from_reader(
    settings: Settings, stores: Stores, user: str, kind: str, file: Path, *, unread_too: bool, dry_run: bool
) -> BroughtReport:
    """Import another reader's export. Raises InvalidRequest and ParseError for an invalid file."""
    parser = ParsePool(TASKS)
    lists = feed_lists(settings, stores, parser)
    readers = OtherReaders(stores.redis, stores.feeds, stores.items, Imported(stores.redis), lists, parser)
    try:
        return await readers.run(
            user, kind, file, time.time(), all_saved=kind == "starred", unread_too=unread_too, dry_run=dry_run
        )
    finally:
        parser.close()


async def import_ekster(stores: Stores, file: OldFile, url: str, user: str, *, dry_run: bool) -> ImportReport:
    """Import the older Go server's file and Redis for a user. Raises what `open_old` raises."""
    parser = ParsePool(TASKS)
    importing = Importing(stores.redis, stores.accounts, stores.channels, stores.feeds, stores.items, stores.adder,
                          stores.schedule, Imported(stores.redis), stores.effective.of,
                          applier(stores), parser)  # fmt: skip
    try:
        async with open_old(url, stores.redis) as source:
            return await importing.run(user, file, source, time.time(), dry_run=dry_run)
    finally:
        parser.close()


async def beyond_quotas(stores: Stores, name: str) -> list[str]:
    """A line for each quota that the user exceeds; imports of the admin may exceed them."""
    user = await stores.accounts.user(name)
    if user is None:
        return []
    quotas = resolved(await stores.effective.everything(), name, registered=user.registered)
    counts = [
        ("channels", quotas.channels, len(await stores.channels.list(name)) - len(BUILT_IN)),
        ("feeds", quotas.feeds, await stores.channels.count_feeds(name)),
        (SAVED_POSTS, quotas.saved, await count_saved(stores.redis, name)),
        ("bytes of posts", quotas.posts, await post_bytes(stores).correct(name) if quotas.posts else 0),
    ]
    return [
        f"{name} now has {count} {what}, more than the quota of {most}; all were imported, but {name} can't add more"
        for what, most, count in counts
        if most and count > most
    ]
