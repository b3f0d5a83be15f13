"""Requests beyond the public test suite: other formats, repeated requests, and posts of others."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx
import pytest

from microsub.base.errors import InvalidRequest
from microsub.base.rate_limits import network_of
from microsub.configuration.model import InstanceSettings, Quotas
from microsub.micropub import api, deleted
from microsub.micropub.api import POSTED_BYTES_OF_USER
from microsub.micropub.deleted import SENT_AGAIN
from microsub.micropub.media import MOST_BYTES
from microsub.micropub.properties import checked, updated
from microsub.redis import keys
from microsub.web.responses import SENT_UNIT, UNITS_SENT_OF_USER, until_sent
from tests.conftest import fake_redis
from tests.micropub.conftest import BASE, SourceClient, items, source_of
from tests.support.reader import Reader
from tests.support.readers import instance
from tests.support.threads import HeldWork
from tests.support.world import World

JPEG = b"\xff\xd8\xff\xe0" + b"j" * 50
JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("kind", ["application/json", "application/jf2+json"])
async def test_jf2(sender: SourceClient, alice: Reader, kind: str) -> None:
    """As Aperture accepts it: single values, content with HTML, an author as an object, its own published time."""
    post = {
        "type": "entry",
        "name": "A title",
        "content": {"html": "<p>Hi <i>there</i></p>", "text": "Hi there"},
        "author": {"type": "card", "name": "Bot", "url": "https://bot.example/"},
        "category": "one",
        "published": "2023-11-01T12:00:00+00:00",
        "url": "https://bot.example/1",
    }
    await sender.post(content=json.dumps(post).encode(), headers={"Content-Type": kind})
    (item,) = await items(alice)
    assert (item["name"], item["content"]["html"], item["category"]) == ("A title", "<p>Hi <i>there</i></p>", ["one"])
    assert (item["author"]["name"], item["url"]) == ("Bot", "https://bot.example/1")
    assert (item["published"], item["_is_read"]) == ("2023-11-01T12:00:00+00:00", False)


async def test_fields_in_every_spelling(sender: SourceClient, alice: Reader) -> None:
    """Brackets, indexes and parts of a value; `h` may be missing; a body without Content-Type is a form."""
    body = b"category[1]=b&category[0]=a&content[html]=%3Cb%3Ex%3C/b%3E&photo[0][value]=https://p.example/1&photo[0][alt]=A"
    address = await sender.post(content=body)
    assert await sender.stored(address) == {
        "category": ["a", "b"],
        "content": [{"html": "<b>x</b>"}],
        "photo": [{"value": "https://p.example/1", "alt": "A"}],
    }
    (item,) = await items(alice)
    assert (item["category"], item["photo"]) == (["a", "b"], ["https://p.example/1"])


async def test_commands_are_left_out_and_unknown_properties_kept(sender: SourceClient) -> None:
    """Neither is an error."""
    address = await sender.note("x", **{"mp-slug": "s", "mp-syndicate-to[]": "https://a.example/", "x-mood": "fine"})
    assert await sender.stored(address) == {"content": ["x"], "x-mood": ["fine"]}


async def test_other_kinds_of_posts(sender: SourceClient, alice: Reader) -> None:
    """A reply, a like, an event and a check-in have the post types that apps expect."""
    await sender.post(data={"content": "Yes", "in-reply-to": "https://a.example/1"})
    await sender.post(data={"like-of": "https://a.example/2"})
    await sender.post(data={"h": "event", "name": "Party", "start": "2026-12-24T18:00:00+01:00"})
    place = {"type": ["h-card"], "properties": {"name": ["Café"], "latitude": ["52.5"], "longitude": ["13.4"]}}
    await sender.post(json={"type": ["h-entry"], "properties": {"checkin": [place]}})
    found = {item["post-type"]: item for item in await items(alice)}
    assert found.keys() == {"reply", "like", "event", "checkin"}
    assert found["checkin"]["checkin"]["latitude"] == "52.5"


async def test_a_request_that_is_repeated_makes_one_post(sender: SourceClient, alice: Reader, server: World) -> None:
    """Within 10 minutes all its data, including files, identifies a request; later the same data is another post."""
    files = {"photo": ("a.jpg", JPEG, "image/jpeg")}
    first = [await sender.note("again"), await sender.post(data={"content": "pictured"}, files=files)]
    again = [await sender.note("again"), await sender.post(data={"content": "pictured"}, files=files)]
    assert (first, len(await items(alice))) == (again, 2)
    for name in await server.redis.command("KEYS", "user:{alice}:posted:*"):
        assert 0 < await server.redis.command("TTL", name) <= SENT_AGAIN
        await server.redis.command("DEL", name)
    assert await sender.note("again") != first[0]
    assert len(await items(alice)) == 3


async def test_the_oldest_redis_takes_posts() -> None:
    """Redis 6.2 comes with the project; here it is the fake Redis of that version."""
    async with instance(fake_redis()) as server:
        await server.reader("alice", "home")
        sender = await source_of(server, "alice")
        assert await sender.note("again") == await sender.note("again") != await sender.note("another")


@pytest.mark.parametrize("name", ["uid", "url"])
async def test_a_named_post_is_updated(sender: SourceClient, alice: Reader, server: World, name: str) -> None:
    """If it is sent again with other text, the post changes and keeps its place and read state."""
    first = await sender.note("before", **{name: "https://a.example/status"})
    (item,) = await items(alice)
    await alice.post(action="timeline", method="mark_read", channel="home", entry=item["_id"])
    server.clock.advance(86_400)
    assert await sender.note("after", **{name: "https://a.example/status"}) == first
    (changed,) = await items(alice)
    assert (changed["_id"], changed["content"]["text"], changed["_is_read"]) == (item["_id"], "after", True)


async def test_a_deleted_post_that_is_sent_again_is_there_again(sender: SourceClient, alice: Reader) -> None:
    """With or without a `uid`, it gets another URL, and keeps that one."""
    for fields in ({}, {"uid": "status"}):
        first = await sender.note("here", **fields)
        await sender.send(204, data={"action": "delete", "url": first})
        second = await sender.note("here", **fields)
        assert second != first
        assert await sender.note("here", **fields) == second
        assert len(await items(alice)) == 1
        await sender.send(204, data={"action": "delete", "url": second})


async def test_a_post_is_restored_by_each_address_that_it_has_had(
    sender: SourceClient, alice: Reader, server: World
) -> None:
    """After two deletions, the first URL restores it, and still identifies it."""
    first = await sender.note("here")
    await sender.send(204, data={"action": "delete", "url": first})
    second = await sender.post(data={"action": "undelete", "url": first})
    await sender.send(204, data={"action": "delete", "url": second})
    restored = await sender.post(data={"action": "undelete", "url": first})
    assert (await server.client.get(restored)).status_code == 200
    assert [item["url"] for item in await items(alice)] == [restored]
    assert await sender.stored(first) == await sender.stored(restored)
    await sender.send(204, data={"action": "delete", "url": first})
    assert await items(alice) == []


async def test_restored_posts_are_known_by_their_uid(sender: SourceClient, server: World) -> None:
    """Its `uid` finds it directly, however often it was deleted, and each request starts another 30 days."""
    for _ in range(3):
        address = await sender.note("here", uid="status")
        await sender.send(204, data={"action": "delete", "url": address})
    last = await sender.note("here", uid="status")
    assert await sender.note("here", uid="status") == last
    names = await server.redis.command("KEYS", "user:{alice}:deleted:*")
    for name in names:
        await server.redis.command("EXPIRE", name, 100)
    assert await sender.note("here", uid="status") == last
    lives = [await server.redis.command("TTL", name) for name in names]
    assert sorted(life > deleted.KEPT_DELETED - 60 for life in lives) == [False, False, True]


async def test_of_deleted_posts_the_last_ones_are_kept(
    sender: SourceClient, server: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sender who posts and deletes without end doesn't fill the store."""
    monkeypatch.setattr(deleted, "MOST_DELETED", 3)
    addresses = [await sender.note(f"note {number}") for number in range(5)]
    for address in addresses:
        server.clock.advance(1)
        await sender.send(204, data={"action": "delete", "url": address})
    assert len(await server.redis.command("KEYS", "user:{alice}:deleted:*")) == 3
    statuses = [400, 400, 201, 201, 201]
    for address, status in zip(addresses, statuses, strict=True):
        await sender.send(status, data={"action": "undelete", "url": address})


