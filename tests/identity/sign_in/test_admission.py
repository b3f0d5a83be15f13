"""Admission: which account belongs to an identity, who may register and by which name, and what typed names mean."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import microsub.identity
from microsub.accounts.sessions import SignedInPerson
from microsub.accounts.store import Accounts
from microsub.base.errors import ProfileUnreachable
from microsub.base.identifiers import canonical_me
from microsub.base.rate_limits import FixedWindow
from microsub.configuration.model import Registration
from microsub.fetch import Hop
from microsub.identity.admission import (
    UNFIT,
    Admission,
    ConfirmedPerson,
    Refusal,
    UserAddresses,
    account_names,
    proven,
    registration_refused,
)
from microsub.identity.limits import USER_ADDRESSES
from microsub.identity.profiles import Profile, trail_of
from microsub.identity.protocol.documents import is_own
from microsub.model.reader import NAME, NOTIFICATIONS, SAVED
from microsub.redis.protocol import Redis
from microsub.timelines import Channels
from tests.support import examples

NOW = 1_700_000_000.0


class Pages:
    """Permanent redirects by address, and `rel=me` links of pages; other pages can't be fetched."""

    def __init__(self) -> None:
        self.leads: dict[str, tuple[str, ...]] = {}
        self.links: dict[str, tuple[str, ...]] = {}
        self.asked: list[str] = []

    async def claims(self, me: str) -> Profile:
        self.asked.append(me)
        if me not in self.leads and me not in self.links:
            raise ProfileUnreachable(me, "found nothing")
        trail = trail_of(me, [Hop(url, permanent=True) for url in self.leads.get(me, ())])
        return replace(trail, me_links=self.links.get(me, ()))


def profile(*names: str, links: tuple[str, ...] = ()) -> Profile:
    return Profile(names[-1], frozenset(names), me_links=links, page=names[-1])


async def admitted(redis: Redis, account: str, returned: str, *onwards: str, pages: Pages | None = None) -> bool:
    """Whether an identity gets into the account, if its provider says `returned` and its page redirects `onwards`."""
    accounts = Accounts(redis)
    await accounts.add_user("ann", account, NOW)
    await accounts.set_me("ann", account)
    person = proven(returned, returned, profile(returned, *onwards))
    verdict = await Admission(accounts, pages or Pages()).admit(person)
    assert isinstance(verdict, Refusal) or verdict == SignedInPerson("ann", account)
    return isinstance(verdict, SignedInPerson)


@pytest.mark.parametrize(
    ("account", "returned", "onwards", "expected"),
    [
        # spelled like the account
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
        # only with a permanent redirect; the same for www. and a slash
        ("https://ann.example/", "http://ann.example/", ("https://ann.example/",), True),
        ("https://ann.example/", "https://www.ann.example/", ("https://ann.example/",), True),
        ("https://ann.example/me/", "https://ann.example/me", ("https://ann.example/me/",), True),
        ("http://ann.example/", "https://ann.example/", ("http://ann.example/",), True),
        # a page that redirects to another user's page isn't theirs
        ("https://ann.example/ann", "https://ann.example/mallory", ("https://ann.example/ann",), False),
        ("https://ann.example/", "https://ann.example/mallory", ("https://ann.example/",), False),
    ],
)
async def test_accounts_are_matched_to_profiles(
    real_redis: Redis, account: str, returned: str, onwards: tuple[str, ...], expected: bool
) -> None:
    """The verdict depends on the account, the provider's reply, and permanent redirects of that page."""
    assert await admitted(real_redis, account, returned, *onwards) is expected


