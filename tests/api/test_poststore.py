"""The post store over HTTP: readable for programs with a token that the admin has made, and for nobody else."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from microsub.base.errors import StoreUnavailable
from microsub.feeds.events import Event, Events
from microsub.model.reader import ALL_SCOPES
from microsub.post_store.api import _RESOURCES
from microsub.posts.imported import Imported
from tests.support.posts import NOON, candidate
from tests.support.readers import ENDPOINT, Reader, assert_no_null, posts
from tests.support.world import World

BLOG = "https://blog.example/feed"


@pytest.fixture
async def program(server: World) -> Program:
    return Program(server.client, await server.service_tokens.create("planet", server.now))


class Program:
    """Another program with a token."""

    def __init__(self, client: httpx.AsyncClient, token: str) -> None:
        self.client = client
        self.token = token

    async def ask(self, path: str, headers: dict[str, str] | None = None, **params: Any) -> httpx.Response:
        head = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        return await self.client.get(f"/store/{path}", params=params, headers=head)

    async def get(self, path: str, **params: Any) -> dict[str, Any]:
        response = await self.ask(path, **params)
        assert response.status_code == 200, response.text
        assert response.headers.get_list("content-type") == ["application/json"]
        assert response.headers["access-control-allow-origin"] == "*"
        found: dict[str, Any] = response.json()
        assert_no_null(found)
        return found

    async def refused(self, path: str, status: int, **params: Any) -> dict[str, Any]:
        response = await self.ask(path, **params)
        assert response.status_code == status, response.text
        assert response.headers["cache-control"] == "no-store"
        found: dict[str, Any] = response.json()
        return found


async def test_a_feed_and_its_posts(server: World, program: Program) -> None:
    """By id, by URL, by guid, newest first; without data of a user."""
    feed = await server.publish(BLOG, *posts("three", "two", "one"), title="Harbour")
    (found,) = (await program.get("feeds"))["items"]
    assert found == {"type": "feed", "_id": feed.id, "url": BLOG, "name": "Harbour"}
    assert await program.get(f"feeds/{feed.id}") == found
    assert (await program.get("feeds", url=BLOG))["items"] == [found]
    assert (await program.get("feeds", url="https://BLOG.example:443/feed#x"))["items"] == [found]
    assert (await program.get("feeds", url="https://other.example/")) == {"items": [], "paging": {}}
    newest = (await program.get(f"feeds/{feed.id}/posts", limit=2))["items"]
    assert [item["name"] for item in newest] == ["three", "two"]
    post = newest[0]
    assert await program.get(f"posts/{post['_id']}") == post
    assert post["_source"] == feed.id
    assert post["_guid"] == "https://blog.example/three"
    assert post["_timestamp"] == post["published"]
    assert not {"_is_read", "_channel", "_fields"} & post.keys()
    by_guid = await program.get(f"feeds/{feed.id}/posts", guid=post["_guid"])
    assert by_guid == {"items": [post], "paging": {}}
    assert (await program.get(f"feeds/{feed.id}/posts", guid="http://blog.example/three/"))["items"] == [post]
    assert (await program.get(f"feeds/{feed.id}/posts", guid="nobody's")) == {"items": [], "paging": {}}


async def test_paths_work_with_a_slash_at_the_end(server: World, program: Program) -> None:
    """There is no redirect, which some clients follow without their token."""
    feed = await server.publish(BLOG, *posts("one"))
    for path in ("feeds/", f"feeds/{feed.id}/", f"feeds/{feed.id}/posts/", "events/"):
        assert (await program.ask(path)).status_code == 200


async def test_a_page_of_large_posts_ends_early(
    server: World, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs get the rest with `after`."""
    monkeypatch.setattr("microsub.post_store.posts.PIECE", 200_000)
    feed = await server.publish(BLOG, *posts("three", "two", "one", text="x" * 40_000))
    first = await program.get(f"feeds/{feed.id}/posts")
    assert [item["name"] for item in first["items"]] == ["three", "two"]
    second = await program.get(f"feeds/{feed.id}/posts", after=first["paging"]["after"])
    assert ([item["name"] for item in second["items"]], second["paging"]) == (["one"], {})