async def test_a_source_has_no_hold_on_anothers_posts(
    sender: SourceClient, server: World, alice: Reader, bob: Reader
) -> None:
    """This includes sources of the same user, other users, and the same `uid`; such URLs don't show polled feeds."""
    address = await sender.note("mine", uid="status")
    feed = await server.publish("https://blog.example/feed")
    for other in (await source_of(server, "alice", "later"), await source_of(server, "bob")):
        for action in ({"action": "delete"}, {"action": "undelete"}, {"action": "update", "replace": {"name": ["x"]}}):
            await other.send(400, json={**action, "url": address})
        await other.get(400, q="source", url=address)
        assert (await other.get(q="source"))["items"] == []
        assert await other.note("theirs", uid="status") != address
    assert [item["content"]["text"] for item in await items(alice)] == ["mine"]
    assert [item["content"]["text"] for item in await items(bob)] == ["theirs"]
    assert (await server.client.get(f"/posts/{feed.id}.{'x' * 22}")).status_code == 404


async def test_the_page_of_a_post(sender: SourceClient, server: World) -> None:
    """Everybody with the URL can read it. It runs no scripts, and caches and search engines don't keep it."""
    address = await sender.post(json={"properties": {"name": ["A <title>"], "content": [{"html": "<p>Text</p>"}]}})
    page = await server.client.get(address)
    assert page.status_code == 200
    assert "A &lt;title&gt;" in page.text
    assert "<p>Text</p>" in page.text
    assert "script" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert (page.headers["x-robots-tag"], page.headers["referrer-policy"]) == ("noindex", "no-referrer")
    assert address.rpartition(".")[2] not in str((await server.client.get(address[:-1] + "!")).json())


