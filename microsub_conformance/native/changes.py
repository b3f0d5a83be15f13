"""Marks, and changes of feeds and folders."""

from __future__ import annotations

import time

from microsub_conformance.native.apps import (
    CALLER,
    CAPY_CALLS,
    CAPY_SYNC,
    DELEGATE,
    FLUENT,
    LIFEREA_CALLS,
    LIFEREA_EDITS,
    NEWSBOAT,
    READROPS_CALLS,
    READROPS_SYNC,
    READYOU,
    RSS_GUARD,
)
from microsub_conformance.native.world import ALL, API, LABEL, READ, STARRED, STATE, NativeWorld, Scene, number
from microsub_conformance.requirement import DESIGN, Chapter
from microsub_conformance.verdict import expect, same

marks = Chapter("marks", section="Marks")
feeds = Chapter("feeds", section="Subscriptions")
folders = Chapter("folders", section="Folders")


@marks.requirement("read", CALLER, READROPS_CALLS, FLUENT, CAPY_CALLS, RSS_GUARD)
def read(w: NativeWorld) -> None:
    """'a' with 'read' marks items as read, 'r' with 'read' as unread."""
    with w.tagged("one", READ) as one:
        marked = w.is_unread(one)
    same((marked, w.is_unread(one)), (False, True), "whether it was unread after each")


@marks.requirement("kept-unread", NEWSBOAT, LIFEREA_CALLS)
def kept_unread(w: NativeWorld) -> None:
    """'read' and 'kept-unread' in one request, one added and one removed, do the same; other tags are ignored."""
    one, kept = w.scene.posts["one"], f"{STATE}kept-unread"
    w.client.post("edit-tag", i=one, a=READ, r=kept, ac="edit")
    marked = w.is_unread(one)
    w.client.post("edit-tag", i=one, r=READ, a=[kept, f"{STATE}tracking-kept-unread"], ac="edit")
    same((marked, w.is_unread(one)), (False, True), "whether it was unread after each")


@marks.requirement("starred", CALLER, READROPS_CALLS, FLUENT, CAPY_CALLS, RSS_GUARD)
def starred(w: NativeWorld) -> None:
    """'starred' is added and removed, whether the item is read or not."""
    with w.tagged("two", STARRED) as one:
        item, unread = w.item("two"), w.is_unread(one)
    expect(STARRED in (item.get("categories") or ()), f"the category {STARRED}", item.get("categories"))
    expect(unread, "the item still unread", "it is read")
    expect(STARRED not in (w.item("two").get("categories") or ()), "no such category afterwards", "it is there")


@marks.requirement("ok", NEWSBOAT)
def ok(w: NativeWorld) -> None:
    """'edit-tag' and 'mark-all-as-read' answer exactly 'OK', without a newline."""
    for name, form in (("edit-tag", {"i": w.scene.posts["one"], "r": READ}), ("mark-all-as-read", {"s": "feed/0"})):
        same(w.client.post(name, **form).body, b"OK", f"the reply of {name}")


@marks.requirement("unknown", CALLER, NEWSBOAT)
def unknown(w: NativeWorld) -> None:
    """Unknown items and tags are ignored, and known ones in the same request are marked."""
    one = w.scene.posts["one"]
    w.mark([str(number(one) + 10**9), one], a=READ)
    marked = w.is_unread(one)
    w.mark([one], r=READ)
    w.mark([one], a=f"{STATE}broadcast")
    expect(not marked, "the known item read", "it is unread")


@marks.requirement("many", CALLER, RSS_GUARD)
def many(w: NativeWorld) -> None:
    """'edit-tag' takes 1,000 items in one request."""
    some = w.many.ids[: w.page]
    w.mark(some, a=READ)
    try:
        left = w.client.ids(w.many.feed, xt=READ, n=10_000)
    finally:
        w.mark(some, r=READ)
    same(len(left), len(w.many.ids) - len(some), "the number of items that are left unread")


@marks.requirement("ten-thousand", CAPY_SYNC, level="should")
def ten_thousand(w: NativeWorld) -> None:
    """'edit-tag' takes 10,000 items in one request: marks as unread and stars are sent at once."""
    one = w.scene.posts["one"]
    w.mark([one, *(str(number(one) + 10**9 + at) for at in range(w.named - 1))], a=READ)
    marked = w.is_unread(one)
    w.mark([one], r=READ)
    expect(not marked, "the known one of 10,000 items read", "it is unread")


@marks.requirement("label", CAPY_SYNC, RSS_GUARD, level="should")
def label(w: NativeWorld) -> None:
    """A label can be put on an item and taken off; the item stays in its feed."""
    name = w.folder("label")
    with w.tagged("four", LABEL + name) as one:
        with_it = w.item("four").get("categories") or ()
    without = w.item("four").get("categories") or ()
    expect(LABEL + name in with_it and LABEL + name not in without, f"{LABEL}{name} and its end", [with_it, without])
    expect(one in w.client.ids(w.scene.feed), "the item in its feed", "it is gone")


