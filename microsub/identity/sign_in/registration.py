"""Registration: accounts made by signing in, where `settings.registration` allows it.

Admission decides first; only who is none of the users, and nearly none, comes here. What is proven is the one URL that
the provider has confirmed: what the page there says of others makes no account for them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import Protocol
from urllib.parse import urlsplit

import structlog

from microsub import metrics
from microsub.configuration.model import Registration
from microsub.identity.protocol.identifiers import path_of_me, site_of_me
from microsub.identity.sign_in.admission import Admitted, ConfirmedPerson, Refusal, bare, canonical, is_named
from microsub.identity.store.accounts import User
from microsub.kit.hosts import domain, within
from microsub.model.reader import RESERVED

log = structlog.get_logger(__name__)

UNFIT = RESERVED | {"admin", "administrator", "anonymous", "everybody", "me", "microsub", "nobody", "root", "system"}
"""Names that mean something to the protocol, or would to people."""

LONGEST = 48
_NAMES_TO_TRY = 1000


class RegisteringAccounts(Protocol):
    """What is needed of `identity.store.accounts.Accounts`."""

    async def users(self) -> list[User]: ...  # noqa: D102
    async def register(self, name: str, me: str, now: float) -> User: ...  # noqa: D102


class KnownUsers(Protocol):
    """What is needed of `admission.UsersOnly`."""

    async def among(self, users: list[User], person: ConfirmedPerson) -> Admitted | Refusal: ...  # noqa: D102


class OpenAdmission:
    """Admits existing users, and registers others as far as `settings` allows."""

    def __init__(
        self,
        accounts: RegisteringAccounts,
        known: KnownUsers,
        settings: Callable[[], Awaitable[Registration]],
        *,
        private: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._accounts = accounts
        self._known = known
        self._settings = settings
        self._private = private
        self._clock = clock

    async def admit(self, person: ConfirmedPerson) -> Admitted | Refusal:
        """See `admission.Admission`."""
        users = await self._accounts.users()
        verdict = await self._known.among(users, person)
        if isinstance(verdict, Admitted) or not verdict.stranger:
            return verdict
        refusal = refused(await self._settings(), person.me, users, private=self._private)
        if refusal is not None:
            return refusal if refusal.text else verdict
        made = await self._register(person, users)
        if made is None:
            return Refusal(
                "No account could be made", "Ask the admin of this server: there is no name left for you.", 503
            )
        return made

    async def _register(self, person: ConfirmedPerson, users: list[User]) -> Admitted | None:
        """Make the account, or find the one that was made for the same person at this very moment: everybody tries the
        same names in the same order, and of two who make one user the other finds it.
        """
        for name in names(person.me, {user.name for user in users}):
            now = self._clock()
            user = await self._accounts.register(name, person.me, now)
            if user.disabled is None and is_named(user, person.names):
                if user.me == person.me and user.created == now:
                    metrics.REGISTRATIONS.inc()
                    log.info("an account was registered", user=name, me=person.me)
                return Admitted(name, user.me, new=True)
            if bare(canonical(user.me) or "") == bare(person.me):
                return None
        return None


def refused(settings: Registration, me: str, users: Collection[User], *, private: bool = False) -> Refusal | None:
    """Why somebody who has proven `me` (canonical) gets no account; None where they do. One without a text says that
    there is nothing to be said of registration. Pure. `private`: addresses by http pass, for machines that aren't
    reached from everywhere.
    """
    if settings.open == "nobody":
        return Refusal("", "")
    if not private and not me.startswith("https:"):
        return Refusal(
            "Your address isn't safe enough",
            f"{me} is not reached by https, so anybody on the way could take your account. Begin with the https "
            "address of your page.",
        )
    host = urlsplit(me).hostname or ""
    allowed = settings.open == "everybody" or _is_within(host, settings.domains)
    if not allowed or _is_within(host, settings.refuse) or _is_one_of(me, settings.refuse):
        return Refusal(
            "There is no account for you here",
            f"You have shown that you are {me}. People may make accounts on this server, but not with that address.",
        )
    if settings.most and sum(user.registered for user in users) >= settings.most:
        return Refusal(
            "This server is full", f"It takes {settings.most} people, and has as many. Ask its admin for a place."
        )
    return None


def names(me: str, taken: Collection[str]) -> Iterator[str]:
    """Names for the account of `me` (canonical), the most readable one first; always the same ones, none of them taken.

    From host and path: `ann-example` for https://ann.example/, `social-example-bob` for https://social.example/@bob.
    Names differ in more than upper and lower case. Pure.
    """
    words = f"{site_of_me(me)} {path_of_me(me)}".lower()
    base = re.sub(r"[^a-z0-9_]+", "-", words.replace("xn--", "xn-")).strip("-_")[:LONGEST].rstrip("-_") or "user"
    used = {name.lower() for name in (*taken, *UNFIT)}
    if base not in used:
        yield base
    for number in range(2, _NAMES_TO_TRY):
        if f"{base}-{number}" not in used:
            yield f"{base}-{number}"


def _is_within(host: str, entries: Collection[str]) -> bool:
    return any(within(host, name) for entry in entries if (name := domain(entry)) is not None)


def _is_one_of(me: str, entries: Collection[str]) -> bool:
    wanted = bare(me)
    return any(bare(url) == wanted for entry in entries if "://" in entry and (url := canonical(entry)) is not None)
