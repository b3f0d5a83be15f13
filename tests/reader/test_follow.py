"""Finding feeds and following them on the pages."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from microsub.base.urls import sign_in_of
from microsub.configuration.model import InstanceSettings, OutputConfig, Quotas
from microsub.fetch import FetchFailed, FetchRequest
from microsub.fetch.values import FetchResult
from microsub.model.settings import OwnChannelSettings
from microsub.posts.entries import items_to_store
from microsub.redis import keys
from microsub.server import jobs
from microsub.server.jobs import sweeping
from tests.reader.conftest import ReadingVisitor, reading, titles
from tests.support.invariants import all_keys
from tests.support.readers import posts
from tests.support.visitor import Shown, fields_of
from tests.support.world import World

SITE, OTHER = "https://site.example/", "https://site.example/feed"


async def _site(server: World) -> None:
    link = f"<link rel=alternate type=application/rss+xml href={OTHER} title='The site'>"
    server.web.documents[SITE] = f"<html><title>Site</title>{link}</html>".encode(), "text/html"
    await server.publish(OTHER, *posts("a", "b"), title="The site")


def _offers_later(page: Shown) -> bool:
    """Whether the channel can follow the feed; otherwise the page says that it follows already."""
    refused = [one.text() for one in page.tree.css("select[name=channel] option[disabled]")]
    assert refused in ([], ["Later (already following)"])
    return bool(page.tree.css("option[value=later]"))


async def test_a_pasted_address_is_followed_and_undone(ann: ReadingVisitor) -> None:
    """It is followed in the chosen channel; the page reports this, and offers to undo it."""
    await _site(ann.server)
    found = await ann.get(f"/follow?q={SITE}")
    assert "1 feed found" in found.text
    assert found.tree.css_first("[data-focus]").text() == "Follow"
    followed = await ann.browser.submit(found, "/follow", {"url": OTHER}, channel="later")
    done = await ann.get(followed.location)
    assert "You now follow The site in Later." in done.text
    assert done.tree.css_first("[data-focus]") is None  # so that the key of undo isn't typed
    assert [one["url"] for one in (await ann.reader.get(action="follow", channel="later"))["items"]] == [OTHER]
    again = await ann.get(f"/follow?q={SITE}")
    feed = await ann.server.feeds.find(OTHER)
    note = again.tree.css_first("[role=note]")
    assert note.text() == "You already follow it in Later."
    assert note.css_first("a").attributes["href"] == f"/feed/{feed}?channel=later"
    assert titles(await ann.get(f"/feed/{feed}?channel=later")) == ["a", "b"]
    assert not _offers_later(again)
    undone = await ann.get((await ann.browser.submit(done, "/follow/end")).location)
    assert undone.tree.css_first("main [role=status]").text() == "Undone."
    assert (await ann.reader.get(action="follow", channel="later"))["items"] == []


async def test_the_channel_that_was_read_is_chosen(ann: ReadingVisitor) -> None:
    """From *Follow* in its page, by way of the search."""
    await _site(ann.server)
    assert (await ann.get("/follow")).tree.css_first(".asked [name=channel]") is None
    asked = await ann.get("/follow", referer="https://reader.example/channel/later?show=all")
    assert fields_of(asked.tree.css_first(".asked")) == {"q": "", "channel": "later"}
    found = await ann.get(f"/follow?q={SITE}&channel=later")
    assert found.tree.css_first("select[name=channel] option[selected]").attributes["value"] == "later"


@pytest.mark.parametrize(
    ("unread", "said"),
    [
        (None, "The newest 10 are unread, those before them count as read."),
        (1, "The newest one is unread, those before it count as read."),
        (0, "Its present posts count as read."),
    ],
)
async def test_a_follow_counts_the_unread_posts(ann: ReadingVisitor, unread: int | None, said: str) -> None:
    """As its channel is set."""
    await _site(ann.server)
    await ann.server.channels.set_settings(
        "ann", "later", OwnChannelSettings(first_fetch_unread=unread), ann.server.now
    )
    found = await ann.get(f"/follow?q={SITE}")
    followed = await ann.browser.submit(found, "/follow", {"url": OTHER}, channel="later")
    assert said in (await ann.get(followed.location)).text


async def test_a_written_feed_is_followed_at_its_address(ann: ReadingVisitor) -> None:
    """There is no preview: nothing need be at that address."""
    written = "https://weather.example/harbour"
    store = jobs.store_of_posts(ann.server)
    await store.save(written, {"guid": "1", "timestamp": ann.server.now, "name": "Storm"})
    found = await ann.get(f"/follow?q={written}")
    assert ("1 feed found" in found.text, "Preview" in found.text) == (True, False)
    await ann.browser.submit(found, "/follow", {"url": written}, channel="later")
    assert [one["url"] for one in (await ann.reader.get(action="follow", channel="later"))["items"]] == [written]


@pytest.mark.parametrize(
    ("headers", "searches"),
    [
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "same-origin", "referer": "https://other.example/"}, True),
        ({"sec-fetch-site": "none"}, True),
        ({"referer": "https://other.example/"}, False),
        ({"referer": "https://reader.example.other.example/"}, False),
        ({"referer": "OWN/follow"}, True),
        ({}, True),
    ],
)
async def test_another_site_fills_in_the_field_but_starts_no_search(
    ann: ReadingVisitor, headers: dict[str, str], searches: bool
) -> None:
    """Nothing is fetched until the user presses the button; content shared with the installed app is searched for."""
    await _site(ann.server)
    sent = {name: value.replace("OWN", ann.browser.origin) for name, value in headers.items()}
    page = await ann.browser.get(f"/follow?text={SITE}", **sent)
    assert (SITE in ann.server.web.asked, "1 feed found" in page.text) == (searches, searches)
    assert ("Press Find" in page.text) is not searches
    assert page.tree.css_first("#asked").attributes["value"] == SITE
    preview = await ann.browser.get(f"/follow/preview?url={OTHER}", **sent)
    assert (preview.location.startswith("/follow?q=")) is not searches


async def test_the_other_feeds_of_an_address_stay(ann: ReadingVisitor) -> None:
    """After one is followed, or that is undone; a search that has stopped at its limit says so."""
    links = "".join(f"<a href=/feed{number}.xml>Feed {number}</a>" for number in range(60))
    ann.server.web.documents[SITE] = f"<html><title>Site</title>{links}</html>".encode(), "text/html"
    found = await ann.get(f"/follow?q={quote(SITE)}")
    assert "50 feeds found" in found.text
    assert "The search stops at this number" in found.text
    sent = await ann.browser.submit(found, "/follow", {"url": f"{SITE}feed1.xml"}, channel="later")
    done = await ann.get(sent.location)
    assert [one.text() for one in done.tree.css("[role=note]")] == ["You already follow it in Later."]
    assert (len(done.tree.css(".candidates > li")), done.tree.css_first("[data-focus]")) == (50, None)
    undone = await ann.get((await ann.browser.submit(done, "/follow/end")).location)
    assert (len(undone.tree.css(".candidates > li")), undone.tree.css("[role=note]")) == (50, [])


async def test_a_feed_is_followed_in_a_channel_that_is_made_for_it(ann: ReadingVisitor) -> None:
    """By its name, or as Home if none is typed."""
    await _site(ann.server)
    found = await ann.get(f"/follow?url={SITE}")
    await ann.browser.submit(found, "/follow", {"url": OTHER}, channel="+", name="News")
    await ann.browser.submit(found, "/follow", {"url": OTHER}, channel="+", name="")
    names = {one["name"]: one["uid"] for one in (await ann.reader.get(action="channels"))["channels"]}
    assert {"News", "Home"} <= names.keys()
    followed = (await ann.reader.get(action="follow", channel=names["News"]))["items"]
    assert [one["url"] for one in followed] == [OTHER]


async def test_posts_are_looked_at_before_anybody_follows(ann: ReadingVisitor) -> None:
    """Under the feed's name; pictures come from this server, and nothing is followed."""
    rss = "".join(f"<item><title>Post {n}</title><link>{SITE}{n}</link></item>" for n in (1, 2))
    document = f"<rss version='2.0'><channel><title>The site</title>{rss}</channel></rss>"
    ann.server.web.documents[OTHER] = document.encode(), "application/rss+xml"
    page = await ann.get(f"/follow/preview?url={OTHER}")
    assert "Posts from The site" in page.text
    assert len(titles(page)) == 2
    assert (await ann.reader.get(action="follow", channel="later"))["items"] == []
    await ann.browser.submit(page, "/follow", {"url": OTHER}, channel="later")
    assert len((await ann.reader.get(action="follow", channel="later"))["items"]) == 1
    assert _offers_later(page)
    again = await ann.get(f"/follow/preview?url={OTHER}&channel=later")
    assert not _offers_later(again)
    assert again.tree.css_first("[role=note] a").attributes["href"].endswith("?channel=later")


