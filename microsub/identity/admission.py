"""Finds the user to whom a confirmed identity belongs, or the reason why it belongs to none.

An account is one identity, however its URL is written, redirected or moved. A provider's statement about R proves R and
nothing else: if R's page leads to P, that is only R's wish, and P wasn't asked. So the account's own page decides: it
must redirect to R permanently, or link to R with `rel=me`. Anybody who can write that page could also name their own
provider and sign in with it, so they gain nothing. R must agree too, otherwise somebody could make others end up in
their account: R's page must link to the account's with `rel=me`, or R must have begun with the account's URL. Of the
redirects of R's own page, only other spellings of R count: https, with or without `www.` and a trailing slash.
"""

from __future__ import annotations

import re
import time
import tomllib
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from microsub.accounts import Accounts, SignedInPerson, User
from microsub.base import metrics
from microsub.base.errors import InvalidRequest, ProfileError, SignInFailed
from microsub.base.identifiers import known_me, path_of_me, site_of_me
from microsub.base.texts import Sentence
from microsub.base.ttl_cache import TtlCache
from microsub.base.urls import domain, host_of, parts_of, within
from microsub.configuration.model import Registration
from microsub.identity.limits import USER_ADDRESSES
from microsub.identity.profiles import Profile, Profiles
from microsub.model.reader import NAME, RESERVED

log = structlog.get_logger(__name__)

UNFIT = RESERVED | {"admin", "administrator", "anonymous", "everybody", "me", "microsub", "nobody", "root", "system"}
"""Names that have a meaning in the protocol, or would mislead people."""

LONGEST_ACCOUNT_NAME = 48
_NAMES_TO_TRY = 1000
_MOST_ASKED = 3
"""Maximum number of users' pages that one sign-in may fetch, to find out whether they belong to the same person."""


class ConfirmedPerson(NamedTuple):
    """A person confirmed by their provider.

    `me` is the canonical URL that the provider returned, `names` its spellings including itself; nothing else is
    proven. `entered` is the URL with which they began, `me_links` are the `rel=me` links of their page.
    """

    me: str
    names: frozenset[str]
    entered: str
    me_links: tuple[str, ...]


class Refusal(SignInFailed):
    """The reason why a person isn't admitted.

    A `stranger` isn't a user, and probably isn't a user whose address is spelled differently or has moved.
    """

    def __init__(self, name: str, /, *, stranger: bool = False, **values: object) -> None:
        super().__init__(*_said(name, values))
        self.stranger = stranger


def failed(name: str, /, **values: object) -> SignInFailed:
    """The failure with that name in `refusals.toml`, with these values in its sentence."""
    return SignInFailed(*_said(name, values))


def _said(name: str, values: Mapping[str, object]) -> tuple[str, str, int]:
    row = _sentences()[name]
    return row["about"], Sentence(row["text"], **values), row.get("status", 400)


@cache
def _sentences() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("refusals.toml").read_text("utf-8"))


async def no_registration() -> Registration:
    """The settings with which only existing users are admitted."""
    return Registration()


@dataclass(eq=False, repr=False)
class Admission:
    """Admits existing users, and registers others if `settings` allow it.

    `private`: http addresses may register, for machines that aren't publicly reachable.
    """

    accounts: Accounts
    pages: Profiles
    settings: Callable[[], Awaitable[Registration]] = no_registration
    _: KW_ONLY
    private: bool = False
    clock: Callable[[], float] = time.time

    async def admit(self, person: ConfirmedPerson) -> SignedInPerson | Refusal:
        """Admit `person` as an existing or new user, or return the refusal."""
        users = await self.accounts.users()
        verdict = await self._among(users, person)
        if isinstance(verdict, SignedInPerson) or not verdict.stranger:
            return verdict
        settings = await self.settings()
        if settings.open == "nobody":
            return verdict
        refusal = registration_refused(settings, person.me, users, private=self.private)
        if refusal is not None:
            return refusal
        return await self._register(person, users) or Refusal("no-name")

    async def _among(self, users: list[User], person: ConfirmedPerson) -> SignedInPerson | Refusal:
        found = [user for user in users if is_named(user, person.names)] or await self._by_their_pages(users, person)
        match [user for user in found if user.disabled is None]:
            case [user]:
                return SignedInPerson(user.name, user.me)
            case []:
                return Refusal("disabled", me=person.me) if found else _none_of(users, person)
            case several:
                names = " and ".join(f"“{user.name}”" for user in several)
                return Refusal("several-accounts", names=names, me=person.me)

    async def _by_their_pages(self, users: list[User], person: ConfirmedPerson) -> list[User]:
        """The users whose own page confirms that they are this person, if they may be."""
        site = site_of_me(person.me)
        called = {bare(link) for link in person.me_links}
        asked: list[tuple[str, bool, User]] = []
        for user in users:
            me = known_me(user.me)
            agrees = me is not None and (me == person.entered or bare(me) in called)
            if me is not None and (agrees or site_of_me(me) == site):
                asked.append((me, agrees, user))
        asked.sort(key=lambda one: (one[0] != person.entered, not one[1]))
        found = []
        for me, agrees, user in asked[:_MOST_ASKED]:
            try:
                theirs = await self.pages.claims(me)
            except (InvalidRequest, ProfileError):
                continue
            leads = agrees and any(_is_among(other, person.names) for other in theirs.others)
            if leads or not person.names.isdisjoint(theirs.names):
                found.append(user)
        return found

    async def _register(self, person: ConfirmedPerson, users: list[User]) -> SignedInPerson | None:
        """Create the account, or find the one that was created for the same person just now.

        All processes try the same names in the same order, so if two create the same user, the second finds the first.
        """
        for name in account_names(person.me, {user.name for user in users}):
            now = self.clock()
            user = await self.accounts.register(name, person.me, now)
            if user.disabled is None and is_named(user, person.names):
                if user.me == person.me and user.created == now:
                    metrics.REGISTRATIONS.inc()
                    log.info("an account was registered", user=name, me=person.me)
                return SignedInPerson(name, user.me, new=True)
            if bare(known_me(user.me) or "") == bare(person.me):
                return None
        return None


