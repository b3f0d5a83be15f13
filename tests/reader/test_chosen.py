"""Several feeds changed at once, chosen in the table of all feeds, and taken back."""

from __future__ import annotations

import re
import struct
from typing import Any
from unittest.mock import Mock

import pytest

from microsub.base.clock import DAY
from microsub.base.errors import NotFound, StoreError, StoreUnavailable, StoreUnreached
from microsub.model.reader import Reason
from microsub.model.settings import FollowSettings
from microsub.reader.feeds import chosen
from microsub.reader.feeds.chosen import MOST_CHOSEN
from microsub.reader.reading.undo import UndoRecords
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import text
from microsub.redis.scripts import batches
from microsub.timelines import Following, ReadState
from microsub.timelines.remove import Leaving, take_out
from microsub.timelines.restore import states_of
from tests.reader.conftest import ADDRESS, ReadingVisitor, reading, titles
from tests.reader.conftest import ids as ids_of
from tests.support.readers import FEED, instance, posts
from tests.support.redis_wrappers import Between, InRow
from tests.support.visitor import Shown, fields_of
from tests.support.world import World

URLS = [f"https://{name}.example/feed" for name in ("one", "two", "three")]


@pytest.fixture
async def feeds(ann: ReadingVisitor, server: World) -> list[str]:
    """Ann follows three more feeds in `home`, each with a post; the boxes of the first two."""
    boxes = []
    for url in URLS:
        host = url.split("/")[2]
        await server.publish(url, *posts(f"of {host}", host=host), title=host)
        await server.following.follow("ann", "home", url, server.now, settings=FollowSettings(view="list"))
        boxes.append(f"home/{(await server.feeds.ensure(url, server.now)).id}")
    await server.channels.create("ann", "News", server.now, "news")
    return boxes[:2]


async def choose(ann: ReadingVisitor, boxes: Any, **fields: Any) -> Shown:
    """Sends the form with these boxes ticked."""
    page = await ann.get("/feed")
    return await ann.browser.post("/feed/chosen", {**fields_of(page.form("/feed/chosen")), "feed": boxes, **fields})


async def told(ann: ReadingVisitor, reply: Shown) -> str:
    """What the page says after a change."""
    return " ".join((await ann.get(reply.location)).tree.css_first(".result").text().split())


async def take_back(ann: ReadingVisitor, reply: Shown) -> Shown:
    """Presses *Undo* on the page that a change leads to."""
    page = await ann.get(reply.location)
    button = page.form("/feed/chosen/undo").css_first("button")
    return await ann.browser.submit(page, "/feed/chosen/undo", undo=button.attributes["value"])


async def state(server: World, user: str = "ann") -> dict[str, Any]:
    """All follows, with names and settings."""
    everywhere = await server.channels.all_subscriptions(user)
    return {uid: {one.url: (one.name, one.settings) for one in some} for uid, some in everywhere.items()}