async def test_pages_on_other_sites_are_not_fetched(real_redis: Redis) -> None:
    """Of the same site only a few pages are fetched, first the one that was entered."""
    accounts, pages = Accounts(real_redis), Pages()
    for n in range(9):
        await accounts.add_user(f"u{n}", f"https://host.example/{n}", NOW)
    await accounts.add_user("far", "https://far.example/", NOW)
    pages.leads["https://host.example/8"] = ("https://host.example/new",)
    person = proven("https://host.example/8", "https://host.example/new", profile("https://host.example/new"))
    assert await Admission(accounts, pages).admit(person) == SignedInPerson("u8", "https://host.example/8")
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
        # a user who enters a page that doesn't mention the account must not get into it
        (THERE, (), False),
        (THERE, (NEIGHBOUR,), False),
        (NEIGHBOUR, (), False),
    ],
)
@pytest.mark.parametrize("said", [THERE, "http://there.example/", NEIGHBOUR, HERE])
async def test_two_addresses_are_one_person(
    real_redis: Redis, how: str, entered: str, links: tuple[str, ...], expected: bool, said: str
) -> None:
    """The account's page must link to the other one, and the user must enter it, or the other page must link back."""
    accounts, pages = Accounts(real_redis), Pages()
    await accounts.add_user("ann", HERE, NOW)
    (pages.leads if how == "by redirect" else pages.links)[HERE] = (said,)
    person = proven(entered, THERE, profile(THERE, links=links))
    verdict = await Admission(accounts, pages).admit(person)
    if expected and said in {THERE, "http://there.example/"}:
        assert verdict == SignedInPerson("ann", HERE)
    else:
        assert isinstance(verdict, Refusal)


async def test_http_on_the_way_to_https_proves_nothing(real_redis: Redis) -> None:
    """If the account's page links to an https page, control over its http address proves nothing."""
    accounts, pages = Accounts(real_redis), Pages()
    await accounts.add_user("ann", HERE, NOW)
    pages.links[HERE] = (THERE,)
    person = proven(HERE, "http://there.example/", profile("http://there.example/"))
    assert isinstance(await Admission(accounts, pages).admit(person), Refusal)


async def test_a_disabled_user_does_not_come_back_by_another_address(real_redis: Redis) -> None:
    """The user isn't treated as unknown either, and isn't offered a new account."""
    accounts, pages = Accounts(real_redis), Pages()
    await accounts.add_user("ann", HERE, NOW)
    await accounts.disable_user("ann", NOW)
    pages.links[HERE] = (THERE,)
    verdict = await Admission(accounts, pages).admit(proven(HERE, THERE, profile(THERE)))
    assert isinstance(verdict, Refusal)
    assert verdict.title == "Your account is disabled"


async def test_one_address_of_two_accounts_opens_neither(real_redis: Redis) -> None:
    """Both accounts link to this identity, and it links to both."""
    accounts, pages = Accounts(real_redis), Pages()
    for name, me in (("ann", HERE), ("anna", NEIGHBOUR)):
        await accounts.add_user(name, me, NOW)
        pages.links[me] = (THERE,)
    person = proven(THERE, THERE, profile(THERE, links=(HERE, NEIGHBOUR)))
    verdict = await Admission(accounts, pages).admit(person)
    assert isinstance(verdict, Refusal)
    assert verdict.title == "Several accounts have this address"


def test_own_addresses_share_origin_and_path() -> None:
    """An address is ours if its origin matches and its path begins with ours, up to a segment boundary."""
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
    """Both the times per key and the number of keys are limited."""
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


EVERYBODY = Registration("everybody")


class NoPages:
    """Pages without links or redirects to others."""

    async def claims(self, me: str) -> Profile:
        return Profile(me, frozenset({me}))


def person(me: str, *spellings: str, entered: str | None = None) -> ConfirmedPerson:
    profile = Profile(spellings[-1] if spellings else me, frozenset({me, *spellings}), page=me)
    return proven(entered or me, me, profile)


def admission(redis: Redis, registration: Registration = EVERYBODY) -> Admission:
    async def effective() -> Registration:
        return registration

    accounts = Accounts(redis)
    return Admission(accounts, NoPages(), effective, clock=lambda: NOW)


@pytest.mark.parametrize(
    ("me", "name"),
    [
        ("https://ann.example/", "ann-example"),
        ("https://www.ann.example/", "ann-example"),
        ("https://social.example/@Bob", "social-example-bob"),
        ("https://ann.example/~me/?x=1", "ann-example-me-x-1"),
        ("https://ann_b.example/", "ann_b-example"),
        ("https://xn--bcher-kva.example/", "xn-bcher-kva-example"),
        (f"https://{'a' * 60}.example/", "a" * 48),
    ],
)
def test_names_are_readable(me: str, name: str) -> None:
    """They consist of host and path."""
    assert next(account_names(me, ())) == name


