"""Edits of backend.json reach the stores, on a fake and on a real Redis."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from microsub.accounts.foreign import ForeignTokens, Vouched
from microsub.accounts.grants import Codes, Consent, Grants
from microsub.accounts.sessions import Sessions
from microsub.accounts.store import User
from microsub.base.errors import NotFound, Unauthorized
from microsub.configuration.effective import EffectiveSettings
from microsub.configuration.model import FeedPolicy, Quotas, UserSettings, encode
from microsub.model.reader import Credential
from microsub.model.settings import ChannelSettings, Filters, FollowSettings
from microsub.redis.protocol import Redis
from microsub.timelines.follow import Following
from tests.support.configured import NOW, Configured
from tests.support.redis_wrappers import Between, once

A, B, C = "https://a.example/feed", "https://b.example/feed", "https://c.example/feed"


def channel(uid: str, *feeds: Any, **more: Any) -> dict[str, Any]:
    return {"uid": uid, "name": uid.title(), "feeds": list(feeds), **more}


def alice(*channels: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"users": {"alice": {"me": "https://alice.example/", "channels": list(channels), **more}}}


@pytest.fixture
def configured(redis: Redis, tmp_path: Path) -> Configured:
    return Configured(redis, tmp_path / "backend.json", write_back=True)


async def test_a_first_file_makes_users_channels_and_feeds(configured: Configured) -> None:
    """Everything that is declared exists afterwards, with feeds due at once."""
    await configured.apply(alice(channel("home", A, {"url": B, "name": "Bee"}), channel("news", A)))
    assert await configured.state() == {"alice": {"home": ("Home", [A, B]), "news": ("News", [A])}}
    [_, bee] = await configured.channels.subscriptions("alice", "home")
    assert bee.name == "Bee"
    user = await configured.accounts.user("alice")
    assert user
    assert user.me == "https://alice.example/"
    feed = await configured.feeds.find(A)
    assert feed
    assert await configured.feeds.subscribers(feed) == [("alice", "home"), ("alice", "news")]


async def test_changes_by_the_api_survive_an_edit(configured: Configured) -> None:
    """An edit elsewhere in the file keeps changes by the API: added, removed, renamed, reordered."""
    await configured.apply(alice(channel("home", A, B), channel("news", A), channel("old", C)))
    await configured.following.unfollow("alice", "home", B, NOW)
    await configured.following.follow("alice", "home", C, NOW)
    await configured.channels.rename("alice", "news", "Papers", NOW)
    await configured.channels.create("alice", "Mine", NOW, uid="mine")
    await configured.channels.delete("alice", "old")
    await configured.channels.order("alice", ["mine", "home"])
    await configured.apply(alice(channel("home", A, B), channel("news", A, B), channel("old", C)))
    state = await configured.state()
    assert state == {"alice": {"mine": ("Mine", []), "news": ("Papers", [A, B]), "home": ("Home", [A, C])}}
    assert list(state["alice"]) == ["mine", "news", "home"]


async def test_removed_feeds_and_channels_go_and_come_back(configured: Configured) -> None:
    """Feeds of a removed channel aren't polled for it any more; added again, it comes back with users' additions."""
    await configured.apply(alice(channel("home", A), channel("news", B)))
    await configured.following.follow("alice", "news", C, NOW)
    await configured.apply(alice(channel("home")))
    assert await configured.state() == {"alice": {"home": ("Home", [])}}
    feed = await configured.feeds.find(C)
    assert feed
    assert await configured.feeds.subscribers(feed) == []
    await configured.apply(alice(channel("home"), channel("news", B)))
    assert await configured.state() == {"alice": {"home": ("Home", []), "news": ("News", [B, C])}}
    assert await configured.feeds.subscribers(feed) == [("alice", "news")]


async def test_an_emptied_file_destroys_nothing(configured: Configured) -> None:
    """Its users are disabled, their feeds no longer polled; the old content brings everything back."""
    document = alice(channel("home", A), channel("news", B))
    await configured.apply(document)
    token = await configured.accounts.create_token("alice", ["read"], "test", NOW)
    assert token
    await configured.apply({})
    user = await configured.accounts.user("alice")
    assert user
    assert user.disabled == NOW
    feed = await configured.feeds.find(A)
    assert feed
    assert await configured.feeds.subscribers(feed) == []
    await configured.apply(document)
    assert await configured.state() == {"alice": {"home": ("Home", [A]), "news": ("News", [B])}}
    assert await configured.feeds.subscribers(feed) == [("alice", "home")]
    assert len(await configured.accounts.tokens("alice")) == 1


@pytest.mark.parametrize(
    ("me", "stays"),
    [("https://alice.example/", True), ("https://Alice.example", True), ("https://eve.example/", False)],
)
async def test_a_reused_name_belongs_to_the_new_user(configured: Configured, me: str, stays: bool) -> None:
    """Apps and browsers of the former person have no access to the data of the next one."""
    now = time.time()  # a real Redis expires keys by its own clock
    await configured.apply(alice())
    accounts, sessions = configured.accounts, Sessions(configured.redis)
    token = accounts.credential(await accounts.create_token("alice", ["read"], "test", now))
    consent = Consent("alice", "https://a.example/", "A", "https://a.example/", frozenset({"read"}))
    code = await Codes(configured.redis).create(consent, now)
    _, granted = await Codes(configured.redis).redeem(code, "", lambda _: True, now)
    await sessions.begin("alice", "https://alice.example/", "here", "", now)
    await configured.apply({})
    await configured.apply({"users": {"alice": {"me": me}}})
    assert token
    assert granted
    grants = Grants(configured.redis)
    assert (len(await accounts.tokens("alice")) == 2, bool(await grants.all("alice"))) == (stays, stays)
    renewed, _ = await grants.renew(granted.refresh, None, now)
    assert renewed.good is stays
    assert bool(await sessions.all("alice")) is stays
    if not stays:
        with pytest.raises(Unauthorized):
            await accounts.verify(token, now)


async def test_names_settings_rules_and_order_follow_the_file(configured: Configured) -> None:
    """This holds for every kind of edit."""
    await configured.apply(alice(channel("one", A), channel("two"), channel("three")))
    document = alice(
        channel("three", settings={"unread": "boolean", "max_items": 5, "filters": {"exclude_types": ["like"]}}),
        channel("new", mute=["http://Mute.example/"]),
        {"uid": "one", "name": "First", "feeds": [{"url": A, "name": "Ah"}]},
        channel("two"),
        me="https://new.example/",
        settings={"keep_read_days": 3},
        block=["https://block.example/"],
    )
    document["users"]["alice"]["me"] = "https://new.example/"
    document["settings"] = {"max_items": 9, "feeds": {A: {"interval": 60}}}
    await configured.apply(document)
    state = await configured.state()
    assert list(state["alice"].items()) == [
        ("three", ("Three", [])), ("new", ("New", [])), ("one", ("First", [A])), ("two", ("Two", [])),
    ]  # fmt: skip
    [subscription] = await configured.channels.subscriptions("alice", "one")
    assert subscription.name == "Ah"
    settings = (await configured.channels.get("alice", "three")).settings
    assert (settings.unread, settings.max_items, settings.filters) == ("boolean", 5, Filters(exclude_types=("like",)))
    assert len(await configured.rules.muted("alice", "new")) == 1
    assert len(await configured.rules.blocked("alice", "global")) == 1
    user = await configured.accounts.user("alice")
    assert user
    assert user.me == "https://new.example/"
    effective = await configured.declared.everything()
    assert effective.instance.max_items == 9
    assert effective.instance.feeds == {A: FeedPolicy(interval=60)}
    assert effective.users == {"alice": UserSettings(keep_read_days=3)}
    assert await configured.server().look() == "unchanged"


async def test_swapped_names_and_reused_names_arrive(configured: Configured) -> None:
    """A name that one channel gives up is free for another in the same edit."""
    await configured.apply(alice(channel("a", name="X"), channel("b", name="Y"), channel("c", name="Z")))
    await configured.apply(alice(channel("a", name="Y"), channel("b", name="X"), channel("d", name="Z")))
    assert await configured.state() == {"alice": {"a": ("Y", []), "b": ("X", []), "d": ("Z", [])}}


async def test_an_invalid_file_is_reported_once(configured: Configured) -> None:
    """The last valid configuration stays; one line names file, place, the value found and the one expected."""
    await configured.apply(alice(channel("home", A)))
    configured.save('{"users": {"alice": {"channels": [,]}}}')
    with structlog.testing.capture_logs() as lines:
        assert await configured.configuration.look() == "invalid"
        assert await configured.configuration.look() == "invalid"
    [line] = lines
    assert line["log_level"] == "error"
    assert line["problem"].startswith(f"{configured.file}: line 1, column 35: " + "found ',', expected a value: ")
    assert configured.configuration.status.problems
    assert await configured.state() == {"alice": {"home": ("Home", [A])}}
    await configured.apply(alice(channel("home", B)))
    assert configured.configuration.status.problems == ()


async def test_a_missing_file_changes_nothing(configured: Configured) -> None:
    """A deletion by mistake does no harm, and is logged only once."""
    await configured.apply(alice(channel("home", A)))
    configured.file.unlink()
    with structlog.testing.capture_logs() as lines:
        assert await configured.configuration.look() == "missing"
        assert await configured.configuration.look() == "missing"
    assert len(lines) == 1
    assert await configured.state() == {"alice": {"home": ("Home", [A])}}


@pytest.mark.parametrize("text", [None, "{,}"])
async def test_an_invalid_first_file_applies_no_configuration(configured: Configured, text: str | None) -> None:
    """No configuration was applied before, so no log line says that one stays active."""
    if text is not None:
        configured.save(text)
    with structlog.testing.capture_logs() as lines:
        assert await configured.configuration.look() in {"missing", "invalid"}
    [line] = lines
    assert "stays active" not in line["event"]
    assert "none" in line["event"]


async def test_a_user_written_again_has_the_files_data(configured: Configured) -> None:
    """Other data of a removed user of that name doesn't come back; only a channel of the same uid keeps its timeline. A
    command restores all data.
    """
    await configured.apply(alice(channel("home", A, B), channel("friends", C), mute=[C], settings={"max_items": 3}))
    await configured.following.follow("alice", "home", C, NOW)
    await configured.apply({})
    await configured.apply(alice(channel("home", B), channel("mine", C)))
    assert await configured.state() == {"alice": {"home": ("Home", [B]), "mine": ("Mine", [C])}}
    assert await configured.rules.muted("alice", "global") == []
    assert (await configured.declared.everything()).users == {}
    followers = {url: await configured.feeds.subscribers(await configured.feeds.find(url) or "") for url in (A, B, C)}
    assert followers == {A: [], B: [("alice", "home")], C: [("alice", "mine")]}
    assert not await configured.configuration.write_back()


async def test_an_older_file_never_applies(configured: Configured, tmp_path: Path) -> None:
    """A stale copy on a second machine can't undo the newer one."""
    await configured.apply(alice(channel("home", A)), at=NOW)
    other = Configured(configured.redis, tmp_path / "elsewhere.json")
    other.save(alice(channel("home", B)), at=NOW - 1)
    with structlog.testing.capture_logs() as lines:
        assert await other.configuration.look() == "outdated"
    assert [line["event"] for line in lines if "older" in line["event"]]
    assert await configured.state() == {"alice": {"home": ("Home", [A])}}
    await other.apply(alice(channel("home", B)), at=NOW + 1)
    assert await configured.state() == {"alice": {"home": ("Home", [B])}}