@pytest.mark.parametrize(
    ("act", "says", "undone_says"),
    [
        ("move", "2 feeds are now in News.", "Undone for 2 feeds."),
        ("copy", "2 feeds are now in News, too.", "Undone for 2 feeds."),
        ("pause", "2 feeds are paused.", "Undone for 2 feeds."),
        ("off", "The text of posts is set for 2 feeds.", "Undone for 2 feeds."),
        ("unfollow", "You no longer follow 2 feeds.", "You follow 2 feeds again."),
    ],
)
async def test_every_action_is_taken_back_whole(
    ann: ReadingVisitor, server: World, feeds: list[str], act: str, says: str, undone_says: str
) -> None:
    """The page says what was done and with which feeds; *Undo* restores follows, settings and unread posts, and says
    for which feeds, too."""
    before, unread = await state(server), sorted(await ann.titles("/channel/home"))
    reply = await choose(ann, feeds, do=act, to="news")
    assert reply.status == 303
    during = await state(server)
    assert during != before
    said = await told(ann, reply)
    assert says in said
    assert all(host in said for host in ("one.example", "two.example"))
    match act:
        case "move":
            assert set(during["news"]) == set(URLS[:2])
            assert not set(URLS[:2]) & set(during["home"])
            assert sorted(await ann.titles("/channel/news")) == ["of one.example", "of two.example"]
        case "copy":
            assert (set(during["news"]), during["home"]) == (set(URLS[:2]), before["home"])
        case "pause" | "off":
            wanted = FollowSettings(view="list", paused=act == "pause", full_text="off" if act == "off" else None)
            assert [during["home"][url][1] for url in URLS] == [wanted, wanted, FollowSettings(view="list")]
        case "unfollow":
            assert set(during["home"]) == {FEED, URLS[2]}
            assert await ann.titles("/channel/home") == ["of three.example"]
    undone = await take_back(ann, reply)
    said = await told(ann, undone)
    assert undone_says in said
    assert all(host in said for host in ("one.example", "two.example"))
    assert not (await ann.get(undone.location)).tree.css("button[name=undo]")
    assert await state(server) == before
    assert sorted(await ann.titles("/channel/home")) == unread
    again = await ann.browser.post("/feed/chosen/undo", {"undo": "0" * 16})
    assert again.status in {403, 404}


async def test_a_feed_leaves_one_of_two_channels(ann: ReadingVisitor, server: World, feeds: list[str]) -> None:
    """Both channels are named; of several feeds, those that are still followed are counted, also of two of one name."""
    await choose(ann, feeds[:1], do="copy", to="news")
    reply = await choose(ann, feeds[:1], do="unfollow")
    assert "one.example has left Home. You still follow it in News." in await told(ann, reply)
    assert "one.example is in Home again." in await told(ann, await take_back(ann, reply))
    for uid, feed in (one.split("/") for one in feeds):
        await ann.browser.submit(
            await ann.get(f"/feed/{feed}/settings?channel={uid}"), f"/feed/{feed}/settings", name="A"
        )
    several = await told(ann, await choose(ann, feeds, do="unfollow"))
    assert "You no longer follow 1 feed. You still follow 1 feed in another channel." in several
    left = await choose(ann, [feeds[0].replace("home/", "news/")], do="unfollow")
    assert "You no longer follow one.example." in await told(ann, left)


async def test_an_undo_keeps_what_the_table_shows(ann: ReadingVisitor, feeds: list[str]) -> None:
    """Its order and the words of its filter."""
    reply = await choose(ann, feeds, do="pause", sort="trouble", q="example")
    undone = await take_back(ann, reply)
    assert undone.location.startswith("/feed?sort=trouble&q=example&result=")


async def test_an_undo_works_once(ann: ReadingVisitor, server: World, feeds: list[str]) -> None:
    """Also one that brings no posts back: later changes aren't undone by the same button."""
    reply = await choose(ann, feeds, do="pause")
    page = await ann.get(reply.location)
    undo = page.form("/feed/chosen/undo").css_first("button").attributes["value"]
    await ann.browser.submit(page, "/feed/chosen/undo", undo=undo)
    await server.following.unfollow("ann", "home", URLS[0], server.now)
    again = await ann.browser.submit(page, "/feed/chosen/undo", undo=undo)
    assert again.status == 404
    assert URLS[0] not in (await state(server))["home"]


async def test_a_result_stays_with_its_own_record(ann: ReadingVisitor, server: World) -> None:
    """Another process replaces the record at the worst moment."""
    records = UndoRecords(server.redis, ReadState(server.redis, server.items))
    mine = await records.remember_feeds("ann", [], {}, told=b"")
    others: list[str] = []

    async def before(name: str, _: Any) -> None:
        if not others and name in {"HSET", "compare_and_set"}:
            others.append((await records.remember_feeds("ann", [], {}, told=b"")).id)

    far = Between(server.redis, before)
    await UndoRecords(far, ReadState(far, server.items)).tell("ann", mine, b"{}")
    assert await records.changed_feeds("ann", others[0]) == (b"", [])


