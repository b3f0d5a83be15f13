"""Refresh tokens: each is good once, and who shows an old one ends the grant."""

from __future__ import annotations

import asyncio

import pytest

from microsub.check.look import look
from microsub.identity.limits import GRANT, TOKEN_OVERLAP
from microsub.identity.store.accounts import Accounts
from microsub.identity.store.grants import Codes, Grants, Issued, Renewed
from microsub.redis import identitykeys
from microsub.redis.protocol import Redis
from tests.store.identity.test_codes import APP, CONSENT, NOW, everything, is_good, yes


@pytest.fixture
async def accounts(redis: Redis) -> Accounts:
    made = Accounts(redis)
    await made.add_user("ann", "https://ann.example/", NOW)
    return made


@pytest.fixture
async def issued(redis: Redis, accounts: Accounts) -> Issued:
    codes = Codes(redis)
    _, made = await codes.redeem(await codes.create(CONSENT, NOW), "v", yes, NOW)
    assert made is not None
    return made


async def test_a_refresh_token_is_exchanged(redis: Redis, accounts: Accounts, issued: Issued) -> None:
    """New tokens of the same grant; the older access token stays good for requests under way, and no longer."""
    grants = Grants(redis)
    later = NOW + 1000
    renewed, new = await grants.renew(issued.refresh, None, later)
    assert renewed is Renewed.GIVEN
    assert new is not None
    assert (new.user, new.client, new.scopes) == ("ann", APP, CONSENT.scopes)
    assert await is_good(accounts, new.access, later)
    assert await is_good(accounts, issued.access, later + TOKEN_OVERLAP - 1)
    assert not await is_good(accounts, issued.access, later + TOKEN_OVERLAP)
    (grant,) = await grants.all("ann")
    assert (grant.created, grant.renewed, grant.expires) == (NOW, later, later + GRANT)
    assert new.refresh.rpartition(".")[2] not in await everything(redis)


async def test_the_same_request_gets_the_same_answer_for_seconds(
    redis: Redis, accounts: Accounts, issued: Issued
) -> None:
    """A reply that was lost on its way is asked for again. Later that ends the grant."""
    grants = Grants(redis)
    _, first = await grants.renew(issued.refresh, None, NOW + 1)
    renewed, second = await grants.renew(issued.refresh, None, NOW + 11)
    assert (renewed, second) == (Renewed.AGAIN, first)
    assert first is not None
    renewed, third = await grants.renew(issued.refresh, None, NOW + 12)
    assert (renewed, third) == (Renewed.REUSED, None)
    for token in (issued.access, first.access):
        assert not await is_good(accounts, token, NOW + 12)
    assert await grants.renew(first.refresh, None, NOW + 12) == (Renewed.UNKNOWN, None)
    assert await accounts.tokens("ann") == []


async def test_a_stolen_refresh_token_ends_with_its_owners_next_use(
    redis: Redis, accounts: Accounts, issued: Issued
) -> None:
    """Whoever comes second, thief or owner, ends it for both."""
    grants = Grants(redis)
    _, thiefs = await grants.renew(issued.refresh, None, NOW + 100)
    assert thiefs is not None
    _, next_one = await grants.renew(thiefs.refresh, None, NOW + 101)
    assert next_one is not None
    assert await grants.renew(issued.refresh, None, NOW + 102) == (Renewed.REUSED, None)
    for token in (issued.access, thiefs.access, next_one.access):
        assert not await is_good(accounts, token, NOW + 102)


async def test_a_wrong_secret_for_a_grant_ends_it(redis: Redis, accounts: Accounts, issued: Issued) -> None:
    """Its id is known to those alone who had one of its tokens."""
    wrong = issued.refresh[:-1] + ("a" if issued.refresh[-1] != "a" else "b")
    assert await Grants(redis).renew(wrong, None, NOW) == (Renewed.REUSED, None)
    assert not await is_good(accounts, issued.access)


@pytest.mark.parametrize("text", ["", "ann", "ann.x.y", "ann..", f"ann.{'x' * 22}.y", f"bob.{'x' * 22}.y", "a" * 600])
async def test_what_is_no_refresh_token_is_unknown(redis: Redis, accounts: Accounts, issued: Issued, text: str) -> None:
    """It changes nothing for the grants there are."""
    assert await Grants(redis).renew(text, None, NOW) == (Renewed.UNKNOWN, None)
    assert await Grants(redis).find(text) is None
    assert await is_good(accounts, issued.access)


