"""One-time links."""

from __future__ import annotations

import json

import pytest

from microsub.redis import identitykeys
from tests.support.authenticator import Authenticator
from tests.support.local_sign_in import DEVICES, ORIGIN, PASSWORD, SESSION, options_from, tried, with_passkey
from tests.support.readers import Instance
from tests.support.visitor import Shown, Visitor


async def code_for(server: Instance, user: str = "ann") -> str:
    return await server.identity.local.enrolling.invite(user)


async def chosen(visitor: Visitor, code: str, password: str = PASSWORD, again: str | None = None) -> Shown:
    page = await visitor.get("/enrol")
    return await visitor.submit(
        page, "/enrol/password", code=code, password=password, again=password if again is None else again
    )


async def test_a_link_sets_a_password_and_signs_in(server: Instance, ann: Visitor, other: Visitor) -> None:
    """Then the password is good everywhere."""
    shown = await chosen(ann, await code_for(server))
    assert (shown.status, shown.location) == (303, "/account")
    assert "signed in as ann" in (await ann.get("/account")).text
    assert DEVICES in ann.cookies
    assert (await tried(other)).status == 303


async def test_a_link_is_good_once(server: Instance, ann: Visitor, other: Visitor) -> None:
    """Whoever comes second is told so, and changes nothing."""
    code = await code_for(server)
    await chosen(ann, code)
    shown = await chosen(other, code, "another long password")
    assert shown.status == 400
    assert "used already" in shown.text
    assert "ask the admin" in shown.text
    assert "You were invited" not in shown.text
    assert not shown.tree.css("main form"), "a form that can't be sent with success"
    assert SESSION not in other.cookies
    assert (await tried(other)).status == 303


@pytest.mark.parametrize("code", ["", "ann", "ann.x", "nobody.abc", "ann." + "x" * 43, "x" * 3000])
async def test_what_is_no_link_is_refused(server: Instance, ann: Visitor, code: str) -> None:
    """Made up or cut off."""
    await code_for(server)
    assert (await chosen(ann, code)).status == 400
    assert SESSION not in ann.cookies


async def test_a_made_up_link_tells_nothing_of_its_user(server: Instance, ann: Visitor) -> None:
    """Neither that there is one, nor that they are invited, nor by what they sign in: it is the same page."""
    await server.accounts.add_user("bob", "", server.now)
    await server.accounts.add_user("gone", "", server.now)
    await server.accounts.disable_user("gone", server.now)
    await server.identity.local.enrolling.set_password("bob", PASSWORD, server.now)
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


async def test_a_link_ends_after_a_day(server: Instance, ann: Visitor) -> None:
    """Redis lets go of it."""
    code = await code_for(server)
    await server.redis.command("PEXPIRE", identitykeys.invitation("ann"), 1)
    while await server.redis.command("EXISTS", identitykeys.invitation("ann")):
        pass
    assert (await chosen(ann, code)).status == 400


async def test_a_password_that_cant_be_taken_leaves_the_link_good(server: Instance, ann: Visitor) -> None:
    """The page says what is wrong, and has the link still in its forms."""
    code = await code_for(server)
    for password, again, why in [
        ("short", "short", "fewer than 15"),
        (PASSWORD, PASSWORD + "x", "differ"),
        ("a" * 20, "a" * 20, "different characters"),
    ]:
        shown = await chosen(ann, code, password, again)
        assert shown.status == 400
        assert why in shown.text
        assert shown.tree.css_first("#code").attributes["value"] == code
        assert password not in shown.response.text
    assert (await chosen(ann, code)).status == 303


async def test_a_new_password_ends_all_sessions(server: Instance, ann: Visitor, other: Visitor, signed_in) -> None:
    """Whoever was in the account isn't any more, and no browser is known."""
    await signed_in(other)
    await chosen(ann, await code_for(server))
    assert (await other.get("/account")).status == 303
    assert (await ann.get("/account")).status == 200
    (session,) = await server.identity.sessions.all("ann")
    assert session.how == "with a new password"


async def test_a_link_makes_a_passkey(server: Instance, ann: Visitor, other: Visitor) -> None:
    """Which signs in from then on, while the link is spent."""
    code, device = await code_for(server), Authenticator(ORIGIN)
    page = await ann.get("/enrol")
    asked = await options_from(ann, page, "/enrol/passkey/begin", code=code)
    answer = json.dumps(device.make(asked["options"]))
    sent = {"code": code, "secret": asked["secret"], "answer": answer, "name": "My telephone"}
    shown = await ann.submit(page, "/enrol/passkey", **sent)
    assert (shown.status, shown.location) == (303, "/account")
    assert (await with_passkey(other, device)).status == 303
    again = await ann.get("/enrol")
    assert (await ann.submit(again, "/enrol/passkey", **sent)).status == 400


async def test_no_passkey_without_a_link(server: Instance, ann: Visitor) -> None:
    """Nobody is asked anything for a made-up code."""
    page = await ann.get("/enrol")
    part = page.tree.css_first("[data-passkey]")
    token = {part.attributes["data-token-field"]: part.attributes["data-token"]}
    assert (await ann.post("/enrol/passkey/begin", {**token, "code": "ann.madeup"})).status == 400


async def test_one_users_link_makes_no_passkey_of_another(server: Instance, ann: Visitor) -> None:
    """A challenge that was made for bob isn't good with ann's link."""
    await server.accounts.add_user("bob", "", server.now)
    device = Authenticator(ORIGIN)
    page = await ann.get("/enrol")
    asked = await options_from(ann, page, "/enrol/passkey/begin", code=await code_for(server, "bob"))
    answer = json.dumps(device.make(asked["options"]))
    shown = await ann.submit(
        page, "/enrol/passkey", code=await code_for(server), secret=asked["secret"], answer=answer, name="x"
    )
    assert shown.status == 400
    assert (await server.identity.local.recognising.overview("ann")).passkeys == ()


async def test_the_script_asks_whether_the_link_is_still_good(server: Instance, ann: Visitor) -> None:
    """Before anybody chooses a password; the answer says what to do."""
    code = await server.identity.local.enrolling.invite("ann")

    async def look() -> Shown:
        part = (await ann.get("/enrol")).tree.css_first("[data-look]")
        token = {part.attributes["data-token-field"]: part.attributes["data-token"]}
        return await ann.post(part.attributes["data-look"], {**token, "code": code})

    assert (await look()).status == 204
    await server.identity.local.enrolling.choose_password(code, PASSWORD, server.now)
    shown = await look()
    assert shown.status == 400
    assert "used already" in shown.tree.css_first("[role=alert]").text()