async def test_a_paused_feed_is_resumed(ann: ReadingVisitor, server: World, feeds: list[str]) -> None:
    """With the posts that came during the pause."""
    await choose(ann, feeds, do="pause")
    await server.publish(URLS[0], *posts("later", host="one.example"), title="one.example")
    assert "later" not in await ann.titles("/channel/home")
    assert "2 feeds are resumed." in await told(ann, await choose(ann, feeds, do="resume"))
    assert "later" in await ann.titles("/channel/home")


async def test_a_feed_of_two_channels_moves_and_comes_back_to_both(
    ann: ReadingVisitor, server: World, feeds: list[str]
) -> None:
    """A move leaves it in one channel. Ticked in both, or named without a channel, it is one feed; a copy, too."""
    await server.channels.create("ann", "Later", server.now, "later")
    await server.following.follow("ann", "later", URLS[0], server.now)
    before = await state(server)
    boxes = [feeds[0], feeds[0].replace("home/", "later/")]
    reply = await choose(ann, boxes, do="move", to="news")
    assert "one.example is now in News. It is no longer in Home, Later." in await told(ann, reply)
    assert [uid for uid, some in (await state(server)).items() if URLS[0] in some] == ["news"]
    await take_back(ann, reply)
    assert {uid: set(some) for uid, some in (await state(server)).items()} == {
        uid: set(some) for uid, some in before.items()
    }
    for to, more in (("News", " 1 of them has left another channel, too."), ("Later", "")):
        reply = await choose(ann, feeds, do="move", to=to.lower())
        assert f"2 feeds are now in {to}.{more} Undo" in await told(ann, reply)
        await take_back(ann, reply)
    for names in (boxes, [feeds[0].partition("/")[2]]):
        said = await told(ann, await choose(ann, names, do="copy", to="news"))
        assert "one.example is now in News, too." in said
        assert "stays as it was" not in said
        await server.following.unfollow("ann", "news", URLS[0], server.now)


async def test_posts_of_two_channels_come_back_to_both(ann: ReadingVisitor, server: World, feeds: list[str]) -> None:
    """Each as it was there, whichever channel was the target; a post read meanwhile is read, a removed one gone."""
    names = ("mine", "both", "yours", "new", "read", "removed")
    await server.publish(URLS[0], *posts(*names, host="one.example"), title="one.example")
    await server.channels.create("ann", "Later", server.now, "later")
    await server.following.follow("ann", "later", URLS[0], server.now, settings=FollowSettings(hide_in_all=True))
    feed = feeds[0].partition("/")[2]
    page = await ann.get(f"/feed/{feed}?channel=home&show=all")
    ids = dict(zip(titles(page), ids_of(page), strict=True))
    named = {item: name for name, item in ids.items()}

    async def are_read(*uids: str) -> dict[str, dict[str, bool]]:
        found = await states_of(server.redis, server.items, "ann", uids, [feed])
        return {uid: {named[item]: at is not None for item, at in some.items()} for uid, some in found[feed].items()}

    assert set(ids) == {*names, "of one.example"}
    marks = ReadState(server.redis, server.items)
    await marks.mark_here("ann", "home", [ids["mine"], ids["both"]], server.now)
    await marks.mark_here("ann", "later", [ids["yours"], ids["both"]], server.now + 1)
    await take_out(server.redis, "ann", "later", [ids["new"]], Leaving(Reason.REMOVED), server.now)
    for target, ticked in (("news", "home"), ("later", "home"), ("home", "later")):
        before = await are_read("home", "later")
        reply = await choose(ann, [f"{ticked}/{feed}", feeds[1]], do="move", to=target)
        assert "2 feeds are now in" in await told(ann, reply)
        assert not any((await are_read(*{"home", "later"} - {target})).values())
        if target == "news":
            await marks.mark_here("ann", "news", [ids["read"]], server.now + 2)
            await take_out(server.redis, "ann", "news", [ids["removed"]], Leaving(Reason.REMOVED), server.now)
        await take_back(ann, reply)
        after = await are_read("home", "later", "news")
        if target == "news":
            for some in (before["home"], before["later"]):
                some["read"] = True
                del some["removed"]
        assert after == {**before, "news": {}}, target
        apart = await server.redis.command("SMEMBERS", keys.apart("ann", "later"))
        assert {named[text(one)] for one in apart} >= set(before["later"])


