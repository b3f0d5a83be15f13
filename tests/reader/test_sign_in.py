"""Credentials of a feed: given on its page, sealed, sent only to its origin, and to nobody else's feed."""

from __future__ import annotations

import asyncio
import base64
import itertools
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import httpx
import pytest

from microsub.base.clock import DAY
from microsub.base.errors import InvalidRequest, QuotaReached
from microsub.base.urls import sign_in_of
from microsub.feeds import FeedRecord
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.timelines import new_in_a_day
from tests.reader.conftest import ADDRESS, ReadingVisitor
from tests.support.invariants import all_keys
from tests.support.readers import instance
from tests.support.redis_wrappers import Between, Killing, killed_anywhere
from tests.support.visitor import Shown, Visitor, begin_session
from tests.support.web import Answer, Asked, Publisher, publisher, redirect_reply
from tests.support.world import World, loopback

PASSWORDS = {"ann": "first-secret", "bob": "second-secret"}


def basic(name: str, password: str) -> str:
    """The header of a user name and a password."""
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def feed_for(name: str) -> bytes:
    """A member's feed: one post that all have, and one of their own."""
    items = "".join(
        f"<item><guid isPermaLink='false'>{one}</guid><title>{one}</title><description>Text</description>"
        f"<link>http://paid.test/{one}</link><pubDate>Tue, 14 Nov 2023 20:00:00 GMT</pubDate></item>"
        for one in ("common", f"for-{name}")
    )
    return f"<rss version='2.0'><channel><title>Members</title>{items}</channel></rss>".encode()


def members_only(asked: Asked) -> Answer:
    """The feed of the member who signs in; 401 for others."""
    found = [name for name, secret in PASSWORDS.items() if asked.headers.get("authorization") == basic(name, secret)]
    if not found:
        return Answer(b"who are you?", 401)
    return Answer(feed_for(found[0]), headers=[("Content-Type", "application/rss+xml")])


def open_to_all(asked: Asked) -> Answer:
    """An excerpt for everybody, all posts for members."""
    whole = members_only(asked)
    if whole.status == 401:
        return Answer(feed_for("everybody"), headers=[("Content-Type", "application/rss+xml")])
    return whole


@pytest.fixture
async def server(real_redis: Redis) -> AsyncIterator[World]:
    """The application over empty stores, in whose world all hosts are on loopback."""
    async with instance(real_redis, base_url=ADDRESS, resolver=loopback) as made:
        yield made


async def visitor(server: World, name: str, url: str) -> ReadingVisitor:
    """A user who follows the feed in `home`."""
    reader = await server.reader(name, "home", "later")
    await server.following.follow(name, "home", url, server.now)
    browser = Visitor(server.app, ADDRESS)
    await begin_session(browser, server, name)
    return ReadingVisitor(server, browser, reader)


async def own_feed(server: World, name: str, uid: str = "home") -> FeedRecord:
    """The record of the only feed of a channel."""
    (follow,) = await server.channels.subscriptions(name, uid)
    record = await server.feeds.get(follow.feed)
    assert record is not None
    return record


async def sign_in(who: ReadingVisitor, name: str, **fields: str) -> Shown:
    """Sends the form with the feed's credentials."""
    record = await own_feed(who.server, name)
    page = await who.get(f"/feed/{record.id}/settings?channel=home")
    empty = {"user_name": "", "password": "", "headers": ""}
    return await who.browser.submit(page, f"/feed/{record.id}/sign-in", **empty | fields)


async def poll(server: World, name: str) -> FeedRecord:
    """Polls the feed of that user's channel, and delivers its posts; its record."""
    await server.poller.poll((await own_feed(server, name)).id)
    await server.stages.run_once()
    return await own_feed(server, name)


async def page_of(who: ReadingVisitor, name: str) -> Shown:
    """The page of the user's feed."""
    return await who.get(f"/feed/{(await own_feed(who.server, name)).id}/settings?channel=home")


