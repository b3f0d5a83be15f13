"""Saved items, and ids in order of arrival: extensions, checked if the server has them."""

from __future__ import annotations

from microsub_conformance.checks.read_state import is_shared
from microsub_conformance.requirement import DESIGN, Chapter
from microsub_conformance.timeline import MANY_PAGES, Item, each_once, ids
from microsub_conformance.verdict import Skip, Violation, expect, same
from microsub_conformance.world import World

saving = Chapter("saving", section="Actions, timeline, saved posts")
arriving = Chapter("arriving", section="Actions, timeline, ids in order of arrival")

SAVED = "saved"


def _save(w: World, *entries: str) -> None:
    """Save entries for the duration of the check. Raises Skip if the server has no saved items."""
    channels = w.user.get("channels").listed("channels")
    if SAVED not in [channel.get("uid") for channel in channels]:
        raise Skip("the server has no channel 'saved'")
    reply = w.user.post("timeline", method="save", entry=list(entries))
    if reply.status == 400 and reply.json_object().get("error") == "not_implemented":
        raise Skip("the server has no method=save")
    reply.ok()
    w.afterwards(lambda: _unsave(w, *entries))


def _unsave(w: World, *entries: str) -> None:
    w.user.post("timeline", method="unsave", entry=list(entries)).ok()


def _kept(w: World, *entries: str) -> list[str]:
    """The given entries that are in `saved`."""
    return [one for one in ids(w.items(SAVED)) if one in entries]


@saving.requirement("save", source=DESIGN)
def save(w: World) -> None:
    """save adds items to 'saved'; they also stay in their channel, with their read state."""
    channel, items = w.unread_channel()
    one, two, *_ = ids(items)
    w.user.post("timeline", method="mark_read", channel=channel, entry=one).ok()
    _save(w, one, two)
    same(_kept(w, one, two), [one, two], "the items in 'saved'")
    same(ids(w.items(channel)), ids(items), "the items of the channel")
    same(w.unread(channel), len(items) - 1, "the unread count of the channel")


@saving.requirement("shown", source=DESIGN)
def shown(w: World) -> None:
    """Saved items carry '_saved' in every channel, others don't."""
    channel, items = w.unread_channel()
    one = ids(items)[0]
    _save(w, one)
    found = [item["_id"] for item in w.items(channel) if item.get("_saved") is True]
    same(found, [one], "the saved items of the channel")
    same([item.get("_saved") for item in w.items(SAVED) if item["_id"] == one], [True], "'_saved' in 'saved'")


@saving.requirement("unsave", source=DESIGN)
def unsave(w: World) -> None:
    """unsave removes items only from 'saved'; save and unsave can be repeated."""
    channel, items = w.unread_channel()
    one, two, *_ = ids(items)
    for _ in range(2):
        _save(w, one, two)
    for _ in range(2):
        _unsave(w, one, "987654321987654")
    same(_kept(w, one, two), [two], "the items in 'saved'")
    same(ids(w.items(channel)), ids(items), "the items of the channel")


@saving.requirement("stays", source=DESIGN)
def stays(w: World) -> None:
    """A saved item stays when it is removed elsewhere, its feed is unfollowed, or its channel is deleted."""
    channel, items = w.unread_channel()
    one, two, three, *_ = ids(items)
    _save(w, one, two, three)
    w.user.post("timeline", method="remove", channel=channel, entry=one).ok()
    w.user.post("unfollow", channel=channel, url=w.blogs.eight.url).ok()
    same(_kept(w, one, two, three), [one, two, three], "the items in 'saved'")
    w.user.post("channels", method="delete", channel=channel).ok()
    same(_kept(w, one, two, three), [one, two, three], "the items in 'saved' without the channel")


