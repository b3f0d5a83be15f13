"""Who gets an account by signing in, under what name, and that it is one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from microsub.configuration.model import Registration
from microsub.identity.protocol.identifiers import canonical_me
from microsub.identity.protocol.links import Endpoints
from microsub.identity.protocol.replies import ProfileClaims
from microsub.identity.sign_in.admission import (
    UNFIT,
    Admitted,
    ConfirmedPerson,
    OpenAdmission,
    Refusal,
    UsersOnly,
    account_names,
    proven,
    registration_refused,
)
from microsub.identity.sign_in.profiles import Claims, Profile, RedirectTrail
from microsub.identity.store.accounts import Accounts, User
from microsub.model.reader import NAME, NOTIFICATIONS
from microsub.redis.protocol import Redis
from microsub.timelines.store.channels import Channels

NOW = 1_700_000_000.0
EVERYBODY = Registration("everybody")


class NoPages:
    """Nobody's page says anything of others."""

    async def claims(self, me: str) -> Claims:
        return Claims(RedirectTrail(me, frozenset({me})), ())


def person(me: str, *spellings: str, entered: str | None = None) -> ConfirmedPerson:
    profile = Profile(spellings[-1] if spellings else me, frozenset({me, *spellings}), Endpoints(), None, me)
    return proven(entered or me, me, profile, ProfileClaims())


def admission(redis: Redis, registration: Registration = EVERYBODY) -> OpenAdmission:
    async def in_force() -> Registration:
        return registration

    accounts = Accounts(redis)
    return OpenAdmission(accounts, UsersOnly(accounts, NoPages()), in_force, clock=lambda: NOW)


@pytest.mark.parametrize(
    ("me", "name"),
    [
        ("https://ann.example/", "ann-example"),
        ("https://www.ann.example/", "ann-example"),
        ("https://social.example/@Bob", "social-example-bob"),
        ("https://ann.example/~me/?x=1", "ann-example-me-x-1"),
        ("https://ann_b.example/", "ann_b-example"),
        ("https://xn--bcher-kva.example/", "xn-bcher-kva-example"),
        (f"https://{'a' * 60}.example/", "a" * 48),
    ],
)
def test_names_are_readable(me: str, name: str) -> None:
    """They are made of host and path."""
    assert next(account_names(me, ())) == name


def test_names_that_are_taken_or_mean_something_get_a_number() -> None:
    """Upper and lower case don't make two names."""
    assert next(account_names("https://ann.example/", {"Ann-Example"})) == "ann-example-2"
    assert next(account_names("https://ann.example/", {"ann-example", "ann-example-2"})) == "ann-example-3"
    assert next(account_names("https://global/", ())) == "global-2"


HOSTS = st.from_regex(r"([a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?\.){0,5}[a-z]{2,10}", fullmatch=True)
PATHS = st.text(min_size=0, max_size=80)


@settings(max_examples=300, deadline=None)
@given(HOSTS, PATHS, st.sets(st.sampled_from(["a-bc", "user", "global-2"])))
def test_every_person_has_a_name(host: str, path: str, taken: set[str]) -> None:
    """In the form that names have, free, without a meaning; and always the same ones in the same order."""
    try:
        me = canonical_me(f"https://{host}/{path}")
    except Exception:
        return
    several = [name for name, _ in zip(account_names(me, taken), range(20), strict=False)]
    assert len({name.lower() for name in several}) == 20
    assert all(NAME.match(name) for name in several)
    assert not {name.lower() for name in several} & {*UNFIT, *(name.lower() for name in taken)}
    assert several == [name for name, _ in zip(account_names(me, taken), range(20), strict=False)]


@pytest.mark.parametrize(
    ("registration", "me", "allowed"),
    [
        (Registration(), "https://ann.example/", False),
        (Registration("everybody"), "https://ann.example/", True),
        (Registration("everybody"), "http://ann.example/", False),
        (Registration("everybody", refuse=("ann.example",)), "https://ann.example/", False),
        (Registration("everybody", refuse=("ann.example",)), "https://sub.ann.example/x", False),
        (Registration("everybody", refuse=("ann.example",)), "https://joann.example/", True),
        (
            Registration("everybody", refuse=("https://www.host.example/mallory/",)),
            "https://host.example/mallory",
            False,
        ),
        (Registration("everybody", refuse=("https://host.example/mallory",)), "https://host.example/bob", True),
        (Registration("domains", ("host.example",)), "https://host.example/bob", True),
        (Registration("domains", ("host.example",)), "https://bob.host.example/", True),
        (Registration("domains", ("host.example",)), "https://ghost.example/", False),
        (Registration("domains", ("host.example",)), "https://host.example.evil.example/", False),
        (Registration("domains", ("host.example",)), "https://evil.example/host.example", False),
        (Registration("domains", ("host.example",), refuse=("bob.host.example",)), "https://bob.host.example/", False),
        (Registration("domains", ("bücher.example",)), "https://xn--bcher-kva.example/", True),
        (Registration("nobody", ("host.example",)), "https://host.example/", False),
    ],
)
def test_who_may_register(registration: Registration, me: str, allowed: bool) -> None:
    """By settings and proven address; what is refused is refused within what is allowed."""
    assert (registration_refused(registration, me, ()) is None) is allowed


