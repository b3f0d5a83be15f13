"""The forms of ids, items, feeds and tags."""

from __future__ import annotations

import re
from typing import Any

from microsub_conformance.native.apps import (
    CALLER,
    CAPY,
    CAPY_ITEM,
    CAPY_SYNC,
    DELEGATE,
    ENTRY,
    FLUENT,
    LIFEREA_FEEDS,
    LIFEREA_ITEMS,
    NETNEWSWIRE,
    NEWSBOAT,
    READROPS_FEEDS,
    READROPS_FOLDERS,
    READROPS_IDS,
    READROPS_ITEMS,
    READYOU,
    READYOU_TYPES,
    RSS_GUARD,
)
from microsub_conformance.native.world import API, LABEL, LONG, READ, STARRED, NativeWorld, number
from microsub_conformance.requirement import Chapter
from microsub_conformance.verdict import expect, same

ids = Chapter("ids")
fields = Chapter("fields")
lists = Chapter("lists")


@ids.requirement("decimal", CALLER, READROPS_IDS, CAPY("ItemRef.kt"))
def decimal(w: NativeWorld) -> None:
    """Ids in 'itemRefs' are strings of decimal digits."""
    refs = w.client.listed("stream/items/ids", "itemRefs", s=w.scene.feed)
    found = [ref.get("id") for ref in refs]
    expect(all(isinstance(one, str) and one.isdecimal() for one in found), "strings of digits", found[:3])


@ids.requirement("nothing-else", READROPS_IDS)
def nothing_else(w: NativeWorld) -> None:
    """Objects in 'itemRefs' have an 'id' and nothing else."""
    refs = w.client.listed("stream/items/ids", "itemRefs", s=w.scene.feed)
    expect(all(set(ref) == {"id"} for ref in refs), "objects with only 'id'", refs[:2])


@ids.requirement("sixteen-digits", READROPS_IDS)
def sixteen_digits(w: NativeWorld) -> None:
    """Ids in 'itemRefs' have 16 digits, to which the app pads the hexadecimal form."""
    found = w.client.ids(w.scene.feed)
    expect(all(len(one) == 16 for one in found), "16 digits", found[:3])


@ids.requirement("long", CALLER, CAPY_SYNC, READYOU, READROPS_IDS)
def long(w: NativeWorld) -> None:
    """The 'id' of contents is the long form: 16 lower-case hexadecimal digits of the same number."""
    found, wanted = w.item("lasting").get("id"), f"{LONG}{number(w.scene.posts['lasting']):016x}"
    same(found, wanted, "the id of the item's contents")


@ids.requirement("accepts-long", CALLER, CAPY_SYNC, READROPS_IDS)
def accepts_long(w: NativeWorld) -> None:
    """Requests for contents take ids in the long form."""
    _contents(w, f"{LONG}{number(w.scene.posts['lasting']):016x}")


@ids.requirement("accepts-decimal", FLUENT, LIFEREA_ITEMS)
def accepts_decimal(w: NativeWorld) -> None:
    """Requests for contents, and marks, take ids in decimal."""
    _contents(w, str(number(w.scene.posts["lasting"])))


def _contents(w: NativeWorld, one: str) -> None:
    reply = w.client.send(f"{API}stream/items/contents?output=json", form={"T": w.client.token, "i": one})
    expect(len(reply.listed("items")) == 1, f"the item {one}", reply.text)


@fields.requirement("title", READROPS_ITEMS)
def title(w: NativeWorld) -> None:
    """The 'title' of an item is never empty, also that of a note without a name."""
    found = w.item("note").get("title")
    expect(isinstance(found, str) and bool(found.strip()), "a title", found)


@fields.requirement("plain-title", FLUENT, level="should")
def plain_title(w: NativeWorld) -> None:
    """The 'title' is plain text: '&' and '<' aren't escaped."""
    same(w.item("signs").get("title"), "Tom & Jerry <3 cheese", "the title")


@fields.requirement("published", CAPY_ITEM, READROPS_ITEMS, RSS_GUARD)
def published(w: NativeWorld) -> None:
    """'published' is a whole number of seconds."""
    _is_a(w.item("old").get("published"), int, "published")


@fields.requirement("updated", LIFEREA_ITEMS, level="should")
def updated(w: NativeWorld) -> None:
    """'updated' is a whole number of seconds: the app shows it as the time of an item."""
    _is_a(w.item("old").get("updated"), int, "updated")


@fields.requirement("times", ENTRY, READYOU_TYPES)
def times(w: NativeWorld) -> None:
    """'crawlTimeMsec' and 'timestampUsec' are strings of digits, if they are there."""
    item = w.item("old")
    for name in ("crawlTimeMsec", "timestampUsec"):
        found = item.get(name, "0")
        expect(isinstance(found, str) and found.isdecimal(), f"a string of digits as '{name}'", found)