@pytest.mark.parametrize("named", [True, False])
async def test_a_page_without_a_feed_leads_to_those_of_its_site(ann: ReadingVisitor, named: bool) -> None:
    """Whether the home page names the feed of its site or a usual place has it."""
    await _site(ann.server)
    documents, said = ann.server.web.documents, "The page at this address names no feed. This is one of its site."
    documents[f"{SITE}about.html"] = (b"<title>About</title>", "text/html")
    if not named:
        documents[SITE] = (b"<title>Home</title>", "text/html")
        documents[f"{SITE}feed"] = (b"<rss version='2.0'><channel><title>The site</title></channel></rss>", "text/xml")
    for page, expected in (("about.html", True), ("", False)):
        found = await ann.get(f"/follow?q={SITE}{page}")
        assert ("1 feed found" in found.text, said in found.text) == (True, expected), page


async def test_errors_are_shown_beside_the_typed_text(ann: ReadingVisitor) -> None:
    """On the same page, which keeps the typed text."""
    page = await ann.get("/follow?q=https://absent.example/")
    assert page.tree.css_first("[data-focus]").id == "asked"
    absent = page.text
    assert "No feed found." in absent
    assert "Look for such a link" not in absent  # no site exists there
    refused = await ann.get("/follow?q=ftp://files.example/feed")
    said = "The search can't be understood at 'ftp://files.example/feed': it needs words, a domain or an address"
    assert (refused.status, said in refused.text) == (400, True)
    page = await ann.get("/follow")
    await _site(ann.server)
    page = await ann.get(f"/follow?q={SITE}")
    for url, channel, status in (("javascript:alert(1)", "later", 400), (OTHER, "absent", 404), (OTHER, "saved", 400)):
        shown = await ann.browser.submit(page, "/follow", {"url": OTHER}, url=url, channel=channel)
        assert shown.status == status
    assert "invalid address" in (
        await ann.browser.submit(page, "/follow", {"url": OTHER}, url="javascript:alert(1)", channel="later")
    ).response.text.replace("&#39;", "'").replace("Invalid", "invalid")


