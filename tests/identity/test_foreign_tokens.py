"""Checks of tokens at providers: when they are made, and how long results are valid."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import structlog

from microsub.accounts.foreign import ForeignTokens, UnknownTokens, Vouched
from microsub.accounts.store import Accounts, User
from microsub.base.errors import Forbidden, MicrosubError, ProviderUnavailable, Unauthorized
from microsub.base.metrics import TOKEN_CHECKS
from microsub.configuration.model import IdentitySettings
from microsub.fetch import RequestFailure
from microsub.identity.foreign_tokens import (
    Denied,
    ForeignTokenCheck,
    TokenVerdict,
)
from microsub.model.reader import Credential, Grant
from microsub.redis.protocol import Redis
from tests.support import later
from tests.support.posts import NOON as NOW
from tests.support.waiting import wait_until

ANN, ME, APP = "ann", "https://ann.example/", "https://app.example/"
TOKEN = Credential(ANN, "ab" * 32)
READ = Vouched(frozenset({"read"}), APP, NOW)
GRANT = Grant(ANN, frozenset({"read"}))
DOWN = RequestFailure("no answer after 10 s")
SETTINGS = IdentitySettings(token_cache=600, token_grace=3600)


@dataclass
class Scripted:
    """A provider with scripted answers, given at the latest when `open` is set; `asked` counts the checks."""

    says: TokenVerdict | Exception = READ
    asked: int = 0
    at_once: int = 0
    most_at_once: int = 0
    open: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.open.set()

    async def ask(self, who: User, token: str, now: float) -> TokenVerdict:
        assert (who.name, who.me) == (ANN, ME)
        self.asked += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self.open.wait()
        self.at_once -= 1
        if isinstance(self.says, Exception):
            raise self.says
        return self.says._replace(checked=now) if isinstance(self.says, Vouched) else self.says


@dataclass
class World:
    """Ann, and a process that checks her tokens; `process` creates another one."""

    redis: Redis
    provider: Scripted = field(default_factory=Scripted)
    settings: IdentitySettings = SETTINGS

    def __post_init__(self) -> None:
        self.accounts = Accounts(self.redis)
        self.verification = self.process()

    def process(self, **more: Any) -> ForeignTokenCheck:
        return ForeignTokenCheck(ForeignTokens(self.redis), self.provider, later(lambda: self.settings), **more)

    async def check(self, now: float = NOW, credential: Credential = TOKEN, address: str = "192.0.2.1") -> Grant:
        return await self.verification.check(credential, "the token", address, now)

    async def refused(self, kind: type[MicrosubError], now: float = NOW) -> Any:
        with pytest.raises(kind) as caught:
            await self.check(now)
        return caught.value


@pytest.fixture
async def world(redis: Redis) -> World:
    made = World(redis)
    await made.accounts.add_user(ANN, ME, NOW)
    return made


def another(number: int) -> Credential:
    return Credential(ANN, f"{number:064x}")


# --- checks


async def test_never_longer_than_the_provider_says(world: World) -> None:
    """This limits both the result and the grace period."""
    world.provider.says = Vouched(READ.scopes, APP, NOW, NOW + 100)
    await world.check()
    with pytest.raises(Unauthorized):
        await world.accounts.verify(TOKEN, NOW + 100)
    world.provider.says = DOWN
    await world.refused(ProviderUnavailable, NOW + 100)


async def test_a_refusal_is_remembered(world: World) -> None:
    """The provider isn't asked again about the same token."""
    for says, error in ((Denied("no"), Unauthorized), (Denied(me="https://eve.example/"), Forbidden)):
        world.provider.says = says
        world.provider.asked = 0
        await world.redis.command("FLUSHDB")
        await world.accounts.add_user(ANN, ME, NOW)
        for _ in range(5):
            await world.refused(error)
        assert world.provider.asked == 1


async def test_users_without_provider_cause_no_request(world: World) -> None:
    """The same holds for disabled and unknown users."""
    await world.accounts.set_me(ANN, "")
    await world.refused(Unauthorized)
    await world.accounts.set_me(ANN, ME)
    await world.accounts.disable_user(ANN, NOW)
    await world.refused(Unauthorized)
    with pytest.raises(Unauthorized):
        await world.check(credential=Credential("nobody", TOKEN.digest))
    assert not world.provider.asked


