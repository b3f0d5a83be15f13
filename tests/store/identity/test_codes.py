"""Authorization codes: good once, for a short time, for whoever they were made for."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace

import pytest

from microsub.errors import NotFound, Unauthorized
from microsub.identity.limits import ACCESS_TOKEN, CODE, CODE_REPEAT
from microsub.identity.store.accounts import Accounts
from microsub.identity.store.grants import Codes, Consent, Grants, Spent
from microsub.redis import identitykeys, keys
from microsub.redis.protocol import Redis
from tests.support.invariants import all_keys

NOW = 2_000_000_000.0
APP = "https://app.example/"
CONSENT = Consent("ann", APP, "An app", f"{APP}back", frozenset({"read", "follow"}), "challenge")


def yes(_: Consent) -> bool:
    return True


def no(_: Consent) -> bool:
    return False


@pytest.fixture
async def accounts(redis: Redis) -> Accounts:
    made = Accounts(redis)
    await made.add_user("ann", "https://ann.example/", NOW)
    return made


async def is_good(accounts: Accounts, token: str, now: float = NOW) -> bool:
    credential = accounts.credential(token)
    assert credential is not None
    try:
        await accounts.verify(credential, now)
    except Unauthorized:
        return False
    return True


async def everything(redis: Redis) -> str:
    """All that Redis holds, as text."""
    found = []
    for name in await all_keys(redis):
        kind = await redis.command("TYPE", name)
        verb = {b"hash": "HGETALL", b"set": "SMEMBERS", b"string": "GET"}.get(
            kind if isinstance(kind, bytes) else kind.encode()
        )
        found += [name, *(await redis.command(verb, name) if verb else [])]
    return " ".join(part.decode() for part in found)


async def test_a_code_becomes_tokens_once(redis: Redis, accounts: Accounts) -> None:
    """What was agreed to is what the tokens allow, and the app is named in the lists."""
    codes = Codes(redis)
    code = await codes.create(CONSENT, NOW)
    assert await codes.find(code) == CONSENT
    spent, issued = await codes.redeem(code, "verifier", yes, NOW + 1)
    assert spent is Spent.GIVEN
    assert issued is not None
    assert (issued.user, issued.client, issued.scopes, issued.lifetime) == (
        *("ann", APP, CONSENT.scopes),
        ACCESS_TOKEN,
    )
    credential = accounts.credential(issued.access)
    assert credential is not None
    assert (await accounts.verify(credential, NOW + 1)).scopes == CONSENT.scopes
    assert [token.client for token in await accounts.tokens("ann")] == [APP]
    (grant,) = await Grants(redis).all("ann")
    assert (grant.client, grant.title, grant.created, grant.renewed) == (APP, "An app", NOW + 1, None)


async def test_no_secret_is_stored(redis: Redis, accounts: Accounts) -> None:
    """Neither code nor verifier nor tokens can be read in Redis, before and after the exchange."""
    codes = Codes(redis)
    code = await codes.create(CONSENT, NOW)
    assert code.partition(".")[2] not in await everything(redis)
    _, issued = await codes.redeem(code, "verifier-of-the-app", yes, NOW)
    assert issued is not None
    held = await everything(redis)
    for secret in (code, issued.access, issued.refresh, "verifier-of-the-app"):
        assert secret.rpartition(".")[2] not in held


async def test_the_same_request_gets_the_same_answer_for_seconds(redis: Redis, accounts: Accounts) -> None:
    """Some apps ask twice. Later the same request takes back what it had got."""
    codes = Codes(redis)
    code = await codes.create(CONSENT, NOW)
    _, first = await codes.redeem(code, "v", yes, NOW)
    spent, second = await codes.redeem(code, "v", yes, NOW + CODE_REPEAT)
    assert (spent, second) == (Spent.AGAIN, first)
    assert len(await accounts.tokens("ann")) == 1
    assert first is not None
    assert await is_good(accounts, first.access)
    spent, third = await codes.redeem(code, "v", yes, NOW + CODE_REPEAT + 0.01)
    assert (spent, third) == (Spent.REUSED, None)
    assert not await is_good(accounts, first.access)
    assert await Grants(redis).all("ann") == []
    assert await accounts.tokens("ann") == []
    spent, fourth = await codes.redeem(code, "v", yes, NOW + 1)
    assert (spent, fourth) == (Spent.REUSED, None)


@pytest.mark.parametrize("how", ["other verifier", "doesn't fit", "for the profile"])
async def test_any_other_second_use_takes_back_what_was_given(redis: Redis, accounts: Accounts, how: str) -> None:
    """Also within the seconds in which the same request would be answered."""
    codes = Codes(redis)
    code = await codes.create(CONSENT, NOW)
    _, first = await codes.redeem(code, "v", yes, NOW)
    assert first is not None
    if how == "for the profile":
        spent = await codes.redeem_profile(code, yes, NOW)
    else:
        spent, _ = await codes.redeem(code, "w", yes if how == "other verifier" else no, NOW)
    assert spent is Spent.REUSED
    assert not await is_good(accounts, first.access)
    assert (await Grants(redis).renew(first.refresh, None, NOW))[1] is None


async def test_a_request_that_does_not_fit_uses_the_code_up(redis: Redis, accounts: Accounts) -> None:
    """Whoever guesses at what belongs to a code has it from somewhere else."""
    codes = Codes(redis)
    code = await codes.create(CONSENT, NOW)
    assert await codes.redeem(code, "v", no, NOW) == (Spent.REFUSED, None)
    assert await codes.redeem(code, "v", yes, NOW) == (Spent.REUSED, None)
    assert await codes.redeem_profile(code, yes, NOW) is Spent.REUSED
    assert await accounts.tokens("ann") == []


async def test_a_code_for_the_profile_gives_no_token(redis: Redis, accounts: Accounts) -> None:
    """It is used up all the same, but for the same request."""
    codes = Codes(redis)
    code = await codes.create(CONSENT, NOW)
    assert await codes.redeem_profile(code, yes, NOW) is Spent.GIVEN
    assert await codes.redeem_profile(code, yes, NOW + 1) is Spent.AGAIN
    assert await codes.redeem(code, "v", yes, NOW + 1) == (Spent.REUSED, None)
    assert await accounts.tokens("ann") == []


async def test_a_code_expires(redis: Redis, accounts: Accounts) -> None:
    """After two minutes it is worth nothing."""
    codes = Codes(redis)
    code = await codes.create(CONSENT, NOW)
    assert await codes.redeem(code, "v", yes, NOW + CODE) == (Spent.EXPIRED, None)
    assert await accounts.tokens("ann") == []


async def test_who_may_not_sign_in_has_no_codes(redis: Redis, accounts: Accounts) -> None:
    """A disabled user gets none, and those of before are worth nothing."""
    codes = Codes(redis)
    code = await codes.create(CONSENT, NOW)
    await accounts.disable_user("ann", NOW)
    assert await codes.redeem(code, "v", yes, NOW) == (Spent.DISABLED, None)
    assert await codes.redeem_profile(code, yes, NOW) is Spent.DISABLED
    with pytest.raises(NotFound):
        await codes.create(CONSENT, NOW)
    with pytest.raises(NotFound):
        await codes.create(replace(CONSENT, user="bob"), NOW)


@pytest.mark.parametrize("code", ["", ".", "ann", "ann.", "ann.x", "a b.x", "ann." + "x" * 600, "bob.x", "ann.\ud800"])
async def test_what_is_no_code_is_unknown(redis: Redis, accounts: Accounts, code: str) -> None:
    """Whatever text comes in its place."""
    codes = Codes(redis)
    assert await codes.redeem(code, "v", yes, NOW) == (Spent.UNKNOWN, None)
    assert await codes.redeem_profile(code, yes, NOW) is Spent.UNKNOWN


async def test_a_code_of_one_user_is_nobody_elses(redis: Redis, accounts: Accounts) -> None:
    """The secret under another's name is unknown."""
    await accounts.add_user("bob", "https://bob.example/", NOW)
    codes = Codes(redis)
    code = await codes.create(CONSENT, NOW)
    assert await codes.redeem("bob." + code.partition(".")[2], "v", yes, NOW) == (Spent.UNKNOWN, None)
    assert (await codes.redeem(code, "v", yes, NOW))[0] is Spent.GIVEN