async def test_words_find_the_feeds_that_one_follows(ann: ReadingVisitor) -> None:
    """By the parts of their names and addresses; the result leads to the posts and to the feed in its channel."""
    await _site(ann.server)
    await ann.server.follow_unscheduled(OTHER, "ann", "later")
    feed = (await ann.server.channels.subscriptions("ann", "later"))[0].feed
    for words in ("SITE", "the%20site", "site.example"):
        page = await ann.get(f"/follow?q={words}")
        links = [one.attributes["href"] for one in page.tree.css("main .candidates a")]
        assert links == [f"/feed/{feed}?channel=later", f"/channels/later#feed-{feed}"]
        assert "No feed found" not in page.text
    assert (await ann.get("/channels/later")).tree.css_first(f"#feed-{feed}") is not None
    assert "No feed found" in (await ann.get("/follow?q=the%20other")).text


async def test_quotas_hold_on_pages_too(ann: ReadingVisitor, server: World) -> None:
    """A page gives no user more than an app does."""
    await _site(server)
    ben = await reading(server, "ben", "own")
    page = await ben.get(f"/follow?q={SITE}")
    mine = await ben.browser.submit(page, "/follow", {"url": OTHER}, channel="home")
    assert mine.status == 404


PRIVATE, HIDDEN = "https://me:s3cret@members.example/feed", "https://***@members.example/feed"
MEMBERS = b"<rss version='2.0'><channel><title>Members</title><item><title>Post</title></item></channel></rss>"


