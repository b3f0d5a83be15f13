"""Streams: order, pages, tags, and requests for contents."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from microsub_conformance.native.apps import (
    CALLER,
    CAPY_CALLS,
    CAPY_SYNC,
    FLUENT,
    LIFEREA_CALLS,
    LIFEREA_OLD_READER,
    NEWSBOAT,
    OLD_NEWSBOAT,
    READROPS_CALLS,
    READROPS_SYNC,
    READYOU,
    RSS_GUARD,
)
from microsub_conformance.native.world import ALL, API, LABEL, READ, STARRED, STATE, Item, NativeWorld, number
from microsub_conformance.requirement import DESIGN, Chapter
from microsub_conformance.verdict import expect, same

streams = Chapter("streams", section="Streams")
pages = Chapter("pages", section="Order")
contents = Chapter("contents", section="Contents")


@streams.requirement("arrival", CALLER, READROPS_CALLS, FLUENT)
def arrival(w: NativeWorld) -> None:
    """'ot' goes by arrival at the user: it lists old posts of a feed that was followed since."""
    since = int(time.time()) - 5
    scene = w.followed("late", [replace(post, slug=f"l{at}") for at, post in enumerate(w.scene.blog.posts[2:4])])
    found = w.client.ids(ALL, ot=since, n=10_000)
    expect(set(scene.ids) <= set(found), "the posts of the new feed", f"{len(found)} others")


@streams.requirement("since", CALLER, READROPS_CALLS, FLUENT, READYOU)
def since(w: NativeWorld) -> None:
    """'ot' leaves out what arrived before."""
    w.scene.feed  # noqa: B018 - posts are there
    same(w.client.ids(w.scene.feed, ot=int(time.time()) + 3600), [], "the items that will arrive in an hour")


@streams.requirement("edited", READROPS_CALLS, CALLER, level="should")
def edited(w: NativeWorld) -> None:
    """'ot' also lists posts that were edited since then."""
    scene = w.followed("edited")
    time.sleep(1.1)
    since = int(time.time())
    post = scene.blog.posts[0]
    scene.blog.posts[0] = replace(post, html="<p>Corrected</p>", updated=post.published)
    w.publish(scene.blog)
    one = scene.posts[post.slug]
    w.until(lambda: one in w.client.ids(ALL, ot=since, n=10_000) or None, "the edited post in the list")


@streams.requirement("oldest-first", source=DESIGN)
def oldest_first(w: NativeWorld) -> None:
    """'r=o' reverses the order."""
    same(w.client.ids(w.scene.feed, r="o"), w.client.ids(w.scene.feed)[::-1], "the items with r=o")


@streams.requirement("unread", CALLER, READROPS_SYNC, READYOU, FLUENT, CAPY_SYNC)
def unread(w: NativeWorld) -> None:
    """'xt' with 'read' leaves out read items."""
    _tagged(w, READ, lambda: w.client.ids(ALL, xt=READ, n=10_000), there=False)


@streams.requirement("several-xt", READROPS_SYNC)
def several_xt(w: NativeWorld) -> None:
    """'xt' may repeat: items with any of the tags are left out."""
    with w.tagged("three", READ) as one, w.tagged("four", STARRED) as two:
        found = w.client.ids(w.scene.feed, xt=[READ, STARRED])
    expect(not {one, two} & set(found) and len(found) == len(w.scene.ids) - 2, "neither of them", found)


@streams.requirement("read-by-xt", READROPS_SYNC)
def read_by_xt(w: NativeWorld) -> None:
    """'xt' with 'unread' leaves out unread items, without 'output' too."""
    with w.tagged("three", READ) as one:
        reply = w.client.get("stream/items/ids", s=w.scene.feed, xt=f"{STATE}unread", n=1000)
    same([ref.get("id") for ref in reply.listed("itemRefs")], [one], "the read items")


@streams.requirement("read-by-it", READYOU)
def read_by_it(w: NativeWorld) -> None:
    """'it' with 'read' selects read items."""
    _tagged(w, READ, lambda: w.client.ids(w.scene.feed, it=READ), there=True)


@streams.requirement("read-stream", READYOU)
def read_stream(w: NativeWorld) -> None:
    """'read' is a stream: all read items."""
    _tagged(w, READ, lambda: w.client.ids(READ, n=10_000, ot=0), there=True)


@streams.requirement("starred", CALLER, READROPS_SYNC, CAPY_SYNC, FLUENT, READYOU)
def starred(w: NativeWorld) -> None:
    """'starred' is a stream: all starred items."""
    _tagged(w, STARRED, lambda: w.client.ids(STARRED, n=10_000), there=True)


@streams.requirement("label", CAPY_SYNC, READYOU)
def label(w: NativeWorld) -> None:
    """A folder is a stream: the items of its feeds."""
    same(set(w.client.ids(LABEL + w.scene.folder)), set(w.scene.ids), "the items of the folder")


@streams.requirement("feed", CAPY_SYNC, READYOU, LIFEREA_CALLS, RSS_GUARD)
def feed(w: NativeWorld) -> None:
    """A feed is a stream: its items, and no others of its folder."""
    scene, other = w.followed("pair-a"), w.blog("pair-b")
    w.arrived(w.follow(other, scene.folder), len(other.posts))
    same(set(w.client.ids(scene.feed)), set(scene.ids), "the items of the feed")


@streams.requirement("user-id", source=DESIGN, level="should")
def user_id(w: NativeWorld) -> None:
    """'user/<id>/' means the same as 'user/-/'."""
    user = w.client.json("user-info").get("userId")
    found = w.client.ids(f"user/{user}/label/{w.scene.folder}")
    same(set(found), set(w.scene.ids), "the items of the folder")


@streams.requirement("counts", LIFEREA_CALLS, level="should")
def counts(w: NativeWorld) -> None:
    """'unread-count' counts the unread items of each feed."""
    found = w.client.listed("unread-count", "unreadcounts", all="true")
    counted = [one.get("count") for one in found if one.get("id") == w.scene.feed]
    same(counted, [len(w.scene.ids)], f"the count of {w.scene.feed}")


@pages.requirement("full", FLUENT, RSS_GUARD, CAPY_CALLS)
def full(w: NativeWorld) -> None:
    """A page has as many ids as 'n' asks for: 1,000, and all with 'n=200000'."""
    w.many.feed  # noqa: B018 - enough items
    same(len(w.client.ids(w.many.feed, n=w.page)), w.page, f"the number of ids with n={w.page}")
    same(len(w.client.ids(w.many.feed, n=200_000)), w.page * 5 // 4, "the number of ids with n=200000")


@pages.requirement("full-contents", FLUENT, READROPS_SYNC)
def full_contents(w: NativeWorld) -> None:
    """A page of 'stream/contents' has as many items as 'n' asks for: 1,000."""
    found = w.client.listed("stream/contents", "items", s=w.many.feed, n=w.page)
    same(len(found), w.page, f"the number of items with n={w.page}")


@pages.requirement("complete", CALLER, CAPY_SYNC, READYOU)
def complete(w: NativeWorld) -> None:
    """'continuation' as 'c' continues: the pages have every item, each once."""
    found = [one for page in _pages(w, 5) for one in page.get("itemRefs") or ()]
    shown = [str(one.get("id")) for one in found]
    same(sorted(shown), sorted(w.scene.ids), "the items of all pages")


@pages.requirement("text", CALLER, FLUENT, READYOU)
def text(w: NativeWorld) -> None:
    """'continuation' is a string of letters, digits, '-' and '_': some apps don't encode it."""
    found = _pages(w, 5)[0].get("continuation")
    safe = isinstance(found, str) and found.replace("-", "").replace("_", "").isalnum() and found.isascii()
    expect(safe, "letters, digits, '-' and '_'", found)


