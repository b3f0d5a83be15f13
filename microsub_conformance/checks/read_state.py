"""Read state: marking, counting, and what marking must not change."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from microsub_conformance.client import MicrosubReply
from microsub_conformance.requirement import DESIGN, Chapter, client
from microsub_conformance.timeline import Item, ids, unread_ids, walk
from microsub_conformance.verdict import Skip, expect, same
from microsub_conformance.world import World

reading = Chapter("reading", anchor="Timelines", section="Read state")


def mark(w: World, channel: str, *entries: str, method: str = "mark_read") -> MicrosubReply:
    """Mark these entries."""
    return w.user.post("timeline", method=method, channel=channel, entry=list(entries))


def is_shared(w: World) -> bool:
    """Whether a mark in one channel counts in all, which a server may let its users choose."""
    first, items = w.unread_channel()
    second, _ = w.unread_channel()
    mark(w, first, ids(items)[0]).ok()
    return w.unread(second) < len(items)


def updated(reply: MicrosubReply) -> Any:
    """The number of changed items in the reply."""
    return reply.ok().get("updated")


@reading.requirement("mark-read")
def mark_read(w: World) -> None:
    """mark_read marks an item as read, and no other."""
    channel, items = w.unread_channel()
    one = ids(items)[2]
    mark(w, channel, one).ok()
    same(unread_ids(w.items(channel)), [other for other in ids(items) if other != one], "the unread items")


@reading.requirement("mark-several")
def mark_several(w: World) -> None:
    """mark_read accepts several entries."""
    channel, items = w.unread_channel()
    mark(w, channel, *ids(items)[1:4]).ok()
    same(unread_ids(w.items(channel)), [ids(items)[0], *ids(items)[4:]], "the unread items")


@reading.requirement("mark-unread")
def mark_unread(w: World) -> None:
    """mark_unread marks items as unread again."""
    channel, items = w.unread_channel()
    mark(w, channel, *ids(items)[:3]).ok()
    mark(w, channel, ids(items)[1], method="mark_unread").ok()
    same(unread_ids(w.items(channel)), ids(items)[1:2] + ids(items)[3:], "the unread items")


@reading.requirement("result", source=DESIGN)
def result(w: World) -> None:
    """The reply is 'result': 'ok' and 'updated', the number of items that changed."""
    channel, items = w.unread_channel()
    reply = mark(w, channel, *ids(items)[:3]).ok()
    same((reply.get("result"), reply.get("updated")), ("ok", 3), "'result' and 'updated'")
    same(updated(mark(w, channel, *ids(items)[:4])), 1, "'updated' where one of four was unread")
    same(updated(mark(w, channel, *ids(items)[2:6], method="mark_unread")), 2, "'updated' of mark_unread")


@reading.requirement("idempotent", source=DESIGN)
def idempotent(w: World) -> None:
    """Marking twice is marking once."""
    channel, items = w.unread_channel()
    one = ids(items)[0]
    mark(w, channel, one, one).ok()
    count = w.unread(channel)
    same(updated(mark(w, channel, one)), 0, "'updated' of the second mark_read")
    same(w.unread(channel), count, "the unread count after the second mark_read")
    mark(w, channel, one, method="mark_unread").ok()
    same(updated(mark(w, channel, one, method="mark_unread")), 0, "'updated' of the second mark_unread")
    same(w.unread(channel), len(items), "the unread count")


@reading.requirement("unknown-ids", source=DESIGN)
def unknown_ids(w: World) -> None:
    """Unknown ids are ignored; known ones in the same request are marked."""
    channel, items = w.unread_channel()
    same(updated(mark(w, channel, "987654321987654", "no-such-item")), 0, "'updated' for unknown ids")
    same(updated(mark(w, channel, "987654321987654", ids(items)[0], "x" * 200)), 1, "'updated' with one known id")
    same(w.unread(channel), len(items) - 1, "the unread count")


@reading.requirement("foreign-ids", source=DESIGN)
def foreign_ids(w: World) -> None:
    """An item of another channel is unknown in this one."""
    channel, items = w.unread_channel()
    empty = w.channel()
    same(updated(mark(w, empty, *ids(items)[:2])), 0, "'updated' in a channel that has none of the items")
    same(w.unread(channel), len(items), "the unread count of their own channel")
    same(w.unread(empty), 0, "the unread count of the other channel")


@reading.requirement("per-channel", source=DESIGN)
def per_channel(w: World) -> None:
    """Read state belongs to the channel, or to all if the user chooses: an item in two is read in one or both."""
    are_marked = 3 if is_shared(w) else 0
    first, items = w.unread_channel()
    second, _ = w.unread_channel()
    mark(w, first, *ids(items)[:3]).ok()
    left = ids(items)[are_marked:]
    same(w.unread(second), len(left), "the unread count of the other channel")
    same(unread_ids(w.items(second)), left, "the unread items of the other channel")


def _marked_up_to(w: World, position: int) -> tuple[str, list[Item], Any]:
    channel, items = w.unread_channel()
    reply = w.user.post("timeline", method="mark_read", channel=channel, last_read_entry=ids(items)[position])
    return channel, items, updated(reply)


@reading.requirement("last-read")
def last_read(w: World) -> None:
    """last_read_entry marks that item and everything older, nothing newer."""
    channel, items, _ = _marked_up_to(w, 3)
    same(unread_ids(w.items(channel)), ids(items)[:3], "the unread items")


@reading.requirement("last-read-updated", source=DESIGN)
def last_read_updated(w: World) -> None:
    """'updated' counts what last_read_entry changed."""
    channel, items, changed = _marked_up_to(w, 5)
    same(changed, len(items) - 5, "'updated'")
    again = w.user.post("timeline", method="mark_read", channel=channel, last_read_entry=ids(items)[3])
    same(updated(again), 2, "'updated' of a second one, two items further up")


@reading.requirement("last-read-ties", source=DESIGN)
def last_read_ties(w: World) -> None:
    """Among items of the same instant, last_read_entry follows the order on the page."""
    channel, items = w.unread_channel(w.blogs.ties)
    position = 30
    w.user.post("timeline", method="mark_read", channel=channel, last_read_entry=ids(items)[position]).ok()
    same(unread_ids(w.items(channel)), ids(items)[:position], "the unread items")
    same(w.unread(channel), position, "the unread count")


@reading.requirement("everything", source=client("IndiePass desktop"))
def everything(w: World) -> None:
    """last_read_entry=everything marks the whole channel."""
    channel, items = w.unread_channel()
    other, _ = w.unread_channel()
    reply = w.user.post("timeline", method="mark_read", channel=channel, last_read_entry="everything")
    same(updated(reply), len(items), "'updated'")
    same(unread_ids(w.items(channel)), [], "the unread items")
    same(w.unread(channel), 0, "the unread count")
    same(w.unread(other), 0 if is_shared(w) else len(items), "the unread count of another channel")


@reading.requirement("last-read-unknown", source=DESIGN)
def last_read_unknown(w: World) -> None:
    """An unknown last_read_entry changes nothing."""
    channel, items = w.unread_channel()
    for unknown in ("987654321987654", "no-such-item"):
        reply = w.user.post("timeline", method="mark_read", channel=channel, last_read_entry=unknown)
        same(updated(reply), 0, "'updated'")
    same(w.unread(channel), len(items), "the unread count")


@reading.requirement("last-read-left", source=DESIGN)
def last_read_left(w: World) -> None:
    """A removed item as last_read_entry counts at its former position."""
    channel, items = w.unread_channel()
    gone = ids(items)[3]
    w.user.post("timeline", method="remove", channel=channel, entry=gone).ok()
    w.user.post("timeline", method="mark_read", channel=channel, last_read_entry=gone).ok()
    same(unread_ids(w.items(channel)), ids(items)[:3], "the unread items")


@reading.requirement("last-read-json", source=DESIGN)
def last_read_json(w: World) -> None:
    """last_read_entry is accepted in a JSON body."""
    channel, items = w.unread_channel()
    body = {"action": "timeline", "method": "mark_read", "channel": channel, "last_read_entry": ids(items)[6]}
    same(updated(w.user.json(body)), 2, "'updated'")


@reading.requirement("count", source=DESIGN)
def count(w: World) -> None:
    """The unread count is exact after every step."""
    channel, items = w.unread_channel()
    entries = ids(items)
    steps: list[tuple[Callable[[], MicrosubReply], int]] = [
        (lambda: mark(w, channel, *entries[:3]), 5),
        (lambda: mark(w, channel, *entries[1:5]), 3),
        (lambda: mark(w, channel, entries[0], method="mark_unread"), 4),
        (lambda: w.user.post("timeline", method="remove", channel=channel, entry=entries[0]), 3),
        (lambda: w.user.post("timeline", method="remove", channel=channel, entry=entries[1]), 3),
        (lambda: mark(w, channel, entries[0], method="mark_unread"), 3),
        (lambda: mark(w, channel, *entries, method="mark_unread"), 6),
        (lambda: w.user.post("timeline", method="mark_read", channel=channel, last_read_entry=entries[6]), 4),
    ]
    for number, (step, wanted) in enumerate(steps, 1):
        step().ok()
        same(w.unread(channel), wanted, f"the unread count after step {number}")
        same(len(unread_ids(w.items(channel))), wanted, f"the number of unread items after step {number}")
        same(len(walk(w.user, channel, is_read="false")), wanted, f"the length of the unread view after step {number}")


@reading.requirement("concurrent", source=DESIGN)
def concurrent(w: World) -> None:
    """Concurrent marks lose nothing and count every change once."""
    channel, items = w.unread_channel(w.blogs.ties)
    entries = ids(items)
    groups = [entries[start : start + 12] for start in range(0, len(entries), 4)]
    with ThreadPoolExecutor(8) as pool:
        changed = list(pool.map(lambda group: updated(mark(w, channel, *group)), groups))
    same(sum(changed), len(entries), "the sum of 'updated' over all replies")
    same(w.unread(channel), 0, "the unread count")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda group: mark(w, channel, *group, method="mark_unread").ok(), groups[::2]))
    wanted = len({entry for group in groups[::2] for entry in group})
    same(w.unread(channel), wanted, "the unread count after concurrent mark_unread")
    same(len(unread_ids(w.items(channel))), wanted, "the number of unread items")


@reading.requirement("global-mark", source=DESIGN)
def global_mark(w: World) -> None:
    """Marking in 'global' marks an item wherever it is."""
    first, items = w.unread_channel()
    second, _ = w.unread_channel()
    one, two = ids(items)[:2]
    mark(w, "global", one, two).ok()
    for channel in (first, second):
        same(unread_ids(w.items(channel)), ids(items)[2:], "the unread items in each channel")
        same(w.unread(channel), len(items) - 2, "the unread count of each channel")
    mark(w, "global", one, method="mark_unread").ok()
    for channel in (first, second):
        same(w.unread(channel), len(items) - 1, "the unread count of each channel after mark_unread")


def _alone(w: World) -> None:
    """Skip if marking everything would change items that the suite didn't create."""
    for entry in w.user.get("channels").listed("channels"):
        if entry.get("unread", 0) != 0 and w.run not in str(entry.get("name")):
            raise Skip(f"the account has other unread items, in {entry.get('uid')}")