async def test_a_feed_with_name_and_password_is_followed_with_both(ann: ReadingVisitor) -> None:
    """No page shows them; the browser's address bar shows them no longer than the search takes."""
    ann.server.web.documents[PRIVATE] = MEMBERS, "application/rss+xml"
    searched = await ann.get(f"/follow?q={quote(PRIVATE)}&channel=later")
    found = await ann.get(searched.location)
    preview = await ann.get(f"/follow/preview?url={quote(HIDDEN)}")
    followed = await ann.browser.submit(found, "/follow", {"url": HIDDEN}, channel="later")
    done = await ann.get(followed.location)
    assert "You now follow Members in Later." in done.text
    for page in (searched, found, preview, followed, done, await ann.get("/channels/later")):
        assert "s3cret" not in page.text + page.location
    (subscription,) = await ann.server.channels.subscriptions("ann", "later")
    assert sign_in_of(subscription.url) is not None
    assert "s3cret" not in str(await ann.server.redis.command("HGETALL", keys.feed(subscription.feed)))
    assert await ann.server.sign_ins.is_readable(subscription.url)


async def test_a_masked_password_must_be_typed_again(ann: ReadingVisitor) -> None:
    """A follow with `***` would fail forever."""
    ann.server.web.documents[PRIVATE] = MEMBERS, "application/rss+xml"
    found = await ann.get((await ann.get(f"/follow?q={quote(PRIVATE)}")).location)
    await ann.server.redis.command("DEL", keys.entered("ann"))
    refused = await ann.browser.submit(found, "/follow", {"url": HIDDEN}, channel="later")
    assert refused.status == 400
    assert "nter the whole address again" in refused.text


async def test_an_app_follows_what_it_found_with_its_password(ann: ReadingVisitor) -> None:
    """The reply to its search hides the password, and nobody else can follow with it."""
    page = b"<link rel=alternate type=application/rss+xml href=/feed>"
    ann.server.web.documents |= {PRIVATE: (MEMBERS, "application/rss+xml"), PRIVATE[:-4]: (page, "text/html")}
    (found,) = (await ann.reader.post(action="search", query=PRIVATE[:-4]))["results"]
    assert (found["url"], found["name"]) == (HIDDEN, "Members")
    assert (await ann.reader.get(action="preview", url=HIDDEN))["items"]
    await ann.reader.post(action="follow", channel="later", url=found["url"])
    (subscription,) = await ann.server.channels.subscriptions("ann", "later")
    assert subscription.url == PRIVATE
    ben = await ann.server.reader("ben", "own")
    await ben.post(400, action="follow", channel="own", url=HIDDEN)


async def test_another_site_chooses_no_password_for_a_follow(ann: ReadingVisitor) -> None:
    """Neither by a link to the search, nor as a page that names feeds of other hosts."""
    public = PRIVATE.replace("me:s3cret@", "")
    page = f"<link rel=alternate type=application/rss+xml href='{PRIVATE}'>".encode()
    ann.server.web.documents |= dict.fromkeys((public, PRIVATE), (MEMBERS, "application/rss+xml")) | {
        "https://evil.example/": (page, "text/html"),
        "https://members.example:8443/": (page, "text/html"),
    }
    elsewhere = {"sec-fetch-site": "cross-site", "referer": "https://evil.example/"}
    searched = await ann.get(f"/follow?q={quote(PRIVATE)}", **elsewhere)
    assert searched.location == f"/follow?q={quote(public, safe='')}"
    for query in ("https://evil.example/", "https://members.example:8443/"):
        (found,) = (await ann.reader.post(action="search", query=query))["results"]
        assert found["url"] == HIDDEN
    await ann.reader.post(400, action="follow", channel="later", url=HIDDEN)
    await ann.reader.post(action="follow", channel="later", url=public)
    (subscription,) = await ann.server.channels.subscriptions("ann", "later")
    assert subscription.url == public


async def _episodes(server: World) -> None:
    rss = "".join(
        f"<item><title>Episode {n}</title><guid>e{n}</guid><enclosure url='{SITE}{n}.mp3' type='audio/mpeg'/></item>"
        for n in (1, 2)
    )
    document = f"<rss version='2.0'><channel><title>The show</title><link>{SITE}</link>{rss}</channel></rss>"
    server.web.documents[OTHER] = document.encode(), "application/rss+xml"