async def test_a_change_during_the_question_makes_the_answer_worthless(world: World) -> None:
    """The answer was about another identity."""
    world.provider.open.clear()
    check = asyncio.create_task(world.check())
    await wait_until(lambda: world.provider.asked)
    await world.accounts.set_me(ANN, "https://new.example/")
    world.provider.open.set()
    with pytest.raises(Unauthorized):
        await check
    with pytest.raises(Unauthorized):
        await world.accounts.verify(TOKEN, NOW)


# --- unavailable providers


async def test_cached_verdicts_serve_while_the_provider_is_away(world: World) -> None:
    """It is asked every half minute; its first answer after its return applies again."""
    await world.check()
    world.provider.says = DOWN
    for now in (600, 615, 629):
        assert await world.check(NOW + now) == GRANT
    assert world.provider.asked == 2
    assert await world.check(NOW + 630) == GRANT
    assert world.provider.asked == 3
    assert await world.accounts.verify(TOKEN, NOW + 659) == GRANT
    world.provider.says = Denied("no")
    await world.refused(Unauthorized, NOW + 660)


async def test_grace_ends(world: World) -> None:
    """The error doesn't sign the user out, and says when to retry."""
    await world.check()
    world.provider.says = DOWN
    assert await world.check(NOW + 4199) == GRANT
    error = await world.refused(ProviderUnavailable, NOW + 4200)
    assert error.retry_after == 10
    assert "no answer" in error.why
    await world.refused(ProviderUnavailable, NOW + 4201)
    assert world.provider.asked == 3


async def test_a_provider_may_ask_for_peace(world: World) -> None:
    """Its Retry-After is respected, and clients get the remaining time."""
    world.provider.says = RequestFailure("the server answered 429", retry_after=40)
    assert (await world.refused(ProviderUnavailable)).retry_after == 40
    later = await world.refused(ProviderUnavailable, NOW + 15)
    assert (later.retry_after, later.why) == (25, "the server answered 429")
    assert world.provider.asked == 1


async def test_a_missing_provider_is_no_outage(world: World) -> None:
    """If the page has no provider, new tokens are refused, and valid ones keep the grace period."""
    world.provider.says = RequestFailure("nobody is named there", lasting=True)
    assert "nobody is named there" in (await world.refused(Unauthorized)).description
    world.provider.says = READ
    assert await world.check(credential=another(1)) == GRANT
    world.provider.says = RequestFailure("nobody is named there", lasting=True)
    assert await world.check(NOW + 600, credential=another(1)) == GRANT
    with pytest.raises(Unauthorized):
        await world.check(NOW + 4200, credential=another(1))


async def test_a_replaced_own_token_causes_no_request(world: World) -> None:
    """The reply is 401 at once, even if the user's page can't be reached."""
    world.provider.says = DOWN
    first = await world.accounts.create_token(ANN, ["read"], "shown", NOW, mark="greeting")
    await world.accounts.create_token(ANN, ["read"], "shown", NOW, mark="greeting")
    credential = world.accounts.credential(first)
    assert credential is not None
    with pytest.raises(Unauthorized):
        await world.check(credential=credential)
    assert world.provider.asked == 0


async def test_a_bug_is_no_answer(world: World) -> None:
    """Nothing is cached: the next check is made."""
    world.provider.says = RuntimeError("bug")
    with pytest.raises(RuntimeError):
        await world.check()
    world.provider.says = READ
    assert await world.check() == GRANT


# --- concurrent checks


async def all_of(*checks: Awaitable[Any]) -> Sequence[Any]:
    return await asyncio.gather(*checks, return_exceptions=True)


async def test_a_refusal_reaches_all_who_wait(world: World) -> None:
    """This includes other processes."""
    world.provider.says = Denied("no")
    other = world.process()
    world.provider.open.clear()
    checks = [asyncio.create_task(one.check(TOKEN, "t", "192.0.2.1", NOW)) for one in (world.verification, other)]
    await wait_until(lambda: world.provider.asked)
    world.provider.open.set()
    assert [type(outcome) for outcome in await all_of(*checks)] == [Unauthorized, Unauthorized]
    assert world.provider.asked == 1