async def test_two_followers_with_different_passwords(server: World, site: Publisher) -> None:
    """Each reads their own posts, on a feed of their own; who gives none reads none."""
    url = site.serve("/feed", members_only)
    people = {name: await visitor(server, name, url) for name in ("ann", "bob", "carol")}
    assert (await poll(server, "ann")).last_error == "http: the server answered 401"
    assert "user name and a password" in (await page_of(people["ann"], "ann")).text
    for name, secret in PASSWORDS.items():
        reply = await sign_in(people[name], name, user_name=name, password=secret)
        assert (reply.status, reply.location is not None and reply.location.endswith("done=yes")) == (303, True)
        assert (await poll(server, name)).last_error is None
    await poll(server, "carol")
    assert len({(await own_feed(server, name)).id for name in people}) == 3
    assert [sorted(await who.titles("/channel/home")) for who in people.values()] == [
        ["common", "for-ann"],
        ["common", "for-bob"],
        [],
    ]


async def test_nothing_shows_what_was_given(server: World, site: Publisher, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither pages, APIs, lists, exports, logs nor the store; nor the id by which the feed's address names it."""
    ann = await visitor(server, "ann", site.serve("/feed", members_only))
    await sign_in(ann, "ann", user_name="ann", password=PASSWORDS["ann"], headers="X-Key: third-secret")
    record = await poll(server, "ann")
    named = sign_in_of(record.url)
    assert named is not None
    assert named[0] == "ann"
    secrets = [PASSWORDS["ann"], basic("ann", PASSWORDS["ann"])[6:], "third-secret"]
    paths = ["/feed", f"/feed/{record.id}/settings", "/channels/home", "/channel/home", "/settings", "/feeds"]
    shown = [(await ann.get(path)).text for path in paths]
    shown += [str(await ann.reader.get(action="follow", channel="home")), str(await ann.reader.get(action="channels"))]
    shown += [str(await ann.reader.get(action="timeline", channel="home"))]
    for masked in (True, False):
        shown.append((await server.feed_lists.export("ann", server.now, masked=masked)).decode())
    shown += capfd.readouterr()
    for text in shown:
        assert not [one for one in [*secrets, named[1]] if one in text], text[:2000]
    stored = str([await server.redis.command("DUMP", key) for key in await all_keys(server.redis)])
    assert not [one for one in secrets if one in stored]
    assert (server.key_file.stat().st_mode & 0o777, len(server.key_file.read_text())) == (0o600, 44)


async def test_another_user_cant_use_them(server: World, site: Publisher) -> None:
    """Even with the feed's address, which nobody is shown: no follow, no search, no preview."""
    ann, bob = [await visitor(server, name, site.serve("/feed", members_only)) for name in ("ann", "bob")]
    await sign_in(ann, "ann", user_name="ann", password=PASSWORDS["ann"])
    url = (await poll(server, "ann")).url
    for written in (url, f"feed:{url}"):
        with pytest.raises(InvalidRequest, match="another user"):
            await server.following.follow("bob", "home", written, server.now)
    site.asked.clear()
    await bob.reader.post(action="search", query=url)
    await bob.get(f"/follow?q={url}")
    assert not [one for one in site.asked if "authorization" in one.headers]
    assert (await own_feed(server, "bob")).url != url
    feed = (await own_feed(server, "ann")).id
    assert (await bob.get(f"/feed/{feed}/settings")).status == 404
    assert (await bob.get(f"/feed/{feed}")).text.count("for-ann") == 0


async def test_a_publisher_leads_nobody_to_them(server: World, site: Publisher) -> None:
    """A feed that moves to the address, or a page that names it, shows its followers none of the posts."""
    ann = await visitor(server, "ann", site.serve("/feed", open_to_all))
    await sign_in(ann, "ann", user_name="ann", password=PASSWORDS["ann"])
    url = (await poll(server, "ann")).url
    page = f"<link rel='alternate' type='application/rss+xml' href='{url}'><p>A page</p>"
    site.serve("/moved", redirect_reply(url, 301))
    site.serve("/page", lambda _: Answer(page.encode(), headers=[("Content-Type", "text/html")]))
    for name, path in (("bob", "/moved"), ("carol", "/page")):
        other = await visitor(server, name, site.url(path))
        for _ in range(3):
            record = await poll(server, name)
            server.now += 86_400 * 3
        assert record.url == site.url("/feed")
        assert sorted(await other.titles("/channel/home?show=all")) == ["common", "for-everybody"]


async def test_they_stay_at_their_origin(server: World, site: Publisher) -> None:
    """A redirect to another host or port is followed without them, one to another path with them."""
    async with publisher() as other:
        seen: list[Asked] = []

        def elsewhere(asked: Asked) -> Answer:
            seen.append(asked)
            return Answer(feed_for("everybody"), headers=[("Content-Type", "application/rss+xml")])

        other.serve("/stolen", elsewhere)
        site.serve("/stolen", elsewhere)
        site.serve("/here", redirect_reply("/feed"))
        site.serve("/feed", members_only)
        for target in (other.url("/stolen"), site.url("/stolen", "another.test")):
            site.serve("/there", redirect_reply(target))
            user = f"ann{len(seen)}"
            ann = await visitor(server, user, site.url("/there"))
            await sign_in(ann, user, headers="Authorization: Bearer abc\nCookie: session=1\nX-Key: k")
            await poll(server, user)
        assert len(seen) == 2
        assert not [one for one in seen if {"authorization", "cookie", "x-key"} & one.headers.keys()]
        assert {one.headers.get("cookie") for one in site.to("/there")} == {"session=1"}
        ann = await visitor(server, "ann", site.url("/here"))
        await sign_in(ann, "ann", user_name="ann", password=PASSWORDS["ann"])
        assert (await poll(server, "ann")).last_error is None


async def test_a_feed_that_moves(server: World, site: Publisher) -> None:
    """At its origin it keeps its credentials; they don't follow it elsewhere."""
    site.serve("/old", redirect_reply("/feed", 301))
    site.serve("/feed", members_only)
    ann = await visitor(server, "ann", site.url("/old"))
    await sign_in(ann, "ann", user_name="ann", password=PASSWORDS["ann"])
    for _ in range(3):
        record = await poll(server, "ann")
        server.now += 86_400 * 3
    assert (re.sub(r"//.*@", "//", record.url), record.last_error) == (site.url("/feed"), None)
    assert sign_in_of(record.url) is not None
    site.serve("/feed", redirect_reply(site.url("/public", "another.test"), 301))
    site.serve("/public", open_to_all)
    for _ in range(3):
        record = await poll(server, "ann")
        server.now += 86_400 * 3
    assert record.url == site.url("/public", "another.test")
    assert not [one for one in site.to("/public") if "authorization" in one.headers]


async def test_another_address_of_a_feed(server: World, site: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its origin it keeps its credentials; they don't follow it elsewhere; an undo brings them back."""
    ann = await visitor(server, "ann", site.serve("/feed", members_only))
    await sign_in(ann, "ann", user_name="ann", password=PASSWORDS["ann"])
    monkeypatch.setattr(server.web, "fetch", server.fetcher.fetch)
    site.serve("/new", members_only)
    site.serve("/public", open_to_all)
    signed = await own_feed(server, "ann")
    for url in (site.url("/new"), site.url("/public", "another.test")):
        former, page = await own_feed(server, "ann"), await page_of(ann, "ann")
        changed = await ann.browser.submit(page, f"/feed/{former.id}/address#address", url=url)
        assert changed.status == 303, changed.text
        record = await poll(server, "ann")
        assert (re.sub(r"//.*@", "//", record.url), record.last_error) == (url, None)
    assert sign_in_of(former.url) == sign_in_of(signed.url)
    assert sign_in_of(record.url) is None
    assert not [one for one in site.to("/public") if "authorization" in one.headers]
    undo = (page := await ann.get(changed.location)).form("/feed/chosen/undo").css_first("button").attributes["value"]
    await ann.browser.submit(page, "/feed/chosen/undo", undo=undo)
    assert (await poll(server, "ann")).url == former.url
    assert await server.signed.state(await own_feed(server, "ann")) == "given"
    given = url.replace("//", "//bob:second-secret@")
    shown = await ann.browser.submit(await page_of(ann, "ann"), f"/feed/{former.id}/address#address", url=given)
    assert PASSWORDS["bob"] not in shown.location + (await ann.get(shown.location)).text
    assert (await poll(server, "ann")).title == "Members"
    assert sign_in_of((await own_feed(server, "ann")).url) not in {None, sign_in_of(signed.url)}
    stored = str([await server.redis.command("DUMP", key) for key in await all_keys(server.redis)])
    assert PASSWORDS["bob"] not in stored


async def test_read_posts_stay_read(server: World, site: Publisher) -> None:
    """Signing in and out again replaces the same posts; settings and name of the follow stay."""
    url = site.serve("/feed", open_to_all)
    ann = await visitor(server, "ann", url)
    await visitor(server, "bob", url)
    common = (await poll(server, "ann")).id
    await ann.mark_all(await ann.get("/channel/home"))
    (before,) = await server.channels.subscriptions("ann", "home")
    await server.following.change("ann", "home", common, server.now, name="Mine")
    await sign_in(ann, "ann", user_name="ann", password=PASSWORDS["ann"])
    own = (await poll(server, "ann")).id
    assert own != common
    shown = sorted(await ann.titles("/channel/home?show=all"))
    assert shown == ["common", "for-ann", "for-everybody"]
    assert "common" not in await ann.titles("/channel/home")
    (after,) = await server.channels.subscriptions("ann", "home")
    assert (after.name, after.id) == ("Mine", before.id)
    page = await page_of(ann, "ann")
    await ann.browser.submit(page, f"/feed/{own}/sign-in", end="yes")
    assert (await own_feed(server, "ann")).id == common
    assert await server.redis.command("HLEN", keys.sign_ins("ann")) == 0
    assert sorted(await ann.titles("/channel/home?show=all")) == ["common", "for-ann", "for-everybody"]
    assert {user for user, _ in await server.feeds.subscribers(common)} == {"ann", "bob"}
    assert not await server.feeds.subscribers(own)


async def test_a_wrong_password(server: World, site: Publisher) -> None:
    """The page says that it was refused; the right one makes the feed work."""
    ann = await visitor(server, "ann", site.serve("/feed", members_only))
    await sign_in(ann, "ann", user_name="ann", password="wrong")
    await poll(server, "ann")
    assert "were refused" in (await page_of(ann, "ann")).text
    await sign_in(ann, "ann", user_name="ann", password=PASSWORDS["ann"])
    assert (await poll(server, "ann")).last_error is None


async def test_a_lost_key(server: World, site: Publisher) -> None:
    """The feed isn't asked for, its page says what to do, and the password given again works with a new key."""
    ann = await visitor(server, "ann", site.serve("/feed", members_only))
    await sign_in(ann, "ann", user_name="ann", password=PASSWORDS["ann"])
    await poll(server, "ann")
    server.key_file.unlink()
    site.asked.clear()
    record = await poll(server, "ann")
    assert (record.last_error, site.asked) == (
        "sign_in: what this server signs in with can't be read any more; give it again",
        [],
    )
    page = await page_of(ann, "ann")
    assert "can’t be read any more" in page.text
    await sign_in(ann, "ann", user_name="ann", password=PASSWORDS["ann"])
    assert (await poll(server, "ann")).last_error is None


async def test_an_unusable_key(server: World, site: Publisher) -> None:
    """The same: neither the poll nor the page fails in another way."""
    ann = await visitor(server, "ann", site.serve("/feed", members_only))
    await sign_in(ann, "ann", user_name="ann", password=PASSWORDS["ann"])
    server.key_file.write_text("no key")
    assert (await poll(server, "ann")).last_error == (
        "sign_in: what this server signs in with can't be read any more; give it again"
    )
    assert "can’t be read any more" in (await page_of(ann, "ann")).text


async def test_refused_sign_ins_take_no_room(server: World, site: Publisher) -> None:
    """Who has followed too many feeds today can't fill the store with them."""
    await visitor(server, "ann", site.serve("/feed", members_only))
    await server.channels.followed_on("ann", server.now, new_in_a_day(5))
    feed = (await own_feed(server, "ann")).id
    for number in range(3):
        with pytest.raises(QuotaReached):
            await server.signed.give("ann", feed, {"x-key": str(number)}, server.now, most=5)
    assert not await server.redis.command("EXISTS", keys.sign_ins("ann"))


async def test_no_quota_keeps_a_sign_in(server: World, site: Publisher) -> None:
    """A user who can't follow another feed today can still take the credentials back."""
    await visitor(server, "ann", site.serve("/feed", members_only))
    common = await own_feed(server, "ann")
    signed = await server.signed.give("ann", common.id, {"x-key": "1"}, server.now)
    await server.channels.followed_on("ann", server.now, 3 * 10_000)
    headers = {"authorization": f"Bearer {await server.grant('ann', 'read follow')}"}
    form = {"action": "follow", "method": "sign_in", "channel": "home", "url": signed.url, "end": "1"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(server.app), base_url=ADDRESS) as app:
        reply = await app.post("/microsub", data=form, headers=headers)
    assert reply.status_code == 200
    assert (await own_feed(server, "ann")).id == common.id


async def test_another_process_reads_them(server: World, site: Publisher) -> None:
    """One that starts later, with the same key."""
    ann = await visitor(server, "ann", site.serve("/feed", members_only))
    await sign_in(ann, "ann", user_name="ann", password=PASSWORDS["ann"])
    again = replace(server)
    assert (await poll(again, "ann")).last_error is None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "Give a user name"),
        ({"headers": "Host: evil.example"}, "“host” can’t be set"),
        ({"headers": "Content-Length: 5"}, "“content-length” can’t be set"),
        ({"headers": "Transfer-Encoding: chunked"}, "“transfer-encoding” can’t be set"),
        ({"headers": "If-None-Match: x"}, "“if-none-match” can’t be set"),
        ({"headers": "Proxy-Authorization: x"}, "“proxy-authorization” can’t be set"),
        ({"headers": "User-Agent: x"}, "“user-agent” can’t be set"),
        ({"headers": "X-A: ok\x00no"}, "“x-a” can’t be sent"),
        ({"headers": "X-A: ok\rX-B: no"}, "“x-a” can’t be sent"),
        ({"headers": "X-A: blåbær"}, "“x-a” can’t be sent"),
        ({"headers": "X-A:"}, "“x-a” can’t be sent"),
        ({"headers": "no colon"}, "can’t be used"),
        ({"headers": "Hunter2"}, "can’t be used"),
        ({"headers": "X A: b"}, "can’t be used"),
        ({"headers": "X-A: 1\nx-a: 2"}, "“x-a” is given twice"),
        ({"headers": "Authorization: x", "user_name": "ann"}, "“authorization” is given twice"),
        ({"headers": "\n".join(f"X-{n}: 1" for n in range(11))}, "too many headers"),
        ({"headers": "X-A: " + "a" * 4096}, "too many headers"),
        ({"user_name": "a:b", "password": "c"}, "has a character"),
        ({"user_name": "ann", "password": "a\nb"}, "has a character"),
        ({"user_name": "ann", "password": "a" * 256}, "is too long"),
    ],
)
async def test_what_cant_be_sent(server: World, site: Publisher, fields: dict[str, str], said: str) -> None:
    """The page says why, doesn't show it again, and nothing changes."""
    ann = await visitor(server, "ann", site.serve("/feed", members_only))
    before = await own_feed(server, "ann")
    refused = await sign_in(ann, "ann", **fields)
    assert refused.status == 400
    assert re.search(said, refused.tree.css_first("[role=alert]").text())
    assert (await own_feed(server, "ann")).id == before.id
    assert not await server.redis.command("EXISTS", keys.sign_ins("ann"))
    assert refused.tree.css_first("#headers").text() == ""
    assert "hunter2" not in refused.text.lower()


