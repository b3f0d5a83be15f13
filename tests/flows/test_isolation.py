"""Nothing crosses between users: every route, action and method, requested with every kind of credential.

Routes and actions come from the code's own tables, so new ones are included; only the parameters of a valid request
must be added for a new action (`tests.support.readers.parameters`).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import MagicMock
from urllib.parse import quote

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from microsub.accounts import create_app_password, token_of_password
from microsub.greader.api import PATHS as NATIVE_PATHS
from microsub.model.reader import ALL_SCOPES
from microsub.redis.protocol import Redis
from microsub.server.app import microsub_actions
from microsub.web.forms import FIELD, form_token
from microsub.web.routes import is_form
from tests.support.event_stream import EventStream, listening
from tests.support.invariants import all_keys
from tests.support.native_app import numbered
from tests.support.provider import Provider, Variant, provider
from tests.support.readers import ENDPOINT, FEED, OTHER, Key, Reader, instance, parameters, posts, snapshot
from tests.support.world import World

ADDRESS = "https://reader.example"
ALICE, BOB = f"{ENDPOINT}/alice", f"{ENDPOINT}/bob"
TABLE = microsub_actions(MagicMock())
KEYS = sorted(TABLE)
OK = frozenset({200, 400, 404})
"""Statuses of accepted requests."""


@dataclass
class Neighbours:
    """Alice, Bob, and Carol, who is removed; one provider has all three, another one also has an Alice."""

    server: World
    site: Provider
    stranger: Provider
    elsewhere: World
    readers: dict[str, Reader] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    tokens: dict[str, str] = field(default_factory=dict)

    async def begin(self) -> None:
        server, now = self.server, self.server.now
        for provider_ in (self.site, self.stranger):
            provider_.clock = lambda: server.now
        for name in ("alice", "bob", "carol"):
            self.readers[name] = await server.reader(name, "home", "later")
            await server.accounts.set_me(name, self.site.person(name).me)
        await self.elsewhere.reader("alice")
        await server.publish(FEED, *posts("a", "b", "c"))
        await server.publish(OTHER, *posts("private words", host="other.example"), title="Only private words")
        for name in ("alice", "bob"):
            await self.readers[name].post(action="follow", channel="home", url=FEED)
            await self.readers[name].post(action="outputs", method="create", output="picks")
        await self.readers["bob"].post(action="outputs", method="create", output="bobs-picks", title="private words")
        await self.readers["bob"].post(action="follow", channel="home", url=OTHER)
        self.ids = await self.readers["bob"].ids("home", limit=100)
        self.stranger.person("alice")
        await self._hold(now)

    async def _hold(self, now: float) -> None:
        """Collect all kinds of credentials, by description."""
        accounts, granted = self.server.accounts, self.site.grant
        held = {
            "alice": self.readers["alice"].token,
            "alice, by her provider": granted("alice", *ALL_SCOPES),
            "bob": self.readers["bob"].token,
            "bob, by his provider": granted("bob", *ALL_SCOPES),
            "carol, removed": self.readers["carol"].token,
            "carol, removed, by her provider": granted("carol", *ALL_SCOPES),
            "expired": await accounts.create_token("alice", ALL_SCOPES, "tests", now, now - 1),
            "expired at the provider": granted("alice", *ALL_SCOPES, lifetime=-1),
            "revoked": await self.server.grant("alice", *ALL_SCOPES),
            "revoked at the provider": granted("alice", *ALL_SCOPES),
            "of another server": await self.elsewhere.grant("alice", *ALL_SCOPES),
            "of another provider": self.stranger.grant("alice", *ALL_SCOPES),
            "alice, by app password": token_of_password(
                "alice", await create_app_password(accounts, "alice", "App", now)
            ),
            "of a program": await self.server.service_tokens.create("crawler", now),
            "a session": await self.server.parts.sessions.begin(
                "alice", self.site.people["alice"].me, "tests", "", now
            ),
            "nonsense": "nonsense",
        }
        assert await self.status(held["carol, removed, by her provider"], f"{ENDPOINT}/carol") == 200
        await accounts.disable_user("carol", now)
        revoked = accounts.credential(held["revoked"])
        assert revoked
        assert await accounts.revoke("alice", revoked.digest)
        self.site.revoke(held["revoked at the provider"])
        self.tokens = held

    async def ask(self, token: str | None, path: str, key: Key = ("GET", "channels", "")) -> httpx.Response:
        params = parameters(key, self.ids)
        send: dict[str, Any] = {"params": params} if key[0] == "GET" else {"data": params}
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        if key[1] == "events":
            return await self.first_of_stream(token, path)
        return await self.server.client.request(key[0], path, headers=headers, **send)

    async def first_of_stream(self, token: str | None, path: str) -> httpx.Response:
        """The beginning of a stream, or the reply instead of one."""
        stream = EventStream(self.server.app, Reader("", token or "", self.server.client, path))
        await stream.started()
        await stream.leave()
        return httpx.Response(stream.status, headers=stream.headers, content=stream.body)

    async def status(self, token: str | None, path: str) -> int:
        return (await self.ask(token, path)).status_code


@pytest.fixture
async def world(real_redis: Redis, second_redis_url: str) -> AsyncIterator[Neighbours]:
    from microsub.redis.multiplexer import Multiplexed

    other = Multiplexed(second_redis_url)
    try:
        async with (
            instance(real_redis, base_url=ADDRESS) as server,
            instance(other) as elsewhere,
            provider(Variant.lenient(lifetime=None)) as site,
            provider(Variant.lenient(lifetime=None)) as stranger,
        ):
            made = Neighbours(server, site, stranger, elsewhere)
            await made.begin()
            yield made
    finally:
        await other.aclose()


def let_in(holder: str, path: str) -> frozenset[int]:
    """The allowed statuses of the reply at one of the three addresses."""
    if holder in {"alice", "alice, by her provider"}:
        return {ENDPOINT: OK, ALICE: OK, BOB: frozenset({403})}[path]
    if holder in {"bob", "bob, by his provider"}:
        return {ENDPOINT: OK, ALICE: frozenset({403}), BOB: OK}[path]
    if holder == "alice, by app password":
        return frozenset({403})
    if holder == "carol, removed, by her provider" and path != ENDPOINT:
        return frozenset({403})  # the provider says that the token is hers
    return frozenset({401})


async def confirmed(world: Neighbours) -> None:
    """Tokens that a provider has confirmed work at the address without a name from then on."""
    for holder, path in (("alice, by her provider", ALICE), ("bob, by his provider", BOB)):
        assert await world.status(world.tokens[holder], path) == 200


async def test_no_credential_opens_what_is_not_its_own(world: Neighbours) -> None:
    """Each is refused everywhere but at its own user's address, whatever the action, and nothing changes."""
    await confirmed(world)
    readers = [world.readers[name] for name in ("alice", "bob")]
    before = [await snapshot(reader) for reader in readers]
    refused = [
        (holder, token, path)
        for holder, token in (*world.tokens.items(), ("nothing", None))
        for path in (ENDPOINT, ALICE, BOB)
        if let_in(holder, path) != OK
    ]
    for key in KEYS:
        for holder, token, path in refused:
            reply = await world.ask(token, path, key)
            assert reply.status_code in let_in(holder, path), (key, holder, path, reply.text)
            assert set(reply.json()) <= {"error", "error_description", "scope"}, (key, holder, path)
        assert [await snapshot(reader) for reader in readers] == before, key


