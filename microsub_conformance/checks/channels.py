"""Channels: listing, creating, renaming, deleting, ordering, and the tree of their sources."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from microsub_conformance.requirement import DESIGN, Chapter, client
from microsub_conformance.timeline import ids, unread_ids
from microsub_conformance.verdict import Skip, expect, same
from microsub_conformance.world import World

channels = Chapter("channels", anchor="Channels", section="Actions, channels")

UID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def listed(w: World) -> list[dict[str, Any]]:
    """The channels as the server lists them."""
    return w.user.get("channels").listed("channels")


def uids(w: World) -> list[Any]:
    """Their uids, in order."""
    return [entry.get("uid") for entry in listed(w)]


@channels.requirement("list")
def list_(w: World) -> None:
    """The list gives 'uid' and 'name' of each channel as strings."""
    uid = w.channel()
    expect(uid in uids(w), "the channel that was made in the list", uids(w))
    for entry in listed(w):
        for name in ("uid", "name"):
            expect(isinstance(entry.get(name), str), f"a string '{name}' in every channel", entry)


@channels.requirement("unread-type")
def unread_type(w: World) -> None:
    """'unread' is a number, a boolean or absent."""
    w.channel()
    for entry in listed(w):
        if "unread" in entry:
            expect(isinstance(entry["unread"], (int, bool)), "a number or a boolean as 'unread'", entry)


@channels.requirement("notifications-first")
def notifications_first(w: World) -> None:
    """The channel 'notifications' exists and comes first."""
    w.channel()
    same(uids(w)[0], "notifications", "the uid of the first channel")


@channels.requirement("notifications-stay")
def notifications_stay(w: World) -> None:
    """The channel 'notifications' can't be deleted."""
    reply = w.user.post("channels", method="delete", channel="notifications")
    expect(400 <= reply.status < 500, "an error of the 4xx kind", reply.text)
    expect("notifications" in uids(w), "'notifications' still in the list", uids(w))


@channels.requirement("notifications-order", source=DESIGN)
def notifications_order(w: World) -> None:
    """The channel 'notifications' stays first, whatever order is set."""
    mine = w.channel()
    w.user.post("channels", method="order", channels=[mine, "notifications"])
    same(uids(w)[0], "notifications", "the uid of the first channel")


@channels.requirement("create")
def create(w: World) -> None:
    """Creating a channel returns its uid and name, and the channel is listed as empty."""
    name = w.name("new")
    uid = w.channel_named(name)
    entry = next((entry for entry in listed(w) if entry.get("uid") == uid), None)
    expect(entry is not None and entry.get("name") == name, f"a channel {uid} named {name!r} in the list", entry)
    expect(not entry or not entry.get("unread"), "nothing unread in it", entry)
    same(w.items(uid), [], "its items")


@channels.requirement("create-last", source=DESIGN, level="should")
def create_last(w: World) -> None:
    """A new channel is last in the list, or just before 'saved'."""
    uid = w.channel()
    same([one for one in uids(w) if one != "saved"][-1], uid, "the last channel but for 'saved'")


@channels.requirement("create-twice", source=DESIGN)
def create_twice(w: World) -> None:
    """Creating a name that exists returns the existing channel."""
    name = w.name("twice")
    uid = w.channel_named(name)
    again = w.user.post("channels", name=name).ok()
    same(again.get("uid"), uid, "the uid of the second reply")
    same([entry.get("name") for entry in listed(w)].count(name), 1, "the number of channels of this name")


@channels.requirement("uid-characters", source=client("Together, Monocle"))
def uid_characters(w: World) -> None:
    """A uid matches [A-Za-z0-9_-]{1,64}, whatever the name is."""
    for label in ("v1.5", "a/b c", "Łódź 東京", "<b>&amp;", "'; --", "x" * 150, "{tag}", "🙂"):
        name = w.name(label)
        uid = w.channel_named(name)
        expect(UID.fullmatch(uid) is not None, "a uid of [A-Za-z0-9_-]{1,64}", uid)
        expect(w.user.get("timeline", channel=uid).status == 200, "its timeline to be readable", uid)


@channels.requirement("name-kept", source=DESIGN)
def name_kept(w: World) -> None:
    """A channel's name is returned exactly as given."""
    for label in ("v1.5", "Łódź 東京", "<b>&amp; \"q\" 'q'", "🙂"):
        name = w.name(label)
        uid = w.channel_named(name)
        same([entry.get("name") for entry in listed(w) if entry.get("uid") == uid], [name], "the name in the list")


@channels.requirement("reserved", source=DESIGN)
def reserved(w: World) -> None:
    """No channel gets the uid 'global', 'notifications' or 'saved'."""
    taken = {str(entry.get("name")) for entry in listed(w)}
    for name in ("global", "Global", "saved"):
        if name in taken:
            raise Skip(f"the account has a channel named {name!r} already")
        uid = w.channel_named(name)
        expect(uid not in {"global", "notifications", "saved"}, f"another uid for the name {name!r}", uid)
        w.user.post("channels", method="delete", channel=uid).ok()


@channels.requirement("rename")
def rename(w: World) -> None:
    """Renaming returns the channel, which keeps its uid and its position."""
    uid, _ = w.channel("before"), w.channel("neighbour")
    order = uids(w)
    name = w.name("after")
    renamed = w.user.post("channels", channel=uid, name=name).ok()
    same((renamed.get("uid"), renamed.get("name")), (uid, name), "uid and name in the reply")
    same(uids(w), order, "the order of the channels")
    same([entry.get("name") for entry in listed(w) if entry.get("uid") == uid], [name], "the name in the list")


