"""The page of a feed, its settings, the feeds of a channel in the sidebar, and all feeds as a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest

from microsub.base.urls import host_of
from microsub.configuration.model import FeedPolicy
from microsub.feeds import Trouble, chosen_policy
from microsub.fetch import FetchFailed, FetchRequest
from microsub.formats.wire import dump, to_wire
from microsub.model.jf2 import Content, Entry
from microsub.model.reader import Cursor
from microsub.model.settings import Filters, FollowSettings
from microsub.notices import notify_followers
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import texts
from microsub.server.stores import notifications
from tests.reader.conftest import ADDRESS, ReadingVisitor, ids, reading, titles
from tests.support.posts import NOON, candidate
from tests.support.readers import FEED, OTHER, instance, posts
from tests.support.redis_wrappers import InRow
from tests.support.visitor import Shown, fields_of
from tests.support.world import World


async def feed_of(server: World, url: str = FEED) -> str:
    """The id of a feed."""
    return (await server.feeds.ensure(url, server.now)).id


async def save(ann: ReadingVisitor, feed: str, channel: str = "home", **fields: Any) -> Shown:
    """Sends the form with the feed's settings."""
    path = f"/feed/{feed}/settings"
    return await ann.browser.submit(await ann.get(f"{path}?channel={channel}"), path, **fields)


async def own(server: World, feed: str, uid: str = "home") -> FollowSettings:
    """Ann's settings for a feed."""
    found = await server.channels.subscription("ann", uid, feed)
    assert found is not None
    return found.settings


async def test_a_feeds_page_shows_its_posts_in_its_own_view(ann: ReadingVisitor, server: World) -> None:
    """A view chosen there holds for the feed, not for its channel."""
    await ann.publish("one", "two")
    await server.publish(OTHER, *posts("other", host="other.example"))
    await ann.reader.post(action="follow", channel="home", url=OTHER)
    feed = await feed_of(server)
    page = await ann.get(f"/feed/{feed}?channel=home")
    assert titles(page) == ["one", "two"]
    assert page.tree.css_first(".row") is None
    await ann.browser.submit(page, "/view", view="list")
    listed = await ann.get(f"/feed/{feed}?channel=home")
    assert (len(listed.tree.css(".row.list")), titles(listed)) == (2, ["one", "two"])
    assert (await ann.get("/channel/home")).tree.css_first(".row") is None
    assert (await own(server, feed)).view == "list"


async def test_all_settings_of_a_feed(ann: ReadingVisitor, server: World) -> None:
    """They are stored together and shown again; the name is used where one reads."""
    await ann.publish("one")
    feed = await feed_of(server)
    said = {"name": "My  blog", "view": "cards", "hide_in_all": "yes", "notify": "no", "keep_unread_days": "7"}
    reply = await save(ann, feed, **said, exclude_words="sport\nads", include_words="")
    assert reply.location.startswith(f"/feed/{feed}/settings?channel=home&done=yes&result=")
    words = Filters(exclude_words=("sport", "ads"))
    wanted = FollowSettings(view="cards", hide_in_all=True, notify=False, keep_unread_days=7, filter=words)
    assert await own(server, feed) == wanted
    shown = await ann.get(f"/feed/{feed}/settings?channel=home")
    assert shown.tree.css_first("h1").text() == "My blog"
    assert shown.tree.css_first("#exclude_words").text() == "sport\nads"
    assert await ann.titles("/channel/global") == []
    assert "My blog" in (await ann.get("/channel/home?show=all")).text


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", "x" * 10_000), ("keep_unread_days", "-1"), ("keep_unread_days", "9999999"), ("exclude_words", "w" * 999)],
)
async def test_settings_that_cant_be(ann: ReadingVisitor, server: World, field: str, value: str) -> None:
    """The page is shown again with the reason, and nothing changes."""
    feed = await feed_of(server)
    refused = await save(ann, feed, **{field: value})
    assert (refused.status, len(refused.tree.css("[role=alert]"))) == (400, 1)
    assert not await own(server, feed)


@pytest.mark.parametrize("to", ["home", "later"])
async def test_a_filter_of_a_feed_applies_to_existing_posts(ann: ReadingVisitor, server: World, to: str) -> None:
    """Its excluded posts are marked as read, those of other feeds aren't; the undo works after a move, too."""
    await ann.publish("alpha", "beta")
    await server.publish(OTHER, *posts("beta 2", host="other.example"))
    await ann.reader.post(action="follow", channel="home", url=OTHER)
    feed = await feed_of(server)
    await server.channels.create("ann", "Later", server.now, "later")
    sent = await save(ann, feed, to=to, exclude_words="beta", past="read")
    assert await ann.reader.unread(to) == (2 if to == "home" else 1)
    page = await ann.get(sent.location)
    assert page.tree.css_first("[data-text]").text() == "1 post marked as read."
    undone = await ann.browser.submit(page, "/marks/undo")
    assert await ann.reader.unread(to) == (3 if to == "home" else 2)
    assert (await ann.get(undone.location)).tree.css_first("[data-text]").text() == "1 post marked as unread."
    assert (await own(server, feed, to)).filter.exclude_words == ("beta",)


