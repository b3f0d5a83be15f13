"""Reader apps sign in with the user's own provider and read here: real processes, real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import httpx
import pytest
import pytest_asyncio

from tests.support.own_server import AppSite, app_site
from tests.support.polling import dated, rss
from tests.support.process import Installation, installation
from tests.support.provider import Provider, Variant, provider
from tests.support.reader_apps import (
    APPS,
    App,
    AppBreaks,
    IndiePassAndroid,
    IndiePassIos,
    Monocle,
    Notifier,
    Together,
)
from tests.support.waiting import wait_until
from tests.support.web import publisher

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

VARIANTS = {
    "newest": Variant(),
    "newest, in headers": Variant(links="header", joined=True),
    "lenient": Variant.lenient(twice=True),
    "lenient, in headers": Variant.lenient(links="separate", twice=True, caching="max-age=3600"),
    "lenient, joined and relative": Variant.lenient(joined=True, relative=True, twice=True),
    "strict about codes": Variant.lenient(),
    "introspection for programs it knows": Variant.lenient(authorized="secret", twice=True),
    "introspection for anybody": Variant.lenient(authorized="nothing", check="introspection", twice=True),
    "older": Variant.older(twice=True),
    "older, with JSON": Variant.older(replies="json", links="both", twice=True),
}


def stumbles(kind: type[App], variant: Variant) -> str | None:
    """The known failure of the app at such a provider, which we can't prevent; None if it works."""
    if kind is Together and not variant.twice and variant.discovery != "metadata":
        return "redeems in vain"
    if kind is IndiePassAndroid and variant.joined:
        return "finds no"
    if kind is IndiePassIos and variant.replies == "form":
        return "at a loss"
    return "finds no" if variant.discovery == "metadata" and kind is not Monocle else None


@dataclass
class World:
    """An instance with one user per provider, who all follow one feed with three posts."""

    http: httpx.AsyncClient
    apps: AppSite
    providers: dict[str, Provider]
    installed: Installation
    url: str

    async def person(self, url: str) -> str:
        """A browser in which the provider redirects without a question."""
        reply = await self.http.get(url)
        assert reply.status_code == 302, reply.text
        return str(reply.headers["location"])

    def app(self, kind: type[App]) -> App:
        return kind(self.http, self.apps.home(kind.name))

    def profile(self, name: str) -> str:
        """The profile URL of the user at that provider."""
        return self.providers[name].people["ann"].me


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        http = await enter(httpx.AsyncClient(timeout=60))
        apps, feeds = await enter(app_site()), await enter(publisher())
        feed = feeds.serve_document("/feed", rss(dated(3)))
        providers = {name: await enter(provider(variant)) for name, variant in VARIANTS.items()}
        users = {}
        for number, made in enumerate(providers.values()):
            channels = [{"uid": "home", "feeds": [feed]}]
            users[f"ann{number}"] = {"me": made.person("ann").me, "channels": channels}
        folder = tmp_path_factory.mktemp("reader")
        installed = await enter(installation(folder, {"users": users, "settings": {"polling": {"host_interval": 0}}}))
        url = await installed.serve()
        for number, made in enumerate(providers.values()):
            made.person("ann", microsub=f"{url}/microsub/ann{number}", micropub=f"{url}/micropub")
        await wait_until(lambda: '"feed polled"' in installed.log)
        yield World(http, apps, providers, installed, url)


@pytest.mark.parametrize("kind", APPS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", VARIANTS)
async def test_apps_with_foreign_providers(world: World, name: str, kind: type[App]) -> None:
    """Each app signs in at each usable provider, reads three posts, marks one, and sees that it is read."""
    app, made = world.app(kind), world.providers[name]
    problem = stumbles(kind, made.variant)
    if problem:
        with pytest.raises(AppBreaks, match=problem):
            await app.sign_in(world.profile(name), world.person)
        return
    signed = await app.sign_in(world.profile(name), world.person)
    items = await wait_until(lambda: signed.read("home"))  # a poll is logged before its posts are delivered
    assert len(items) == 3
    entry = items[0]["_id"]
    await signed.mark_read("home", entry)
    fresh = await world.app(kind).read(signed, "home") if kind is Notifier else await signed.read("home")
    assert kind is Notifier or [item["_is_read"] for item in fresh if item["_id"] == entry] == [True]
