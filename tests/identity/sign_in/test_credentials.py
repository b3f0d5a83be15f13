"""Passwords, passkeys, invitations, known devices and counts of attempts in Redis."""

from __future__ import annotations

from dataclasses import replace

import pytest

from microsub.accounts.credentials import (
    MOST_DEVICES,
    MOST_PASSKEYS,
    LocalCredentials,
    Passkey,
)
from microsub.accounts.store import Accounts
from microsub.base.errors import InvalidRequest, NotFound
from microsub.redis import keys
from microsub.redis.attempts import ATTEMPTS, AttemptCounts
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


async def test_unknown_and_disabled_users_get_no_credentials(store: LocalCredentials, redis: Redis) -> None:
    """No password, passkey or handle is stored."""
    await Accounts(redis).disable_user("bob", NOW)
    for name in ("nobody", "bob"):
        for call in (store.set_password(name, HASH, NOW), store.add_passkey(name, KEY), store.handle(name)):
            with pytest.raises(NotFound):
                await call
    assert not [key for key in await all_keys(redis) if b"credentials" in key or b"passkeys" in key]


async def test_a_rehash_gives_way_to_a_change(store: LocalCredentials) -> None:
    """A rehash replaces only the same password, and keeps the time of its last change."""
    await store.set_password(ANN, HASH, NOW)
    await store.rehash(ANN, HASH, HASH + "new")
    assert await store.password(ANN) == HASH + "new"
    assert (await store.overview(ANN))[0] == NOW
    await store.rehash(ANN, HASH, "late")
    assert await store.password(ANN) == HASH + "new"


async def test_an_invitation_is_good_for_its_user_and_a_day(store: LocalCredentials, redis: Redis) -> None:
    """A newer invitation replaces it, another user's name invalidates it, and Redis deletes it after 24 hours."""
    code, newer = await store.invite(ANN), await store.invite(ANN)
    assert await store.invited(code) is None
    assert await store.invited("bob." + newer.partition(".")[2]) is None
    for broken in ("", "ann", "ann.", newer + "x", "ann." + "x" * 600, "a b.c"):
        assert await store.invited(broken) is None
    assert 86_000 < await redis.command("TTL", keys.invitation(ANN)) <= 86_400
    held = await redis.command("GET", keys.invitation(ANN))
    assert newer.partition(".")[2].encode() not in held


async def test_passkeys_of_a_user_are_limited(store: LocalCredentials) -> None:
    """One more than the limit is refused."""
    for number in range(MOST_PASSKEYS):
        await store.add_passkey(ANN, replace(KEY, id=f"id{number}"))
    with pytest.raises(InvalidRequest, match="maximum of"):
        await store.add_passkey(ANN, KEY)


async def test_a_passkey_changes_only_from_what_was_read(store: LocalCredentials) -> None:
    """Only one of two concurrent uses succeeds, and a removed passkey isn't restored."""
    await store.add_passkey(ANN, KEY)
    used = replace(KEY, count=4, used=NOW + 1)
    assert await store.change_passkey(ANN, KEY, used)
    assert not await store.change_passkey(ANN, KEY, replace(KEY, count=5))
    await store.remove_passkey(ANN, KEY.id)
    assert not await store.change_passkey(ANN, used, replace(used, count=5))
    assert await store.passkey(ANN, KEY.id) is None


async def test_a_handle_leads_to_its_user(store: LocalCredentials, redis: Redis) -> None:
    """It never changes and doesn't contain the name; a foreign entry in the index is ignored."""
    handle = await store.handle(ANN)
    assert await store.handle(ANN) == handle
    assert len(bytes.fromhex(handle)) == 32
    assert await store.user_of(handle) == ANN
    assert await store.user_of("00") is None
    await redis.command("HSET", keys.handles(), "00", "bob")
    assert await store.user_of("00") is None


async def test_devices_are_known_by_their_cookie(store: LocalCredentials, redis: Redis) -> None:
    """A device is known for its own user, until it is replaced, forgotten or older than 400 days."""
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
    assert await redis.command("ZCARD", keys.devices(ANN)) == MOST_DEVICES
    await store.forget_devices(ANN)
    assert not await redis.command("EXISTS", keys.devices(ANN))