async def test_marks_before_a_move_leave_what_was_read_there(ann: ReadingVisitor, server: World) -> None:
    """The other channel has the feed, too: a post that was read there stays read when the marks are undone."""
    await server.accounts.set_settings("ann", {"read_everywhere": "no"})
    feed = await feed_of(server)
    await server.channels.create("ann", "Later", server.now, "later")
    await server.follow_unscheduled(FEED, "ann", "later")
    await ann.publish("alpha", "beta")
    page = await ann.get("/channel/later?show=all")
    read = ids(page)[titles(page).index("beta")]
    await ann.reader.post(action="timeline", method="mark_read", channel="later", entry=read)
    sent = await save(ann, feed, to="later", exclude_words="beta", past="read")
    await ann.browser.submit(await ann.get(sent.location), "/marks/undo")
    assert await ann.reader.unread("later") == 1


@pytest.mark.parametrize("paths", [("/marks/undo", "/feed/chosen/undo"), ("/feed/chosen/undo", "/marks/undo")])
async def test_marks_and_a_move_are_undone_one_after_the_other(
    ann: ReadingVisitor, server: World, paths: tuple[str, str]
) -> None:
    """The page that one undo leads to has the other one."""
    feed = await feed_of(server)
    await server.channels.create("ann", "Later", server.now, "later")
    await ann.publish("alpha", "beta")
    reply = await save(ann, feed, to="later", exclude_words="beta", past="read")
    assert await ann.reader.unread("later") == 1
    for path in paths:
        page = await ann.get(reply.location)
        reply = await ann.browser.submit(page, path, **({"undo": undo_of(page)} if "chosen" in path else {}))
    assert (await ann.reader.unread("home"), await ann.reader.unread("later")) == (2, 0)


async def test_a_name_and_a_move_are_undone_together(ann: ReadingVisitor, server: World) -> None:
    """The page says both; a name that came later stays."""
    feed = await feed_of(server)
    await server.channels.create("ann", "Later", server.now, "later")
    for later, name in (("", FEED), ("Newer", "Newer")):
        page = await ann.get((await save(ann, feed, to="later", name="New")).location)
        assert page.tree.css_first(".result p").text() == "New is now in Later. The feed is called New now."
        if later:
            await save(ann, feed, "later", name=later)
        undone = await ann.browser.submit(page, "/feed/chosen/undo", undo=undo_of(page))
        assert undone.location.startswith(f"/feed/{feed}/settings?channel=home&result=")
        assert (await ann.get(undone.location)).tree.css_first("h1").text() == name


async def test_an_undo_leaves_a_newer_name_and_says_why(ann: ReadingVisitor, server: World) -> None:
    """Also that of a name, or a pause, in a channel that the feed has left."""
    feed = await feed_of(server)
    await server.channels.create("ann", "Later", server.now, "later")
    named = await ann.get((await save(ann, feed, name="One")).location)
    reply = await save(ann, feed, name="Two")
    kept = "It has another name by now, or has left the channel."
    paused = await ann.get(
        (await ann.browser.submit(await ann.get(reply.location), "/feed/chosen", do="pause")).location
    )
    for page, why, name in ((named, kept, "Two"), (paused, "The channel no longer follows this feed.", "Three")):
        undone = await ann.browser.submit(page, "/feed/chosen/undo", undo=undo_of(page))
        assert why in (await ann.get(undone.location)).text
        found = (await server.channels.all_subscriptions("ann"))["home" if page is named else "later"][0]
        assert (found.name, found.settings.paused) == (name, True)
        if page is named:
            await save(ann, feed, to="later", name="Three")


async def test_a_feed_moves_with_its_settings(ann: ReadingVisitor, server: World) -> None:
    """The form leads to the page in the other channel."""
    feed = await feed_of(server)
    await server.channels.create("ann", "Later", server.now, "later")
    reply = await save(ann, feed, to="later", hide_in_all="yes")
    assert reply.location.startswith(f"/feed/{feed}/settings?channel=later&result=")
    assert (await own(server, feed, "later")).hide_in_all
    page = await ann.get(reply.location)
    assert page.tree.css_first(".result p").text() == f"{FEED} is now in Later."
    undone = await ann.browser.submit(page, "/feed/chosen/undo", undo=undo_of(page))
    assert undone.location.startswith(f"/feed/{feed}/settings?channel=home&result=")
    assert (await own(server, feed)).hide_in_all


def undo_of(page: Shown) -> str:
    """The name of the change that the page's *Undo* takes back."""
    return page.form("/feed/chosen/undo").css_first("button").attributes["value"] or ""


async def test_a_pause_of_a_feed(ann: ReadingVisitor, server: World) -> None:
    """New posts wait until it ends; its page says each, with an undo."""
    await ann.publish("one")
    feed = await feed_of(server)
    start, path = f"/feed/{feed}/settings?channel=home", "/feed/chosen"
    reply = await ann.browser.submit(await ann.get(start), path, do="pause")
    paused = await ann.get(reply.location)
    assert reply.location.startswith(f"{start}&result=")
    assert paused.tree.css_first(".result p").text() == "A blog is paused."
    await ann.publish("two", at=NOON + 100)
    assert await ann.titles("/channel/home") == ["one"]
    await ann.browser.submit(paused, "/feed/chosen/undo", undo=undo_of(paused))
    assert await ann.titles("/channel/home") == ["two", "one"]
    again = await ann.get((await ann.browser.submit(await ann.get(start), path, do="pause")).location)
    resumed = await ann.browser.submit(again, path, do="resume")
    assert (await ann.get(resumed.location)).tree.css_first(".result p").text() == "A blog is resumed."