async def test_a_feed_that_was_unfollowed_meanwhile_isnt_moved(
    ann: ReadingVisitor, server: World, feeds: list[str]
) -> None:
    """The feed gets no follower whom no channel has."""
    one = await server.channels.subscription("ann", "home", feeds[0].partition("/")[2])
    assert one is not None
    await server.following.unfollow("ann", "home", one.url, server.now)
    with pytest.raises(NotFound):
        await server.following.move("ann", "news", one.url, server.now, holders={"home": one})
    assert (await state(server))["news"] == {}
    assert await server.redis.command("SCARD", keys.feed_subscribers(one.feed)) == 0


async def test_feeds_that_stay_are_named_with_the_reason(ann: ReadingVisitor, server: World, feeds: list[str]) -> None:
    """One is in the channel already; the others are done, and only these are undone."""
    await server.following.follow("ann", "news", URLS[0], server.now)
    reply = await choose(ann, feeds, do="copy", to="news")
    said = await told(ann, reply)
    assert "two.example is now in News, too." in said
    assert "1 feed stays as it was: one.example: It is in that channel already." in said
    await take_back(ann, reply)
    assert set((await state(server))["news"]) == {URLS[0]}


STEPS = {"unfollow": Following.unfollow, "move": Following.move, "pause": Following.change}
"""The step for each feed of an action."""


