"""Passwords, passkeys, invitations and known devices in Redis."""

from __future__ import annotations

from dataclasses import replace

import pytest

from microsub.errors import NotFound
from microsub.identity.store.accounts import Accounts
from microsub.identity.store.credentials import (
    MOST_DEVICES,
    MOST_PASSKEYS,
    InvitationSpent,
    LocalCredentials,
    Passkey,
    PasskeyKnown,
    TooManyPasskeys,
)
from microsub.redis import identitykeys, keys
from microsub.redis.protocol import Redis
from tests.support.invariants import all_keys
from tests.support.one_reader import ANN, NOW

HASH = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaA"
KEY = Passkey("aWQ", "Telephone", b"\x00public", 3, NOW, None, ("internal",))


@pytest.fixture
async def store(redis: Redis) -> LocalCredentials:
    await Accounts(redis).add_user(ANN, "https://ann.example/", NOW)
    await Accounts(redis).add_user("bob", "", NOW)
    return LocalCredentials(redis)


async def test_a_password_is_set_and_replaced(store: LocalCredentials) -> None:
    """What stands there is the last hash; users without one, and unknown ones, have none."""
    assert await store.password(ANN) is None
    await store.set_password(ANN, HASH, NOW)
    await store.set_password(ANN, HASH + "2", NOW + 1)
    assert await store.password(ANN) == HASH + "2"
    assert (await store.overview(ANN)).password_since == NOW + 1
    assert await store.password("bob") is None
    assert await store.password("nobody") is None


async def test_nothing_is_written_for_who_is_unknown_or_disabled(store: LocalCredentials, redis: Redis) -> None:
    """Neither password, passkey nor handle."""
    await Accounts(redis).disable_user("bob", NOW)
    for name in ("nobody", "bob"):
        for call in (store.set_password(name, HASH, NOW), store.add_passkey(name, KEY), store.handle(name)):
            with pytest.raises(NotFound):
                await call
    assert not [key for key in await all_keys(redis) if b"credentials" in key or b"passkeys" in key]


async def test_a_rehash_gives_way_to_a_change(store: LocalCredentials) -> None:
    """The newer form of a password replaces that same password only, and leaves the time of its change."""
    await store.set_password(ANN, HASH, NOW)
    await store.rehash(ANN, HASH, HASH + "new")
    assert await store.password(ANN) == HASH + "new"
    assert (await store.overview(ANN)).password_since == NOW
    await store.rehash(ANN, HASH, "late")
    assert await store.password(ANN) == HASH + "new"


async def test_an_invitation_is_good_once(store: LocalCredentials) -> None:
    """It sets one password or adds one passkey; afterwards it invites nobody."""
    code = await store.invite(ANN)
    assert await store.invited(code) == ANN
    await store.set_password(ANN, HASH, NOW, invitation=code)
    assert await store.invited(code) is None
    with pytest.raises(InvitationSpent):
        await store.set_password(ANN, HASH + "2", NOW, invitation=code)
    with pytest.raises(InvitationSpent):
        await store.add_passkey(ANN, KEY, invitation=code)
    assert await store.password(ANN) == HASH
    code = await store.invite(ANN)
    await store.add_passkey(ANN, KEY, invitation=code)
    assert await store.invited(code) is None


async def test_an_invitation_is_good_for_its_user_and_a_day(store: LocalCredentials, redis: Redis) -> None:
    """Another one takes its place, another user's name makes it useless, and Redis lets go of it after 24 hours."""
    code, newer = await store.invite(ANN), await store.invite(ANN)
    assert await store.invited(code) is None
    assert await store.invited("bob." + newer.partition(".")[2]) is None
    for broken in ("", "ann", "ann.", newer + "x", "ann." + "x" * 600, "a b.c"):
        assert await store.invited(broken) is None
    assert 86_000 < await redis.command("TTL", identitykeys.invitation(ANN)) <= 86_400
    held = await redis.command("GET", identitykeys.invitation(ANN))
    assert newer.partition(".")[2].encode() not in held


async def test_passkeys_are_kept_whole(store: LocalCredentials) -> None:
    """What was added comes back; the same one isn't added twice."""
    later = replace(KEY, id="bGF0ZXI", name="Stick", created=NOW + 1, used=NOW + 2, transports=())
    await store.add_passkey(ANN, later)
    await store.add_passkey(ANN, KEY)
    assert (await store.overview(ANN)).passkeys == (KEY, later)
    assert await store.passkey(ANN, KEY.id) == KEY
    assert await store.passkey("bob", KEY.id) is None
    with pytest.raises(PasskeyKnown):
        await store.add_passkey(ANN, KEY)
    assert await store.remove_passkey(ANN, KEY.id)
    assert not await store.remove_passkey(ANN, KEY.id)