async def test_an_unfollow_of_a_paused_feed_is_undone(ann: ReadingVisitor, server: World) -> None:
    """Its posts are there again, and unread; those that came during the pause still wait."""
    await ann.publish("zero")
    await ann.publish("one", "two", at=NOON + 50)
    feed = await feed_of(server)
    path = f"/feed/{feed}/settings?channel=home"
    await ann.browser.submit(await ann.get(path), "/feed/chosen", do="pause")
    await ann.publish("three", at=NOON + 100)
    before = await ann.titles("/channel/home")
    assert sorted(before) == ["one", "two", "zero"]
    reply = await ann.browser.submit(await ann.get("/channels/home"), "/channels/home/end", feed=feed)
    assert await ann.titles("/channel/home") == []
    page = await ann.get(reply.location)
    undo = page.tree.css_first("button[name=undo]").attributes["value"]
    await ann.browser.submit(page, "/channels/home/again", undo=undo)
    assert await ann.titles("/channel/home") == before
    assert (await own(server, feed)).paused


async def test_a_name_of_a_feed_turns_no_text_around(ann: ReadingVisitor, server: World) -> None:
    """Marks of direction in it would reverse the sentences that name the feed. It can be undone, and settings stay."""
    feed = await feed_of(server)
    reply = await save(ann, feed, name="Mine \u202e  and\tyours", hide_in_all="yes")
    follow = await server.channels.subscription("ann", "home", feed)
    assert follow is not None
    assert follow.name == "Mine and yours"
    page = await ann.get(reply.location)
    assert "The feed is called Mine and yours now." in page.text
    undo = page.tree.css_first("button[name=undo]").attributes["value"]
    page = await ann.get((await ann.browser.submit(page, "/feed/chosen/undo", undo=undo)).location)
    assert "Undone for https://blog.example/feed." in page.text
    follow = await server.channels.subscription("ann", "home", feed)
    assert follow is not None
    assert follow.name is None
    assert follow.settings.hide_in_all


async def test_posts_that_a_filter_left_out_stay_out(ann: ReadingVisitor, server: World) -> None:
    """A wider filter, or any other setting, is for new posts alone."""
    feed = await feed_of(server)
    await save(ann, feed, exclude_words="advert")
    await ann.publish("advert", "news")
    await save(ann, feed, exclude_words="", view="list")
    assert await ann.titles("/channel/home") == ["news"]


async def test_parts_of_a_day_stay(ann: ReadingVisitor, server: World) -> None:
    """Half a day, set by backend.json, isn't made forever by somebody who saves the page."""
    feed = await feed_of(server)
    await server.following.change("ann", "home", feed, server.now, settings=FollowSettings(keep_unread_days=0.5))
    await save(ann, feed, view="list")
    assert (await own(server, feed)).keep_unread_days == 0.5
    await save(ann, feed, keep_unread_days="0")
    assert (await own(server, feed)).keep_unread_days == 0


async def test_a_feed_in_all_and_in_saved(ann: ReadingVisitor, server: World) -> None:
    """Its page has working views there, and a way to its settings."""
    await ann.publish("one", "two")
    feed = await feed_of(server)
    ids = await ann.reader.ids("home")
    await ann.reader.post(action="timeline", method="save", **{"entry[]": ids})
    for path in (f"/feed/{feed}", f"/feed/{feed}?channel=saved"):
        page = await ann.get(path)
        (settings,) = (link.attributes["href"] for link in page.tree.css(".views a[href*=settings]"))
        assert (await ann.get(settings)).status == 200
        await ann.browser.submit(page, "/view", view="list")
        assert len((await ann.get(path)).tree.css(".row.list")) == 2, path


async def test_unfollowing_on_a_feeds_page_can_be_undone(ann: ReadingVisitor, server: World) -> None:
    """With its name and its settings, in the table of all feeds; that leads back to its page."""
    await ann.publish("one")
    feed = await feed_of(server)
    await save(ann, feed, name="Mine", hide_in_all="yes")
    page = await ann.get(f"/feed/{feed}/settings?channel=home")
    left = await ann.get((await ann.browser.submit(page, "/feed/chosen", do="unfollow")).location)
    assert left.title == "All feeds"
    assert "You no longer follow Mine." in left.text
    assert await server.channels.subscriptions("ann", "home") == []
    undo = left.form("/feed/chosen/undo").css_first("button").attributes["value"]
    again = await ann.get((await ann.browser.submit(left, "/feed/chosen/undo", undo=undo)).location)
    assert again.title == "Mine"
    assert "You follow Mine again." in again.tree.css_first("[role=status]").text()
    (again,) = await server.channels.subscriptions("ann", "home")
    assert (again.name, again.settings) == ("Mine", FollowSettings(hide_in_all=True))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("http: the server answered 401", "a user name and a password. Give them below"),
        ("http: the server answered 403", "a user name and a password, give them below"),
        ("http: the server answered 404", "new address, and give it below"),
        ("http: the server answered 503", "has a problem"),
        ("blocked: the address is private", "private network"),
        ("timeout: no answer", "in time"),
    ],
)
async def test_trouble_in_words_that_say_what_to_do(ann: ReadingVisitor, server: World, error: str, words: str) -> None:
    """One sentence for each kind of failure; it points to the fields of its page, and elsewhere to that page."""
    feed = await feed_of(server)
    site = {"home": "https://one.example/"}
    await server.feeds.update(feed, {"failures": "1", "last_error": error, "last_error_at": str(NOON), **site})
    page = await ann.get(f"/feed/{feed}/settings?channel=home")
    why, advice = (one.text() for one in page.tree.css(".about-feed .trouble"))
    assert why.startswith("The last check failed")
    assert words in advice
    assert "in its settings" not in advice
    assert page.tree.css_first(".about-feed a[href='https://one.example/']").attributes["target"] == "_blank"
    assert bool(page.tree.css(".trouble [href='#address']")) == (
        "address, and" in words and bool(page.tree.css("#address"))
    )
    assert bool(page.tree.css(".trouble [href='#sign-in']")) == (
        "password" in words and bool(page.tree.css("#sign-in"))
    )
    assert bool(page.tree.css("#sign-in"))


