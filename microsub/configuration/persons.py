"""That no two users are one person: whoever signs in with an address must come to one account, and to theirs.

Everything that gives a user an address goes through `Applier.apply`, which asks here; only registration doesn't, since
admission has compared the person with all users before (`identity.admission`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from microsub.configuration.changes import Change, UserAdded, UserChanged, UserRemoved, UserReturned
from microsub.configuration.joining import comparable_person
from microsub.identity.store.accounts import User
from microsub.settings import mask_password


@dataclass(frozen=True, slots=True)
class Clash:
    """`user` would have the address `me`, which `other` has as `theirs`; `disabled`: that one is disabled."""

    user: str
    me: str
    other: str
    theirs: str
    disabled: bool = False

    def __str__(self) -> str:
        me, theirs = mask_password(self.me), mask_password(self.theirs)
        text = f"'{me}' is the user '{self.other}' already, written as '{theirs}'"
        return f"{text}; they are disabled: microsub user restore {self.other}" if self.disabled else text


def clashes(users: Iterable[User], changes: Iterable[Change], *, disabled_too: bool = False) -> list[Clash]:
    """Whom `changes`, all of them carried out, would make the same person as somebody else. Pure.

    Two who are so already, and stay what they are, are not told of. Disabled users count with `disabled_too` alone: in
    a file, a person may be given another name.
    """
    known = list(users)
    addresses = {user.name: user.me for user in known if disabled_too or user.disabled is None}
    given: dict[str, str] = {}
    for change in changes:
        match change:
            case UserAdded(name, me) | UserReturned(name, me) | UserChanged(name, me):
                addresses[name] = given[name] = me
            case UserRemoved(name):
                addresses.pop(name, None)
                given.pop(name, None)
            case _:
                pass
    holders: dict[str, list[str]] = {}
    for name, me in addresses.items():
        if me:
            holders.setdefault(comparable_person(me), []).append(name)
    disabled = {user.name for user in known if user.disabled is not None}
    return [
        Clash(name, me, other, addresses[other], other in disabled and other not in given)
        for name, me in given.items()
        if me
        for other in holders[comparable_person(me)]
        if other != name
    ]
