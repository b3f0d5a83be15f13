"""What the command line needs to know of users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from microsub import wiring
from microsub.errors import NotFound
from microsub.model.scopes import ALL_SCOPES
from microsub.settings import Settings

if TYPE_CHECKING:
    from microsub.wiring.stores import Stores


async def require_user(settings: Settings, stores: Stores, name: str) -> None:
    """Make sure that there is a user of that name, looking into backend.json where the store doesn't know it yet.

    Raises NotFound, naming the users that there are.
    """
    if await stores.accounts.user(name) is None:
        await wiring.backend.configuration(settings, stores).look()
    if await stores.accounts.user(name) is None:
        known = ", ".join(
            f"{user.name} (disabled)" if user.disabled is not None else user.name
            for user in await stores.accounts.users()
        )
        raise NotFound(f"there is no user '{name}'; users: {known or _nobody(settings)}")


def _nobody(settings: Settings) -> str:
    """What to say where there are no users at all: most often the command runs in another folder than the server."""
    # The address of a Redis may hold its password.
    place = "the Redis of MICROSUB_REDIS_URL" if settings.redis_url else str(settings.data_dir.absolute())
    return f"none; looked for users in {place}, is it the server's?"


async def add_user(stores: Stores, name: str, me: str, now: float) -> None:
    """Make a user, with `me` as their address or none. Raises InvalidRequest for a name or an address that can't be,
    and for that of somebody else.
    """
    from microsub.configuration.facts import Change, What

    await wiring.backend.applier(stores).apply(Change(What.USER_ADDED, name, value=me), now)


async def change_me(stores: Stores, name: str, me: str, now: float) -> None:
    """Give a user another address, and sign them out of all browsers. Raises as `add_user` does, and NotFound."""
    from microsub.configuration.facts import Change, What

    await wiring.backend.applier(stores).apply(Change(What.SITE, name, value=me), now)
    await end_sessions(stores, name)


async def remove_user(settings: Settings, stores: Stores, name: str, now: float) -> bool:
    """Disable a user: tokens and sessions end at once, and nobody polls for them; restorable for 30 days. Where
    backend.json declares them, their entry is taken out of it: whether it was.

    Raises InvalidRequest where that is somebody else's to do; then nothing is changed.
    """
    from microsub.configuration.facts import Change, What

    taken_out = await wiring.backend.configuration(settings, stores).take_out(name)
    there = await stores.accounts.user(name)
    if there is not None and there.disabled is None:
        await wiring.backend.applier(stores).apply(Change(What.USER_REMOVED, name), now)
    await end_sessions(stores, name)
    return taken_out


async def restore_user(settings: Settings, stores: Stores, name: str, now: float) -> None:
    """Undo `remove_user`. Raises NotFound, and InvalidRequest where somebody else has their address meanwhile."""
    from microsub.configuration.facts import Change, What

    found = await stores.accounts.user(name)
    if found is None or found.disabled is None:
        raise NotFound(f"'{name}' is no user who was removed")
    await wiring.backend.applier(stores).apply(Change(What.USER_ADDED, name, value=found.me, restored=True), now)
    await wiring.backend.configuration(settings, stores).write_back()


async def end_sessions(stores: Stores, name: str) -> None:
    """Sign a user out of all browsers."""
    from microsub.identity.sign_in.sessions import Sessions
    from microsub.identity.store.sessions import SessionStore

    await Sessions(SessionStore(stores.redis)).end_all(name)


GREETING = "shown at start"
"""The client name of the token in the greeting. Tokens by that name can be made by hand, so it isn't known by it."""

_MARK = "greeting"


async def greeting_token(stores: Stores, now: float) -> str | None:
    """A token for the first user whom backend.json declares, good for a day or until the next greeting; else None.

    Never for somebody who registered: the admin is somebody else.
    """
    last = await stores.applied.last()
    declared = last.backend.users if last is not None else {}
    there = await stores.accounts.users()
    users = sorted(user.name for user in there if user.name in declared and not user.registered and not user.disabled)
    if not users:
        return None
    return await stores.accounts.create_token(users[0], ALL_SCOPES, GREETING, now, now + 86_400, mark=_MARK)