async def test_killed_while_a_follower_is_split_off(real_redis: Redis, site: Publisher) -> None:
    """Whatever the moment, the same form again ends it: one follow, one follower, in both channels."""
    url = site.serve("/feed", open_to_all)
    killing = Killing(real_redis)
    made: dict[str, Any] = {}

    async def prepare() -> None:
        server = made["server"] = await stack.enter_async_context(
            instance(killing, base_url=ADDRESS, resolver=loopback)
        )
        await server.reader("ann", "home", "later")
        for uid in ("home", "later"):
            await server.following.follow("ann", uid, url, server.now)
        made["feed"] = (await own_feed(server, "ann")).id
        server.key_file.write_text("k" * 43)

    async def act() -> None:
        server = made["server"]
        follows = await server.channels.all_subscriptions("ann")
        assert [len(follows[uid]) for uid in ("home", "later")] == [1, 1]  # never both, never none
        for feed in {one.feed for some in follows.values() for one in some}:
            await server.signed.give("ann", feed, {"cookie": "a=b"}, server.now)

    async def state() -> object:
        server = made["server"]
        await server.follow_repair.run(server.now)
        follows = await server.channels.all_subscriptions("ann")
        feeds = {one.feed for some in follows.values() for one in some}
        followers = [await server.feeds.subscribers(feed) for feed in sorted(feeds)]
        old = await server.feeds.subscribers(made["feed"])
        found = {uid: [one.url for one in some] for uid, some in follows.items()}
        return found, [sorted(one) for one in followers], sorted(old), await server.channels.count_feeds("ann")

    async with AsyncExitStack() as stack:
        assert await killed_anywhere(killing, prepare, act, state) > 10


