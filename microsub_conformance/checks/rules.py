"""Muting and blocking by author and by source: shown, counted and returning items."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from microsub_conformance.client import MicrosubReply
from microsub_conformance.requirement import DESIGN, Chapter
from microsub_conformance.timeline import Item, ids, unread_ids
from microsub_conformance.verdict import expect, same
from microsub_conformance.world import World

muting = Chapter("muting", anchor="Muting", section="Actions, mute and block")
blocking = Chapter("blocking", anchor="Blocking", section="Actions, mute and block")


def by(items: list[Item], author: str) -> list[str]:
    """The ids of the items by the author with this URL."""
    return ids(item for item in items if item.get("author", {}).get("url") == author)


def apply(w: World, action: str, channel: str, url: str) -> MicrosubReply:
    """Mute, unmute, block or unblock; a rule in 'global' is undone afterwards."""
    if channel == "global" and not action.startswith("un"):
        w.afterwards(lambda: w.user.post(f"un{action}", channel="global", url=url))
    return w.user.post(action, channel=channel, url=url)


def _ruled(w: World, action: str, channel: str) -> list[str]:
    """The URLs of a list, with scheme and trailing slash as they are compared: a server may list a URL either way."""
    cards = w.user.get(action, channel=channel).listed("items")
    for card in cards:
        same(card.get("type"), "card", "'type'")
        expect(isinstance(card.get("url"), str), "a string 'url' in every card", card)
    return [_compared(card["url"]) for card in cards]


def _compared(url: str) -> str:
    return url.partition("://")[2].rstrip("/")


def _split(w: World) -> tuple[str, list[Item], list[str], list[str]]:
    """An unread channel: its items, and the ids of Ann's and of Ben's."""
    channel, items = w.unread_channel()
    anns, bens = by(items, w.blogs.ann.url), by(items, w.blogs.ben.url)
    expect(len(anns) == len(bens) == 4, "four posts by each of the two authors", (len(anns), len(bens)))
    return channel, items, anns, bens


@muting.requirement("list")
def list_(w: World) -> None:
    """The list of muted users holds cards with the URL, and loses them on unmute."""
    channel = w.channel()
    same(_ruled(w, "mute", channel), [], "the muted users of a new channel")
    apply(w, "mute", channel, w.blogs.ben.url).ok()
    same(_ruled(w, "mute", channel), [_compared(w.blogs.ben.url)], "the muted users")
    apply(w, "unmute", channel, str(w.user.get("mute", channel=channel).listed("items")[0].get("url"))).ok()
    same(_ruled(w, "mute", channel), [], "the muted users after unmute")


@muting.requirement("reply", source=DESIGN)
def reply(w: World) -> None:
    """mute and unmute return type and url, and can be repeated."""
    channel = w.channel()
    for action in ("mute", "mute", "unmute", "unmute"):
        answer = apply(w, action, channel, w.blogs.ben.url).ok()
        expect(isinstance(answer.get("type"), str), "a string 'type'", answer)
        same(answer.get("url"), w.blogs.ben.url, "'url'")
    apply(w, "mute", channel, w.blogs.ben.url).ok()
    apply(w, "mute", channel, w.blogs.ben.url).ok()
    same(_ruled(w, "mute", channel), [_compared(w.blogs.ben.url)], "the muted users")


@muting.requirement("hidden")
def hidden(w: World) -> None:
    """Posts of a muted author are not shown."""
    channel, _, anns, _ = _split(w)
    apply(w, "mute", channel, w.blogs.ben.url).ok()
    same(ids(w.items(channel)), anns, "the items")


@muting.requirement("count", source=DESIGN)
def count(w: World) -> None:
    """Posts of a muted author are not counted."""
    channel, _, anns, _ = _split(w)
    apply(w, "mute", channel, w.blogs.ben.url).ok()
    same(w.unread(channel), len(anns), "the unread count")
    view = w.user.get("timeline", channel=channel, is_read="false").listed("items")
    same(ids(view), anns, "the unread view")


@muting.requirement("unmute", source=DESIGN)
def unmute(w: World) -> None:
    """Posts of a muted author appear again on unmute, with their read state."""
    channel, items, _, bens = _split(w)
    w.user.post("timeline", method="mark_read", channel=channel, entry=bens[:1]).ok()
    apply(w, "mute", channel, w.blogs.ben.url).ok()
    apply(w, "unmute", channel, w.blogs.ben.url).ok()
    found = w.items(channel)
    same(ids(found), ids(items), "the items")
    same(unread_ids(found), [other for other in ids(items) if other != bens[0]], "the unread items")
    same(w.unread(channel), len(items) - 1, "the unread count")


@muting.requirement("per-channel", source=DESIGN)
def per_channel(w: World) -> None:
    """A rule of one channel doesn't affect another."""
    channel, items, _, _ = _split(w)
    other, _ = w.unread_channel()
    apply(w, "mute", channel, w.blogs.ben.url).ok()
    same(ids(w.items(other)), ids(items), "the items of the other channel")
    same(w.unread(other), len(items), "the unread count of the other channel")


