"""Two users on one server: neither sees, counts or changes anything of the other."""

from __future__ import annotations

from microsub_conformance.requirement import DESIGN, Chapter
from microsub_conformance.timeline import ids, page, unread_ids, urls
from microsub_conformance.verdict import expect, same
from microsub_conformance.world import World

isolation = Chapter("isolation", section="Read state")


@isolation.requirement("channels", source=DESIGN, needs=("second user",))
def channels(w: World) -> None:
    """A user's channels are not in another's list."""
    mine, theirs = w.channel(), w.channel(client=w.second)
    uids = [entry.get("uid") for entry in w.second.get("channels").listed("channels")]
    expect(theirs in uids, "the second user's own channel", uids)
    expect(mine not in uids, "not the first user's channel", uids)


@isolation.requirement("timeline", source=DESIGN, needs=("second user",))
def timeline(w: World) -> None:
    """A user can't read another's channel."""
    channel, items = w.filled(w.blogs.eight)
    views: tuple[dict[str, str], ...] = ({}, {"is_read": "false"}, {"source": str(items[0].get("_source"))})
    for parameters in views:
        w.second.get("timeline", channel=channel, **parameters).refused(404, "not_found")
    w.second.get("follow", channel=channel).refused(404, "not_found")


@isolation.requirement("same-name", source=DESIGN, needs=("second user",))
def same_name(w: World) -> None:
    """Two users' channels with the same name are different channels."""
    name = w.name("shared name")
    mine, theirs = w.channel_named(name), w.channel_named(name, w.second)
    items = w.fill(mine, w.blogs.eight)
    same(w.items(theirs, w.second), [], "the items of the second user's channel")
    same(w.unread(theirs, w.second), 0, "the second user's unread count")
    same(w.second.get("follow", channel=theirs).listed("items"), [], "the feeds of the second user's channel")
    w.second.post("timeline", method="mark_read", channel=theirs, entry=ids(items)).ok()
    w.second.post("timeline", method="mark_read", channel=theirs, last_read_entry="everything").ok()
    w.second.post("channels", method="delete", channel=theirs).ok()
    same(ids(w.items(mine)), ids(items), "the first user's items")
    same(unread_ids(w.items(mine)), unread_ids(items), "the first user's unread items")


@isolation.requirement("read-state", source=DESIGN, needs=("second user",))
def read_state(w: World) -> None:
    """Users' read states are independent, even for the same feed."""
    mine, items = w.unread_channel()
    theirs, others = w.unread_channel(client=w.second)
    w.user.post("timeline", method="mark_read", channel=mine, entry=ids(items)[:3]).ok()
    w.user.post("timeline", method="remove", channel=mine, entry=ids(items)[4]).ok()
    same(w.unread(theirs, w.second), len(others), "the second user's unread count")
    found = w.items(theirs, w.second)
    same(ids(found), ids(others), "the second user's items")
    same(len(unread_ids(found)), len(others), "the number of items that are unread for the second user")
    same(w.unread(mine), len(items) - 4, "the first user's unread count")


@isolation.requirement("marking", source=DESIGN, needs=("second user",))
def marking(w: World) -> None:
    """A user can't mark, remove or move another user's items."""
    channel, items = w.unread_channel()
    theirs = w.channel(client=w.second)
    entries = ids(items)[:3]
    for where in (theirs, "global"):
        reply = w.second.post("timeline", method="mark_read", channel=where, entry=entries).ok()
        same(reply.get("updated"), 0, f"'updated' of mark_read in {where}")
    w.second.post("timeline", method="remove", channel=theirs, entry=entries).ok()
    w.second.post("timeline", method="move", channel=theirs, entry=entries).ok()
    same(w.items(theirs, w.second), [], "the items of the second user's channel")
    for method in ("mark_read", "remove"):
        w.second.post("timeline", method=method, channel=channel, entry=entries).refused(404, "not_found")
    found = w.items(channel)
    same((ids(found), unread_ids(found)), (ids(items), ids(items)), "the first user's items, all unread")


