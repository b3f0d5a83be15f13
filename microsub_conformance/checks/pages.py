"""Timelines: order, pages and cursors, the views by read state and source, and the merged view of all channels."""

from __future__ import annotations

import re

from microsub_conformance.checks.items import instant
from microsub_conformance.checks.read_state import is_shared
from microsub_conformance.requirement import DESIGN, Chapter, client
from microsub_conformance.timeline import Item, TimelinePage, each_once, ids, page, unread_ids, walk
from microsub_conformance.verdict import expect, same
from microsub_conformance.world import World

timeline = Chapter("timeline", anchor="Timelines", section="Actions, timeline")
paging = Chapter("paging", anchor="Timelines", section="Cursors")

CURSOR = re.compile(r"[A-Za-z0-9_-]+")
SEVERAL = 7
"""A page size that divides neither the number of tied posts nor that of all."""


def tied(w: World) -> tuple[str, list[Item]]:
    """A channel with 75 posts, 60 of them of the same instant. Checks don't change it."""
    return w.shared("a channel with 60 posts of one instant", lambda world: world.filled(world.blogs.ties))


def _long(w: World) -> tuple[str, list[Item]]:
    return w.shared("a channel with 130 posts", lambda world: world.filled(world.blogs.long))


@timeline.requirement("empty", source=client("IndiePass iOS"))
def empty(w: World) -> None:
    """An empty channel returns an empty list and an object 'paging'."""
    first = page(w.user, w.channel())
    same(first.items, [], "'items'")
    same(first.after, None, "'paging.after'")


@timeline.requirement("order")
def order(w: World) -> None:
    """Items are listed newest first, by time of publication."""
    _, found = tied(w)
    times = [instant(item) for item in found]
    same([str(time) for time in times], [str(time) for time in sorted(times, reverse=True)], "the times")


@timeline.requirement("merged-order", source=DESIGN)
def merged_order(w: World) -> None:
    """Items of several feeds are merged by their time of publication."""
    channel = w.channel()
    w.fill(channel, w.blogs.eight)
    times = [instant(item) for item in w.fill(channel, w.blogs.fresh)]
    same([str(time) for time in times], [str(time) for time in sorted(times, reverse=True)], "the times")


@timeline.requirement("stable", source=DESIGN)
def stable(w: World) -> None:
    """The order is the same in every request."""
    channel, found = tied(w)
    same(ids(w.items(channel)), ids(found), "the items of the second walk")


@timeline.requirement("limit-default", source=DESIGN)
def limit_default(w: World) -> None:
    """A page has 20 items unless 'limit' is given."""
    channel, _ = tied(w)
    same(len(page(w.user, channel).items), 20, "the number of items")


@timeline.requirement("limit", source=DESIGN)
def limit(w: World) -> None:
    """'limit' sets the number of items on a page."""
    channel, found = tied(w)
    for wanted in (1, 5, 60):
        same(ids(page(w.user, channel, limit=wanted).items), ids(found)[:wanted], f"the page of limit={wanted}")


@timeline.requirement("limit-max", source=DESIGN)
def limit_max(w: World) -> None:
    """A page has at most 100 items."""
    channel, _ = _long(w)
    same(len(page(w.user, channel, limit=100).items), 100, "the number of items with limit=100")
    reply = w.user.get("timeline", channel=channel, limit=1000)
    if reply.status != 400:
        same(len(reply.listed("items")), 100, "the number of items with limit=1000")


@timeline.requirement("is-read", source=DESIGN)
def is_read(w: World) -> None:
    """is_read=false returns the unread items, is_read=true the read ones."""
    channel, items = w.unread_channel()
    w.user.post("timeline", method="mark_read", channel=channel, entry=ids(items)[1:4]).ok()
    unread = walk(w.user, channel, is_read="false")
    same(ids(unread), [ids(items)[0], *ids(items)[4:]], "the unread items")
    same(ids(walk(w.user, channel, is_read="true")), ids(items)[1:4], "the read items")


@timeline.requirement("source", source=client("Monocle"))
def source(w: World) -> None:
    """'source' returns the items of one feed, and an object 'source'."""
    channel = w.channel()
    w.fill(channel, w.blogs.eight)
    everything = w.fill(channel, w.blogs.fresh)
    wanted = [item for item in everything if str(item.get("url")).startswith(w.blogs.eight.url)]
    uid = str(wanted[0].get("_source"))
    first = page(w.user, channel, source=uid)
    described = first.reply.get("source")
    expect(isinstance(described, dict), "an object 'source' in the reply", list(first.reply))
    assert isinstance(described, dict)
    same(described.get("_id"), uid, "'source._id'")
    expect(isinstance(described.get("name"), str), "a string 'source.name'", described)
    expect(isinstance(described.get("url"), str), "a string 'source.url'", described)
    same(ids(walk(w.user, channel, source=uid, limit=3)), ids(wanted), "the items of the feed")


