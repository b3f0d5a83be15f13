"""The account page: where one is signed in, and signing out."""

from __future__ import annotations

from tests.support.readers import Instance
from tests.support.visitor import Visitor

END, END_ALL = "/account/sessions/end", "/account/sessions/end-all"


async def test_the_account_lists_sessions_with_device_and_last_use(ann: Visitor, other: Visitor, signed_in) -> None:
    """And says which of them is this browser."""
    await signed_in(ann)
    await signed_in(other)
    page = await ann.get("/account")
    assert "Firefox on Linux (this browser)" in page.text
    assert "Safari on iPhone" in page.text
    assert "last used" in page.text


async def test_another_browser_is_signed_out_from_here(ann: Visitor, other: Visitor, signed_in) -> None:
    """At once."""
    await signed_in(ann)
    theirs = await signed_in(other)
    page = await ann.get("/account")
    assert (await ann.submit(page, END, {"session": theirs.id})).location == "/account"
    assert (await other.get("/account")).status == 303
    assert (await ann.get("/account")).status == 200


async def test_nobody_ends_a_session_of_somebody_else(
    server: Instance, ann: Visitor, other: Visitor, signed_in
) -> None:
    """The id of another user's session means nothing here."""
    await server.accounts.add_user("bob", "https://bob.example/", server.now)
    await signed_in(ann)
    theirs = await signed_in(other, "bob")
    page = await ann.get("/account")
    shown = await ann.submit(page, END, session=theirs.id)
    assert shown.status == 404
    assert (await other.get("/account")).status == 200


async def test_signing_out_everywhere(ann: Visitor, other: Visitor, signed_in) -> None:
    """Includes this browser."""
    await signed_in(ann)
    await signed_in(other)
    shown = await ann.submit(await ann.get("/account"), END_ALL)
    assert shown.title == "You are signed out everywhere"
    for visitor in (ann, other):
        assert (await visitor.get("/account")).status == 303


async def test_signing_out_takes_the_cookie_away(ann: Visitor, signed_in) -> None:
    """And the old value is good for nothing any more."""
    mine = await signed_in(ann)
    old = ann.cookies["__Host-microsub-session"]
    await ann.submit(await ann.get("/account"), END, {"session": mine.id})
    assert "__Host-microsub-session" not in ann.cookies
    ann.client.cookies.set("__Host-microsub-session", old, domain="reader.example", path="/")
    assert (await ann.get("/account")).status == 303


async def test_a_disabled_user_is_signed_out(server: Instance, ann: Visitor, signed_in) -> None:
    """From the next request on."""
    await signed_in(ann)
    await server.accounts.disable_user("ann", server.now)
    assert (await ann.get("/account")).status == 303


async def test_a_session_ends_when_the_name_is_given_to_another_site(server: Instance, ann: Visitor, signed_in) -> None:
    """Who signed in as the old profile URL isn't who the new one means."""
    await signed_in(ann)
    await server.accounts.set_me("ann", "https://elsewhere.example/")
    assert (await ann.get("/account")).status == 303


async def test_another_spelling_of_the_address_signs_nobody_out(server: Instance, ann: Visitor, signed_in) -> None:
    """An account is one identity however its URL is written."""
    await signed_in(ann)
    for me in ("https://ann.example", "HTTPS://Ann.Example/", "https://ann.example:443/"):
        await server.accounts.set_me("ann", me)
        assert (await ann.get("/account")).status == 200, me
    await server.accounts.set_me("ann", "https://ann.example/other")
    assert (await ann.get("/account")).status == 303


async def test_a_browser_gets_a_new_secret_every_day(server: Instance, ann: Visitor, signed_in) -> None:
    """And stays signed in; a form that was opened before is still good."""
    await signed_in(ann)
    page = await ann.get("/account")
    first = ann.cookies["__Host-microsub-session"]
    server.now += 2 * 86_400
    assert (await ann.get("/account")).status == 200
    second = ann.cookies["__Host-microsub-session"]
    assert second != first
    assert (await ann.get("/account")).status == 200
    assert ann.cookies["__Host-microsub-session"] == second
    assert (await ann.submit(page, "/sign-out")).title == "You are signed out"
    for old in (first, second):
        ann.client.cookies.set("__Host-microsub-session", old, domain="reader.example", path="/")
        assert (await ann.get("/account")).status == 303