async def test_each_text_has_its_own_direction(sender: SourceClient, server: World) -> None:
    """The first strong character decides it for the name, the summary and the content."""
    page = await server.client.get(await sender.note("שלום world", name="عنوان", summary="plain"))
    for element in ('<h2 dir="auto">', '<p class="p-summary" dir="auto">', '<div class="e-content" dir="auto">'):
        assert element in page.text


async def test_the_latest_posts(sender: SourceClient) -> None:
    """`q=source` without a URL lists them, newest first."""
    first, second = await sender.note("one"), await sender.note("two")
    found = (await sender.get(q="source"))["items"]
    assert {one["url"] for one in found} == {first, second}
    assert len((await sender.get(q="source", limit=1))["items"]) == 1
    for query in ({"q": "nothing"}, {}, {"q": "source", "limit": "x"}):
        await sender.get(400, **query)


async def test_of_large_posts_fewer_are_listed(sender: SourceClient) -> None:
    """A reply is limited to 1 MB; reading and writing more would block all other requests."""
    sent = [await sender.note(f"{number} " + "x" * 300_000) for number in range(4)]
    found = (await sender.get(q="source", limit=100))["items"]
    assert [one["url"] for one in found] == sent[:0:-1]


async def test_a_source_follows_its_feed(sender: SourceClient, alice: Reader, server: World) -> None:
    """After a move, it posts into the other channel; after an unfollow, requests are refused with the reason."""
    await sender.note("one")
    await alice.post(action="follow", method="update", channel="later", url=sender.source.address)
    await sender.note("two")
    assert len(await items(alice, "later")) == 2
    assert (await sender.get(q="channel"))["channels"] == [{"uid": "later", "name": "Later"}]
    await alice.post(action="unfollow", channel="later", url=sender.source.address)
    assert (await sender.send(403, data={"content": "x"})).json()["error"] == "forbidden"
    assert (await sender.get(q="channel"))["channels"] == []