async def test_the_api_signs_in(server: World, site: Publisher) -> None:
    """The reply has the feed, not what was given; with `end` it is the common one again."""
    ann = await visitor(server, "ann", site.serve("/feed", members_only))
    common = await own_feed(server, "ann")
    more = {"user_name": "ann", "password": PASSWORDS["ann"]}
    asked = {"action": "follow", "method": "sign_in", "channel": "home"}
    reply = await ann.reader.post(**asked, url=common.url, **more)
    assert re.sub(r"\*+@", "", reply["url"]) == common.url
    assert (await poll(server, "ann")).last_error is None
    assert (await own_feed(server, "ann")).id != common.id
    await ann.reader.post(**asked, url=reply["url"], end="1")
    assert (await own_feed(server, "ann")).id == common.id


async def test_sign_ins_given_at_once_leave_one_follow(server: World, site: Publisher) -> None:
    """A request whose feed another one has changed meanwhile says so."""
    await visitor(server, "ann", site.serve("/feed", members_only))
    common = await own_feed(server, "ann")
    form = {"action": "follow", "method": "sign_in", "channel": "home", "url": common.url, "user_name": "ann"}
    headers = {"authorization": f"Bearer {await server.grant('ann', 'read follow')}"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(server.app), base_url=ADDRESS) as app:
        every = [app.post("/microsub", data={**form, "password": f"{one}"}, headers=headers) for one in range(20)]
        replies = await asyncio.gather(*every)
    assert {reply.status_code for reply in replies} == {200, 404}
    assert (await own_feed(server, "ann")).id != common.id


