"""How channels look: list, cards or whole posts, order and headings, kept with the account."""

from __future__ import annotations

from microsub.base.clock import DAY, HOUR
from microsub.model.jf2 import Content, Entry
from microsub.redis import keys
from microsub.redis.protocol import Redis
from tests.reader.conftest import ReadingVisitor, ids, titles
from tests.support.posts import NOON
from tests.support.readers import OTHER
from tests.support.visitor import Shown, Visitor, begin_session, fields_of

LONG = "Words of a long story. " * 100


async def choose(ann: ReadingVisitor, path: str = "/channel/home", **chosen: str) -> Shown:
    """Presses a button of the page's form; the page that it leads to."""
    (name, value) = next(iter(chosen.items()))
    sent = await ann.change(await ann.get(path), name, value, "/view")
    return await ann.get(sent.location)


def groups(page: Shown) -> list[str]:
    return [node.text().strip() for node in page.tree.css(".post .group")]


async def test_a_list_has_a_line_for_each_post(ann: ReadingVisitor) -> None:
    """Title, beginning, feed and age, without the body; a post without a title is called by its beginning."""
    await ann.publish_entry(Entry(guid="a", name="A title", content=Content(html=f"<p>{LONG}</p>", text=LONG)))
    await ann.publish_entry(Entry(guid="b", content=Content(text="Only a note.")), at=NOON + HOUR)
    page = await choose(ann, view="list")
    assert titles(page) == ["Only a note.", "A title"]
    assert [len(node.text()) for node in page.tree.css(".post .lead")] == [len(LONG[:320].rpartition(" ")[0]) + 2]
    assert not page.tree.css(".post .content")
    assert [node.attributes.get("href") for node in page.tree.css(".post h2 a")] == [
        f"/post/{id_}" for id_ in ids(page)
    ]
    assert all(node.attributes["title"] for node in page.tree.css(".post .from time"))


async def test_each_channel_keeps_its_view_in_all_browsers(ann: ReadingVisitor) -> None:
    """A channel without a choice of its own has the last one."""
    await ann.reader.post(action="channels", name="Second")
    await choose(ann, view="cards")
    await choose(ann, "/channel/second", view="list")
    other = Visitor(ann.server.app, ann.browser.address)
    await begin_session(other, ann.server)
    pressed = "form[action='/view'] [aria-pressed=true]"
    for path, view in (("/channel/home", "cards"), ("/channel/second", "list"), ("/", "list")):
        shown = [node.attributes["value"] for node in (await other.get(path)).tree.css(pressed)]
        assert shown == [view, "newest", "none"], path


async def test_a_channel_begins_with_its_oldest_posts(ann: ReadingVisitor) -> None:
    """The order is the channel's; others keep theirs, which is that of the display settings until one is chosen."""
    await ann.publish("b", "a")
    assert titles(await choose(ann, order="oldest")) == ["a", "b"]
    assert titles(await choose(ann, "/channel/home?show=all", order="oldest")) == ["a", "b"]
    assert titles(await ann.get("/")) == ["b", "a"]
    assert titles(await choose(ann, order="newest")) == ["b", "a"]


async def test_posts_stand_under_days_or_feeds(ann: ReadingVisitor) -> None:
    """A heading before the first post of each; by feed, the feeds in the order of their newest posts."""
    await ann.reader.post(action="follow", channel="home", url=OTHER)
    await ann.publish("c", at=NOON)
    await ann.publish("b", at=NOON - HOUR, feed=OTHER)
    await ann.publish("a", at=NOON - DAY)
    everything = "/channel/home?show=all"
    page = await choose(ann, everything, group="day")
    assert titles(page) == ["c", "b", "a"]
    assert len(groups(page)) == 2
    page = await choose(ann, everything, group="feed")
    assert titles(page) == ["c", "a", "b"]
    assert len(groups(page)) == 2
    assert fields_of(page.form("/marks"))["page"].split(",") == ids(page)
    assert groups(await choose(ann, group="none")) == []


async def test_unknown_choices_change_nothing(ann: ReadingVisitor, redis: Redis) -> None:
    """Nor does a channel that the user doesn't have leave anything."""
    page = await ann.get("/channel/home")
    await ann.change(page, "view", "poster", "/view")
    await ann.change(page, "order", "random.list", "/view")
    stored = await redis.command("HGETALL", keys.displays("ann"))
    assert set(stored[1::2]) == {b"full..none"}
    sent = await ann.browser.post("/view", {**fields_of(page.form("/view")), "channel": "nobody", "view": "list"})
    assert sent.status == 303
    assert await redis.command("HEXISTS", keys.displays("ann"), "nobody") == 0


async def test_displays_of_deleted_channels_are_deleted(ann: ReadingVisitor, redis: Redis) -> None:
    """With the next choice."""
    await ann.reader.post(action="channels", name="Second")
    await choose(ann, "/channel/second", view="list")
    await ann.reader.post(action="channels", method="delete", channel="second")
    await choose(ann, view="cards")
    assert await redis.command("HEXISTS", keys.displays("ann"), "second") == 0


async def test_a_damaged_display_is_the_usual_one(ann: ReadingVisitor, redis: Redis) -> None:
    """The page is shown."""
    await ann.publish("a")
    for stored in ("", "list", "x.y.z.w", "....", "list.oldest.day.more"):
        await redis.command("HSET", keys.displays("ann"), "home", stored)
        assert titles(await ann.get("/channel/home")) == ["a"]


async def test_lines_of_posts_without_titles(ann: ReadingVisitor) -> None:
    """They say what the post does, or its beginning; a single file isn't called by its host."""
    two = ("https://a.example/v.mp4", "https://b.example/v.mp4")
    await ann.publish_entry(Entry(guid="a", like_of=("https://a.example/liked",)))
    await ann.publish_entry(Entry(guid="b", video=two[:1], content=Content(text="Words.")), at=NOON + HOUR)
    await ann.publish_entry(Entry(guid="c", name="Two", video=two), at=NOON + 2 * HOUR)
    page = await choose(ann, view="list")
    lines = {row.css_first("h2").text(strip=True): row for row in page.tree.css(".row")}
    assert [*lines] == ["Two", "Words.", "Likes https://a.example/liked"]
    assert ["untitled" in (row.attributes["class"] or "") for row in lines.values()] == [False, True, True]
    posts = [await ann.get(f"/post/{row.attributes['data-id']}") for row in lines.values()]
    files = [[link.text(strip=True) for link in one.tree.css(".files a")] for one in posts]
    assert files == [["▶ Video: a.example", "▶ Video: b.example"], ["▶ Video"], []]
    assert posts[1].tree.css_first("video").attributes["aria-label"]


async def test_an_empty_feed_leads_to_its_condition(ann: ReadingVisitor) -> None:
    """Its page may say why there is nothing."""
    silent = "https://silent.example/feed"
    feed = (await ann.server.following.follow("ann", "home", silent, ann.server.now)).subscription.feed
    page = await ann.get(f"/feed/{feed}?channel=home")
    (link,) = page.tree.css(".empty a")
    assert link.attributes["href"] == f"/feed/{feed}/settings?channel=home"
