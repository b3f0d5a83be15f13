"""Removing items from a channel, and moving them to another."""

from __future__ import annotations

from microsub_conformance.client import MicrosubReply
from microsub_conformance.requirement import DESIGN, Chapter
from microsub_conformance.timeline import ids, unread_ids
from microsub_conformance.verdict import same
from microsub_conformance.world import World

removing = Chapter("removing", anchor="Timelines", section="Actions, timeline")
moving = Chapter("moving", section="Actions, timeline")


def _remove(w: World, channel: str, *entries: str) -> MicrosubReply:
    return w.user.post("timeline", method="remove", channel=channel, entry=list(entries))


def _move(w: World, target: str, *entries: str) -> MicrosubReply:
    return w.user.post("timeline", method="move", channel=target, entry=list(entries))


@removing.requirement("remove")
def remove(w: World) -> None:
    """remove removes entries from the channel, and leaves the others."""
    channel, items = w.unread_channel()
    _remove(w, channel, *ids(items)[1:3]).ok()
    same(ids(w.items(channel)), [ids(items)[0], *ids(items)[3:]], "the items")


@removing.requirement("count", source=DESIGN)
def count(w: World) -> None:
    """A removed unread item is no longer counted."""
    channel, items = w.unread_channel()
    _remove(w, channel, ids(items)[0]).ok()
    same(w.unread(channel), len(items) - 1, "the unread count")
    same(
        ids(w.user.get("timeline", channel=channel, is_read="false").listed("items")), ids(items)[1:], "the unread view"
    )


@removing.requirement("idempotent", source=DESIGN)
def idempotent(w: World) -> None:
    """Removing an item twice, or a missing one, changes nothing."""
    channel, items = w.unread_channel()
    _remove(w, channel, ids(items)[0]).ok()
    _remove(w, channel, ids(items)[0], "987654321987654", "no-such-item").ok()
    same(ids(w.items(channel)), ids(items)[1:], "the items")
    same(w.unread(channel), len(items) - 1, "the unread count")


@removing.requirement("this-channel", source=DESIGN)
def this_channel(w: World) -> None:
    """remove removes an item from this channel only."""
    channel, items = w.unread_channel()
    other, _ = w.unread_channel()
    _remove(w, channel, *ids(items)[:2]).ok()
    same(ids(w.items(other)), ids(items), "the items of the other channel")
    same(w.unread(other), len(items), "the unread count of the other channel")


@removing.requirement("marked", source=DESIGN)
def marked(w: World) -> None:
    """Marking a removed item doesn't bring it back."""
    channel, items = w.unread_channel()
    gone = ids(items)[0]
    _remove(w, channel, gone).ok()
    for method in ("mark_unread", "mark_read", "mark_unread"):
        reply = w.user.post("timeline", method=method, channel=channel, entry=gone).ok()
        same(reply.get("updated"), 0, f"'updated' of {method}")
    same(ids(w.items(channel)), ids(items)[1:], "the items")
    same(w.unread(channel), len(items) - 1, "the unread count")


@removing.requirement("refollowed", source=DESIGN)
def refollowed(w: World) -> None:
    """A removed item doesn't come back when the feed is followed again."""
    channel, items = w.unread_channel()
    _remove(w, channel, *ids(items)[:2]).ok()
    w.user.post("unfollow", channel=channel, url=w.blogs.eight.url).ok()
    w.follow(channel, w.blogs.eight)
    w.fill(channel, w.blogs.fresh)
    found = w.await_items(channel, len(items) - 2 + len(w.blogs.fresh.posts))
    same([gone for gone in ids(items)[:2] if gone in ids(found)], [], "the removed items that are back")


@moving.requirement("move", source=DESIGN)
def move(w: World) -> None:
    """move moves entries from their channel into the given one."""
    channel, items = w.unread_channel()
    target = w.channel("target")
    _move(w, target, *ids(items)[1:3]).ok()
    same(ids(w.items(target)), ids(items)[1:3], "the items of the target")
    same(ids(w.items(channel)), [ids(items)[0], *ids(items)[3:]], "the items that stayed")


@moving.requirement("state", source=DESIGN)
def state(w: World) -> None:
    """A moved item keeps its read state, and both counts are exact."""
    channel, items = w.unread_channel()
    target = w.channel("target")
    one, two, three = ids(items)[:3]
    w.user.post("timeline", method="mark_read", channel=channel, entry=[one]).ok()
    _move(w, target, one, two, three).ok()
    same(unread_ids(w.items(target)), [two, three], "the unread items in the target")
    same((w.unread(target), w.unread(channel)), (2, len(items) - 3), "the unread counts of target and origin")
    for item in w.items(target):
        same(item.get("_channel", {}).get("uid"), target, "'_channel.uid' of a moved item")


@moving.requirement("back", source=DESIGN)
def back(w: World) -> None:
    """A moved item can be moved back."""
    channel, items = w.unread_channel()
    target = w.channel("target")
    one = ids(items)[0]
    _move(w, target, one).ok()
    _move(w, channel, one).ok()
    same(ids(w.items(target)), [], "the items of the target")
    same(ids(w.items(channel)), ids(items), "the items of the origin")
    same(w.unread(channel), len(items), "the unread count")


@moving.requirement("same", source=DESIGN)
def same_channel(w: World) -> None:
    """Moving an item to where it is changes nothing."""
    channel, items = w.unread_channel()
    _move(w, channel, ids(items)[0]).ok()
    same(ids(w.items(channel)), ids(items), "the items")
    same(w.unread(channel), len(items), "the unread count")


@moving.requirement("unknown", source=DESIGN)
def unknown(w: World) -> None:
    """Unknown ids are ignored."""
    _, items = w.unread_channel()
    target = w.channel("target")
    _move(w, target, "987654321987654", "no-such-item", ids(items)[0]).ok()
    same(ids(w.items(target)), ids(items)[:1], "the items of the target")
