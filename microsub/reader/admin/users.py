"""The users, on a page of the admin: invite, remove, restore."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from starlette.responses import Response
from starlette.routing import Route

from microsub.accounts import Accounts, Activity, LocalCredentials, User
from microsub.base.errors import InvalidRequest
from microsub.base.texts import N_, Sentence
from microsub.base.urls import redacted
from microsub.reader.admin.frame import ADMIN, PAGE, Guard, neighbours, page_number, shown
from microsub.web.routes import form, page
from microsub.web.visit import PageSite, PageVisit

USERS = f"{ADMIN}/users"
Change = Callable[[str, float], Awaitable[None]]


class UserAdministration(Protocol):
    """Changes users here and in backend.json; `now` in Unix seconds."""

    async def add(self, name: str, now: float) -> None:
        """Add a user without an address. Raises InvalidRequest for a name that can't be used."""

    async def remove(self, name: str, now: float) -> None:
        """Disable a user for 30 days, then delete the account.

        Raises NotFound, and InvalidRequest if only the file can do this.
        """

    async def restore(self, name: str, now: float) -> None:
        """Undo `remove`. Raises NotFound."""


@dataclass(eq=False, repr=False)
class UserPages:
    """The handlers; `invitation` is the path that invitations open, `confirming` that of confirming one's identity."""

    accounts: Accounts
    activity: Activity
    credentials: LocalCredentials
    changes: UserAdministration
    invitation: str
    confirming: str

    def routes(self, site: PageSite, admins: Guard) -> list[Route]:
        """The routes of this module, for admins only."""
        again = self.list
        return [
            page(site, USERS, admins(self.list)),
            form(site, f"{USERS}/invite", admins(self._invite), again),
            form(site, f"{USERS}/remove", admins(partial(self._change, self.changes.remove, "removed")), again),
            form(site, f"{USERS}/restore", admins(partial(self._change, self.changes.restore, "restored")), again),
        ]

    async def list(self, visit: PageVisit) -> Response:
        """The table of users."""
        number = page_number(visit)
        found = await self.accounts.some(PAGE + 1, (number - 1) * PAGE)
        names = [user.name for user in found[:PAGE]]
        seen = await self.activity.last_seen(names)
        return shown(
            visit,
            "users.html",
            users=[replace(user, me=redacted(user.me)) for user in found[:PAGE]],
            seen=seen,
            invited=await self.credentials.with_invitation(names),
            invitable={user.name for user in await self._strangers(found[:PAGE], seen)},
            **neighbours(number, found),
            count=await self.accounts.count(),
            own=visit.require_session().user,
            done=visit.query.get("done", ""),
            confirming="" if await visit.is_confirmed() else self.confirming,
        )

    async def _strangers(self, users: Sequence[User], seen: Mapping[str, float]) -> Sequence[User]:
        """The users who have never been here and have no way to sign in: who invites others could read as them."""
        new = [user for user in users if user.disabled is None and not user.me and not seen.get(user.name)]
        there = await self.credentials.with_credentials([user.name for user in new])
        return [user for user in new if user.name not in there]

    async def _invite(self, visit: PageVisit) -> Response:
        """Add the user if there is none of that name, and show the link once."""
        await visit.require_confirmed()
        name = visit.form.text("name")
        if name and await self.accounts.user(name) is not None:
            await self._require_stranger(name)
        else:
            await self.changes.add(name, visit.now)
        code = await self.credentials.invite(name)
        try:  # an earlier link may have been used since; from now on it can't
            await self._require_stranger(name)
        except InvalidRequest:
            await self.credentials.end_invitation(name)
            raise
        return shown(visit, "invited.html", name=name, link=f"{visit.base}{self.invitation}#{code}")

    async def _require_stranger(self, name: str) -> None:
        user = await self.accounts.user(name)
        if user is None or not await self._strangers([user], await self.activity.last_seen([name])):
            text = N_("'{name}' has an account already: only people who have never signed in can be invited")
            raise InvalidRequest(Sentence(text, name=name))

    async def _change(self, change: Change, done: str, visit: PageVisit) -> Response:
        session, name = await visit.require_confirmed(), visit.form.text("name")
        if name == session.user:
            raise InvalidRequest(N_("you can't remove yourself here: delete your account on its page"))
        await change(name, visit.now)
        return visit.go(USERS, done=done)