@fields.requirement("author", CAPY_ITEM, NEWSBOAT, FLUENT)
def author(w: NativeWorld) -> None:
    """'author' is the author's name, and missing or text if there is none."""
    same(w.item("signed").get("author"), "Ann", "the author")
    _is_a(w.item("note").get("author", ""), str, "author of a post without one")


@fields.requirement("canonical", CAPY_ITEM, FLUENT, NEWSBOAT, LIFEREA_ITEMS)
def canonical(w: NativeWorld) -> None:
    """'canonical' is a list with an object that has the post's address as 'href'."""
    found = w.item("lasting").get("canonical")
    same(_addresses(found), [_page(w)], "the addresses in 'canonical'")


@fields.requirement("alternate", ENTRY, READROPS_ITEMS, RSS_GUARD)
def alternate(w: NativeWorld) -> None:
    """'alternate' is a list with one object that has the post's address as 'href', and the type 'text/html' or none."""
    found: Any = w.item("lasting").get("alternate")
    same(_addresses(found), [_page(w)], "the addresses in 'alternate'")
    expect(found[0].get("type", "text/html") == "text/html", "the type text/html", found)


@fields.requirement("summary", ENTRY, READROPS_ITEMS, CAPY_ITEM, FLUENT, NEWSBOAT, RSS_GUARD)
def summary(w: NativeWorld) -> None:
    """'summary.content' has the whole content as HTML."""
    found = (w.item("lasting").get("summary") or {}).get("content")
    expect(isinstance(found, str) and "Of lasting" in found, "the content", found)


@fields.requirement("enclosure", CAPY_ITEM, NEWSBOAT, RSS_GUARD)
def enclosure(w: NativeWorld) -> None:
    """Files are in 'enclosure', with 'href' and 'type'."""
    found: Any = w.item("episode").get("enclosure")
    expect(isinstance(found, list) and len(found) == 1, "one file in 'enclosure'", found)
    same((found[0].get("href"), found[0].get("type")), ("https://files.example/a.mp3", "audio/mpeg"), "the file")


@fields.requirement("origin", CAPY_ITEM)
def origin(w: NativeWorld) -> None:
    """'origin' has 'streamId', 'title' and 'htmlUrl' as strings."""
    found = w.item("lasting").get("origin") or {}
    for name in ("streamId", "title", "htmlUrl"):
        _is_a(found.get(name), str, f"origin.{name}")


@fields.requirement("stream-of-feed", FLUENT, READROPS_ITEMS, ENTRY)
def stream_of_feed(w: NativeWorld) -> None:
    """'origin.streamId' is the 'id' of the feed in 'subscription/list'."""
    same((w.item("lasting").get("origin") or {}).get("streamId"), w.scene.feed, "origin.streamId")


@fields.requirement("read", READROPS_ITEMS, NEWSBOAT)
def read(w: NativeWorld) -> None:
    """The categories of a read item contain exactly 'user/-/state/com.google/read', those of an unread one don't."""
    with w.tagged("two", READ):
        found = w.item("two").get("categories") or ()
    expect(READ in found, f"the category {READ}", found)
    found = w.item("two").get("categories") or ()
    expect(not any(str(one).endswith("/state/com.google/read") for one in found), "no category 'read'", found)


@fields.requirement("categories", CAPY_ITEM, ENTRY)
def categories(w: NativeWorld) -> None:
    """'categories' is a list of strings."""
    found = w.item("lasting").get("categories")
    expect(isinstance(found, list) and all(isinstance(one, str) for one in found), "a list of strings", found)


@fields.requirement("envelope", ENTRY)
def envelope(w: NativeWorld) -> None:
    """The reply with contents has 'id' as a string and 'updated' as a whole number."""
    reply = w.client.post("stream/items/contents?output=json", i=w.scene.posts["lasting"]).ok()
    _is_a(reply.get("id"), str, "id")
    _is_a(reply.get("updated"), int, "updated")


@fields.requirement("known-feeds", FLUENT, READROPS_ITEMS, level="should")
def known_feeds(w: NativeWorld) -> None:
    """A starred post of a feed that was unfollowed belongs to a feed in 'subscription/list', or isn't listed."""
    gone = w.followed("left")
    one = gone.ids[0]
    w.mark([one], a=STARRED)
    w.afterwards(lambda: w.mark([one], r=STARRED))
    w.client.post("subscription/edit", ac="unsubscribe", s=gone.feed)
    if one in w.client.ids(STARRED):
        (item,) = w.client.contents([one])
        listed = [feed.get("id") for feed in w.client.subscriptions()]
        expect((item.get("origin") or {}).get("streamId") in listed, "a listed feed", item.get("origin"))


