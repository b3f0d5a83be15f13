"""Which server may speak for whom: profile pages, redirects, metadata, and providers' statements about users."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_network

import pytest

from microsub.base.errors import InvalidRequest, ProfileError, ProfileMismatch, ProfileUnreachable
from microsub.fetch import Answered, Fetcher, FetchFailed, FetchSettings, Hop, Sending
from microsub.identity.limits import PROFILE, PROFILE_FAILURE, PROFILE_RECENT
from microsub.identity.profiles import Profile, Profiles, trail_of
from tests.support.parsing import PARSER
from tests.support.provider import METADATA, Fault, Variant, provider
from tests.support.web import Answer, Publisher, publisher


class Clock:
    """A clock that only the test advances."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Web:
    """Answers by URL, without a network, for names and public https; `asked` is the log."""

    def __init__(self, pages: dict[str, Answered | FetchFailed]) -> None:
        self.pages = pages
        self.asked: list[str] = []

    async def send(self, sending: Sending) -> Answered | FetchFailed:
        self.asked.append(sending.url)
        return self.pages.get(sending.url) or FetchFailed(sending.url, "dns", "there is nobody")


def page(url: str, *links: str, hops: Sequence[tuple[str, bool]] = ()) -> Answered:
    """A page with these `rel=target` links, behind redirects."""
    html = "".join('<link rel="{}" href="{}">'.format(*link.split("=", 1)) for link in links)
    return Answered(200, {"content-type": "text/html"}, html.encode(), url, tuple(Hop(*hop) for hop in hops))


def profiles(**parts: object) -> Profiles:
    door = Fetcher(FetchSettings(allow_private_networks=(ip_network("127.0.0.0/8"),)))
    return Profiles(door, PARSER, **{"private": True, **parts})  # type: ignore[arg-type]


# --- discovery --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("links", ["header", "html", "both", "separate"])
@pytest.mark.parametrize(("joined", "relative"), [(False, True), (True, False)])
async def test_a_newer_server_is_found(links: str, joined: bool, relative: bool) -> None:
    """Whichever way the page names the metadata, all endpoints are taken from it."""
    async with provider(Variant(links=links, joined=joined, relative=relative)) as server:  # type: ignore[arg-type]
        alice = server.person("alice")
        found = await profiles().discover(alice.me)
    assert (found.me, found.names, found.page, found.moved_to) == (alice.me, {alice.me}, alice.me, None)
    assert found.issuer == server.issuer
    assert found.authorization_endpoint == server.url("/auth")
    assert found.token_endpoint == server.url("/token")
    assert found.introspection_endpoint == server.url("/introspect")
    assert found.metadata is not None
    assert found.metadata.iss_in_response


A, B, C = "https://a.example/", "https://b.example/", "https://c.example/"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (page(A, f"me={B}", f"me={A}"), {B}),
        (page(B, hops=[(B, True)]), {B}),
        (page(B, f"me={C}", hops=[(B, True)]), {B, C}),
        (page(f"{A}en", f"me={B}", hops=[(f"{A}en", False)]), {B}),
        (page(f"{A}en", hops=[(f"{A}en", True)]), set()),
        # links of the page behind a temporary redirect don't prove ownership of the address
        (page(B, f"me={C}", hops=[(B, False)]), set()),
        (page(C, f"me={C}", hops=[(B, True), (C, False)]), {B}),
        (Answered(200, {"content-type": "text/html"}, f'<p><a rel="me" href="{B}">'.encode(), A), set()),
        (Answered(200, {"link": f'<{B}>; rel="me"', "content-type": "text/html"}, b"", A), {B}),
    ],
)
async def test_a_pages_other_addresses_are_found(answer: Answered, expected: set[str]) -> None:
    """They come from permanent redirects, and from `rel=me` in header and head; no server is required."""
    found = await Profiles(Web({A: answer}), PARSER).claims(A)
    assert found.others == expected


