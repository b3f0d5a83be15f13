"""Following a page: the address of a blog leads to its feed, and the page isn't polled any more."""

from __future__ import annotations

import pytest

from microsub.base.errors import StoreUnavailable
from microsub.feeds.record import FeedRecord
from tests.support.polling import World, dated, rss
from tests.support.web import Answer, Publisher

HTML = [("Content-Type", "text/html; charset=utf-8")]
H_FEED = (
    '<div class="h-feed"><div class="h-entry"><p class="e-content">Hello</p><a class="u-url" href="/1"></a></div></div>'
)


def page(*feeds: str, body: str = "<p>Words</p>") -> Answer:
    """A page that links to these feeds."""
    links = "".join(f'<link rel="alternate" type="application/rss+xml" href="{url}">' for url in feeds)
    return Answer(f"<!doctype html><title>Blog</title>{links}{body}".encode(), headers=HTML)


def blog(site: Publisher) -> tuple[str, str]:
    """The addresses of a page and of its feed of three posts."""
    site.serve("/", page("/feed"))
    site.serve_document("/feed", rss(dated(3)))
    return site.url("/", "blog.test"), site.url("/feed", "blog.test")


async def settle(it: World) -> None:
    """Poll all due feeds, and all that become due meanwhile."""
    for _ in range(10):
        if not await it.worker.run_once():
            return


async def urls(it: World, user: str = "alice") -> list[tuple[str, str]]:
    """The follows of a user: the given address, and that of its feed."""
    subscriptions = await it.channels.subscriptions(user, "home")
    records = await it.feeds.get_many(one.feed for one in subscriptions)
    return [(one.url, records[one.feed].url) for one in subscriptions]


async def assert_settled(it: World, site: Publisher, home: str, feed: str, user: str = "alice", posts: int = 3) -> None:
    """The user follows the feed by the page's address and has its posts, and the page isn't polled any more."""
    assert await urls(it, user) == [(home, feed)]
    assert len(await it.rows(user)) == posts
    asked = site.count("/")
    it.clock.advance(72 * 3600)
    await settle(it)
    assert site.count("/") == asked
    for url in (home, feed):
        assert await it.feeds.find(url) == (await it.channels.subscriptions(user, "home"))[0].feed


async def test_a_page_leads_to_its_feed(site: Publisher, it: World) -> None:
    """At the first poll, the feed is requested at once, on its own host; the newest ten posts are unread."""
    home, feed = site.url("/", "blog.test"), site.url("/feed", "feeds.test")
    site.serve("/", page(feed))
    site.serve_document("/feed", rss(dated(12)))
    followed = await it.follow(home)
    await settle(it)
    assert [row.is_read for row in await it.rows()] == [False] * 10 + [True] * 2
    record = await it.record(followed)
    assert (record.title, record.failures, record.last_error) == ("Invented", 0, None)
    await assert_settled(it, site, home, feed, posts=12)
    assert site.count("/") == 1


async def test_the_next_follower_of_a_page_causes_no_request(site: Publisher, it: World) -> None:
    """The page's address is already known to lead to the feed, and the posts are stored."""
    home, feed = blog(site)
    one = await it.follow(home)
    await settle(it)
    two = await it.follow(home, "bob")
    three = await it.follow(feed, "carol")
    assert one.id == two.id == three.id
    await settle(it)
    assert site.count("/") == 1


async def test_the_id_of_a_follow_stays_when_the_page_becomes_its_feed(site: Publisher, it: World) -> None:
    """If another user already follows the feed, the id that `follow` returned stays valid in the list and for items."""
    home, feed = blog(site)
    await it.follow(feed, "bob")
    await settle(it)
    ann = await it.reader("ann", "home")
    given = await ann.post(action="follow", channel="home", url=home)
    assert (await ann.get(action="follow", channel="home"))["items"][0]["_id"] == given["_id"]
    await settle(it)
    assert await urls(it, "ann") == [(home, feed)]
    (listed,) = (await ann.get(action="follow", channel="home"))["items"]
    assert (listed["_id"], listed["url"], listed["_feed_url"]) == (given["_id"], home, feed)
    items = await ann.items("home", source=given["_id"])
    assert [item["_source"] for item in items] == [listed["_feed_id"]] * 3
    assert (await ann.post(action="follow", channel="home", url=home))["_id"] == given["_id"]


