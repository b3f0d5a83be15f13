"""Passwords: which are accepted, how they are hashed, and the limits for attempts."""

from __future__ import annotations

import asyncio
import threading
import unicodedata
from collections.abc import Awaitable, Callable, Iterator

import pytest

from microsub.accounts.credentials import PASSKEY_CHALLENGE, LocalCredentials
from microsub.accounts.store import Accounts
from microsub.base.errors import InvalidRequest, TooManyRequests
from microsub.base.rate_limits import GrowingPauses, network_of
from microsub.identity.limits import (
    CHALLENGES_OF_WIDE_NETWORK,
    HASHES,
    PASSWORDS_OF_BROWSER,
    PASSWORDS_OF_NETWORK,
    PASSWORDS_OF_WIDE_NETWORK,
    TURN_OF_WIDE_NETWORK,
)
from microsub.identity.local_sign_in import LoginAttempts
from microsub.identity.passwords import (
    LONGEST_PASSWORD,
    SHORTEST_PASSWORD,
    Hasher,
    Passwords,
    chosen_password,
    normal_password,
)
from microsub.redis.attempts import AttemptCounts
from microsub.redis.protocol import Redis
from tests.support.invariants import all_keys
from tests.support.one_reader import ANN, NOW

CHEAP = {"passes": 1, "memory_kib": 64}
GOOD = "correct horse battery"


@pytest.fixture
def hasher() -> Iterator[Hasher]:
    made = Hasher(**CHEAP)
    yield made
    made.close()


@pytest.fixture
async def store(redis: Redis) -> LocalCredentials:
    await Accounts(redis).add_user(ANN, "", NOW)
    return LocalCredentials(redis)


@pytest.mark.parametrize(
    ("password", "why"),
    [
        ("", "fewer"),
        ("short", "fewer"),
        ("x" * (SHORTEST_PASSWORD - 1), "fewer"),
        ("correct horse" * 30, "more than"),
        ("line\nbreak in it", "control"),
        ("aaaaaaaaaaaaaaaa", "different"),
        ("abababababababab", "different"),
        ("alexander123456", "name"),
        ("Alexander alexander", "name"),
        ("123456789012345", "keyboard pattern"),
        ("qwertyuiop123456", "keyboard pattern"),
        ("Password123456789", "keyboard pattern"),
        ("zyxwvutsrqponml", "keyboard pattern"),
        ("correct horse battery staple", "well-known"),
        ("Correct-Horse-Battery-Staple1!", "well-known"),
        ("May the Force be with you.", "well-known"),
        ("\ud800" * 20, "fewer"),
    ],
)
def test_weak_passwords_are_refused_with_the_reason(password: str, why: str) -> None:
    """Each refusal names the reason, and never repeats the password."""
    with pytest.raises(InvalidRequest, match=why) as found:
        chosen_password(password, "alexander")
    assert not password or password not in str(found.value)


@pytest.mark.parametrize(
    "password",
    [GOOD, "пароль из трёх слов", "🐎🔋📎🌍🌳🌊🔥🌙🌟🍀🎈🎉🌵🍄🐚", "x7!k2@p9#qLw;4v", "correct horse " * 16],
)
def test_length_counts_and_nothing_else(password: str) -> None:
    """Any script and any characters are accepted."""
    assert chosen_password(password, "alexander") == unicodedata.normalize("NFKC", password)


def test_writings_of_one_password_are_one() -> None:
    """Composed and decomposed letters, full-width digits and ligatures are equal; case and spaces matter."""
    assert normal_password("Cafe\u0301 ﬁne １２３ xyz") == normal_password("Caf\u00e9 fine 123 xyz")
    assert normal_password("Secret Secret") != normal_password("secret secret")
    assert normal_password(" secret secret") != normal_password("secret secret")
    assert normal_password("x" * (LONGEST_PASSWORD + 1)) is None


def test_normalising_cant_be_made_to_explode() -> None:
    """The length is limited before one character can become eighteen."""
    assert normal_password("\ufdfa" * LONGEST_PASSWORD) is not None
    assert normal_password("\ufdfa" * (LONGEST_PASSWORD + 1)) is None


async def test_hashes_are_argon2id_with_a_salt(hasher: Hasher) -> None:
    """The parameters are at least those of OWASP; equal passwords have different hashes."""
    real = Hasher()
    try:
        one = await real.hash(GOOD)
        assert one.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
        assert one != await real.hash(GOOD)
        assert await real.check(one, GOOD)
        assert not await real.check(one, GOOD + "!")
        assert real.is_old(await hasher.hash(GOOD))
    finally:
        real.close()


