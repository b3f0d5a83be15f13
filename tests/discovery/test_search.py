"""Search for feeds, and their previews."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from microsub.base.errors import InvalidRequest, ParserUnavailable
from microsub.base.urls import mask_credentials
from microsub.cache import CachingFetcher
from microsub.configuration.model import FeedConfig, InstanceSettings, default_settings
from microsub.discovery import search
from microsub.discovery.directory import Directory
from microsub.discovery.queries import addresses, profile_in
from microsub.discovery.search import Search
from microsub.fetch import Fetcher, FetchFailed, FetchRequest, FetchResult, FetchSettings
from microsub.fetch.values import Reason
from microsub.formats.parse import PARSE
from microsub.parsing.task import AnyTask
from microsub.redis.protocol import Redis
from microsub.server import jobs
from tests.support import cases
from tests.support.polling import dated, rss
from tests.support.readers import assert_no_null, instance, posts
from tests.support.world import World

SITE = "https://blog.example/"
FEED = "https://blog.example/feed.xml"
DOCUMENT = (rss(dated(25), title="The Blog"), "application/rss+xml")
PAGE = (
    b"<html><head><title>Blog</title><link rel=alternate type=application/rss+xml title='The Blog' href=/feed.xml>"
    b"</head><body><p>Words</p></body></html>",
    "text/html",
)
FINGER_URL = "https://host.example/.well-known/webfinger?resource=acct:ann@social.example"
NOTHING = (b"<html><body><p>Words</p></body></html>", "text/html")


@pytest.mark.parametrize(("query", "expected"), cases("queries_determine_the_fetched_addresses", "query", "expected"))
def test_queries_determine_the_fetched_addresses(query: str, expected: list[str]) -> None:
    """A URL is fetched as it is, a bare domain with two schemes, and words not at all."""
    assert addresses(query) == expected


@pytest.mark.parametrize("query", ["@ann@social.example", "ann@social.example", "acct:ann@social.example"])
def test_an_account_is_looked_up_at_its_host(query: str) -> None:
    """WebFinger first, then the usual URL of profiles."""
    finger = "https://social.example/.well-known/webfinger?resource=acct:ann@social.example"
    assert addresses(query) == [finger, "https://social.example/@ann"]


def finger(*links: object) -> bytes:
    return json.dumps({"subject": "acct:ann@social.example", "links": links}).encode()


PROFILE = {"rel": "http://webfinger.net/rel/profile-page", "type": "text/html", "href": "https://social.example/@ann"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (finger({"rel": "self", "href": "https://social.example/users/ann"}, PROFILE), "https://social.example/@ann"),
        (finger(PROFILE | {"href": "/@ann"}), "https://host.example/@ann"),
        (finger(PROFILE | {"href": "javascript:alert(1)"}), None),
        (finger(PROFILE | {"href": ["x"]}), None),
        (finger(PROFILE | {"href": FINGER_URL}), None),
        (finger("x", 1, None), None),
        (finger(), None),
        (b"{}", None),
        (b"[]", None),
        (b"<html>", None),
    ],
)
def test_the_profile_in_a_webfinger_document(body: bytes, expected: str | None) -> None:
    """Its URL, if it has one; broken and hostile documents have none."""
    assert profile_in(body, FINGER_URL) == expected
    assert profile_in(body, SITE) is None


@pytest.fixture
async def server(real_redis: Redis):  # type: ignore[no-untyped-def]
    async with instance(real_redis) as made:
        yield made


async def found(server: World, query: str) -> list[str]:
    alice = await server.reader("alice", "home")
    results = (await alice.get(action="search", query=query))["results"]
    assert all(result["type"] == "feed" and result["name"] for result in results)
    assert (await alice.post(action="search", query=query))["results"] == results
    return [result["url"] for result in results]


async def test_the_feed_that_a_page_names(server: World) -> None:
    """The page is given by URL or by domain; the result has the feed's title."""
    server.web.documents |= {SITE: PAGE, SITE.rstrip("/"): PAGE}
    assert await found(server, SITE) == [FEED]
    assert await found(server, "blog.example") == [FEED]
    alice = await server.reader("alice")
    (result,) = (await alice.get(action="search", query=SITE))["results"]
    assert result["name"] == "The Blog"


async def test_a_feed_is_its_own_result(server: World) -> None:
    """The URL of a feed finds this feed."""
    server.web.documents[FEED] = DOCUMENT
    assert await found(server, FEED) == [FEED]