async def test_an_undone_unfollow_brings_them_back(server: World, site: Publisher) -> None:
    """Given long ago, also if upkeep runs between the two; forgotten if nobody undoes it."""
    ann = await visitor(server, "ann", site.serve("/feed", members_only))
    await sign_in(ann, "ann", user_name="ann", password=PASSWORDS["ann"])
    server.clock.advance(3 * DAY)
    signed = await own_feed(server, "ann")
    page = await ann.get("/channels/home")
    ended = await ann.browser.submit(page, "/channels/home/end", feed=signed.id)
    await server.follow_repair.run(server.now)
    page = await ann.get(ended.location)
    undo = page.tree.css_first("button[name=undo]").attributes["value"]
    await ann.browser.submit(page, "/channels/home/again", undo=undo)
    assert (await own_feed(server, "ann")).id == signed.id
    assert await server.signed.state(signed) == "given"
    await ann.browser.submit(await ann.get("/channels/home"), "/channels/home/end", feed=signed.id)
    server.clock.advance(2 * DAY)
    await server.follow_repair.run(server.now)
    assert await server.redis.command("HLEN", keys.sign_ins("ann")) == 0


@pytest.mark.parametrize("first", ["give", "remove"])
async def test_a_sign_in_given_while_another_process_removes_it(server: World, site: Publisher, first: str) -> None:
    """Whenever the other process acts, the feed that gets the sign-in keeps it; they are two feeds of one origin."""
    urls, headers = [site.serve(path, members_only) for path in ("/feed", "/other")], {"cookie": "a=b"}
    steps = 0
    while steps < 50:
        await server.redis.command("FLUSHDB")
        await server.reader("ann", "home", "later")
        for uid, url in zip(("home", "later"), urls, strict=True):
            await server.following.follow("ann", uid, url, server.now)
        other = await own_feed(server, "ann", "later")
        signed = await server.signed.give("ann", (await own_feed(server, "ann")).id, headers, server.now)
        acts = {
            "give": lambda world, feed=other.id: world.signed.give("ann", feed, headers, server.now),
            "remove": lambda world, feed=signed.id: world.signed.remove("ann", feed, server.now),
        }
        trips = itertools.count()

        async def before(_name: str, _args: Any) -> None:
            if next(trips) == steps:  # noqa: B023 - called in this round
                await acts["remove" if first == "give" else "give"](server)  # noqa: B023 - called in this round

        await acts[first](server.through(Between(server.redis, before)))
        if next(trips) <= steps:
            break
        found = await server.signed.state(await own_feed(server, "ann", "later"))
        assert found == "given", f"before round trip {steps}"
        steps += 1
    assert 10 < steps < 50


