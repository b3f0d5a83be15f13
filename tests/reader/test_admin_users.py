"""Users on the admin's page: invited, removed and restored."""

from __future__ import annotations

import pytest

from microsub.accounts import LocalCredentials
from microsub.configuration.model import Quotas, UserSettings
from tests.reader.conftest import ReadingVisitor
from tests.support.reader import Reader
from tests.support.visitor import Shown

USERS = "/admin/users"


@pytest.fixture
async def admin(ann: ReadingVisitor) -> ReadingVisitor:
    """Ann is an admin who has just signed in."""
    await ann.server.accounts.set_admin("ann", True)
    return ann


async def invite(admin: ReadingVisitor, name: str) -> Shown:
    return await admin.browser.submit(await admin.get(USERS), f"{USERS}/invite", name=name)


async def test_a_person_is_invited_and_signs_in(admin: ReadingVisitor) -> None:
    """The link is shown once; its reader chooses a password. Then nobody can be invited to the account again."""
    page = await invite(admin, "bob")
    link = page.tree.css_first("code").text()
    assert link.startswith("https://reader.example/enrol#bob.")
    shown = await admin.get(USERS)
    assert "bob invited" in shown.text
    assert link not in shown.text
    local = admin.server.parts.local.credentials
    code = link.partition("#")[2]
    assert await local.invited(code) == "bob"
    again = (await invite(admin, "bob")).tree.css_first("code").text()
    assert await local.invited(code) is None
    await local.set_password("bob", "hash", admin.server.now, invitation=again.partition("#")[2])
    refused = await invite(admin, "bob")
    assert refused.status == 400
    assert "has an account already" in refused.text
    assert refused.tree.css_first("code") is None or "/enrol" not in refused.text
    assert await local.with_invitation(["bob"]) == set()


@pytest.mark.parametrize("seen", ["address", "visit", "passkey"])
async def test_no_person_is_invited_into_an_account_in_use(admin: ReadingVisitor, seen: str) -> None:
    """An admin can't read as another person: neither one with an address, nor one who was here."""
    server = admin.server
    await server.accounts.add_user("bob", "https://bob.example/" if seen == "address" else "", server.now)
    if seen == "visit":
        await server.parts.activity.note("bob", server.now)
    if seen == "passkey":
        await server.parts.local.credentials.handle("bob")
    assert not (await admin.get(USERS)).tree.css(f"form[action='{USERS}/invite'] button[value=bob]")
    assert (await invite(admin, "bob")).status == 400
    assert await server.parts.local.credentials.with_invitation(["bob"]) == set()