async def test_a_page_that_sends_its_visitors_elsewhere(site: Publisher, it: World) -> None:
    """The feed is taken from the page behind the redirect; both addresses lead to it."""
    home, feed = site.url("/", "blog.test"), site.url("/feed", "blog.test")
    site.serve("/", Answer(b'<title>Blog</title><meta http-equiv="refresh" content="0;url=/en/">', headers=HTML))
    site.serve("/en/", page("/feed"))
    site.serve_document("/feed", rss(dated(3)))
    await it.follow(home)
    await settle(it)
    await assert_settled(it, site, home, feed)
    assert await it.feeds.find(site.url("/en/", "blog.test")) == await it.feeds.find(feed)


@pytest.mark.parametrize("polled", [True, False])
async def test_a_page_of_a_known_feed(site: Publisher, it: World, polled: bool) -> None:
    """The page's followers are moved to the feed that others follow, whether it has been polled or not."""
    home, feed = blog(site)
    known = await it.follow(feed, "bob")
    if polled:
        await settle(it)
    await it.follow(home)
    await settle(it)
    await assert_settled(it, site, home, feed)
    assert await it.feeds.subscribers(known.id) == [("alice", "home"), ("bob", "home")]
    assert (await it.follow(home, "carol")).id == known.id


async def test_page_and_feed_in_one_channel(site: Publisher, it: World) -> None:
    """One follow remains, every post is there once, and both addresses lead to it."""
    home, feed = blog(site)
    await it.follow(home)
    await it.follow(feed)
    await settle(it)
    assert len(await urls(it)) == 1
    assert len(await it.rows()) == 3
    assert await it.feeds.find(home) == await it.feeds.find(feed)


async def test_a_page_that_is_a_feed_stays(site: Publisher, it: World) -> None:
    """An h-feed with posts is followed itself, even if the page links to other feeds; one without posts is not."""
    home = site.url("/", "blog.test")
    site.serve("/", page("/feed", body=H_FEED))
    site.serve("/empty", page("/feed", body='<div class="h-feed"></div>'))
    site.serve_document("/feed", rss(dated(3)))
    await it.follow(home)
    await settle(it)
    assert await urls(it) == [(home, home)]
    assert len(await it.rows()) == 1
    await it.follow(site.url("/empty", "blog.test"), "bob")
    await settle(it)
    assert len(await it.rows("bob")) == 3


async def test_a_page_without_a_feed_is_in_trouble(site: Publisher, it: World) -> None:
    """Its health names the reason, and it is polled again later."""
    site.serve("/", page("/comments/feed/"))
    feed = await it.follow(site.url("/", "blog.test"))
    result = await it.poll(feed)
    assert result.outcome == "parse"
    assert result.next_poll is not None
    assert "no h-feed" in ((await it.record(feed)).last_error or "")
    site.serve("/", page("/feed"))
    site.serve_document("/feed", rss(dated(3)))
    it.clock.advance(48 * 3600)
    await settle(it)
    assert len(await it.rows()) == 3
    assert (await it.record(feed)).failures == 0


async def test_a_page_at_a_feeds_address_gets_time(site: Publisher, it: World) -> None:
    """A page at a feed's address may be temporary; if it stays, its feed is followed as with any other page."""
    site.serve("/rss/", page("/feed.xml"))
    site.serve_document("/feed.xml", rss(dated(3)))
    for back in (True, False):
        feed = await it.follow(site.url("/rss/" if not back else "/news/feed", "blog.test"))
        site.serve("/news/feed", page("/feed.xml"))
        assert [(await it.poll(feed)).outcome for _ in range(2)] == ["parse", "parse"]
        if back:
            site.serve_document("/news/feed", rss(dated(1)))
            assert (await it.poll(feed)).outcome == "changed"
            assert (await it.record(feed)).url.endswith("/news/feed")
        else:
            assert (await it.poll(feed)).outcome == "moved"