async def test_articles_of_a_signed_in_feed(server: World, site: Publisher) -> None:
    """Pages of the feed's origin are asked for with its credentials, others without."""
    from microsub.articles import PageReader

    ann = await visitor(server, "ann", site.serve("/feed", members_only))
    await sign_in(ann, "ann", user_name="ann", password=PASSWORDS["ann"])
    feed = await own_feed(server, "ann")
    reader = PageReader(server.fetcher, server.parser)
    for host in (None, "another.test"):
        await reader.read(site.url("/article#top", host), "Title", feed.url)
    assert ["authorization" in one.headers for one in site.to("/article")] == [True, False]


async def test_a_filter_of_a_feed_is_tried(server: World, site: Publisher) -> None:
    """The page says how many of the feed's posts it would exclude, and keeps what was typed; nothing is saved."""
    ann = await visitor(server, "ann", site.serve("/feed", open_to_all))
    feed = (await poll(server, "ann")).id
    path = f"/feed/{feed}/settings"
    page = await ann.get(f"{path}?channel=home")
    shown = await ann.browser.submit(page, path, exclude_words="everybody", name="Typed", **{"try": "1"})
    assert shown.status == 200
    assert "1 of the newest 2 posts would be excluded" in shown.text
    assert [one.text() for one in shown.tree.css("[aria-labelledby=trial] li a")] == ["for-everybody"]
    assert shown.tree.css_first("#exclude_words").text() == "everybody"
    assert shown.tree.css_first("#name").attributes["value"] == "Typed"
    (follow,) = await server.channels.subscriptions("ann", "home")
    assert (follow.name, bool(follow.settings)) == (None, False)
