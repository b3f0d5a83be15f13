"""Which user somebody means who types a name, or the address of their own page."""

from __future__ import annotations

from collections.abc import Callable

from microsub.identity.sign_in.admission import canonical
from microsub.identity.store.accounts import Accounts
from microsub.model.reader import NAME

FRESH = 10.0
"""Seconds for which the addresses of all users are remembered: whoever asks for one after the other can't make every
question a walk over all users.
"""


class Naming:
    """Finds users by what people type. It says nothing of whether they may come in."""

    def __init__(self, accounts: Accounts, lent: Callable[[str], str] = lambda _: "") -> None:
        """`lent` tells the profile URL of a user who has none of their own."""
        self._accounts = accounts
        self._lent = lent
        self._by_me: dict[str, str] = {}
        self._read_at = float("-inf")

    async def meant(self, typed: str, now: float) -> str:
        """The name of the user who is meant by a name or an address, or something that is nobody's."""
        text = typed.strip()
        me = None if NAME.match(text) else canonical(text)
        if me is None:
            return text
        if not self._read_at <= now < self._read_at + FRESH:
            self._read_at = now
            self._by_me = await self._addresses()
        return self._by_me.get(_bare(me), text)

    async def _addresses(self) -> dict[str, str]:
        """Users by the address of their page; one that several share stands for nobody."""
        found: dict[str, str] = {}
        shared: set[str] = set()
        for user in await self._accounts.users():
            me = canonical(user.me or self._lent(user.name))
            if me is None or user.disabled is not None:
                continue
            if _bare(me) in found:
                shared.add(_bare(me))
            found[_bare(me)] = user.name
        return {me: name for me, name in found.items() if me not in shared}


def _bare(me: str) -> str:
    """Without the scheme: here it only says whose password is looked at."""
    return me.partition("://")[2]