@pages.requirement("end", CALLER, CAPY_SYNC)
def end(w: NativeWorld) -> None:
    """The last page has no 'continuation', and none follows a page that is exactly full; no page is empty."""
    number_of = len(w.scene.ids)
    for size in (number_of, number_of + 1, number_of // 2):
        found = _pages(w, size)
        expect(all(page.get("itemRefs") for page in found), "no empty page", found[-1])
        expect("continuation" not in found[-1], "no 'continuation' on the last page", found[-1].get("continuation"))


@contents.requirement("all", FLUENT)
def all_contents(w: NativeWorld) -> None:
    """'stream/contents' without a stream has all items."""
    w.scene.feed  # noqa: B018 - posts are there
    found = w.client.listed("stream/contents", "items", n=1000)
    expect(len(found) >= min(1000, len(w.scene.ids)), "the items", f"{len(found)} items")


@contents.requirement("state-in-path", READROPS_CALLS)
def state_in_path(w: NativeWorld) -> None:
    """'stream/contents' takes a stream in the path with its slashes."""
    found = w.client.send(f"{API}stream/contents/{ALL}", query={"n": 1000, "xt": READ}).listed("items")
    expect(len(found) >= min(1000, len(w.scene.ids)), "the unread items", f"{len(found)} items")


@contents.requirement("feed-in-path", NEWSBOAT, RSS_GUARD)
def feed_in_path(w: NativeWorld) -> None:
    """'stream/contents' takes a feed in the path with encoded slashes."""
    path = f"{API}stream/contents/{quote(w.scene.feed, safe='')}"
    same(_numbers(w.client.send(path, query={"n": 100}).listed("items")), _wanted(w), "the items of the feed")


@contents.requirement("many-in-one", CAPY_SYNC)
def many_in_one(w: NativeWorld) -> None:
    """'stream/items/contents' takes 10,000 ids in one request."""
    known = w.scene.ids
    unknown = [str(number(known[0]) + 10**9 + at) for at in range(w.named - len(known))]
    same(_numbers(w.client.contents([*known, *unknown])), _wanted(w), "the known ones of 10,000 items")


@contents.requirement("parallel", CAPY_SYNC, READYOU)
def parallel(w: NativeWorld) -> None:
    """Eight requests for contents at once are all answered."""
    some = w.many.ids[:100]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: len(w.client.contents(some)), range(8)))
    same(found, [len(some)] * 8, "the numbers of items in the replies")