@muting.requirement("global", source=DESIGN)
def global_(w: World) -> None:
    """A rule in 'global' applies in every channel."""
    first, items, anns, _ = _split(w)
    second, _ = w.unread_channel()
    apply(w, "mute", "global", w.blogs.ben.url).ok()
    for channel in (first, second):
        same(ids(w.items(channel)), anns, "the items")
        same(w.unread(channel), len(anns), "the unread count")
    listed = _ruled(w, "mute", "global")
    expect(_compared(w.blogs.ben.url) in listed, "the author in the list of 'global'", listed)
    apply(w, "unmute", "global", w.blogs.ben.url).ok()
    for channel in (first, second):
        same(ids(w.items(channel)), ids(items), "the items after unmute")


@muting.requirement("both-rules", source=DESIGN)
def both_rules(w: World) -> None:
    """Items muted in the channel and in 'global' stay hidden until both mutes are removed."""
    channel, items, anns, _ = _split(w)
    apply(w, "mute", channel, w.blogs.ben.url).ok()
    apply(w, "mute", "global", w.blogs.ben.url).ok()
    apply(w, "unmute", channel, w.blogs.ben.url).ok()
    same(ids(w.items(channel)), anns, "the items after the first unmute")
    apply(w, "unmute", "global", w.blogs.ben.url).ok()
    same(ids(w.items(channel)), ids(items), "the items after the second unmute")
    same(w.unread(channel), len(items), "the unread count")


@muting.requirement("source", source=DESIGN)
def source(w: World) -> None:
    """A rule matches the feed's URL too."""
    channel, items, _, _ = _split(w)
    everything = w.fill(channel, w.blogs.fresh)
    others = [identifier for identifier in ids(everything) if identifier not in ids(items)]
    apply(w, "mute", channel, w.blogs.eight.url).ok()
    same(ids(w.items(channel)), others, "the items while the feed is muted")
    apply(w, "unmute", channel, w.blogs.eight.url).ok()
    same(ids(w.items(channel)), ids(everything), "the items after unmute")


@muting.requirement("normalised", source=DESIGN)
def normalised(w: World) -> None:
    """URLs are compared regardless of a trailing slash and of https or http."""
    channel, items, anns, _ = _split(w)
    url = w.blogs.ben.url
    for form in (f"{url}/", url.replace("http://", "https://", 1), url.replace("http://", "HTTP://", 1)):
        apply(w, "mute", channel, form).ok()
        same(ids(w.items(channel)), anns, f"the items while {form} is muted")
        apply(w, "unmute", channel, form).ok()
        same(ids(w.items(channel)), ids(items), f"the items after unmute of {form}")


@muting.requirement("earlier", source=DESIGN)
def earlier(w: World) -> None:
    """A rule applies to posts that arrive after it; they appear on unmute."""
    channel = w.channel()
    apply(w, "mute", channel, w.blogs.ben.url).ok()
    w.follow(channel, w.blogs.eight)
    found = w.await_items(channel, 4)
    same(by(found, w.blogs.ben.url), [], "posts of the muted author")
    apply(w, "unmute", channel, w.blogs.ben.url).ok()
    same(len(w.items(channel)), len(w.blogs.eight.posts), "the number of items after unmute")


