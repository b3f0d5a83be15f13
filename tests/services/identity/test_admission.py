"""Which account is whose: by what is proven, and nothing that is merely said."""

from __future__ import annotations

import pytest

from microsub.errors import ProfileUnreachable
from microsub.formats.indieauth.endpoints import Endpoints
from microsub.formats.indieauth.replies import ProfileClaims
from microsub.services.identity.admission import Admitted, KnownAddresses, Refusal, UsersOnly, proven
from microsub.services.identity.own import is_own
from microsub.services.identity.pacing import Pacing
from microsub.services.identity.profiles import Profile
from microsub.store.accounts import Accounts
from microsub.store.port import Redis

NOW = 1_700_000_000.0


class Pages:
    """Where addresses lead for good; others can't be had."""

    def __init__(self, **leads: str) -> None:
        self.leads: dict[str, tuple[str, ...]] = {}
        self.asked: list[str] = []

    async def discover(self, me: str, *, max_age: float | None = None) -> Profile:
        self.asked.append(me)
        if me not in self.leads:
            raise ProfileUnreachable(me, "found nothing")
        return profile(me, *self.leads[me])


def profile(*names: str) -> Profile:
    return Profile(names[-1], frozenset(names), Endpoints(), None, names[-1])


async def admitted(redis: Redis, account: str, returned: str, *onwards: str, pages: Pages | None = None) -> bool:
    """Whether somebody whose provider says `returned`, whose page leads `onwards`, gets into the account."""
    accounts = Accounts(redis)
    await accounts.add_user("ann", account, NOW)
    await accounts.set_me("ann", account)
    person = proven(returned, returned, profile(returned, *onwards), ProfileClaims())
    verdict = await UsersOnly(accounts, pages or Pages()).admit(person)
    assert isinstance(verdict, Refusal) or verdict == Admitted("ann", account)
    return isinstance(verdict, Admitted)


@pytest.mark.parametrize(
    ("account", "returned", "onwards", "expected"),
    [
        # as it is written
        ("https://ann.example/", "https://ann.example/", (), True),
        ("https://ann.example", "https://ann.example/", (), True),
        ("HTTPS://Ann.Example/", "https://ann.example/", (), True),
        ("ann.example", "https://ann.example/", (), True),
        ("https://bücher.example/", "https://xn--bcher-kva.example/", (), True),
        ("https://ann.example/Me", "https://ann.example/me", (), False),
        ("https://ann.example/me", "https://ann.example/me/", (), False),
        ("https://ann.example/?x=1", "https://ann.example/", (), False),
        ("https://ann.example.evil.example/", "https://ann.example/", (), False),
        ("", "https://ann.example/", (), False),
        # https proves more than http; http proves nothing for https
        ("http://ann.example/", "https://ann.example/", (), True),
        ("https://ann.example/", "http://ann.example/", (), False),
        # unless it leads there for good; the same with www. and a slash
        ("https://ann.example/", "http://ann.example/", ("https://ann.example/",), True),
        ("https://ann.example/", "https://www.ann.example/", ("https://ann.example/",), True),
        ("https://ann.example/me/", "https://ann.example/me", ("https://ann.example/me/",), True),
        ("http://ann.example/", "https://ann.example/", ("http://ann.example/",), True),
        # whoever leads to somebody else's page isn't them
        ("https://ann.example/ann", "https://ann.example/mallory", ("https://ann.example/ann",), False),
        ("https://ann.example/", "https://ann.example/mallory", ("https://ann.example/",), False),
    ],
)
async def test_who_is_let_in(
    real_redis: Redis, account: str, returned: str, onwards: tuple[str, ...], expected: bool
) -> None:
    """By account, what the provider says, and where that page leads for good."""
    assert await admitted(real_redis, account, returned, *onwards) is expected


async def test_an_account_whose_own_page_leads_on_is_found(real_redis: Redis) -> None:
    """Its owner has said so, on the page that the account names."""
    pages = Pages()
    pages.leads["https://host.example/old"] = ("https://host.example/new",)
    assert await admitted(real_redis, "https://host.example/old", "https://host.example/new", pages=pages)
    assert not await admitted(real_redis, "https://host.example/old", "https://host.example/other", pages=pages)


async def test_pages_on_other_sites_are_not_asked(real_redis: Redis) -> None:
    """Nor more than a few of the same site, the one that was entered first."""
    accounts, pages = Accounts(real_redis), Pages()
    for n in range(9):
        await accounts.add_user(f"u{n}", f"https://host.example/{n}", NOW)
    await accounts.add_user("far", "https://far.example/", NOW)
    pages.leads["https://host.example/8"] = ("https://host.example/new",)
    person = proven(
        "https://host.example/8", "https://host.example/new", profile("https://host.example/new"), ProfileClaims()
    )
    assert await UsersOnly(accounts, pages).admit(person) == Admitted("u8", "https://host.example/8")
    assert len(pages.asked) == 3


async def test_addresses_of_users_are_remembered_for_seconds(real_redis: Redis) -> None:
    """However often somebody asks, the accounts are read rarely."""
    now = [0.0]
    accounts = Accounts(real_redis)
    known = KnownAddresses(accounts, lambda: now[0])
    assert not await known.has("https://ann.example/")
    await accounts.add_user("ann", "https://ann.example", NOW)
    assert not await known.has("https://ann.example/")
    now[0] = 11.0
    assert await known.has("https://ann.example/")


def test_what_is_our_own() -> None:
    """By origin and the beginning of the path, up to the end of a segment."""
    for url in ["https://a.example/r", "https://a.example/r/", "https://A.example:443/r/auth?x=1#y"]:
        assert is_own(url, "https://a.example/r"), url
    for url in [
        None,
        "",
        "x",
        "http://a.example/r",
        "https://a.example/",
        "https://a.example/rx",
        "https://b.example/r",
    ]:
        assert not is_own(url, "https://a.example/r"), url
    assert is_own("https://a.example/", "https://a.example")


def test_pacing_is_bounded() -> None:
    """In times per key, and in keys."""
    pacing = Pacing(2, 60.0, keys=2)
    assert [pacing.allows("a", now) for now in (0, 1, 2, 59, 60, 61, 62)] == [
        True,
        True,
        False,
        False,
        True,
        True,
        False,
    ]
    assert [pacing.allows(key, 63) for key in ("b", "c", "a")] == [True, True, True]