@isolation.requirement("last-read", source=DESIGN, needs=("second user",))
def last_read(w: World) -> None:
    """Another user's item as last_read_entry changes nothing."""
    _, items = w.unread_channel(w.blogs.fresh)
    theirs, others = w.unread_channel(client=w.second)
    reply = w.second.post("timeline", method="mark_read", channel=theirs, last_read_entry=ids(items)[0]).ok()
    same(reply.get("updated"), 0, "'updated'")
    same(w.unread(theirs, w.second), len(others), "the second user's unread count")


@isolation.requirement("global", source=DESIGN, needs=("second user",))
def global_(w: World) -> None:
    """'global' has only the user's own items."""
    _, items = w.filled(w.blogs.eight)
    mine = page(w.user, "global", limit=100).items
    expect(ids(items)[0] in ids(mine), "the first user's items in their own 'global'", urls(mine))
    views: tuple[dict[str, str], ...] = ({}, {"is_read": "false"})
    for parameters in views:
        theirs = page(w.second, "global", limit=100, **parameters).items
        found = [link for link in urls(theirs) if link in w.blogs.eight.links()]
        same(found, [], "the first user's posts in the second user's 'global'")


@isolation.requirement("source", source=DESIGN, needs=("second user",))
def source(w: World) -> None:
    """A source that only another user follows returns nothing."""
    _, items = w.filled(w.blogs.fresh)
    theirs, _ = w.filled(w.blogs.eight, w.second)
    reply = w.second.get("timeline", channel=theirs, source=str(items[0].get("_source")))
    if reply.status != 404:
        same(reply.listed("items"), [], "the items of that source")


@isolation.requirement("changing", source=DESIGN, needs=("second user",))
def changing(w: World) -> None:
    """A user can't rename, delete or fill another's channel."""
    name = w.name("mine")
    channel = w.channel_named(name)
    w.second.post("channels", channel=channel, name="Taken over").refused(404, "not_found")
    w.second.post("channels", method="delete", channel=channel).refused(404, "not_found")
    w.second.post("follow", channel=channel, url=w.blogs.eight.url).refused(404, "not_found")
    w.second.post("mute", channel=channel, url=w.blogs.ben.url).refused(404, "not_found")
    reply = w.second.post("channels", method="order", channels=[channel, "notifications"])
    expect(reply.status in {200, 400, 404}, "status 200, 400 or 404", reply.text)
    found = [entry for entry in w.user.get("channels").listed("channels") if entry.get("uid") == channel]
    same([entry.get("name") for entry in found], [name], "the first user's channel")
    same(w.user.get("follow", channel=channel).listed("items"), [], "its feeds")


@isolation.requirement("rules", source=DESIGN, needs=("second user",))
def rules(w: World) -> None:
    """One user's mutes and blocks don't affect another user."""
    theirs, others = w.unread_channel(client=w.second)
    mine, _ = w.unread_channel()
    for action in ("mute", "block"):
        w.afterwards(lambda action=action: w.user.post(f"un{action}", channel="global", url=w.blogs.ben.url))  # type: ignore[misc]
        w.user.post(action, channel="global", url=w.blogs.ben.url).ok()
        same(w.second.get(action, channel="global").listed("items"), [], f"the second user's list of {action}")
        same(ids(w.items(theirs, w.second)), ids(others), "the second user's items")
        same(w.unread(theirs, w.second), len(others), "the second user's unread count")
    same(len(w.items(mine)), 4, "the number of the first user's items")


@isolation.requirement("search", source=DESIGN, needs=("second user",))
def search(w: World) -> None:
    """A feed that only one user follows isn't found by another user's search for its title."""
    w.filled(w.blogs.changing)
    for query in (w.blogs.changing.name, w.run):
        results = w.second.get("search", query=query).listed("results")
        found = [result for result in results if result.get("url") == w.blogs.changing.url]
        same(found, [], f"the first user's feed among the results for {query!r}")


@isolation.requirement("unfollow", source=DESIGN, needs=("second user",))
def unfollow(w: World) -> None:
    """A feed that one user unfollows stays with another."""
    mine, _ = w.filled(w.blogs.eight)
    theirs, others = w.unread_channel(client=w.second)
    w.user.post("unfollow", channel=mine, url=w.blogs.eight.url).ok()
    same(ids(w.items(theirs, w.second)), ids(others), "the second user's items")
    same(len(w.second.get("follow", channel=theirs).listed("items")), 1, "the number of the second user's feeds")