@muting.requirement("marked", source=DESIGN)
def marked(w: World) -> None:
    """Marking and removing while items are muted leaves the count exact."""
    channel, items, anns, _ = _split(w)
    apply(w, "mute", channel, w.blogs.ben.url).ok()
    w.user.post("timeline", method="mark_read", channel=channel, entry=anns[:1]).ok()
    same(w.unread(channel), len(anns) - 1, "the unread count")
    apply(w, "unmute", channel, w.blogs.ben.url).ok()
    same(w.unread(channel), len(items) - 1, "the unread count after unmute")
    same(len(unread_ids(w.items(channel))), len(items) - 1, "the number of unread items")


@muting.requirement("concurrent", source=DESIGN)
def concurrent(w: World) -> None:
    """Counts are exact after concurrent marking, muting and unmuting."""
    channel, items = w.unread_channel(w.blogs.ties)
    entries = ids(items)
    author = w.blogs.ties.url

    def mark(start: int) -> None:
        w.user.post("timeline", method="mark_read", channel=channel, entry=entries[start : start + 9]).ok()

    def toggle(_: int) -> None:
        apply(w, "mute", channel, author).ok()
        apply(w, "unmute", channel, author).ok()

    with ThreadPoolExecutor(6) as pool:
        list(
            pool.map(
                lambda job: job[0](job[1]), [(task, start) for start in range(0, 45, 9) for task in (mark, toggle)]
            )
        )
    apply(w, "unmute", channel, author).ok()
    found = w.items(channel)
    same(ids(found), entries, "the items")
    same(w.unread(channel), len(unread_ids(found)), "the unread count, which the items show")


@blocking.requirement("list")
def block_list(w: World) -> None:
    """The list of blocked users holds cards with the URL, and loses them on unblock."""
    channel = w.channel()
    apply(w, "block", channel, w.blogs.ben.url).ok()
    same(_ruled(w, "block", channel), [_compared(w.blogs.ben.url)], "the blocked users")
    same(_ruled(w, "mute", channel), [], "the muted users")
    apply(w, "unblock", channel, str(w.user.get("block", channel=channel).listed("items")[0].get("url"))).ok()
    same(_ruled(w, "block", channel), [], "the blocked users after unblock")


@blocking.requirement("reply", source=DESIGN)
def block_reply(w: World) -> None:
    """block and unblock return type and url, and can be repeated."""
    channel = w.channel()
    for action in ("block", "block", "unblock", "unblock"):
        answer = apply(w, action, channel, w.blogs.ben.url).ok()
        expect(isinstance(answer.get("type"), str), "a string 'type'", answer)
        same(answer.get("url"), w.blogs.ben.url, "'url'")


@blocking.requirement("removed")
def removed(w: World) -> None:
    """Posts of a blocked author leave the channel and its count."""
    channel, _, anns, _ = _split(w)
    apply(w, "block", channel, w.blogs.ben.url).ok()
    same(ids(w.items(channel)), anns, "the items")
    same(w.unread(channel), len(anns), "the unread count")


@blocking.requirement("earlier", source=DESIGN)
def block_earlier(w: World) -> None:
    """Posts of a blocked author that arrive later are rejected."""
    channel = w.channel()
    apply(w, "block", channel, w.blogs.ben.url).ok()
    w.follow(channel, w.blogs.eight)
    w.await_items(channel, 4)
    found = w.fill(channel, w.blogs.fresh)
    same(by(found, w.blogs.ben.url), [], "posts of the blocked author")
    apply(w, "unblock", channel, w.blogs.ben.url).ok()
    same(by(w.items(channel), w.blogs.ben.url), [], "posts of the author right after unblock")


@blocking.requirement("global", source=DESIGN)
def block_global(w: World) -> None:
    """A block in 'global' applies in every channel."""
    first, _, anns, _ = _split(w)
    second, _ = w.unread_channel()
    apply(w, "block", "global", w.blogs.ben.url).ok()
    for channel in (first, second):
        same(ids(w.items(channel)), anns, "the items")
        same(w.unread(channel), len(anns), "the unread count")


@blocking.requirement("per-channel", source=DESIGN)
def block_per_channel(w: World) -> None:
    """A block of one channel doesn't affect another."""
    channel, items, _, _ = _split(w)
    other, _ = w.unread_channel()
    apply(w, "block", channel, w.blogs.ben.url).ok()
    same(ids(w.items(other)), ids(items), "the items of the other channel")
