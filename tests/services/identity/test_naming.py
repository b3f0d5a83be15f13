"""Whom somebody means who types a name or the address of their page."""

from __future__ import annotations

import pytest

from microsub.identity.lifetimes import USER_ADDRESSES
from microsub.identity.local.login import TypedNames
from microsub.identity.store.accounts import Accounts
from microsub.redis.protocol import Redis
from tests.support.one_reader import NOW


@pytest.fixture
async def accounts(redis: Redis) -> Accounts:
    made = Accounts(redis)
    for name, me in [
        ("ann", "https://ann.example/"),
        ("path", "https://site.example/~path"),
        ("old", "http://old.example/"),
        ("one", "https://shared.example/"),
        ("two", "https://shared.example/"),
        ("nameless", ""),
    ]:
        await made.add_user(name, me, NOW)
    return made


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("ann", "ann"),
        ("  ann ", "ann"),
        ("https://ann.example/", "ann"),
        ("HTTPS://Ann.Example", "ann"),
        ("ann.example", "ann"),
        ("http://ann.example/", "ann"),
        ("site.example/~path", "path"),
        ("https://old.example", "old"),
        ("nobody", "nobody"),
    ],
)
async def test_names_and_addresses_lead_to_users(accounts: Accounts, typed: str, meant: str) -> None:
    """However they are written; a name is taken as it is, whether there is such a user or not."""
    assert await TypedNames(accounts).meant(typed, NOW) == meant


@pytest.mark.parametrize(
    "typed", ["", "https://shared.example/", "https://site.example/", "ann.example/other", "a b", "@"]
)
async def test_what_means_nobody_is_nobodys_name(accounts: Accounts, typed: str) -> None:
    """Among it an address that two users have."""
    found = await TypedNames(accounts).meant(typed, NOW)
    assert found not in {user.name for user in await accounts.users()}


async def test_addresses_are_read_once_in_a_while(accounts: Accounts, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often somebody asks; a new user is known seconds later, a disabled one forgotten."""
    naming, reads = TypedNames(accounts), []
    users = accounts.users

    async def counted() -> object:
        reads.append(1)
        return await users()

    monkeypatch.setattr(accounts, "users", counted)
    for number in range(50):
        await naming.meant(f"https://{number}.example/", NOW)
    assert len(reads) == 1
    await accounts.add_user("new", "https://new.example/", NOW)
    await accounts.disable_user("ann", NOW)
    assert await naming.meant("https://new.example/", NOW + USER_ADDRESSES) == "new"
    assert await naming.meant("https://ann.example/", NOW + USER_ADDRESSES) == "https://ann.example/"
    assert len(reads) == 2