async def test_neither_code_nor_refresh_token_is_an_access_token(redis: Redis, accounts: Accounts) -> None:
    """Each kind of secret is good for its own purpose alone."""
    codes = Codes(redis)
    code = await codes.create(CONSENT, NOW)
    assert not await is_good(accounts, code)
    _, issued = await codes.redeem(code, "v", yes, NOW)
    assert issued is not None
    assert not await is_good(accounts, code)
    assert not await is_good(accounts, issued.refresh)
    assert (await Grants(redis).renew(issued.access, None, NOW))[1] is None
    assert await codes.redeem(issued.access, "v", yes, NOW) == (Spent.UNKNOWN, None)
    assert await is_good(accounts, issued.access)


async def test_of_many_at_once_all_get_the_same(redis: Redis, accounts: Accounts) -> None:
    """One of them gives, the others find what was given."""
    codes = Codes(redis)
    code = await codes.create(CONSENT, NOW)
    answers = await asyncio.gather(*(codes.redeem(code, "v", yes, NOW) for _ in range(8)))
    assert sorted(spent.value for spent, _ in answers) == ["again"] * 7 + ["given"]
    assert len({issued.access for _, issued in answers if issued}) == 1
    assert len(await accounts.tokens("ann")) == 1
    assert len(await Grants(redis).all("ann")) == 1