async def test_a_change_that_takes_too_long_ends(
    ann: ReadingVisitor, server: World, feeds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The feeds that are left are named, and nothing happens to them."""
    monkeypatch.setattr(chosen, "_SECONDS", -1.0)
    before = await state(server)
    said = await told(ann, await choose(ann, feeds, do="unfollow"))
    assert "No feed was changed. 2 feeds stay as they were:" in said
    assert "This took too long. Choose it again." in said
    assert await state(server) == before


@pytest.mark.parametrize("act", STEPS)
async def test_a_store_that_fails_meanwhile(
    ann: ReadingVisitor, server: World, feeds: list[str], monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    """It names the feed that was changed and the one that stays; the undo restores the former, also in two turns."""
    before, unread = await state(server), sorted(await ann.titles("/channel/home"))
    of = STEPS[act]
    broken = [False, True]

    async def failing(self: Following, *args: Any, **more: Any) -> Any:
        if broken and broken.pop(0):
            raise StoreError("the connection was lost")
        return await of(self, *args, **more)

    monkeypatch.setattr(Following, of.__name__, failing)
    reply = await choose(ann, feeds, do=act, to="news")
    said = await told(ann, reply)
    assert "1 feed stays as it was: two.example: The store of this server failed meanwhile. Choose it again." in said
    if act != "unfollow":
        broken[:] = [True]
        reply = await take_back(ann, reply)
        assert "one.example: The store of this server failed meanwhile. Press “Undo” again." in await told(ann, reply)
    await take_back(ann, reply)
    assert await state(server) == before
    assert sorted(await ann.titles("/channel/home")) == unread


async def test_a_store_that_stops_meanwhile(
    ann: ReadingVisitor, server: World, feeds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is told when it is back, so the undo can restore what was changed; one that stays away is said."""
    before, tell = await state(server), UndoRecords.tell
    away = [StoreUnavailable("connection refused")] * 2

    async def telling(self: UndoRecords, *args: Any) -> None:
        if away:
            raise away.pop()
        await tell(self, *args)

    monkeypatch.setattr(UndoRecords, "tell", telling)
    monkeypatch.setattr(chosen, "_PAUSES", (0.0, 0.0))
    reply = await choose(ann, feeds, do="move", to="news")
    assert "2 feeds are now in News." in await told(ann, reply)
    await take_back(ann, reply)
    assert await state(server) == before
    away[:] = [StoreUnavailable("connection refused")] * 3
    reply = await choose(ann, feeds, do="move", to="news")
    assert "Some of the feeds may have been changed. Undo" in await told(ann, reply)
    await take_back(ann, reply)
    assert await state(server) == before


@pytest.mark.parametrize("act", STEPS)
async def test_a_store_that_breaks_off_after_the_only_change(
    ann: ReadingVisitor, server: World, feeds: list[str], monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    """The page doesn't call the feeds unchanged then, and its undo restores them."""
    before, unread = await state(server), sorted(await ann.titles("/channel/home"))
    of = STEPS[act]
    away: list[StoreError] = [StoreUnreached("connection refused"), StoreUnavailable("connection lost")]

    async def breaking(self: Following, *args: Any, **more: Any) -> Any:
        if len(away) == 2:
            await of(self, *args, **more)
        if away:
            raise away.pop()
        return await of(self, *args, **more)

    monkeypatch.setattr(Following, of.__name__, breaking)
    reply = await choose(ann, feeds, do=act, to="news")
    assert await state(server) != before
    said = await told(ann, reply)
    assert "Some of the feeds may have been changed. Undo one.example: The store of this server failed" in said
    assert "stay" not in said
    await take_back(ann, reply)
    assert await state(server) == before
    assert sorted(await ann.titles("/channel/home")) == unread


async def test_a_store_that_lost_what_was_before(
    ann: ReadingVisitor, server: World, feeds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed engine may lose a second of writes; the undo comes back with the result."""
    before, move = await state(server), Following.move

    async def losing(self: Following, *args: Any, **more: Any) -> Any:
        await move(self, *args, **more)
        for key in await server.redis.command("KEYS", "user:{ann}:undo:*"):
            await server.redis.command("DEL", key)

    with monkeypatch.context() as lost:
        lost.setattr(Following, "move", losing)
        reply = await choose(ann, feeds, do="move", to="news")
    assert "2 feeds are now in News." in await told(ann, reply)
    await take_back(ann, reply)
    assert await state(server) == before


@pytest.mark.parametrize("act", STEPS)
async def test_an_undo_that_takes_too_long_goes_on(
    ann: ReadingVisitor, server: World, feeds: list[str], monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    """What it left is named, and comes back with the button beside that, with unread posts, and without those of others
    that were read meanwhile; also if the first feed comes back and the second one doesn't."""
    await server.channels.create("ann", "Later", server.now, "later")
    await server.following.follow("ann", "later", URLS[0], server.now)
    before, unread = await state(server), sorted(await ann.titles("/channel/home"))
    again = "one.example is in Home again." if act == "unfollow" else "Undone for one.example."
    reply = await choose(ann, feeds, do=act, to="news")
    monkeypatch.setattr(chosen, "_SECONDS", -1.0)
    late = await take_back(ann, reply)
    said = await told(ann, late)
    assert said.startswith("No feed was changed. Undo 2 feeds stay as they were:")
    assert "This took too long. Press “Undo” again." in said
    seconds = iter([0.0, 0.0, 99.0])
    monkeypatch.setattr(chosen, "_SECONDS", 15.0)
    with monkeypatch.context() as slow:
        slow.setattr(chosen, "time", Mock(monotonic=lambda: next(seconds)))
        half = await take_back(ann, late)
    assert (await told(ann, half)).startswith(f"{again} Undo 1 feed stays as it was: two.example: This took")
    if act == "unfollow":
        assert sorted(await ann.titles("/channel/home")) == [one for one in unread if "two" not in one]
        await ReadState(server.redis, server.items).mark_all("ann", "home", server.now)
        unread = [one for one in unread if "two" in one]
    again = again.replace("one.example is in Home", "You follow one.example").replace("one.", "two.")
    assert again in await told(ann, await take_back(ann, half))
    after = await state(server)
    assert {uid: set(some) for uid, some in after.items()} == {uid: set(some) for uid, some in before.items()}
    assert after["home"] == before["home"]
    assert sorted(await ann.titles("/channel/home")) == unread


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"do": ""}, 400, "Choose what to do"),
        ({"do": "move"}, 400, "Choose a channel first."),
        ({"do": "undo"}, 400, "Choose what to do"),
        ({"do": "x" * 10_000}, 400, "Choose what to do"),
        ({"do": "pause", "feed": []}, 400, "Choose the feeds first"),
        ({"do": "pause", "feed": "x" * 10_000}, 400, "Choose the feeds first"),
        ({"do": "pause", "feed": ["home/0", "saved/1", "global/1", "home/1/2", "/", "\u202e/1"]}, 400, "Choose the"),
        ({"do": "pause", "feed": [f"home/{n}" for n in range(MOST_CHOSEN + 1)]}, 400, "at most 200"),
        ({"do": "move", "to": "nowhere"}, 404, "no such channel"),
        ({"do": "move", "to": "saved"}, 404, "no such channel"),
        ({"do": "copy", "target": "global"}, 404, "no such channel"),
        ({"do": "move", "to": "n" * 10_000}, 404, "no such channel"),
    ],
)
async def test_forged_forms_change_nothing(
    ann: ReadingVisitor, server: World, feeds: list[str], fields: Any, status: int, words: str
) -> None:
    """The table is shown again with the reason, and the boxes stay ticked."""
    before = await state(server)
    refused = await choose(ann, fields.pop("feed", feeds), **{"to": "", **fields})
    assert refused.status == status
    assert words in refused.tree.css_first("[role=alert]").text()
    assert await state(server) == before
    assert not [link for link in refused.tree.css("thead a, .buttons a") if not link.attributes["href"].startswith("/")]


