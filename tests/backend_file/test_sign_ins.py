"""Sign-ins of feeds in backend.json: credentials that only the file has in the clear."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from microsub.base.urls import sign_in_of
from microsub.configuration.document import examine
from microsub.feeds import FeedRecord
from microsub.model.reader import Subscription
from microsub.model.settings import FollowSettings
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.timelines import ReadState
from tests.reader.test_sign_in import PASSWORDS, basic, feed_for, members_only, open_to_all
from tests.support.configured import NOW, Configured
from tests.support.invariants import all_keys
from tests.support.reader import Reader
from tests.support.web import Answer, Asked, Publisher, publisher, redirect_reply
from tests.support.world import World, loopback

ANN = {"user_name": "ann", "password": "${MEMBERS}"}
SECRETS = [PASSWORDS["ann"], basic("ann", PASSWORDS["ann"])[6:], "third-secret"]


@pytest.fixture
async def configured(real_redis: Redis, tmp_path: Path) -> AsyncIterator[Configured]:
    made = Configured(
        real_redis,
        tmp_path / "backend.json",
        write_back=True,
        environ={"MEMBERS": PASSWORDS["ann"]},
        resolver=loopback,
        key_file=tmp_path / "key",
    )
    yield made
    await made.fetcher.aclose()


def ann(*feeds: Any, **more: Any) -> dict[str, Any]:
    """A file with one user, whose channel follows these feeds."""
    return {"users": {"ann": {"channels": [{"uid": "home", "name": "Home", "feeds": list(feeds)}], **more}}}


async def follow_of(world: World, uid: str = "home") -> Subscription:
    """Ann's only follow in a channel."""
    (follow,) = await world.channels.subscriptions("ann", uid)
    return follow


async def poll(world: World) -> FeedRecord:
    """Polls Ann's feed, and delivers its posts; its record."""
    await world.poller.poll((await follow_of(world)).feed)
    await world.stages.run_once()
    record = await world.feeds.get((await follow_of(world)).feed)
    assert record is not None
    return record


async def titles(world: World) -> list[str]:
    """The titles of the posts in Ann's channel that are unread."""
    reader = Reader("ann", await world.grant("ann", "read"), world.client)
    items = (await reader.get(action="timeline", channel="home", is_read="false"))["items"]
    return sorted(item["name"] for item in items)


async def test_a_declared_password_is_sent(configured: Configured, site: Publisher) -> None:
    """The feed of that user is read; the file stays as it is, and so it does after other changes are written back."""
    url = site.serve("/feed", members_only)
    await configured.apply(document := ann({"url": url, "sign_in": ANN, "name": "Members"}))
    assert (await poll(configured)).last_error is None
    assert (await follow_of(configured)).name == "Members"
    assert not await configured.configuration.write_back()
    assert configured.saved() == document
    await configured.channels.create("ann", "Later", configured.now, "later")
    assert await configured.configuration.write_back()
    written = configured.saved()
    assert written["users"]["ann"]["channels"][0] == document["users"]["ann"]["channels"][0]
    assert await configured.configuration.look() == "unchanged"


async def test_changes_by_users_stand_beside_it(configured: Configured, site: Publisher) -> None:
    """A name that an app gives the feed comes into its entry, which keeps its variables."""
    url = site.serve("/feed", members_only)
    await configured.apply(ann({"url": url, "sign_in": ANN}))
    feed = (await follow_of(configured)).feed
    await configured.following.change("ann", "home", feed, configured.now, name="Mine")
    assert await configured.configuration.write_back()
    (entry,) = configured.saved()["users"]["ann"]["channels"][0]["feeds"]
    assert entry == {"url": url, "sign_in": ANN, "name": "Mine"}
    assert await configured.configuration.look() == "unchanged"