@timeline.requirement("source-ids", source=DESIGN)
def source_ids(w: World) -> None:
    """A feed has one id: '_source', '_id' in lists, 'uid' in the tree."""
    channel, items = w.filled(w.blogs.eight)
    uid = items[0].get("_source")
    same(
        [feed.get("_id") for feed in w.user.get("follow", channel=channel).listed("items")], [uid], "'_id' of the feed"
    )
    shown = w.user.get("channels", method="tree").listed("channels")
    sources = next(entry.get("sources", []) for entry in shown if entry.get("uid") == channel)
    same([entry.get("uid") for entry in sources], [uid], "'uid' in the tree")


def _in_global(w: World, wanted: set[str], limit: int = 100, **parameters: str) -> list[Item]:
    """The items of `wanted` in the merged view, which is read until all are found or it ends."""
    found: list[Item] = []
    step: dict[str, str] = {}
    for _ in range(40):
        part = page(w.user, "global", limit=limit, **parameters, **step)
        found += [item for item in part.items if item.get("_id") in wanted]
        if part.after is None:
            break
        step = {"after": part.after}
    return found


@timeline.requirement("global", source=DESIGN)
def global_(w: World) -> None:
    """The channel 'global' merges all channels, each item once."""
    first, items = w.filled(w.blogs.eight)
    second, _ = w.filled(w.blogs.eight)
    third, others = w.filled(w.blogs.fresh)
    found = _in_global(w, {*ids(items), *ids(others)})
    each_once(found, [*ids(items), *ids(others)], "all items of the channels")
    times = [instant(item) for item in found]
    same([str(time) for time in times], [str(time) for time in sorted(times, reverse=True)], "the times")
    for item in found:
        uid = item.get("_channel", {}).get("uid")
        expect(uid in {first, second, third}, "the item's own channel in '_channel'", item)


@timeline.requirement("global-unread", source=DESIGN)
def global_unread(w: World) -> None:
    """'global' with is_read=false returns the unread items of all channels."""
    channel, items = w.unread_channel()
    other, _ = w.unread_channel()
    one, two, three = ids(items)[:3]
    w.user.post("timeline", method="mark_read", channel=channel, entry=[one, two]).ok()
    w.user.post("timeline", method="mark_read", channel=other, entry=[one]).ok()
    found = ids(_in_global(w, {one, two, three}, is_read="false"))
    same(found, [three] if is_shared(w) else [two, three], "the unread ones of the three first items")


@paging.requirement("after")
def after(w: World) -> None:
    """'paging.after' leads to the next older items."""
    channel, found = tied(w)
    first = page(w.user, channel, limit=SEVERAL)
    expect(first.after is not None, "'paging.after' on a page with older items behind it", first.reply.get("paging"))
    second = page(w.user, channel, limit=SEVERAL, after=str(first.after))
    same(ids(first.items + second.items), ids(found)[: 2 * SEVERAL], "the items of the first two pages")


@paging.requirement("walk", source=DESIGN)
def walk_once(w: World) -> None:
    """A walk along 'after' visits every item once, even across 60 equal times."""
    channel, found = tied(w)
    for size in (1, SEVERAL, 20):
        each_once(walk(w.user, channel, limit=size), ids(found), f"all items with limit={size}")


@paging.requirement("end", source=client("IndiePass desktop"))
def end(w: World) -> None:
    """'paging.after' is absent on the last page, even if that is full."""
    channel, found = tied(w)
    full = len(found) // 5
    sizes: list[int] = []
    walk(w.user, channel, limit=full, between=lambda _, part: sizes.append(len(part.items)))
    same(sizes, [full] * 5, "the number of items on each page")


@paging.requirement("before-present", source=client("microsub-notifier"))
def before_present(w: World) -> None:
    """'paging.before' is on every page that isn't empty."""
    channel, _ = tied(w)

    def look(number: int, part: TimelinePage) -> None:
        expect(part.before is not None, f"'paging.before' on page {number}", part.reply.get("paging"))

    walk(w.user, channel, limit=20, between=look)