class Gated(Hasher):
    """Blocks all checks until the `gate` is open; `order` lists the checked passwords, `running` is set by the first
    one.
    """

    def __init__(self, waiting: int) -> None:
        super().__init__(**CHEAP, waiting=waiting)
        self.gate, self.running = threading.Event(), threading.Event()
        self.order: list[str] = []
        self.threads: set[threading.Thread] = set()

    def _check(self, hashed: str | None, password: str | None) -> bool:
        self.threads.add(threading.current_thread())
        self.running.set()
        assert self.gate.wait(60)
        self.order.append(password or "")
        return True

    async def busy(self) -> None:
        while not self.running.is_set():
            await asyncio.sleep(0)


@pytest.fixture
def gated() -> Iterator[Callable[[int], Gated]]:
    """`gated(waiting)`: a hasher with one thread and this many waiting places."""
    made: list[Gated] = []

    def make(waiting: int) -> Gated:
        made.append(Gated(waiting))
        return made[-1]

    yield make
    for hasher in made:
        hasher.gate.set()
        hasher.close()


async def test_hashing_leaves_the_loop_free_and_is_bounded(gated: Callable[[int], Gated]) -> None:
    """If all places are taken, the next check is refused; the event loop isn't blocked, and later there is room."""
    hasher = gated(2)
    tasks = [asyncio.create_task(hasher.check("x", "y")) for _ in range(3)]
    await hasher.busy()
    with pytest.raises(TooManyRequests):
        await hasher.check("x", "y")
    assert len(hasher.threads) == 1
    assert threading.main_thread() not in hasher.threads
    hasher.gate.set()
    assert await asyncio.gather(*tasks) == [True] * 3
    assert await hasher.check("x", "y")


async def test_networks_take_turns(gated: Callable[[int], Gated]) -> None:
    """A network's first attempt precedes all second attempts and, if the queue is full, displaces the last one;
    cancelled attempts give up their places.
    """
    hasher = gated(4)
    asked = [("running", 1), ("third", 3), ("goes", 1), ("second", 2), ("last", 4), ("first", 1), ("known", 0)]
    tasks = {}
    for name, turn in asked:
        tasks[name] = asyncio.create_task(hasher.check("x", name, turn))
        await asyncio.sleep(0)
        if name == "last":
            tasks["goes"].cancel()
            await asyncio.sleep(0)
    with pytest.raises(TooManyRequests):
        await hasher.check("x", "later", 3)
    hasher.gate.set()
    await asyncio.gather(*tasks.values(), return_exceptions=True)
    assert hasher.order == ["running", "known", "first", "second", "third"]
    assert isinstance(tasks["last"].exception(), TooManyRequests)
    assert hasher._is_free


async def test_a_cancelled_check_holds_its_slot_until_it_ends(gated: Callable[[int], Gated]) -> None:
    """This prevents cancelled requests from accumulating hashes."""
    hasher = gated(0)
    task = asyncio.create_task(hasher.check("x", "y"))
    await hasher.busy()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(TooManyRequests):
        await hasher.check("x", "y")
    hasher.gate.set()
    while not hasher._is_free:
        await asyncio.sleep(0)
    assert await hasher.check("x", "y")


async def is_right(passwords: Passwords, user: str, password: str) -> bool:
    """The check of a sign-in, which reads the hash with what else it needs."""
    return await passwords.is_right(user, await passwords._store.password(user), password)


async def test_a_password_is_right_only_for_its_user(store: LocalCredentials, hasher: Hasher) -> None:
    """Any equal spelling works; other users and users without a password are refused."""
    passwords = Passwords(store, hasher)
    await passwords.set(ANN, "Cafe\u0301 au lait, grand", NOW)
    assert await is_right(passwords, ANN, "Caf\u00e9 au lait, grand")
    for user, password in [
        (ANN, "caf\u00e9 au lait, grand"),
        (ANN, ""),
        (ANN, "x" * 1000),
        (ANN, "\ud800"),
        ("nobody", "Caf\u00e9 au lait, grand"),
        ("a/b", "Caf\u00e9 au lait, grand"),
        ("nobody", "nobody's"),
        (ANN, "nobody's"),
    ]:
        assert not await is_right(passwords, user, password)