async def test_a_file_that_another_process_has_just_written_is_no_older_one(configured: Configured) -> None:
    """A command has read the file when the server writes and applies a newer one: nobody has to save it again."""
    acted = False

    async def before(_name: str, _args: Any) -> None:
        nonlocal acted
        if not acted:
            acted = True
            await configured.apply(alice(channel("home", B)), at=NOW + 1)

    await configured.apply(alice(channel("home", A)), at=NOW)
    other = Configured(Between(configured.redis, before), configured.file)
    with structlog.testing.capture_logs() as lines:
        assert await other.configuration.look() == "outdated"
    assert acted
    assert not [line for line in lines if "older" in line["event"]]
    assert await configured.state() == {"alice": {"home": ("Home", [B])}}
    assert await other.configuration.look() == "unchanged"


async def test_an_edit_of_a_feed_keeps_what_an_app_changes_meanwhile(configured: Configured) -> None:
    """The app's change comes after the file was compared with the stores, and before the edit is stored."""
    await configured.apply(alice(channel("home", {"url": A, "view": "list"})), at=NOW)
    (follow,) = await configured.channels.subscriptions("alice", "home")

    async def in_an_app() -> None:
        await configured.following.change(
            "alice", "home", follow.feed, NOW, settings=replace(follow.settings, view="cards"), former=follow.settings
        )

    other = Configured(Between(configured.redis, once("subscription_write", in_an_app)), configured.file)
    other.save(alice(channel("home", {"url": A, "view": "list", "keep_unread_days": 7})), at=NOW + 1)
    assert await other.configuration.look() == "applied"
    (follow,) = await configured.channels.subscriptions("alice", "home")
    assert follow.settings == FollowSettings(view="cards", keep_unread_days=7)