async def test_how_a_feed_is_asked_for(ann: ReadingVisitor, server: World) -> None:
    """Its only follower chooses until another user follows; then only an admin does, for all."""
    feed = await feed_of(server)
    path, shown = f"/feed/{feed}/requests", f"/feed/{feed}/settings?channel=home"
    await ann.browser.submit(await ann.get(shown), path, user_agent="browser", interval="30")
    record = await server.feeds.get(feed)
    assert record is not None
    assert chosen_policy(record) == FeedPolicy(1800, None, "browser")
    before = await ann.get(shown)
    await server.feeds.subscribe(feed, "ann", "other")
    await server.feeds.unsubscribe(feed, "ann", "other")
    record = await server.feeds.get(feed)
    assert record is not None
    assert chosen_policy(record) == FeedPolicy(1800, None, "browser")
    bob = await server.reader("bob", "home")
    await bob.post(action="follow", channel="home", url=FEED)
    record = await server.feeds.get(feed)
    assert record is not None
    assert chosen_policy(record) == FeedPolicy()
    assert (await ann.browser.submit(before, path, user_agent="")).status == 403
    assert (await ann.get(shown)).tree.css_first("#requests") is None
    await server.accounts.set_admin("ann", True)
    await ann.browser.submit(await ann.get(shown), path, user_agent="compatible", interval="60")
    carl = await server.reader("carl", "home")
    await carl.post(action="follow", channel="home", url=FEED)
    record = await server.feeds.get(feed)
    assert record is not None
    assert chosen_policy(record) == FeedPolicy(3600, None, "compatible")
    await ann.browser.submit(await ann.get(shown), path, user_agent="", interval="")
    record = await server.feeds.get(feed)
    assert record is not None
    assert chosen_policy(record) == FeedPolicy()


@pytest.mark.parametrize(
    "path", ["/feed/{}/settings?channel=home", "/feed/{}/settings", "/feed/x/settings", "/feed/0/settings"]
)
async def test_feeds_of_others_are_not_shown(ann: ReadingVisitor, server: World, path: str) -> None:
    """Neither by id nor with a name of one's own channel."""
    bob = await server.reader("bob", "home")
    await server.publish(OTHER, *posts("secret"), title="Secret blog")
    await bob.post(action="follow", channel="home", url=OTHER)
    page = await ann.get(path.format(await feed_of(server, OTHER)))
    assert (page.status, "Secret blog" in page.text) == (404, False)


async def test_a_channel_unfolds_to_its_feeds(ann: ReadingVisitor, server: World) -> None:
    """By name, with unread counts, as a page and as the part that the sidebar fetches."""
    await ann.publish("one", "two")
    await server.publish(OTHER, title="Another")
    await ann.reader.post(action="follow", channel="home", url=OTHER)
    link = (await ann.get("/channel/home")).tree.css_first("#channels [data-branch]")
    assert link.attributes["href"] == "/channels/home/feeds"
    for path in ("/channels/home/feeds", "/channels/home/feeds?part=1"):
        page = await ann.get(path)
        rows = page.tree.css(".branch li")
        assert [" ".join(row.text().split()) for row in rows] == ["AA blog2 unread", "AAnother"], path
        names = [row.css_first(".name") for row in rows]
        assert [name.attributes["title"] for name in names] == ["A blog", "Another"], "they may be cut"
        assert ["none" in (row.attributes.get("class") or "") for row in rows] == [False, True]
    ids = await ann.reader.ids("home")
    await ann.reader.post(action="timeline", method="mark_read", channel="home", **{"entry[]": ids[:1]})
    assert (await ann.get("/channels/home/feeds?part=1")).tree.css_first(".count").text() == "1 unread"
    assert (await ann.get("/channels/nowhere/feeds?part=1")).status == 404
    for reason in ({"failures": "1"}, {"failures": "0", "gone": "1"}, {"gone": ""}):
        await server.feeds.update(await feed_of(server, OTHER), reason)
        signs = [row.css_first(".attention") for row in (await ann.get("/channels/home/feeds?part=1")).tree.css("li")]
        said = ["" if sign is None else " ".join(sign.text().split()) for sign in signs]
        assert said == ["", "" if reason == {"gone": ""} else "! Can’t be read"], "the lines say which feeds fail"


async def test_the_cost_of_hundreds_of_feeds_in_the_sidebar(real_redis: Redis) -> None:
    """Two round trips after the session, whatever the number of feeds."""
    redis = InRow(real_redis)
    async with instance(redis, base_url=ADDRESS) as server:
        ann = await reading(server, "ann", "home")
        for number in range(300):
            url = f"https://n{number}.example/feed"
            feed = await server.feeds.ensure(url, server.now)
            await server.channels.follow("ann", "home", feed.id, url, server.now)
        await ann.publish(*(f"p{number}" for number in range(50)))
        await ann.get("/channels/home/feeds?part=1")
        redis.rows.clear()
        page = await ann.get("/channels/home/feeds?part=1")
        assert len(page.tree.css(".branch li")) == 301
        assert len(redis.rows) <= 4, "one of them reads settings that a server remembers"
        await ann.browser.aclose()


