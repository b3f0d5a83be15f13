"""What people choose by a one-time link, and what ends by it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from microsub.errors import InvalidRequest, NotFound
from microsub.identity.local.login import LocalIdentity
from microsub.identity.local.passkeys import PasskeyAnswer
from microsub.identity.sign_in.sessions import Sessions
from microsub.identity.store.accounts import Accounts
from microsub.identity.store.credentials import InvitationSpent
from microsub.identity.store.sessions import SessionStore
from microsub.redis.protocol import Redis
from microsub.wiring.local import make_local
from tests.support.authenticator import Authenticator
from tests.support.one_reader import ANN, NOW

ORIGIN = "https://reader.example"
PASSWORDS = ("correct horse battery", "another long password")


@pytest.fixture
async def accounts(redis: Redis) -> Accounts:
    made = Accounts(redis)
    await made.add_user(ANN, "https://ann.example/", NOW)
    return made


@pytest.fixture
def local(redis: Redis, accounts: Accounts) -> Iterator[LocalIdentity]:
    made = make_local(redis)
    yield made
    made.close()


async def test_of_two_at_once_one_gets_in(local: LocalIdentity) -> None:
    """Who has copied a link and is a moment later than its owner changes nothing."""
    code = await local.enrolling.invite(ANN)
    chosen = await asyncio.gather(
        *(local.enrolling.choose_password(code, password, NOW) for password in PASSWORDS), return_exceptions=True
    )
    assert sorted(type(one).__name__ for one in chosen) == ["InvitationSpent", "str"]
    winner = PASSWORDS[chosen.index(ANN)]
    passwords = local.recognising._passwords
    assert [await passwords.is_right(ANN, one) for one in PASSWORDS] == [one == winner for one in PASSWORDS]


async def test_a_link_for_a_password_isnt_good_for_a_passkey_as_well(local: LocalIdentity) -> None:
    """A challenge that was given out before doesn't help."""
    code, device = await local.enrolling.invite(ANN), Authenticator(ORIGIN)
    asked = await local.enrolling.ask_for_passkey(ORIGIN, code)
    await local.enrolling.choose_password(code, PASSWORDS[0], NOW)
    answered = PasskeyAnswer(asked.secret, device.make(asked.options))
    with pytest.raises(InvitationSpent):
        await local.enrolling.choose_passkey(ORIGIN, code, answered, "x", NOW)
    assert (await local.recognising.overview(ANN)).passkeys == ()


async def test_a_bad_choice_leaves_the_link_good(local: LocalIdentity) -> None:
    """Only what was set uses it up."""
    code = await local.enrolling.invite(ANN)
    with pytest.raises(InvalidRequest):
        await local.enrolling.choose_password(code, "short", NOW)
    with pytest.raises(InvalidRequest):
        await local.enrolling.choose_passkey(ORIGIN, code, PasskeyAnswer("x", {}), "x", NOW)
    assert await local.enrolling.invited(code) == ANN


async def test_every_choice_ends_the_sessions(local: LocalIdentity, redis: Redis) -> None:
    """By password and by passkey; and all at once when everything is forgotten."""
    sessions = Sessions(SessionStore(redis))

    async def ended(cookie: str) -> bool:
        return await sessions.find(cookie, NOW) is None

    cookie = await sessions.begin(ANN, "https://ann.example/", "x", "", NOW)
    await local.enrolling.choose_password(await local.enrolling.invite(ANN), PASSWORDS[0], NOW)
    assert await ended(cookie)
    cookie = await sessions.begin(ANN, "https://ann.example/", "x", "", NOW)
    code, device = await local.enrolling.invite(ANN), Authenticator(ORIGIN)
    asked = await local.enrolling.ask_for_passkey(ORIGIN, code)
    await local.enrolling.choose_passkey(
        ORIGIN, code, PasskeyAnswer(asked.secret, device.make(asked.options)), "x", NOW
    )
    assert await ended(cookie)
    cookie = await sessions.begin(ANN, "https://ann.example/", "x", "", NOW)
    await local.enrolling.forget(ANN)
    assert await ended(cookie)
    overview = await local.recognising.overview(ANN)
    assert (overview.password_since, overview.passkeys) == (None, ())


async def test_nobody_who_is_disabled_chooses_anything(local: LocalIdentity, accounts: Accounts) -> None:
    """Neither by a link from before nor by whoever runs the server."""
    code = await local.enrolling.invite(ANN)
    await accounts.disable_user(ANN, NOW)
    with pytest.raises(InvitationSpent):
        await local.enrolling.choose_password(code, PASSWORDS[0], NOW)
    with pytest.raises(NotFound):
        await local.enrolling.set_password(ANN, PASSWORDS[0], NOW)