@reading.requirement("global-last-read", source=DESIGN)
def global_last_read(w: World) -> None:
    """last_read_entry in 'global' marks that item and everything older, in all channels."""
    _alone(w)
    first, items = w.unread_channel()
    second, others = w.unread_channel(w.blogs.fresh)
    w.user.post("timeline", method="mark_read", channel="global", last_read_entry=ids(items)[2]).ok()
    same(unread_ids(w.items(first)), ids(items)[:2], "the unread items in the item's channel")
    same(unread_ids(w.items(second)), ids(others), "the unread items in a channel with newer items")
    w.user.post("timeline", method="mark_read", channel="global", last_read_entry=ids(others)[1]).ok()
    same((w.unread(first), w.unread(second)), (0, 1), "the unread counts after marking further up")


@reading.requirement("global-everything", source=DESIGN)
def global_everything(w: World) -> None:
    """last_read_entry=everything in 'global' marks all channels."""
    _alone(w)
    first, _ = w.unread_channel()
    second, _ = w.unread_channel(w.blogs.fresh)
    w.user.post("timeline", method="mark_read", channel="global", last_read_entry="everything").ok()
    same((w.unread(first), w.unread(second)), (0, 0), "the unread counts")
    same(w.user.get("timeline", channel="global", is_read="false").listed("items"), [], "the view of all unread items")


@reading.requirement("refollowed", source=DESIGN)
def refollowed(w: World) -> None:
    """Read items don't return as unread when the feed is followed again."""
    channel, items = w.unread_channel()
    mark(w, channel, *ids(items)[:3]).ok()
    w.user.post("unfollow", channel=channel, url=w.blogs.eight.url).ok()
    w.follow(channel, w.blogs.eight)
    found = w.await_items(channel, len(items))
    same(ids(found), ids(items), "the items")
    for item in found:
        if item["_id"] in ids(items)[:3]:
            expect(item.get("_is_read") is True, "an item that was read before to be read", item)