async def test_feeds_that_are_gone_are_passed_over(site: Publisher, it: World) -> None:
    """The next best feed is followed."""
    home = site.url("/", "blog.test")
    site.serve("/", page("/old", "/feed"))
    site.serve("/old", Answer(status=410))
    site.serve_document("/feed", rss(dated(3)))
    await it.poll(await it.follow(site.url("/old", "blog.test"), "bob"))
    await it.follow(home)
    await settle(it)
    await assert_settled(it, site, home, site.url("/feed", "blog.test"))


async def test_pages_that_name_each_other(site: Publisher, it: World) -> None:
    """The polls come to an end, also if both pages are followed, and if the feed redirects back to the page."""
    site.serve("/", page("/two"))
    site.serve("/two", page("/three", "/"))
    site.serve("/three", page("/", "/two"))
    site.serve("/back", page("/away"))
    site.serve("/away", Answer(status=302, headers=[("Location", "/back")]))
    for path, user in (("/", "alice"), ("/two", "bob"), ("/three", "carol"), ("/back", "dave")):
        await it.follow(site.url(path, "blog.test"), user)
    for _ in range(5):
        await settle(it)
        it.clock.advance(48 * 3600)
    asked = len(site.asked)
    assert asked < 45
    await settle(it)
    assert len(site.asked) - asked <= 4
    for user in ("alice", "bob", "carol", "dave"):
        assert len(await urls(it, user)) == 1


async def test_a_page_that_is_refused_to_us_may_be_known(site: Publisher, it: World) -> None:
    """The feeds of sites that refuse servers are at well-known addresses. A feed that is refused isn't replaced."""
    site.serve("/r/gardening/", Answer(b"Blocked", 403))
    site.serve("/r/gardening/.rss", Answer(b"Blocked", 403))
    known = await it.follow(site.url("/r/gardening/", "www.reddit.com"))
    assert (await it.poll(known)).outcome == "moved"
    assert (await it.record(known)).url == "https://www.reddit.com/r/gardening/.rss"
    feed = await it.follow(site.url("/r/gardening/.rss", "www.reddit.com"))
    assert (await it.poll(feed)).outcome == "http"


async def test_a_wall_before_a_known_page(site: Publisher, it: World) -> None:
    """If a consent page replaces the page, the feed is derived from the page's address."""
    site.serve("/channel/UCabcdefghijklmnopqrstuv", Answer(status=302, headers=[("Location", "/consent")]))
    site.serve("/consent", page(body="<form>Agree?</form>"))
    known = await it.follow(site.url("/channel/UCabcdefghijklmnopqrstuv", "www.youtube.com"))
    assert (await it.poll(known)).outcome == "moved"
    assert "videos.xml?channel_id=UCabcdefghijklmnopqrstuv" in (await it.record(known)).url


async def test_a_private_page_has_a_private_feed(site: Publisher, it: World) -> None:
    """User and password are also used for the feed, but only on the same site."""
    site.serve("/", page("/feed"))
    site.serve("/away", page(site.url("/feed", "other.test")))
    site.serve_document("/feed", rss(dated(3)))
    for path in ("/", "/away"):
        await it.follow(site.url(path, "blog.test").replace("//", "//ann:sesame@"))
        await settle(it)
    seen = [("authorization" in asked.headers) for asked in site.asked if asked.path == "/feed"]
    assert seen == [True, False]


async def test_polling_on_demand_waits_for_the_feed(site: Publisher, it: World) -> None:
    """A poll on demand ends with the feed's posts, not with the page."""
    site.serve("/", page(site.url("/feed", "feeds.test")))
    site.serve_document("/feed", rss(dated(3)))
    feed = await it.follow(site.url("/", "blog.test"))
    reports = await it.poll_now().poll([feed.id], patience=20)
    assert reports[feed.id].outcome == "polled"
    assert len(await it.rows()) == 3


