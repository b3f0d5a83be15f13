"""Users and tokens."""

from __future__ import annotations

import pytest
import redis.exceptions

from microsub.accounts.store import Accounts
from microsub.base.errors import InvalidRequest, NotFound, Unauthorized
from microsub.model.reader import Credential, Grant, PageQuery
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.scripts import load
from microsub.timelines import READ_EVERYWHERE, Channels
from tests.support.one_reader import ANN, NOW, OneReader, item


async def test_a_new_user_has_notifications_and_saved(redis: Redis) -> None:
    """A new user has the channels of every user; repeating the creation changes nothing."""
    accounts = Accounts(redis)
    user = await accounts.add_user("bob", "https://bob.example/", NOW)
    assert (user.name, user.me, user.created) == ("bob", "https://bob.example/", NOW)
    assert (await accounts.add_user("bob", "https://other.example/", NOW + 1)) == user
    assert [channel.uid for channel in await Channels(redis).list("bob")] == ["notifications", "saved"]
    assert await accounts.users() == [user]
    assert await accounts.user("nobody") is None


@pytest.mark.parametrize("name", ["", "a b", "a.b", "x" * 65, "ä", "a/b", "a\n"])
async def test_names_of_users_are_checked(redis: Redis, name: str) -> None:
    """A name that can't be a path segment or part of a token is refused."""
    with pytest.raises(InvalidRequest, match="user name"):
        await Accounts(redis).add_user(name, "", NOW)


async def test_a_token_grants_its_scopes_and_is_never_stored(world: OneReader) -> None:
    """A token can be verified, but Redis doesn't contain its secret."""
    token = await world.accounts.create_token(ANN, {"read", "follow"}, "https://app.example/", NOW)
    credential = world.accounts.credential(token)
    assert credential is not None
    assert await world.accounts.verify(credential, NOW) == Grant(ANN, frozenset({"read", "follow"}))
    (listed,) = await world.accounts.tokens(ANN)
    assert (listed.client, listed.created, listed.expires) == ("https://app.example/", NOW, None)
    stored = await world.redis.command("HGETALL", keys.token(ANN, listed.digest))
    assert token.partition(".")[2].encode() not in b" ".join(stored)


@pytest.mark.parametrize("token", ["", ".", "ann", "ann.", ".secret", "a b.secret", "ann." + "x" * 600, "Basic x"])
def test_malformed_tokens_are_no_credentials(token: str) -> None:
    """Anything but `<user>.<secret>` is refused without asking Redis."""
    assert Accounts.credential(token) is None


async def test_a_token_serves_only_its_own_user(world: OneReader) -> None:
    """One user's secret with another user's name is unknown."""
    await world.accounts.add_user("bob", "", NOW)
    token = await world.accounts.create_token(ANN, ["read"], "", NOW)
    forged = world.accounts.credential("bob." + token.partition(".")[2])
    assert forged is not None
    with pytest.raises(Unauthorized):
        await world.accounts.verify(forged, NOW)


async def test_expired_revoked_and_disabled_tokens_are_refused_at_once(world: OneReader) -> None:
    """The next request after expiry, revocation or disabling is refused by `verify`, pages and channel lists."""
    far = 4e9
    token = await world.accounts.create_token(ANN, ["read"], "", NOW, expires=far)
    credential = world.accounts.credential(token)
    assert credential is not None

    async def everything(now: float) -> None:
        assert (await world.accounts.verify(credential, now)).user == ANN
        assert (await world.channels.counts_with_token(credential, now))[0].scopes == {"read"}
        for uid in ("home", "global"):
            assert (await world.timelines.page_with_token(credential, uid, PageQuery(), now))[0].user == ANN

    async def nothing(now: float, why: str) -> None:
        for call in (
            world.accounts.verify(credential, now),
            world.channels.counts_with_token(credential, now),
            world.timelines.page_with_token(credential, "home", PageQuery(), now),
            world.timelines.page_with_token(credential, "global", PageQuery(), now),
        ):
            with pytest.raises(Unauthorized, match=why):
                await call

    await everything(NOW)
    await nothing(far, "expired")
    await world.accounts.disable_user(ANN, NOW)
    await nothing(NOW, "disabled")
    await world.accounts.restore_user(ANN)
    await everything(NOW)
    assert await world.accounts.revoke(ANN, credential.digest[:10])
    await nothing(NOW, "revoked")
    assert not await world.accounts.revoke(ANN, credential.digest[:10])


