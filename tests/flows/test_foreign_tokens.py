"""Readers with their own domain: tokens of their providers at our endpoint, with the providers over real HTTP."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from microsub.configuration.effective import REMEMBERED, EffectiveSettings
from microsub.configuration.model import IdentitySettings, InstanceSettings
from microsub.identity import foreign_tokens
from microsub.model.reader import ALL_SCOPES
from microsub.redis.protocol import Redis
from tests.support.process import installation
from tests.support.provider import Fault, Provider, Variant, provider
from tests.support.readers import ENDPOINT, instance, posts
from tests.support.redis_wrappers import CountingRedis
from tests.support.waiting import wait_until
from tests.support.world import World

APP = "https://app.example/"
FEED = "https://blog.example/feed"
ALICE, BOB = f"{ENDPOINT}/alice", f"{ENDPOINT}/bob"


class TokenServer:
    """A server with Alice and Bob, who have their pages and tokens from one provider."""

    def __init__(self, server: World, site: Provider) -> None:
        self.server, self.site = server, site
        self.alice, self.bob = (site.people.get(name) or site.person(name) for name in ("alice", "bob"))
        site.clock = lambda: server.now

    async def begin(self, *names: str) -> None:
        for name in names:
            await self.server.reader(name, "home")
            await self.server.accounts.set_me(name, self.site.people[name].me)

    def grant(self, name: str = "alice", *scopes: str, **more: Any) -> str:
        return self.site.grant(name, *(scopes or ALL_SCOPES), client=APP, **more)

    async def get(self, token: str, path: str = ALICE, **params: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"}
        return await self.server.client.get(path, params=params or {"action": "channels"}, headers=headers)

    async def post(self, token: str, path: str = ALICE, **params: Any) -> httpx.Response:
        return await self.server.client.post(path, data=params, headers={"Authorization": f"Bearer {token}"})

    async def status(self, token: str, path: str = ALICE, **params: Any) -> int:
        return (await self.get(token, path, **params)).status_code

    @property
    def checks(self) -> int:
        """The number of token checks at the provider."""
        return self.site.count("/introspect") + self.site.count("/token")


@pytest.fixture
async def world(real_redis: Redis) -> AsyncIterator[TokenServer]:
    async with instance(real_redis) as server, provider(Variant.lenient(lifetime=None)) as site:
        made = TokenServer(server, site)
        await made.begin("alice", "bob")
        yield made


@pytest.mark.parametrize("variant", [Variant(), Variant.older(), Variant.lenient()], ids=["newer", "older", "both"])
async def test_everything_works_with_a_token_of_ones_own_provider(real_redis: Redis, variant: Variant) -> None:
    """Pages, lists and changes work by header, query and body, with and without a slash; the provider is asked once."""
    async with instance(real_redis) as server, provider(variant) as site:
        world = TokenServer(server, site)
        await world.begin("alice", "bob")
        await server.publish(FEED, *posts("a", "b"))
        token = world.grant()
        assert (await world.post(token, action="follow", channel="home", url=FEED)).status_code == 200
        page = (await world.get(token, action="timeline", channel="home")).json()["items"]
        assert [item["name"] for item in page] == ["a", "b"]
        marked = await world.post(token, f"{ALICE}/", action="timeline", method="mark_read", channel="home", entry="1")
        assert marked.status_code == 200
        client = server.client
        assert (await client.get(ALICE, params={"action": "channels", "access_token": token})).status_code == 200
        assert (
            await client.post(ALICE, data={"action": "mute", "url": FEED, "access_token": token})
        ).status_code == 200
        assert world.checks == 1


async def test_each_error_says_what_it_is(world: TokenServer) -> None:
    """Unknown or revoked tokens, another user's tokens, missing scopes and an unavailable provider have their own
    errors.
    """
    unknown = await world.get("unknown")
    assert (unknown.status_code, unknown.json()["error"]) == (401, "unauthorized")
    assert unknown.headers["www-authenticate"] == "Bearer"
    others = await world.get(world.grant("bob"))
    assert (others.status_code, others.json()["error"]) == (403, "forbidden")
    few = await world.get(world.grant("alice", "create"))
    assert (few.status_code, few.json()["error"], few.json()["scope"]) == (403, "insufficient_scope", "read")
    world.site.fault("introspection", Fault(status=500))
    away = await world.get(world.grant())
    assert (away.status_code, away.json()["error"]) == (503, "temporarily_unavailable")
    assert int(away.headers["retry-after"]) > 0
    assert away.headers["access-control-allow-origin"] == "*"


async def test_a_token_opens_only_its_users_data(world: TokenServer) -> None:
    """This also applies to a cached token: without a name only its user is opened, and at other addresses it is
    refused.
    """
    token = world.grant()
    assert await world.status(token) == 200
    for path in (BOB, f"{BOB}/", f"{ENDPOINT}/nobody", f"{ENDPOINT}/!"):
        assert await world.status(token, path) == (403 if path.startswith(BOB) else 401)
    assert await world.status(token) == 200


async def test_a_remembered_token_costs_no_round_trip(real_redis: Redis) -> None:
    """The page's own script checks tokens of both kinds, also at the address without a name."""
    counting = CountingRedis(real_redis)
    async with instance(counting) as server, provider(Variant()) as site:
        world = TokenServer(server, site)
        await world.begin("alice", "bob")
        await server.publish(FEED, *posts("a", "b"))
        own, foreign, strange = await server.grant("alice", *ALL_SCOPES), world.grant(), world.grant()
        async with instance(real_redis, now=server.now) as another:
            assert await TokenServer(another, site).status(strange) == 200
        assert (await world.post(own, action="follow", channel="home", url=FEED)).status_code == 200
        trips: dict[tuple[str, str], int] = {}
        for action in ({"action": "timeline", "channel": "home"}, {"action": "channels"}):
            for name, token, path in (
                ("own", own, ALICE),
                ("foreign", foreign, ALICE),
                ("own without a name", own, ENDPOINT),
                ("foreign without a name", foreign, ENDPOINT),
                ("remembered by another process", strange, ENDPOINT),
            ):
                assert await world.status(token, path, **action) == 200
                before = counting.trips
                assert await world.status(token, path, **action) == 200
                trips[action["action"], name] = counting.trips - before
        for action_name in ("timeline", "channels"):
            assert len({count for (action, _), count in trips.items() if action == action_name}) == 1, trips