@saving.requirement("mark-all", source=DESIGN)
def mark_all(w: World) -> None:
    """Marking everything as read in 'global' doesn't change 'saved', if a mark in one channel doesn't count in all."""
    _, items = w.unread_channel()
    one = ids(items)[0]
    _save(w, one)
    w.user.post("timeline", method="mark_unread", channel=SAVED, entry=one).ok()
    w.user.post("timeline", method="mark_read", channel="global", last_read_entry="everything").ok()
    same(
        [item.get("_is_read") for item in w.items(SAVED) if item["_id"] == one],
        [is_shared(w)],
        "its '_is_read' in 'saved'",
    )


@saving.requirement("channel", source=DESIGN)
def channel_stays(w: World) -> None:
    """The channel 'saved' can't be deleted, and follows nothing."""
    _save(w, ids(w.unread_channel()[1])[0])
    for reply in (
        w.user.post("channels", method="delete", channel=SAVED),
        w.user.post("follow", channel=SAVED, url=w.blogs.eight.url),
    ):
        expect(400 <= reply.status < 500, "an error of the 4xx kind", reply.text)
    uids = [channel.get("uid") for channel in w.user.get("channels").listed("channels")]
    expect(SAVED in uids, "'saved' still in the list", uids)


def _walk(w: World, **parameters: str) -> tuple[list[Item], str]:
    """All items listed by `ids`, and the first reply's next cursor. Raises Skip if the server has no `ids`."""
    found: list[Item] = []
    since, step = "", dict(parameters)
    for _ in range(MANY_PAGES):
        reply = w.user.get("timeline", method="ids", limit=3, **step)
        if reply.status == 400 and reply.json_object().get("error") == "not_implemented":
            raise Skip("the server has no method=ids")
        items = reply.listed("items")
        if items and all("content" in item or "_channel" in item for item in items):
            raise Skip("the server has no method=ids: it answers with a page")
        found += items
        paging = reply.json_object().get("paging", {})
        since = since or paging.get("since", "")
        if "after" not in paging:
            return found, since
        step["after"] = paging["after"]
    raise Violation(f"a walk to end within {MANY_PAGES} replies", f"{len(found)} items so far")


@arriving.requirement("all", source=DESIGN)
def all_once(w: World) -> None:
    """ids lists every item of a channel once, in both orders, with its state."""
    channel, items = w.unread_channel()
    one = ids(items)[0]
    w.user.post("timeline", method="mark_read", channel=channel, entry=one).ok()
    newest, _ = _walk(w, channel=channel)
    each_once(newest, ids(items), "the items of the channel")
    same(len(newest), len(items), "the number of ids")
    same([item["_id"] for item in newest if item.get("_is_read") is True], [one], "the read items")
    oldest, _ = _walk(w, channel=channel, order="oldest")
    same(ids(oldest), ids(newest)[::-1], "the oldest first")
    same([item["_id"] for item in _walk(w, channel=channel, is_read="true")[0]], [one], "the ids of the read items")


@arriving.requirement("since", source=DESIGN)
def since_then(w: World) -> None:
    """Later arrivals are listed after 'paging.since', whatever their time of publication."""
    channel, items = w.unread_channel(w.blogs.fresh)
    _, since = _walk(w)
    expect(since != "", "'paging.since' in a reply with items", since)
    later, old = w.filled(w.blogs.eight)
    found, _ = _walk(w, order="oldest", after=since)
    same(sorted(ids(found)), sorted(ids(old)), "the items that have arrived since")
    same([one for one in ids(items) if one in ids(found)], [], "the earlier items")
    w.user.post("timeline", method="remove", channel=later, entry=ids(old)).ok()
    same(_walk(w, order="oldest", after=since)[0], [], "the items after it has left")
    same(len(_walk(w, channel=channel)[0]), len(items), "the ids of the first channel")


@arriving.requirement("refused", source=DESIGN)
def refused(w: World) -> None:
    """An unknown order or an invalid cursor is a 400 invalid_request."""
    _walk(w, channel=w.channel())
    w.user.get("timeline", method="ids", order="sideways").refused(400, "invalid_request")
    w.user.get("timeline", method="ids", after="!").refused(400, "invalid_request")