@lists.requirement("feed", READROPS_FEEDS, LIFEREA_FEEDS)
def feed(w: NativeWorld) -> None:
    """The 'id', 'title' and 'url' of a feed are never empty."""
    w.scene.feed  # noqa: B018 - at least one feed is followed
    for one in w.client.subscriptions():
        for name in ("id", "title", "url"):
            expect(isinstance(one.get(name), str) and bool(one[name]), f"a '{name}'", one)


@lists.requirement("feed-types", CAPY("Subscription.kt"))
def feed_types(w: NativeWorld) -> None:
    """A feed's 'htmlUrl' is a string, and 'iconUrl' is a string if it isn't null or missing."""
    found = w.client.subscription(w.scene.feed)
    _is_a(found.get("htmlUrl"), str, "htmlUrl")
    expect(isinstance(found.get("iconUrl"), str | None), "a string as 'iconUrl'", found)


@lists.requirement("categories", NETNEWSWIRE("ReaderAPISubscription.swift"), CAPY("Category.kt"))
def feed_categories(w: NativeWorld) -> None:
    """A feed's 'categories' are objects with 'id' and 'label' as strings."""
    found = w.client.subscription(w.scene.feed).get("categories")
    wanted = [(f"{LABEL}{w.scene.folder}", w.scene.folder)]
    shown = [(one.get("id"), one.get("label")) for one in found or ()]
    same([(re.sub("^user/[^/]+/", "user/-/", str(one)), label) for one, label in shown], wanted, "the categories")


@lists.requirement("one-category", READROPS_FEEDS)
def one_category(w: NativeWorld) -> None:
    """A feed has at most one category: the app's parser ends after the first."""
    scene = w.followed("twofold")
    w.client.post("subscription/edit", ac="subscribe", s=f"feed/{scene.blog.url}", a=LABEL + w.folder("second"))
    found = w.client.subscription(scene.feed).get("categories")
    expect(len(found or ()) <= 1, "one category", found)


@lists.requirement("folders", DELEGATE)
def folders(w: NativeWorld) -> None:
    """Every category of a feed is in 'tag/list': otherwise the app stops syncing folders."""
    w.scene.feed  # noqa: B018 - at least one feed is followed
    tags = w.client.tags()
    used = {str(one.get("id")) for feed in w.client.subscriptions() for one in feed.get("categories") or ()}
    expect(bool(used) and used <= set(tags), f"the tags {sorted(used)}", tags)


@lists.requirement("tag-type", CAPY("Tag.kt"), READROPS_FOLDERS)
def tag_type(w: NativeWorld) -> None:
    """The 'type' of a tag is 'folder', 'tag' or missing; that of a folder is 'folder'."""
    w.scene.feed  # noqa: B018 - at least one folder exists
    found = w.client.listed("tag/list", "tags")
    expect(all(tag.get("type", "tag") in ("folder", "tag") for tag in found), "folder or tag", found)
    folder = next((tag for tag in found if tag.get("id") == LABEL + w.scene.folder), {})
    same(folder.get("type", "folder"), "folder", "the type of the folder")


@lists.requirement("unencoded", READROPS_FOLDERS)
def unencoded(w: NativeWorld) -> None:
    """The id of a folder contains its name as it is, with spaces and umlauts."""
    name = w.folder("Ä ö")
    w.client.post("edit-tag", a=LABEL + name)
    w.follow(w.blog("umlaut"), name)
    found = w.client.tags()
    expect(any(tag.endswith("/label/" + name) for tag in found), f"a tag …/label/{name}", found)


@lists.requirement("validators", CALLER)
def validators(w: NativeWorld) -> None:
    """The validators of 'tag/list' and 'subscription/list' change at once with folders and names."""
    scene, folder = w.followed("renamed"), w.folder("later")
    for name, form in (
        ("subscription/list", {"ac": "edit", "s": scene.feed, "t": "Another name"}),
        ("tag/list", {"ac": "edit", "s": scene.feed, "a": LABEL + folder}),
    ):
        before = w.client.get(name, output="json")
        known = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}
        sent = {known[one]: before.headers[one] for one in known if one in before.headers}
        w.client.post("subscription/edit", **form)
        after = w.client.send(API + name, query={"output": "json"}, headers=sent)
        expect(after.status == 200, f"status 200 for {name} after its change", after.text)


def _is_a(value: object, kind: type, name: str) -> None:
    expect(isinstance(value, kind) and not isinstance(value, bool), f"{kind.__name__} as {name}", value)


def _addresses(links: Any) -> list[object]:
    return [link.get("href") for link in links] if isinstance(links, list) else [links]


def _page(w: NativeWorld) -> str:
    return next(w.scene.blog.link(post) for post in w.scene.blog.posts if post.slug == "lasting")