@contents.requirement("atom", OLD_NEWSBOAT, LIFEREA_OLD_READER, level="should")
def atom(w: NativeWorld) -> None:
    """'reader/atom' has a feed as an Atom document; read entries have a category with the label 'read'."""
    with w.tagged("six", READ):
        reply = w.client.send(f"reader/atom/{quote(w.scene.feed, safe='')}", query={"n": 20})
    shown = reply.body.decode("utf-8", "replace")
    expect(reply.status == 200 and shown.count("<entry") == len(w.scene.ids), "an Atom document", reply.text)
    same(shown.count('label="read"'), 1, "the number of entries with the label 'read'")


def _pages(w: NativeWorld, size: int) -> list[Item]:
    """Up to 40 pages of the scene's feed."""
    asked: dict[str, Any] = {"s": w.scene.feed, "n": size}
    found: list[Item] = []
    while len(found) < 40:
        found.append(w.client.json("stream/items/ids", **asked))
        if not found[-1].get("continuation") or not found[-1].get("itemRefs"):
            break
        asked["c"] = str(found[-1]["continuation"])
    return found


def _tagged(w: NativeWorld, tag: str, listed: Callable[[], list[str]], *, there: bool) -> None:
    """The item `three` is in the list while it has a tag, and not before and after, or the reverse."""
    one = w.scene.posts["three"]
    before = one in listed()
    with w.tagged("three", tag):
        during = one in listed()
    same(
        (before, during, one in listed()), (not there, there, not there), "whether it is listed before, with and after"
    )


def _numbers(items: list[Item]) -> list[int]:
    return sorted(number(item.get("id")) for item in items)


def _wanted(w: NativeWorld) -> list[int]:
    return sorted(map(number, w.scene.ids))