@marks.requirement("all", NEWSBOAT, FLUENT)
def mark_all(w: NativeWorld) -> None:
    """'mark-all-as-read' marks all items of the stream, and no others, without 'T' and 'ts' too."""
    scene = w.followed("all")
    reply = w.client.send(f"{API}mark-all-as-read", form={"s": scene.feed})
    expect(reply.status == 200, "status 200", reply.text)
    same(w.client.ids(scene.feed, xt=READ), [], "the unread items of the feed")
    expect(w.is_unread(w.scene.posts["lasting"]), "items of other feeds unread", "they are read")


@marks.requirement("all-before", source=DESIGN)
def all_before(w: NativeWorld) -> None:
    """'ts' limits 'mark-all-as-read' to what had arrived by then, in seconds, milli-, micro- and nanoseconds."""
    scene, now = w.followed("before"), int(time.time())
    for unit in (1, 10**3, 10**6, 10**9):
        w.client.post("mark-all-as-read", s=scene.feed, ts=(now - 10**8) * unit)
        same(len(w.client.ids(scene.feed, xt=READ)), len(scene.ids), "the unread items after ts of three years ago")
        w.client.post("mark-all-as-read", s=scene.feed, ts=(now + 60) * unit)
        same(w.client.ids(scene.feed, xt=READ), [], f"the unread items after ts of now, times {unit}")
        w.mark(scene.ids, r=READ)


@feeds.requirement("quickadd", CALLER, CAPY_SYNC, READYOU)
def quickadd(w: NativeWorld) -> None:
    """'quickadd' follows a feed: 'numResults' 1, and as 'streamId' its id in the very next 'subscription/list'."""
    blog = w.blog("quick")
    found = w.client.post("subscription/quickadd?output=json", quickadd=blog.url).ok()
    same(found.get("numResults"), 1, "numResults")
    same(found.get("streamId"), w.id_of(blog), "streamId")


@feeds.requirement("quickadd-again", CALLER, READYOU)
def quickadd_again(w: NativeWorld) -> None:
    """'quickadd' of a followed feed has 1 as 'numResults': 0 means that nothing was found."""
    form = {"quickadd": w.scene.blog.url}
    found = w.client.send(f"{API}subscription/quickadd?output=json", form={"T": w.client.token, **form})
    same(found.ok().get("numResults"), 1, "numResults")


@feeds.requirement("quickadd-nothing", READYOU, CALLER)
def quickadd_nothing(w: NativeWorld) -> None:
    """'quickadd' of an address without a feed answers 200, and 0 as 'numResults'."""
    missing = f"{w.publisher.base}/{w.run}/nothing"
    form = {"T": w.client.token, "quickadd": missing}
    reply = w.client.send(f"{API}subscription/quickadd?output=json", form=form)
    same(reply.ok().get("numResults"), 0, "numResults")


@feeds.requirement("quickadd-twice", READYOU)
def quickadd_twice(w: NativeWorld) -> None:
    """Parameters may be in the query and in the body at once."""
    blog = w.blog("double")
    query, form = {"output": "json", "quickadd": blog.url}, {"T": w.client.token, "quickadd": blog.url}
    w.client.send(f"{API}subscription/quickadd", query=query, form=form).ok()
    w.id_of(blog)


@feeds.requirement("subscribe", READROPS_SYNC)
def subscribe(w: NativeWorld) -> None:
    """'subscribe' with a folder follows the feed in it, and creates the folder."""
    folder = w.folder("created")
    same(_folders(w, w.follow(w.blog("subscribed"), folder)), [folder], "the folders of the feed")


@feeds.requirement("subscribe-null", LIFEREA_CALLS)
def subscribe_null(w: NativeWorld) -> None:
    """'subscription/edit' ignores 'i=null'."""
    blog = w.blog("null")
    w.client.post("subscription/edit?client=liferea", s=f"feed/{blog.url}", i="null", ac="subscribe")
    w.id_of(blog)


@feeds.requirement("edit-query", RSS_GUARD)
def edit_query(w: NativeWorld) -> None:
    """'subscription/edit' takes its parameters in the query too."""
    scene = w.followed("query")
    query = {"ac": "edit", "s": scene.feed, "t": "By query"}
    w.client.send(f"{API}subscription/edit", query=query, form={"T": w.client.token})
    same(w.client.subscription(scene.feed).get("title"), "By query", "the feed's title")


@feeds.requirement("edit-ok", LIFEREA_EDITS)
def edit_ok(w: NativeWorld) -> None:
    """'subscription/edit' answers 'OK', or JSON without an error."""
    reply = w.client.post("subscription/edit", ac="edit", s=w.scene.feed, a=LABEL + w.scene.folder)
    if reply.body != b"OK":
        expect("error" not in reply.json_object(), "OK", reply.text)