async def test_no_other_place_has_them(
    configured: Configured, site: Publisher, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither the store, the applied file in it, lists of feeds, nor logs."""
    url = site.serve("/feed", members_only)
    with structlog.testing.capture_logs() as logs:
        said = {**ANN, "headers": ["X-Key: third-secret"]}
        await configured.apply(ann({"url": url, "sign_in": said}))
        await configured.apply(ann({"url": url, "sign_in": {**said, "headers": []}}))
        await poll(configured)
    stored = [await configured.redis.command("DUMP", key) for key in await all_keys(configured.redis)]
    stored.append(json.dumps(str(await configured.redis.command("HGETALL", keys.applied_config()))))
    lists = [await configured.feed_lists.export("ann", NOW, masked=masked) for masked in (True, False)]
    for text in map(str, [*stored, *lists, logs, *capfd.readouterr()]):
        assert not [one for one in SECRETS if one in text], text[:2000]
    assert not [one for one in SECRETS if one in str(await configured.applied.changes())]


async def test_edits_of_a_sign_in(configured: Configured, site: Publisher) -> None:
    """Given, changed, and taken away: the same posts stay read, name and settings stay, and nothing old is kept."""
    url = site.serve("/feed", open_to_all)
    await configured.apply(ann({"url": url, "name": "Mine", "view": "cards"}))
    await poll(configured)
    await ReadState(configured.redis, configured.items).mark_all("ann", "home", NOW)
    first = await follow_of(configured)
    entry = {"url": url, "name": "Mine", "view": "cards"}
    addresses = set()
    for password in ("wrong", "${MEMBERS}"):
        await configured.apply(ann({**entry, "sign_in": {"user_name": "ann", "password": password}}))
        await poll(configured)
        follow = await follow_of(configured)
        named = sign_in_of(follow.url)
        assert named is not None
        assert (named[0], follow.name, follow.settings) == ("ann", "Mine", FollowSettings(view="cards"))
        assert follow.id == first.id
        assert await configured.redis.command("HKEYS", keys.sign_ins("ann")) == [named[1].encode()]
        addresses.add(follow.url)
    assert len(addresses) == 2
    assert await titles(configured) == ["for-ann"]
    await configured.apply(ann(entry))
    assert (await follow_of(configured)).feed == first.feed
    assert await configured.redis.command("HLEN", keys.sign_ins("ann")) == 0


async def test_a_feed_that_is_removed_takes_its_sign_in_along(configured: Configured, site: Publisher) -> None:
    """Also if it is the file's only feed."""
    url = site.serve("/feed", members_only)
    await configured.apply(ann({"url": url, "sign_in": ANN}))
    assert await configured.redis.command("HLEN", keys.sign_ins("ann")) == 1
    await configured.apply(ann())
    assert await configured.redis.command("HLEN", keys.sign_ins("ann")) == 0
    assert await configured.channels.subscriptions("ann", "home") == []


async def test_a_changed_variable_counts(configured: Configured, site: Publisher) -> None:
    """After a start with another password, the feed is asked for with that one."""
    url = site.serve("/feed", members_only)
    await configured.apply(ann({"url": url, "sign_in": {**ANN, "password": "${MEMBERS}"}}))
    configured.environ = {"MEMBERS": "another"}
    assert await configured.server().look() == "applied"
    assert (await poll(configured)).last_error == "http: the server answered 401"
    configured.environ = {"MEMBERS": PASSWORDS["ann"]}
    assert await configured.server().look() == "applied"
    assert (await poll(configured)).last_error is None


async def test_an_edit_in_one_channel_leaves_the_other(configured: Configured, site: Publisher) -> None:
    """The same feed may be followed with credentials in one channel and without them in another one."""
    url = site.serve("/feed", open_to_all)

    def document(entry: Any) -> Any:
        uids = {"home": entry, "later": url}
        return {"users": {"ann": {"channels": [{"uid": uid, "feeds": [feed]} for uid, feed in uids.items()]}}}

    await configured.apply(document(url))
    await configured.apply(document({"url": url, "sign_in": ANN}))
    urls = [(await follow_of(configured, uid)).url for uid in ("home", "later")]
    assert [sign_in_of(one) is not None for one in urls] == [True, False]


async def test_what_an_app_changed_later_wins(configured: Configured, site: Publisher) -> None:
    """A user who signs in on the feed's page has that in the file; the declared password leaves it."""
    url = site.serve("/feed", members_only)
    await configured.apply(ann({"url": url, "sign_in": ANN}))
    feed = (await follow_of(configured)).feed
    await configured.signed.give("ann", feed, {"x-key": "other"}, configured.now)
    own = (await follow_of(configured)).url
    assert await configured.configuration.write_back()
    (entry,) = configured.saved()["users"]["ann"]["channels"][0]["feeds"]
    assert entry == own
    feed = (await follow_of(configured)).feed
    await configured.apply(ann({"url": url, "sign_in": ANN}))
    assert (await follow_of(configured)).url not in {own, url}


async def test_both_change_the_sign_in_at_once(configured: Configured, site: Publisher) -> None:
    """The later one wins; the user follows the feed once."""
    url = site.serve("/feed", members_only)
    await configured.apply(ann(url), at=NOW - 100)
    await configured.signed.give("ann", (await follow_of(configured)).feed, {"x-key": "own"}, configured.now)
    own = (await follow_of(configured)).url
    with structlog.testing.capture_logs() as logs:
        await configured.apply(ann({"url": url, "sign_in": ANN}), at=NOW - 50)
    assert (await follow_of(configured)).url == own
    assert [one for one in logs if "sign-in of" in str(one.get("conflict"))]


async def test_they_stay_at_their_origin(configured: Configured, site: Publisher) -> None:
    """A redirect to another host or port is followed without them."""
    async with publisher() as other:
        seen: list[Asked] = []

        def elsewhere(asked: Asked) -> Answer:
            seen.append(asked)
            return Answer(feed_for("everybody"), headers=[("Content-Type", "application/rss+xml")])

        other.serve("/stolen", elsewhere)
        site.serve("/stolen", elsewhere)
        said = {**ANN, "headers": ["Cookie: session=1", "X-Key: k"]}
        for target in (other.url("/stolen"), site.url("/stolen", "another.test")):
            site.serve("/there", redirect_reply(target))
            await configured.apply(ann({"url": site.url("/there"), "sign_in": said}))
            await poll(configured)
            await configured.apply(ann())
    assert len(seen) == 2
    assert not [one for one in seen if {"authorization", "cookie", "x-key"} & one.headers.keys()]
    assert {one.headers.get("cookie") for one in site.to("/there")} == {"session=1"}


async def test_settings_of_the_feed_hold_with_a_sign_in(configured: Configured, site: Publisher) -> None:
    """The User-Agent that the file gives the feed's address is sent for the user's own feed, too."""
    url = site.serve("/feed", members_only)
    document = ann({"url": url, "sign_in": ANN})
    await configured.apply({**document, "settings": {"feeds": {url: {"user_agent": "browser"}}}})
    await poll(configured)
    (asked,) = site.to("/feed")
    assert asked.headers["user-agent"].startswith("Mozilla/5.0")
    assert "authorization" in asked.headers


async def test_data_that_redis_lost(configured: Configured, site: Publisher) -> None:
    """The file has everything to sign in again."""
    url = site.serve("/feed", members_only)
    await configured.apply(ann({"url": url, "sign_in": ANN}))
    await configured.configuration.watch_data()
    await configured.redis.command("FLUSHDB")
    await configured.configuration.watch_data()
    assert (await poll(configured)).last_error is None


async def test_an_unusable_key(configured: Configured, site: Publisher) -> None:
    """The file is refused with the place of the key; once it is usable, the same file is applied."""
    configured.key_file.write_text("nothing")
    configured.save(ann({"url": site.serve("/feed", members_only), "sign_in": ANN}))
    assert await configured.configuration.look() == "invalid"
    (problem,) = configured.configuration.status.problems
    assert (
        str(problem) == f"{configured.key_file}: found something else, expected a key of 43 characters, readable here"
    )
    configured.key_file.unlink()
    assert await configured.configuration.look() == "applied"


async def test_an_old_buffer_changes_no_sign_in(configured: Configured, site: Publisher) -> None:
    """An editor that read the file before an app changed it saves a further feed: the sign-in is no edit."""
    url = site.serve("/feed", members_only)
    await configured.apply(ann({"url": url, "sign_in": ANN}))
    await configured.channels.create("ann", "App", configured.now, uid="app")
    assert await configured.configuration.write_back()
    buffer = configured.saved()
    await configured.channels.create("ann", "Later", configured.now, uid="later")
    assert await configured.configuration.write_back()
    before = (await follow_of(configured)).url
    buffer["users"]["ann"]["channels"][0]["feeds"].append("https://b.example/feed")
    configured.save(buffer)
    with structlog.testing.capture_logs() as logs:
        assert await configured.configuration.look() == "applied"
    assert [one for one in logs if "older version" in str(one["event"])]
    assert not [one for one in logs if "sign-in" in str(one)]
    urls = [one.url for one in await configured.channels.subscriptions("ann", "home")]
    assert sorted(urls) == sorted([before, "https://b.example/feed"])
    assert "later" in {one.uid for one in await configured.channels.list("ann")}


async def test_a_new_key_needs_nothing(configured: Configured, site: Publisher) -> None:
    """After a restore without the key, the next start seals what the file declares with the new one."""
    await configured.apply(ann({"url": site.serve("/feed", members_only), "sign_in": ANN, "name": "Mine"}))
    former = (await follow_of(configured)).url
    configured.key_file.unlink()
    assert (await poll(configured)).last_error is not None
    assert await configured.server().look() == "applied"
    assert (await poll(configured)).last_error is None
    follow = await follow_of(configured)
    assert (follow.url != former, follow.name) == (True, "Mine")
    assert await configured.redis.command("HLEN", keys.sign_ins("ann")) == 1


FIRST = "users.ann.channels[0].feeds[0].sign_in"
MISTAKES: list[tuple[Any, str, str, str]] = [
    ("secret-1", FIRST, "a value that isn't shown", "an object"),
    ({}, FIRST, "no credentials", "a user_name and a password, or headers"),
    ({"user_name": "a:b", "password": "secret-1"}, f"{FIRST}.user_name", "a value that isn't shown", "without a colon"),
    ({"user_name": "a", "password": 5}, f"{FIRST}.password", "a value that isn't shown", "text"),
    ({"user_name": "a", "password": "secret-1\n"}, f"{FIRST}.password", "a value that isn't shown", "printable text"),
    ({"user_name": "a", "password": "secret-1" * 1250}, f"{FIRST}.password", "of 10000 characters", "at most 255"),
    ({"headers": "X-Key: secret-1"}, f"{FIRST}.headers", "a value that isn't shown", "a list"),
    ({"headers": ["secret-1"]}, f"{FIRST}.headers[0]", "a value that isn't shown", "one `Name: value`"),
    ({"headers": ["Host: secret-1"]}, f"{FIRST}.headers[0]", "a value that isn't shown", "doesn't set itself"),
    ({"headers": ["A: b\nC: secret-1"]}, f"{FIRST}.headers[0]", "a value that isn't shown", "one `Name: value`"),
    ({"headers": ["A: secret-1", "a: secret-1"]}, FIRST, "can't be sent together", "each header once"),
    ({"headers": [f"A{n}: secret-1" for n in range(11)]}, FIRST, "can't be sent together", "at most 10"),
    ({"headers": ["A: b", "B: secret-1\u202e"]}, f"{FIRST}.headers[1]", "a value that isn't shown", "in ASCII"),
    ({"pasword": "secret-1"}, f"{FIRST}.pasword", "the unknown key 'pasword'", "did you mean 'password'?"),
    ({"cookies": "secret-1", "password": "p"}, f"{FIRST}.cookies", "the unknown key 'cookies'", "one of user_name"),
    ({"password": "${NOBODY}"}, f"{FIRST}.password", "'${NOBODY}', which isn't set", "an environment variable"),
]


@pytest.mark.parametrize(("sign_in", "path", "found", "expected"), MISTAKES)
def test_mistakes_are_explained_without_secrets(sign_in: Any, path: str, found: str, expected: str) -> None:
    """With the key, what was found and what was expected."""
    report = examine(json.dumps(ann({"url": "https://a.example/", "sign_in": sign_in})).encode(), "b.json", {})
    told = " ".join(map(str, report.problems))
    assert {one.path for one in report.problems} - {path} <= ({FIRST} if "unknown" in found else set())
    problem = next(one for one in report.problems if one.path == path)
    assert found in problem.found
    assert expected in problem.expected
    assert "secret-1" not in told + " ".join(report.warnings)


def test_credentials_twice() -> None:
    """In the address and beside it."""
    entry = {"url": "https://a:b@a.example/", "sign_in": {"password": "c"}}
    report = examine(json.dumps(ann(entry)).encode(), "b.json", {})
    assert [one.found for one in report.problems] == ["credentials besides those in the URL"]


@pytest.mark.parametrize(
    "line",
    [
        '"password": "secret-1"secret-1',
        '"password": "abc\\secret-1"',
        '"password": "ab"secret-1"',
        '"X-Key: abc" "X-Other: secret-1"',
        '"https://ann:"secret-1@members.example/feed"',
        '{password: "secret-1"}',
        "{'password': 'secret-1'}",
        '{"sign_in": {"password":\nsecret-1}}',
        '{"sign_in": {"user_name": "${NAME}", "headers": ["X-Key: abc",\n"X-Other:"secret-1"]}}',
        '{"sign_in": {"headers": [\nsecret-1]}}',
        '"pasword": "secret-1"secret-1',
        '"token": secret-1',
        '{"sign_in": {"password": "${A}"},\n"key" secret-1}',
        '"note": 5secret-1',
    ],
)
def test_broken_json_shows_no_secret(line: str) -> None:
    """The error has line and column; the text there may be a part of a password."""
    report = examine(f'{{"users":\n{line}\n}}'.encode(), "b.json", {})
    (problem,) = report.problems
    assert "secret" not in str(problem)
    assert problem.line == 2 + line.count("\n")


async def test_a_changed_address_replaces_that_in_the_entry(configured: Configured) -> None:
    """With the settings of the entry; another edit of the file finds the feed there."""
    former, url = "https://blog.example/feed", "https://blog.example/new"
    await configured.apply(ann({"url": former, "name": "Mine", "view": "cards"}))
    feed = (await follow_of(configured)).feed
    await configured.following.change_address("ann", feed, url, configured.now)
    assert await configured.configuration.write_back()
    entry = {"url": url, "name": "Mine", "view": "cards"}
    assert configured.saved()["users"]["ann"]["channels"][0]["feeds"] == [entry]
    assert await configured.configuration.look() == "unchanged"
    await configured.apply(ann(entry))
    assert (await follow_of(configured)).url == url
