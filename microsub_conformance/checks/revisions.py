"""The effects of a second poll: edits and new posts arrive, and read, removed or moved posts don't return.

These need the server to fetch a feed again: on its own schedule, or at once if the suite was given a command for it. If
it doesn't fetch the feed, the requirements are skipped.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from datetime import timedelta

from microsub_conformance.checks.items import instant
from microsub_conformance.requirement import DESIGN, Chapter
from microsub_conformance.site.publisher import Visit
from microsub_conformance.timeline import Item, each_once, ids, unread_ids, urls
from microsub_conformance.verdict import Violation, expect, same
from microsub_conformance.world import World

revisions = Chapter("revisions", section="Read state")

READ, READ_AND_EDITED, REMOVED, MOVED, EDITED, REDATED = 1, 2, 3, 4, 5, 6
"""Positions in the blog of the posts with these changes."""


@dataclass(frozen=True, slots=True)
class Revised:
    """A channel before and after the poll that followed an edit of its feed; `plain` is another channel that follows
    the feed, in which nothing was marked, `target` the one to which an item was moved. `visit` is the first poll.
    """

    channel: str
    plain: str
    target: str
    before: list[Item]
    after: list[Item]
    plain_after: list[Item]
    target_after: list[Item]
    new: str
    visit: Visit
    revisit: Visit

    def id_of(self, place: int) -> str:
        """The id of the post at this position of the blog before the edit."""
        return ids(self.before)[place]

    def now(self, place: int) -> Item:
        """The present item of the post at this position before the edit. Raises Violation if it is gone."""
        for item in self.after:
            if item["_id"] == self.id_of(place):
                return item
        raise Violation("the item to be in the channel still", urls(self.after))


def _revise(w: World) -> Revised:
    blog = w.blogs.changing
    channel, before = w.unread_channel(blog)
    plain, _ = w.unread_channel(blog)
    target = w.channel("target")
    entries = ids(before)
    w.user.post("timeline", method="mark_read", channel=channel, entry=[entries[READ], entries[READ_AND_EDITED]]).ok()
    w.user.post("timeline", method="remove", channel=channel, entry=entries[REMOVED]).ok()
    w.user.post("timeline", method="move", channel=target, entry=entries[MOVED]).ok()
    visit = w.publisher.visits(blog.path)[0]
    polls = len(w.publisher.visits(blog.path))
    posts = list(blog.posts)
    for place in (READ_AND_EDITED, EDITED):
        posts[place] = replace(
            posts[place],
            title=f"Corrected {place}",
            html=f"<p>The corrected body of number {place}.</p>",
            updated=posts[place].published + timedelta(minutes=30),
        )
    posts[REDATED] = replace(
        posts[REDATED],
        published=posts[0].published + timedelta(minutes=5),
        updated=posts[0].published + timedelta(minutes=5),
        html="<p>With a new date.</p>",
    )
    new = replace(posts[0], slug="new", title="A new post", published=posts[0].published + timedelta(minutes=40))
    blog.posts = [new, *posts]
    w.publish(blog)

    def arrived() -> bool | None:
        return True if all(blog.link(new) in urls(w.items(uid)) for uid in (channel, plain)) else None

    def edited() -> bool | None:
        return True if any(item.get("name") == f"Corrected {EDITED}" for item in w.items(channel)) else None

    w.until(arrived, "the new post in the channels")
    with contextlib.suppress(Violation):  # another requirement checks whether edits arrive
        w.until(edited, "the edit in the channel", limit=10)
    return Revised(
        channel=channel,
        plain=plain,
        target=target,
        before=before,
        after=w.items(channel),
        plain_after=w.items(plain),
        target_after=w.items(target),
        new=blog.link(new),
        visit=visit,
        revisit=w.publisher.visits(blog.path)[polls],
    )


def _revised(w: World) -> Revised:
    return w.shared("a feed that was edited between two polls", _revise)


@revisions.requirement("new-post", source=DESIGN)
def new_post(w: World) -> None:
    """A new post arrives once and unread, in every channel that follows the feed."""
    revised = _revised(w)
    for items in (revised.after, revised.plain_after):
        same([item.get("_is_read") for item in items if item.get("url") == revised.new], [False], "'_is_read' of it")


@revisions.requirement("edit", source=DESIGN)
def edit(w: World) -> None:
    """An edit changes the title and content of a known post."""
    item = _revised(w).now(EDITED)
    same(item.get("name"), f"Corrected {EDITED}", "'name'")
    same(item.get("content", {}).get("text"), f"The corrected body of number {EDITED}.", "the text")


@revisions.requirement("edit-keeps-read", source=DESIGN)
def edit_keeps_read(w: World) -> None:
    """An edited post keeps its read state."""
    item = _revised(w).now(READ_AND_EDITED)
    same((item.get("name"), item.get("_is_read")), (f"Corrected {READ_AND_EDITED}", True), "'name' and '_is_read'")
    same(_revised(w).now(EDITED).get("_is_read"), False, "'_is_read' of the unread one")


@revisions.requirement("edit-keeps-place", source=DESIGN)
def edit_keeps_place(w: World) -> None:
    """An edit changes neither 'published' nor the order."""
    revised = _revised(w)
    same(str(instant(revised.now(REDATED))), str(instant(revised.before[REDATED])), "'published' of the redated post")
    left = [entry for entry in ids(revised.before) if entry not in (revised.id_of(REMOVED), revised.id_of(MOVED))]
    same([entry for entry in ids(revised.after) if entry in left], left, "the order of the items")


@revisions.requirement("no-doubles", source=DESIGN)
def no_doubles(w: World) -> None:
    """A second poll doesn't duplicate items."""
    revised = _revised(w)
    # A server may remove a moved item from all channels or only from one.
    wanted = [entry for entry in ids(revised.before) if entry != revised.id_of(MOVED)]
    each_once(revised.plain_after, wanted, "all items")
    same(len(set(urls(revised.plain_after))), len(revised.plain_after), "the number of different addresses")
    expect(len(revised.plain_after) <= len(revised.before) + 1, "one new item at most", urls(revised.plain_after))