async def test_of_profile_and_tokens_at_once_one_is_given_at_most(redis: Redis, accounts: Accounts) -> None:
    """Whichever comes first, the other takes it back."""
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
    """Who dies before the script has left the code as it was; who dies after it, an answer that can be asked for."""
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
    assert spent is Spent.AGAIN
    assert issued is not None
    assert await is_good(accounts, issued.access)


async def test_all_of_a_code_lies_with_its_user(redis: Redis, accounts: Accounts) -> None:
    """The record ends by itself, an hour after it was made; the keys are those of the user."""
    codes = Codes(redis)
    code = await codes.create(CONSENT, NOW)
    await codes.redeem(code, "v", yes, NOW)
    (record,) = [name for name in await all_keys(redis) if b":code:" in name]
    assert 3000 < await redis.command("TTL", record) <= 3600
    (grant,) = await Grants(redis).all("ann")
    assert await redis.command("TTL", identitykeys.grant("ann", grant.id)) > 0
    (token,) = await accounts.tokens("ann")
    assert await redis.command("TTL", keys.token("ann", token.digest)) > 0


REDEEMER = """
import asyncio, json, sys
from microsub.identity.store.grants import Codes
from microsub.redis.multiplexer import Multiplexed

async def main(url, code, now):
    redis = Multiplexed(url)
    await redis.command("PING")
    print("ready", flush=True)
    sys.stdin.readline()
    spent, issued = await Codes(redis).redeem(code, "v", lambda _: True, float(now))
    print(json.dumps([spent.value, issued and issued.access]), flush=True)
    await redis.aclose()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_two_processes_that_redeem_one_code_at_once_give_one_token(real_redis: Redis, redis_url: str) -> None:
    """Both answers are the same, and there is one grant."""
    accounts = Accounts(real_redis)
    await accounts.add_user("ann", "https://ann.example/", NOW)
    code = await Codes(real_redis).create(CONSENT, NOW)
    pipe = asyncio.subprocess.PIPE
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", REDEEMER, redis_url, code, str(NOW)), stdin=pipe, stdout=pipe
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
    outputs = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
    answers = [json.loads(output) for output, _ in outputs]
    assert sorted(answer[0] for answer in answers) == ["again", "given"]
    assert answers[0][1] == answers[1][1]
    assert await is_good(accounts, answers[0][1])
    assert len(await accounts.tokens("ann")) == len(await Grants(real_redis).all("ann")) == 1