async def test_an_invitation_ends_if_a_password_is_set_meanwhile(
    admin: ReadingVisitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person uses the first link between the look at the account and the second link, which would open it."""
    first = (await invite(admin, "bob")).tree.css_first("code").text().partition("#")[2]
    local = admin.server.parts.local.credentials
    create = LocalCredentials.invite

    async def overtaken(credentials: LocalCredentials, user: str) -> str:
        await local.set_password("bob", "hash", admin.server.now, invitation=first)
        return await create(credentials, user)

    monkeypatch.setattr(LocalCredentials, "invite", overtaken)
    refused = await invite(admin, "bob")
    assert refused.status == 400
    assert "has an account already" in refused.text
    assert await local.with_invitation(["bob"]) == set()
    assert await local.password("bob") == "hash"


@pytest.mark.parametrize("name", ["", "  ", "a b", "x" * 101, "Bob/../ann", "\u202ebob", "ann"])
async def test_a_name_that_cant_be_used_is_refused(admin: ReadingVisitor, name: str) -> None:
    """With the reason on the page, and without a user."""
    before = [user.name for user in await admin.server.accounts.users()]
    page = await invite(admin, name)
    assert page.status == 400
    assert page.tree.css_first("[role=alert]") is not None
    assert [user.name for user in await admin.server.accounts.users()] == before


async def test_a_user_is_removed_and_restored(admin: ReadingVisitor) -> None:
    """At once and for 30 days; then apps and browsers have to sign in again."""
    server = admin.server
    bob = await server.reader("bob", "home")
    page = await admin.get(USERS)
    done = await admin.browser.submit(page, f"{USERS}/remove", name="bob")
    assert done.status == 303
    assert "The user is removed." in (await admin.get(done.location)).text
    user = await server.accounts.user("bob")
    assert user is not None
    assert user.disabled is not None
    assert await server.accounts.tokens("bob") == []
    assert (await bob.client.get(bob.endpoint, params={"action": "channels"}, headers=bob.headers)).status_code in {
        401,
        403,
    }
    done = await admin.browser.submit(await admin.get(done.location), f"{USERS}/restore", name="bob")
    assert "The user is restored." in (await admin.get(done.location)).text
    user = await server.accounts.user("bob")
    assert user is not None
    assert user.disabled is None
    assert [channel.uid for channel in await server.channels.list("bob")] == ["notifications", "home", "saved"]


@pytest.mark.parametrize("name", ["nobody", "", "bo\0b", "BOB", "\u202ebob", "x" * 10_000])
async def test_only_users_are_removed(admin: ReadingVisitor, name: str) -> None:
    """The page doesn't say of anybody else that they are removed."""
    await admin.server.reader("bob", "home")
    refused = await admin.browser.submit(await admin.get(USERS), f"{USERS}/remove", name=name)
    assert refused.status == 404
    assert "There is no user" in refused.text
    assert len(refused.text) < 1000


async def test_an_admin_doesnt_remove_themselves(admin: ReadingVisitor) -> None:
    """There is no button for it, and a form that is sent anyway is refused."""
    await admin.server.reader("bob", "home")
    page = await admin.get(USERS)
    assert not page.tree.css("button[value=ann]")
    refused = await admin.browser.submit(page, f"{USERS}/remove", name="ann")
    assert refused.status == 400
    assert "can’t remove yourself" in refused.text.replace("'", "’")
    user = await admin.server.accounts.user("ann")
    assert user is not None
    assert user.disabled is None


async def test_an_old_sign_in_changes_no_users(admin: ReadingVisitor) -> None:
    """The page says where to confirm the identity, and has no forms for users."""
    await admin.server.reader("bob", "home")
    page = await admin.get(USERS)
    admin.server.clock.advance(3600)
    assert (await admin.browser.submit(page, f"{USERS}/invite", name="carl")).status == 403
    assert (await admin.browser.submit(page, f"{USERS}/remove", name="bob")).status == 403
    assert await admin.server.accounts.user("carl") is None
    later = await admin.get(USERS)
    assert later.tree.css_first("a[href='/account/sign-in']") is not None
    assert not later.tree.css(f"form[action^='{USERS}']")


QUOTAS = f"{USERS}/bob/quotas"


@pytest.fixture
async def bob(admin: ReadingVisitor) -> Reader:
    """Another user, without channels."""
    return await admin.server.reader("bob")


async def test_an_admin_gives_a_user_quotas(admin: ReadingVisitor, bob: Reader) -> None:
    """They apply at once, and no longer once their field is empty; the account's removal takes them along."""
    server = admin.server
    listed = await admin.get(USERS)
    assert listed.tree.css_first(f"a[href='{QUOTAS}']").text() == "Quotas"
    form = await admin.get(QUOTAS)
    assert "For everybody: no limit." in form.text
    assert "For everybody: 200 000 000." in form.text
    saved = await admin.browser.submit(form, QUOTAS, channels="1", requests="0")
    assert saved.location == f"{QUOTAS}?done=yes"
    assert (await admin.get(QUOTAS)).tree.css_first("#channels").attributes["value"] == "1"
    await bob.post(action="channels", name="one")
    assert "1 of 1" in str(await bob.post(403, action="channels", name="two"))
    await admin.browser.submit(await admin.get(QUOTAS), QUOTAS, channels="")
    await bob.post(action="channels", name="two")
    await admin.browser.submit(await admin.get(QUOTAS), QUOTAS, channels="1")
    await server.accounts.disable_user("bob", server.now)
    assert await server.accounts.delete_disabled(await server.accounts.user("bob"))
    assert (await server.declared.everything()).quotas == {}


async def test_backend_json_is_stronger_than_the_page(admin: ReadingVisitor, bob: Reader) -> None:
    """Its fields can't be changed on the page, and say where they are set."""
    server = admin.server
    await server.declared.set_user("bob", UserSettings(quotas=Quotas(channels=1)))
    server.effective.forget()
    form = await admin.get(QUOTAS)
    assert "disabled" in form.tree.css_first("#channels").attributes
    assert "settings.quotas.channels" in form.text
    await admin.browser.submit(form, QUOTAS, channels="5", feeds="7")
    await bob.post(action="channels", name="one")
    await bob.post(403, action="channels", name="two")
    levels = await server.parts.quotas.levels("bob")
    assert (levels.declared.channels, levels.chosen.feeds) == (1, 7)
    await server.declared.set_user("bob", UserSettings(quotas=Quotas(feeds=9)))
    server.effective.forget()
    form = await admin.get(QUOTAS)
    await admin.browser.submit(form, QUOTAS, channels="5")
    await server.declared.set_user("bob", UserSettings())
    server.effective.forget()
    assert (await server.parts.quotas.levels("bob")).chosen == Quotas(channels=5, feeds=7)


@pytest.mark.parametrize(
    ("field", "value"), [("channels", "many"), ("feeds", "-1"), ("posts", "9" * 15), ("saved", "٣"), ("rules", "1.5")]
)
async def test_a_quota_that_is_no_number_changes_nothing(
    admin: ReadingVisitor, bob: Reader, field: str, value: str
) -> None:
    refused = await admin.browser.submit(await admin.get(QUOTAS), QUOTAS, outputs="3", **{field: value})
    assert refused.status == 400
    assert "expected a whole number from 0 to" in refused.tree.css_first("[role=alert]").text()
    assert (await admin.server.declared.everything()).quotas == {}


async def test_the_quotas_of_an_unknown_user(admin: ReadingVisitor) -> None:
    assert (await admin.browser.get(f"{USERS}/nobody/quotas")).status == 404