async def test_a_user_has_only_so_many_passkeys(store: LocalCredentials) -> None:
    """One more is refused."""
    for number in range(MOST_PASSKEYS):
        await store.add_passkey(ANN, replace(KEY, id=f"id{number}"))
    with pytest.raises(TooManyPasskeys):
        await store.add_passkey(ANN, KEY)


async def test_a_passkey_changes_only_from_what_was_read(store: LocalCredentials) -> None:
    """Of two uses at the same moment one counts, and a removed passkey doesn't come back."""
    await store.add_passkey(ANN, KEY)
    used = replace(KEY, count=4, used=NOW + 1)
    assert await store.change_passkey(ANN, KEY, used)
    assert not await store.change_passkey(ANN, KEY, replace(KEY, count=5))
    await store.remove_passkey(ANN, KEY.id)
    assert not await store.change_passkey(ANN, used, replace(used, count=5))
    assert await store.passkey(ANN, KEY.id) is None


async def test_a_handle_leads_to_its_user(store: LocalCredentials, redis: Redis) -> None:
    """It stays the same, says nothing of the name, and a foreign line in the index leads nowhere."""
    handle = await store.handle(ANN)
    assert await store.handle(ANN) == handle
    assert len(bytes.fromhex(handle)) == 32
    assert await store.user_of(handle) == ANN
    assert await store.user_of("00") is None
    await redis.command("HSET", identitykeys.handles(), "00", "bob")
    assert await store.user_of("00") is None


async def test_a_challenge_is_given_out_once(store: LocalCredentials, redis: Redis) -> None:
    """And only to whoever has the secret, of which Redis has no trace."""
    secret = await store.begin_ceremony({"challenge": "abc"})
    assert not [key for key in await all_keys(redis) if secret.encode() in key]
    assert await store.end_ceremony(secret + "x") is None
    assert await store.end_ceremony("") is None
    assert await store.end_ceremony(secret) == {"challenge": "abc"}
    assert await store.end_ceremony(secret) is None


async def test_devices_are_known_by_their_cookie(store: LocalCredentials, redis: Redis) -> None:
    """For their own user, until they are replaced, forgotten or older than 400 days."""
    cookie = await store.remember_device(ANN, NOW)
    assert await store.knows_device(ANN, cookie, NOW + 1)
    assert not await store.knows_device("bob", cookie, NOW + 1)
    assert not await store.knows_device(ANN, "ann.made-up", NOW + 1)
    assert not await store.knows_device(ANN, cookie, NOW + 401 * 86_400)
    newer = await store.remember_device(ANN, NOW + 5, cookie)
    assert not await store.knows_device(ANN, cookie, NOW + 6)
    for number in range(MOST_DEVICES):
        await store.remember_device(ANN, NOW + 10 + number)
    assert not await store.knows_device(ANN, newer, NOW + 60)
    assert await redis.command("ZCARD", identitykeys.devices(ANN)) == MOST_DEVICES
    await store.forget_devices(ANN)
    assert not await redis.command("EXISTS", identitykeys.devices(ANN))


async def test_who_is_disabled_has_no_credentials_any_more(store: LocalCredentials, redis: Redis) -> None:
    """Password, passkeys, invitation, devices and handle go, and don't come back with the user."""
    await store.set_password(ANN, HASH, NOW)
    await store.add_passkey(ANN, KEY)
    handle = await store.handle(ANN)
    code = await store.invite(ANN)
    await store.remember_device(ANN, NOW)
    await Accounts(redis).disable_user(ANN, NOW)
    assert await redis.command("HLEN", identitykeys.handles()) == 0
    assert not await redis.command("EXISTS", *[key(ANN) for key in identitykeys.USER_KEYS])
    await Accounts(redis).restore_user(ANN)
    assert await store.password(ANN) is None
    assert (await store.overview(ANN)).passkeys == ()
    assert await store.invited(code) is None
    assert await store.user_of(handle) is None


async def test_a_disabled_user_cant_sign_in_with_what_is_left(store: LocalCredentials, redis: Redis) -> None:
    """Even where a crash came between disabling and forgetting."""
    await store.set_password(ANN, HASH, NOW)
    await store.add_passkey(ANN, KEY)
    code = await store.invite(ANN)
    await redis.command("HSET", keys.user(ANN), "disabled", NOW)
    assert await store.password(ANN) is None
    assert await store.passkey(ANN, KEY.id) is None
    assert await store.invited(code) is None
    assert not await store.change_passkey(ANN, KEY, replace(KEY, count=9))