@channels.requirement("rename-keeps", source=DESIGN)
def rename_keeps(w: World) -> None:
    """Renaming keeps items, read state and feeds."""
    uid, items = w.unread_channel()
    w.user.post("timeline", method="mark_read", channel=uid, entry=ids(items)[0]).ok()
    before = w.items(uid)
    w.user.post("channels", channel=uid, name=w.name("renamed")).ok()
    after = w.items(uid)
    same(ids(after), ids(before), "the items")
    same(unread_ids(after), unread_ids(before), "the unread items")
    same(len(w.user.get("follow", channel=uid).listed("items")), 1, "the number of feeds")


@channels.requirement("rename-shown", source=DESIGN, level="should")
def rename_shown(w: World) -> None:
    """Items show the new name of their channel."""
    uid, _ = w.filled(w.blogs.eight)
    name = w.name("renamed")
    w.user.post("channels", channel=uid, name=name).ok()
    for item in w.items(uid):
        same(item.get("_channel", {}).get("name"), name, "the name in '_channel'")


@channels.requirement("delete")
def delete(w: World) -> None:
    """A deleted channel is gone from the list, and its timeline is not found."""
    uid, _ = w.filled(w.blogs.eight)
    w.user.post("channels", method="delete", channel=uid).ok()
    expect(uid not in uids(w), f"{uid} not in the list", uids(w))
    reply = w.user.get("timeline", channel=uid)
    expect(400 <= reply.status < 500, "an error of the 4xx kind for its timeline", reply.text)


@channels.requirement("delete-and-create", source=DESIGN)
def delete_and_create(w: World) -> None:
    """A channel with the name of a deleted one is empty."""
    name = w.name("phoenix")
    uid = w.channel_named(name)
    w.fill(uid, w.blogs.eight)
    w.user.post("channels", method="delete", channel=uid).ok()
    again = w.channel_named(name)
    same(w.items(again), [], "its items")
    same(w.user.get("follow", channel=again).listed("items"), [], "its feeds")
    same(w.unread(again), 0, "its unread count")


@channels.requirement("order")
def order(w: World) -> None:
    """Channels are listed in the order that was set."""
    first, second, third = w.channel("1"), w.channel("2"), w.channel("3")
    wanted = [third, first, second]
    w.user.post("channels", method="order", channels=wanted).ok()
    same([uid for uid in uids(w) if uid in wanted], wanted, "the order of the three channels")


@channels.requirement("order-reply", source=DESIGN)
def order_reply(w: World) -> None:
    """The reply to an order holds all channels in the new order."""
    first, second = w.channel("1"), w.channel("2")
    reply = w.user.post("channels", method="order", channels=[second, first])
    same([entry.get("uid") for entry in reply.listed("channels")], uids(w), "the uids in the reply")


@channels.requirement("order-places", source=DESIGN)
def order_places(w: World) -> None:
    """The given channels are permuted among their positions; others stay."""
    made = [w.channel(str(number)) for number in range(4)]
    before = uids(w)
    w.user.post("channels", method="order", channels=[made[3], made[1]]).ok()
    wanted = list(before)
    wanted[before.index(made[1])], wanted[before.index(made[3])] = made[3], made[1]
    same(uids(w), wanted, "the order of all channels")


@channels.requirement("order-forms", source=DESIGN)
def order_forms(w: World) -> None:
    """An order is accepted as channels, channels[] or channels[0]."""
    first, second = w.channel("1"), w.channel("2")
    base = [("action", "channels"), ("method", "order")]
    for names in (("channels", "channels"), ("channels[]", "channels[]"), ("channels[0]", "channels[1]")):
        for wanted in ([second, first], [first, second]):
            w.user.form([*base, *zip(names, wanted, strict=True)]).ok()
            same([uid for uid in uids(w) if uid in wanted], wanted, f"the order after {names[0]}")


@channels.requirement("unread")
def unread(w: World) -> None:
    """'unread' counts the unread items of the channel."""
    uid, items = w.unread_channel()
    same(w.unread(uid), len(items), "the count")
    w.user.post("timeline", method="mark_read", channel=uid, entry=ids(items)[:3]).ok()
    same(w.unread(uid), len(items) - 3, "the count after three items were marked")


@channels.requirement("tree", source=DESIGN)
def tree(w: World) -> None:
    """method=tree adds the sources of each channel: uid, url, name, unread."""
    uid, items = w.unread_channel()
    w.user.post("timeline", method="mark_read", channel=uid, entry=ids(items)[0]).ok()
    shown = w.user.get("channels", method="tree").listed("channels")
    same([entry.get("uid") for entry in shown], uids(w), "the channels of the tree")
    entry = next(entry for entry in shown if entry.get("uid") == uid)
    sources = entry.get("sources")
    expect(isinstance(sources, list) and len(sources) == 1, "one source in 'sources'", entry)
    source = sources[0] if isinstance(sources, list) else {}
    same(source.get("url"), w.blogs.eight.url, "the url of the source")
    expect(isinstance(source.get("uid"), str), "a string 'uid' in the source", source)
    expect(isinstance(source.get("name"), str), "a string 'name' in the source", source)
    same(source.get("unread"), len(items) - 1, "'unread' of the source")


@channels.requirement("create-concurrent", source=DESIGN)
def create_concurrent(w: World) -> None:
    """Concurrent requests to create the same name create one channel."""
    name = w.name("at once")
    with ThreadPoolExecutor(6) as pool:
        replies = list(pool.map(lambda _: w.user.post("channels", name=name), range(6)))
    made = {str(reply.ok().get("uid")) for reply in replies}
    for uid in made:
        w.afterwards(lambda uid=uid: w.user.post("channels", method="delete", channel=uid))  # type: ignore[misc]
    same(len(made), 1, "the number of different uids")
    same([entry.get("name") for entry in listed(w)].count(name), 1, "the number of channels of this name")