async def test_a_revoked_source_and_a_removed_user(sender: SourceClient, alice: Reader, server: World) -> None:
    """The token becomes invalid; the posts stay."""
    await sender.note("one")
    former, sender.token = sender.token, await server.sources.renew_token("alice", sender.source.id, server.now)
    await sender.send(401, token=former, data={"content": "x"})
    await sender.note("two")
    await server.sources.revoke("alice", sender.source.id)
    await sender.send(401, data={"content": "x"})
    assert len(await items(alice)) == 2
    other = await source_of(server, "bob") if await server.accounts.user("bob") else await source_of(server, "alice")
    await server.accounts.disable_user(other.source.user, server.now)
    await other.send(401, data={"content": "x"})


async def test_a_removed_users_sources_and_files_are_deleted(
    sender: SourceClient, alice: Reader, server: World
) -> None:
    """Pages and files are hidden after the removal; a month later sources and files are deleted."""
    address = await sender.post(data={"content": "x"}, files={"photo": ("a.jpg", JPEG, "image/jpeg")})
    assert (await server.check()).left == ()
    (item,) = await items(alice)
    await server.accounts.disable_user("alice", server.now)
    for shown in (address, item["photo"][0]):
        assert (await server.client.get(shown)).status_code == 404
    user = await server.accounts.user("alice")
    assert user
    assert await server.accounts.delete_disabled(user)
    left = [name.decode() for name in await server.redis.command("KEYS", "user:{alice}*")]
    assert [name for name in left if "posted" not in name] == []
    assert (await server.client.get(address)).status_code == 404


async def test_check_repairs_the_list_of_files(sender: SourceClient, server: World) -> None:
    """A crash between two commands can leave a file without entry or an entry without file; both are repaired."""
    reply = await sender.send(path="/media", files={"file": ("a.jpg", JPEG, "image/jpeg")})
    token = reply.headers["location"].split(".")[-2]
    await server.redis.command("SREM", keys.media("alice"), token)
    await server.redis.command("SADD", keys.media("alice"), "x" * 22)
    found = await server.check(repair=True)
    assert sorted(one.what for one in found.repaired) == [
        "a file that isn't listed",
        "a listed file that doesn't exist",
    ]
    assert len(await server.parts.media.sizes("alice")) == 1


# --- files ----------------------------------------------------------------------------------------------------------


async def test_files_are_never_documents(sender: SourceClient, server: World) -> None:
    """The bytes decide the type, whatever name and type were declared; all but known media is a download."""
    html, svg = b"<!doctype html><script>alert(1)</script>", b'<svg xmlns="http://www.w3.org/2000/svg"/>'
    for data, name, kind in (
        (html, "a.jpg", "image/jpeg"),
        (svg, "a.svg", "image/svg+xml"),
        (b"x" * 9, "../../etc/passwd", "text/html"),
    ):
        reply = await sender.send(path="/media", files={"file": (name, data, kind)})
        address = reply.headers["location"]
        assert name.rpartition("/")[2] not in address
        found = await server.client.get(address)
        assert (found.content, found.headers["content-type"]) == (data, "application/octet-stream")
        assert (found.headers["content-disposition"], found.headers["x-content-type-options"]) == (
            "attachment",
            "nosniff",
        )
        assert "sandbox" in found.headers["content-security-policy"]
    picture = (await sender.send(path="/media", files={"file": ("x.html", JPEG, "text/html")})).headers["location"]
    assert picture.endswith(".jpg")
    assert (await server.client.get(picture)).headers["content-disposition"] == "inline"


