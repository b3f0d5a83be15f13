"""The page of a search: its number of posts, order, marks, the user's feeds, and searches kept in the channel list."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl

import pytest

from microsub.base.clock import DAY
from microsub.model.reader import MOST_KEPT, MOST_OF_KEPT, MOST_OF_QUERY
from microsub.reader.places import TimelinePlace
from microsub.search import post_search
from microsub.server.app import create_app
from tests.search.conftest import FEED, Replica
from tests.support.posts import NOON
from tests.support.readers import Reader, posts
from tests.support.visitor import Shown, Visitor, begin_session, fields_of
from tests.support.world import World

KEPT = "#channels ul[aria-labelledby=kept] a"


async def browser_of(server: World, user: str = "alice") -> Visitor:
    browser = Visitor(create_app(server.parts, base_url="https://reader.example"), "https://reader.example")
    await begin_session(browser, server, user)
    return browser


@pytest.fixture
async def browser(alice: Reader, server: World) -> Visitor:
    """Alice's browser."""
    return await browser_of(server)


def titles(page: Shown) -> list[str]:
    return [" ".join(node.text().split()) for node in page.tree.css(".post h2")]


def marked(page: Shown, place: str = "main") -> list[str]:
    return [node.text() for node in page.tree.css(f"{place} mark")]


def kept(page: Shown) -> list[tuple[str, str]]:
    return [(node.css_first(".name").text(), node.attributes["href"] or "") for node in page.tree.css(KEPT)]


async def keep(browser: Visitor, path: str, name: str) -> Shown:
    sent = await browser.submit(await browser.get(path), "/search/keep", name=name)
    return await browser.get(sent.location)