# --- crashes and races ------------------------------------------------------------------------------------------------

STEPS = {
    "note": ("feeds", "update", 0),
    "rename": ("feeds", "rename", 0),
    "lead": ("feeds", "lead", 0),
    "subscribe": ("feeds", "subscribe", 0),
    "change": ("channels", "update_subscription", 0),
    "fill": ("delivery", "deliver_to", 0),
    "unsubscribe": ("feeds", "unsubscribe", 0),
    "schedule": ("schedule", "add", 0),
    "second": ("feeds", "subscribe", 1),
}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("known", [False, True], ids=["unknown", "known"])
async def test_a_crash_during_the_change_is_repaired(
    site: Publisher, it: World, monkeypatch: pytest.MonkeyPatch, step: str, known: bool, after: bool
) -> None:
    """If the worker dies just before or just after any write, the next poll finishes the work."""
    home, feed = blog(site)
    if known:
        await it.follow(feed, "carol")
        await settle(it)
    followed = await it.follow(home)
    await it.follow(home, "bob")
    store, method, calls = STEPS[step]
    target = getattr(it, store)
    inner = getattr(target, method)
    seen = 0

    async def dies(*args: object, **kwargs: object) -> object:
        nonlocal seen
        seen += 1
        if seen != calls + 1:
            return await inner(*args, **kwargs)
        if after:
            await inner(*args, **kwargs)
        raise StoreUnavailable("the worker died")

    with monkeypatch.context() as patch:
        patch.setattr(target, method, dies)
        try:
            await it.poll(followed)
        except StoreUnavailable:
            assert seen == calls + 1
    it.clock.advance(120)
    await it.make_due(followed)
    await settle(it)
    for user in ("alice", "bob"):
        await assert_settled(it, site, home, feed, user)


ON_THE_WAY = [
    (False, "feeds", "update"),
    (False, "feeds", "rename"),
    (True, "feeds", "rename"),
    (True, "feeds", "lead"),
    (True, "feeds", "subscribe"),
    (True, "channels", "update_subscription"),
    (True, "delivery", "deliver_to"),
    (True, "feeds", "unsubscribe"),
]


@pytest.mark.parametrize(("known", "store", "method"), ON_THE_WAY)
async def test_unfollowing_on_the_way(
    site: Publisher, it: World, monkeypatch: pytest.MonkeyPatch, known: bool, store: str, method: str
) -> None:
    """A user who unfollows the page while it becomes the feed follows neither, at any step."""
    home, feed = blog(site)
    if known:
        await it.follow(feed, "carol")
        await settle(it)
    followed = await it.follow(home)
    target = getattr(it, store)
    inner = getattr(target, method)
    unfollowed = False

    async def unfollowed_meanwhile(*args: object, **kwargs: object) -> object:
        nonlocal unfollowed
        unfollowed = True
        monkeypatch.undo()
        await it.following.unfollow("alice", "home", home, it.clock())
        return await inner(*args, **kwargs)

    monkeypatch.setattr(target, method, unfollowed_meanwhile)
    await it.poll(followed)
    assert unfollowed
    await it.make_due(followed)
    await settle(it)
    assert await urls(it) == []
    assert await it.rows() == []
    assert ("alice", "home") not in await _all_subscribers(it, home, feed, followed)