async def test_a_file_is_kept_once_and_deleted_by_its_user(sender: SourceClient, server: World, bob: Reader) -> None:
    """Other users can't delete it, and have another URL for the same bytes."""
    send = {"path": "/media", "files": {"file": ("a.jpg", JPEG, "image/jpeg")}}
    first, again = [(await sender.send(**send)).headers["location"] for _ in range(2)]  # type: ignore[arg-type]
    assert first == again
    other = await source_of(server, "bob")
    assert (await other.send(**send)).headers["location"] != first  # type: ignore[arg-type]
    gone = {"path": "/media", "data": {"action": "delete", "url": first}}
    await other.send(400, **gone)  # type: ignore[arg-type]
    await sender.send(204, **gone)  # type: ignore[arg-type]
    assert (await server.client.get(first)).status_code == 404
    await sender.send(400, path="/media", data={"x": "y"})


async def test_a_source_deletes_no_file_that_anothers_post_shows(sender: SourceClient, server: World) -> None:
    """Others may see the URL in the post, or know it because they sent the same bytes."""
    send = {"path": "/media", "files": {"file": ("a.jpg", JPEG, "image/jpeg")}}
    address = (await sender.send(**send)).headers["location"]  # type: ignore[arg-type]
    await sender.post(json={"type": ["h-entry"], "properties": {"photo": [address]}})
    other = await source_of(server, "alice", "later")
    assert (await other.send(**send)).headers["location"] == address  # type: ignore[arg-type]
    await other.send(400, path="/media", data={"action": "delete", "url": address})
    assert (await server.client.get(address)).status_code == 200
    await sender.send(204, path="/media", data={"action": "delete", "url": address})


async def test_files_that_no_post_shows_go_after_a_month(sender: SourceClient, alice: Reader, server: World) -> None:
    """Files that were never used, or only by deleted posts, are deleted; files of posts stay."""

    async def send(data: bytes, **post: Any) -> str:
        reply = await sender.send(path="/media", files={"file": ("a.jpg", JPEG + data, "image/jpeg")})
        address = reply.headers["location"]
        if post:
            shown = await sender.post(json={"type": ["h-entry"], "properties": {"photo": [{"value": address}], **post}})
            if "category" in post:
                await sender.send(204, data={"action": "delete", "url": shown})
        return str(address)

    async def sweep(days: float) -> list[int]:
        server.clock.advance(days * 86_400)
        await server.parts.media.sweep("alice", server.items, server.now)
        return [(await server.client.get(address)).status_code for address in files]

    files = [await send(b"1"), await send(b"2", content=["shown"]), await send(b"3", category=["deleted"])]
    assert await sweep(0.1) == [200, 200, 200]
    assert await sweep(30) == [200, 200, 200]
    again = await sender.send(path="/media", files={"file": ("a.jpg", JPEG + b"1", "image/jpeg")})
    assert again.headers["location"] == files[0]
    assert await sweep(1.1) == [200, 200, 404]
    assert await sweep(32) == [404, 200, 404]
    assert len(await server.parts.media.sizes("alice")) == 1
    assert (await server.check()).left == ()


async def test_files_have_a_quota(sender: SourceClient, server: World) -> None:
    """The quota counts bytes per user; a file over it is refused together with its post."""
    server.settings = InstanceSettings(quotas=Quotas(media=40_000))
    files = {"file": ("a.jpg", JPEG, "image/jpeg")}
    await sender.send(path="/media", files=files)
    await sender.send(path="/media", files={"file": ("b.jpg", JPEG + b"2", "image/jpeg")})
    reply = await sender.send(403, path="/media", files={"file": ("c.jpg", JPEG + b"3", "image/jpeg")})
    assert "bytes of files" in reply.json()["error_description"]
    await sender.send(403, data={"content": "x"}, files={"photo": ("c.jpg", JPEG + b"3", "image/jpeg")})
    assert (await sender.get(q="source"))["items"] == []


async def test_posts_have_a_quota(sender: SourceClient, server: World) -> None:
    """Once its bytes are used up, further posts are refused."""
    server.settings = InstanceSettings(quotas=Quotas(posts=10))
    await sender.send(data={"content": "one"})
    reply = await sender.send(403, data={"content": "two"})
    assert "the limit for bytes of posts" in reply.json()["error_description"]
    assert len((await sender.get(q="source"))["items"]) == 1