async def test_usual_places_are_tried_last(server: World) -> None:
    """They are tried if the page names no feed."""
    server.web.documents |= {SITE: NOTHING, "https://blog.example/feed": DOCUMENT}
    assert await found(server, SITE) == ["https://blog.example/feed"]
    assert len(server.web.asked) < 20


@pytest.mark.parametrize("name", ["index.xml", "atom.xml", "rss"])
async def test_usual_places_at_the_root_are_tried_for_a_file(server: World, name: str) -> None:
    """Nothing is tried below a file."""
    server.web.documents |= {f"{SITE}blog/post.html": NOTHING, f"{SITE}{name}": DOCUMENT}
    assert await found(server, f"{SITE}blog/post.html") == [f"{SITE}{name}"]
    assert not any("post.html/" in url for url in server.web.asked)


async def test_a_link_called_subscribe_is_a_feed_if_it_is_one(server: World) -> None:
    """It is read to know; a page of a newsletter is none, and the usual places are tried."""
    page = (b"<html><body><a href=/letter>Subscribe</a> <a href=/news>Syndicate</a></body></html>", "text/html")
    server.web.documents |= {SITE: page, f"{SITE}letter": NOTHING, f"{SITE}news": DOCUMENT}
    assert await found(server, SITE) == [f"{SITE}news"]
    server.web.documents |= {f"{SITE}news": NOTHING, f"{SITE}feed": DOCUMENT}
    assert await found(server, SITE) == [f"{SITE}feed"]


@pytest.mark.parametrize(
    ("page", "interface", "said"),
    [
        (
            "https://podcasts.apple.com/de/podcast/moss/id12345?i=6",
            "https://itunes.apple.com/lookup?entity=podcast&id=12345",
            {"resultCount": 1, "results": [{"feedUrl": FEED, "collectionName": "Moss"}]},
        ),
        (
            "https://overcast.fm/itunes12345/moss",
            "https://itunes.apple.com/lookup?entity=podcast&id=12345",
            {"results": [{"feedUrl": FEED}]},
        ),
        (
            "https://podcastindex.org/podcast/678",
            "https://podcastindex.org/api/podcasts/byfeedid?id=678",
            {"status": "true", "feed": {"url": FEED, "title": "Moss"}},
        ),
    ],
)
async def test_the_feed_of_a_podcast_whose_page_hides_it(
    server: World, page: str, interface: str, said: object
) -> None:
    """A public interface knows it; no usual places of the directory are tried."""
    server.web.documents |= {
        page: NOTHING,
        interface: (json.dumps(said).encode(), "text/javascript; charset=utf-8"),
        FEED: DOCUMENT,
    }
    assert await found(server, page) == [FEED]
    assert set(server.web.asked) == {page, interface, FEED}
    for broken in ({"results": []}, {"results": [{"feedUrl": "javascript:x"}]}, {"feed": []}, []):
        server.web.documents[interface] = (json.dumps(broken).encode(), "application/json")
        server.clock.advance(3600)
        assert await found(server, page) == []
    assert set(server.web.asked) == {page, interface, FEED}


H_FEED = b'<title>Notes</title><div class="h-feed"><div class="h-entry"><p class="e-content">A note</p></div></div>'


@pytest.mark.parametrize(("home", "expected"), [(PAGE, FEED), ((H_FEED, "text/html"), SITE)], ids=["names", "h-feed"])
async def test_a_post_without_a_feed_leads_to_the_home_page(
    server: World, home: tuple[bytes, str], expected: str
) -> None:
    """The home page names one, or is one; then no usual address is tried."""
    post = f"{SITE}2024/05/moss.html"
    server.web.documents |= {post: NOTHING, SITE: home, FEED: DOCUMENT}
    assert await found(server, post) == [expected]
    assert set(server.web.asked) <= {post, SITE, FEED}


async def test_a_persons_post_leads_to_the_persons_home_page(server: World) -> None:
    """The root of the host is somebody else's; a page with a feed of its own needs no home page."""
    post, own = f"{SITE}~ann/2024/moss.html", (PAGE[0].replace(b"/feed.xml", b"/~ann/feed.xml"), "text/html")
    server.web.documents |= {post: NOTHING, SITE: PAGE, f"{SITE}~ann/": own}
    assert await found(server, post) == [f"{SITE}~ann/feed.xml"]
    assert SITE not in server.web.asked
    server.web.documents |= {f"{SITE}about": (PAGE[0].replace(b"/feed.xml", b"/about.xml"), "text/html")}
    assert await found(server, f"{SITE}about") == [f"{SITE}about.xml"]