async def test_an_unfollow_that_meets_the_change_is_not_lost(
    site: Publisher, it: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unfollow has read the old subscription before the new one is written."""
    home, feed = blog(site)
    known = await it.follow(feed, "carol")
    await settle(it)
    followed = await it.follow(home)
    unfollow = it.channels.unfollow

    async def after_the_change(*args: str) -> bool:
        monkeypatch.undo()
        await it.poll(followed)
        return await unfollow(*args)

    monkeypatch.setattr(it.channels, "unfollow", after_the_change)
    await it.following.unfollow("alice", "home", home, it.clock())
    assert await urls(it) == []
    assert await it.rows() == []
    assert await it.feeds.subscribers(known.id) == [("carol", "home")]


async def test_followers_during_the_change_move_too(
    site: Publisher, it: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new follower is found under the page's old record after all others have left it."""
    home, feed = blog(site)
    await it.follow(feed, "carol")
    await settle(it)
    old = await it.follow(home)
    add = it.schedule.add

    async def and_somebody_follows(*args: object) -> None:
        monkeypatch.undo()
        await add(*args)  # type: ignore[arg-type]
        now = it.clock()
        await it.accounts.add_user("dave", "", now)
        await it.channels.create("dave", "home", now, "home")
        await it.channels.follow("dave", "home", old.id, home, now)
        await it.feeds.subscribe(old.id, "dave", "home")
        await add(old.id, "blog.test", now)

    monkeypatch.setattr(it.schedule, "add", and_somebody_follows)
    await settle(it)
    for user in ("alice", "dave"):
        await assert_settled(it, site, home, feed, user)


async def _all_subscribers(it: World, home: str, feed: str, followed: FeedRecord) -> list[tuple[str, str]]:
    ids = {followed.id, *(await it.feeds.find_many([home, feed])).values()}
    return [one for feed_id in ids for one in await it.feeds.subscribers(feed_id)]


@pytest.mark.parametrize(
    "broken",
    [
        Answer(status=404),
        Answer(status=410),
        Answer(status=403),
        Answer(b"<p>Not found, but 200</p>", headers=HTML),
        Answer(b"<rss", headers=[("Content-Type", "application/rss+xml")]),
    ],
)
async def test_a_named_feed_that_does_not_work_is_passed_over(site: Publisher, it: World, broken: Answer) -> None:
    """The page's next feed is followed at once, by the page's address; the broken one isn't requested again."""
    home, feed = site.url("/", "blog.test"), site.url("/rss", "blog.test")
    site.serve("/", page("/atom", "/other", "/rss"))
    site.serve("/atom", broken)
    site.serve("/other", Answer(status=404))
    site.serve_document("/rss", rss(dated(3)))
    await it.follow(home)
    await settle(it)
    await assert_settled(it, site, home, feed)
    assert (site.count("/atom"), site.count("/other")) == (1, 1)


async def test_a_named_feed_in_passing_trouble_is_waited_for(site: Publisher, it: World) -> None:
    """A server error may be temporary: the next feed is followed only after two more attempts."""
    home = site.url("/", "blog.test")
    site.serve("/", page("/atom", "/rss"))
    site.serve("/atom", Answer(status=500))
    site.serve_document("/rss", rss(dated(3)))
    await it.follow(home)
    await settle(it)
    assert await urls(it) == [(home, site.url("/atom", "blog.test"))]
    assert site.count("/rss") == 0
    for _ in range(3):
        it.clock.advance(24 * 3600)
        await settle(it)
    assert await urls(it) == [(home, site.url("/rss", "blog.test"))]
    assert (len(await it.rows()), site.count("/atom")) == (3, 3)


async def test_three_feeds_of_a_page_are_tried(site: Publisher, it: World) -> None:
    """Then the last one is reported as failing; a feed that has worked is never replaced."""
    site.serve("/", page("/1", "/2", "/3", "/4"))
    for path in ("/1", "/2", "/3", "/4"):
        site.serve(path, Answer(status=404))
    followed = await it.follow(site.url("/", "blog.test"))
    await settle(it)
    record = await it.record(followed)
    assert record.url == site.url("/3", "blog.test")
    assert record.failures == 1
    site.serve_document("/3", rss(dated(3)))
    it.clock.advance(48 * 3600)
    await settle(it)
    site.serve("/3", Answer(status=404))
    for _ in range(5):
        it.clock.advance(48 * 3600)
        await settle(it)
    assert (await it.record(followed)).url == site.url("/3", "blog.test")
    assert site.count("/4") == 0


async def _named_behind_a_feed_that_fails(site: Publisher, it: World) -> tuple[str, str]:
    """The address of a failing feed, and the record of a page that links to it and to `/own`, which now leads to
    `/own`.
    """
    theirs, own = site.url("/feed", "blog.test"), site.url("/own", "elsewhere.test")
    site.serve("/feed", Answer(status=404))
    site.serve("/page", page(theirs, own))
    site.serve_document("/own", rss([("scandal", "Scandal", "02 Jan 2024 20:00:00 GMT")]))
    through = await it.follow(site.url("/page", "elsewhere.test"))
    for _ in range(3):
        await it.poll(through)
    assert (await it.record(through)).url == own
    return theirs, through


async def test_a_page_doesnt_replace_a_failing_feed(site: Publisher, it: World) -> None:
    """Otherwise a page could link to a feed that doesn't exist yet and to its own, which would replace the first for
    all.
    """
    theirs, _ = await _named_behind_a_feed_that_fails(site, it)
    site.serve_document("/feed", rss(dated(1)))
    feed = await it.follow(theirs, "bob")
    await it.poll(feed)
    assert (await it.record(feed)).url == theirs
    assert '"name":"Post 1"' in "".join(await it.texts("bob"))
    assert "Scandal" not in "".join(await it.texts("bob"))


async def test_a_redirect_back_doesnt_take_over_a_failed_feed(site: Publisher, it: World) -> None:
    """The page's own feed has added posts meanwhile, and then redirects permanently to the failed feed."""
    theirs, through = await _named_behind_a_feed_that_fails(site, it)
    site.serve_document("/feed", rss(dated(1)))
    site.serve("/own", Answer(status=301, headers=[("Location", theirs)]))
    for _ in range(3):
        await it.poll(through)
        it.clock.advance(13 * 3600)
    assert (await it.record(through)).url == theirs
    await it.poll(await it.follow(theirs, "bob"))
    assert "Scandal" not in "".join(await it.texts("bob"))
    assert len(await it.rows("bob")) == 1


@pytest.mark.parametrize("known", [False, True])
async def test_direct_followers_stay_when_a_page_names_another_feed(site: Publisher, it: World, known: bool) -> None:
    """The page's other feeds are only for followers of the page, whether they are followed already or not."""
    theirs, own = site.url("/feed", "blog.test"), site.url("/own", "elsewhere.test")
    site.serve("/feed", Answer(status=503))
    site.serve("/page", page(theirs, own))
    site.serve_document("/own", rss([("scandal", "Scandal", "02 Jan 2024 20:00:00 GMT")]))
    if known:
        await it.poll(await it.follow(own, "carol"))
    through = await it.follow(site.url("/page", "elsewhere.test"))
    await it.poll(through)
    assert (await it.record(through)).url == theirs
    feed = await it.follow(theirs, "bob")
    for _ in range(4):
        await it.poll(feed)
        await it.poll(through)
    site.serve_document("/feed", rss(dated(1)))
    await it.poll(feed)
    assert (await it.record(feed)).url == theirs
    assert await it.feeds.find(theirs) == feed.id
    assert "Scandal" not in "".join(await it.texts("bob"))
    assert "Scandal" in "".join(await it.texts("alice"))
    assert "Post 1" not in "".join(await it.texts("alice"))


async def test_direct_and_page_followers_share_a_feed(site: Publisher, it: World) -> None:
    """Once the feed works, it is one feed again and polled once."""
    theirs, own = site.url("/feed", "blog.test"), site.url("/own", "elsewhere.test")
    site.serve("/page", page(theirs, own))
    site.serve_document("/feed", rss(dated(1)))
    through = await it.follow(site.url("/page", "elsewhere.test"))
    await it.poll(through)
    feed = await it.follow(theirs, "bob")
    await it.poll(feed)
    await it.poll(through)
    assert await it.feeds.subscribers(feed.id) == [("alice", "home"), ("bob", "home")]
    assert len(await it.rows()) == 1


# --- a feed's address turns into a page -------------------------------------------------------------------------------


async def _became(site: Publisher, it: World, shown: Answer, days: float = 4) -> FeedRecord:
    """A followed feed of three posts whose address shows a page for some days, polled four times; its record then."""
    site.serve_document("/feed", rss(dated(3)))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.poll(feed)
    site.serve("/feed", shown)
    for _ in range(4):
        it.clock.advance(days * 86400 / 4)
        await it.poll(feed)
    return await it.record(feed)


async def test_a_feed_whose_address_became_a_page_moves(site: Publisher, it: World) -> None:
    """After three days; posts keep their read state, and new ones arrive from the new address.

    The sign that it can't be read goes with the first poll there.
    """
    site.serve_document("/index.xml", rss(dated(4)))
    record = await _became(site, it, page("/index.xml", "/comments/feed/"), days=2)
    assert record.url == site.url("/feed", "blog.test")
    found = site.url("/index.xml", "blog.test")
    assert f"names {found}" in (record.last_error or "")
    assert await it.parts.survey.attention("alice") == {"home": 1}
    it.clock.advance(86400)
    await it.poll(record)
    it.clock.advance(86400)
    await it.poll(record)
    await settle(it)
    moved = await it.record(record)
    assert (moved.url, moved.failures, moved.last_error) == (found, 0, None)
    assert await it.parts.survey.attention("alice") == {}
    assert len(await it.rows()) == 4
    asked = site.count("/feed")
    it.clock.advance(48 * 3600)
    await settle(it)
    assert site.count("/feed") == asked


@pytest.mark.parametrize(
    ("host", "named", "moves"),
    [
        ("blog.test", "http://www.blog.test:{port}/index.xml", True),
        ("www.blog.test", "http://blog.test:{port}/index.xml", True),
        ("ann.blog.test", "http://blog.test:{port}/index.xml", True),
        ("blog.test", "http://ann.blog.test:{port}/index.xml", False),
        ("blog.test", "http://other.test:{port}/index.xml", False),
        ("ann.blog.test", "http://bob.blog.test:{port}/index.xml", False),
    ],
)
async def test_a_page_moves_a_feed_within_its_site_only(
    site: Publisher, it: World, host: str, named: str, moves: bool
) -> None:
    """To the same host, the one with or without `www.`, or the one above it; the found address is named in any case."""
    site.serve_document("/feed", rss(dated(3)))
    site.serve_document("/index.xml", rss(dated(4)))
    feed = await it.follow(site.url("/feed", host))
    await it.poll(feed)
    there = named.format(port=site.port)
    site.serve("/feed", page(there))
    for _ in range(3):
        it.clock.advance(2 * 86400)
        await it.poll(feed)
        assert f"names {there}" in ((await it.record(feed)).last_error or "") or moves
    assert ((await it.record(feed)).url == there) is moves


async def test_a_page_that_names_a_feed_of_other_posts_moves_nothing(site: Publisher, it: World) -> None:
    """A parked or sold domain: the feed that it names has none of the posts, even if it links to the same home page."""
    site.serve_document("/index.xml", rss([("casino-1", "Win", "02 Jan 2024 20:00:00 GMT")]))
    record = await _became(site, it, page("/index.xml"), days=8)
    assert record.url == site.url("/feed", "blog.test")
    assert "where this feed's posts weren't found" in (record.last_error or "")
    assert len(await it.rows()) == 3


async def test_the_feed_of_a_part_does_not_move_to_that_of_the_whole_site(site: Publisher, it: World) -> None:
    """Which has some of its posts among many others."""
    others = [(f"other-{n}", f"Other {n}", f"03 Jan 2024 {n:02d}:00:00 GMT") for n in range(9)]
    site.serve_document("/index.xml", rss([*others, *dated(3)]))
    record = await _became(site, it, page("/index.xml"), days=8)
    assert record.url == site.url("/feed", "blog.test")


async def test_a_redirect_before_the_page_proves_nothing(site: Publisher, it: World) -> None:
    """The posts at its goal are compared all the same."""
    site.serve_document("/feed", rss(dated(3)))
    site.serve_document("/index.xml", rss(dated(3)))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.poll(feed)
    site.serve("/feed", Answer(status=301, headers=[("Location", "/index.xml")]))
    it.clock.advance(86400)
    await it.poll(feed)
    assert (await it.record(feed)).moved_to == site.url("/index.xml", "blog.test")
    site.serve_document("/index.xml", rss([("casino-1", "Win", "02 Jan 2024 20:00:00 GMT")]))
    site.serve("/feed", page("/index.xml"))
    for _ in range(4):
        it.clock.advance(2 * 86400)
        await it.poll(feed)
    assert (await it.record(feed)).url == site.url("/feed", "blog.test")


@pytest.mark.parametrize(
    "shown",
    [
        page("/index.xml", "/atom.xml"),
        page(body='<p class="comment"><a rel="alternate" type="application/rss+xml" href="/index.xml">mine</a></p>'),
        page(body='<p class="comment"><link rel="alternate" type="application/rss+xml" href="/index.xml"></p>'),
        page(),
    ],
    ids=["several", "a-link-in-a-comment", "in-the-body", "none"],
)
async def test_a_page_that_names_no_single_feed_moves_nothing(site: Publisher, it: World, shown: Answer) -> None:
    """Several feeds, or only one in the text, which anybody may have written."""
    site.serve_document("/index.xml", rss(dated(3)))
    site.serve_document("/atom.xml", rss(dated(3)))
    record = await _became(site, it, shown, days=8)
    assert record.url == site.url("/feed", "blog.test")
    assert record.failures == 4


async def test_a_page_during_an_outage_moves_nothing(site: Publisher, it: World) -> None:
    """Each proper answer in between starts the count again."""
    site.serve_document("/index.xml", rss(dated(4)))
    record = await _became(site, it, page("/index.xml"), days=2.8)
    site.serve_document("/feed", rss(dated(3)))
    assert (await it.poll(record)).outcome == "not_modified"
    site.serve("/feed", page("/index.xml"))
    for _ in range(2):
        it.clock.advance(86400)
        await it.poll(record)
    assert (await it.record(record)).url == site.url("/feed", "blog.test")


async def test_followers_of_a_page_join_the_feed_that_it_names(site: Publisher, it: World) -> None:
    """If others follow that feed already, both are one feed afterwards, and posts aren't there twice.

    Signs that the former one can't be read go with it.
    """
    site.serve_document("/index.xml", rss(dated(4)))
    new = await it.follow(site.url("/index.xml", "blog.test"), "bob")
    await it.poll(new)
    await _became(site, it, page("/index.xml"))
    assert await it.parts.survey.attention("alice") == {}
    await settle(it)
    assert await it.feeds.subscribers(new.id) == [("alice", "home"), ("bob", "home")]
    assert len(await it.rows()) == 4


async def test_a_named_feed_that_is_gone_meanwhile_is_no_goal(site: Publisher, it: World) -> None:
    """The feed stays where it is, and is polled as seldom as any failing feed."""
    site.serve_document("/index.xml", rss(dated(4)))
    new = await it.follow(site.url("/index.xml", "blog.test"), "bob")
    await it.poll(new)
    record = await _became(site, it, page("/index.xml"), days=2.8)
    site.serve("/index.xml", Answer(status=410))
    await it.poll(new)
    it.clock.advance(2 * 86400)
    result = await it.poll(record)
    assert result.next_poll is not None
    assert result.next_poll - it.clock() > 3600
    assert (await it.record(record)).url == site.url("/feed", "blog.test")


async def test_followers_are_told_that_a_page_names_the_new_address(site: Publisher, it: World) -> None:
    """In a notice, once the feed has moved."""
    site.serve_document("/index.xml", rss(dated(4)))
    await _became(site, it, page("/index.xml"))
    (notice,) = await it.texts(uid="notifications")
    assert "Its former address shows a page that names the new one." in notice