@pytest.mark.parametrize(
    ("act", "says", "undone_says"),
    [
        ("unfollow", "You no longer follow one.example.", "You follow one.example again."),
        ("pause", "one.example is paused.", "Undone for one.example."),
    ],
)
async def test_a_feed_in_several_channels_counts_once(
    ann: ReadingVisitor, server: World, feeds: list[str], act: str, says: str, undone_says: str
) -> None:
    """When it is changed in all of them, and in the undo."""
    await server.following.follow("ann", "news", URLS[0], server.now)
    before = await state(server)
    reply = await choose(ann, [feeds[0].partition("/")[2]], do=act)
    assert says in await told(ann, reply)
    assert await state(server) != before
    assert undone_says in await told(ann, await take_back(ann, reply))
    assert await state(server) == before


async def test_feeds_of_others_cant_be_chosen(ann: ReadingVisitor, server: World, feeds: list[str]) -> None:
    """Neither by their ids nor with the names of their channels; and an undo belongs to its user."""
    bob = await reading(server, "bob", "home", "secret")
    await server.following.follow("bob", "secret", "https://bob.example/feed", server.now)
    feed = (await server.feeds.ensure("https://bob.example/feed", server.now)).id
    before = await state(server, "bob")
    for box in (f"secret/{feed}", f"home/{feed}"):
        assert (await choose(ann, [box], do="unfollow")).status == 404
    reply = await choose(ann, [*feeds, f"secret/{feed}"], do="unfollow")
    assert "You no longer follow 2 feeds." in await told(ann, reply)
    assert await state(server, "bob") == before
    assert (await bob.get(reply.location)).tree.css_first(".result") is None
    name = reply.location.rpartition("=")[2]
    page = await bob.get("/feed")
    token = {name: value for name, value in fields_of(page.form("/feed/chosen")).items() if name == "form_token"}
    assert (await bob.browser.post("/feed/chosen/undo", {**token, "undo": name})).status in {403, 404}
    assert await state(server, "bob") == before


