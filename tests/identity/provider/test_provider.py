"""Grants of apps, as other services of the product see them."""

from __future__ import annotations

import pytest

from microsub.accounts.store import Accounts
from microsub.base.errors import Forbidden, OAuthRefused
from microsub.identity.clients import ClientApps
from microsub.identity.protocol.clients import App, AuthorizationRequest
from microsub.identity.provider import IndieAuthProvider
from microsub.redis.protocol import Redis
from tests.support.apps import Apps
from tests.support.parsing import PARSER

NOW = 2_000_000_000.0
ONE, TWO = "https://one.example/", "https://two.example/"


@pytest.fixture
async def accounts(redis: Redis) -> Accounts:
    made = Accounts(redis)
    await made.add_user("ann", "https://ann.example", NOW)
    await made.add_user("bob", "https://bob.example/", NOW)
    await made.add_user("nobody", "", NOW)
    return made


@pytest.fixture
def granting(redis: Redis, accounts: Accounts) -> IndieAuthProvider:
    async def any_number(_: str) -> int:
        return 0

    return IndieAuthProvider(redis, ClientApps(Apps(), PARSER, patience=60), any_number)


def asked(client: str = ONE, *scopes: str) -> AuthorizationRequest:
    return AuthorizationRequest(client, f"{client}back", "state", scopes or ("read", "follow"))


async def let_in(
    granting: IndieAuthProvider, user: str = "ann", client: str = ONE, *chosen: str, now: float = NOW
) -> str:
    """The access token of an allowed app."""
    app = App(client, name="One" if client == ONE else None)
    code = await granting.agree(user, asked(client), app, chosen or ("read",), now)
    _, issued = await granting.redeem(code, client, f"{client}back", "", now)
    return issued.access


async def test_apps_are_listed_once_each_the_last_one_first(granting: IndieAuthProvider) -> None:
    """Each app has all its scopes, and the time of consent."""
    await let_in(granting, now=NOW)
    await let_in(granting, "ann", TWO, now=NOW + 10)
    await let_in(granting, "ann", ONE, "follow", now=NOW + 20)
    await let_in(granting, "bob")
    one, two = await granting.apps("ann")
    assert (one.client, one.title, one.scopes, one.times) == (ONE, "One", {"read", "follow"}, 2)
    assert (one.since, one.last) == (NOW, NOW + 20)
    assert (two.client, two.title, two.times) == (TWO, "two.example", 1)


async def test_shutting_out_one_app_and_then_the_other(granting: IndieAuthProvider) -> None:
    """Only this user's grants end."""
    tokens = [await let_in(granting), await let_in(granting), await let_in(granting, "ann", TWO)]
    bobs = await let_in(granting, "bob")
    assert await granting.revoke_app("ann", ONE) == 2
    assert await granting.revoke_app("ann", ONE) == 0
    assert [app.client for app in await granting.apps("ann")] == [TWO]
    assert await granting.revoke_app("ann", TWO) == 1
    for token in tokens:
        assert await granting.introspect(token, token, NOW) is None
    assert await granting.introspect(bobs, bobs, NOW) is not None


async def test_users_without_profile_url_cant_sign_in_elsewhere(
    granting: IndieAuthProvider, accounts: Accounts
) -> None:
    """It is required at consent, and also later."""
    app = App(ONE)
    with pytest.raises(Forbidden, match="disabled"):
        await granting.agree("nobody", asked(), app, ["read"], NOW)
    with pytest.raises(Forbidden):
        await granting.agree("unknown", asked(), app, ["read"], NOW)
    token = await let_in(granting)
    code = await granting.agree("ann", asked(), app, ["read"], NOW)
    await accounts.set_me("ann", "")
    with pytest.raises(OAuthRefused):
        await granting.redeem(code, ONE, f"{ONE}back", "", NOW)
    assert await granting.introspect(token, token, NOW) is None


async def test_replies_have_the_users_current_profile_url(granting: IndieAuthProvider, accounts: Accounts) -> None:
    """A token belongs to an account; its reply has the account's current profile URL in canonical form."""
    code = await granting.agree("ann", asked(), App(ONE), ["read"], NOW)
    (me, _), issued = await granting.redeem(code, ONE, f"{ONE}back", "", NOW)
    assert me == "https://ann.example/"
    await accounts.set_me("ann", "https://ann.example/new")
    (me, _), _ = await granting.renew(issued.refresh, ONE, "", NOW)
    assert me == "https://ann.example/new"
