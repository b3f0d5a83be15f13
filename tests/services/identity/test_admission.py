"""Which account is whose: by what is proven, and nothing that is merely said."""

from __future__ import annotations

import pytest

from microsub.errors import ProfileUnreachable
from microsub.fetch import Hop
from microsub.identity.protocol.links import Endpoints
from microsub.identity.protocol.metadata import is_own
from microsub.identity.protocol.replies import ProfileClaims
from microsub.identity.sign_in.admission import Admitted, KnownAddresses, Refusal, UsersOnly, proven
from microsub.identity.sign_in.profiles import Claims, Profile, trail_of
from microsub.identity.store.accounts import Accounts
from microsub.kit.rate_limits import FixedWindow
from microsub.redis.protocol import Redis

NOW = 1_700_000_000.0


class Pages:
    """Where addresses lead for good, and what their pages call the same person's; others can't be had."""

    def __init__(self) -> None:
        self.leads: dict[str, tuple[str, ...]] = {}
        self.links: dict[str, tuple[str, ...]] = {}
        self.asked: list[str] = []

    async def claims(self, me: str) -> Claims:
        self.asked.append(me)
        if me not in self.leads and me not in self.links:
            raise ProfileUnreachable(me, "found nothing")
        return Claims(
            trail_of(me, [Hop(url, permanent=True) for url in self.leads.get(me, ())]), self.links.get(me, ())
        )


def profile(*names: str, links: tuple[str, ...] = ()) -> Profile:
    return Profile(names[-1], frozenset(names), Endpoints(), None, names[-1], me_links=links)


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
        ("https://ann.example/a//", "https://ann.example/a", ("https://ann.example/a//",), False),
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


HERE, THERE, NEIGHBOUR = "https://here.example/", "https://there.example/", "https://neighbour.example/"


@pytest.mark.parametrize("how", ["by redirect", "by rel=me"])
@pytest.mark.parametrize(
    ("entered", "links", "expected"),
    [
        (HERE, (), True),
        (THERE, (HERE,), True),
        (THERE, ("https://www.here.example/",), True),
        (THERE, (NEIGHBOUR, HERE), True),
        # who begins with a page that knows nothing of the account must not end up in it
        (THERE, (), False),
        (THERE, (NEIGHBOUR,), False),
        (NEIGHBOUR, (), False),
    ],
)
@pytest.mark.parametrize("said", [THERE, "http://there.example/", NEIGHBOUR, HERE])
async def test_two_addresses_are_one_person(
    real_redis: Redis, how: str, entered: str, links: tuple[str, ...], expected: bool, said: str
) -> None:
    """If the account's page says so, and the person does: by beginning with it, or on the other page."""
    accounts, pages = Accounts(real_redis), Pages()
    await accounts.add_user("ann", HERE, NOW)
    (pages.leads if how == "by redirect" else pages.links)[HERE] = (said,)
    person = proven(entered, THERE, profile(THERE, links=links), ProfileClaims())
    verdict = await UsersOnly(accounts, pages).admit(person)
    if expected and said in {THERE, "http://there.example/"}:
        assert verdict == Admitted("ann", HERE)
    else:
        assert isinstance(verdict, Refusal)


async def test_http_on_the_way_to_https_proves_nothing(real_redis: Redis) -> None:
    """What an account's page says of an https page isn't shown by who answers for the http page."""
    accounts, pages = Accounts(real_redis), Pages()
    await accounts.add_user("ann", HERE, NOW)
    pages.links[HERE] = (THERE,)
    person = proven(HERE, "http://there.example/", profile("http://there.example/"), ProfileClaims())
    assert isinstance(await UsersOnly(accounts, pages).admit(person), Refusal)


async def test_a_disabled_user_does_not_come_back_by_another_address(real_redis: Redis) -> None:
    """Nor is the person told to be unknown, or offered an account."""
    accounts, pages = Accounts(real_redis), Pages()
    await accounts.add_user("ann", HERE, NOW)
    await accounts.disable_user("ann", NOW)
    pages.links[HERE] = (THERE,)
    verdict = await UsersOnly(accounts, pages).admit(proven(HERE, THERE, profile(THERE), ProfileClaims()))
    assert isinstance(verdict, Refusal)
    assert verdict.title == "Your account is disabled"


async def test_one_address_of_two_accounts_opens_neither(real_redis: Redis) -> None:
    """Both say that they are this person, and this person that they are both."""
    accounts, pages = Accounts(real_redis), Pages()
    for name, me in (("ann", HERE), ("anna", NEIGHBOUR)):
        await accounts.add_user(name, me, NOW)
        pages.links[me] = (THERE,)
    person = proven(THERE, THERE, profile(THERE, links=(HERE, NEIGHBOUR)), ProfileClaims())
    verdict = await UsersOnly(accounts, pages).admit(person)
    assert isinstance(verdict, Refusal)
    assert verdict.title == "That is more than one account"


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
    pacing = FixedWindow(2, 60.0, keys=2)
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