@pytest.mark.parametrize("page", ["//evil.example/", "home\r\nx: y", "x" * 60_000])
async def test_a_page_that_is_no_channel_is_left_out(ann: ReadingVisitor, feeds: list[str], page: str) -> None:
    """The result leads to all feeds, and isn't longer."""
    reply = await choose(ann, feeds[:1], do="pause", page=page)
    assert reply.location.startswith("/feed?sort=name&result=")
    assert "one.example is paused." in await told(ann, reply)


async def test_names_are_text(ann: ReadingVisitor, server: World, feeds: list[str]) -> None:
    """Names with markup, in the table, in its boxes and in the result."""
    name = "<script>alert(1)</script> & \"quoted\" 'name'"
    await server.following.change("ann", "home", feeds[0].partition("/")[2], server.now, name=name)
    page = await ann.get("/feed")
    assert name in {box.attributes["aria-label"] for box in page.tree.css("[name=feed]")}
    shown = await ann.get((await choose(ann, feeds, do="pause")).location)
    assert name in {" ".join(one.text().split()) for one in shown.tree.css(".result li")}
    assert not shown.tree.css("main script")


async def test_all_shown_are_chosen_without_scripts(ann: ReadingVisitor, feeds: list[str]) -> None:
    """By a link that loads the page with all boxes ticked."""
    page = await ann.get("/feed")
    assert not page.tree.css("[name=feed][checked]")
    ticked = await ann.get(page.tree.css_first("[data-all]").attributes["href"])
    assert len(ticked.tree.css("[name=feed][checked]")) == 4


async def test_a_channel_among_hundreds_is_named(ann: ReadingVisitor, server: World, feeds: list[str]) -> None:
    """Its name is typed, with suggestions; a drag still gives its uid."""
    for number in range(500):
        await server.channels.create("ann", f"Channel {number}", server.now, f"c{number}")
    page = await ann.get("/feed")
    assert page.tree.css_first("#to").tag == "input"
    assert len(page.tree.css("#channel-names option")) == 503
    assert "2 feeds are now in Channel 321." in await told(ann, await choose(ann, feeds, do="move", to="channel 321"))
    moved = [f"c321/{box.partition('/')[2]}" for box in feeds]
    assert "are now in Channel 7." in await told(ann, await choose(ann, moved, do="move", to="", target="c7"))
    assert set((await state(server))["c7"]) == set(URLS[:2])


async def test_a_sign_in_comes_back_with_its_feed(ann: ReadingVisitor, server: World, feeds: list[str]) -> None:
    """Credentials outlast an unfollow that is undone, also those that were given long ago, and a move."""
    feed = feeds[0].partition("/")[2]
    record = await server.signed.give("ann", feed, {"x-key": "secret"}, server.now)
    server.now += 2 * DAY
    box = f"home/{record.id}"
    reply = await choose(ann, [box], do="unfollow")
    server.now += 300
    await server.signed.prune("ann", server.now)
    await take_back(ann, reply)
    await choose(ann, [box], do="move", to="news")
    assert await server.signed.state(record) == "given"
    assert [one.url for one in await server.channels.subscriptions("ann", "news")] == [record.url]


