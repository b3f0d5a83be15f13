"""Following and unfollowing feeds, the posts of a new subscription, and equal items from all feed formats."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from microsub_conformance.checks.items import instant
from microsub_conformance.requirement import DESIGN, SPEC, Chapter, Check, client
from microsub_conformance.site.blogs import Format
from microsub_conformance.site.library import FORMATS
from microsub_conformance.timeline import each_once, ids, unread_ids, urls
from microsub_conformance.verdict import NO_HEADER, expect, same
from microsub_conformance.world import World

following = Chapter("following", anchor="Following", section="Actions, follow and unfollow")

FRESH = 10
"""How many posts of a new subscription are added as unread (this project's default)."""


def _feeds(w: World, channel: str) -> list[object]:
    return [feed.get("url") for feed in w.user.get("follow", channel=channel).listed("items")]


@following.requirement("follow")
def follow(w: World) -> None:
    """Following returns an object of type 'feed' with the URL."""
    reply = w.user.post("follow", channel=w.channel(), url=w.blogs.eight.url).ok()
    same((reply.get("type"), reply.get("url")), ("feed", w.blogs.eight.url), "type and url")


@following.requirement("fetched")
def fetched(w: World) -> None:
    """The posts of a followed feed arrive in the channel, each once."""
    _, items = w.filled(w.blogs.eight)
    same(urls(items), w.blogs.eight.links(), "the addresses of the posts")


@following.requirement("list")
def list_(w: World) -> None:
    """The list of a channel's feeds has type, url and '_id' of each."""
    channel, _ = w.filled(w.blogs.eight)
    w.fill(channel, w.blogs.fresh)
    feeds = w.user.get("follow", channel=channel).listed("items")
    same({feed.get("url") for feed in feeds}, {w.blogs.eight.url, w.blogs.fresh.url}, "the URLs of the feeds")
    for feed in feeds:
        same(feed.get("type"), "feed", "'type'")
        for name in ("name", "photo"):
            expect(name not in feed or isinstance(feed[name], str), f"'{name}' as a string or absent", feed)


@following.requirement("list-ids", source=client("Monocle"))
def list_ids(w: World) -> None:
    """Each feed of the list has a string '_id'."""
    channel, _ = w.filled(w.blogs.eight)
    for feed in w.user.get("follow", channel=channel).listed("items"):
        expect(isinstance(feed.get("_id"), str), "a string '_id'", feed)


@following.requirement("list-name", source=DESIGN)
def list_name(w: World) -> None:
    """A feed in the list has its title as 'name' after it was fetched."""
    channel, _ = w.filled(w.blogs.eight)
    feeds = w.user.get("follow", channel=channel).listed("items")
    same([feed.get("name") for feed in feeds], [w.blogs.eight.name], "the names")


@following.requirement("twice", source=DESIGN)
def twice(w: World) -> None:
    """Following twice is following once."""
    channel, items = w.unread_channel()
    w.user.post("timeline", method="mark_read", channel=channel, entry=ids(items)[0]).ok()
    w.follow(channel, w.blogs.eight)
    same(_feeds(w, channel), [w.blogs.eight.url], "the feeds")
    same(ids(w.items(channel)), ids(items), "the items")
    same(unread_ids(w.items(channel)), ids(items)[1:], "the unread items")


@following.requirement("two-channels", source=DESIGN)
def two_channels(w: World) -> None:
    """A feed can be in two channels; both have its posts."""
    _, items = w.filled(w.blogs.eight)
    second, others = w.filled(w.blogs.eight)
    same(urls(others), urls(items), "the posts of the second channel")
    for item in others:
        same(item.get("_channel", {}).get("uid"), second, "'_channel.uid'")


@following.requirement("at-once", source=DESIGN, level="should")
def at_once(w: World) -> None:
    """A known feed fills a new follower's channel at once."""
    _, items = w.filled(w.blogs.eight)
    second = w.channel()
    w.follow(second, w.blogs.eight)
    same(ids(w.items(second)), ids(items), "the items right after the follow")


@following.requirement("concurrent", source=DESIGN)
def concurrent(w: World) -> None:
    """Concurrent requests to follow one feed follow it once."""
    channel = w.channel()
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: w.follow(channel, w.blogs.eight), range(6)))
    items = w.await_items(channel, len(w.blogs.eight.posts))
    same(urls(items), w.blogs.eight.links(), "the addresses of the posts")
    same(_feeds(w, channel), [w.blogs.eight.url], "the feeds")
    same(w.unread(channel), len(unread_ids(items)), "the unread count")


@following.requirement("one-poll", source=DESIGN, level="should")
def one_poll(w: World) -> None:
    """A known feed isn't fetched again for another follower."""
    w.filled(w.blogs.eight)
    seen = len(w.publisher.visits(w.blogs.eight.path))
    w.filled(w.blogs.eight)
    same(len(w.publisher.visits(w.blogs.eight.path)), seen, "the number of requests for the feed")