async def test_a_server_may_mean_its_person_by_such_an_address() -> None:
    """The address must be one of the page that names the server; with https even if the page says http."""
    server = ("authorization_endpoint=/auth", "token_endpoint=/token")
    found = await Profiles(Web({A: page(A, "me=http://b.example/", *server)}), PARSER).discover(A)
    assert [found.is_known_as(me) for me in (A, B, "http://b.example/", C)] == [True, True, True, False]
    assert found.names == {A}


async def test_metadata_goes_before_older_links(site: Publisher) -> None:
    """The older links on the page are ignored, even if the metadata can't be fetched."""
    async with provider(Variant(discovery="both")) as server:
        me = site.serve(
            "/me",
            Answer(
                f'<link rel="authorization_endpoint" href="/old"><link rel="token_endpoint" href="/old">'
                f'<link rel="indieauth-metadata" href="{server.url(METADATA)}">'.encode(),
                headers=[("Content-Type", "text/html")],
            ),
        )
        found = await profiles().discover(me)
        assert found.authorization_endpoint == server.url("/auth")
        server.fault("metadata", Fault(status=404))
        with pytest.raises(ProfileError, match="found status 404, expected 200"):
            await profiles().discover(me)


async def test_a_page_of_any_size_that_people_have(site: Publisher) -> None:
    """A page of half a megabyte is read; one of five is refused."""
    head = b'<link rel="token_endpoint" href="/token">'
    for size, fits in ((500_000, True), (5_000_000, False)):
        me = site.serve(
            f"/{size}", Answer(head + b"<p>post</p>" * (size // 11), headers=[("Content-Type", "text/html")])
        )
        if fits:
            assert (await profiles().discover(me)).token_endpoint == site.url("/token")
        else:
            with pytest.raises(ProfileError, match="larger than"):
                await profiles().discover(me)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer(b"<h1>Hello</h1>", headers=[("Content-Type", "text/html")]), "rel=indieauth-metadata"),
        (Answer(b"gone", 410), "status 410, expected 200"),
        (Answer(b"no", 403), "status 403, expected 200"),
        (Answer(status=304), "status 304, expected 200"),
        (Answer(status=301, headers=[("Location", "gopher://x/")]), "only http and https"),
    ],
)
async def test_an_unusable_page_is_a_named_error(site: Publisher, answer: Answer, expected: str) -> None:
    """The error has its URL, what was found, and what was expected."""
    me = site.serve("/me", answer)
    with pytest.raises(ProfileError, match=expected) as refused:
        await profiles().discover(me)
    assert not isinstance(refused.value, ProfileUnreachable)
    assert refused.value.url == me
    assert "found" in refused.value.detail
    assert "expected" in refused.value.detail


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_temporary_failure_has_its_own_error(site: Publisher, status: int) -> None:
    """The caller may continue with cached results."""
    me = site.serve("/me", Answer(b"", status))
    with pytest.raises(ProfileUnreachable, match=f"status {status}"):
        await profiles().discover(me)


async def test_invalid_profile_urls_cause_no_request() -> None:
    """The request is refused as invalid."""
    with pytest.raises(InvalidRequest):
        await Profiles(Web({}), PARSER).discover("https://alice.example:8080/")


# --- redirects --------------------------------------------------------------------------------------------------------

ME = "https://alice.example/"


