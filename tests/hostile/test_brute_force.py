"""Guessing passwords: the number of guesses per day, from one machine or from many, and who is slowed down."""

from __future__ import annotations

import asyncio
import threading

import pytest

from microsub.accounts.credentials import LocalCredentials
from microsub.accounts.sessions import SignedInPerson
from microsub.accounts.store import Accounts
from microsub.base.errors import NotRecognised, TooManyRequests
from microsub.identity.admission import UserAddresses
from microsub.identity.limits import PASSWORDS_OF_NETWORK
from microsub.identity.local_sign_in import LocalSignIn
from microsub.identity.passwords import Hasher, Passwords
from microsub.redis.protocol import Redis
from tests.support.one_reader import ANN, NOW
from tests.support.redis_wrappers import CountingRedis

PASSWORD = "correct horse battery"
DAY = 86_400
HASH_SECONDS = 0.1
"""Maximum time of a hash, for real passwords on a slow machine; those of these tests are cheap."""
HOME = "198.51.100.1"


class House:
    """An instance with the user ann, and a count of password checks."""

    def __init__(self, redis: Redis) -> None:
        self.accounts, self.store = Accounts(redis), LocalCredentials(redis)
        self.hasher = Hasher(passes=1, memory_kib=8)
        self.passwords = Passwords(self.store, self.hasher)
        self.door = LocalSignIn(redis, None, UserAddresses(self.accounts), self.hasher)

    async def knock(self, password: str, address: str, now: float, who: str = ANN, devices: str = "") -> str:
        """`in`, `wrong`, or `wait`: the password wasn't checked."""
        try:
            found = await self.door.by_password(who, password, address, devices, now)
        except NotRecognised:
            return "wrong"
        except TooManyRequests:
            return "wait"
        assert isinstance(found, SignedInPerson)
        return "in"


@pytest.fixture
async def house(real_redis: Redis) -> House:
    made = House(real_redis)
    await made.accounts.add_user(ANN, "", NOW)
    await made.passwords.set(ANN, PASSWORD, NOW)
    return made


async def test_a_network_has_about_a_hundred_guesses_a_day(house: House) -> None:
    """No method of guessing gets more; each further machine has the same number."""
    looked_at, now = 0, NOW
    while now < NOW + DAY:
        answer = await house.knock("guess", "10.0.0.1", now)
        looked_at += answer == "wrong"
        now += 1 if looked_at <= PASSWORDS_OF_NETWORK.free else 30
    assert 100 < looked_at < 120
    house.hasher.close()


async def test_spraying_one_password_is_slowed_by_address(house: House) -> None:
    """Accounts that exist and accounts that don't are slowed down alike."""
    answers = [await house.knock("Summer2026!!", "203.0.113.5", NOW, who=f"user{number}") for number in range(300)]
    assert answers.count("wrong") < 15
    assert answers[-1] == "wait"
    house.hasher.close()


