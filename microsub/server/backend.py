"""Builds the synchronisation of backend.json, and the command line's use cases on users."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import structlog

from microsub.base.errors import ConfigError, InvalidRequest, NotFound, StoreFull, StoreUnavailable, StoreUnconfirmed
from microsub.base.settings import Settings
from microsub.model.reader import ALL_SCOPES
from microsub.redis.embedded.datafolder import has_data
from microsub.server.stores import following, open_stores, sources, tell_failure

if TYPE_CHECKING:  # `config check` doesn't need it if there is no data
    from microsub.backend_file.apply import Applier
    from microsub.backend_file.sync import Configuration
    from microsub.configuration.document import BackendDocument
    from microsub.identity.page_check.findings import PageReport
    from microsub.server.stores import Stores
    from microsub.transfer import BroughtReport, ImportReport

log = structlog.get_logger(__name__)


def applier(stores: Stores) -> Applier:
    """The service that applies changes to users and their data."""
    from microsub.backend_file.apply import Applier

    return Applier(
        stores.accounts,
        stores.channels,
        stores.feeds,
        stores.rules,
        following(stores),
        stores.declared,
        stores.outputs,
        sources(stores),
    )


def configuration(settings: Settings, stores: Stores, *, creates: bool = True) -> Configuration:
    """The service that synchronises backend.json and the stores; `creates` the file, if there never was one."""
    from microsub.backend_file.sync import Configuration
    from microsub.server.migrations import migrate

    return Configuration(
        settings.backend,
        stores.applied,
        applier(stores),
        write_back=settings.writes_back,
        creates=creates,
        on_applied=stores.effective.forget,
        on_lost=functools.partial(migrate, stores.redis),
    )


def _is_ours(folder: Path) -> bool:
    try:
        return has_data(folder) and folder.stat().st_uid == os.geteuid()
    except OSError:  # a folder that this system user can't read
        return False


async def clashes(settings: Settings, document: BackendDocument) -> tuple[ConfigError, ...]:
    """Conflicts of a valid document with existing accounts; none if there is no data.

    Another system user's data is ignored: starting its embedded Redis would leave our files there. Raises what
    `open_stores` raises.
    """
    if settings.embedded and not _is_ours(settings.data_dir):
        from microsub.configuration.document import channelless
        from microsub.configuration.facts import Current, merge
        from microsub.configuration.model import Backend

        return channelless(document, merge(Backend(), document.backend, Current(), edited_at=0.0).channelless)
    async with open_stores(settings) as stores:
        return await configuration(settings, stores).clashes(document)


@contextlib.asynccontextmanager
async def open_configuration(settings: Settings, stores: Stores) -> AsyncIterator[Configuration]:
    """Apply backend.json, and every later version of it, within the block.

    If Redis refuses writes, no standby confirms them, or a master of a cluster is away, the file is applied once that
    is over; until then, reads are served. Raises StoreUnavailable if the settings can't be read.
    """
    stop = asyncio.Event()
    service = configuration(settings, stores)
    try:
        await service.look()
        await service.watch_data()
    except (StoreFull, StoreUnconfirmed) as error:
        log.warning("backend.json will be applied when Redis accepts writes again", error=str(error))
    except StoreUnavailable as error:
        await stores.effective.everything()
        log.warning("backend.json will be applied when all of Redis is there again", error=str(error))
    task = asyncio.create_task(service.run(stop), name="configuration")
    task.add_done_callback(tell_failure)
    try:
        yield service
    finally:
        stop.set()
        await task


async def write_back(settings: Settings, stores: Stores) -> None:
    """Write a command's changes back to backend.json, if enabled.

    A file that doesn't exist is created if it would be next to the data folder. Otherwise this may be another folder
    than the server's, which creates its file itself.
    """
    beside = settings.backend.absolute().parent == settings.data_dir.absolute().parent
    await configuration(settings, stores, creates=settings.embedded and beside).write_back()


async def require_user(settings: Settings, stores: Stores, name: str, *, enabled: bool = False) -> None:
    """Require a user in the store, or in a backend.json that isn't applied yet.

    Raises NotFound, naming the existing users; with `enabled`, InvalidRequest for a disabled one.
    """
    if await stores.accounts.user(name) is None:
        await configuration(settings, stores).look()
    found = await stores.accounts.user(name)
    if enabled and found is not None and found.disabled is not None:
        raise InvalidRequest(f"the user '{name}' is disabled; to restore them: microsub user restore {name}")
    if found is None:
        known = ", ".join(
            f"{user.name} (disabled)" if user.disabled is not None else user.name
            for user in await stores.accounts.users()
        )
        raise NotFound(f"there is no user '{name}'; users: {known or _nobody(settings)}")


async def require_channel(stores: Stores, user: str, uid: str) -> None:
    """Require a channel of a user. Raises NotFound, naming the existing ones."""
    try:
        await stores.channels.get(user, uid)
    except NotFound:
        (uids,) = await stores.channels.uids([user])
        raise NotFound(f"{user} has no channel '{uid[:80]}'; channels: {', '.join(uids)}") from None


def _nobody(settings: Settings) -> str:
    """The hint if there are no users: most often the command runs in another folder."""
    # The URL of a Redis may contain its password.
    place = "the Redis of MICROSUB_REDIS_URL" if settings.redis_url else str(settings.data_dir.absolute())
    return f"none; is {place}, where this command looked, the server's?"


async def add_user(stores: Stores, name: str, me: str, now: float) -> None:
    """Add a user, with the URL `me`, if given.

    Raises InvalidRequest if the name or URL is invalid or belongs to another user.
    """
    from microsub.configuration.facts import Change, ChangeKind

    await applier(stores).apply(Change(ChangeKind.USER_ADDED, name, value=me), now)


async def change_me(stores: Stores, name: str, me: str, now: float) -> None:
    """Change a user's URL, and sign them out. Raises as `add_user` does, and NotFound."""
    from microsub.configuration.facts import Change, ChangeKind

    await applier(stores).apply(Change(ChangeKind.SITE, name, value=me), now)
    await end_sessions(stores, name)


