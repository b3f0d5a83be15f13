"""What the command line needs to know of users."""

from __future__ import annotations

from microsub.config.settings import Settings
from microsub.errors import NotFound
from microsub.model.scopes import ALL_SCOPES
from microsub.wiring.configuration import configuration
from microsub.wiring.stores import Stores


async def require_user(settings: Settings, stores: Stores, name: str) -> None:
    """Make sure that there is a user of that name, looking into backend.json where the store doesn't know it yet.

    Raises NotFound, naming the users that there are.
    """
    if await stores.accounts.user(name) is None:
        await configuration(settings, stores).look()
    if await stores.accounts.user(name) is None:
        known = ", ".join(user.name for user in await stores.accounts.users()) or "none"
        raise NotFound(f"there is no user '{name}'; users: {known}")


GREETING = "shown at start"
"""The client name of the token in the greeting."""


async def greeting_token(stores: Stores, now: float) -> str | None:
    """A token for the first user, good for a day; those of earlier starts end by themselves. None without users."""
    users = sorted(user.name for user in await stores.accounts.users() if user.disabled is None)
    if not users:
        return None
    return await stores.accounts.create_token(users[0], ALL_SCOPES, GREETING, now, now + 86_400)