async def test_the_owner_gets_in_while_a_thousand_machines_guess(house: House) -> None:
    """The owner signs in from an unknown browser and network, while all machines guess at the same moment.

    While many of them make their first guess, the owner waits with them, for at most as many hashes as take half a
    minute; an owner who gets no place tries again. A machine's second guess comes after the owner's first.
    """
    cookie = await house.door.remember(ANN, "", NOW)
    gate, hashed, check = threading.Event(), list[str](), house.hasher._check

    def noted(against: str | None, password: str | None) -> bool:
        assert gate.wait(60)
        hashed.append(password or "")
        return check(against, password)

    house.hasher._check = noted  # type: ignore[method-assign]
    machines, waited = 1000, []
    for wave in range(3):
        hashed.clear()
        gate.clear()
        storm = [
            asyncio.create_task(house.knock(f"guess {number}", f"10.1.{number >> 8}.{number & 255}", NOW, who=who))
            for number, who in enumerate((ANN, "ann.example") * (machines // 2))
        ]
        while sum(one.done() for one in storm) + len(house.hasher._queue) + 1 < machines:
            await asyncio.sleep(0.01)
        known = asyncio.create_task(house.knock(PASSWORD, HOME, NOW, devices=cookie))
        while house.hasher._queue[0][0] > 0:
            await asyncio.sleep(0.01)
        asked = house.hasher._asked
        owner = asyncio.create_task(house.knock(PASSWORD, f"198.51.100.{wave}", NOW))
        while not owner.done() and house.hasher._asked == asked:
            await asyncio.sleep(0.01)
        gate.set()
        while await owner == "wait":
            owner = asyncio.create_task(house.knock(PASSWORD, f"198.51.100.{wave}", NOW))
        assert await owner == await known == "in"
        waited.append(len(hashed) - 1 - hashed[::-1].index(PASSWORD))
        await asyncio.gather(*storm)
        assert hashed.index(PASSWORD) <= 1
    assert max(waited) * HASH_SECONDS < 60
    assert waited[2] <= 10  # a few machines got no place before
    house.hasher.close()


async def test_a_foreign_or_forged_cookie_gives_no_allowance(house: House) -> None:
    """The attacker's browser is known only for the attacker's account."""
    await house.accounts.add_user("mallory", "", NOW)
    theirs = await house.door.remember("mallory", "", NOW)
    forged = ANN + "." + theirs.partition(".")[2]
    answers = [
        await house.knock(f"guess {number}", "10.2.0.1", NOW, devices=devices)
        for number, devices in enumerate([theirs, forged, f"{forged}~{theirs}", "~~~", "ann.", "x" * 5000] * 6)
    ]
    assert answers.count("wrong") == PASSWORDS_OF_NETWORK.free + 1
    house.hasher.close()


async def test_forged_addresses_of_one_network_are_one(house: House) -> None:
    """A client with a /64 of IPv6 has 2^64 addresses in it."""
    answers = [
        await house.knock("Summer2026!!", f"2001:db8:1:2::{number:x}", NOW, who=f"user{number}") for number in range(60)
    ]
    assert answers.count("wrong") < 15
    house.hasher.close()


SEQUENCES = [
    ["NAME"] * 8 + ["ADDRESS"],
    ["ADDRESS"] * 8 + ["NAME"],
    ["ADDRESS", "http://ADDRESS", "HTTPS://ADDRESS/"] * 4,
    ["NAME", " NAME "] * 5,
]


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: " ".join(sequence)[:20])
async def test_pauses_dont_reveal_accounts(house: House, sequence: list[str]) -> None:
    """The pauses don't show whether a name and an address belong to the same account."""
    await house.accounts.set_me(ANN, "https://ann.example/")
    await house.accounts.add_user("unset", "https://unset.example/", NOW)
    seen = set()
    for name in (ANN, "unset", "nobody"):
        typed = [one.replace("NAME", name).replace("ADDRESS", f"{name}.example") for one in sequence]
        answers = [
            await house.knock("wrong", f"10.3.{number}.{len(name)}", NOW, who=who) for number, who in enumerate(typed)
        ]
        seen.add(tuple(answers))
    assert len(seen) == 1, seen
    house.hasher.close()


async def test_all_names_cost_the_same_reads(real_redis: Redis) -> None:
    """Names and addresses of users with a password, without one, disabled or unknown need the same look-ups."""
    counting = CountingRedis(real_redis)
    house = House(counting)
    for name in (ANN, "unset", "gone"):
        await house.accounts.add_user(name, f"https://{name}.example/", NOW)
    await house.passwords.set(ANN, PASSWORD, NOW)
    await house.accounts.disable_user("gone", NOW)
    await house.knock("wrong", HOME, NOW, who="first.example")
    seen = {}
    for number, who in enumerate(
        [ANN, "unset", "gone", "nobody", "a b", *(f"{n}.example" for n in (ANN, "gone", "x"))]
    ):
        for devices in ("", "ann.madeup", "nobody.madeup"):
            before = counting.trips
            assert await house.knock("wrong", f"10.4.{number}.{len(devices)}", NOW, who=who, devices=devices) == "wrong"
            seen[who, devices] = counting.trips - before
    assert len(set(seen.values())) == 1, seen
    house.hasher.close()