async def set_admin(stores: Stores, name: str, admin: bool, now: float) -> None:
    """Give a user access to the admin pages, or take it away. Raises NotFound."""
    from microsub.configuration.facts import Change, ChangeKind

    await applier(stores).apply(Change(ChangeKind.ADMIN, name, value=admin), now)


async def remove_user(settings: Settings, stores: Stores, name: str, now: float) -> bool:
    """Disable a user, restorable for 30 days; whether an entry in backend.json was removed.

    Tokens and sessions end at once, and their feeds are no longer polled for them. Raises InvalidRequest if only the
    admin can remove the entry; then nothing is changed.
    """
    from microsub.configuration.facts import Change, ChangeKind

    taken_out = await configuration(settings, stores).take_out(name)
    there = await stores.accounts.user(name)
    if there is not None and there.disabled is None:
        await applier(stores).apply(Change(ChangeKind.USER_REMOVED, name), now)
    await stores.accounts.end_access(name)
    return taken_out


async def restore_user(settings: Settings, stores: Stores, name: str, now: float) -> None:
    """Undo `remove_user`, except for sign-ins. Raises NotFound, and InvalidRequest if the URL is in use."""
    from microsub.configuration.facts import Change, ChangeKind

    found = await stores.accounts.user(name)
    if found is None or found.disabled is None:
        raise NotFound(f"no removed user is called '{name}'")
    # The user may have been removed from the file, which deletes nothing permanently.
    await stores.accounts.end_access(name)
    await applier(stores).apply(Change(ChangeKind.USER_ADDED, name, value=found.me, restored=True), now)
    await write_back(settings, stores)


async def end_sessions(stores: Stores, name: str) -> None:
    """Sign a user out of all browsers."""
    from microsub.accounts import Sessions

    await Sessions(stores.redis).end_all(name)


GREETING = "shown at the server's start"
"""The client name of the greeting's token. It doesn't identify the token, as others can have the same name."""

_MARK = "greeting"


async def greeting_token(stores: Stores, now: float) -> str | None:
    """A token for the first user of backend.json, for a day or until the next greeting; or None.

    Never for a registered user, who isn't the admin.
    """
    user = await _greeted(stores)
    if user is None:
        return None
    return await stores.accounts.create_token(user, ALL_SCOPES, GREETING, now, now + 86_400, mark=_MARK)