async def test_a_disabled_user_gets_no_token(world: OneReader) -> None:
    """A request that began a moment before creates no token that would be valid after a restore."""
    await world.accounts.disable_user(ANN, NOW)
    with pytest.raises(NotFound):
        await world.accounts.create_token(ANN, ["read"], "late", NOW)
    assert await world.accounts.tokens(ANN) == []


async def test_an_expired_token_leaves_the_list(world: OneReader) -> None:
    """A token past its time to live is neither listed nor kept."""
    await world.accounts.create_token(ANN, ["read"], "old", NOW, expires=NOW)
    await world.accounts.create_token(ANN, ["read"], "new", NOW)
    assert [token.client for token in await world.accounts.tokens(ANN)] == ["new"]
    assert await world.redis.command("SCARD", keys.tokens(ANN)) == 1


@pytest.mark.parametrize("end", ["nan", "inf", "-inf", "1e300", "-1"])
async def test_a_token_with_an_invalid_expiry_is_never_made(world: OneReader, end: str) -> None:
    """Neither the method nor the script creates one with an invalid expiry."""
    with pytest.raises(InvalidRequest, match="expires"):
        await world.accounts.create_token(ANN, ["read"], "", NOW, expires=float(end))
    digest = "ab" * 32
    names = [keys.user(ANN), keys.token(ANN, digest), keys.tokens(ANN)]
    with pytest.raises(redis.exceptions.ResponseError, match="expires"):
        await world.redis.script(
            (load("token_create"), names, [digest, "read", "", NOW, end, "", keys.token(ANN, "*")])
        )
    assert await world.redis.command("EXISTS", *names[1:]) == 0


async def test_settings_of_a_user(world: OneReader) -> None:
    """Settings are texts by name, deleted by None; the user's own fields aren't among them."""
    await world.accounts.set_settings(ANN, {"max_items": "100", "theme": "dark"})
    await world.accounts.set_settings(ANN, {"theme": None})
    user = await world.accounts.user(ANN)
    assert user is not None
    assert user.settings == {"max_items": "100", READ_EVERYWHERE: "no"}
    with pytest.raises(InvalidRequest, match="disabled"):
        await world.accounts.set_settings(ANN, {"disabled": "1"})


async def test_writes_to_an_unknown_user_name_them(redis: Redis) -> None:
    """No key is written for a user who doesn't exist."""
    accounts = Accounts(redis)
    for call in (
        accounts.create_token("bob", ["read"], "", NOW),
        accounts.disable_user("bob", NOW),
        accounts.set_me("bob", "x"),
    ):
        with pytest.raises(NotFound, match="no user 'bob'"):
            await call
    with pytest.raises(Unauthorized):
        await accounts.verify(Credential("bob", "00"), NOW)


async def test_a_page_is_one_round_trip(world: OneReader) -> None:
    """One script call returns token, channel, ids and flags; the same holds for counts once the names are cached."""
    await world.add("home", item(1))
    token = await world.accounts.create_token(ANN, ["read"], "", NOW)
    credential = world.accounts.credential(token)
    assert credential is not None
    await world.channels.counts_with_token(credential, NOW)
    calls = []
    inner = world.redis.script

    async def counting(*args: object) -> object:
        calls.append(args)
        return await inner(*args)  # type: ignore[arg-type]

    world.redis.script = counting  # type: ignore[assignment, method-assign]
    await world.timelines.page_with_token(credential, "home", PageQuery(), NOW)
    await world.channels.counts_with_token(credential, NOW)
    assert len(calls) == 2