async def test_the_root_of_a_site_is_tried_for_a_page_deep_inside(server: World) -> None:
    """The site has a feed, but the given page is one of its posts."""
    server.web.documents |= {f"{SITE}2024/05/peas": NOTHING, f"{SITE}rss.xml": DOCUMENT}
    assert await found(server, f"{SITE}2024/05/peas") == [f"{SITE}rss.xml"]


async def test_a_page_that_sends_its_visitors_elsewhere(server: World) -> None:
    """The feed is that of the redirect's target; a redirect to the page itself or to nothing is ignored."""
    there = (b'<meta http-equiv="Refresh" content="0; url=\'/en/\'">', "text/html")
    server.web.documents |= {SITE: there, f"{SITE}en/": PAGE, FEED: DOCUMENT}
    assert await found(server, SITE) == [FEED]
    alice = await server.reader("alice")
    assert len((await alice.get(action="preview", url=SITE))["items"]) == 20
    for target in ("/", "/nowhere", "javascript:alert(1)"):
        server.web.documents[SITE] = (f'<meta http-equiv=refresh content="0;{target}">'.encode() + PAGE[0], "text/html")
        assert await found(server, SITE) == [FEED]


async def test_an_empty_result_is_no_error(server: World) -> None:
    """The list is empty, also for hosts that can't be reached."""
    for query in ("https://nowhere.example/", "nowhere.example", "words", "ann@nowhere.example"):
        assert await found(server, query) == []


async def test_a_query_is_needed(server: World) -> None:
    """The error says that it is missing."""
    alice = await server.reader("alice")
    assert "'query' is missing" in (await alice.get(400, action="search"))["error_description"]
    assert "'query' is missing" in (await alice.get(400, action="search", query=" "))["error_description"]


async def test_queries_that_cannot_be_meant(server: World) -> None:
    """URLs of other schemes and very long texts are refused, and the message says what is expected."""
    alice = await server.reader("alice")
    for query in ("ftp://x.example/", "https://", "https://a b", "javascript://x", "gopher://ann:sesame@x.example/"):
        said = (await alice.get(400, action="search", query=query))["error_description"]
        assert said.startswith("'query' can't be used: found '")
        assert "sesame" not in said
    assert "too long" in (await alice.post(400, action="search", query="word " * 1000))["error_description"]
    assert server.web.asked == []


async def test_a_handle_leads_to_its_feed(server: World) -> None:
    """The host names the profile, which may be on another host; the host's own feed isn't a result."""
    profile = (b'<title>Ann</title><link rel=alternate type=application/rss+xml href="/@ann.rss">', "text/html")
    where = addresses("@ann@social.example")[0]
    server.web.documents |= {
        where: (finger(PROFILE | {"href": "https://people.example/@ann"}), "application/jrd+json"),
        "https://people.example/@ann": profile,
        "https://social.example/feed": DOCUMENT,
    }
    assert await found(server, "@ann@social.example") == ["https://people.example/@ann.rss"]
    server.web.documents[where] = (finger(), "application/jrd+json")
    assert await found(server, "@ann@social.example") == []
    server.web.documents["https://social.example/@ann"] = profile
    assert await found(server, "ann@social.example") == ["https://social.example/@ann.rss"]


async def test_private_addresses_are_refused(server: World) -> None:
    """Search and preview refuse them, and the reply reveals nothing about them."""
    fetcher = Fetcher(FetchSettings())
    searching = Search(CachingFetcher({}, fetcher), Directory(server.feeds, default_settings), server.parser)
    try:
        for host in (
            "127.0.0.1",
            "localhost:6379",
            "[::1]",
            "169.254.169.254",
            "10.0.0.1",
            "@ann@127.0.0.1.nip.example",
        ):
            assert (await searching.feeds(host, server.now)).feeds == []
        with pytest.raises(InvalidRequest, match="can't be read"):
            await searching.preview("http://127.0.0.1:6379/", server.now)
    finally:
        await fetcher.aclose()