async def test_an_episode_is_saved_from_its_preview_without_a_follow(ann: ReadingVisitor) -> None:
    """It is the user's own post: the feed isn't followed, and nobody polls it."""
    await _episodes(ann.server)
    page = await ann.get(f"/follow/preview?url={OTHER}")
    (first, *_) = (button.attributes["value"] for button in page.tree.css("button[name=save]"))
    done = await ann.browser.submit(page, "/follow/pick", {"url": OTHER}, save=first)
    assert "Saved." in (await ann.get(done.location)).text
    await ann.browser.submit(page, "/follow/pick", {"url": OTHER}, save=first)
    (saved,) = (await ann.reader.get(action="timeline", channel="saved"))["items"]
    assert (saved["name"], saved["author"]["name"], saved["audio"]) == ("Episode 1", "The show", [f"{SITE}1.mp3"])
    assert OTHER not in str(await ann.reader.get(action="follow", channel="global"))
    assert await ann.server.feeds.find(OTHER) is None
    assert (await ann.get("/saved")).text.count("Episode 1")


async def test_an_episode_is_added_to_an_output_feed_from_its_preview(ann: ReadingVisitor) -> None:
    """Two sweeps later it is still there, though no channel shows it."""
    await _episodes(ann.server)
    await ann.server.outputs.create("ann", "picks", OutputConfig(title="My picks"), ann.server.clock())
    page = await ann.get(f"/follow/preview?url={OTHER}")
    (_, second) = (button.attributes["value"] for button in page.tree.css("button[name=add]"))
    done = await ann.browser.submit(page, "/follow/pick", {"url": OTHER}, add=second, output="picks")
    assert "Added to My picks." in (await ann.get(done.location)).text
    for _ in range(2):
        ann.server.clock.advance(7200)
        await sweeping(ann.server).run(ann.server.clock())
    items = await ann.server.outputs.items(await ann.server.outputs.get("ann", "picks"), 10)
    assert [item.state for item in items] == ["published"]
    assert (await ann.reader.get(action="timeline", channel="saved"))["items"] == []


async def test_a_post_of_a_followed_feed_is_picked_as_it_is(ann: ReadingVisitor) -> None:
    """The user has it once; what was picked before the follow stays a post of its own."""
    await _episodes(ann.server)
    app, save = ann.reader, {"action": "timeline", "method": "save"}
    first, second = [one["_id"] for one in (await app.get(action="preview", url=OTHER))["items"]]
    await app.post(**save, entry=first)
    (own,) = (await app.get(action="timeline", channel="saved"))["items"]
    await app.post(action="follow", channel="later", url=OTHER)
    document = await ann.server.parts.search.feed_at(OTHER)
    await ann.server.publish(OTHER, *items_to_store(document, ann.server.now))
    received = {one["name"]: one["_id"] for one in (await app.get(action="timeline", channel="later"))["items"]}
    assert await app.post(**save, **{"entry[]": [first, second]}) == {"result": "ok", "updated": 1}
    saved = {one["name"]: one["_id"] for one in (await app.get(action="timeline", channel="saved"))["items"]}
    assert saved == {"Episode 1": own["_id"], "Episode 2": received["Episode 2"]}
    assert own["_id"] not in received.values()


async def test_apps_pick_posts_by_the_ids_of_a_preview(ann: ReadingVisitor) -> None:
    """Into saved, a channel and an output feed; unknown ids are named, other users' previews too."""
    await _episodes(ann.server)
    app = ann.reader
    await app.post(action="outputs", method="create", output="picks")
    first, second = [one["_id"] for one in (await app.get(action="preview", url=OTHER))["items"]]
    foreign = "preview-" + "0" * 36
    picks = {"action": "outputs", "method": "add", "output": "picks"}
    assert await app.post(**picks, **{"entry[]": [first, foreign]}) == {
        "result": "ok",
        "updated": 1,
        "unknown": [foreign],
    }
    assert await app.post(**picks, entry=first) == {"result": "ok", "updated": 0}
    assert (await app.post(**picks, entry="preview-cut-off"))["unknown"] == ["preview-cut-off"]
    for method in ("save", "move"):
        found = await app.post(action="timeline", method=method, channel="saved", **{"entry[]": [second, foreign]})
        assert found == {"result": "ok", "updated": int(method == "save"), "unknown": [foreign]}
    assert (await app.post(action="timeline", method="move", channel="later", entry=first))["updated"] == 1
    (moved,) = (await app.get(action="timeline", channel="later"))["items"]
    assert (moved["name"], moved["_is_read"]) == ("Episode 1", False)
    ben = await ann.server.reader("ben", "own")
    theirs = await ben.post(action="timeline", method="move", channel="own", entry=first)
    assert theirs == {"result": "ok", "updated": 0, "unknown": [first]}


