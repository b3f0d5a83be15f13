"""Codes, grants and refresh tokens: each is valid once, for one app, and their number is limited."""

from __future__ import annotations

import asyncio

import pytest

from microsub.accounts.grants import GRANT, Codes, Consent, Grants, Issued, RedemptionResult
from microsub.accounts.store import Accounts
from microsub.admin.check.look import look
from microsub.base.errors import Unauthorized
from microsub.redis import keys
from microsub.redis.protocol import Redis
from tests.support.invariants import all_keys

NOW = 2_000_000_000.0
APP = "https://app.example/"
CONSENT = Consent("ann", APP, "An app", f"{APP}back", frozenset({"read", "follow"}), "challenge")


def yes(_: Consent) -> bool:
    return True


@pytest.fixture
async def accounts(redis: Redis) -> Accounts:
    made = Accounts(redis)
    await made.add_user("ann", "https://ann.example/", NOW)
    return made


async def is_good(accounts: Accounts, token: str) -> bool:
    credential = accounts.credential(token)
    assert credential is not None
    try:
        await accounts.verify(credential, NOW)
    except Unauthorized:
        return False
    return True


async def test_a_code_gives_either_profile_or_tokens(redis: Redis, accounts: Accounts) -> None:
    """The later redemption revokes the result of the earlier one."""
    codes = Codes(redis)
    for _ in range(5):
        code = await codes.create(CONSENT, NOW)
        await asyncio.gather(
            codes.redeem_profile(code, yes, NOW),
            codes.redeem(code, "v", yes, NOW),
            codes.redeem_profile(code, yes, NOW),
        )
        assert await accounts.tokens("ann") == []
        assert await Grants(redis).all("ann") == []


async def test_a_crash_leaves_all_or_nothing(redis: Redis, accounts: Accounts) -> None:
    """If the process dies before the script, the code is unused; if it dies after it, the app can ask again."""
    codes = Codes(redis)
    code = await codes.create(CONSENT, NOW)
    inner = redis.script

    async def dies_before(*_: object) -> object:
        raise ConnectionError

    async def dies_after(*args: object) -> object:
        await inner(*args)  # type: ignore[arg-type]
        raise ConnectionError

    for death in (dies_before, dies_after):
        redis.script = death  # type: ignore[assignment, method-assign]
        with pytest.raises(ConnectionError):
            await codes.redeem(code, "v", yes, NOW)
        redis.script = inner  # type: ignore[method-assign]
        assert len(await accounts.tokens("ann")) == (1 if death is dies_after else 0)
    spent, issued = await codes.redeem(code, "v", yes, NOW + 1)
    assert spent is RedemptionResult.AGAIN
    assert issued is not None
    assert await is_good(accounts, issued.access)


async def test_keys_of_a_code_share_the_users_slot(redis: Redis, accounts: Accounts) -> None:
    """The record expires an hour after its creation; all keys belong to the user."""
    codes = Codes(redis)
    code = await codes.create(CONSENT, NOW)
    await codes.redeem(code, "v", yes, NOW)
    (record,) = [name for name in await all_keys(redis) if b":code:" in name]
    assert 3000 < await redis.command("TTL", record) <= 3600
    (grant,) = await Grants(redis).all("ann")
    assert await redis.command("TTL", keys.grant("ann", grant.id)) > 0
    (token,) = await accounts.tokens("ann")
    assert await redis.command("TTL", keys.token("ann", token.digest)) > 0


async def test_a_code_redeemed_twice_at_once_gives_one_token(redis: Redis, accounts: Accounts) -> None:
    """All get the same answer, and there is one grant."""
    code = await Codes(redis).create(CONSENT, NOW)
    answers = await asyncio.gather(*(Codes(redis).redeem(code, "v", yes, NOW) for _ in range(8)))
    assert sorted(spent.value for spent, _ in answers) == ["again"] * 7 + ["given"]
    (token,) = {issued.access for _, issued in answers if issued}
    assert await is_good(accounts, token)
    assert len(await accounts.tokens("ann")) == len(await Grants(redis).all("ann")) == 1


@pytest.fixture
async def issued(redis: Redis, accounts: Accounts) -> Issued:
    codes = Codes(redis)
    _, made = await codes.redeem(await codes.create(CONSENT, NOW), "v", yes, NOW)
    assert made is not None
    return made


async def test_a_wrong_secret_for_a_grant_ends_it(redis: Redis, accounts: Accounts, issued: Issued) -> None:
    """Only holders of one of its tokens know the id."""
    wrong = issued.refresh[:-1] + ("a" if issued.refresh[-1] != "a" else "b")
    assert await Grants(redis).renew(wrong, None, NOW) == (RedemptionResult.REUSED, None)
    assert not await is_good(accounts, issued.access)