@feeds.requirement("rename", CALLER, READROPS_CALLS, CAPY_CALLS)
def rename(w: NativeWorld) -> None:
    """'edit' with 't' gives a feed the user's own name."""
    scene = w.followed("named")
    w.client.post("subscription/edit", ac="edit", s=scene.feed, t="My näme & yours")
    same(w.client.subscription(scene.feed).get("title"), "My näme & yours", "the feed's title")


@feeds.requirement("move", CALLER)
def move(w: NativeWorld) -> None:
    """'edit' with 'r' and 'a' moves a feed to another folder."""
    _moved(w, w.followed("moved"), removes=True)


@feeds.requirement("move-by-a", CAPY_SYNC, READROPS_CALLS)
def move_by_a(w: NativeWorld) -> None:
    """'edit' with 'a' alone moves a feed to that folder: apps with one folder for a feed name only the new one."""
    _moved(w, w.followed("put"), removes=False)


@feeds.requirement("unsubscribe", CALLER, READROPS_CALLS, CAPY_CALLS)
def unsubscribe(w: NativeWorld) -> None:
    """'unsubscribe' takes a feed out of 'subscription/list'."""
    scene = w.followed("ended")
    w.client.post("subscription/edit", ac="unsubscribe", s=scene.feed)
    expect(scene.feed not in [one.get("id") for one in w.client.subscriptions()], "the feed gone", "it is listed")


@feeds.requirement("unsubscribe-by-address", READROPS_SYNC)
def unsubscribe_by_address(w: NativeWorld) -> None:
    """'unsubscribe' and 'edit' take 'feed/' and the feed's address."""
    scene = w.followed("addressed")
    w.client.post("subscription/edit", ac="unsubscribe", s=f"feed/{scene.blog.url}")
    expect(scene.feed not in [one.get("id") for one in w.client.subscriptions()], "the feed gone", "it is listed")


@feeds.requirement("import", CALLER)
def imported(w: NativeWorld) -> None:
    """'subscription/import' follows the feeds of an OPML document sent as 'text/xml'."""
    blog, folder = w.blog("imported"), w.folder("imported")
    outline = f'<outline text="B" type="rss" xmlUrl="{blog.url}"/>'
    document = f'<opml version="2.0"><body><outline text="{folder}">{outline}</outline></body></opml>'
    reply = w.client.send(f"{API}subscription/import", body=document.encode(), kind="text/xml")
    expect(reply.status == 200, "status 200", reply.text)
    w.id_of(blog)


@feeds.requirement("export", RSS_GUARD, level="should")
def exported(w: NativeWorld) -> None:
    """'subscription/export' is an OPML document with the followed feeds."""
    blog = w.scene.blog
    reply = w.client.get("subscription/export")
    expect(reply.status == 200 and b"<opml" in reply.body and blog.url.encode() in reply.body, "OPML", reply.text)


@folders.requirement("create", READROPS_CALLS, level="should")
def create(w: NativeWorld) -> None:
    """'edit-tag' without items creates the folder 'a'."""
    name = w.folder("empty")
    w.client.post("edit-tag", a=LABEL + name)
    expect(LABEL + name in w.client.tags(), f"the tag {LABEL}{name}", "it is missing")


@folders.requirement("rename", CALLER, READROPS_CALLS, CAPY_CALLS, READYOU)
def rename_folder(w: NativeWorld) -> None:
    """'rename-tag' renames a folder with its feeds."""
    scene, name = w.followed("kept"), w.folder("renamed")
    w.client.post("rename-tag", s=LABEL + scene.folder, dest=LABEL + name)
    same(_folders(w, scene.feed), [name], "the folders of the feed")


@folders.requirement("disable", CALLER, DELEGATE, CAPY_SYNC, READYOU)
def disable(w: NativeWorld) -> None:
    """'disable-tag' removes a folder, and keeps the feeds that were in it."""
    scene = w.followed("staying")
    w.client.post("disable-tag", s=LABEL + scene.folder)
    expect(LABEL + scene.folder not in w.client.tags(), "the folder gone", "it is listed")
    expect(scene.folder not in _folders(w, scene.feed), "the feed in no such folder", "it is there")


def _moved(w: NativeWorld, scene: Scene, *, removes: bool) -> None:
    folder = w.folder("there")
    labels = {"a": LABEL + folder, **({"r": LABEL + scene.folder} if removes else {"t": "A title"})}
    w.client.post("subscription/edit", ac="edit", s=scene.feed, **labels)
    same(_folders(w, scene.feed), [folder], "the folders of the feed")
    expect(set(scene.ids) <= set(w.client.ids(ALL, n=10_000)), "its items", "they are gone")


def _folders(w: NativeWorld, feed: str) -> list[object]:
    return [one.get("label") for one in w.client.subscription(feed).get("categories") or ()]