def test_names_that_are_taken_or_mean_something_get_a_number() -> None:
    """Names that differ only in case are the same."""
    assert next(account_names("https://ann.example/", {"Ann-Example"})) == "ann-example-2"
    assert next(account_names("https://ann.example/", {"ann-example", "ann-example-2"})) == "ann-example-3"
    assert next(account_names("https://global/", ())) == "global-2"


HOSTS = st.from_regex(r"([a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?\.){0,5}[a-z]{2,10}", fullmatch=True)
PATHS = st.text(min_size=0, max_size=80)


@settings(max_examples=examples(100), deadline=None)
@given(HOSTS, PATHS, st.sets(st.sampled_from(["a-bc", "user", "global-2"])))
def test_every_person_has_a_name(host: str, path: str, taken: set[str]) -> None:
    """The names are valid, free and not reserved, and always the same in the same order."""
    try:
        me = canonical_me(f"https://{host}/{path}")
    except Exception:
        return
    several = [name for name, _ in zip(account_names(me, taken), range(20), strict=False)]
    assert len({name.lower() for name in several}) == 20
    assert all(NAME.match(name) for name in several)
    assert not {name.lower() for name in several} & {*UNFIT, *(name.lower() for name in taken)}
    assert several == [name for name, _ in zip(account_names(me, taken), range(20), strict=False)]


@pytest.mark.parametrize(
    ("registration", "me", "allowed"),
    [
        (Registration(), "https://ann.example/", False),
        (Registration("everybody"), "https://ann.example/", True),
        (Registration("everybody"), "http://ann.example/", False),
        (Registration("everybody", refuse=("ann.example",)), "https://ann.example/", False),
        (Registration("everybody", refuse=("ann.example",)), "https://sub.ann.example/x", False),
        (Registration("everybody", refuse=("ann.example",)), "https://joann.example/", True),
        (
            Registration("everybody", refuse=("https://www.host.example/mallory/",)),
            "https://host.example/mallory",
            False,
        ),
        (Registration("everybody", refuse=("https://host.example/mallory",)), "https://host.example/bob", True),
        (Registration("domains", ("host.example",)), "https://host.example/bob", True),
        (Registration("domains", ("host.example",)), "https://bob.host.example/", True),
        (Registration("domains", ("host.example",)), "https://ghost.example/", False),
        (Registration("domains", ("host.example",)), "https://host.example.evil.example/", False),
        (Registration("domains", ("host.example",)), "https://evil.example/host.example", False),
        (Registration("domains", ("host.example",), refuse=("bob.host.example",)), "https://bob.host.example/", False),
        (Registration("domains", ("bücher.example",)), "https://xn--bcher-kva.example/", True),
        (Registration("nobody", ("host.example",)), "https://host.example/", False),
    ],
)
def test_registration_depends_on_settings_and_address(registration: Registration, me: str, allowed: bool) -> None:
    """Settings and proven address decide; refused hosts are exceptions from allowed ones."""
    assert (registration_refused(registration, me, ()) is None) is allowed


async def test_an_account_is_made_once(real_redis: Redis) -> None:
    """It has the channels notifications and saved; later sign-ins find it, even with registration closed."""
    made = await admission(real_redis).admit(person("https://ann.example/"))
    assert made == SignedInPerson("ann-example", "https://ann.example/", new=True)
    [user] = await Accounts(real_redis).users()
    assert (user.name, user.registered, user.created) == ("ann-example", True, NOW)
    assert [channel.uid for channel in await Channels(real_redis).list("ann-example")] == [NOTIFICATIONS, SAVED]
    for registration in (EVERYBODY, Registration()):
        found = await admission(real_redis, registration).admit(person("https://ann.example/"))
        assert found == SignedInPerson("ann-example", "https://ann.example/")


async def test_a_user_left_unlisted_by_a_crash_is_found(real_redis: Redis) -> None:
    """A user that isn't in the list is completed at the owner's next sign-in."""
    await admission(real_redis).admit(person("https://ann.example/"))
    await real_redis.command("SREM", "users", "ann-example")
    again = await admission(real_redis).admit(person("https://ann.example/"))
    assert again == SignedInPerson("ann-example", "https://ann.example/", new=True)
    assert [user.name for user in await Accounts(real_redis).users()] == ["ann-example"]