async def test_pages_follow_each_other(server: World, program: Program) -> None:
    """Posts and feeds, each once, to the end; a page has at most 100."""
    feed = await server.publish(BLOG, *[candidate(f"post {n}", at=NOON + n // 7) for n in range(130)])
    for number in range(4):
        await server.publish(f"https://blog.example/{number}", *posts("x"))
    found: list[str] = []
    after = ""
    while True:
        page = await program.get(f"feeds/{feed.id}/posts", limit=1000, after=after)
        assert len(page["items"]) <= 100
        found += [item["name"] for item in page["items"]]
        if "after" not in page["paging"]:
            break
        after = page["paging"]["after"]
    assert len(found) == 130
    assert set(found) == {f"post {n}" for n in range(130)}
    urls: list[str] = []
    after = ""
    while True:
        page = await program.get("feeds", limit=2, after=after)
        urls += [item["url"] for item in page["items"]]
        if "after" not in page["paging"]:
            break
        after = page["paging"]["after"]
    assert urls == [BLOG, *(f"https://blog.example/{number}" for number in range(4))]


@pytest.mark.parametrize(
    "path",
    ["posts/999", "posts/x", "posts/", "feeds/999", "feeds/x", "feeds/999/posts", "", "feeds/1/x", "posts/1/2/3"],
)
async def test_missing_feeds_and_posts_are_404(program: Program, path: str) -> None:
    """With the requested id."""
    found = await program.refused(path, 404)
    assert found["error"] == "not_found"
    if path.strip("/").rpartition("/")[2] in {"999", "x"} and path.count("/") == 1:
        assert f"'{path.rpartition('/')[2]}'" in found["error_description"]


@pytest.mark.parametrize(
    ("path", "params", "named"),
    [
        ("feeds", {"limit": "0"}, "limit"),
        ("feeds", {"url": ""}, "url"),
        ("feeds", {"url[]": "", "limit": "2"}, "url"),
        ("feeds/1/posts", {"guid": ""}, "guid"),
        ("feeds/1/posts", {"guid[0]": ""}, "guid"),
        ("feeds", {"limit": "many"}, "limit"),
        ("feeds", {"after": "x"}, "after"),
        ("feeds", {"after": "9" * 40}, "after"),
        ("feeds", {"url": "blog"}, "url"),
        ("feeds/1/posts", {"after": "!"}, "after"),
        ("feeds/1/posts", {"limit": "-1"}, "limit"),
        ("feeds/1/posts", {"limit": ["1", "2"]}, "limit"),
        ("events", {"after": "yesterday"}, "after"),
        ("events", {"after": "1-1-1"}, "after"),
        ("events", {"after": "9" * 40}, "after"),
    ],
)
async def test_invalid_parameters_are_named(
    server: World, program: Program, path: str, params: dict[str, Any], named: str
) -> None:
    """400 with the parameter, the value found and the expected one."""
    await server.publish(BLOG, *posts("one"))
    found = await program.refused(path, 400, **params)
    assert found["error"] == "invalid_request"
    assert f"'{named}'" in found["error_description"]


async def test_credentials_in_addresses_are_masked(server: World, program: Program) -> None:
    """A user's private feed is listed; its credentials aren't shown, but the address with them finds it."""
    url = "https://ann:sesame@blog.example/private?token=sesame&k=sesame"
    await server.publish(url, *posts("one"))
    for page in (await program.get("feeds"), await program.get("feeds", url=url)):
        (found,) = page["items"]
        assert "sesame" not in str(found)
        assert (await program.get(f"feeds/{found['_id']}/posts"))["items"]


async def test_posts_of_no_feed_are_their_readers_own(server: World, program: Program, alice: Reader) -> None:
    """Posts that were imported into one user's channel aren't part of the post store."""
    imported = Imported(server.redis)
    ids = await imported.ids(alice.name, ["old"])
    await imported.write({ids["old"]: candidate("own")}, server.now)
    await program.refused(f"posts/{ids['old']}", 404)


async def test_asking_again_costs_a_304(server: World, program: Program) -> None:
    """This holds until something changes; only the client may keep the reply."""
    feed = await server.publish(BLOG, *posts("one"))
    first = await program.ask(f"feeds/{feed.id}/posts")
    assert first.headers["cache-control"] == "private, no-cache"
    tag = first.headers["etag"]
    for sent in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = await program.ask(f"feeds/{feed.id}/posts", {"If-None-Match": sent})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    await server.publish(BLOG, *posts("two", at=NOON + 60))
    changed = await program.ask(f"feeds/{feed.id}/posts", {"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag


async def test_events_in_pages(server: World, program: Program) -> None:
    """From the oldest on, or from now on; each page says where to continue, and whether events are missing."""
    events = Events(server.redis)
    await events.announce([Event("post_created", "1", server.now, str(n), f"guid {n}") for n in range(3)])
    await events.announce([Event("post_modified", "1", server.now, "1", "guid 1", ("name", "content"))])
    page = await program.get("events", limit=2)
    assert [(event["kind"], event["post"]) for event in page["items"]] == [("post_created", "0"), ("post_created", "1")]
    assert page["items"][0]["guid"] == "guid 0"
    rest = await program.get("events", after=page["paging"]["after"])
    assert [event["kind"] for event in rest["items"]] == ["post_created", "post_modified"]
    assert rest["items"][1]["changed"] == ["name", "content"]
    end = rest["paging"]["after"]
    assert await program.get("events", after=end) == {"items": [], "paging": {"after": end}}
    assert await program.get("events", after="newest") == {"items": [], "paging": {"after": end}}
    assert (await program.get("events", after="1-0"))["missed"] is True


async def test_writing_methods_are_refused(server: World, program: Program) -> None:
    """Every method but GET and HEAD gets 405, with these two named; OPTIONS needs no token."""
    feed = await server.publish(BLOG, *posts("one"))
    for path in ("feeds", f"feeds/{feed.id}/posts", "posts/1", "events"):
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            response = await server.client.request(
                method, f"/store/{path}", headers={"Authorization": f"Bearer {program.token}"}
            )
            assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
        preflight = await server.client.options(f"/store/{path}")
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-methods"] == "GET, HEAD, OPTIONS"
        assert "Authorization" in preflight.headers["access-control-allow-headers"]
    head = await server.client.head("/store/feeds", headers={"Authorization": f"Bearer {program.token}"})
    assert head.status_code == 200


EVERY_PATH = ["/".join("1" if part == "" else part for part in parts) for parts in _RESOURCES]


@pytest.mark.parametrize("path", [*EVERY_PATH, "", "nothing/here"])
async def test_only_a_programs_token_opens_it(server: World, alice: Reader, program: Program, path: str) -> None:
    """Without a token, or with a user's, a changed, an expired or a revoked one, or one in the query: 401."""
    await server.publish(BLOG, *posts("one"))
    expired = await server.service_tokens.create("late", server.now - 20, server.now - 10)
    revoked = await server.service_tokens.create("gone", server.now)
    assert await server.service_tokens.revoke("gone")
    reader = await server.grant("alice", *ALL_SCOPES)
    name, _, secret = program.token.partition(".")
    for token in (
        "",
        "x",
        "~",
        "~.",
        "~planet.",
        "~nobody.x",
        f"{name}.{secret[:-1]}x",
        f"~alice.{secret}",
        f"~{reader}",
        program.token[1:],
        reader,
        alice.token,
        expired,
        revoked,
        "~planet." + "x" * 10_000,
        "~plän\xe9t.x",
    ):
        response = await server.client.get(
            f"/store/{path}", headers={"Authorization": f"Bearer {token}".encode("latin-1")}
        )
        assert (response.status_code, response.json()["error"]) == (401, "unauthorized"), token
        assert response.headers["www-authenticate"] == "Bearer"
    assert (await server.client.get(f"/store/{path}")).status_code == 401
    assert (await server.client.get(f"/store/{path}", params={"access_token": program.token})).status_code == 401


async def test_a_programs_token_opens_nothing_else(server: World, alice: Reader, program: Program) -> None:
    """In the header, the query or the body, at both addresses; this also holds for a program with a user's name."""
    namesake = await server.service_tokens.create("alice", server.now)
    for token in (program.token, namesake, namesake[1:]):
        for endpoint in (ENDPOINT, f"{ENDPOINT}/alice"):
            head = {"Authorization": f"Bearer {token}"}
            answers = [
                await server.client.get(endpoint, params={"action": "channels"}, headers=head),
                await server.client.get(endpoint, params={"action": "timeline", "channel": "home"}, headers=head),
                await server.client.get(endpoint, params={"action": "channels", "access_token": token}),
                await server.client.post(endpoint, data={"action": "channels", "name": "New"}, headers=head),
                await server.client.post(endpoint, data={"action": "channels", "name": "N", "access_token": token}),
            ]
            assert [response.status_code for response in answers] == [401] * len(answers)
    assert len((await alice.get(action="channels"))["channels"]) == 4


async def test_secrets_are_kept_as_hashes(server: World, program: Program) -> None:
    """Neither the token nor its secret is in Redis in clear; a name has one token."""
    _, _, secret = program.token.partition(".")
    stored = await server.redis.command("HGETALL", "services")
    assert secret not in str(stored)
    assert await server.service_tokens.all() == [("planet", server.now, None)]
    with pytest.raises(Exception, match="already"):
        await server.service_tokens.create("planet", server.now)
    for name in ("", "a b", "a.b", "ä", "x" * 65):
        with pytest.raises(Exception, match="name of a program"):
            await server.service_tokens.create(name, server.now)


async def test_errors_are_those_of_the_endpoint(
    server: World, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503 with Retry-After while Redis is unavailable, 500 without details for a bug; both with the request's id."""

    async def away(*_: Any) -> Any:
        raise StoreUnavailable("redis://:sesame@10.0.0.1")

    async def bug(*_: Any) -> Any:
        raise RuntimeError("sesame")

    for broken, status in ((away, 503), (bug, 500)):
        with monkeypatch.context() as patch:
            patch.setattr(server.redis, "command", broken)
            response = await program.ask("feeds")
        assert (response.status_code, response.json()["error"]) == (status, "server_error")
        assert "sesame" not in response.text
        assert response.headers["x-request-id"]