async def test_a_password_that_was_changed_in_the_meantime_is_wrong(store: LocalCredentials) -> None:
    """An attempt with the former password, which waits to be hashed during the change, is refused."""
    newer = "battery horse correct"

    class Slow(Hasher):
        async def check(self, hashed: str | None, password: str | None, turn: int = 0) -> bool:
            right = await super().check(hashed, password, turn)
            await change()
            return right

    hasher, plain = Slow(**CHEAP), Hasher(**CHEAP)
    changes: list[Callable[[], Awaitable[None]]] = []

    async def change() -> None:
        if changes:
            await changes.pop()()

    await Passwords(store, plain).set(ANN, GOOD, NOW)
    changes.append(lambda: Passwords(store, plain).set(ANN, newer, NOW))
    assert not await is_right(Passwords(store, hasher), ANN, GOOD)
    # A new hash of the same password isn't a change.
    changes.append(lambda: Passwords(store, plain).set(ANN, newer, NOW))
    assert await is_right(Passwords(store, hasher), ANN, newer)
    changes.append(lambda: store.forget(ANN))
    assert not await is_right(Passwords(store, hasher), ANN, newer)
    hasher.close()
    plain.close()


async def test_an_unknown_name_costs_as_much_as_a_known_one(store: LocalCredentials, hasher: Hasher) -> None:
    """Each attempt takes one argon2 verification with the same parameters, whatever is wrong."""
    passwords = Passwords(store, hasher)
    await passwords.set(ANN, GOOD, NOW)
    await is_right(passwords, "nobody", GOOD)
    verified: list[str] = []
    argon2 = hasher._argon2

    class Counting:
        def matches(self, hashed: str, password: str) -> bool:
            verified.append(hashed.rpartition("$")[0].rpartition("$")[0])
            return argon2.matches(hashed, password)

        def __getattr__(self, name: str) -> object:
            return getattr(argon2, name)

    hasher._argon2 = Counting()  # type: ignore[assignment]
    for user, password in [(ANN, GOOD), (ANN, "wrong"), ("nobody", GOOD), ("a b", GOOD), (ANN, "x" * 300), (ANN, "")]:
        await is_right(passwords, user, password)
    assert len(verified) == 6
    assert len(set(verified)) == 1


async def test_a_hash_of_former_parameters_is_replaced(store: LocalCredentials, hasher: Hasher) -> None:
    """This happens at the next successful sign-in, and at no other one."""
    passwords = Passwords(store, hasher)
    await passwords.set(ANN, GOOD, NOW)
    old = await store.password(ANN)
    newer = Hasher(passes=2, memory_kib=64)
    try:
        stronger = Passwords(store, newer)
        assert not await is_right(stronger, ANN, GOOD + "?")
        assert await store.password(ANN) == old
        assert await is_right(stronger, ANN, GOOD)
        new = await store.password(ANN)
        assert new is not None
        assert "t=2" in new
        assert await is_right(stronger, ANN, GOOD)
        assert await store.password(ANN) == new
    finally:
        newer.close()


async def test_an_unreadable_hash_matches_no_password(store: LocalCredentials, hasher: Hasher) -> None:
    """The hash may be corrupt or invalid."""
    await store.set_password(ANN, "correct horse battery", NOW)
    assert not await is_right(Passwords(store, hasher), ANN, GOOD)


def address(number: int) -> str:
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def test_pauses_double_up_to_the_longest() -> None:
    """The first attempts are free."""
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
    """A whole IPv6 /64 network counts as one address."""
    assert network_of(given) == network


async def test_the_turn_of_a_network_comes_later_with_each_failure(redis: Redis) -> None:
    """A known browser comes first; the networks of a /48 share a turn, because one client may have all of them."""
    attempts = LoginAttempts(AttemptCounts(redis))
    assert [(await attempts.begin("192.0.2.7", NOW)).turn for n in range(3)] == [1, 2, 3]
    await attempts.succeeded(await attempts.begin("192.0.2.7", NOW))
    assert (await attempts.begin("192.0.2.7", NOW)).turn == 4
    assert (await attempts.begin("192.0.2.7", NOW, device="d")).turn == 0
    turns = [(await attempts.begin(f"2001:db8:1:{n:x}::1", NOW)).turn for n in range(3 * TURN_OF_WIDE_NETWORK)]
    assert [turns.count(turn) for turn in (1, 2, 3)] == [TURN_OF_WIDE_NETWORK] * 3


