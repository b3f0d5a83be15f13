"""Who may try to sign in, how often."""

from __future__ import annotations

import pytest

from microsub.errors import TooManyRequests
from microsub.identity.limits import (
    HASHES,
    PASSWORDS_OF_BROWSER,
    PASSWORDS_OF_NETWORK,
    PASSWORDS_OF_WIDE_NETWORK,
    TURN_OF_WIDE_NETWORK,
)
from microsub.identity.local.login import LoginAttempts
from microsub.identity.store.rate_limits import AttemptCounts
from microsub.kit.rate_limits import GrowingPauses, network_of
from microsub.redis.protocol import Redis
from tests.support.one_reader import ANN, NOW


def address(number: int) -> str:
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def test_pauses_double_up_to_the_longest() -> None:
    """After the free ones."""
    assert GrowingPauses("attempts", "network", 2, 1, 5).pauses() == (0, 0, 1, 2, 4, 5)
    for allowance in (PASSWORDS_OF_NETWORK, PASSWORDS_OF_BROWSER, PASSWORDS_OF_WIDE_NETWORK):
        pauses = allowance.pauses()
        assert list(pauses) == sorted(pauses)
        assert pauses[-1] == allowance.longest


@pytest.mark.parametrize(
    ("given", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", "unknown"),
        ("unknown", "unknown"),
        ("testclient", "unknown"),
    ],
)
def test_an_address_counts_with_its_network(given: str, network: str) -> None:
    """A customer's whole IPv6 network is one address."""
    assert network_of(given) == network


async def test_no_account_is_stopped(redis: Redis) -> None:
    """Whatever was guessed at it from other networks; each of them is stopped for itself."""
    attempts = LoginAttempts(AttemptCounts(redis))
    for number in range(20):
        for _ in range(PASSWORDS_OF_NETWORK.free + 1):
            await attempts.begin(ANN, address(number), NOW)
        with pytest.raises(TooManyRequests):
            await attempts.begin(ANN, address(number), NOW)
    assert (await attempts.begin(ANN, "192.0.2.7", NOW)).turn == 1


async def test_the_turn_of_a_network_comes_later_with_each_failure(redis: Redis) -> None:
    """A known browser's is first; the networks of one /48 share a turn, since one stranger may have them all."""
    attempts = LoginAttempts(AttemptCounts(redis))
    assert [(await attempts.begin(f"u{n}", "192.0.2.7", NOW)).turn for n in range(3)] == [1, 2, 3]
    await attempts.succeeded(await attempts.begin(ANN, "192.0.2.7", NOW))
    assert (await attempts.begin(ANN, "192.0.2.7", NOW)).turn == 4
    assert (await attempts.begin(ANN, "192.0.2.7", NOW, device="d")).turn == 0
    turns = [(await attempts.begin(ANN, f"2001:db8:1:{n:x}::1", NOW)).turn for n in range(3 * TURN_OF_WIDE_NETWORK)]
    assert [turns.count(turn) for turn in (1, 2, 3)] == [TURN_OF_WIDE_NETWORK] * 3


async def test_right_passwords_are_counted_too(redis: Redis) -> None:
    """Each takes time to hash; known browsers and new passwords count as well, other accounts don't."""
    attempts = LoginAttempts(AttemptCounts(redis))
    for number in range(HASHES.most):
        attempt = await attempts.begin(ANN, "192.0.2.7", NOW, device="d" if number % 2 else "")
        await attempts.succeeded(attempt)
        await attempts.hashed(ANN, NOW)
    for device in ("", "d"):
        with pytest.raises(TooManyRequests):
            await attempts.begin(ANN, "192.0.2.8", NOW, device=device)
    with pytest.raises(TooManyRequests):
        await attempts.hashed(ANN, NOW)
    await attempts.begin("other", "192.0.2.7", NOW)
    await attempts.begin(ANN, "192.0.2.8", NOW + 60)


async def test_one_address_is_stopped_wherever_it_tries(redis: Redis) -> None:
    """A thousand accounts, with one password each, are one guesser."""
    attempts = LoginAttempts(AttemptCounts(redis))
    for number in range(PASSWORDS_OF_NETWORK.free + 1):
        await attempts.begin(f"user{number}", "192.0.2.7", NOW)
    for number in range(100, 200):
        with pytest.raises(TooManyRequests) as refused:
            await attempts.begin(f"user{number}", "192.0.2.7", NOW)
        assert 0 < refused.value.retry_after <= PASSWORDS_OF_NETWORK.longest
    await attempts.begin("user1", "192.0.2.8", NOW)