async def test_disabling_a_user_deletes_their_credentials(store: LocalCredentials, redis: Redis) -> None:
    """Password, passkeys, invitation, devices and handle are deleted, and don't return with the user."""
    await store.set_password(ANN, HASH, NOW)
    await store.add_passkey(ANN, KEY)
    handle = await store.handle(ANN)
    code = await store.invite(ANN)
    await store.remember_device(ANN, NOW)
    await Accounts(redis).disable_user(ANN, NOW)
    assert await redis.command("HLEN", keys.handles()) == 0
    theirs = (keys.credentials, keys.passkeys, keys.invitation, keys.devices)
    assert not await redis.command("EXISTS", *[key(ANN) for key in theirs])
    await Accounts(redis).restore_user(ANN)
    assert await store.password(ANN) is None
    assert (await store.overview(ANN))[1] == ()
    assert await store.invited(code) is None
    assert await store.user_of(handle) is None


async def test_a_disabled_user_cant_sign_in_with_what_is_left(store: LocalCredentials, redis: Redis) -> None:
    """This holds even after a crash between disabling and deleting."""
    await store.set_password(ANN, HASH, NOW)
    await store.add_passkey(ANN, KEY)
    code = await store.invite(ANN)
    await redis.command("HSET", keys.user(ANN), "disabled", NOW)
    assert await store.password(ANN) is None
    assert await store.passkey(ANN, KEY.id) is None
    assert await store.invited(code) is None
    assert not await store.change_passkey(ANN, KEY, replace(KEY, count=9))


PAUSES = (0, 0, 2, 4, 8)


async def wait(counts: AttemptCounts, subject: str, now: float) -> int:
    """The seconds until the next attempt is allowed."""
    return (await counts.take(subject, PAUSES, now))[0]


async def test_pauses_grow_and_the_last_one_stays(redis: Redis) -> None:
    """Each failed attempt starts the pause at its position in the list."""
    counts = AttemptCounts(redis)
    now = NOW
    waited = []
    for _ in range(7):
        assert await wait(counts, "account ann", now) == 0
        seconds = await wait(counts, "account ann", now) if len(waited) >= 2 else 0
        waited.append(seconds)
        now += seconds
    assert waited == [0, 0, 2, 4, 8, 8, 8]


async def test_free_attempts_pass_at_the_same_moment(redis: Redis) -> None:
    """Times are stored in thousandths of a second, and rounding doesn't matter."""
    counts = AttemptCounts(redis)
    for fraction in (0.0004, 0.0005, 0.0006, 0.15088158523):
        replies = [await wait(counts, f"x {fraction}", NOW + fraction) for _ in range(2)]
        assert replies == [0, 0]


async def test_refused_attempts_dont_count(redis: Redis) -> None:
    """An attempt during a pause neither prolongs it nor leads to a longer next one."""
    counts = AttemptCounts(redis)
    for _ in range(3):
        assert await wait(counts, "x", NOW) == 0
    assert [await counts.take("x", PAUSES, NOW + 1) for _ in range(5)] == [(1, 3)] * 5
    assert await wait(counts, "x", NOW + 2) == 0
    assert await wait(counts, "x", NOW + 2) == 4


async def test_an_attempt_is_given_back(redis: Redis) -> None:
    """The attempt and its pause are removed; the previous attempt stays."""
    counts = AttemptCounts(redis)
    for _ in range(3):
        await counts.take("x", PAUSES, NOW)
    await counts.give_back("x")
    assert await wait(counts, "x", NOW) == 0
    assert await wait(counts, "x", NOW) == 2
    await counts.forget("x")
    assert await wait(counts, "x", NOW) == 0
    await counts.give_back("x")
    await counts.give_back("x")
    assert await all_keys(redis) == []


async def test_counts_expire_and_contain_no_name(redis: Redis) -> None:
    """A key expires a day after the last attempt, and contains neither name nor address."""
    await AttemptCounts(redis).take("address 192.0.2.7", PAUSES, NOW)
    (key,) = await all_keys(redis)
    assert b"192" not in key
    assert ATTEMPTS - 60 < await redis.command("TTL", key) <= ATTEMPTS
