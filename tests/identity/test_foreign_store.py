"""Other providers' tokens in the store: contents, lifetime, and reasons for removal."""

from __future__ import annotations

import pytest

from microsub.accounts import foreign
from microsub.accounts.foreign import (
    KNOWN_NETWORK,
    MOST_NETWORKS,
    ForeignTokens,
    KnownToken,
    UnknownTokens,
    Vouched,
)
from microsub.accounts.store import Accounts, User
from microsub.base.errors import Unauthorized
from microsub.model.reader import Credential
from microsub.redis import keys
from microsub.redis.protocol import Redis
from tests.support.posts import NOON as NOW

ANN, ME = "ann", "https://ann.example/"
WHO = User(ANN, ME, NOW, settings={"read_everywhere": "yes"})
DIGEST = "ab" * 32
TOKEN = Credential(ANN, DIGEST)
GOOD = Vouched(frozenset({"read", "create"}), "https://app.example/", NOW)


@pytest.fixture
async def accounts(redis: Redis) -> Accounts:
    """Accounts with the user ann."""
    made = Accounts(redis)
    await made.add_user(ANN, ME, NOW)
    return made


@pytest.fixture
def tokens(redis: Redis, accounts: Accounts) -> ForeignTokens:
    return ForeignTokens(redis)


def digest(number: int) -> str:
    return f"{number:064x}"


async def test_the_token_itself_is_kept_nowhere(tokens: ForeignTokens, redis: Redis, accounts: Accounts) -> None:
    """Only its hash is stored, and it isn't in the list of our own tokens."""
    await tokens.remember(WHO, DIGEST, GOOD, until=NOW + 600, grace=3600)
    assert await accounts.tokens(ANN) == []
    fields = (await redis.command("HGETALL", keys.token(ANN, DIGEST)))[0::2]
    assert sorted(fields) == [b"checked", b"client", b"created", b"expires", b"foreign", b"scope"]


async def test_it_lives_as_long_as_it_may_serve(tokens: ForeignTokens, redis: Redis) -> None:
    """The lifetime includes the grace period, but never exceeds the provider's expiry time."""
    await tokens.remember(WHO, DIGEST, GOOD, until=NOW + 600, grace=3600)
    for key in (keys.token(ANN, DIGEST), keys.foreign(ANN), keys.foreign_owner(DIGEST)):
        assert 4190 <= await redis.command("TTL", key) <= 4200
    short = Vouched(GOOD.scopes, GOOD.client, NOW, NOW + 100)
    await tokens.remember(WHO, DIGEST, short, until=NOW + 100, grace=3600)
    assert 90 <= await redis.command("TTL", keys.token(ANN, DIGEST)) <= 100
    assert (await tokens.known_token(TOKEN)).vouched == short
    await tokens.remember(WHO, DIGEST, GOOD, until=NOW + 600, grace=3600)
    assert (await tokens.known_token(TOKEN)).vouched == GOOD


@pytest.mark.parametrize(
    "other", [User(ANN, "https://eve.example/"), User(ANN, ME, token_endpoint="https://t.example/"), User("bob", ME)]
)
async def test_results_for_a_changed_identity_arent_kept(tokens: ForeignTokens, redis: Redis, other: User) -> None:
    """The user's profile or endpoint changed during the check, or the user doesn't exist."""
    assert not await tokens.remember(other, DIGEST, GOOD, until=NOW + 600, grace=3600)
    assert not await redis.command("EXISTS", keys.token(other.name, DIGEST))
    assert await tokens.owner(DIGEST) is None


async def test_tokens_of_disabled_users_arent_kept(tokens: ForeignTokens, accounts: Accounts) -> None:
    """Stored tokens are deleted when the user is disabled, and don't return with the user."""
    await tokens.remember(WHO, DIGEST, GOOD, until=NOW + 600, grace=3600)
    await accounts.disable_user(ANN, NOW)
    assert await tokens.known_token(TOKEN) == KnownToken(None)
    assert not await tokens.remember(WHO, DIGEST, GOOD, until=NOW + 600, grace=3600)
    await accounts.restore_user(ANN)
    assert await tokens.known_token(TOKEN) == KnownToken(WHO)


@pytest.mark.parametrize("change", ["me", "no me", "endpoint", "no endpoint"])
async def test_another_identity_drops_what_was_remembered(
    tokens: ForeignTokens, accounts: Accounts, redis: Redis, change: str
) -> None:
    """Only this user's foreign tokens are deleted, not our own tokens."""
    await accounts.add_user("bob", "https://bob.example/", NOW)
    own = Accounts.credential(await accounts.create_token(ANN, ["read"], "tests", NOW))
    who = WHO
    if change == "no endpoint":
        await accounts.set_token_endpoint(ANN, "https://t.example/")
        who = User(ANN, ME, token_endpoint="https://t.example/")
    for number in range(3):
        assert await tokens.remember(who, digest(number), GOOD, until=NOW + 600, grace=3600)
    bob = User("bob", "https://bob.example/")
    assert await tokens.remember(bob, DIGEST, GOOD, until=NOW + 600, grace=3600)
    if change in {"me", "no me"}:
        await accounts.set_me(ANN, "https://new.example/" if change == "me" else "")
    else:
        await accounts.set_token_endpoint(ANN, "https://u.example/" if change == "endpoint" else None)
    for number in range(3):
        with pytest.raises(Unauthorized):
            await accounts.verify(Credential(ANN, digest(number)), NOW)
    assert not await redis.command("EXISTS", keys.foreign(ANN))
    assert own
    assert await accounts.verify(own, NOW)
    assert await accounts.verify(Credential("bob", DIGEST), NOW)