async def test_sources_have_a_quota(sender: SourceClient, server: World) -> None:
    """This holds for simultaneous requests, too."""
    with pytest.raises(Exception, match="the limit for sources"):
        await server.sources.create("alice", "home", "Another", server.now, most=1)


# --- hostile --------------------------------------------------------------------------------------------------------


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = {"type": ["h-cite"], "properties": {"content": [value]}}
    return value


@pytest.mark.parametrize(
    "request_",
    [
        {"json": {"type": ["h-entry"], "properties": {f"p{n}": ["x"] for n in range(10_000)}}},
        {"data": {f"p{n}": "x" for n in range(9_000)}},
        {"data": {f"x{'[y]' * 5_000}": "x"}},
        {"data": {f"p{n}": "x" for n in range(20_000)}},
        {"json": {"properties": {"category": ["x"] * 5_000}}},
        {"json": {"properties": {"x": [nested(60)]}}},
        {
            "content": b'{"properties":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
            "headers": JSON,
        },
        {"content": b"{" * 100, "headers": JSON},
        {"content": b"[]", "headers": JSON},
        {"json": {"properties": []}},
        {"json": {"type": ["<script>"], "properties": {"content": ["x"]}}},
        {"json": {"type": {"a": 1}, "properties": {"content": ["x"]}}},
        {"json": {"action": "explode", "url": BASE}},
        {"json": {"action": ["delete", "update"], "url": BASE}},
        {"json": {"action": "delete"}},
        {"json": {"access_token": {"a": 1}}},
        {"data": {"h": "entry"}},
        {"data": {"action": "update", "url": BASE}},
        {"json": {}},
        {"content": b"\xff\xfe", "headers": JSON},
        {"content": b"x", "headers": {"Content-Type": "multipart/form-data"}},
        {"content": b"x", "headers": {"Content-Type": "image/png"}},
        {"json": {"properties": {"content": ["x" * 600_000]}}},
        {"data": {"content": "x"}, "files": [("photo", (f"{n}", JPEG)) for n in range(30)]},
        {"data": {"content": "x"}, "files": {"photo": ("empty", b"")}},
    ],
    ids=lambda found: next(iter(found)),
)
async def test_invalid_requests_store_nothing(sender: SourceClient, alice: Reader, request_: dict[str, Any]) -> None:
    """The reply is 400 with a sentence."""
    reply = await sender.send(400, **request_)
    assert reply.json()["error"] == "invalid_request"
    assert (await sender.get(q="source"))["items"] == []
    assert await items(alice) == []


async def test_too_large_a_body_is_refused_before_it_is_read(sender: SourceClient) -> None:
    """1 MB for JSON and forms, 10 MB for files; the anonymous limit without a token in the header."""
    await sender.send(413, content=b"content=" + b"x" * (1 << 20))
    await sender.send(413, path="/media", files={"file": ("a", b"x" * (MOST_BYTES + (2 << 20)))})
    await sender.send(400, path="/media", files={"file": ("a", b"x" * (MOST_BYTES + 1))})
    await sender.send(413, token=None, data={"access_token": sender.token, "content": "x" * 70_000})


async def test_a_multipart_form_with_its_token_is_small(sender: SourceClient) -> None:
    """Anybody may send one, and parsing it takes eight times as long as any other form."""
    parts: dict[str, Any] = {"access_token": (None, sender.token), "h": (None, "entry"), "content": (None, "Small")}
    await sender.send(token=None, files=parts)
    await sender.send(413, token=None, files={**parts, "content": (None, "x" * 9_000)})
    await sender.send(files={"h": (None, "entry"), "content": (None, "x" * 9_000)})


def test_an_update_with_thousands_of_values_takes_no_long_time() -> None:
    """Comparing each value with each took more than a second, which blocked the server."""
    item = checked("entry", {"category": [f"tag {number}" for number in range(1_900)]})
    values = [f"other {number}" for number in range(19_000)]
    started = time.process_time()
    with pytest.raises(InvalidRequest, match="too large"):
        updated(item, {"add": {"category": values}})
    kept = updated(item, {"delete": {"category": [*values, "tag 7"]}})
    assert time.process_time() - started < 0.5
    assert len(kept.properties["category"]) == 1_899


