"""Builds the synchronisation of backend.json, and the command line's use cases on users."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import structlog

from microsub import accounts, backend_file, identity
from microsub.base.errors import ConfigError, InvalidRequest, NotFound, StoreFull, StoreUnavailable, StoreUnconfirmed
from microsub.base.plaintext import shown
from microsub.base.settings import Settings
from microsub.configuration.facts import Change, ChangeKind
from microsub.model.reader import ALL_SCOPES
from microsub.server.stores import Stores, following, open_stores, signed_feeds, sources, tell_failure

if TYPE_CHECKING:
    from microsub.configuration.document import BackendDocument

log = structlog.get_logger(__name__)


def applier(stores: Stores) -> backend_file.Applier:
    """The service that applies changes to users and their data."""
    return backend_file.Applier(
        stores.accounts,
        stores.channels,
        stores.feeds,
        stores.rules,
        following(stores),
        stores.declared,
        stores.outputs,
        sources(stores),
        signed_feeds(stores),
    )


def configuration(settings: Settings, stores: Stores, *, creates: bool = True) -> backend_file.Configuration:
    """The service that synchronises backend.json and the stores; `creates` the file, if there never was one."""
    return backend_file.Configuration(
        settings.backend,
        stores.applied,
        applier(stores),
        write_back=settings.writes_back,
        creates=creates,
        on_applied=stores.effective.forget,
        on_lost=stores.prepare,
    )


async def clashes(settings: Settings, document: BackendDocument) -> tuple[ConfigError, ...]:
    """Conflicts of a valid document with existing accounts. Raises what `open_stores` raises."""
    async with open_stores(settings) as stores:
        return await configuration(settings, stores).clashes(document)


@contextlib.asynccontextmanager
async def open_configuration(settings: Settings, stores: Stores) -> AsyncIterator[backend_file.Configuration]:
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
    await applier(stores).apply(Change(ChangeKind.USER_ADDED, name, value=me), now)


async def change_me(stores: Stores, name: str, me: str, now: float) -> None:
    """Change a user's URL, and sign them out. Raises as `add_user` does, and NotFound."""
    await applier(stores).apply(Change(ChangeKind.SITE, name, value=me), now)
    await end_sessions(stores, name)


async def set_admin(stores: Stores, name: str, admin: bool, now: float) -> None:
    """Give a user access to the admin pages, or take it away. Raises NotFound."""
    await applier(stores).apply(Change(ChangeKind.ADMIN, name, value=admin), now)


async def remove_user(config: backend_file.Configuration, stores: Stores, name: str, now: float) -> bool:
    """Disable a user, restorable for 30 days; whether an entry in backend.json was removed.

    Tokens and sessions end at once, and their feeds are no longer polled for them. Raises InvalidRequest if only the
    admin can remove the entry; then nothing is changed.
    """
    taken_out = await config.take_out(name)
    there = await stores.accounts.user(name)
    if there is not None and there.disabled is None:
        await applier(stores).apply(Change(ChangeKind.USER_REMOVED, name), now)
    await stores.accounts.end_access(name)
    return taken_out


async def restore_user(stores: Stores, name: str, now: float) -> None:
    """Undo `remove_user`, except for sign-ins. Raises NotFound, and InvalidRequest if the URL is in use."""
    found = await stores.accounts.user(name)
    if found is None or found.disabled is None:
        raise NotFound(f"no removed user is called '{name}'")
    # The user may have been removed from the file, which deletes nothing permanently.
    await stores.accounts.end_access(name)
    await applier(stores).apply(Change(ChangeKind.USER_ADDED, name, value=found.me, restored=True), now)


class AccountChanges:
    """Users added, removed and restored by an admin's page, with the same effects as `microsub user`."""

    def __init__(self, config: backend_file.Configuration, stores: Stores) -> None:
        self._config, self._stores = config, stores

    async def add(self, name: str, now: float) -> None:
        """See `add_user`."""
        await add_user(self._stores, name, "", now)
        self._config.touched()

    async def remove(self, name: str, now: float) -> None:
        """See `remove_user`. Raises NotFound, too."""
        if await self._stores.accounts.user(name) is None:
            raise NotFound(f"there is no user '{shown(name)}'")
        await remove_user(self._config, self._stores, name, now)

    async def restore(self, name: str, now: float) -> None:
        """See `restore_user`."""
        await restore_user(self._stores, name, now)
        self._config.touched()


async def end_sessions(stores: Stores, name: str) -> None:
    """Sign a user out of all browsers."""
    await accounts.Sessions(stores.redis).end_all(name)


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
    return f"{identity.LINK_PATH}?code={await identity.LocalSignIn(stores.redis).make_link(user)}"


async def _greeted(stores: Stores) -> str | None:
    last = await stores.applied.last()
    declared = last.backend.users if last is not None else {}
    there = await stores.accounts.users()
    users = sorted(user.name for user in there if user.name in declared and not user.registered and not user.disabled)
    return users[0] if users else None