async def test_fewer_scopes_can_be_asked_for(redis: Redis, accounts: Accounts, issued: Issued) -> None:
    """For one access token; the grant keeps what it has. The same refresh token for other scopes is another request."""
    grants = Grants(redis)
    _, new = await grants.renew(issued.refresh, frozenset({"read"}), NOW)
    assert new is not None
    assert new.scopes == {"read"}
    _, more = await grants.renew(new.refresh, None, NOW + 1)
    assert more is not None
    assert more.scopes == CONSENT.scopes
    assert await grants.renew(new.refresh, frozenset({"read"}), NOW + 2) == (Renewed.REUSED, None)


async def test_of_many_at_once_all_get_the_same(redis: Redis, accounts: Accounts, issued: Issued) -> None:
    """An app that renews in two places at the same moment isn't taken for a thief."""
    answers = await asyncio.gather(*(Grants(redis).renew(issued.refresh, None, NOW) for _ in range(8)))
    assert sorted(renewed.value for renewed, _ in answers) == ["again"] * 7 + ["given"]
    assert len({new.refresh for _, new in answers if new}) == 1
    assert len(await accounts.tokens("ann")) == 2


async def test_access_tokens_of_a_grant_do_not_pile_up(redis: Redis, accounts: Accounts, issued: Issued) -> None:
    """However often an app renews."""
    grants, refresh = Grants(redis), issued.refresh
    for _ in range(30):
        _, new = await grants.renew(refresh, None, NOW)
        assert new is not None
        refresh = new.refresh
    assert len(await accounts.tokens("ann")) == 9
    assert await is_good(accounts, new.access)


async def test_a_refresh_token_expires(redis: Redis, accounts: Accounts, issued: Issued) -> None:
    """A year after it was given."""
    assert await Grants(redis).renew(issued.refresh, None, NOW + GRANT) == (Renewed.EXPIRED, None)


async def test_a_disabled_user_renews_nothing(redis: Redis, accounts: Accounts, issued: Issued) -> None:
    """And has it back when restored, as their other tokens."""
    grants = Grants(redis)
    await accounts.disable_user("ann", NOW)
    assert await grants.renew(issued.refresh, None, NOW) == (Renewed.DISABLED, None)
    await accounts.restore_user("ann")
    assert (await grants.renew(issued.refresh, None, NOW))[0] is Renewed.GIVEN


async def test_ending_a_grant_ends_its_tokens(redis: Redis, accounts: Accounts, issued: Issued) -> None:
    """All of them, at once, and no others."""
    other = await accounts.create_token("ann", ["read"], "command line", NOW)
    grants = Grants(redis)
    (grant,) = await grants.all("ann")
    assert await grants.end("ann", grant.id)
    assert not await grants.end("ann", grant.id)
    assert not await grants.end("bob", grant.id)
    assert not await grants.end("ann", "*")
    assert not await is_good(accounts, issued.access)
    assert await is_good(accounts, other)
    assert await grants.renew(issued.refresh, None, NOW) == (Renewed.UNKNOWN, None)


async def test_revoking_an_apps_token_ends_its_grant(redis: Redis, accounts: Accounts, issued: Issued) -> None:
    """Else it would fetch itself a new one."""
    (token,) = await accounts.tokens("ann")
    assert await accounts.revoke("ann", token.digest[:12])
    assert not await is_good(accounts, issued.access)
    assert await Grants(redis).renew(issued.refresh, None, NOW) == (Renewed.UNKNOWN, None)
    assert await accounts.tokens("ann") == []


async def test_a_user_who_is_deleted_takes_grants_along(redis: Redis, accounts: Accounts, issued: Issued) -> None:
    """Somebody of the same name begins with none."""
    await accounts.disable_user("ann", NOW)
    user = await accounts.user("ann")
    assert user is not None
    assert await accounts.delete_disabled(user)
    await accounts.add_user("ann", "https://other.example/", NOW + 1)
    assert await Grants(redis).renew(issued.refresh, None, NOW + 1) == (Renewed.UNKNOWN, None)
    assert not await is_good(accounts, issued.access, NOW + 1)


async def test_ids_of_grants_that_are_gone_leave_the_list(redis: Redis, accounts: Accounts, issued: Issued) -> None:
    """As Redis forgets the grant itself by its time to live."""
    grants = Grants(redis)
    (grant,) = await grants.all("ann")
    await redis.command("DEL", identitykeys.grant("ann", grant.id))
    assert await grants.all("ann") == []
    assert await redis.command("SCARD", identitykeys.grants("ann")) == 0


async def test_the_check_finds_nothing_wrong_with_grants(redis: Redis, accounts: Accounts, issued: Issued) -> None:
    """Codes, grants and their tokens are as their keys are described."""
    await Codes(redis).create(CONSENT, NOW)
    await Grants(redis).renew(issued.refresh, None, NOW)
    assert [found.what for found in (await look(redis, NOW)).found] == []