_Addresses = tuple[frozenset[str], Mapping[str, str], frozenset[str]]
"""All known `me`; user names by names in lower case and by addresses without scheme; hosts of the addresses of users
that the admin has added.
"""


class UserAddresses:
    """The addresses of all users, cached for a few seconds, so that frequent checks are cheap.

    `clock` returns seconds; `hosted_profile` is the profile URL of a user without an own one.
    """

    def __init__(
        self,
        accounts: Accounts,
        hosted_profile: Callable[[str], str] = lambda _: "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._accounts = accounts
        self._hosted_profile = hosted_profile
        self._read: TtlCache[_Addresses] = TtlCache(lifetime=USER_ADDRESSES, failures=0, most=1, clock=clock)

    async def has(self, me: str) -> bool:
        """Whether an account has exactly this `me` (canonical)."""
        known, _, _ = await self._all()
        return me in known

    async def has_host(self, host: str) -> bool:
        """Whether a user's address is at that host; only users that the admin has added count.

        Registered users could point a host name anywhere.
        """
        _, _, hosts = await self._all()
        return host in hosts

    async def meant(self, typed: str) -> str:
        """The user name for a name or an address; for an unknown one, a name that no user can have.

        A name with capitals, as phones write them, may be that of a user in another case. It doesn't say whether the
        user may sign in.
        """
        text = typed.strip()
        if (is_name := NAME.match(text) is not None) and text.islower():
            return text
        key = text.casefold() if is_name else _schemeless(known_me(text) or "")
        _, names, _ = await self._all()
        return names.get(key, text)

    async def _all(self) -> _Addresses:
        return await self._read.get("", self._find)

    async def _find(self) -> _Addresses:
        users = await self._accounts.users()
        known = frozenset(me for user in users if (me := known_me(user.me)))
        hosts = frozenset(host_of(user.me) for user in users if user.disabled is None and not user.registered)
        found: dict[str, str] = {}
        shared: set[str] = set()  # an address that several users have identifies none of them, nor does such a name
        for user in users:
            me = known_me(user.me or self._hosted_profile(user.name)) or ""
            for key in (user.name.casefold(), _schemeless(me)) if user.disabled is None else ():
                if key in found:
                    shared.add(key)
                found[key] = user.name
        return known, {key: name for key, name in found.items() if key and key not in shared}, hosts


def _schemeless(me: str) -> str:
    """The address without its scheme, which doesn't matter for finding the user whose password is checked."""
    return me.partition("://")[2]


def proven(entered: str, returned: str, profile: Profile) -> ConfirmedPerson:
    """The person that a provider's `returned` URL (canonical) proves, whose page leads to `profile`."""
    others = {name for name in profile.names if bare(name) == bare(returned)}
    if returned.startswith("https:"):
        others = {name for name in others if name.startswith("https:")}
    return ConfirmedPerson(returned, frozenset({returned, *others}), entered, profile.me_links)


def is_named(user: User, names: frozenset[str]) -> bool:
    """Whether the user's address is one of `names`, also if the account has it with http."""
    me = known_me(user.me)
    return me is not None and _is_among(me, names)


def _is_among(me: str, names: frozenset[str]) -> bool:
    """Whether `me` is one of the proven names, or would be with https, which proves more."""
    return me in names or (me.startswith("http:") and f"https:{me[5:]}" in names)


def bare(me: str) -> str:
    """A canonical address without scheme, `www.` and one trailing slash."""
    return re.sub(r"\Ahttps?://(www\.)?", "", me).removesuffix("/")


def _none_of(users: list[User], person: ConfirmedPerson) -> Refusal:
    """The reason why a person isn't one of the users: one may have moved, or have a different spelling."""
    known = {me: user for user in users if (me := known_me(user.me)) is not None}
    me, account = person.me, person.entered
    if account in known and site_of_me(account) != site_of_me(me):
        return Refusal("another-person", account=account, me=me)
    alike = next((other for other in known if bare(other) == bare(me)), None)
    if alike is not None:
        return Refusal("nearly-an-account", me=me, alike=alike)
    return Refusal("no-account", me=me, stranger=True)


def registration_refused(
    settings: Registration, me: str, users: Collection[User], *, private: bool = False
) -> Refusal | None:
    """The reason why a person who has proven `me` (canonical) can't register; None if they can. Pure.

    See `Admission`.
    """
    if not private and not me.startswith("https:"):
        return Refusal("address-without-https", me=me)
    host = parts_of(me).hostname or ""
    allowed = settings.open == "everybody" or (settings.open == "domains" and _is_within(host, settings.domains))
    if not allowed or _is_within(host, settings.refuse) or _is_one_of(me, settings.refuse):
        return Refusal("not-admitted", me=me)
    if settings.most and sum(user.registered for user in users) >= settings.most:
        return Refusal("no-place", most=settings.most)
    return None


def account_names(me: str, taken: Collection[str]) -> Iterator[str]:
    """Account names for `me` (canonical), the most readable one first.

    Always the same ones, none of them `taken`. They are derived from host and path: `ann-example` for
    https://ann.example/, `social-example-bob` for https://social.example/@bob. Case is ignored. Pure.
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
    return any(bare(url) == wanted for entry in entries if "://" in entry and (url := known_me(entry)) is not None)
