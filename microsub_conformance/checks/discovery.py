"""Search and preview."""

from __future__ import annotations

from microsub_conformance.requirement import DESIGN, Chapter, client
from microsub_conformance.timeline import Item, urls
from microsub_conformance.verdict import Skip, expect, same
from microsub_conformance.world import World

searching = Chapter("search", anchor="Search", section="Actions, search")
previewing = Chapter("preview", anchor="Preview", section="Actions, preview")


@searching.requirement("page")
def page(w: World) -> None:
    """Searching for the URL of a page finds the feeds that it names."""
    results = w.user.post("search", query=w.blogs.page).listed("results")
    found = {result.get("url") for result in results}
    expect({w.blogs.eight.url, w.blogs.fresh.url} <= found, "the URLs of both feeds", results)
    for result in results:
        same(result.get("type"), "feed", "'type'")


@searching.requirement("feed")
def feed(w: World) -> None:
    """Searching for the URL of a feed finds that feed."""
    for blog in (w.blogs.eight, *w.blogs.formats.values()):
        results = w.user.post("search", query=blog.url).listed("results")
        expect(blog.url in [result.get("url") for result in results], f"the URL {blog.url}", results)


@searching.requirement("get", source=DESIGN)
def get(w: World) -> None:
    """Search works with GET and with POST."""
    by_get = w.user.get("search", query=w.blogs.page).listed("results")
    by_post = w.user.post("search", query=w.blogs.page).listed("results")
    same(urls(by_get), urls(by_post), "the results of the GET")


@searching.requirement("names", source=DESIGN)
def names(w: World) -> None:
    """A result names its feed; 'name', 'photo', 'description' are strings or absent."""
    results = w.user.get("search", query=w.blogs.eight.url).listed("results")
    expect(any(result.get("name") == w.blogs.eight.name for result in results), "the feed's title as 'name'", results)
    for result in results:
        for name in ("name", "photo", "description"):
            expect(name not in result or isinstance(result[name], str), f"'{name}' as a string or absent", result)


@searching.requirement("nothing", source=DESIGN)
def nothing(w: World) -> None:
    """A page without a feed, or words without a match, return an empty list."""
    for query in (w.blogs.bare_page, "zyzzyva nobody writes this"):
        same(w.user.get("search", query=query).listed("results"), [], f"the results for {query!r}")


@searching.requirement("missing-page", source=DESIGN)
def missing_page(w: World) -> None:
    """A page that can't be fetched doesn't cause a server error."""
    for query in (f"{w.publisher.base}/no/such/page", "http://127.0.0.1:1/", "http://host.invalid/"):
        reply = w.user.get("search", query=query)
        expect(reply.status < 500, "a status below 500", reply.text)
        if reply.status >= 400:
            reply.json_object()
        else:
            same(reply.listed("results"), [], "the results")


@searching.requirement("items", source=DESIGN)
def items(w: World) -> None:
    """A search in a channel returns the items that contain the words, as in the timeline, or 400 not_implemented."""
    channel, everything = w.filled(w.blogs.eight)
    one = str(everything[2].get("name"))
    same(_matching(w, channel, "Number", len(everything)), everything, "the items that hold the word")
    same(_matching(w, channel, f'"{one}"', 1), everything[2:3], f"the items that hold the phrase {one!r}")
    same(_matching(w, channel, "zyzzyva", 0), [], "the items that hold a word which nobody wrote")


@searching.requirement("items-elsewhere", source=DESIGN)
def items_elsewhere(w: World) -> None:
    """A search finds only items of its channel, or with 'global' of all channels, and no removed ones."""
    channel, everything = w.filled(w.blogs.eight)
    _matching(w, channel, "Number", len(everything))
    same(_matching(w, w.channel(), "Number", 0), [], "the items of an empty channel")
    found = _found(w, "global", f'"{everything[0].get("name")}"') or []
    expect(everything[0].get("_id") in [item.get("_id") for item in found], "the item in 'global'", found)
    w.user.post("timeline", method="remove", channel=channel, entry=str(everything[0].get("_id"))).done()
    same(_matching(w, channel, "Number", len(everything) - 1), everything[1:], "the items after one was removed")
    w.user.post("search", channel="nowhere-at-all", query="Number").refused(404, "not_found")


def _matching(w: World, channel: str, query: str, count: int) -> list[Item]:
    """Wait until a search finds that many items, because an index may be a little behind; returns them."""

    def probe() -> list[Item] | None:
        found = _found(w, channel, query)
        return found if found is not None and len(found) == count else None

    return w.until(probe, f"{count} items that match {query!r}")


def _found(w: World, channel: str, query: str) -> list[Item] | None:
    """The items found by a search; None while the server can't search. Raises Skip if it never can."""
    reply = w.user.post("search", channel=channel, query=query, limit=100)
    if reply.status == 503:
        return None
    if reply.status == 400 and reply.json_object().get("error") == "not_implemented":
        raise Skip("the server has no search in items")
    return reply.listed("items")


@previewing.requirement("items")
def preview_items(w: World) -> None:
    """Previewing a feed returns its posts as items, with an object 'paging'."""
    reply = w.user.get("preview", url=w.blogs.unseen.url)
    same(urls(reply.listed("items")), w.blogs.unseen.links(), "the addresses of the items")
    expect(isinstance(reply.ok().get("paging"), dict), "an object 'paging'", reply.text)


@previewing.requirement("post", source=DESIGN)
def preview_post(w: World) -> None:
    """Preview works with GET and with POST."""
    reply = w.user.post("preview", url=w.blogs.unseen.url)
    same(urls(reply.listed("items")), w.blogs.unseen.links(), "the addresses of the items")


@previewing.requirement("formats", source=DESIGN)
def preview_formats(w: World) -> None:
    """Preview reads every format."""
    for blog in w.blogs.formats.values():
        same(urls(w.user.get("preview", url=blog.url).listed("items")), blog.links(), f"the items of {blog.format}")


@previewing.requirement("source", source=client("ek"))
def preview_source(w: World) -> None:
    """Previewed items have no '_source': ek takes only an object there, and an id tells who follows the feed."""
    for item in w.user.get("preview", url=w.blogs.unseen.url).listed("items"):
        expect("_source" not in item, "an item without '_source'", str(item.get("_source")))


@previewing.requirement("stores-nothing", source=DESIGN)
def stores_nothing(w: World) -> None:
    """Preview changes nothing for the user."""
    channel, items = w.filled(w.blogs.eight)
    before = w.user.get("channels", method="tree").listed("channels")
    w.user.get("preview", url=w.blogs.unseen.url).ok()
    same(w.user.get("channels", method="tree").listed("channels"), before, "the channels with their sources")
    same(w.items(channel), items, "the items of a channel")
    seen = w.user.get("timeline", channel="global", limit=100).listed("items")
    same([link for link in urls(seen) if link in w.blogs.unseen.links()], [], "previewed posts in 'global'")


@previewing.requirement("nothing", source=DESIGN)
def preview_nothing(w: World) -> None:
    """A URL that isn't a feed returns an empty list or a 4xx error."""
    for url in (w.blogs.bare_page, f"{w.publisher.base}/no/such/page", "http://127.0.0.1:1/"):
        reply = w.user.get("preview", url=url)
        expect(reply.status < 500, "a status below 500", reply.text)
        if reply.status == 200:
            same(reply.listed("items"), [], "the items")
