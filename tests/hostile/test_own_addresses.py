"""This machine's own addresses are requested only for its users' pages: other services there may be private."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from ipaddress import ip_network

import pytest

from microsub.accounts.store import Accounts
from microsub.base.settings import Settings
from microsub.fetch import Answered, Fetched, FetchFailed, FetchRequest, Sending, network
from microsub.identity.limits import USER_ADDRESSES
from microsub.redis.embedded.server import Watch
from microsub.redis.protocol import Redis
from microsub.server.commands import examine
from microsub.server.fetching import LARGEST_PAGE, open_fetcher, open_page_fetcher
from microsub.server.stores import Stores
from tests.support.web import Answer, Publisher, publisher


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Publisher]:
    """A web server on an address of this machine that counts as public, with its port in place of 80."""
    async with publisher() as made:
        made.serve("/", Answer(b"x"))
        monkeypatch.setattr(network, "is_public", lambda _: True)
        monkeypatch.setattr(network, "WEB_PORTS", frozenset({made.port}))
        yield made


@pytest.fixture
def stores(redis: Redis) -> Stores:
    return Stores(redis, "", "", Watch())


async def answer(settings: Settings, url: str, stores: Stores | None = None) -> str:
    """The result of reading `url`: `read`, or why it wasn't."""
    async with open_fetcher(settings, stores) as door:
        found = await door.fetch(FetchRequest(url))
        sent = await door.send(Sending(url))
    assert isinstance(found, Fetched) == isinstance(sent, Answered), "all doors are guarded by the same rule"
    return "read" if isinstance(found, Fetched) else found.detail


async def test_own_addresses_are_refused_by_default(site: Publisher) -> None:
    """By name or number, at ports of the web; the error names no settings. A listed network is allowed."""
    for host in ("localhost", "127.0.0.1"):
        refusal = await answer(Settings(), site.url("/", host))
        assert refusal == f"{host} is on this server's own machine, where only its users' pages are read"
    assert not site.asked
    listed = Settings(allow_private_networks=(ip_network("127.0.0.0/8"),))
    assert await answer(listed, site.url("/", "localhost")) == "read"


async def test_pages_of_the_servers_people_are_read_on_its_machine(site: Publisher, stores: Stores) -> None:
    """Allowed are the hosts of the public address and of active users, only at ports of the web, and no other page."""
    mine = site.url("/", "localhost")
    assert await answer(Settings(base_url="http://localhost"), mine) == "read"
    assert "own machine" in await answer(Settings(base_url="http://other.test"), mine, stores)
    await stores.accounts.add_user("ann", mine, 1.0)
    assert "own machine" in await answer(Settings(), mine, stores), f"users are known after {USER_ADDRESSES:g} s"
    fresh = Stores(stores.redis, "", "", Watch())
    assert await answer(Settings(), mine, fresh) == "read"
    async with publisher() as program:
        program.serve("/", Answer(b"x"))
        assert "own machine" in await answer(Settings(), program.url("/", "localhost"), fresh)
        assert not program.asked
    await stores.accounts.disable_user("ann", 2.0)
    assert "own machine" in await answer(Settings(), mine, Stores(stores.redis, "", "", Watch()))


async def test_the_doctor_reads_what_the_server_reads(site: Publisher, real_redis: Redis, redis_url: str) -> None:
    """The doctor reads a user's page on this machine, and no other page there."""
    another = ip_network("192.0.2.0/24")  # in a listed network, addresses of people may have a port
    settings, page = Settings(redis_url=redis_url, allow_private_networks=(another,)), site.url("/", "localhost")
    assert "on this server's own machine" in str(await examine(settings, page))
    assert not site.asked
    await Accounts(real_redis).add_user("ann", page, 1.0)
    assert "on this server's own machine" not in str(await examine(settings, page))
    assert site.asked


async def test_registration_opens_no_address_of_this_machine(site: Publisher, stores: Stores) -> None:
    """The name could resolve to any address afterwards."""
    await stores.accounts.register("eve", site.url("/", "localhost"), time.time())
    assert "own machine" in await answer(Settings(), site.url("/", "localhost"), stores)


async def test_a_redirect_from_somebodys_page_opens_nothing_else(site: Publisher, stores: Stores) -> None:
    """Each hop is checked for the host that it requests."""
    await stores.accounts.add_user("ann", site.url("/", "localhost"), 1.0)
    site.serve("/away", Answer(status=302, headers=[("Location", site.url("/", "127.0.0.1"))]))
    refusal = await answer(Settings(), site.url("/away", "localhost"), stores)
    assert refusal.startswith("127.0.0.1 is on this server's own machine")
    assert [asked.target for asked in site.asked] == ["/away", "/away"]


async def test_nobody_waits_for_a_large_page_of_a_post(site: Publisher, stores: Stores) -> None:
    """The web process and workers read such pages by the same bounds, which are lower than those of feeds."""
    site.serve("/large", Answer(b"x" * (LARGEST_PAGE + 1)))
    listed = Settings(allow_private_networks=(ip_network("127.0.0.0/8"),))
    async with open_page_fetcher(listed, stores) as door:
        assert isinstance(await door.fetch(FetchRequest(site.url("/large"))), FetchFailed)