async def test_the_address_without_a_name(world: TokenServer) -> None:
    """With several users, only cached tokens work there; the error names the right address."""
    token = world.grant()
    error = await world.get(token, ENDPOINT)
    assert error.status_code == 401
    assert "/microsub/<user>" in error.json()["error_description"]
    assert await world.status(token) == 200
    assert await world.status(token, ENDPOINT) == 200
    async with instance(world.server.redis) as other:
        elsewhere = TokenServer(other, world.site)
        assert await elsewhere.status(token, ENDPOINT) == 200
        assert await elsewhere.status("unknown", ENDPOINT) == 401
    assert world.checks == 1


async def test_a_server_of_one_needs_no_name(real_redis: Redis) -> None:
    """Only one provider could have issued the token; a disabled user doesn't count."""
    async with instance(real_redis) as server, provider(Variant()) as site:
        world = TokenServer(server, site)
        await world.begin("alice", "bob")
        await server.accounts.disable_user("bob", server.now)
        assert await world.status(world.grant(), ENDPOINT, action="timeline", channel="home") == 200
        assert await world.status("unknown", ENDPOINT) == 401


async def test_own_tokens_are_sent_to_no_provider(world: TokenServer) -> None:
    """Tokens of other, also disabled, users, of programs and for renewal aren't sent to a provider."""
    bobs = await world.server.grant("bob", "read")
    await world.server.reader("carol")
    carols = await world.server.grant("carol", "read")
    await world.server.accounts.disable_user("carol", world.server.now)
    service = await world.server.service_tokens.create("crawler", world.server.now)
    assert await world.status(bobs) == 403
    assert await world.status(bobs, action="timeline", channel="home") == 403
    assert (await world.post(bobs, action="channels", name="x")).status_code == 403
    assert await world.status(carols) == 401
    assert await world.status(service) == 401
    assert await world.status(f"alice.{'g' * 22}.secret") == 401
    assert not world.site.asked