async def test_a_site_with_65536_networks_is_slowed_too(redis: Redis) -> None:
    """Whoever has a /48 of IPv6, which costs nothing, neither fills the store nor the places in which passwords are
    checked; who mistypes in the next house is counted apart.
    """
    attempts, passed = LoginAttempts(AttemptCounts(redis)), 0
    for number in range(PASSWORDS_OF_WIDE_NETWORK.free + 50):
        try:
            await attempts.begin(f"user{number}", f"2001:db8:1:{number:x}::1", NOW)
            passed += 1
        except TooManyRequests:
            pass
    assert passed == PASSWORDS_OF_WIDE_NETWORK.free + 1
    with pytest.raises(TooManyRequests):
        await attempts.begin_anonymous("2001:db8:1:ffff::1", NOW)
    await attempts.begin("user0", "2001:db8:2:1::1", NOW)
    await attempts.begin("user1", "192.0.2.1", NOW)


async def test_who_gets_in_leaves_the_site_as_it_was(redis: Redis) -> None:
    """Only failures count, for all who share it."""
    attempts = LoginAttempts(AttemptCounts(redis))
    for number in range(2 * PASSWORDS_OF_WIDE_NETWORK.free):
        await attempts.succeeded(await attempts.begin(ANN, f"2001:db8:1:{number:x}::1", NOW))
    assert await attempts.begin(ANN, "2001:db8:1::1", NOW)


async def test_nobody_locks_a_known_browser_out(redis: Redis) -> None:
    """From the attacker's own address too, the owner's browser signs in."""
    attempts = LoginAttempts(AttemptCounts(redis))
    for _ in range(20):
        try:
            await attempts.begin("other", "192.0.2.7", NOW)
        except TooManyRequests:
            break
    for _ in range(PASSWORDS_OF_BROWSER.free):
        await attempts.begin(ANN, "192.0.2.7", NOW, device="d1")


async def test_a_stolen_browser_is_slowed_too(redis: Redis) -> None:
    """Its allowance is its own, and ends."""
    attempts = LoginAttempts(AttemptCounts(redis))
    for _ in range(PASSWORDS_OF_BROWSER.free + 1):
        await attempts.begin(ANN, "192.0.2.7", NOW, device="d1")
    with pytest.raises(TooManyRequests, match="1 second"):
        await attempts.begin(ANN, "192.0.2.7", NOW, device="d1")
    await attempts.begin(ANN, "192.0.2.7", NOW, device="d2")


async def test_signing_in_to_ones_own_account_buys_no_guesses(redis: Redis) -> None:
    """An address that fails at others' accounts and succeeds at its own in between is stopped as soon."""
    attempts = LoginAttempts(AttemptCounts(redis))
    guesses = 0
    for number in range(100):
        try:
            await attempts.begin(f"user{number}", "192.0.2.7", NOW)
            guesses += 1
            await attempts.succeeded(await attempts.begin("mallory", "192.0.2.7", NOW))
        except TooManyRequests:
            break
    assert guesses <= PASSWORDS_OF_NETWORK.free + 1


async def test_success_ends_the_pauses_of_a_device(redis: Redis) -> None:
    """Its count starts again."""
    attempts = LoginAttempts(AttemptCounts(redis))
    for _ in range(5):
        for _ in range(PASSWORDS_OF_BROWSER.free - 1):
            await attempts.begin(ANN, "192.0.2.7", NOW, device="d")
        await attempts.succeeded(await attempts.begin(ANN, "192.0.2.7", NOW, device="d"))


async def test_what_lies_with_us_doesnt_count(redis: Redis) -> None:
    """Such as a check that found no place."""
    attempts = LoginAttempts(AttemptCounts(redis))
    for _ in range(50):
        await attempts.undecided(await attempts.begin(ANN, "192.0.2.7", NOW))
    for _ in range(50):
        await attempts.undecided(await attempts.begin_anonymous("192.0.2.7", NOW))