async def test_only_one_process_applies(configured: Configured) -> None:
    """While another process holds the lease, nothing happens; then the same file is already applied."""
    configured.save(alice(channel("home", A)))
    await configured.applied.lease("another", 30).acquire()
    assert await configured.configuration.look() == "busy"
    assert await configured.state() == {}
    await configured.applied.lease("another", 0).release()
    assert await configured.configuration.look() == "applied"
    assert await configured.server().look() == "unchanged"


async def test_a_refused_change_doesnt_stop_the_others(configured: Configured, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is logged with its reason, and the other changes are applied."""
    follow = Following.follow

    async def refuse(self: Following, user: str, uid: str, url: str, *rest: Any, **more: Any) -> Any:
        if url == A:
            raise NotFound("no such channel")
        return await follow(self, user, uid, url, *rest, **more)

    monkeypatch.setattr(Following, "follow", refuse)
    configured.save(alice(channel("home", A, B)))
    with structlog.testing.capture_logs() as lines:
        assert await configured.configuration.look() == "applied"
    assert [line["reason"] for line in lines if line["log_level"] == "warning"] == ["no such channel"]
    assert await configured.state() == {"alice": {"home": ("Home", [B])}}


async def test_a_conflict_goes_to_the_later_change_and_is_logged(configured: Configured) -> None:
    """The API renamed the channel once before the edit of the file, and once after it."""
    await configured.apply(alice(channel("home")), at=NOW)
    await configured.channels.rename("alice", "home", "By API", NOW + 10)
    configured.save(alice(channel("home", name="By file")), at=NOW + 20)
    with structlog.testing.capture_logs() as lines:
        await configured.configuration.look()
    assert any("the file changed it later and wins" in line.get("conflict", "") for line in lines)
    assert (await configured.channels.get("alice", "home")).name == "By file"
    await configured.channels.rename("alice", "home", "Late", NOW + 50)
    configured.save(alice(channel("home", name="Early")), at=NOW + 40)
    with structlog.testing.capture_logs() as lines:
        await configured.configuration.look()
    assert any("the API changed it later and wins" in line.get("conflict", "") for line in lines)
    assert (await configured.channels.get("alice", "home")).name == "Late"


async def test_variables_are_expanded_and_a_changed_one_counts(redis: Redis, tmp_path: Path) -> None:
    """The file names the secret, the stores get its value; a file with a missing variable is refused."""
    document = alice(channel("home", "https://u:${PASSWORD}@a.example/"))
    configured = Configured(redis, tmp_path / "b.json", environ={"PASSWORD": "one"})
    await configured.apply(document, at=NOW)
    assert await configured.state() == {"alice": {"home": ("Home", ["https://u:one@a.example/"])}}
    changed = Configured(redis, tmp_path / "b.json", environ={"PASSWORD": "two"})
    assert await changed.configuration.look() == "applied"
    assert await configured.state() == {"alice": {"home": ("Home", ["https://u:two@a.example/"])}}
    missing = Configured(redis, tmp_path / "b.json")
    assert await missing.configuration.look() == "invalid"
    assert "PASSWORD" in str(missing.configuration.status.problems[0])


async def test_limits_in_force_go_from_channel_to_user_to_instance(configured: Configured) -> None:
    """The setting of the nearest level counts; the style of counts too."""
    document = alice(channel("home", settings={"max_items": 1}), channel("news"), settings={"keep_read_days": 2})
    document["settings"] = {"max_items": 3, "unread": "boolean", "keep_read_days": 4}
    await configured.apply(document)
    effective = EffectiveSettings(configured.declared, configured.own_settings)
    assert await effective.of("alice", "home") == ChannelSettings(2, 180, 1, "boolean", 10, True)
    assert await effective.of("alice", "news") == ChannelSettings(2, 180, 3, "boolean", 10, True)
    assert await effective.of("bob", "none") == ChannelSettings(4, 180, 3, "boolean", 10, True)
    assert await effective.unread_style("alice") == "boolean"


async def test_a_token_endpoint_is_in_effect(configured: Configured) -> None:
    """Set, changed and removed; a user who is removed and comes back has that of the file, or none."""
    endpoints = ("https://t.example/", "https://u.example/", None, "https://t.example/")
    for endpoint in endpoints:
        await configured.apply(alice(channel("home"), **({"token_endpoint": endpoint} if endpoint else {})))
        user = await configured.accounts.user("alice")
        assert user
        assert user.token_endpoint == endpoint
    await configured.apply({"users": {}})
    await configured.apply(alice(channel("home")))
    user = await configured.accounts.user("alice")
    assert user
    assert user.token_endpoint is None
    assert user.disabled is None


@pytest.mark.parametrize(
    "edit",
    [
        {"me": "https://other.example/"},
        {"me": None},
        {"token_endpoint": "https://t.example/"},
        None,
    ],
    ids=["another site", "no site", "a token endpoint", "the user removed"],
)
async def test_an_edit_of_an_identity_ends_remembered_tokens(
    configured: Configured, edit: dict[str, Any] | None
) -> None:
    """The edit deletes their remembered tokens; an edit of another setting keeps them."""
    document = alice(channel("home"))
    await configured.apply(document)
    tokens, credential = ForeignTokens(configured.redis), Credential("alice", "ab" * 32)
    vouched = Vouched(frozenset({"read"}), "https://app.example/", NOW)
    who = User("alice", "https://alice.example/")
    assert await tokens.remember(who, credential.digest, vouched, until=NOW + 600, grace=3600)
    await configured.apply(alice(channel("home"), channel("new", A)))
    assert await configured.accounts.verify(credential, NOW)
    if edit is None:
        document["users"] = {}
    else:
        user = document["users"]["alice"] | edit
        document["users"]["alice"] = {name: value for name, value in user.items() if value is not None}
    await configured.apply(document)
    with pytest.raises(Unauthorized):
        await configured.accounts.verify(credential, NOW)
    assert (await tokens.known_token(credential)).vouched is None


async def test_the_filter_for_all_channels_goes_both_ways(configured: Configured) -> None:
    """The file sets it and removes it; a change by its user is written into the file."""

    async def there() -> Filters:
        user = await configured.accounts.user("alice")
        assert user
        return user.filters

    await configured.apply(alice(channel("home"), filters={"exclude_words": ["spam"], "x-why": "noise"}))
    assert await there() == Filters(exclude_words=("spam",))
    for own in (Filters(exclude_words=("ham",)), Filters(), Filters(include_types=("note",))):
        await configured.accounts.set_settings("alice", {"filters": own.stored()})
        assert await configured.configuration.write_back()
        assert configured.saved()["users"]["alice"].get("filters", {}) == encode(own)
        assert await configured.server().look() == "unchanged"
        assert await there() == own
    await configured.apply(alice(channel("home")))
    assert not await there()


async def test_the_file_ignores_registered_users(configured: Configured) -> None:
    """Such users aren't written back, and neither an edit nor an older copy of the file disables them; an entry of
    their own is kept up to date, and removing it ends nothing.
    """
    await configured.apply(alice(channel("home", A)))
    await configured.accounts.register("bob-example", "https://bob.example/", NOW)
    await configured.channels.create("bob-example", "Mine", NOW, "mine")
    assert not await configured.configuration.write_back()
    both = alice(channel("home", A))
    both["users"]["bob-example"] = {"settings": {"quotas": {"feeds": 3}}}
    await configured.apply(both)
    assert (await configured.declared.everything()).users == {"bob-example": UserSettings(quotas=Quotas(feeds=3))}
    assert await configured.configuration.write_back()
    assert [entry["uid"] for entry in configured.saved()["users"]["bob-example"]["channels"]] == ["mine"]
    await configured.apply({"users": {}})
    users = {user.name: user.disabled for user in await configured.accounts.users()}
    assert users["bob-example"] is None
    assert users["alice"] is not None
    assert (await configured.declared.everything()).users == {}
    assert "mine" in [channel.uid for channel in await configured.channels.list("bob-example")]


async def test_an_existing_address_isnt_declared_for_another_user(configured: Configured) -> None:
    """An entry with the address of an account that isn't in the file is refused as a whole; what was applied stays."""
    await configured.apply(alice(channel("home", A)))
    await configured.accounts.register("bob-example", "https://bob.example/", NOW)
    document = alice(channel("home", A, B))
    document["users"]["bob"] = {"me": "http://Bob.example"}
    configured.save(document)
    with structlog.testing.capture_logs() as lines:
        assert await configured.configuration.look() == "invalid"
        assert not await configured.configuration.write_back()
        assert await configured.configuration.look() == "invalid"
    assert await configured.accounts.user("bob") is None
    assert await configured.state() == {"alice": {"home": ("Home", [A])}, "bob-example": {}}
    (problem,) = configured.configuration.status.problems
    assert "users.bob.me" in problem.path
    assert "http://Bob.example" in problem.found
    assert "'bob-example'" in problem.found
    assert [line["problem"] for line in lines if line["log_level"] == "error"] == [str(problem)]

    await configured.accounts.disable_user("bob-example", NOW)
    assert await configured.configuration.look() == "applied"
    assert configured.configuration.status.problems == ()
    assert (await configured.state())["bob"] == {}


async def test_addresses_and_names_may_be_swapped_in_the_file(configured: Configured) -> None:
    """All changes count together: two users swap addresses, and one is renamed."""
    a, b = "https://a.example/", "https://b.example/"
    await configured.apply({"users": {"ann": {"me": a}, "bob": {"me": b}}})
    await configured.apply({"users": {"ann": {"me": b}, "bob": {"me": a}}})
    await configured.apply({"users": {"anna": {"me": b}, "bob": {"me": a}}})
    users = {user.name: (user.me, user.disabled is None) for user in await configured.accounts.users()}
    assert users == {"ann": (b, False), "anna": (b, True), "bob": (a, True)}


async def test_double_addresses_dont_block_other_edits(configured: Configured) -> None:
    """Two accounts with one address, which an earlier version allowed, don't block an unrelated edit."""
    await configured.apply(alice(channel("home", A)))
    await configured.accounts.add_user("second", "https://alice.example/", NOW)
    await configured.apply(alice(channel("home", A, B)))