async def test_a_search_says_how_many_posts_it_finds(
    browser: Visitor, server: World, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to a limit; in both orders, and in the state that is asked for."""
    await server.publish(FEED, *posts(*(f"tide {number}" for number in range(30)), "fog"))
    assert await replica.follower().build()

    async def said(path: str) -> str:
        found = (await browser.get(path)).tree.css_first("#found")
        return found.text() if found else ""

    assert await said("/search?q=fog") == "1 post"
    assert await said("/search?q=tide") == "30 posts"
    assert await said("/search?q=tide&sort=relevance") == "30 posts"
    assert await said("/search?q=tide+is:read") == "0 posts"
    assert await said("/search?q=nothing") == "0 posts"
    assert await said("/search?q=tide&channel=later") == "0 posts"
    page = await browser.get("/search?q=tide")
    older = page.tree.css_first("#older a").attributes["href"] or ""
    assert await said(older) == ""
    monkeypatch.setattr(post_search, "MOST_COUNTED", 10)
    assert await said("/search?q=tide") == "More than 10 posts"
    assert await said("/search?q=tide&sort=relevance") == "More than 10 posts"
    assert len(titles(await browser.get("/search?q=tide"))) == 20


async def test_apps_get_the_number_if_they_ask(alice: Reader, server: World, replica: Replica) -> None:
    """Other replies are as before."""
    await server.publish(FEED, *posts("tide one", "tide two"))
    assert await replica.follower().build()
    asked = {"action": "search", "channel": "home", "query": "tide"}
    assert "_found" not in await alice.get(**asked)
    assert (await alice.get(**asked, count="true", limit=1))["_found"] == {"count": 2, "more": False}
    await alice.get(400, **asked, count="many")


async def test_posts_are_sorted_by_time_or_relevance(browser: Visitor, server: World, replica: Replica) -> None:
    """The links for both keep the search, and further pages the order."""
    await server.publish(
        FEED, *posts("news", text="a long text in which a tide comes once, and much else beside it", at=NOON + 900),
        *posts("tide", text="tide and tide", at=NOON - DAY),
    )  # fmt: skip
    assert await replica.follower().build()
    page = await browser.get("/search?q=tide&channel=home")
    assert titles(page) == ["news", "tide"]
    ways = {node.text(): node.attributes["href"] or "" for node in page.tree.css(".views a")}
    assert titles(await browser.get(ways["Best first"])) == ["tide", "news"]
    assert titles(await browser.get(ways["Newest first"])) == ["news", "tide"]
    await server.publish(FEED, *posts(*(f"tide {number}" for number in range(20)), at=NOON - DAY))
    assert await replica.follower().build()
    page = await browser.get(ways["Best first"])
    older = page.tree.css_first("#older a").attributes["href"] or ""
    assert "sort=relevance" in older
    assert not {*titles(page)} & {*titles(await browser.get(older))}


async def test_words_are_marked_in_the_list_and_in_the_post(browser: Visitor, server: World, replica: Replica) -> None:
    """In each view, and on the post's own page, whose way back leads to the search."""
    await server.publish(FEED, *posts("A Tide", text="the tide & <b> the fog"))
    assert await replica.follower().build()
    for view in ("list", "cards", "full"):
        page = await browser.get("/search?q=tide")
        button = {**fields_of(page.form("/view")), "view": view}
        assert (await browser.post("/view", button)).status == 303
        page = await browser.get("/search?q=tide")
        assert marked(page, "h2") == ["Tide"]
        assert marked(page) == ["Tide", "tide"]
    post = await browser.get(page.tree.css_first(".post h2 a").attributes["href"] or "")
    assert marked(post, "h1") == ["Tide"]
    assert marked(post, ".content") == ["tide"]
    assert (post.tree.css_first(".back a").attributes["href"], titles(page)) == ("/search?q=tide", ["A Tide"])
    bare = await browser.get(f"/post/{post.tree.css_first('.post').attributes['data-id']}")
    assert marked(bare) == []
    assert bare.tree.css_first(".back a").attributes["href"] == "/channel/home"
    for words in ("%22", "x" * 3 * MOST_OF_QUERY, "is:unread"):
        path = f"/post/{post.tree.css_first('.post').attributes['data-id']}?q={words}"
        assert marked(await browser.get(path)) == []


async def test_feeds_are_found_beside_posts(browser: Visitor, alice: Reader, server: World, replica: Replica) -> None:
    """By title, own name and address, whatever the case and accents; only the user's own."""
    assert await replica.follower().build()
    await alice.post(action="follow", channel="later", url="https://harbour.example/feed")
    feed = await server.feeds.ensure("https://harbour.example/feed", server.now)
    await server.feeds.update(feed.id, {"title": "Café am Hafen"})

    async def found(words: str) -> list[str]:
        page = await browser.get(f"/search?q={words}")
        return [node.text() for node in page.tree.css(".own-feeds a")]

    for words in ("hafen", "CAFE", "harbour.example", "haf*", "hafen cafe"):
        assert await found(words) == ["Café am Hafen"], words
    for words in ("hafen blog", "-hafen", "title:hafen", "is:unread", "nothing"):
        assert await found(words) == [], words
    await server.reader("bob", "home")
    page = await (await browser_of(server, "bob")).get("/search?q=hafen")
    assert not page.tree.css(".own-feeds a")


async def test_a_search_is_kept_in_the_channel_list(browser: Visitor, server: World, replica: Replica) -> None:
    """On all pages and in all browsers; it can be renamed and removed, and is marked where it is open."""
    await server.publish(FEED, *posts("tide one"))
    assert await replica.follower().build()
    path = "/search?q=tide+%22one%22&channel=home&sort=relevance"
    page = await keep(browser, path, "Tides")
    assert kept(page) == [("Tides", path)]
    assert titles(page) == ["tide one"]
    assert page.tree.css_first(KEPT).attributes["aria-current"] == "true"
    other = await browser_of(server)
    for place in ("/", "/channel/home", "/settings", "/follow", "/search?q=other"):
        assert kept(await other.get(place)) == [("Tides", path)], place
    assert "aria-current" not in (await other.get("/search?q=tide")).tree.css_first(KEPT).attributes
    assert kept(await keep(browser, path, "  Ebb \u202e and\nflow ")) == [("Ebb and flow", path)]
    assert kept(await keep(browser, "/search?q=fog", "")) == [("Ebb and flow", path), ("fog", "/search?q=fog")]
    await browser.submit(await browser.get(path), "/search/remove")
    page = await browser.get(path)
    assert kept(page) == [("fog", "/search?q=fog")]
    assert fields_of(page.form("/search/keep"))["name"] == 'tide "one"'


async def test_kept_searches_are_limited(browser: Visitor, alice: Reader, replica: Replica) -> None:
    """In number, and in the length of their names; a search for nothing isn't kept."""
    assert await replica.follower().build()
    page = await browser.get("/search?q=fog")
    form = fields_of(page.form("/search/keep"))
    for number in range(MOST_KEPT):
        assert (await browser.post("/search/keep", {**form, "q": f"w{number}", "name": "n" * 300})).status == 303
    refused = await browser.post("/search/keep", {**form, "name": "one more"})
    assert (refused.status, "50" in refused.text) == (400, True)
    assert (await browser.post("/search/keep", {**form, "q": "w1", "name": "another"})).status == 303
    assert (await browser.post("/search/keep", {**form, "q": " "})).location == "/search"
    names = [name for name, _ in kept(await browser.get("/"))]
    assert (len(names), names[:2]) == (MOST_KEPT, ["n" * MOST_OF_KEPT, "another"])


async def test_searches_of_several_windows_are_all_kept(browser: Visitor, alice: Reader, replica: Replica) -> None:
    """Forms that are sent at the same time don't undo each other."""
    assert await replica.follower().build()
    form = fields_of((await browser.get("/search?q=fog")).form("/search/keep"))
    sent = (browser.post("/search/keep", {**form, "q": f"w{number}", "name": ""}) for number in range(10))
    assert {one.status for one in await asyncio.gather(*sent)} == {303}
    assert {name for name, _ in kept(await browser.get("/"))} == {f"w{number}" for number in range(10)}


async def test_a_search_without_a_hit_leads_to_beginnings_of_words(
    browser: Visitor, server: World, replica: Replica
) -> None:
    """If its last word may be one; a search of any state and order stays what it is."""
    await server.publish(FEED, *posts("lighthouses"))
    assert await replica.follower().build()
    for words, is_offered in (("lighthouse", True), ("li", False), ("lighthouse is:saved", False), ("nothing*", False)):
        page = await browser.get(f"/search?q={words}&channel=home&sort=relevance")
        ways = [node.attributes["href"] or "" for node in page.tree.css(".empty a")]
        assert bool(ways) == is_offered, words
        if is_offered:
            assert titles(await browser.get(ways[0])) == ["lighthouses"]


async def test_a_page_of_a_search_is_as_long_as_its_view(browser: Visitor, server: World, replica: Replica) -> None:
    """At once after a change of the view."""
    await server.publish(FEED, *posts(*(f"tide {number}" for number in range(60))))
    assert await replica.follower().build()
    for view, count in (("list", 50), ("cards", 30), ("full", 20)):
        page = await browser.get("/search?q=tide")
        await browser.post("/view", {**fields_of(page.form("/view")), "view": view})
        assert len(titles(await browser.get("/search?q=tide"))) == count


@pytest.mark.parametrize(
    ("words", "other"),
    [
        ("alpha", "alpha is:unread"),
        ("IS:UNREAD alpha -is:read", "alpha"),
        ("alpha is:read", "alpha is:unread"),
        ("alpha -is:unread", "alpha is:unread"),
        ("is:read", "is:unread"),
        ('"that is:unread" alpha', '"that is:unread" alpha is:unread'),
        ("is:unread", None),
        ("x" * (MOST_OF_QUERY - 5), None),
    ],
)
def test_unread_posts_of_a_search_by_a_key(words: str, other: str | None) -> None:
    """The words say whether posts are read; without others, or with too many, there is no such search."""
    place = TimelinePlace.searched({"q": words})
    address = place.showing("all" if place.show == "unread" else "unread")
    assert dict(parse_qsl(address.partition("?")[2])).get("q") == other
    assert bool(address) == (other is not None)


async def test_operators_are_on_the_page(browser: Visitor, alice: Reader, replica: Replica) -> None:
    """Open before a search and beside a mistake, in German, too."""
    assert await replica.follower().build()
    for path, is_open in (("/search", True), ("/search?q=fog", False), ("/search?q=kind:poem", True)):
        help_ = (await browser.get(path)).tree.css_first(".of-search details")
        assert ("open" in help_.attributes) == is_open, path
        assert "is:unread" in help_.text()
    page = await browser.get("/search", **{"accept-language": "de"})
    assert "Was Sie eingeben können" in page.text
