"""The page on which people change by what they sign in."""

from __future__ import annotations

import json

import pytest

from microsub.identity.lifetimes import CONFIRMATION
from tests.support.authenticator import Authenticator, b64
from tests.support.local_sign_in import ORIGIN, PASSWORD, options_from, passkey_of, tried, with_passkey
from tests.support.readers import Instance
from tests.support.visitor import Shown, Visitor

PAGE = "/account/sign-in"
NEW = "another long password"


async def changed(visitor: Visitor, password: str = NEW) -> Shown:
    return await visitor.submit(await visitor.get(PAGE), f"{PAGE}/password", password=password, again=password)


async def added(visitor: Visitor, device: Authenticator, name: str = "Stick") -> Shown:
    page = await visitor.get(PAGE)
    asked = await options_from(visitor, page, f"{PAGE}/passkeys/begin")
    answer = json.dumps(device.make(asked["options"]))
    return await visitor.submit(page, f"{PAGE}/passkeys", secret=asked["secret"], answer=answer, name=name)


def later(server: Instance) -> None:
    server.now += CONFIRMATION + 1


@pytest.fixture
async def enrolled(server: Instance) -> Instance:
    """Ann has a password."""
    await server.identity.local.enrolling.set_password("ann", PASSWORD, server.now)
    return server


async def test_a_changed_password_ends_all_other_sessions(enrolled: Instance, ann: Visitor, other: Visitor) -> None:
    """This browser stays signed in, by a new cookie; the old password is no good."""
    await tried(ann)
    await tried(other)
    before = ann.cookies["__Host-microsub-session"]
    assert (await changed(ann)).title == "New password"
    assert (await ann.get("/account")).status == 200
    assert await enrolled.identity.sessions.find(before, enrolled.now) is None
    assert (await other.get("/account")).status == 303
    assert (await tried(other)).status == 403
    assert (await tried(other, password=NEW)).status == 303


async def test_a_changed_password_makes_other_browsers_unknown(
    enrolled: Instance, ann: Visitor, other: Visitor
) -> None:
    """A stolen one loses its allowance."""
    await tried(ann)
    await tried(other)
    await changed(ann)
    cookie = other.cookies["__Host-microsub-devices"]
    assert not await enrolled.identity.local.recognising._store.knows_device("ann", cookie, enrolled.now)


async def test_an_old_sign_in_changes_nothing_unconfirmed(enrolled: Instance, ann: Visitor) -> None:
    """Ten minutes later every form of the page is gone, and refused when it is sent all the same."""
    device = await passkey_of(enrolled)
    await tried(ann)
    page = await ann.get(PAGE)
    later(enrolled)
    for action, fields in [
        (f"{PAGE}/password", {"password": NEW, "again": NEW}),
        (f"{PAGE}/passkeys", {"secret": "x", "answer": "{}", "name": "x"}),
        (f"{PAGE}/passkeys/name", {"name": "mine now"}),
        (f"{PAGE}/passkeys/remove", {}),
    ]:
        shown = await ann.submit(page, action, **fields)
        assert shown.status == 403, action
        assert "Show first that it is you" in shown.text
    part = page.tree.css_first("[data-passkey=make]")
    token = {part.attributes["data-token-field"]: part.attributes["data-token"]}
    assert (await ann.post(f"{PAGE}/passkeys/begin", token)).status == 403
    assert f"{PAGE}/password" not in (await ann.get(PAGE)).response.text
    (kept,) = (await enrolled.identity.local.recognising.overview("ann")).passkeys
    assert (kept.id, kept.name) == (b64(device.id), "Stick")


async def test_a_password_confirms_for_ten_minutes(enrolled: Instance, ann: Visitor) -> None:
    """In this session alone; a wrong one doesn't."""
    await tried(ann)
    later(enrolled)
    page = await ann.get(PAGE)
    shown = await ann.submit(page, f"{PAGE}/confirm", password="wrong")
    assert shown.status == 403
    assert "The password is not right." in shown.text
    assert (await ann.submit(page, f"{PAGE}/confirm", password=PASSWORD)).location == PAGE
    assert (await changed(ann)).title == "New password"