async def test_tokens_that_look_like_ours(world: TokenServer) -> None:
    """Another server of this kind is a provider too, and its tokens begin with user names."""
    for text in ("alice.0123", "bob.0123", "carol.0123"):
        world.site.tokens[text] = world.site.tokens[world.grant()]
        assert await world.status(text) == 200
        assert await world.status(text, ENDPOINT) == 200


@pytest.mark.parametrize("token", ["", "two words", "ü", "a" * 5000, "a\x7f"])
async def test_malformed_tokens_are_sent_to_no_provider(world: TokenServer, token: str) -> None:
    """Such a text isn't sent to a provider."""
    params = {"action": "channels", "access_token": token}
    assert (await world.server.client.get(ALICE, params=params)).status_code == 401
    assert not world.site.asked


async def test_a_revocation_is_noticed(world: TokenServer) -> None:
    """Every process notices it within ten minutes."""
    token = world.grant()
    async with instance(world.server.redis, now=world.server.now) as second:
        both = (world, TokenServer(second, world.site))
        assert [await each.status(token) for each in both] == [200, 200]
        world.site.revoke(token)
        assert [await each.status(token) for each in both] == [200, 200]
        for each in both:
            each.server.now += 600
        assert [await each.status(token) for each in both] == [401, 401]
        assert world.checks == 2


async def test_an_absent_provider_ends_no_sign_in(world: TokenServer) -> None:
    """A cached token works until the grace period ends; after that, and for new tokens, the reply is 503."""
    world.server.settings = InstanceSettings(identity=IdentitySettings(token_cache=60, token_grace=600))
    token = world.grant()
    assert await world.status(token, action="timeline", channel="home") == 200
    world.site.listening.down()
    for seconds in (59, 61, 300, 659):
        world.server.now = world.server.now - world.server.now % 1000 + seconds
        assert await world.status(token, action="timeline", channel="home") == 200
    assert await world.status(world.grant()) == 503
    world.server.now += 1
    assert await world.status(token, action="timeline", channel="home") == 503