@pytest.mark.parametrize(
    ("hops", "me", "names", "moved_to"),
    [
        ([], ME, [ME], None),
        (
            [("https://alice.example/home", True)],
            "https://alice.example/home",
            [ME, "https://alice.example/home"],
            None,
        ),
        ([("https://alice.example/home", False)], ME, [ME], None),
        (
            [("https://www.alice.example/", True)],
            "https://www.alice.example/",
            [ME, "https://www.alice.example/"],
            None,
        ),
        ([("https://alice.example/a", False), ("https://alice.example/b", True)], ME, [ME], None),
        ([("https://bob.example/", True)], ME, [ME], "https://bob.example/"),
        ([("https://bob.example/", False)], ME, [ME], None),
        ([("https://bob.example/", True), ("https://bob.example/x", True)], ME, [ME], "https://bob.example/x"),
        ([("https://bob.example/", True), (ME + "x", True)], ME, [ME], ME + "x"),
        ([("https://notalice.example/", True)], ME, [ME], "https://notalice.example/"),
        ([("https://blog.alice.example/", True)], ME, [ME], "https://blog.alice.example/"),
        ([("https://alice.example:8443/", True), ("https://alice.example/x", True)], ME, [ME], None),
        ([("https://127.0.0.1/", True)], ME, [ME], None),
    ],
)
def test_permanent_redirects_on_a_host_add_names(
    hops: list[tuple[str, bool]], me: str, names: list[str], moved_to: str | None
) -> None:
    """Permanent redirects on the same host add names, up to the first temporary one; other hosts are only a hint."""
    trail = trail_of(ME, [Hop(*hop) for hop in hops])
    assert (trail.me, trail.names, trail.moved_to) == (me, frozenset(names), moved_to)


async def test_a_temporary_redirect_lends_endpoints() -> None:
    """A user with only a redirect signs in with the target page's server, as themselves."""
    there = "https://host.example/alice"
    found = await Profiles(
        Web({ME: page(there, "authorization_endpoint=/auth", hops=[(there, False)])}), PARSER
    ).discover(ME)
    assert (found.me, found.names, found.page) == (ME, {ME}, there)
    assert found.authorization_endpoint == "https://host.example/auth"


async def test_a_redirect_from_https_to_http_is_refused() -> None:
    """An attacker on the network could name any server there; also if a later redirect returns to https."""
    hops = [("http://alice.example/x", False), ("https://alice.example/y", False)]
    web = Web({ME: page("https://alice.example/y", "authorization_endpoint=/auth", hops=hops)})
    with pytest.raises(ProfileError, match="from https to http"):
        await Profiles(web, PARSER).discover(ME)


# --- metadata ---------------------------------------------------------------------------------------------------------


async def test_redirected_metadata_may_name_either_issuer() -> None:
    """The issuer may be the address that the page names, or the final address of the document."""
    async with provider() as server, publisher() as site:
        alice = server.person("alice").me
        server.page("/alice/", f'<link rel="indieauth-metadata" href="{site.url("/meta")}">')
        server.people.clear()
        site.serve("/meta", Answer(status=302, headers=[("Location", server.url(METADATA))]))
        assert (await profiles().discover(alice)).issuer == server.issuer
        server.fault("metadata", Fault(change={"issuer": site.url("/")}))
        assert (await profiles().discover(alice)).issuer == site.url("/")
        server.fault("metadata", Fault(change={"issuer": "http://127.0.0.1:1/"}))
        with pytest.raises(ProfileError, match="'issuer'"):
            await profiles().discover(alice)


# --- caching ----------------------------------------------------------------------------------------------------------


async def test_results_are_cached_for_an_hour() -> None:
    """The exceptions are a caller that needs a fresh result, and one that reports a change."""
    web, clock = Web({ME: page(ME, "token_endpoint=/token")}), Clock()
    discovery = Profiles(web, PARSER, clock=clock)
    await discovery.discover(ME)
    clock.now += PROFILE - 1
    await discovery.discover("https://ALICE.example")
    assert len(web.asked) == 1
    await discovery.discover(ME, max_age=PROFILE_RECENT)
    assert len(web.asked) == 2
    await discovery.discover(ME, max_age=PROFILE_RECENT)
    assert len(web.asked) == 2
    discovery.forget(ME)
    await discovery.discover(ME)
    assert len(web.asked) == 3
    clock.now += PROFILE
    await discovery.discover(ME)
    assert len(web.asked) == 4


async def test_failures_are_remembered_for_a_minute() -> None:
    """The error is repeated without another request."""
    web, clock = Web({}), Clock()
    discovery = Profiles(web, PARSER, clock=clock)
    for _ in range(3):
        with pytest.raises(ProfileUnreachable, match="there is nobody"):
            await discovery.discover(ME)
    assert len(web.asked) == 1
    clock.now += PROFILE_FAILURE
    web.pages[ME] = page(ME, "token_endpoint=/token")
    assert (await discovery.discover(ME)).me == ME


