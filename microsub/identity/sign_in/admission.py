"""Which user a confirmed identity belongs to, or why it belongs to none.

An account is one identity, however its URL is written, redirected or moved. What a provider says of R proves R and
nothing else: where R's page leads on to P, that is R's wish, and P was not asked. So it counts what the account's own
page says: that it leads to R for good, or calls R the same person's (`rel=me`). Who writes that there could as well
name a provider of their own and sign in by it, so they get nothing that they couldn't have. R is asked too, or somebody
could have others end up in their account: R's page calls the account's the same person's, or R has begun with it. Of
where R's own page leads, only other spellings of R count: by https, with or without `www.` and a slash at the end.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

import structlog

from microsub import metrics
from microsub.configuration.model import Registration
from microsub.errors import InvalidRequest, ProfileError
from microsub.identity.lifetimes import USER_ADDRESSES
from microsub.identity.protocol.identifiers import canonical_me, path_of_me, site_of_me
from microsub.identity.protocol.replies import ProfileClaims
from microsub.identity.sign_in.profiles import Claims, Profile
from microsub.identity.store.accounts import Accounts, User
from microsub.kit.hosts import domain, within
from microsub.model.reader import RESERVED

_MOST_ASKED = 3
"""Pages of users that one sign-in may ask, to find out whether they lead to the same person."""


@dataclass(frozen=True, slots=True)
class ConfirmedPerson:
    """Somebody whose provider has confirmed them. `me` is the canonical URL that it said, `names` its spellings and it;
    nothing else is theirs. `entered` is what they began with. `profile` is where their page leads, which may be
    somebody else's; `claims` are how the provider presents them, to be shown and never to be compared.
    """

    me: str
    names: frozenset[str]
    entered: str
    profile: Profile
    claims: ProfileClaims


@dataclass(frozen=True, slots=True)
class Admitted:
    """The user that somebody is. `me` is the profile URL as the account has it; `new`: it was made just now."""

    user: str
    me: str
    new: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why somebody doesn't get in, as a title and sentences for a page; the status is that of the page. A `stranger` is
    none of the users, nor likely to be one whose address was written or has led elsewhere.
    """

    title: str
    text: str
    status: int = 403
    stranger: bool = False


class Admission(Protocol):
    """Decides who may sign in."""

    async def admit(self, person: ConfirmedPerson) -> Admitted | Refusal:
        """The user that `person` is, or is made by this, or why not."""
        ...


class ProfilePages(Protocol):
    """What is needed of `profiles.Profiles`."""

    async def claims(self, me: str) -> Claims:
        """See there."""
        ...


class UsersOnly:
    """Admits existing users alone."""

    def __init__(self, accounts: Accounts, pages: ProfilePages) -> None:
        self._accounts = accounts
        self._pages = pages

    async def admit(self, person: ConfirmedPerson) -> Admitted | Refusal:
        """See `Admission`."""
        return await self.among(await self._accounts.users(), person)

    async def among(self, users: list[User], person: ConfirmedPerson) -> Admitted | Refusal:
        """The same, where the users are known."""
        found = [user for user in users if is_named(user, person.names)] or await self._by_their_pages(users, person)
        match [user for user in found if user.disabled is None]:
            case [user]:
                return Admitted(user.name, user.me)
            case []:
                return disabled(person.me) if found else _none_of(users, person)
            case several:
                names = " and ".join(f"“{user.name}”" for user in several)
                return Refusal(
                    "That is more than one account",
                    f"The accounts {names} of this server have the same address, {person.me}. Ask its admin to give "
                    "each user an address of their own.",
                )

    async def _by_their_pages(self, users: list[User], person: ConfirmedPerson) -> list[User]:
        """The users whose own page says that they are this person, as far as they may be."""
        site = site_of_me(person.me)
        called = {bare(link) for link in person.profile.me_links}
        asked: list[tuple[str, bool, User]] = []
        for user in users:
            me = canonical(user.me)
            agrees = me is not None and (me == person.entered or bare(me) in called)
            if me is not None and (agrees or site_of_me(me) == site):
                asked.append((me, agrees, user))
        asked.sort(key=lambda one: (one[0] != person.entered, not one[1]))
        found = []
        for me, agrees, user in asked[:_MOST_ASKED]:
            try:
                theirs = await self._pages.claims(me)
            except (InvalidRequest, ProfileError):
                continue
            leads = agrees and any(_is_among(other, person.names) for other in theirs.others)
            if leads or not person.names.isdisjoint(theirs.trail.names):
                found.append(user)
        return found