async def test_no_copy_is_kept_of_what_a_password_opens(server: World) -> None:
    """Others could find it, and the password, in the store or a backup of it."""
    private, copies = "https://ann:sesame@members.example/feed", dict[str, bytes]()
    for url in (private, "https://open.example/feed"):
        server.web.documents[url] = (
            b"<rss version='2.0'><channel><title>M</title></channel></rss>",
            "application/rss+xml",
        )
    fetcher = CachingFetcher(copies, server.web)
    for url in (private, private, "https://open.example/feed", "https://open.example/feed"):
        assert not isinstance(await fetcher.fetch(FetchRequest(url)), FetchFailed)
    assert server.web.asked == [private, private, "https://open.example/feed"]
    assert len(copies) == 1
    assert "members" not in str(copies)


async def test_a_search_makes_few_requests(server: World) -> None:
    """The page, and nine of home page and usual paths; two URLs for an account; none twice within 5 minutes."""
    server.web.documents[SITE] = NOTHING
    searching = Search(CachingFetcher({}, server.web), Directory(server.feeds, default_settings), server.parser)
    assert (await searching.feeds(SITE, server.now)).feeds == []
    assert len(server.web.asked) == 10
    assert (await searching.feeds("@ann@social.example", server.now)).feeds == []
    assert len(server.web.asked) == 12
    assert (await searching.feeds(SITE, server.now)).feeds == []
    assert server.web.asked.count(SITE) == 1
    server.web.documents[f"{SITE}post/"] = NOTHING
    server.web.asked.clear()
    assert (await searching.feeds(f"{SITE}post/", server.now)).feeds == []
    assert len(server.web.asked) <= 10


async def test_a_feed_that_only_programs_write_is_found_at_its_address(server: World) -> None:
    """Its address isn't requested: nothing need be there. Words don't find it, as it may concern only a few people."""
    written = "https://weather.example/harbour"
    store = jobs.store_of_posts(server)
    await store.describe(written, {"title": "Harbour weather"})
    answer = await server.parts.search.feeds(written, server.now)
    assert [(feed.url, feed.title, feed.format) for feed in answer.feeds] == [(written, "Harbour weather", "written")]
    assert await found(server, "weather.example/harbour") == [written]
    assert server.web.asked == []
    assert await found(server, "harbour weather") == []


async def test_words_find_public_feeds_only(server: World) -> None:
    """Public feeds are followed by two users or listed by the admin, and have no secret in the URL."""
    shared, single, secret = FEED, "https://single.example/feed", "https://s.example/f?token=sesame"
    listed, listed_secret = "https://listed.example/feed", "https://u:p@listed.example/feed"
    server.settings = InstanceSettings(
        public_feeds=(FeedConfig(listed, "Listed Gärten"), FeedConfig(listed_secret, "Hidden Gärten"))
    )
    alice, bob = await server.reader("alice", "home", "more"), await server.reader("bob", "home")
    for url in (shared, single, secret):
        await server.publish(url, *posts("a"), title="Gärten")
    for url, readers in ((shared, (alice, bob)), (single, (alice,)), (secret, (alice, bob))):
        for reader in readers:
            await reader.post(action="follow", channel="home", url=url)
    await alice.post(action="follow", channel="more", url=single)
    assert await found(server, "garten") == [shared, listed]
    assert await found(server, "GÄRTEN listed") == [listed]
    assert await found(server, "garten absent") == []


async def test_a_search_for_many_words_looks_for_some_of_them(server: World) -> None:
    """Each word is searched in each public feed, so thousands of words would take seconds."""
    server.settings = InstanceSettings(public_feeds=(FeedConfig(FEED, "abcdefghijklmnopqrstuvwxyz"),))
    assert await found(server, "a " * 2000) == [FEED]
    assert await found(server, " ".join(["a"] * 100 + ["absent"])) == []
    assert await found(server, " ".join([*"abcdefghijklmnopqrst", "absent"])) == [FEED]


def linking(*names: str) -> tuple[bytes, str]:
    """A page whose software titles its feeds."""
    links = "".join(
        f"<link rel=alternate type=application/rss+xml title='Blog » {name}' href=/{name}>" for name in names
    )
    return f"<title>Blog</title>{links}".encode(), "text/html; charset=utf-8"