async def greeting_link(stores: Stores) -> str | None:
    """The path of a link that signs the same user in once, within minutes; or None."""
    user = await _greeted(stores)
    if user is None:
        return None
    from microsub.identity.local_sign_in import LocalSignIn
    from microsub.identity.pages.sign_in import LINK_PATH

    return f"{LINK_PATH}?code={await LocalSignIn(stores.redis).make_link(user)}"


async def _greeted(stores: Stores) -> str | None:
    last = await stores.applied.last()
    declared = last.backend.users if last is not None else {}
    there = await stores.accounts.users()
    users = sorted(user.name for user in there if user.name in declared and not user.registered and not user.disabled)
    return users[0] if users else None


async def examine(settings: Settings, address: str) -> PageReport:
    """The check of the page at `address`, compared with the server's users.

    Raises InvalidRequest, and what `open_stores` raises for unusable data.
    """
    from microsub.identity.page_check import PageDoctor
    from microsub.identity.page_check.findings import CheckedAgainst
    from microsub.identity.protocol.documents import profile_page
    from microsub.parsing.pool import ParsePool
    from microsub.server.fetching import open_fetcher
    from microsub.server.parsers import TASKS

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


async def beyond_quotas(stores: Stores, name: str) -> list[str]:
    """A line for each quota that the user exceeds; imports of the admin may exceed them."""
    from microsub.accounts import resolved
    from microsub.model.reader import BUILT_IN, SAVED
    from microsub.redis import keys
    from microsub.server.worker import post_bytes
    from microsub.timelines.remove import SAVED_POSTS

    user = await stores.accounts.user(name)
    if user is None:
        return []
    quotas = resolved(await stores.effective.everything(), name, registered=user.registered)
    counts = [
        ("channels", quotas.channels, len(await stores.channels.list(name)) - len(BUILT_IN)),
        ("feeds", quotas.feeds, await stores.channels.count_feeds(name)),
        (SAVED_POSTS, quotas.saved, await stores.redis.command("ZCARD", keys.posts(name, SAVED))),
        ("bytes of posts", quotas.posts, await post_bytes(stores).correct(name) if quotas.posts else 0),
    ]
    return [
        f"{name} now has {count} {what}, more than the quota of {most}; all were imported, but {name} can't add more"
        for what, most, count in counts
        if most and count > most
    ]


async def import_user(
    stores: Stores, user: str, file: BinaryIO, progress: Callable[[int, int], None], *, dry_run: bool, trusted: bool
) -> ImportReport:
    """Import a user's export for the user of that name (`UserImport`). Raises InvalidRequest for an invalid file."""
    from microsub.parsing.pool import ParsePool
    from microsub.posts import Imported
    from microsub.server.parsers import TASKS
    from microsub.transfer import UserImport

    parser = ParsePool(TASKS)
    importing = UserImport(stores.redis, stores.accounts, stores.channels, stores.rules, stores.feeds, stores.items,
                           following(stores), stores.outputs, sources(stores), Imported(stores.redis),
                           applier(stores), parser, await stores.applied.name_instance())  # fmt: skip
    try:
        return await importing.run(user, file, time.time(), dry_run=dry_run, trusted=trusted, progress=progress)
    finally:
        parser.close()


async def import_from_reader(
    settings: Settings, stores: Stores, user: str, kind: str, file: Path, *, unread_too: bool, dry_run: bool
) -> BroughtReport:
    """Import another reader's export. Raises InvalidRequest and ParseError for an invalid file."""
    from microsub.parsing.pool import ParsePool
    from microsub.posts import Imported
    from microsub.server.parsers import TASKS
    from microsub.server.stores import feed_lists
    from microsub.transfer import OtherReaders

    parser = ParsePool(TASKS)
    lists = feed_lists(settings, stores, parser)
    readers = OtherReaders(stores.redis, stores.feeds, stores.items, Imported(stores.redis), lists, parser)
    try:
        return await readers.run(
            user, kind, file, time.time(), all_saved=kind == "starred", unread_too=unread_too, dry_run=dry_run
        )
    finally:
        parser.close()
