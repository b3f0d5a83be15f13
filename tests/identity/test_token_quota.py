"""How many tokens a user may have: those of apps that were let in, and the admin's own."""

from __future__ import annotations

import asyncio

import pytest

from microsub.errors import QuotaReached
from microsub.identity.clients import App
from microsub.identity.protocol.clients import AuthorizationRequest, ClientInfo
from microsub.identity.store.accounts import Accounts
from microsub.identity.store.grants import Codes, Consent, Grants, Spent
from microsub.redis import identitykeys
from microsub.redis.protocol import Redis
from tests.support.readers import instance

NOW = 2_000_000_000.0
CONSENT = Consent("ann", "https://app.example/", "An app", "https://app.example/back", frozenset({"read"}))


async def redeem(redis: Redis, code: str, most: int, now: float = NOW) -> Spent:
    spent, issued = await Codes(redis).redeem(code, "", lambda _: True, now, most)
    assert (issued is not None) is spent.good
    return spent


async def test_no_more_than_the_limit_at_once(real_redis: Redis) -> None:
    """Grants and the admin's tokens count together; a code that found no room stays good until there is some."""
    await Accounts(real_redis).add_user("ann", "https://ann.example/", NOW)
    own = await Accounts(real_redis).create_token("ann", ["read"], "command line", NOW)
    codes = [await Codes(real_redis).create(CONSENT, NOW) for _ in range(8)]
    spent = await asyncio.gather(*(redeem(real_redis, code, 4) for code in codes))
    assert sorted(one.value for one in spent) == ["full"] * 5 + ["given"] * 3
    assert await Grants(real_redis).held("ann") == 4
    waiting = codes[spent.index(Spent.FULL)]
    assert await redeem(real_redis, waiting, 4) is Spent.FULL
    [*grants] = await Grants(real_redis).all("ann")
    await Grants(real_redis).end("ann", grants[0].id)
    assert await redeem(real_redis, waiting, 4) is Spent.GIVEN
    assert own


async def test_the_same_answer_again_is_nothing_more(real_redis: Redis) -> None:
    """For apps that ask twice, at the limit too."""
    await Accounts(real_redis).add_user("ann", "https://ann.example/", NOW)
    code = await Codes(real_redis).create(CONSENT, NOW)
    assert await redeem(real_redis, code, 1) is Spent.GIVEN
    assert await redeem(real_redis, code, 1, NOW + 1) is Spent.AGAIN


async def test_what_has_expired_doesnt_count(real_redis: Redis) -> None:
    """Though its name may stand in a list still."""
    await Accounts(real_redis).add_user("ann", "https://ann.example/", NOW)
    await redeem(real_redis, await Codes(real_redis).create(CONSENT, NOW), 0)
    [grant] = await Grants(real_redis).all("ann")
    assert await Grants(real_redis).held("ann") == 1
    await real_redis.command("DEL", identitykeys.grant("ann", grant.id))
    for token in await Accounts(real_redis).tokens("ann"):
        await Accounts(real_redis).revoke("ann", token.digest)
    assert await Grants(real_redis).held("ann") == 0


async def test_people_are_told_before_they_let_an_app_in(real_redis: Redis) -> None:
    """With limit and count."""
    async with instance(real_redis) as server:
        await server.accounts.add_user("ann", "https://ann.example/", server.now)
        await server.accounts.create_token("ann", ["read"], "tests", server.now)
        granting = server.identity.provider
        granting._most = lambda _: asyncio.sleep(0, 1)
        asked = AuthorizationRequest("https://app.example/", "https://app.example/back", "s", ("read",))
        with pytest.raises(QuotaReached) as refusal:
            await granting.agree("ann", asked, App(ClientInfo("https://app.example/")), ["read"], server.now)
        assert (refusal.value.count, refusal.value.limit, refusal.value.status) == (1, 1, 403)