# --- confirmation of a sign-in ----------------------------------------------------------------------------------------


async def confirmed(web: Web, entered: str, returned: str, authorization: str = "https://auth.example/") -> Profile:
    return await Profiles(web, PARSER).confirm(entered, returned, authorization=authorization)


AUTH = "authorization_endpoint=https://auth.example/"


async def test_a_server_may_say_better_who_somebody_is() -> None:
    """It may return a path below, or a name on another host if that page names the same server."""
    there = "https://host.example/alice"
    web = Web({ME: page(ME, AUTH), f"{ME}home": page(f"{ME}home", AUTH), there: page(there, AUTH)})
    for returned in (ME, f"{ME}home", there):
        assert (await confirmed(web, ME, returned)).me == returned


async def test_a_page_changed_during_sign_in_proves_nothing() -> None:
    """The server that was used counts, even if the entered page names the victim's server by now."""
    victim = "https://victim.example/"
    web = Web({ME: page(ME, AUTH), victim: page(victim, AUTH)})
    with pytest.raises(ProfileMismatch):
        await confirmed(web, ME, victim, "https://evil.example/auth")
    with pytest.raises(ProfileMismatch):
        await confirmed(web, ME, ME, "https://evil.example/auth")


async def test_a_neighbour_who_redirects_to_somebody_isnt_them() -> None:
    """On one host with one server, the server has confirmed the user whose page now redirects to another user's."""
    mallory, alice = "https://host.example/mallory", "https://host.example/alice"
    web = Web({mallory: page(alice, AUTH, hops=[(alice, True)]), alice: page(alice, AUTH)})
    profile = await confirmed(web, mallory, mallory)
    assert (profile.me, profile.names) == (mallory, {mallory})


@pytest.mark.parametrize(
    ("returned", "hops", "me"),
    [
        ("http://alice.example/", [("https://alice.example/", True)], "https://alice.example/"),
        ("http://alice.example/a", [("https://alice.example/a", True), ("https://alice.example/b", True)], f"{ME}a"),
        ("https://www.alice.example/", [("https://alice.example/", True)], "https://alice.example/"),
        ("https://alice.example/a", [("https://alice.example/a/", True)], f"{ME}a/"),
        ("https://alice.example/a", [("https://alice.example/a//", True)], f"{ME}a"),
        ("http://alice.example/", [("https://alice.example/", False)], "http://alice.example/"),
        ("http://alice.example/", [("https://alice.example/home", True)], "http://alice.example/"),
    ],
)
async def test_site_wide_redirects_determine_the_address(returned: str, hops: list[tuple[str, bool]], me: str) -> None:
    """If only https, `www.` or one final slash differ, a permanent redirect determines the user's address."""
    web = Web({returned: page("https://alice.example/", AUTH, hops=hops)})
    assert (await confirmed(web, returned, returned)).me == me


async def test_a_provider_may_confirm_names_from_redirects() -> None:
    """Names from redirects, and the same name with https, but not with http, and not another page."""
    there = "https://alice.example/home"
    web = Web({ME: page(there, AUTH, hops=[(there, True)]), "http://bob.example/": page("http://bob.example/", AUTH)})
    alice, bob = [await Profiles(web, PARSER).discover(me) for me in (ME, "http://bob.example/")]
    assert all(alice.is_known_as(name) for name in (ME, there, "HTTPS://alice.example"))
    assert bob.is_known_as("https://bob.example/")
    others = ["http://alice.example/", f"{there}/", f"{ME}x", "https://bob.example/", "https://alice.example/#x", ""]
    assert not any(alice.is_known_as(name) for name in others)


async def test_people_of_one_server_share_its_metadata() -> None:
    """It is fetched once."""
    async with provider() as server:
        people = [server.person(name).me for name in ("alice", "bob", "carol")]
        discovery = profiles()
        assert len({(await discovery.discover(me)).issuer for me in people}) == 1
        assert server.count(METADATA) == 1