@revisions.requirement("read-stays", source=DESIGN)
def read_stays(w: World) -> None:
    """Read items stay read."""
    same(_revised(w).now(READ).get("_is_read"), True, "'_is_read'")


@revisions.requirement("removed-stays", source=DESIGN)
def removed_stays(w: World) -> None:
    """Removed items don't return."""
    revised = _revised(w)
    expect(revised.id_of(REMOVED) not in ids(revised.after), "the removed item to be gone", urls(revised.after))
    removed = revised.before[REMOVED].get("url")
    expect(removed not in urls(revised.after), "no other item with its address", urls(revised.after))


@revisions.requirement("moved-stays", source=DESIGN)
def moved_stays(w: World) -> None:
    """Moved items stay in their new channel, once."""
    revised = _revised(w)
    expect(revised.id_of(MOVED) not in ids(revised.after), "the moved item not in its origin", urls(revised.after))
    same(ids(revised.target_after), [revised.id_of(MOVED)], "the items of the target")


@revisions.requirement("counts", source=DESIGN)
def counts(w: World) -> None:
    """The unread counts are exact afterwards."""
    revised = _revised(w)
    for channel in (revised.channel, revised.plain, revised.target):
        same(w.unread(channel), len(unread_ids(w.items(channel))), "the unread count")
    same(w.unread(revised.channel), len(revised.before) - 4 + 1, "the unread count of the channel")


@revisions.requirement("conditional", source=DESIGN, level="should")
def conditional(w: World) -> None:
    """The second poll is conditional: it sends the ETag back as it was."""
    revised = _revised(w)
    found = revised.revisit.headers.get("if-none-match")
    expect(bool(found) and found.startswith('"'), "a header If-None-Match with the publisher's ETag", found)  # type: ignore[union-attr]
