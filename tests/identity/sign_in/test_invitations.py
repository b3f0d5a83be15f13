"""One-time links: what users can set up with them, and what they end."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator

import pytest

from microsub.accounts.credentials import InvitationSpent
from microsub.accounts.sessions import Sessions
from microsub.accounts.store import Accounts
from microsub.base.errors import NotFound
from microsub.identity.local_sign_in import LocalSignIn
from microsub.identity.passkeys import PasskeyMessage
from microsub.redis.protocol import Redis
from tests.support.authenticator import Authenticator
from tests.support.one_reader import ANN, NOW
from tests.support.visitor import ORIGIN, PASSWORD, SESSION, Shown, Visitor, begin_session, options_from, tried
from tests.support.world import World


async def code_for(server: World, user: str = "ann") -> str:
    return await server.parts.local.credentials.invite(user)


async def chosen(visitor: Visitor, code: str, password: str = PASSWORD, again: str | None = None) -> Shown:
    page = await visitor.get("/enrol")
    return await visitor.submit(
        page, "/enrol/password", code=code, password=password, again=password if again is None else again
    )


async def test_an_invitation_is_written_in_whole_sentences(ann: Visitor) -> None:
    """Sentences are separated by a space, also after a condition."""
    assert ". This link works once" in (await ann.get("/enrol")).tree.css_first("main [data-invited]").parent.text()


async def test_a_link_is_good_once(server: World, ann: Visitor, other: Visitor) -> None:
    """The second user of the link gets an error, and nothing changes."""
    code = await code_for(server)
    await chosen(ann, code)
    shown = await chosen(other, code, "another long password")
    assert shown.status == 400
    assert "already been used" in shown.text
    assert "ask the admin" in shown.text
    assert "You were invited" not in shown.text
    assert not shown.tree.css("main form"), "a form that can't be sent with success"
    assert SESSION not in other.cookies
    assert (await tried(other)).status == 303


async def test_the_welcome_shows_all_lines_without_provider(server: World, ann: Visitor, other: Visitor) -> None:
    """Somebody who signs in with another provider keeps that provider's lines, and needs one more."""
    await chosen(ann, await code_for(server))
    rels = ["indieauth-metadata", "authorization_endpoint", "token_endpoint", "microsub"]
    lines = (await ann.get("/welcome")).tree.css_first("pre").text().splitlines()
    assert [re.findall('rel="([^"]+)"', line) for line in lines] == [[rel] for rel in rels]
    await begin_session(other, server)
    (line, header) = [one.text() for one in (await other.get("/welcome")).tree.css("pre")]
    assert 'rel="microsub"' in line
    assert header.startswith("Link: ")


@pytest.mark.parametrize("code", ["", "ann", "ann.x", "nobody.abc", "ann." + "x" * 43, "x" * 3000])
async def test_invalid_links_are_refused(server: World, ann: Visitor, code: str) -> None:
    """Made-up and truncated links are refused."""
    await code_for(server)
    assert (await chosen(ann, code)).status == 400
    assert SESSION not in ann.cookies


async def test_a_made_up_link_reveals_no_user(server: World, ann: Visitor) -> None:
    """The page is the same for all users, whether they exist, are invited, or have a password or passkey."""
    await server.accounts.add_user("bob", "", server.now)
    await server.accounts.add_user("gone", "", server.now)
    await server.accounts.disable_user("gone", server.now)
    await server.parts.local.set_password("bob", PASSWORD, server.now)
    await code_for(server)
    seen = set()
    for name in ("ann", "bob", "gone", "nobody"):
        for password in (PASSWORD, "short"):
            shown = await chosen(ann, f"{name}.{'x' * 43}", password)
            seen.add((shown.status, shown.text.replace(name, "WHO"), tuple(sorted(shown.response.headers.keys()))))
        page = await ann.get("/enrol")
        part = page.tree.css_first("[data-passkey]")
        token = {part.attributes["data-token-field"]: part.attributes["data-token"]}
        begun = await ann.post("/enrol/passkey/begin", {**token, "code": f"{name}.{'x' * 43}"})
        seen.add((begun.status, begun.text.replace(name, "WHO"), ()))
    assert len(seen) == 2, seen


async def test_a_password_that_cant_be_taken_leaves_the_link_good(server: World, ann: Visitor) -> None:
    """The page names the problem, and its forms still contain the link."""
    code = await code_for(server)
    for password, again, why in [
        ("short", "short", "fewer than 15"),
        (PASSWORD, PASSWORD + "x", "match"),
        ("a" * 20, "a" * 20, "different characters"),
    ]:
        shown = await chosen(ann, code, password, again)
        assert shown.status == 400
        assert why in shown.text
        assert shown.tree.css_first("#code").attributes["value"] == code
        assert password not in shown.response.text
    assert (await chosen(ann, code)).status == 303


