"""Passwords of users: checked, set, changed."""

from __future__ import annotations

import hmac

from microsub.errors import InvalidRequest
from microsub.identity.local.hashing import Hasher
from microsub.identity.local.passwordpolicy import chosen, normal
from microsub.identity.store.credentials import Credentials


class Passwords:
    """The passwords in the store, which are hashed outside of the event loop."""

    def __init__(self, store: Credentials, hasher: Hasher) -> None:
        self._store = store
        self._hasher = hasher

    async def is_right(self, user: str, password: str, turn: int = 0) -> bool:
        """Whether that is the user's password. It takes as long for a user that there isn't, or who has none.

        `turn` is its place in the queue (`hashing.Hasher`). A hash of former parameters is replaced. Counting attempts
        is left to the caller. Raises TooManyRequests.
        """
        text = normal(password)
        hashed = await self._store.password(user)
        right = await self._hasher.check(hashed, text, turn)
        if right and hashed is not None and text is not None and self._hasher.is_old(hashed):
            await self._store.rehash(user, hashed, await self._hasher.hash(text))
        return right

    async def set(self, user: str, password: str, now: float, *, invitation: str | None = None) -> None:
        """Set the user's password, whatever there was; `invitation` is used up by it.

        Raises InvalidRequest for one that can't be taken, NotFound for an unknown or disabled user, InvitationSpent,
        TooManyRequests. Ending sessions is left to the caller.
        """
        text = chosen(password, user)
        hashed = await self._hasher.hash(text)
        await self._store.set_password(user, hashed, now, invitation=invitation)


def repeated(password: str, again: str) -> str:
    """The password that was typed twice. Raises InvalidRequest where it differs."""
    if not hmac.compare_digest(password.encode("utf-8", "replace"), again.encode("utf-8", "replace")):
        raise InvalidRequest("the two passwords differ")
    return password