@paging.requirement("before-adjacent", source=DESIGN)
def before_adjacent(w: World) -> None:
    """'paging.before' leads to the adjacent newer items, not to the newest."""
    channel, found = tied(w)
    pages: list[TimelinePage] = []
    walk(w.user, channel, limit=SEVERAL, between=lambda _, part: pages.append(part))
    for number in (1, 3, 5, len(pages) - 1):
        back = page(w.user, channel, limit=SEVERAL, before=str(pages[number].before))
        same(ids(back.items), ids(pages[number - 1].items), f"the items before page {number + 1}")
    back = page(w.user, channel, limit=2, before=str(pages[4].before))
    same(ids(back.items), ids(found)[4 * SEVERAL - 2 : 4 * SEVERAL], "the two items just before page 5")


@paging.requirement("before-none", source=client("microsub-notifier"))
def before_none(w: World) -> None:
    """Before the first page there is nothing."""
    channel, _ = tied(w)
    first = page(w.user, channel)
    same(page(w.user, channel, before=str(first.before)).items, [], "the items before the first page")


@paging.requirement("before-new", source=client("microsub-notifier"))
def before_new(w: World) -> None:
    """A stored 'paging.before' returns exactly the items that arrived since."""
    channel, items = w.filled(w.blogs.eight)
    kept = page(w.user, channel, limit=5).before
    everything = w.fill(channel, w.blogs.fresh)
    new = [identifier for identifier in ids(everything) if identifier not in ids(items)]
    same(ids(page(w.user, channel, before=str(kept), limit=50).items), new, "the new items")
    same(ids(page(w.user, channel, before=str(kept), limit=4).items), new[-4:], "the four oldest of the new items")


@paging.requirement("insertion", source=DESIGN)
def insertion(w: World) -> None:
    """A walk visits all items present at its start once while newer items arrive."""
    channel, items = w.filled(w.blogs.ties)

    def insert(number: int, part: TimelinePage) -> None:
        if number == 2:
            w.fill(channel, w.blogs.fresh)

    each_once(walk(w.user, channel, limit=SEVERAL, between=insert), ids(items), "all items that were there")


@paging.requirement("insertion-between", source=DESIGN)
def insertion_between(w: World) -> None:
    """A walk visits all items present at its start once while items with times in between arrive."""
    channel, items = w.filled(w.blogs.ties)
    w.fill(channel, w.blogs.fresh)

    def insert(number: int, part: TimelinePage) -> None:
        if number == 1:
            w.fill(channel, w.blogs.eight)

    each_once(walk(w.user, channel, limit=SEVERAL, between=insert), ids(items), "all items that were there")


@paging.requirement("removed-cursor", source=DESIGN)
def removed_cursor(w: World) -> None:
    """A cursor keeps its place even if its item was removed."""
    channel, items = w.filled(w.blogs.ties)
    first = page(w.user, channel, limit=SEVERAL)
    w.user.post("timeline", method="remove", channel=channel, entry=ids(first.items)[-2:]).ok()
    second = page(w.user, channel, limit=SEVERAL, after=str(first.after))
    same(ids(second.items), ids(items)[SEVERAL : 2 * SEVERAL], "the items of the second page")


@paging.requirement("unread-view", source=DESIGN)
def unread_view(w: World) -> None:
    """A walk of the unread view visits each item once while pages are marked read."""
    channel, items = w.unread_channel(w.blogs.ties)

    def mark(number: int, part: TimelinePage) -> None:
        if part.items:
            w.user.post("timeline", method="mark_read", channel=channel, entry=ids(part.items)).ok()

    each_once(walk(w.user, channel, limit=SEVERAL, is_read="false", between=mark), ids(items), "all unread items")
    same(unread_ids(w.items(channel)), [], "the unread items afterwards")


@paging.requirement("cursor-characters", source=client("IndiePass Android"))
def cursor_characters(w: World) -> None:
    """Cursors need no encoding in a URL: [A-Za-z0-9_-]."""
    channel, _ = tied(w)

    def look(number: int, part: TimelinePage) -> None:
        for cursor in (part.after, part.before):
            expect(cursor is None or CURSOR.fullmatch(cursor) is not None, "a cursor of [A-Za-z0-9_-]+", cursor)

    walk(w.user, channel, limit=20, between=look)


@paging.requirement("global-walk", source=DESIGN, level="must")
def global_walk(w: World) -> None:
    """A walk of 'global' visits each item once."""
    channel, items = tied(w)
    w.fill(w.channel(), w.blogs.ties)
    each_once(_in_global(w, set(ids(items)), limit=25), ids(items), f"all items of {channel}")