async def test_the_part_that_a_drag_fetches(ann: ReadingVisitor, server: World, feeds: list[str]) -> None:
    """The notice with its undo, and the counts of the channels, for a page that stays."""
    branch = (await ann.get("/channels/home/feeds?part=1")).tree.css_first(".branch").attributes
    assert branch["data-uid"] == "home"
    form = {branch["data-token-field"]: branch["data-token"], "feed": feeds[0], "target": "news", "part": "1"}
    reply = await ann.browser.post(branch["data-move"], {**form, "do": "move"})
    part = await ann.get(reply.location)
    assert part.tree.css_first("h1") is None
    assert "one.example is now in News." in part.tree.css_first(".moved").text()
    assert '"news": 1' in part.tree.css_first(".moved").attributes["data-counts"]
    undone = await ann.browser.submit(part, "/feed/chosen/undo", undo=reply.location.split("result=")[1].split("&")[0])
    assert "Undone for one.example." in (await ann.get(undone.location)).tree.css_first(".moved").text()
    assert URLS[0] in (await state(server))["home"]


async def test_the_cost_of_a_table_of_many_feeds(real_redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """One page of rows, and a round trip for each batch of feeds; a change costs those of its feeds alone."""
    monkeypatch.setattr(batches, "__defaults__", (100,))  # a thousand, otherwise
    redis = InRow(real_redis)
    async with instance(redis, base_url=ADDRESS) as server:
        ann = await reading(server, "ann", "home", "news")
        trips = []
        for count in (5, 500):
            for number in range(count):
                url = f"https://n{number}.example/feed"
                feed = await server.feeds.ensure(url, server.now)
                await server.channels.follow("ann", "home", feed.id, url, server.now)
            await ann.get("/feed")
            redis.rows.clear()
            page = await ann.get("/feed")
            shown = len(redis.rows)
            boxes = [str(box.attributes["value"]) for box in page.tree.css("[name=feed]")]
            assert len(boxes) == min(count + 1, 200)
            fields = {**fields_of(page.form("/feed/chosen")), "feed": boxes[:4], "do": "pause"}
            redis.rows.clear()
            assert (await ann.browser.post("/feed/chosen", fields)).status == 303
            trips.append((shown, len(redis.rows)))
        (few, changed), (many, changed_of_many) = trips
        assert few <= 6
        assert many <= few + 5, "feeds are read a batch at a time"
        assert changed == changed_of_many
        await ann.browser.aclose()


async def test_unread_posts_of_many_feeds_are_looked_for_once(real_redis: Redis) -> None:
    """The record has all, though most posts of the feeds aren't here; for eight feeds in as many trips as for two."""
    redis, ids = InRow(real_redis), [*range(100_000, 103_000)]
    async with instance(redis, base_url=ADDRESS) as server:
        ann = await reading(server, "ann", "home", "news")
        boxes: list[str] = []
        await redis.command("ZADD", keys.posts("ann", "home"), *(part for one in ids for part in (one, one)))
        await redis.command("SADD", keys.unread("ann", "home"), *ids)
        for number in range(10):
            url = f"https://n{number}.example/feed"
            feed = await server.feeds.ensure(url, server.now)
            await server.channels.follow("ann", "home", feed.id, url, server.now)
            here, others = ids[number::10], range(200_000 + 2000 * number, 202_000 + 2000 * number)
            await redis.command(
                "ZADD", keys.feed_items(feed.id), *(part for one in (*here, *others) for part in (one, one))
            )
            boxes.append(f"home/{feed.id}")
        trips = []
        for some in (boxes[:2], boxes[2:]):
            redis.rows.clear()
            done = await choose(ann, some, do="unfollow")
            trips.append(next(at for at, row in enumerate(redis.rows) if any("record_replace" in one for one in row)))
            latest = re.search("result=([0-9a-f]+)", done.location)
            assert latest is not None
            kept = await redis.command("HGET", keys.undo("ann", latest[1]), "in home")
            numbers = {boxes.index(box) for box in some}
            assert {*struct.unpack(f"<{len(kept) // 8}q", kept)} == {one for one in ids if one % 10 in numbers}
        assert trips[1] <= trips[0] + 2, "their items come in pieces of some megabytes"
        await ann.browser.aclose()