async def test_scripts_and_addresses_that_run_are_cleaned(sender: SourceClient, alice: Reader) -> None:
    """They are removed from all properties, as for any publisher."""
    bad = "javascript:alert(1)"
    post = {
        "content": [{"html": f'<p onclick="x()">a</p><a href="{bad}">b</a><iframe src="https://a.example/"></iframe>'}],
        "photo": [bad],
        "url": [bad],
        "author": [{"type": ["h-card"], "properties": {"url": [bad], "photo": [bad], "name": ["<b>x</b>"]}}],
        "in-reply-to": [bad, {"type": ["h-cite"], "properties": {"url": [bad], "content": [{"html": "<script>x"}]}}],
    }
    await sender.post(json={"type": ["h-entry"], "properties": post})
    (item,) = await items(alice)
    shown = json.dumps(item)
    assert "javascript" not in shown
    assert "onclick" not in shown
    assert "<script" not in shown
    assert "iframe" not in shown
    assert item["url"].startswith(BASE)


async def test_rates_are_limited(sender: SourceClient, server: World) -> None:
    """120 posting requests per minute for each source; guessed URLs are counted per network."""
    statuses = [
        (await server.client.post("/micropub", headers={"Authorization": f"Bearer {sender.token}"})).status_code
        for _ in range(121)
    ]
    assert (statuses[-1], set(statuses[:-1])) == (429, {400})
    guesses = [(await server.client.get(f"/media/alice.{'x' * 22}")).status_code for _ in range(31)]
    assert (guesses[0], guesses[-1]) == (404, 429)


async def test_slow_strangers_take_no_room_from_the_user(sender: SourceClient, server: World) -> None:
    """Large files that are being sent count for the network that reads them."""
    data = JPEG + b"1" * SENT_UNIT
    reply = await sender.send(path="/media", files={"file": ("a.jpg", data, "image/jpeg")})
    address, network = reply.headers["location"], network_of("8.8.8.8")

    async def status(client: str) -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(server.app, client=(client, 1))) as stranger:
            return (await stranger.get(address)).status_code

    for name, statuses in (("alice", (200, 200)), (f"network {network}", (429, 200))):
        leave = until_sent(name, UNITS_SENT_OF_USER.most * SENT_UNIT)
        assert leave is not None
        assert (await status("8.8.8.8"), await status("9.9.9.9")) == statuses
        leave()


async def test_bytes_posted_in_an_hour_are_limited(
    sender: SourceClient, server: World, bob: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit covers all sources of the user, and edits. Refused requests and other users' posts don't count."""
    monkeypatch.setattr(api, "POSTED_BYTES_OF_USER", POSTED_BYTES_OF_USER._replace(most=10_000))
    address = await sender.note("x" * 6_000)
    second, other = await source_of(server, "alice", name="Second"), await source_of(server, "bob")
    assert "an hour" in (await second.send(429, data={"content": "y" * 6_000})).text
    await sender.send(429, json={"action": "update", "url": address, "add": {"content": ["y" * 6_000]}})
    await other.note("y" * 6_000)
    await second.note("short")
    await sender.send(204, data={"action": "delete", "url": address})


async def test_pages_of_one_users_posts_take_one_thread(
    sender: SourceClient, alice: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many long posts at once kept requests of others waiting for a thread for half a second each."""
    address = await sender.note("x")
    held = HeldWork(api.write_post)
    monkeypatch.setattr(api, "write_post", held)
    opened = [asyncio.create_task(sender.server.client.get(address)) for _ in range(4)]
    await asyncio.to_thread(held.begun.wait, 30)
    await items(alice)
    held.go_on.set()
    assert [page.status_code for page in await asyncio.gather(*opened)] == [200] * 4
    assert (held.calls, held.together) == (4, 1)