async def test_no_action_reaches_another_user(world: Neighbours) -> None:
    """With alice's tokens, no action shows or changes anything of Bob's."""
    await confirmed(world)
    bob, following = world.readers["bob"], ("POST", "follow", "")
    before = await snapshot(bob)
    # What deletes comes after what shows and changes; at the end she follows the feed that only Bob followed.
    for key in sorted(KEYS, key=lambda key: (key == following, key[2] == "delete", key[2] == "remove", key[0])):
        for holder in ("alice", "alice, by her provider"):
            for path in (ENDPOINT, ALICE):
                reply = await world.ask(world.tokens[holder], path, key)
                assert reply.status_code in OK, (key, holder, path, reply.text)
                if key != following:
                    assert "other.example" not in reply.text, key
                    assert "private words" not in reply.text, key
        assert await snapshot(bob) == before, key


async def test_no_action_goes_beyond_its_scope(world: Neighbours) -> None:
    """All scopes except the required one aren't enough, for our tokens and for a provider's, and nothing changes."""
    alice = world.readers["alice"]
    before = await snapshot(alice)
    for needed in sorted({action.scope for action in TABLE.values()}):
        rest = [*(scope for scope in ALL_SCOPES if scope != needed), "create", "profile"]
        tokens = [await world.server.grant("alice", *rest), world.site.grant("alice", *rest)]
        for key in (key for key in KEYS if TABLE[key].scope == needed):
            for token, path in itertools.product(tokens, (ALICE, ENDPOINT)):
                reply = await world.ask(token, path, key)
                assert (reply.status_code, reply.json()["scope"]) == (403, needed), key
            assert await snapshot(alice) == before, key