@following.requirement("old-as-read", source=DESIGN, level="should")
def old_as_read(w: World) -> None:
    """Posts of a new subscription are added as read, except the newest ten."""
    channel, items = w.filled(w.blogs.long)
    same(unread_ids(items), ids(items)[:FRESH], "the unread items")
    same(w.unread(channel), FRESH, "the unread count")


@following.requirement("merged-once", source=DESIGN)
def merged_once(w: World) -> None:
    """A channel has the posts of two feeds, each once."""
    channel, first = w.filled(w.blogs.eight)
    everything = w.fill(channel, w.blogs.fresh)
    each_once(everything, ids(first), "the posts of the first feed")
    same(set(urls(everything)), {*w.blogs.eight.links(), *w.blogs.fresh.links()}, "the addresses of all posts")


@following.requirement("update", source=DESIGN)
def update(w: World) -> None:
    """method=update moves a subscription to the given channel."""
    origin, _ = w.filled(w.blogs.eight)
    target = w.channel("target")
    w.user.post("follow", method="update", channel=target, url=w.blogs.eight.url).ok()
    same((_feeds(w, origin), _feeds(w, target)), ([], [w.blogs.eight.url]), "the feeds of origin and target")


@following.requirement("unfollow")
def unfollow(w: World) -> None:
    """Unfollowing removes the feed from the list."""
    channel, _ = w.filled(w.blogs.eight)
    w.fill(channel, w.blogs.fresh)
    w.user.post("unfollow", channel=channel, url=w.blogs.eight.url).ok()
    same(_feeds(w, channel), [w.blogs.fresh.url], "the feeds")


@following.requirement("unfollow-reply", source=DESIGN)
def unfollow_reply(w: World) -> None:
    """Unfollowing returns type and url, and can be repeated."""
    channel, _ = w.filled(w.blogs.eight)
    for _ in range(2):
        reply = w.user.post("unfollow", channel=channel, url=w.blogs.eight.url).ok()
        same((reply.get("type"), reply.get("url")), ("feed", w.blogs.eight.url), "type and url")


@following.requirement("unfollow-items", source=DESIGN)
def unfollow_items(w: World) -> None:
    """Unread items of an unfollowed feed are removed, read ones stay."""
    channel, items = w.unread_channel()
    everything = w.fill(channel, w.blogs.fresh)
    others = [identifier for identifier in ids(everything) if identifier not in ids(items)]
    w.user.post("timeline", method="mark_read", channel=channel, entry=ids(items)[2:4]).ok()
    unread = w.unread(channel)
    w.user.post("unfollow", channel=channel, url=w.blogs.eight.url).ok()
    left = w.items(channel)
    same(ids(left), others + ids(items)[2:4], "the items that are left")
    same(w.unread(channel), unread - (len(items) - 2), "the unread count")


@following.requirement("other-channel", source=DESIGN)
def other_channel(w: World) -> None:
    """Unfollowing in one channel doesn't affect another."""
    first, items = w.unread_channel()
    second, _ = w.unread_channel()
    w.user.post("unfollow", channel=first, url=w.blogs.eight.url).ok()
    same(ids(w.items(second)), ids(items), "the items of the other channel")
    same(_feeds(w, second), [w.blogs.eight.url], "the feeds of the other channel")


@following.requirement("user-agent", source=DESIGN, level="should")
def user_agent(w: World) -> None:
    """The server identifies itself when it fetches."""
    w.filled(w.blogs.eight)
    visit = w.publisher.visits(w.blogs.eight.path)[0]
    agent = visit.headers.get("user-agent", "")
    expect("http" in agent, "a User-Agent with the address of the software", agent or NO_HEADER)
    for name in ("cookie", "referer"):
        expect(name not in visit.headers, f"no header {name}", dict(visit.headers))


formats = Chapter("formats", anchor="Following", section="Formats")

NAMES: dict[Format, str] = {"rss": "RSS 2.0", "atom": "Atom", "json": "JSON Feed 1.1", "h-feed": "h-feed"}


def _check(form: Format) -> Check:
    def check(w: World) -> None:
        blog = w.blogs.formats[form]
        _, found = w.filled(blog)
        same(urls(found), blog.links(), "the addresses of the posts, newest first")
        for item, post in zip(found, blog.posts, strict=True):
            same(item.get("name"), post.title, "'name'")
            same(instant(item), post.published, "'published'")
        first = found[0]
        same(first.get("category"), ["travel", "größe"], "'category'")
        html, text = first.get("content", {}).get("html", ""), first.get("content", {}).get("text", "")
        expect("<strong>bold</strong>" in html, "the markup of the content", html)
        same(text, "Grüße aus Łódź, 東京 und São Paulo – with bold words & more.", "the text of the content")

    check.__doc__ = (
        f"Posts of a feed in {NAMES[form]} arrive once each, with address, title, time, categories and content."
    )
    return check


for _form in FORMATS:
    formats.requirement(_form, source=SPEC if _form == "h-feed" else DESIGN)(_check(_form))