@pytest.mark.parametrize(
    ("account", "proven_by", "spellings"),
    [
        ("https://ann.example/", "https://www.ann.example/", ()),
        ("https://ann.example/me", "https://ann.example/me/", ()),
        ("https://ann.example/", "http://ann.example/", ()),
    ],
)
async def test_a_similar_address_neither_opens_nor_makes_an_account(
    real_redis: Redis, account: str, proven_by: str, spellings: tuple[str, ...]
) -> None:
    """Otherwise one user might get two accounts, or somebody else's account."""
    await Accounts(real_redis).add_user("ann", account, NOW)
    verdict = await admission(real_redis).admit(person(proven_by, *spellings))
    assert isinstance(verdict, Refusal)
    assert account in verdict.description
    assert len(await Accounts(real_redis).users()) == 1


async def test_an_unlinked_page_opens_no_account(real_redis: Redis) -> None:
    """A user who enters one address and proves another is told so, and gets neither that account nor a new one."""
    await Accounts(real_redis).add_user("ann", "https://old.example/", NOW)
    moved = person("https://new.example/", entered="https://old.example/")
    verdict = await admission(real_redis).admit(moved)
    assert isinstance(verdict, Refusal)
    assert "https://old.example/" in verdict.description
    assert [user.me for user in await Accounts(real_redis).users()] == ["https://old.example/"]
    # The owner of the new site gets a new account, without access to the old one.
    fresh = await admission(real_redis).admit(person("https://new.example/"))
    assert fresh == SignedInPerson("new-example", "https://new.example/", new=True)


async def test_removed_users_dont_register_again(real_redis: Redis) -> None:
    """This holds as long as the account is stored."""
    await admission(real_redis).admit(person("https://ann.example/"))
    await Accounts(real_redis).disable_user("ann-example", NOW)
    verdict = await admission(real_redis).admit(person("https://ann.example/"))
    assert isinstance(verdict, Refusal)
    assert verdict.title == "Your account is disabled"
    assert len(await Accounts(real_redis).users()) == 1


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
        ("Twin", ""),
        ("twin", ""),
    ]:
        await made.add_user(name, me, NOW)
    return made


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("ann", "ann"),
        ("  ann ", "ann"),
        ("Ann", "ann"),
        ("Twin", "Twin"),
        ("twin", "twin"),
        ("TWIN", "TWIN"),
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
    """Any spelling of an address works, and capitals in a name that only one user has; unknown ones stay unchanged."""
    assert await UserAddresses(accounts).meant(typed) == meant


@pytest.mark.parametrize(
    "typed", ["", "https://shared.example/", "https://site.example/", "ann.example/other", "a b", "@"]
)
async def test_ambiguous_addresses_name_no_user(accounts: Accounts, typed: str) -> None:
    """An address that two users share is one of the examples."""
    found = await UserAddresses(accounts).meant(typed)
    assert found not in {user.name for user in await accounts.users()}


async def test_addresses_are_read_once_in_a_while(accounts: Accounts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is cached for seconds; after that a new user is found, and a disabled one isn't."""
    now, reads = [NOW], []
    naming = UserAddresses(accounts, clock=lambda: now[0])
    users = accounts.users

    async def counted() -> object:
        reads.append(1)
        return await users()

    monkeypatch.setattr(accounts, "users", counted)
    for number in range(50):
        await naming.meant(f"https://{number}.example/")
    assert len(reads) == 1
    await accounts.add_user("new", "https://new.example/", NOW)
    await accounts.disable_user("ann", NOW)
    now[0] += USER_ADDRESSES
    assert await naming.meant("https://new.example/") == "new"
    assert await naming.meant("https://ann.example/") == "https://ann.example/"
    assert len(reads) == 2


def test_every_refusal_has_its_sentence() -> None:
    """Each name in the code has a row in `refusals.toml`, and each row is used."""
    folder = Path(microsub.identity.__file__).parent
    code = "".join((folder / name).read_text() for name in ("admission.py", "sign_in.py"))
    rows = tomllib.loads((folder / "refusals.toml").read_text("utf-8"))
    assert set(re.findall(r'(?:failed|Refusal)\(\s*"([a-z-]+)"', code)) == rows.keys()
