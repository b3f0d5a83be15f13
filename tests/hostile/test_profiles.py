"""Profile pages of attackers: false claims, redirects, broken replies. None lets them sign in as another person."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from ipaddress import ip_network

import pytest

from microsub.base.errors import ProfileError, ProfileMismatch, ProfileUnreachable
from microsub.fetch import Fetcher, FetchSettings
from microsub.identity.profiles import Profiles
from tests.support.parsing import PARSER
from tests.support.provider import Fault, Provider, Variant, provider

METADATA = "/.well-known/oauth-authorization-server"


@pytest.fixture
async def site() -> AsyncIterator[Provider]:
    """A provider with Mallory, whose page is set by the test."""
    async with provider(Variant()) as made:
        made.person("mallory")
        yield made


@pytest.fixture
async def secret() -> AsyncIterator[Provider]:
    """A server in a private network that must not be reached."""
    async with provider(Variant(), host="127.0.0.2") as made:
        made.person("inside")
        yield made


def opened(network: str = "127.0.0.1/32") -> Profiles:
    """Discovery through the guard, which allows only this private network."""
    return Profiles(Fetcher(FetchSettings(allow_private_networks=(ip_network(network),))), PARSER, private=True)


@pytest.fixture
def profiles() -> Profiles:
    """Discovery that may reach 127.0.0.1 only."""
    return opened()


INSIDE = [
    *("http://10.0.0.1/", "http://192.168.1.1/admin", "http://169.254.169.254/latest/meta-data/", "http://172.16.0.1/"),
    *("http://[::1]/", "http://[::ffff:127.0.0.2]/", "http://[fd00::1]/", "http://[fe80::1]/", "http://0.0.0.0/"),
    *("http://2130706434/", "http://0x7f000002/", "http://127.2/", "http://0177.0.0.2/", "http://127.0.0.2%2f@x/"),
    *("file:///etc/passwd", "gopher://127.0.0.1/", "javascript:alert(1)", "http:///", "http://user:pw@127.0.0.2/"),
]


@pytest.mark.parametrize("status", [301, 302, 307])
async def test_redirects_into_private_networks(
    site: Provider, secret: Provider, profiles: Profiles, status: int
) -> None:
    """A redirect of a page to a private address, on any hop, is refused without a request to that address."""
    for number, there in enumerate([secret.url("/inside/"), *INSIDE]):
        first = site.redirect(f"/first{number}", site.redirect(f"/second{number}", there, status))
        with pytest.raises(ProfileError):
            await profiles.discover(first)
    assert secret.asked == []


async def test_metadata_in_private_networks(site: Provider, secret: Provider, profiles: Profiles) -> None:
    """No link or redirect of a page makes the server fetch its metadata from a private network."""
    for number, there in enumerate([secret.url(METADATA), *INSIDE]):
        site.page(f"/link{number}", f'<!doctype html><link rel="indieauth-metadata" href="{there}">')
        away = site.redirect(f"/away{number}", there)
        site.page(f"/led{number}", f'<!doctype html><link rel="indieauth-metadata" href="{away}">')
        for page in ("link", "led"):
            with pytest.raises(ProfileError):
                await profiles.discover(site.url(f"/{page}{number}"))
    assert secret.asked == []


def links_to(href: str) -> bytes:
    return f'<link rel="indieauth-metadata" href="{href}">'.encode()


BROKEN: dict[str, tuple[str, Callable[[Provider], Fault]]] = {
    "a loop": ("profile", lambda _: Fault(location="")),
    "endless": ("profile", lambda _: Fault(padding=8 << 20)),
    "plain text": ("profile", lambda _: Fault(content_type="text/plain")),
    "metadata by script": ("profile", lambda _: Fault(body=links_to("javascript:alert(1)"))),
    "commented out": ("profile", lambda site: Fault(body=b"<!-- " + links_to(site.url(METADATA)) + b" -->")),
    "huge metadata": ("metadata", lambda _: Fault(padding=100_000)),
    "no JSON": ("metadata", lambda _: Fault(body=b"<html>")),
    "a foreign issuer": ("metadata", lambda _: Fault(change={"issuer": "https://bank.example/"})),
    "an issuer beside": ("metadata", lambda site: Fault(change={"issuer": site.url("/.well")})),
    "an issuer with a query": ("metadata", lambda site: Fault(change={"issuer": f"{site.issuer}?x"})),
    "no issuer": ("metadata", lambda _: Fault(change={"issuer": None})),
    "no token endpoint": ("metadata", lambda _: Fault(change={"token_endpoint": None})),
    "an endpoint by script": ("metadata", lambda _: Fault(change={"authorization_endpoint": "javascript:alert(1)"})),
    "an endpoint of two lines": (
        "metadata",
        lambda site: Fault(change={"token_endpoint": f"{site.url('/token')}\r\nX-Injected: 1"}),
    ),
    "an endpoint with a password": (
        "metadata",
        lambda _: Fault(change={"token_endpoint": "https://user:pass@bank.example/token"}),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_broken_pages(site: Provider, profiles: Profiles, name: str) -> None:
    """Each gets a named error that says where and why in one line; the same page without the fault is accepted."""
    me = site.people["mallory"].me
    where, fault = BROKEN[name]
    site.fault(where, fault(site))
    with pytest.raises(ProfileError) as refused:
        await profiles.discover(me)
    assert "\n" not in str(refused.value)
    assert "\r" not in str(refused.value)
    assert len(str(refused.value)) < 1000
    site.end_faults()
    profiles.forget(me)
    found = await opened().discover(me)
    assert found.issuer == site.issuer


async def test_servers_that_are_down_have_their_own_error(site: Provider, profiles: Profiles) -> None:
    """A silent, a broken or an absent server may come back later, so it has its own error."""
    me = site.people["mallory"].me
    for fault in (Fault(status=500), Fault(status=503), Fault(drop=True), Fault(hang=True)):
        for where in ("profile", "metadata"):
            site.fault(where, fault)
            with pytest.raises(ProfileUnreachable):
                await profiles.discover(me, max_age=0)
            site.end_faults()
            profiles.forget(me)
            if fault.hang:
                break  # once is enough: it lasts until the time limit
    site.listening.down()
    with pytest.raises(ProfileUnreachable):
        await profiles.discover(me, max_age=0)


async def test_injected_headers_do_not_count_as_links(site: Provider, profiles: Profiles) -> None:
    """A line break in a header that the server sends makes at most another header; a value adds no link."""
    other = site.url("/elsewhere")
    link = f'<{site.url(METADATA)}>; rel="indieauth-metadata"; title="a, <{other}>; rel=token_endpoint"'
    site.fault("profile", Fault(body=b"<!doctype html>", headers=(("Link", link),)))
    found = await profiles.discover(site.people["mallory"].me)
    assert found.endpoints["indieauth-metadata"] == site.url(METADATA)
    assert "token_endpoint" not in found.endpoints


async def test_a_redirect_to_a_profile_proves_no_identity(site: Provider, profiles: Profiles) -> None:
    """A page that redirects to Alice's temporarily, or permanently from another host, isn't Alice's. In the second case
    Alice's server may vouch for it as for Alice, because their page says so.
    """
    alice = site.person("alice").me
    now = site.redirect("/now", alice, 302)
    found = await profiles.discover(now)
    assert (found.me, found.names) == (now, frozenset({now}))
    moved = site.redirect("/moved", alice, 301)
    assert (await profiles.discover(moved)).is_known_as(alice), "on the same site it is one person"
    mixed = site.redirect("/mixed", moved, 302)
    assert not (await profiles.discover(mixed)).is_known_as(alice)
    async with provider(Variant()) as other:
        profile = await profiles.discover(other.redirect("/moved", alice, 301))
        assert alice not in profile.names
        assert profile.is_known_as(alice)
        hosted = await profiles.discover(other.redirect("/now", alice, 302))
        assert not hosted.is_known_as(alice)
        assert not hosted.me_links
        assert profile.moved_to == alice


async def test_a_provider_speaks_only_for_pages_that_name_it(site: Provider, profiles: Profiles) -> None:
    """Mallory's server may say that she is Alice: Alice's page names another server, and that counts."""
    async with provider(Variant()) as alices:
        alice, mallory = alices.person("alice").me, site.people["mallory"].me
        used = await profiles.discover(mallory)
        assert used.authorization_endpoint is not None
        with pytest.raises(ProfileMismatch):
            await profiles.confirm(mallory, alice, authorization=used.authorization_endpoint, issuer=used.issuer)
        own = await profiles.confirm(mallory, mallory, authorization=used.authorization_endpoint, issuer=used.issuer)
        assert own.me == mallory
        # Nor does a page of hers that names Alice's server make that server vouch for her.
        theirs = await profiles.discover(alice)
        site.page("/as-alice", f'<!doctype html><link rel="indieauth-metadata" href="{alices.url(METADATA)}">')
        with pytest.raises(ProfileMismatch):
            await profiles.confirm(
                alice, mallory, authorization=theirs.authorization_endpoint or "", issuer=theirs.issuer
            )


async def test_an_issuer_alone_does_not_make_servers_one(site: Provider, profiles: Profiles) -> None:
    """Two servers with one issuer (a host of many people) are distinguished by the authorization endpoint."""
    mallory = site.people["mallory"].me
    with pytest.raises(ProfileMismatch):
        await profiles.confirm(mallory, mallory, authorization=site.url("/auth/of-others"), issuer=site.issuer)


async def test_many_askers_make_one_request(site: Provider, profiles: Profiles) -> None:
    """Many people who sign in with one address cause one request to the provider."""
    me = site.people["mallory"].me
    await asyncio.gather(*(profiles.discover(me) for _ in range(50)))
    assert (site.count("/mallory/"), site.count(METADATA)) == (1, 1)