async def test_a_confirmation_is_the_sessions_own(enrolled: Instance, ann: Visitor, other: Visitor) -> None:
    """Another browser of the same user has to confirm itself."""
    await tried(ann)
    await tried(other)
    later(enrolled)
    await ann.submit(await ann.get(PAGE), f"{PAGE}/confirm", password=PASSWORD)
    assert "Show that it is you" not in (await ann.get(PAGE)).text
    assert "Show that it is you" in (await other.get(PAGE)).text


async def test_guesses_at_a_confirmation_are_slowed(enrolled: Instance, ann: Visitor) -> None:
    """Somebody who found the browser open can't try for ever."""
    await tried(ann)
    later(enrolled)
    statuses = []
    while 429 not in statuses:
        page = await ann.get(PAGE)
        statuses.append((await ann.submit(page, f"{PAGE}/confirm", password="wrong")).status)
    assert set(statuses) == {403, 429}
    page = await ann.get(PAGE)
    assert (await ann.submit(page, f"{PAGE}/confirm", password=PASSWORD)).status == 429


async def test_a_passkey_confirms(enrolled: Instance, ann: Visitor) -> None:
    """One's own; another user's doesn't, though it is good."""
    await enrolled.accounts.add_user("bob", "", enrolled.now)
    mine, bobs = await passkey_of(enrolled), await passkey_of(enrolled, "bob")
    await with_passkey(ann, mine)
    later(enrolled)
    for device, status in ((bobs, 403), (mine, 303)):
        page = await ann.get(PAGE)
        asked = await options_from(ann, page, f"{PAGE}/confirm/passkey/begin")
        answer = json.dumps(device.use(asked["options"]))
        shown = await ann.submit(page, f"{PAGE}/confirm/passkey", secret=asked["secret"], answer=answer)
        assert shown.status == status
    assert (await changed(ann)).title == "New password"


async def test_who_has_neither_signs_in_again(server: Instance, ann: Visitor, signed_in) -> None:
    """Somebody who came by their own site and wants a password: at once, or after signing in once more."""
    await signed_in(ann)
    assert f"{PAGE}/password" in (await ann.get(PAGE)).response.text
    later(server)
    page = await ann.get(PAGE)
    assert f"{PAGE}/password" not in page.response.text
    assert "/sign-in?next=/account/sign-in" in page.response.text


async def test_passkeys_are_added_renamed_and_removed(enrolled: Instance, ann: Visitor, other: Visitor) -> None:
    """Several of them, each by its name."""
    await tried(ann)
    first, second = Authenticator(ORIGIN), Authenticator(ORIGIN)
    assert (await added(ann, first)).location == PAGE
    assert (await added(ann, second, "Telephone")).location == PAGE
    page = await ann.get(PAGE)
    assert "Stick" in page.text
    assert "Telephone" in page.text
    one = {"passkey": b64(first.id)}
    await ann.submit(page, f"{PAGE}/passkeys/name", one, name="<b>Safe</b>")
    page = await ann.get(PAGE)
    assert "<b>Safe</b>" in page.text
    assert "&lt;b&gt;Safe" in page.response.text
    assert (await ann.submit(page, f"{PAGE}/passkeys/name", one, name=" ")).status == 400
    await ann.submit(page, f"{PAGE}/passkeys/remove", one)
    assert (await ann.submit(page, f"{PAGE}/passkeys/remove", one)).status == 404
    assert (await with_passkey(other, first)).status == 403
    assert (await with_passkey(other, second)).status == 303


async def test_nobody_touches_the_passkeys_of_another(enrolled: Instance, ann: Visitor) -> None:
    """Their ids mean nothing in one's own account."""
    await enrolled.accounts.add_user("bob", "", enrolled.now)
    mine, bobs = await passkey_of(enrolled), await passkey_of(enrolled, "bob")
    await with_passkey(ann, mine)
    page = await ann.get(PAGE)
    for action in ("remove", "name"):
        shown = await ann.submit(page, f"{PAGE}/passkeys/{action}", passkey=b64(bobs.id), name="x")
        assert shown.status == 404
    assert len((await enrolled.identity.local.recognising.overview("bob")).passkeys) == 1


async def test_the_page_is_for_who_is_signed_in(server: Instance, ann: Visitor) -> None:
    """Others are sent to the sign-in, and back afterwards."""
    assert (await ann.get(PAGE)).location == "/sign-in?next=%2Faccount%2Fsign-in"