class KnownAddresses:
    """Whether an address is a user's, as it is remembered for some seconds: asking is cheap, however often."""

    def __init__(self, accounts: Accounts, clock: Callable[[], float] = time.monotonic) -> None:
        self._accounts = accounts
        self._clock = clock
        self._known: frozenset[str] = frozenset()
        self._until = float("-inf")

    async def has(self, me: str) -> bool:
        """Whether `me` (canonical) is written like that in some account."""
        if self._clock() >= self._until:
            self._until = self._clock() + USER_ADDRESSES
            self._known = frozenset(found for user in await self._accounts.users() if (found := canonical(user.me)))
        return me in self._known


def proven(entered: str, returned: str, profile: Profile, claims: ProfileClaims) -> ConfirmedPerson:
    """The person that a provider means by `returned` (canonical), whose page leads to `profile`."""
    others = {name for name in profile.names if bare(name) == bare(returned)}
    if returned.startswith("https:"):
        others = {name for name in others if name.startswith("https:")}
    return ConfirmedPerson(returned, frozenset({returned, *others}), entered, profile, claims)


def is_named(user: User, names: frozenset[str]) -> bool:
    """Whether the user's address is one of `names`, or such a one by http where the name is proven by https."""
    me = canonical(user.me)
    return me is not None and _is_among(me, names)


def _is_among(me: str, names: frozenset[str]) -> bool:
    """Whether `me` is one of the proven names, or would be by https, which proves more."""
    return me in names or (me.startswith("http:") and f"https:{me[5:]}" in names)


def canonical(me: str) -> str | None:
    """The canonical form of an account's address; None for none."""
    try:
        return canonical_me(me, private=True) if me else None
    except InvalidRequest:
        return None


def _none_of(users: list[User], person: ConfirmedPerson) -> Refusal:
    """Why somebody is none of the users: one of them may have moved, or be written in a way that isn't proven."""
    known = {me: user for user in users if (me := canonical(user.me)) is not None}
    if person.entered in known and site_of_me(person.entered) != site_of_me(person.me):
        return another(person.entered, person.me)
    alike = next((me for me in known if bare(me) == bare(person.me)), None)
    return unproven(alike, person.me) if alike is not None else unknown(person.me)


def another(account: str, me: str) -> Refusal:
    """The refusal of somebody whose provider means another person than the account's page."""
    return Refusal(
        "Your provider says that you are somebody else",
        f"There is an account for {account}, but your provider says that you are {me}, and the page of the account "
        f"doesn't name that address. If both are yours, let {account} redirect there for good, or put a link with "
        f"rel=me into its head. To sign in as {me}, begin with that address.",
    )


def unproven(account: str, me: str) -> Refusal:
    """The refusal of somebody whose address is nearly that of an account."""
    return Refusal(
        "That is nearly the address of an account",
        f"You have shown that you are {me}. There is an account for {account}, which is another address unless one of "
        "them redirects to the other for good. Sign in with the address of the account, or ask the admin.",
    )


def unknown(me: str) -> Refusal:
    """The refusal of somebody who isn't a user."""
    return Refusal(
        "You have no account here",
        f"You have shown that you are {me}, but this server has no account for that address. If you should have one, "
        "ask the admin to add it, written exactly like that.",
        stranger=True,
    )


def disabled(me: str) -> Refusal:
    """The refusal of a user who was disabled."""
    return Refusal("Your account is disabled", f"The account of {me} was disabled. Ask the admin of this server.")


def bare(me: str) -> str:
    """A canonical address without what spellings of it differ in: scheme, `www.` and one slash at the end."""
    return re.sub(r"\Ahttps?://(www\.)?", "", me).removesuffix("/")


log = structlog.get_logger(__name__)

UNFIT = RESERVED | {"admin", "administrator", "anonymous", "everybody", "me", "microsub", "nobody", "root", "system"}
"""Names that mean something to the protocol, or would to people."""

LONGEST_ACCOUNT_NAME = 48
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
        refusal = registration_refused(await self._settings(), person.me, users, private=self._private)
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
        for name in account_names(person.me, {user.name for user in users}):
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


def registration_refused(
    settings: Registration, me: str, users: Collection[User], *, private: bool = False
) -> Refusal | None:
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


def account_names(me: str, taken: Collection[str]) -> Iterator[str]:
    """Names for the account of `me` (canonical), the most readable one first; always the same ones, none of them taken.

    From host and path: `ann-example` for https://ann.example/, `social-example-bob` for https://social.example/@bob.
    Names differ in more than upper and lower case. Pure.
    """
    words = f"{site_of_me(me)} {path_of_me(me)}".lower()
    base = (
        re.sub(r"[^a-z0-9_]+", "-", words.replace("xn--", "xn-")).strip("-_")[:LONGEST_ACCOUNT_NAME].rstrip("-_")
        or "user"
    )
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