async def test_a_disconnected_client_doesnt_end_the_check(world: World) -> None:
    """A client that disconnects doesn't end the check for the others."""
    world.provider.open.clear()
    first, second = (asyncio.create_task(world.check()) for _ in range(2))
    await wait_until(lambda: world.provider.asked)
    first.cancel()
    await all_of(first)
    world.provider.open.set()
    assert await second == GRANT


async def test_waiting_checks_have_a_time_limit(world: World) -> None:
    """If another process hangs, they report that the check failed."""
    world.provider.open.clear()
    hanging = asyncio.create_task(world.check())
    await wait_until(lambda: world.provider.asked)
    other = world.process(patience=0.05)
    with pytest.raises(ProviderUnavailable):
        await other.check(TOKEN, "t", "192.0.2.1", NOW)
    world.provider.open.set()
    assert await hanging == GRANT


FROM_ONE = UnknownTokens().of_first + UnknownTokens().of_rest
IN_ALL = UnknownTokens().known + UnknownTokens().first + UnknownTokens().rest


async def test_a_customers_network_is_one_address(world: World) -> None:
    """A client with one IPv6 address has a whole /64, and gets no more checks with all of it than with one address."""
    world.provider.says = Denied("no")
    await all_of(*(world.check(credential=another(n), address=f"2001:db8:0:7::{n:x}") for n in range(60)))
    assert world.provider.asked == FROM_ONE


@pytest.mark.parametrize(
    "addresses", [[f"192.0.2.{n}" for n in range(1, 11)], [f"2001:db8:0:{n:x}::1" for n in range(200)]]
)
async def test_a_few_attackers_block_no_new_app(world: World, addresses: list[str]) -> None:
    """Ten IPv4 addresses or a whole /48 with made-up tokens don't prevent checks for other addresses."""
    world.provider.says = Denied("no")
    await all_of(*(world.check(credential=another(n), address=addresses[n % len(addresses)]) for n in range(400)))
    world.provider.says = READ
    assert await world.check(address="198.51.100.7") == GRANT


async def test_known_addresses_are_checked_during_attacks(world: World) -> None:
    """If one app of the user is known there, the next one can sign in, even during attacks from known networks."""
    await world.check(credential=another(9000), address="198.51.100.7")
    await world.check(credential=another(9001), address="203.0.113.9")
    world.provider.says = Denied("no")
    addresses = [f"192.0.2.{n}" for n in range(256)] + ["203.0.113.9"]
    await all_of(*(world.check(credential=another(n), address=addresses[n % len(addresses)]) for n in range(1000)))
    assert world.provider.asked <= IN_ALL
    world.provider.says = READ
    assert await world.check(address="198.51.100.7") == GRANT


async def test_attacks_dont_affect_known_tokens(world: World) -> None:
    """A confirmed token is checked again, whatever else happens."""
    await world.check()
    world.provider.says = Denied("no")
    await all_of(*(world.check(credential=another(number), address=f"192.0.2.{number}") for number in range(60)))
    world.provider.says = READ
    assert await world.check(NOW + 600) == GRANT


# --- logs and metrics


async def test_logs_tell_no_secrets(world: World) -> None:
    """They contain the user, the outcome and the app, but neither the token nor its hash."""
    world.provider.says = Vouched(READ.scopes, "https://user:pass@app.example/", NOW)
    with structlog.testing.capture_logs() as lines:
        await world.check()
        world.provider.says = DOWN
        await world.check(NOW + 600)
        world.provider.says = Denied(me="https://eve.example/")
        await world.refused(Forbidden, NOW + 700)
    assert [line["outcome"] for line in lines] == ["valid", "grace", "somebody_else"]
    text = repr(lines)
    assert "the token'" not in text
    assert TOKEN.digest not in text
    assert "pass@" not in text
    assert all(line["user"] == ANN for line in lines)


async def test_outcomes_are_counted(world: World) -> None:
    """Both checks at the provider and cached results are counted."""

    def counted() -> dict[str, float]:
        outcomes = ("valid", "invalid", "remembered", "grace")
        return {outcome: TOKEN_CHECKS.labels(outcome)._value.get() for outcome in outcomes}

    before = counted()
    await world.check()
    world.provider.says = Denied("no")
    await world.refused(Unauthorized, NOW + 600)
    await world.refused(Unauthorized, NOW + 601)
    grown = {outcome: value - before[outcome] for outcome, value in counted().items()}
    assert grown == {"valid": 1, "invalid": 1, "remembered": 1, "grace": 0}