def test_there_is_an_end_to_it() -> None:
    """Only those count who registered themselves, whether they are still let in or not."""
    users = [User("a", "", registered=True), User("b", "", registered=True, disabled=NOW), User("c", "")]
    assert registration_refused(Registration("everybody", most=2), "https://ann.example/", users) is not None
    assert registration_refused(Registration("everybody", most=3), "https://ann.example/", users) is None
    assert registration_refused(Registration("everybody", most=0), "https://ann.example/", users) is None


async def test_an_account_is_made_once(real_redis: Redis) -> None:
    """With the channel notifications; the next time it is found, also after registration was closed."""
    made = await admission(real_redis).admit(person("https://ann.example/"))
    assert made == Admitted("ann-example", "https://ann.example/", new=True)
    [user] = await Accounts(real_redis).users()
    assert (user.name, user.registered, user.created) == ("ann-example", True, NOW)
    assert [channel.uid for channel in await Channels(real_redis).list("ann-example")] == [NOTIFICATIONS]
    for registration in (EVERYBODY, Registration()):
        found = await admission(real_redis, registration).admit(person("https://ann.example/"))
        assert found == Admitted("ann-example", "https://ann.example/")


async def test_nobody_by_default(real_redis: Redis) -> None:
    """The refusal is that of an address that is unknown, and nothing is written."""
    verdict = await admission(real_redis, Registration()).admit(person("https://ann.example/"))
    assert isinstance(verdict, Refusal)
    assert verdict.title == "You have no account here"
    assert await Accounts(real_redis).users() == []


async def test_many_at_once_make_one_account(real_redis: Redis) -> None:
    """The same person in many browsers, and others beside them whose names would be the same."""
    people = [person("https://a.b-c.example/")] * 10 + [person("https://a-b.c.example/")] * 10
    verdicts = await asyncio.gather(*(admission(real_redis).admit(one) for one in people))
    assert all(isinstance(one, Admitted) for one in verdicts)
    users = {user.me: user.name for user in await Accounts(real_redis).users()}
    assert sorted(users.values()) == ["a-b-c-example", "a-b-c-example-2"]
    for one, verdict in zip(people, verdicts, strict=True):
        assert isinstance(verdict, Admitted)
        assert verdict.user == users[one.me]


async def test_what_a_crash_left_unlisted_is_found_again(real_redis: Redis) -> None:
    """A user that isn't in the list is taken up by its owner."""
    await admission(real_redis).admit(person("https://ann.example/"))
    await real_redis.command("SREM", "users", "ann-example")
    again = await admission(real_redis).admit(person("https://ann.example/"))
    assert again == Admitted("ann-example", "https://ann.example/", new=True)
    assert [user.name for user in await Accounts(real_redis).users()] == ["ann-example"]


@pytest.mark.parametrize(
    ("account", "proven_by", "spellings"),
    [
        ("https://ann.example/", "https://www.ann.example/", ()),
        ("https://ann.example/me", "https://ann.example/me/", ()),
        ("https://ann.example/", "http://ann.example/", ()),
    ],
)
async def test_nearly_an_account_is_none_and_makes_none(
    real_redis: Redis, account: str, proven_by: str, spellings: tuple[str, ...]
) -> None:
    """There would be two accounts of one person, or one that somebody was given for another's."""
    await Accounts(real_redis).add_user("ann", account, NOW)
    verdict = await admission(real_redis).admit(person(proven_by, *spellings))
    assert isinstance(verdict, Refusal)
    assert account in verdict.text
    assert len(await Accounts(real_redis).users()) == 1


async def test_a_page_that_knows_nothing_of_another_gives_no_account_away(real_redis: Redis) -> None:
    """Who begins with one address and proves another is told so, and gets neither that account nor a new one."""
    await Accounts(real_redis).add_user("ann", "https://old.example/", NOW)
    moved = person("https://new.example/", entered="https://old.example/")
    verdict = await admission(real_redis).admit(moved)
    assert isinstance(verdict, Refusal)
    assert "https://old.example/" in verdict.text
    assert [user.me for user in await Accounts(real_redis).users()] == ["https://old.example/"]
    # Whoever has the new site begins anew with it, and has nothing of the old account's.
    fresh = await admission(real_redis).admit(person("https://new.example/"))
    assert fresh == Admitted("new-example", "https://new.example/", new=True)


async def test_who_was_removed_doesnt_register_again(real_redis: Redis) -> None:
    """As long as the account is kept."""
    await admission(real_redis).admit(person("https://ann.example/"))
    await Accounts(real_redis).disable_user("ann-example", NOW)
    verdict = await admission(real_redis).admit(person("https://ann.example/"))
    assert isinstance(verdict, Refusal)
    assert verdict.title == "Your account is disabled"
    assert len(await Accounts(real_redis).users()) == 1


async def test_what_a_provider_says_beside_the_url_proves_nothing(real_redis: Redis) -> None:
    """Neither the claims of a profile nor where the page leads make somebody another person."""
    await Accounts(real_redis).add_user("ann", "https://ann.example/", NOW)
    claims: Any = ProfileClaims(url="https://ann.example/", name="ann")
    leads = Profile(
        "https://ann.example/", frozenset({"https://m.example/", "https://ann.example/"}), Endpoints(), None, ""
    )
    verdict = await admission(real_redis).admit(proven("https://m.example/", "https://m.example/", leads, claims))
    assert verdict == Admitted("m-example", "https://m.example/", new=True)