async def test_a_slow_provider_delays_no_other_request(world: TokenServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other requests are answered meanwhile, with own and with cached tokens; the waiting request soon gets 503."""
    remembered, own = world.grant(), await world.server.grant("alice", "read")
    assert await world.status(remembered) == 200
    monkeypatch.setattr(foreign_tokens, "SECONDS", 0.5)
    world.site.fault("introspection", Fault(hang=True))
    waiting = asyncio.create_task(world.status(world.grant()))
    await wait_until(lambda: world.checks == 2)
    assert await world.status(remembered) == 200
    assert await world.status(own) == 200
    assert not waiting.done()
    assert await waiting == 503


async def test_repeated_invalid_tokens_are_limited(world: TokenServer) -> None:
    """A hundred unknown tokens from one address cause at most 18 checks; the others get 429 with Retry-After."""
    statuses = Counter(await asyncio.gather(*(world.status(f"unknown-{number}") for number in range(100))))
    assert statuses == {401: 18, 429: 82}
    assert world.checks == 18
    assert world.site.count(f"/{world.alice.name}/") == 1
    limited = await world.get("one-more")
    assert 0 < int(limited.headers["retry-after"]) <= 60
    again = Counter(await asyncio.gather(*(world.status(f"unknown-{number}") for number in range(100))))
    assert again[401] == 18
    assert world.checks == 18


async def test_a_new_token_is_checked_once_for_many_requests(world: TokenServer) -> None:
    """An app starts with many requests at once; two processes answer them with one check."""
    token = world.grant()
    async with instance(world.server.redis, now=world.server.now) as second:
        both = (world, TokenServer(second, world.site))
        found = await asyncio.gather(*(both[number % 2].status(token) for number in range(40)))
    assert set(found) == {200}
    assert world.checks == 1


async def test_a_provider_that_lies_gains_nothing(world: TokenServer) -> None:
    """It can vouch only for its own user, and its answers aren't used for longer than they are valid."""
    token = world.grant()
    for me in (
        world.bob.me,
        "https://alice.example/",
        f"{world.alice.me}x/",
        world.alice.me.replace("http:", "https:"),
    ):
        world.site.fault("introspection", Fault(change={"me": me}))
        await world.server.redis.command("FLUSHDB")
        await world.begin("alice", "bob")
        assert await world.status(token) in {200 if me.startswith("https://127") else 403}
    world.site.fault("introspection", Fault(change={"exp": int(world.server.now) + 5}))
    late = world.grant()
    assert await world.status(late) == 200
    world.server.now += 5
    world.site.revoke(late)
    assert await world.status(late) == 401


async def test_edited_times_apply_to_the_first_token_of_an_idle_process(world: TokenServer) -> None:
    """An admin who shortens `token_cache` relies on it: a revoked token ends within that time, also the first one."""
    server, monotonic = world.server, [0.0]
    server.effective = EffectiveSettings(server.declared, server.own_settings, clock=lambda: monotonic[0])
    assert await world.status(world.grant()) == 200
    monotonic[0] += REMEMBERED
    await server.declared.set_instance(InstanceSettings(identity=IdentitySettings(token_cache=5)))
    token = world.grant()
    assert await world.status(token) == 200
    world.site.revoke(token)
    server.now += 6
    assert await world.status(token) == 401


async def test_another_identity_counts_at_once(world: TokenServer) -> None:
    """A changed or removed site, another token endpoint or a disabled user invalidates cached tokens."""
    accounts, token = world.server.accounts, world.grant()
    changes = (
        lambda: accounts.set_me("alice", world.bob.me),
        lambda: accounts.set_me("alice", ""),
        lambda: accounts.set_token_endpoint("alice", world.site.url("/nowhere")),
        lambda: accounts.disable_user("alice", world.server.now),
    )
    for change in changes:
        await world.server.redis.command("FLUSHDB")
        await world.begin("alice", "bob")
        assert await world.status(token) == 200
        await change()
        assert await world.status(token) in {401, 403}


async def test_a_token_without_scope_reveals_no_channel(world: TokenServer) -> None:
    """The reply doesn't reveal whether a channel exists or what is wrong with the request."""
    token = world.grant("alice", "create")
    for channel in ("home", "nowhere", "!"):
        assert await world.status(token, action="timeline", channel=channel) == 403
        assert await world.status("unknown", action="timeline", channel=channel) == 401


async def test_a_body_isnt_read_for_strangers(world: TokenServer) -> None:
    """The token in the header is checked before the body is read, also if a provider has to be asked."""
    reply = await world.server.client.post(ALICE, content=b"x" * 2_000_000, headers={"Authorization": "Bearer unknown"})
    assert reply.status_code == 401


@asynccontextmanager
async def two_processes(folder: Path, redis_url: str, backend: dict[str, Any]) -> AsyncIterator[tuple[Any, str, str]]:
    async with installation(folder, backend, MICROSUB_REDIS_URL=redis_url) as installed:
        yield installed, await installed.serve(), await installed.serve("web")


async def test_real_processes_with_backend_json(tmp_path: Path, redis_url: str) -> None:
    """The file's site and token endpoint of a user apply in all processes, and a change takes effect."""
    async with provider(Variant.older()) as site:
        alice = site.person("alice")
        user: dict[str, Any] = {"me": alice.me, "channels": [{"uid": "home"}]}
        backend = {"users": {"alice": user, "bob": {}}}
        async with two_processes(tmp_path, redis_url, backend) as (installed, first, second):
            token = site.grant("alice", "read")

            async def status(url: str) -> int:
                async with httpx.AsyncClient(timeout=60) as http:
                    headers = {"Authorization": f"Bearer {token}"}
                    return (await http.get(f"{url}/alice?action=channels", headers=headers)).status_code

            urls = [url if url.endswith("/microsub") else f"{url.rstrip('/')}/microsub" for url in (first, second)]
            assert [await status(url) for url in urls] == [200, 200]
            assert site.count("/token") == 1
            user["token_endpoint"] = site.url("/nowhere")
            installed.write(backend)

            await wait_until(lambda: f"token endpoint set to {site.url('/nowhere')}" in installed.log)
            assert [await status(url) for url in urls] == [401, 401]
            del user["token_endpoint"]
            installed.write(backend)
            await wait_until(lambda: "token endpoint set to the one named by the user's page" in installed.log)
            # The refusal is cached for a minute; another token is checked.
            token = site.grant("alice", "read")
            assert [await status(url) for url in urls] == [200, 200]
            assert token not in installed.log