async def test_no_stream_contains_other_users_events(world: Neighbours) -> None:
    """Bob's posts, marks and channels are only in his own stream; his event ids don't give others access to it."""
    server, alice, bob = world.server, world.readers["alice"], world.readers["bob"]
    server.parts.listeners.patience = 0.02
    async with listening(server.app, bob) as his, listening(server.app, alice) as hers:
        await server.publish(OTHER, *posts("more private words", host="other.example", at=server.now))
        await bob.post(action="channels", name="Private channel")
        await bob.post(action="timeline", method="mark_read", channel="global", entry=world.ids)
        heard = await his.until("new item in channel", unread=1)
        await alice.post(action="channels", name="Her own")
        assert (await hers.next()).data["channel"]["name"] == "Her own"
        assert await hers.rest() == []
    async with listening(server.app, alice, last_event_id=heard[0].id) as hers:
        assert [one.name for one in [await hers.next(), *await hers.rest()]] == ["resync"]
        assert "private" not in hers.body.decode().lower()


# --- all other routes


def walked(app: Starlette, private: str) -> Iterator[tuple[str, str, bool]]:
    """Method, path and whether it is a form of our own pages, for every route except the Microsub endpoint.

    `private` is the id of something that only Bob may see.
    """
    for route in app.routes:
        assert isinstance(route, Route), f"say here how {route} is walked"
        path = route.path.replace("/outputs/{name}", "/outputs/bobs-picks")
        path = path.replace("{path:path}", "posts/1").replace("{name}", "style.css")
        path = path.replace("/media/{name:path}", f"/media/bob.{'x' * 22}")
        path = path.replace("/posts/{name:path}", f"/posts/1.{'x' * 22}")
        path = path.replace("{place:path}", f"1.{'x' * 43}").replace("{user}", "bob")
        path = path.replace("{mark}/{file}", "0/pages.css").replace("{signature}/{address}", "x/aHR0cA")
        path = path.replace("{uid}", "home").replace("{id}", private).replace("{feed}", private)
        assert "{" not in path, f"say here what stands in {route.path}"
        for method in sorted(route.methods or {"GET", "POST"}):
            yield method, path, is_form(route)


async def kept_of(redis: Redis, user: str) -> dict[bytes, bytes]:
    """All keys in the user's slot, as Redis dumps them."""
    names = sorted(name for name in await all_keys(redis) if f"{{{user}}}".encode() in name)
    return dict(zip(names, await redis.pipeline([("DUMP", name) for name in names]), strict=True))


async def test_no_other_route_reaches_another_user(world: Neighbours) -> None:
    """Requests about Bob with Alice's tokens, with her session and without credentials neither show nor change his
    data, and a token opens no page.
    """
    server = world.server
    sessions = server.parts.sessions
    await sessions.begin("bob", world.site.people["bob"].me, "with bob.example", "Bob's Browser", server.now)
    (his,) = await sessions.all("bob")
    secret = ["private words", "other.example", his.id, "Bob's Browser"]
    everywhere = await server.channels.all_subscriptions("bob")
    (feed,) = [one.feed for one in everywhere["home"] if one.url == OTHER]
    (post,) = await server.items.newest(feed, 10)
    about = {
        **dict.fromkeys(("feed", "ended", "again", "follow"), feed),
        **dict.fromkeys(("item", "entry", "read", "unread", "save", "unsave", "above", "page", "publish"), post),
        **{"channel": "home", "to": "later", "output": "bobs-picks", "undo": feed, "until": f"9999999999.{post}"},
        **dict.fromkeys(("user", "name", "username", "account", "login"), "bob"),
        **{"me": world.site.people["bob"].me, "session": his.id, "client": "https://app.example/"},
        **{"client_id": "https://app.example/", "redirect_uri": "https://app.example/back", "next": "/account"},
        **{"source": "https://sender.example/1", "target": world.site.people["alice"].me},
    }
    me, browser = world.site.people["alice"].me, "b" * 43
    before = await kept_of(server.redis, "bob")
    server.parts.listeners.stop()  # so that streams end
    routes = list(dict.fromkeys([*walked(server.app, feed), *walked(server.app, post)]))
    routes.sort(key=lambda route: route[1].endswith(("/delete", "/end", "/end-all", "/sign-out")))  # deletions last
    assert {"/token", "/account", "/health"} <= {path for _, path, _ in routes}
    for method, path, takes_form in routes:
        for holder in ("alice", "alice, by her provider", "a session", "nothing", "cookie"):
            headers: dict[str, str] = {"Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"}
            form = dict(about)
            if holder == "cookie":
                server.clock.advance(0.1)  # only the latest sessions are kept
                cookie = await sessions.begin("alice", me, "tests", "Alice's", server.now)
                found = await sessions.find(cookie, server.now)
                assert found
                headers["Cookie"] = f"__Host-microsub-session={cookie}; __Host-microsub-browser={browser}"
                if takes_form:
                    form[FIELD] = form_token(browser, found.id, path)
            elif holder != "nothing":
                headers["Authorization"] = f"Bearer {world.tokens[holder]}"
            address = f"{ADDRESS}{path}"
            if method == "POST":
                reply = await server.client.post(address, data=form, params=about, headers=headers)
            else:
                reply = await server.client.request(method, address, params=about, headers=headers)
            where = (method, path, holder, reply.status_code, reply.text[:300])
            assert reply.status_code < 500 or reply.status_code == 503, where  # busy, or without a worker
            assert not [one for one in secret if one in reply.text], where
            if path.startswith("/account") and holder != "cookie":
                assert reply.status_code in {303, 307, 401, 403, 405}, where
            if takes_form and holder == "cookie":
                assert "This form" not in reply.text, where  # the form of our own page was accepted
            if path.startswith("/admin"):
                assert reply.status_code in ({404} if holder == "cookie" else {303, 403}), where
            if path == "/store/posts/1":
                assert reply.status_code in {401, 405}, where
    assert await kept_of(server.redis, "bob") == before
    followed = await server.channels.all_subscriptions("alice")
    assert feed not in {one.feed for subscriptions in followed.values() for one in subscriptions}
    for uid in followed:
        assert post not in await world.readers["alice"].ids(uid)