async def test_a_user_without_a_site_stays_a_user(accounts: Accounts) -> None:
    """Removing `me` doesn't remove the record."""
    await accounts.set_me(ANN, "")
    assert await accounts.user(ANN) == await accounts.add_user(ANN, "https://other.example/", NOW + 1)
    assert (await accounts.user(ANN)).me == ""  # type: ignore[union-attr]


async def test_no_provider_fills_the_memory(
    tokens: ForeignTokens, accounts: Accounts, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above the limit, the tokens that expire first are removed first."""
    monkeypatch.setattr(foreign, "MOST_REMEMBERED", 3)
    for number in range(6):
        await tokens.remember(WHO, digest(number), GOOD, until=NOW + 600 + number, grace=3600)
    found = await redis.command("ZRANGE", keys.foreign(ANN), 0, -1)
    assert [one.decode() for one in found] == [digest(number) for number in (3, 4, 5)]
    assert [await redis.command("EXISTS", keys.token(ANN, digest(number))) for number in range(6)] == [0, 0, 0, 1, 1, 1]


async def test_a_refusal_forgets_what_was_known(tokens: ForeignTokens, redis: Redis) -> None:
    """The refusal is cached for a while; a later success ends it."""
    await tokens.remember(WHO, DIGEST, GOOD, until=NOW + 600, grace=3600)
    await tokens.refuse(TOKEN, "invalid", 60)
    assert await tokens.known_token(TOKEN) == KnownToken(WHO, refused="invalid")
    assert 50 <= await redis.command("TTL", keys.foreign_refused(ANN, DIGEST)) <= 60
    await tokens.remember(WHO, DIGEST, GOOD, until=NOW + 600, grace=3600)
    assert await tokens.known_token(TOKEN) == KnownToken(WHO, GOOD, NOW + 600)


async def test_own_tokens_are_not_changed(tokens: ForeignTokens, accounts: Accounts) -> None:
    """A provider's refusal or confirmation has no effect on it."""
    own = Accounts.credential(await accounts.create_token(ANN, ["follow"], "tests", NOW))
    assert own
    await tokens.refuse(own, "invalid", 60)
    assert not await tokens.remember(WHO, own.digest, GOOD, until=NOW + 600, grace=3600)
    assert not await tokens.prolong(own, NOW + 9)
    assert (await accounts.verify(own, NOW)).scopes == {"follow"}
    assert (await tokens.known_token(own)).vouched is None


async def test_grace_lets_it_serve_on(tokens: ForeignTokens, accounts: Accounts) -> None:
    """This holds while it is stored; a token that was refused meanwhile isn't restored."""
    await tokens.remember(WHO, DIGEST, GOOD, until=NOW + 600, grace=3600)
    assert await tokens.prolong(TOKEN, NOW + 700)
    assert (await accounts.verify(TOKEN, NOW + 699)).user == ANN
    assert (await tokens.known_token(TOKEN)).vouched == GOOD
    await tokens.refuse(TOKEN, "invalid", 60)
    assert not await tokens.prolong(TOKEN, NOW + 800)


SHARES = UnknownTokens(known=2, of_known=1, first=4, of_first=2, rest=3, of_rest=2)


async def test_questions_are_counted(tokens: ForeignTokens, redis: Redis) -> None:
    """They are counted per user and per network: a network's first checks have one share, further ones another."""

    async def counted(network: str, site: str = "") -> bool:
        wait = await tokens.count(ANN, network, site or network, SHARES, NOW)
        assert 0 <= wait <= 60
        return not wait

    assert [await counted("192.0.2.1") for _ in range(6)] == [True] * 4 + [False] * 2
    assert [await counted("192.0.2.2") for _ in range(4)] == [True] * 3 + [False]
    assert not await counted("192.0.2.3")
    assert 0 < await redis.command("TTL", keys.foreign_checks(ANN)) <= 60
    assert not await tokens.count("bob", "192.0.2.1", "192.0.2.1", SHARES, NOW)
    assert b"192.0.2" not in b" ".join(await redis.command("HGETALL", keys.foreign_checks(ANN)))


async def test_known_networks_have_a_share_of_their_own(
    tokens: ForeignTokens, redis: Redis, accounts: Accounts
) -> None:
    """A network is known for a month after a valid token came from it; only the latest ones are stored."""

    async def counted(network: str, now: float = NOW) -> bool:
        return not await tokens.count(ANN, network, network, UnknownTokens(2, 1, 0, 0, 0, 0), now)

    for number in range(MOST_NETWORKS + 1):
        await tokens.know(ANN, f"n{number}", NOW + number)
    assert not await counted("n0")
    assert not await counted("n1", NOW + 1 + KNOWN_NETWORK)
    assert [await counted("n1"), await counted("n1"), await counted("n2"), await counted("n3")] == [
        *(True, False, True, False)
    ]
    assert 0 < await redis.command("TTL", keys.foreign_networks(ANN)) <= KNOWN_NETWORK
    await accounts.set_me(ANN, "https://another.example/")
    assert not await redis.command("EXISTS", keys.foreign_networks(ANN))