async def test_right_passwords_are_counted_too(redis: Redis) -> None:
    """Each takes time to hash; known browsers and new passwords count too, other accounts don't."""
    attempts = LoginAttempts(AttemptCounts(redis))
    for number in range(HASHES.most):
        await attempts.require_hash(ANN, NOW)
        attempt = await attempts.begin("192.0.2.7", NOW, device="d" if number % 2 else "")
        await attempts.was_right(attempt, ANN, NOW)
    with pytest.raises(TooManyRequests):
        await attempts.require_hash(ANN, NOW)
    with pytest.raises(TooManyRequests):
        await attempts.hashed(ANN, NOW)
    await attempts.require_hash("other", NOW)
    await attempts.require_hash(ANN, NOW + 60)


async def test_challenges_for_a_whole_site_have_an_end_too(redis: Redis) -> None:
    """All 65,536 networks of a site share a limit, and their counts expire with the challenges."""
    attempts, most = LoginAttempts(AttemptCounts(redis)), CHALLENGES_OF_WIDE_NETWORK.free + 1
    for number in range(most):
        await attempts.begin_challenge(f"2001:db8:1:{number:x}::1", NOW)
    with pytest.raises(TooManyRequests):
        await attempts.begin_challenge("2001:db8:1:ffff::1", NOW)
    await attempts.begin_challenge("2001:db8:2::1", NOW)
    counts = await all_keys(redis)
    assert len(counts) == most + 3
    assert max(await redis.pipeline([("TTL", key) for key in counts])) <= PASSKEY_CHALLENGE


async def test_a_site_with_65536_networks_is_slowed_too(redis: Redis) -> None:
    """A client with a /48 of IPv6, which costs nothing, can't fill the store or the hashing queue; other sites and
    addresses are counted apart.
    """
    attempts, passed = LoginAttempts(AttemptCounts(redis)), 0
    for number in range(PASSWORDS_OF_WIDE_NETWORK.free + 50):
        try:
            await attempts.begin(f"2001:db8:1:{number:x}::1", NOW)
            passed += 1
        except TooManyRequests:
            pass
    assert passed == PASSWORDS_OF_WIDE_NETWORK.free + 1
    with pytest.raises(TooManyRequests):
        await attempts.begin_anonymous("2001:db8:1:ffff::1", NOW)
    await attempts.begin("2001:db8:2:1::1", NOW)
    await attempts.begin("192.0.2.1", NOW)


async def test_successes_dont_count_for_the_site(redis: Redis) -> None:
    """Only failures count for the whole site."""
    attempts = LoginAttempts(AttemptCounts(redis))
    for number in range(2 * PASSWORDS_OF_WIDE_NETWORK.free):
        await attempts.succeeded(await attempts.begin(f"2001:db8:1:{number:x}::1", NOW))
    assert await attempts.begin("2001:db8:1::1", NOW)


async def test_signing_in_to_ones_own_account_buys_no_guesses(redis: Redis) -> None:
    """An address that succeeds at its own account between failures at others is stopped just as early."""
    attempts = LoginAttempts(AttemptCounts(redis))
    guesses = 0
    for _ in range(100):
        try:
            await attempts.begin("192.0.2.7", NOW)
            guesses += 1
            await attempts.succeeded(await attempts.begin("192.0.2.7", NOW))
        except TooManyRequests:
            break
    assert guesses <= PASSWORDS_OF_NETWORK.free + 1


async def test_success_ends_the_pauses_of_a_device(redis: Redis) -> None:
    """The count starts again."""
    attempts = LoginAttempts(AttemptCounts(redis))
    for _ in range(5):
        for _ in range(PASSWORDS_OF_BROWSER.free - 1):
            await attempts.begin("192.0.2.7", NOW, device="d")
        await attempts.succeeded(await attempts.begin("192.0.2.7", NOW, device="d"))


async def test_our_own_failures_dont_count(redis: Redis) -> None:
    """A check that found no place in the queue is an example."""
    attempts = LoginAttempts(AttemptCounts(redis))
    for _ in range(50):
        await attempts.undecided(await attempts.begin("192.0.2.7", NOW))
    for _ in range(50):
        await attempts.undecided(await attempts.begin_anonymous("192.0.2.7", NOW))


async def test_a_stolen_browser_is_slowed_too(redis: Redis) -> None:
    """It has a separate, limited allowance."""
    attempts = LoginAttempts(AttemptCounts(redis))
    for _ in range(PASSWORDS_OF_BROWSER.free + 1):
        await attempts.begin("192.0.2.7", NOW, device="d1")
    with pytest.raises(TooManyRequests, match="1 second"):
        await attempts.begin("192.0.2.7", NOW, device="d1")
    await attempts.begin("192.0.2.7", NOW, device="d2")