async def test_no_native_app_reaches_another_user(world: Neighbours) -> None:
    """Each request of the Google Reader API about Bob's feeds, posts and folders, with every kind of credential."""
    server = world.server
    (native,) = {route.endpoint for route in server.app.routes if route.path in NATIVE_PATHS}
    everywhere = await server.channels.all_subscriptions("bob")
    (his,) = [one for one in everywhere["home"] if one.url == OTHER]
    (post,) = await server.items.newest(his.feed, 10)
    (foreign,) = numbered([post])
    about: dict[str, Any] = {
        "i": [foreign, f"tag:google.com,2005:reader/item/{int(foreign):016x}"],
        "a": ["user/-/state/com.google/read", "user/-/state/com.google/starred", "user/bob/label/Home"],
        **{"r": "user/bob/label/Later", "ts": str(int(server.now) + 10), "n": "1000", "quickadd": "words of somebody"},
        **{"Email": "bob", "userId": "bob", "u": "bob", "T": "x"},
    }
    named = [f"feed/{his.id}", f"feed/{OTHER}", "user/bob/label/Home", "user/bob/state/com.google/reading-list"]
    secret = ["private words", "other.example", foreign, about["i"][1]]
    holders = {**world.tokens, "bob's, with alice's name": world.tokens["bob"].replace("bob.", "alice."), "nothing": ""}
    before = await kept_of(server.redis, "bob")
    names = [action.removeprefix("greader ") for action in native.actions if action != "greader ClientLogin"]
    assert {"edit-tag", "stream/contents", "atom", "subscription/import"} <= set(names)
    for name, (holder, token) in itertools.product(names, holders.items()):
        is_hers = holder == "alice, by app password"
        headers = {"Authorization": f"GoogleLogin auth={token}"}
        for stream, action in itertools.product(named if is_hers else named[:1], ("unsubscribe", "edit")):
            place = f"/reader/atom/{quote(stream)}" if name == "atom" else f"/reader/api/0/{name}"
            given = {**about, "s": stream, "ac": action, "dest": "user/bob/label/Taken over"}
            sent = (
                server.client.get(f"{ADDRESS}/greader{place}", params=given, headers=headers),
                server.client.post(f"{ADDRESS}/greader{place}", params={"s": stream}, data=given, headers=headers),
            )
            for reply in await asyncio.gather(*sent):
                where = (name, holder, stream, reply.status_code, reply.text[:200])
                assert reply.status_code in ({*OK, 405} if is_hers else {401, 405}), where
                said = reply.text.replace(stream, "the stream that was named")
                assert not [one for one in secret if one in said], where
    assert await kept_of(server.redis, "bob") == before
    followed = await server.channels.all_subscriptions("alice")
    assert his.feed not in {one.feed for subscriptions in followed.values() for one in subscriptions}
    for uid in followed:
        assert post not in await world.readers["alice"].ids(uid)


async def test_a_cookie_opens_no_endpoint(world: Neighbours) -> None:
    """A foreign page that makes a browser send the cookie gains nothing."""
    session = world.tokens["a session"]
    headers = {"Cookie": f"__Host-microsub-session={session}; microsub-session={session}"}
    for path in (ENDPOINT, ALICE):
        reply = await world.server.client.get(f"{ADDRESS}{path}?action=channels", headers=headers)
        assert reply.status_code == 401