async def test_a_link_makes_passkeys_only_for_its_user(server: World, ann: Visitor) -> None:
    """A challenge for bob doesn't work with ann's link."""
    await server.accounts.add_user("bob", "", server.now)
    device = Authenticator(ORIGIN)
    page = await ann.get("/enrol")
    asked = await options_from(ann, page, "/enrol/passkey/begin", code=await code_for(server, "bob"))
    answer = json.dumps(device.make(asked["options"]))
    shown = await ann.submit(
        page, "/enrol/passkey", code=await code_for(server), secret=asked["secret"], answer=answer, name="x"
    )
    assert shown.status == 400
    assert (await server.parts.local.credentials.overview("ann"))[1] == ()


async def test_the_script_asks_whether_the_link_is_still_good(server: World, ann: Visitor) -> None:
    """It asks before the user chooses a password; the answer says what to do."""
    code = await server.parts.local.credentials.invite("ann")

    async def look() -> Shown:
        part = (await ann.get("/enrol")).tree.css_first("[data-look]")
        token = {part.attributes["data-token-field"]: part.attributes["data-token"]}
        return await ann.post(part.attributes["data-look"], {**token, "code": code})

    assert (await look()).status == 204
    await server.parts.local.choose_password(code, PASSWORD, server.now)
    shown = await look()
    assert shown.status == 400
    assert "already been used" in shown.tree.css_first("[role=alert]").text()


PASSWORDS = ("correct horse battery", "another long password")


@pytest.fixture
async def accounts(redis: Redis) -> Accounts:
    made = Accounts(redis)
    await made.add_user(ANN, "https://ann.example/", NOW)
    return made


@pytest.fixture
def local(redis: Redis, accounts: Accounts) -> Iterator[LocalSignIn]:
    made = LocalSignIn(redis)
    yield made
    made.close()


async def test_of_two_concurrent_uses_one_succeeds(local: LocalSignIn) -> None:
    """If somebody uses a copy of the link a moment after its owner, nothing changes."""
    code = await local.credentials.invite(ANN)
    chosen = await asyncio.gather(
        *(local.choose_password(code, password, NOW) for password in PASSWORDS), return_exceptions=True
    )
    assert sorted(type(one).__name__ for one in chosen) == ["InvitationSpent", "str"]
    winner = PASSWORDS[chosen.index(ANN)]
    hashed = await local.credentials.password(ANN)
    right = [await local._passwords.is_right(ANN, hashed, one) for one in PASSWORDS]
    assert right == [one == winner for one in PASSWORDS]


async def test_a_link_for_a_password_isnt_good_for_a_passkey_as_well(local: LocalSignIn) -> None:
    """A challenge that was issued before doesn't help."""
    code, device = await local.credentials.invite(ANN), Authenticator(ORIGIN)
    asked = await local.begin_chosen_passkey(ORIGIN, code)
    await local.choose_password(code, PASSWORDS[0], NOW)
    answered = PasskeyMessage(asked.secret, device.make(asked.content))
    with pytest.raises(InvitationSpent):
        await local.choose_passkey(ORIGIN, code, answered, "x", NOW)
    assert (await local.credentials.overview(ANN))[1] == ()


async def test_every_choice_ends_the_sessions(local: LocalSignIn, redis: Redis) -> None:
    """This holds for a password, for a passkey, and when all credentials are deleted."""
    sessions = Sessions(redis)

    async def ended(cookie: str) -> bool:
        return await sessions.find(cookie, NOW) is None

    cookie = await sessions.begin(ANN, "https://ann.example/", "x", "", NOW)
    await local.choose_password(await local.credentials.invite(ANN), PASSWORDS[0], NOW)
    assert await ended(cookie)
    cookie = await sessions.begin(ANN, "https://ann.example/", "x", "", NOW)
    code, device = await local.credentials.invite(ANN), Authenticator(ORIGIN)
    asked = await local.begin_chosen_passkey(ORIGIN, code)
    await local.choose_passkey(ORIGIN, code, PasskeyMessage(asked.secret, device.make(asked.content)), "x", NOW)
    assert await ended(cookie)
    cookie = await sessions.begin(ANN, "https://ann.example/", "x", "", NOW)
    await local.forget(ANN)
    assert await ended(cookie)
    assert await local.credentials.overview(ANN) == (None, ())


async def test_disabled_users_cant_choose_a_password(local: LocalSignIn, accounts: Accounts) -> None:
    """Neither an earlier link nor the admin makes it possible."""
    code = await local.credentials.invite(ANN)
    await accounts.disable_user(ANN, NOW)
    with pytest.raises(InvitationSpent):
        await local.choose_password(code, PASSWORDS[0], NOW)
    with pytest.raises(NotFound):
        await local.set_password(ANN, PASSWORDS[0], NOW)