async def test_picked_posts_count_for_the_quota_of_bytes(ann: ReadingVisitor) -> None:
    """Also if their feed makes them longer later; a repeated pick counts nothing."""
    ann.server.settings = InstanceSettings(quotas=Quotas(posts=3000))
    await _episodes(ann.server)
    first, second = [one["_id"] for one in (await ann.reader.get(action="preview", url=OTHER))["items"]]
    pick = {"action": "timeline", "method": "save"}
    await ann.reader.post(**pick, entry=first)
    small = await ann.server.post_bytes("ann")
    assert 0 < small < 1000
    await ann.reader.post(**pick, entry=first)
    assert await ann.server.post_bytes("ann") == small
    body, kind = ann.server.web.documents[OTHER]
    ann.server.web.documents[OTHER] = (
        body.replace(b"<enclosure", b"<description>%b</description><enclosure" % (b"x " * 1500)),
        kind,
    )
    ann.server.clock.advance(7200)
    (await ann.reader.get(action="preview", url=OTHER))
    await ann.reader.post(**pick, entry=first)
    assert await ann.server.post_bytes("ann") > 3000
    refused = await ann.reader.post(403, **pick, entry=second)
    assert "bytes of posts" in refused["error_description"]
    assert len((await ann.reader.get(action="timeline", channel="saved"))["items"]) == 1


async def test_a_401_asks_for_name_and_password(ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The form searches again with both; wrong ones are asked for again; a follow keeps them sealed."""
    ann.server.web.documents[PRIVATE] = MEMBERS, "application/rss+xml"
    fetch = ann.server.web.fetch

    async def locked(request: FetchRequest) -> FetchResult:
        if request.url == PRIVATE:
            return await fetch(request)
        return FetchFailed(request.url, "http", "the server answered 401", status=401)

    monkeypatch.setattr(ann.server.web, "fetch", locked)
    page = await ann.get("/follow?q=members.example/feed&channel=later")
    assert "asks for a user name and a password" in page.text
    refused = await ann.browser.submit(page, "/follow/sign-in")
    assert (refused.status, "Give a user name" in refused.text) == (400, True)
    wrong = await ann.browser.submit(refused, "/follow/sign-in", user_name="me", password="wr/ong")
    again = await ann.get(wrong.location)
    assert "accept this user name and password" in again.text
    right = await ann.browser.submit(again, "/follow/sign-in", user_name="me", password="s3cret")
    found = await ann.get(right.location)
    assert found.tree.css_first("option[value=later][selected]") is not None
    stored = str([await ann.server.redis.command("DUMP", key) for key in await all_keys(ann.server.redis)])
    assert not [one for one in ("s3cret", "wr/ong", "wr%2Fong") if one in stored]
    followed = await ann.browser.submit(found, "/follow", {"url": HIDDEN}, channel="later")
    assert followed.location.startswith("/follow?feed=")
    for shown in (page, wrong, again, right, found, followed, await ann.get(followed.location)):
        assert not {"s3cret", "wr/ong", "wr%2Fong"} & set(shown.text.split('"')), shown.location
        assert "s3cret" not in shown.text + shown.location
    (subscription,) = await ann.server.channels.subscriptions("ann", "later")
    assert await ann.server.sign_ins.is_readable(subscription.url)


async def test_admins_learn_how_a_private_address_is_allowed(
    ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the setting with a value; other readers can't change it, and don't see its name."""

    async def private(request: FetchRequest) -> FetchFailed:
        return FetchFailed(request.url, "private", "127.0.0.1 isn't a public address")

    monkeypatch.setattr(ann.server.web, "fetch", private)
    address = f"/follow?q={quote('http://127.0.0.1:8000/feed.xml')}"
    assert "isn't a public address" in (page := await ann.get(address)).text
    assert "MICROSUB_ALLOW_PRIVATE_NETWORKS" not in page.text
    await ann.server.accounts.set_admin("ann", True)
    assert "MICROSUB_ALLOW_PRIVATE_NETWORKS=127.0.0.0/8" in (await ann.get(address)).text