async def test_a_search_names_feeds_by_their_own_titles(server: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first three feeds are read for their titles; if that fails, the result has the title from the page."""
    monkeypatch.setattr(search, "TITLE_SECONDS", 600.0)
    server.web.documents |= {
        SITE: linking("feed", "broken", "gone", "more"),
        f"{SITE}feed": (rss(dated(1), title="Gardening in Winter"), "text/xml"),
        f"{SITE}broken": NOTHING,
        f"{SITE}more": DOCUMENT,
    }
    alice = await server.reader("alice")
    results = (await alice.get(action="search", query=SITE))["results"]
    titles = ["Gardening in Winter", "Blog » broken", "Blog » gone", "Blog » more"]
    assert [one["name"] for one in results] == titles
    assert sorted(server.web.asked) == [SITE, *(f"{SITE}{name}" for name in ("broken", "feed", "gone"))]


async def test_a_feed_is_fetched_once_per_search(server: World) -> None:
    """This holds for a given URL and for a usual path."""
    server.web.documents |= {FEED: DOCUMENT, SITE: NOTHING}
    alice = await server.reader("alice")
    for query in (FEED, SITE):
        server.web.asked.clear()
        (result,) = (await alice.get(action="search", query=query))["results"]
        assert (result["url"], result["name"]) == (FEED, "The Blog")
        assert server.web.asked.count(FEED) == 1


async def test_a_search_goes_without_the_title_of_a_slow_feed(server: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user is waiting, and the title from the page is known."""
    server.web.documents[SITE] = linking("feed")
    monkeypatch.setattr(search, "TITLE_SECONDS", 0.01)
    fetch = server.web.fetch

    async def slow(request: FetchRequest) -> FetchResult:
        return await (fetch(request) if request.url == SITE else asyncio.Event().wait())

    monkeypatch.setattr(server.web, "fetch", slow)
    alice = await server.reader("alice")
    (result,) = (await alice.get(action="search", query=SITE))["results"]
    assert result["name"] == "Blog » feed"


async def test_a_search_goes_without_titles_when_parsers_are_busy(
    server: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results have the titles from the page."""
    server.web.documents |= {SITE: linking("feed"), f"{SITE}feed": DOCUMENT}
    alice = await server.reader("alice")

    run = server.parser.run

    async def busy(task: AnyTask, *given: Any) -> Any:
        if task == PARSE:
            raise ParserUnavailable("all are busy")
        return await run(task, *given)

    monkeypatch.setattr(server.parser, "run", busy)
    (result,) = (await alice.get(action="search", query=SITE))["results"]
    assert result["name"] == "Blog » feed"


async def test_public_feeds_have_their_own_titles(server: World) -> None:
    """If a page gives all its feeds the same name, public feeds are shown with their own titles."""
    links = "".join(f"<a href=/{name}.xml>feed</a>" for name in "abc")
    server.web.documents[SITE] = f"<html><title>Blogs</title><body>{links}</body></html>".encode(), "text/html"
    for user in ("alice", "bob"):
        reader = await server.reader(user, "home")
        for name in "ab":
            await reader.post(action="follow", channel="home", url=f"{SITE}{name}.xml")
    await server.publish(f"{SITE}a.xml", title="The Harbour Log")
    found = (await reader.get(action="search", query=SITE))["results"]
    titles = {one["url"]: one.get("name") for one in found}
    assert titles[f"{SITE}a.xml"] == "The Harbour Log"
    assert titles[f"{SITE}b.xml"] == titles[f"{SITE}c.xml"] != SITE


async def test_the_directory_is_read_again_after_a_while(server: World) -> None:
    """A feed that becomes public is found minutes later."""
    alice, bob = await server.reader("alice", "home"), await server.reader("bob", "home")
    await server.publish(FEED, *posts("a"), title="Gardens")
    await alice.post(action="follow", channel="home", url=FEED)
    assert await found(server, "gardens") == []
    await bob.post(action="follow", channel="home", url=FEED)
    server.now += 301
    assert await found(server, "gardens") == [FEED]


async def test_a_preview_stores_nothing_but_its_address(server: World) -> None:
    """Items are as in a timeline, newest first; the address is for picking one of them within the hour."""
    server.web.documents[FEED] = DOCUMENT
    alice = await server.reader("alice", "home")
    keys = sorted(await server.redis.command("KEYS", "*"))
    reply = await alice.get(action="preview", url=FEED)
    assert reply["paging"] == {}
    assert [item["name"] for item in reply["items"]] == [f"Post {number}" for number in range(25, 5, -1)]
    for item in reply["items"]:
        assert item["_is_read"] is False
        assert set(item["_channel"]) == {"id", "uid", "name"}
        assert item["author"]["type"] == "card"
    assert len({item["_id"] for item in reply["items"]}) == 20
    assert await alice.post(action="preview", url=FEED) == reply
    assert sorted(await server.redis.command("KEYS", "*")) == sorted([*keys, b"user:{alice}:entered"])
    assert await server.redis.command("HVALS", "user:{alice}:entered") == [FEED.encode()]


async def test_a_preview_doesnt_reveal_followers(server: World) -> None:
    """The items are the same if another user follows the feed, and name no source."""
    server.web.documents[FEED] = DOCUMENT
    alice, bob = await server.reader("alice", "home"), await server.reader("bob", "home")
    before = await alice.get(action="preview", url=FEED)
    await bob.post(action="follow", channel="home", url=FEED)
    assert await alice.get(action="preview", url=FEED) == before
    assert all("_source" not in item for item in before["items"])


async def test_preview_of_a_page_shows_its_feed(server: World) -> None:
    """The URL of the site is enough."""
    server.web.documents |= {SITE: PAGE, FEED: DOCUMENT}
    alice = await server.reader("alice")
    assert len((await alice.get(action="preview", url=SITE))["items"]) == 20


async def test_a_preview_skips_unusable_candidates(server: World) -> None:
    """It shows the first valid one of up to three feeds of the page, like a follow."""
    names = ("gone", "page", "feed.xml")
    links = "".join(f"<link rel=alternate type=application/rss+xml href=/{name}>" for name in names)
    server.web.documents |= {SITE: (links.encode(), "text/html"), f"{SITE}page": NOTHING, FEED: DOCUMENT}
    alice = await server.reader("alice")
    assert len((await alice.get(action="preview", url=SITE))["items"]) == 20
    more = "<link rel=alternate type=application/rss+xml href=/also-gone>" + links
    server.web.documents[SITE] = (more.encode(), "text/html")
    server.web.asked.clear()
    await alice.get(400, action="preview", url=SITE)
    assert len(server.web.asked) == 4


async def test_a_preview_shows_what_a_follow_would_bring(server: World) -> None:
    """It shows the feed although the page has a theme's classic microformats, but the page if it has an h-feed."""
    theme = PAGE[0].replace(b"<p>", b'<div class="hentry"><h2 class="entry-title">About</h2></div><p>')
    notes = PAGE[0].replace(
        b"<p>", b'<div class="h-feed"><div class="h-entry"><p class="e-content">A note</p></div></div><p>'
    )
    server.web.documents |= {SITE: (theme, "text/html"), f"{SITE}notes": (notes, "text/html"), FEED: DOCUMENT}
    alice = await server.reader("alice")
    assert len((await alice.get(action="preview", url=SITE))["items"]) == 20
    assert len((await alice.get(action="preview", url=f"{SITE}notes"))["items"]) == 1


async def test_named_candidates(server: World) -> None:
    """Best first, each once, comments last; with type, title, photo and description."""
    page = (
        b"<title>Blog</title><link rel=icon href=/i.png><meta name=description content='On things'>"
        b"<link rel=alternate type=application/rss+xml title='Blog: Comments' href=/comments/feed>"
        b"<link rel=alternate type=application/atom+xml title=Atom href=/atom.xml>"
        b"<link rel=alternate type=application/rss+xml title='All posts' href=http://blog.example/feed.xml>"
        b"<link rel=alternate type=application/rss+xml href=https://blog.example/feed.xml>"
    )
    server.web.documents["https://blog.example"] = (page, "text/html")
    alice = await server.reader("alice")
    results = (await alice.get(action="search", query="blog.example"))["results"]
    more = {"type": "feed", "photo": "https://blog.example/i.png", "description": "On things"}
    assert results == [
        {**more, "url": "https://blog.example/atom.xml", "name": "Blog (Atom)", "_format": "atom"},
        {**more, "url": FEED, "name": "All posts", "_format": "rss"},
        {**more, "url": "https://blog.example/comments/feed", "name": "Blog: Comments", "_format": "rss"},
    ]


async def test_a_site_that_refuses_its_pages(server: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its feeds are found by their well-known URLs, and shown."""
    feed, fetch = "https://www.reddit.com/r/gardening/.rss", server.web.fetch
    server.web.documents[feed] = DOCUMENT

    async def refuse(request: FetchRequest) -> FetchResult:
        refused = FetchFailed(request.url, "http", "the publisher answered 403", 403)
        return await fetch(request) if request.url == feed else refused

    monkeypatch.setattr(server.web, "fetch", refuse)
    assert await found(server, "https://old.reddit.com/r/gardening") == [feed]
    alice = await server.reader("alice")
    assert len((await alice.get(action="preview", url="https://www.reddit.com/r/gardening/"))["items"]) == 20


@pytest.mark.parametrize(("status", "reason"), [(403, "http"), (429, "throttled"), (404, "http"), (410, "gone")])
async def test_a_search_says_why_it_found_nothing(
    server: World, monkeypatch: pytest.MonkeyPatch, status: int, reason: Reason
) -> None:
    """The reply has an error with the empty list, in the words of a followed feed's health, without credentials."""

    async def refuse(request: FetchRequest) -> FetchResult:
        if request.url.startswith("http:"):
            return FetchFailed(request.url, "connect", "the connection was refused")
        return FetchFailed(mask_credentials(request.url), reason, f"the server answered {status}", status)

    monkeypatch.setattr(server.web, "fetch", refuse)
    alice = await server.reader("alice")
    for query in ("https://blog.example", "blog.example", "https://ann:sesame@blog.example"):
        reply = await alice.get(action="search", query=query)
        assert reply["results"] == []
        assert reply["_error"].startswith(f"the server answered {status} (https://")
        assert "sesame" not in reply["_error"]
    reply = await alice.get(action="search", query="http://blog.example")
    assert reply["_error"] == "the connection was refused (http://blog.example)"


async def test_a_search_with_a_read_page_has_no_error(server: World) -> None:
    """The only problem is that there is no feed, whatever the domain's other URL answered."""
    server.web.documents["http://blog.example"] = NOTHING
    alice = await server.reader("alice")
    for query in ("blog.example", "http://blog.example", "words that nobody writes"):
        assert await alice.get(action="search", query=query) == {"results": []}


async def test_preview_clamps_dates(server: World) -> None:
    """No item is published in the future or without a date."""
    entries = [
        ("a", "Post of tomorrow", "01 Jan 2199 00:00:00 GMT"),
        ("b", "Post of some day", None),
        ("c", "Post of 2020", "01 Jan 2020 00:00:00 GMT"),
    ]
    server.web.documents[FEED] = (rss(entries), "application/rss+xml")
    alice = await server.reader("alice")
    published = {item["name"]: item["published"] for item in (await alice.get(action="preview", url=FEED))["items"]}
    assert published["Post of tomorrow"] == published["Post of some day"] == "2023-11-15T01:00:00+00:00"
    assert published["Post of 2020"].startswith("2020-01-01")


@pytest.mark.parametrize("url", ["https://nowhere.example/", SITE, "example.com", ""])
async def test_preview_of_a_page_without_feed(server: World, url: str) -> None:
    """The reply is 400, and the message names the parameter."""
    server.web.documents[SITE] = NOTHING
    alice = await server.reader("alice")
    reply = await alice.get(400, action="preview", url=url)
    assert reply["error"] == "invalid_request"
    assert reply["error_description"].startswith("'url' ")


async def test_errors_of_a_preview_show_no_password(server: World) -> None:
    """Credentials are masked."""
    with pytest.raises(InvalidRequest) as caught:
        await server.parts.search.preview("https://ann:sesame@nowhere.example/", server.now)
    assert "sesame" not in caught.value.description
    assert_no_null(json.loads(json.dumps({"text": caught.value.description})))


@pytest.mark.parametrize("action", ["search", "preview"])
async def test_a_site_that_does_not_answer_is_given_up(
    server: World, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """The user gets a reply in time, however many URLs there are to try."""

    async def hang(_request: FetchRequest) -> FetchResult:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(server.web, "fetch", hang)
    monkeypatch.setattr(search, "SEARCH_SECONDS", 0.01)
    monkeypatch.setattr(search, "PREVIEW_SECONDS", 0.01)
    alice = await server.reader("alice")
    if action == "search":
        reply = await alice.get(action="search", query=SITE)
        assert reply["results"] == []
        assert "in time" in reply["_error"]
    else:
        assert "in time" in (await alice.get(400, action="preview", url=SITE))["error_description"]