async def test_all_feeds_as_a_table(ann: ReadingVisitor, server: World) -> None:
    """It sorts by each column; a feed in trouble comes first by its own."""
    await ann.publish("one")
    await server.publish(OTHER, title="Zebra")
    await server.channels.create("ann", "Later", server.now, "later")
    await ann.reader.post(action="follow", channel="later", url=OTHER)
    broken = await feed_of(server, OTHER)
    await server.feeds.update(broken, {"failures": "2", "last_error": "http: the server answered 404"})

    async def names(sort: str) -> list[str]:
        page = await ann.get(f"/feed?sort={sort}")
        assert page.tree.css_first(f"[aria-sort] a[href='/feed?sort={sort}']") is not None
        return [row.text() for row in page.tree.css("#feeds tbody th")]

    assert await names("name") == await names("channel") == ["A blog", "Zebra"]
    assert await names("trouble") == ["Zebra", "A blog"]
    assert sorted(await names("posts")) == sorted(await names("last")) == ["A blog", "Zebra"]
    page = await ann.get("/feed?sort=nonsense")
    assert "answered 404" in page.text
    posts, settings = [f"/feed/{broken}{of}?channel=later" for of in ("", "/settings")]
    assert page.tree.css_first(f"tbody th [href='{posts}']").text() == "Zebra"
    assert page.tree.css_first(f"tbody td [href='{settings}']").text() == "Settings of Zebra"


async def test_the_page_of_posts_says_why_its_feed_cant_be_read(ann: ReadingVisitor, server: World) -> None:
    """And what can be done, with and without posts; the reason is that of the table of all feeds."""
    feed = await feed_of(server)
    for name in ("", "one"):
        await server.publish(FEED, *posts(*filter(None, [name])))
        await server.feeds.update(feed, {"failures": "2", "last_error": "http: the server answered 404"})
        why = (await ann.get(f"/feed/{feed}?channel=home")).tree.css_first("main .trouble")
        shown = why.parent
        assert not (await ann.get(f"/feed/{feed}?channel=home")).tree.css(".empty a")
        assert " ".join(shown.text().split()) == (
            "The server answered 404. There is nothing at its address any more. "
            "Look on its site for the new address, and give it in its settings, under “Address”. Feed settings"
        )
        assert shown.css_first("a").attributes["href"] == f"/feed/{feed}/settings?channel=home"
        table = (await ann.get("/feed")).tree.css_first("tbody .trouble")
        assert why.text() == table.text()
        await server.feeds.update(feed, {"gone": "1"})
        assert "permanently gone" in (await ann.get(f"/feed/{feed}")).tree.css_first("main .trouble").text()
        await server.feeds.update(feed, {"failures": None, "gone": None})
        assert not (await ann.get(f"/feed/{feed}")).tree.css("main .trouble")


async def test_a_feed_of_others_gives_no_reason(ann: ReadingVisitor, server: World) -> None:
    """The reason may name addresses that only its followers know; no cursor leads there."""
    secret = await server.feeds.ensure("https://private.example/token/feed", server.now)
    await server.feeds.update(
        secret.id, {"failures": "2", "last_error": "parse: it names https://private.example/token"}
    )
    for cursor in ("", f"?after={Cursor('1700000000', '1').encode()}", f"?before={Cursor('1700000000', '1').encode()}"):
        page = await ann.get(f"/feed/{secret.id}{cursor}")
        assert "private.example" not in page.text
        assert not page.tree.css("main .trouble")


async def test_feeds_in_natural_order(ann: ReadingVisitor, server: World) -> None:
    """Numbers in names count as numbers, and accents don't matter: in the table, the sidebar and the channel."""
    names = ["Feed 2", "feed 10", "Österreich", "Otto"]
    for number, name in enumerate(reversed(names)):
        url = f"https://n{number}.example/feed"
        await server.publish(url, title=name)
        await ann.reader.post(action="follow", channel="home", url=url)
    for path, selector in (("/feed", "tbody th"), ("/channels/home/feeds", "main .name"), ("/channels/home", "h3")):
        shown = [node.text().strip() for node in (await ann.get(path)).tree.css(selector)]
        assert [name for name in shown if name in names] == names, path
    channels = ["News 10", "News 9"]
    for number, name in enumerate(channels):
        await server.channels.create("ann", name, server.now, f"news-{number}")
        await ann.reader.post(action="follow", channel=f"news-{number}", url=OTHER)
    page = await ann.get("/feed?sort=channel")
    assert [node.text() for node in page.tree.css("tbody td:nth-child(4)")][-2:] == ["News 9", "News 10"]