@pytest.mark.parametrize("text", ["", "ann", "ann.x.y", "ann..", f"ann.{'x' * 22}.y", f"bob.{'x' * 22}.y", "a" * 600])
async def test_an_invalid_refresh_token_is_unknown(redis: Redis, accounts: Accounts, issued: Issued, text: str) -> None:
    """It doesn't change existing grants."""
    assert await Grants(redis).renew(text, None, NOW) == (RedemptionResult.UNKNOWN, None)
    assert await Grants(redis).find(text) is None
    assert await is_good(accounts, issued.access)


async def test_concurrent_renewals_get_the_same_tokens(redis: Redis, accounts: Accounts, issued: Issued) -> None:
    """An app that renews twice at the same moment isn't treated as a thief."""
    answers = await asyncio.gather(*(Grants(redis).renew(issued.refresh, None, NOW) for _ in range(8)))
    assert sorted(renewed.value for renewed, _ in answers) == ["again"] * 7 + ["given"]
    assert len({new.refresh for _, new in answers if new}) == 1
    assert len(await accounts.tokens("ann")) == 2


async def test_access_tokens_of_a_grant_do_not_pile_up(redis: Redis, accounts: Accounts, issued: Issued) -> None:
    """Their number is limited, however often an app renews."""
    grants, refresh = Grants(redis), issued.refresh
    for _ in range(30):
        _, new = await grants.renew(refresh, None, NOW)
        assert new is not None
        refresh = new.refresh
    assert len(await accounts.tokens("ann")) == 9
    assert await is_good(accounts, new.access)


async def test_a_refresh_token_expires(redis: Redis, accounts: Accounts, issued: Issued) -> None:
    """It expires a year after it was issued."""
    assert await Grants(redis).renew(issued.refresh, None, NOW + GRANT) == (RedemptionResult.EXPIRED, None)


async def test_ids_of_grants_that_are_gone_leave_the_list(redis: Redis, accounts: Accounts, issued: Issued) -> None:
    """The ids are removed after the grant's own key has expired."""
    grants = Grants(redis)
    (grant,) = await grants.all("ann")
    await redis.command("DEL", keys.grant("ann", grant.id))
    assert await grants.all("ann") == []
    assert await redis.command("SCARD", keys.grants("ann")) == 0


async def test_the_check_finds_nothing_wrong_with_grants(redis: Redis, accounts: Accounts, issued: Issued) -> None:
    """Codes, grants and their tokens match the descriptions of their keys."""
    await Codes(redis).create(CONSENT, NOW)
    await Grants(redis).renew(issued.refresh, None, NOW)
    assert [found.what for found in (await look(redis, NOW))[0]] == []


async def redeem(redis: Redis, code: str, most: int, now: float = NOW) -> RedemptionResult:
    spent, issued = await Codes(redis).redeem(code, "", lambda _: True, now, most)
    assert (issued is not None) is spent.good
    return spent


async def test_grants_and_tokens_are_limited_together(real_redis: Redis) -> None:
    """Grants and the admin's tokens count together; a code that was refused for this reason stays valid."""
    await Accounts(real_redis).add_user("ann", "https://ann.example/", NOW)
    own = await Accounts(real_redis).create_token("ann", ["read"], "command line", NOW)
    codes = [await Codes(real_redis).create(CONSENT, NOW) for _ in range(8)]
    spent = await asyncio.gather(*(redeem(real_redis, code, 4) for code in codes))
    assert sorted(one.value for one in spent) == ["full"] * 5 + ["given"] * 3
    assert await Grants(real_redis).held("ann") == 4
    waiting = codes[spent.index(RedemptionResult.FULL)]
    assert await redeem(real_redis, waiting, 4) is RedemptionResult.FULL
    [*grants] = await Grants(real_redis).all("ann")
    await Grants(real_redis).end("ann", grants[0].id)
    assert await redeem(real_redis, waiting, 4) is RedemptionResult.GIVEN
    assert own


async def test_a_repeated_answer_makes_no_grant(real_redis: Redis) -> None:
    """Apps that redeem twice get the same answer even at the limit."""
    await Accounts(real_redis).add_user("ann", "https://ann.example/", NOW)
    code = await Codes(real_redis).create(CONSENT, NOW)
    assert await redeem(real_redis, code, 1) is RedemptionResult.GIVEN
    assert await redeem(real_redis, code, 1, NOW + 1) is RedemptionResult.AGAIN


async def test_expired_grants_dont_count(real_redis: Redis) -> None:
    """Expired grants and tokens aren't counted, even if their ids are still listed."""
    await Accounts(real_redis).add_user("ann", "https://ann.example/", NOW)
    await redeem(real_redis, await Codes(real_redis).create(CONSENT, NOW), 0)
    [grant] = await Grants(real_redis).all("ann")
    assert await Grants(real_redis).held("ann") == 1
    await real_redis.command("DEL", keys.grant("ann", grant.id))
    for token in await Accounts(real_redis).tokens("ann"):
        await Accounts(real_redis).revoke("ann", token.digest)
    assert await Grants(real_redis).held("ann") == 0
