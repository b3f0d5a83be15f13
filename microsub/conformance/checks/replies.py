"""What every reply looks like: status, content type, caching, no nulls."""

from __future__ import annotations

from microsub.conformance.client import Reply
from microsub.conformance.requirement import DESIGN, Chapter, client
from microsub.conformance.timeline import ids
from microsub.conformance.verdict import NO_HEADER, Failure, expect, same
from microsub.conformance.world import World

replies = Chapter("replies", section="Transport")


def _every_success(w: World) -> dict[str, Reply]:
    """A success of every action, by what was asked."""
    channel, items = w.unread_channel(w.blogs.pair)
    url = w.blogs.pair.url
    other = w.channel()
    first, second = ids(items)[:2]
    return {
        "GET channels": w.user.get("channels"),
        "GET channels tree": w.user.get("channels", method="tree"),
        "rename": w.user.post("channels", channel=channel, name=w.name("renamed")),
        "order": w.user.post("channels", method="order", channels=[other, channel]),
        "GET timeline": w.user.get("timeline", channel=channel),
        "GET an empty timeline": w.user.get("timeline", channel=other),
        "mark_read": w.user.post("timeline", method="mark_read", channel=channel, entry=first),
        "mark_unread": w.user.post("timeline", method="mark_unread", channel=channel, entry=first),
        "mark_read everything": w.user.post(
            "timeline", method="mark_read", channel=channel, last_read_entry="everything"
        ),
        "move": w.user.post("timeline", method="move", channel=other, entry=second),
        "remove": w.user.post("timeline", method="remove", channel=channel, entry=first),
        "GET follow": w.user.get("follow", channel=channel),
        "follow again": w.user.post("follow", channel=channel, url=url),
        "GET mute": w.user.get("mute", channel=channel),
        "mute": w.user.post("mute", channel=channel, url=w.blogs.ben.url),
        "unmute": w.user.post("unmute", channel=channel, url=w.blogs.ben.url),
        "GET block": w.user.get("block", channel=channel),
        "block": w.user.post("block", channel=channel, url=w.blogs.ben.url),
        "unblock": w.user.post("unblock", channel=channel, url=w.blogs.ben.url),
        "search": w.user.get("search", query=w.blogs.eight.url),
        "search without a match": w.user.get("search", query="zyzzyva-nobody-has-this"),
        "preview": w.user.get("preview", url=w.blogs.unseen.url),
        "unfollow": w.user.post("unfollow", channel=channel, url=url),
        "delete": w.user.post("channels", method="delete", channel=other),
    }


def _successes(w: World) -> dict[str, Reply]:
    return w.shared("a success of every action", _every_success)


@replies.requirement("object", source=client("IndiePass iOS"))
def reply_object(w: World) -> None:
    """Every success is status 200 exactly, with a JSON object."""
    for what, reply in _successes(w).items():
        try:
            reply.ok()
        except Failure as failure:
            raise Failure(f"{what}: {failure.expected}", failure.found) from None


@replies.requirement("content-type", source=client("IndiePass iOS"))
def content_type(w: World) -> None:
    """The Content-Type of a success is exactly application/json."""
    for what, reply in _successes(w).items():
        found = reply.headers.get("content-type")
        expect(found == "application/json", f"Content-Type: application/json for {what}", found)


@replies.requirement("error-content-type", source=DESIGN)
def error_content_type(w: World) -> None:
    """The Content-Type of an error is exactly application/json."""
    refused = w.user.send("GET", query=[("action", "channels")], token=False)
    for reply in (refused, w.user.get("no-such-action"), w.user.get("timeline", channel="no-such-channel")):
        expect(reply.status >= 400, "an error", reply.text)
        same(reply.headers.get("content-type"), "application/json", "Content-Type")


@replies.requirement("no-store", source=client("Together"))
def no_store(w: World) -> None:
    """Replies carry Cache-Control: no-store."""
    for what, reply in _successes(w).items():
        found = reply.headers.get("cache-control", "")
        expect("no-store" in found, f"Cache-Control: no-store for {what}", found or NO_HEADER)


@replies.requirement("no-null", source=client("IndiePass desktop"))
def no_null(w: World) -> None:
    """A property without a value is left out, never null."""
    for what, reply in _successes(w).items():
        places = nulls(reply.json_object())
        expect(not places, f"no null in the reply to {what}", places)


def nulls(value: object, place: str = "") -> list[str]:
    """The places inside `value` where null stands."""
    if value is None:
        return [place or "the whole reply"]
    if isinstance(value, dict):
        return [found for key, part in value.items() for found in nulls(part, f"{place}.{key}")]
    if isinstance(value, list):
        return [found for number, part in enumerate(value) for found in nulls(part, f"{place}[{number}]")]
    return []