async def test_a_filter_of_many_words_looks_once_at_each_name(
    ann: ReadingVisitor, server: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter of a hundred words, repeated or not, folds a name once: thousands of feeds delay nobody else."""
    folded = []

    class Name(str):
        __slots__ = ()

        def casefold(self) -> str:
            folded.append(str(self))
            return super().casefold()

    monkeypatch.setattr("microsub.timelines.follow.feed_name", lambda *_: Name("A blog of a b c"))
    words = "+".join(["a", "b", "c", "blog", *["a"] * 90])
    assert "A blog of a b c" in (await ann.get(f"/feed?q={words}")).text
    assert folded == ["A blog of a b c"]


async def test_all_feeds_filtered_by_name(ann: ReadingVisitor, server: World) -> None:
    """All words of the filter are in the name, in any case; order, choice, action and undo keep it."""
    for number, name in enumerate(["Big News", "news of the day", "Zebra"]):
        url = f"https://n{number}.example/feed"
        await server.publish(url, title=name)
        await ann.reader.post(action="follow", channel="home", url=url)

    async def found(path: str) -> tuple[list[str], str]:
        page = await ann.get(path)
        return [row.text() for row in page.tree.css("#feeds tbody th")], page.tree.css_first("#found").text()

    assert await found("/feed?q=NEWS") == (["Big News", "news of the day"], "2 of 4 feeds match")
    assert await found("/feed?q=day+news") == (["news of the day"], "1 of 4 feeds matches")
    assert await found("/feed?q=%3Cb%3E") == ([], "0 of 4 feeds match")
    assert (await found("/feed?q=+"))[1] == "4 feeds"
    page = await ann.get("/feed?q=news&sort=posts")
    assert page.tree.css_first("#filter [name=q]").attributes["value"] == "news"
    assert page.tree.css_first("#filter [name=sort]").attributes["value"] == "posts"
    assert page.tree.css_first("[data-all]").attributes["href"] == "/feed?sort=posts&from=0&all=1&q=news"
    assert page.tree.css_first("thead th:nth-child(4) a").attributes["href"] == "/feed?sort=channel&q=news"
    box = page.tree.css_first("[name=feed]").attributes["value"]
    fields = {**fields_of(page.form("/feed/chosen")), "feed": box, "do": "pause"}
    done = await ann.get((await ann.browser.post("/feed/chosen", fields)).location)
    assert len(done.tree.css("#feeds tbody th")) == 2
    undo = done.form("/feed/chosen/undo").css_first("button").attributes["value"]
    undone = await ann.get((await ann.browser.submit(done, "/feed/chosen/undo", undo=undo)).location)
    assert len(undone.tree.css("#feeds tbody th")) == 2
    refused = await ann.browser.post("/feed/chosen", {**fields, "do": ""})
    assert (refused.status, len(refused.tree.css("#feeds tbody th"))) == (400, 2)


@pytest.mark.parametrize("reason", ["gone", "unreadable"])
async def test_a_feed_without_a_future_is_left_where_it_is_named(
    ann: ReadingVisitor, server: World, reason: Literal["gone", "unreadable"]
) -> None:
    """In the notice, and in the table if its publisher has ended it; each time with an undo."""
    record = await server.feeds.ensure(FEED, server.now)
    await server.feeds.update(record.id, {"gone": "1"} if reason == "gone" else {"failures": "9"})
    told = notifications(server, server.ingest)
    await notify_followers(
        server.feeds, server.channels, told, server.effective.of, record, Trouble(reason, since=NOON)
    )
    await server.stages.run_once()
    (notice,) = ids(await ann.get("/channel/notifications"))
    pages = [f"/post/{notice}", "/feed"] if reason == "gone" else [f"/post/{notice}"]
    for path in pages:
        page = await ann.get(path)
        assert page.tree.css("[data-full-text]") == []  # the feed has no more of a text that is the server's
        button = page.tree.css_first("main [name=do][value=unfollow][type=hidden] ~ button, [form=unfollow]")
        fields = fields_of(page.form("/feed/chosen", do="unfollow"))
        reply = await ann.browser.post("/feed/chosen", {**fields, "feed": button.attributes["value"]})
        done = await ann.get(reply.location)
        assert "You no longer follow" in done.text
        assert await server.channels.follows("ann", "home", record.id) is False
        undo = done.form("/feed/chosen/undo").css_first("button").attributes["value"]
        await ann.browser.submit(done, "/feed/chosen/undo", undo=undo)
        assert await server.channels.follows("ann", "home", record.id)
    await ann.reader.post(action="unfollow", channel="home", url=FEED)
    refused = await ann.browser.post("/feed/chosen", {**fields, "feed": record.id})
    assert "You don’t follow this feed." in refused.text
    assert (await ann.get(f"/feed/{record.id}/settings")).status == 404


async def test_only_notices_of_this_server_offer_to_unfollow_a_feed(ann: ReadingVisitor, server: World) -> None:
    """A feed that is followed in `notifications` can't make such a button with the ids of its posts."""
    record = await server.feeds.ensure(FEED, server.now)
    await server.follow_unscheduled(OTHER, "ann", "notifications")
    entry = Entry(uid=f"gone:{record.id}:5", name="A blog is gone", post_type="article", url="https://other.example/1")
    await server.publish(OTHER, candidate("1", wire=dump(to_wire(entry))))
    page = await ann.get("/channel/notifications")
    assert titles(page) == ["A blog is gone"]
    for path in ("/channel/notifications", f"/post/{ids(page)[0]}"):
        assert not (await ann.get(path)).tree.css("[action$='/feed/chosen']")


async def test_a_refresh_overtakes_no_feed_that_has_waited(ann: ReadingVisitor, server: World) -> None:
    """Of the same host: those that have just become due let it pass."""
    urls = {name: f"https://hoster.example/{name}" for name in ("waited", "asked", "due")}
    for url in urls.values():
        await ann.reader.post(action="follow", channel="home", url=url)
    feeds = {one.url: one.feed for one in await server.channels.subscriptions("ann", "home")}
    times = {"waited": server.now - 300, "asked": server.now + 3600, "due": server.now - 5}
    place = keys.host_due("hoster.example")
    await server.redis.pipeline([("ZADD", place, times[name], feeds[url]) for name, url in urls.items()])
    settings = f"/feed/{feeds[urls['asked']]}/settings"
    done = await ann.browser.submit(await ann.get(settings), settings.replace("settings", "refresh"))
    assert (done.status, "asked=yes" in done.location) == (303, True)
    assert texts(await server.redis.command("ZRANGE", place, 0, -1)) == [feeds[url] for url in urls.values()]


async def test_all_feeds_are_refreshed_in_turns(ann: ReadingVisitor, server: World) -> None:
    """Those that wait longest first, but none that was polled lately, or whose publisher wants a pause. The table says
    how many still wait.
    """
    now, count = server.now, 130
    for number in range(count):
        await ann.reader.post(action="follow", channel="home", url=f"https://n{number}.example/feed")
    (written,) = [one for one in await server.channels.subscriptions("ann", "home") if one.url == FEED]
    await ann.reader.post(action="unfollow", channel="home", url=written.url)
    hosts = {one.feed: host_of(one.url) for one in await server.channels.subscriptions("ann", "home")}
    for place, (feed, host) in enumerate(hosts.items()):
        await server.feeds.update(feed, {"last_poll": str(now - 4000 + place)})
        await server.redis.command("DEL", keys.host_due(host))
    recent, held, *_, last = hosts
    await server.feeds.update(recent, {"last_poll": str(now - 60)})
    await server.feeds.update(held, {"hold_until": str(now + 500)})
    page = await ann.get("/feed")
    done = await ann.browser.submit(page, "/feed/refresh")
    assert done.status == 303
    scores = {feed: await server.redis.command("ZSCORE", keys.host_due(host), feed) for feed, host in hosts.items()}
    due = [None if score is None else float(score) - now for score in scores.values()]
    assert due == [None, None, *[0.0] * 20, *[5.0] * 100, *[10.0] * (count - 122)]
    shown = (await ann.get(done.location)).text
    assert f"{count - 2} still wait." in shown
    assert (
        "1 feed is left out, since it was asked less than five minutes before. It can be asked again in 4 min." in shown
    )
    for feed in hosts:
        await server.feeds.update(feed, {"last_poll": str(now)} if feed != last else {})
    assert "1 still waits." in (await ann.get(done.location)).text
    await server.feeds.update(last, {"last_poll": str(now + 10)})
    assert (
        "Your feeds have been refreshed, except those whose host asked for a pause."
        in (await ann.get(done.location)).text
    )
    assert (await ann.browser.submit(page, "/feed/refresh")).status == 429


async def test_a_refresh_says_that_all_feeds_were_asked_just_before(ann: ReadingVisitor, server: World) -> None:
    """And when they can be asked again; not that they have been refreshed."""
    await ann.reader.post(action="follow", channel="home", url=OTHER)
    for url, ago in ((FEED, 200), (OTHER, 100)):
        await server.feeds.update(await feed_of(server, url), {"last_poll": str(server.now - ago)})
    done = await ann.browser.submit(await ann.get("/feed"), "/feed/refresh")
    said = (await ann.get(done.location)).tree.css_first("#refreshing").text().strip()
    left = "2 feeds are left out, since they were asked less than five minutes before."
    assert said == f"{left} They can be asked again in 3 min."
    server.now += 201
    said = (await ann.get(done.location)).tree.css_first("#refreshing").text().strip()
    assert said == left


async def test_selectors_of_full_texts_are_kept_and_tried(ann: ReadingVisitor, server: World) -> None:
    """The preview stores nothing and gives the reason of a missing text; a wrong selector is refused with its place."""
    feed = await feed_of(server)
    saved = await save(ann, feed, article="article .text", article_without=".share")
    assert "The latest posts are read again" in (await ann.get(saved.location)).tree.css_first("[role=status]").text()
    saved = await save(ann, feed, article="article .text", article_without=".share", view="list")
    assert (await ann.get(saved.location)).tree.css_first("[role=status]").text() == "Saved."
    await server.channels.create("ann", "Later", server.now, "later")
    moved = await ann.get((await save(ann, feed, to="later", article="main")).location)
    said = [one.text() for one in moved.tree.css("[role=status] p, p[role=status]")]
    assert "The latest posts are read again" in said[0]
    assert said[1].endswith("is now in Later.")
    await save(ann, feed, "later", to="home", article="article .text")
    await save(ann, feed, view="")
    assert (await own(server, feed)).article == "article .text"
    page = await ann.get(f"/feed/{feed}/settings")
    places = [one.attributes["formaction"] for one in page.tree.css("button[name=show], button[name=try]")]
    assert places == [f"/feed/{feed}/settings#{place}" for place in ("shown", "trial")]
    tried = await ann.browser.submit(page, f"/feed/{feed}/settings", exclude_words="One", **{"try": "1"})
    assert tried.tree.css_first("#trial").attributes["tabindex"] == "-1", "a browser gives it the focus"
    tried = await ann.browser.submit(page, f"/feed/{feed}/settings", article="main", show="1")
    assert "None of its latest posts is an article with a page of its own." in tried.text
    assert fields_of(tried.form(f"/feed/{feed}/settings"))["article"] == "main"
    await ann.publish_entry(
        Entry(name="One", url="https://blog.example/one", post_type="article", content=Content(text="words"))
    )
    tried = await ann.browser.submit(page, f"/feed/{feed}/settings", article="main", show="1")
    assert tried.tree.css_first("#shown h3").text() == "One"
    assert tried.tree.css_first(".sample .trouble") is not None
    for bad, said in (("a{b", "there is an error at character 2"), ("p:foo", "can’t be used as a CSS selector.")):
        refused = await ann.browser.submit(page, f"/feed/{feed}/settings", article=bad)
        assert (refused.status, said in refused.text) == (400, True)
    assert (await own(server, feed)).article == "article .text"
    await save(ann, feed, article="", article_without="")
    assert not await own(server, feed)


NEW_ADDRESS = "https://blog.example/new-feed"
DOCUMENT = b"<rss version='2.0'><channel><title>The blog</title></channel></rss>", "application/rss+xml"


async def new_address(ann: ReadingVisitor, feed: str, url: str, **more: str) -> Shown:
    """Sends the form with another address of a feed."""
    page = await ann.get(f"/feed/{feed}/settings?channel=home")
    return await ann.browser.submit(page, f"/feed/{feed}/address#address", url=url, **more)


async def test_a_feeds_address_is_changed_and_changed_back(ann: ReadingVisitor, server: World) -> None:
    """In all channels of the user, with name, settings and posts; other followers keep theirs."""
    ben = await reading(server, "ben", "home")
    await ann.reader.post(action="follow", channel="later", url=FEED)
    await ann.publish("one", "two")
    await ann.change(await ann.get("/channel/home"), "read", (await ann.reader.ids("home"))[0])
    feed = await feed_of(server)
    await save(ann, feed, name="Mine", hide_in_all="yes", exclude_words="dull")
    follow = await server.channels.subscription("ann", "home", feed)
    assert follow is not None
    server.web.documents[NEW_ADDRESS] = DOCUMENT
    await server.publish(NEW_ADDRESS, *posts("three"), title="The blog")
    page = await ann.get(f"/feed/{feed}/settings?channel=home")
    assert page.form(f"/feed/{feed}/address#address").css_first("#url").attributes["value"] == FEED
    changed = await ann.get((await new_address(ann, feed, NEW_ADDRESS)).location)
    assert "Mine is followed at its new address now. Its posts so far stay." in changed.text
    instead = await feed_of(server, NEW_ADDRESS)
    for uid in ("home", "later"):
        (now,) = await server.channels.subscriptions("ann", uid)
        assert (now.feed, now.url, now.followed_at) == (instead, NEW_ADDRESS, follow.followed_at)
    (now,) = await server.channels.subscriptions("ann", "home")
    assert (now.name, now.settings) == (follow.name, follow.settings)
    assert sorted(await ann.titles("/channel/home?show=all")) == ["one", "three", "two"]
    assert [one.feed for one in await server.channels.subscriptions("ben", "home")] == [feed]
    assert await server.feeds.subscribers(feed) == [("ben", "home")]
    assert await ben.titles("/channel/home") == ["one", "two"]
    undo = changed.form("/feed/chosen/undo").css_first("button").attributes["value"]
    undone = await ann.get((await ann.browser.submit(changed, "/feed/chosen/undo", undo=undo)).location)
    assert undone.form(f"/feed/{feed}/address#address").css_first("#url").attributes["value"] == FEED
    assert "Undone for Mine." in undone.tree.css_first("[role=status]").text()
    for uid in ("home", "later"):
        assert [(one.feed, one.url) for one in await server.channels.subscriptions("ann", uid)] == [(feed, FEED)]
    assert await server.channels.subscription("ann", "home", feed) == replace(follow, first_feed=feed)
    assert sorted(await ann.titles("/channel/home?show=all")) == ["one", "two"]
    assert await server.feeds.subscribers(instead) == []


async def test_addresses_that_cant_be(ann: ReadingVisitor, server: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason stands above the form, which keeps the entered address; nothing changes."""
    feed = await feed_of(server)
    server.web.documents |= {OTHER: DOCUMENT, FEED: DOCUMENT}
    await ann.reader.post(action="follow", channel="home", url=OTHER)
    before = await server.channels.subscriptions("ann", "home")
    for url, said in {
        OTHER: "You already follow the feed at this address in Home.",
        FEED: "This is the feed’s address already.",
        "https://nowhere.example/feed": "The host can't be reached",
        "ftp://blog.example/feed": "expected the address of an author's page or of a feed",
    }.items():
        page = await new_address(ann, feed, url)
        assert (page.status, said in page.tree.css_first("[role=alert]").text()) == (400, True), page.text
        assert page.tree.css_first("#url").attributes["value"] == url
    for failure, said in (
        (("private", "127.0.0.1 isn't a public address"), "isn't a public address"),
        (("http", "the server answered 401"), "asks for a user name and a password"),
    ):

        async def refused(request: FetchRequest, of: tuple[str, str] = failure) -> FetchFailed:
            return FetchFailed(request.url, *of, status=401 if of[0] == "http" else None)  # type: ignore[arg-type]

        monkeypatch.setattr(server.web, "fetch", refused)
        assert said in (await new_address(ann, feed, f"https://{failure[0]}.example/")).text
    assert await server.channels.subscriptions("ann", "home") == before


async def test_an_address_with_several_feeds_asks_which(ann: ReadingVisitor, server: World) -> None:
    """The chosen one is followed."""
    feed = await feed_of(server)
    links = "".join(f"<link rel=alternate type=application/rss+xml href=/{one} title={one}>" for one in ("a", "b"))
    server.web.documents["https://new.example/"] = f"<html><title>New</title>{links}</html>".encode(), "text/html"
    page = await new_address(ann, feed, "https://new.example/")
    assert "2 feeds found" in page.text
    chosen = await ann.browser.submit(page, f"/feed/{feed}/address#address", found="https://new.example/b")
    assert chosen.location.startswith(f"/feed/{await feed_of(server, 'https://new.example/b')}/settings")
