"""The form of every reply (status, content type, caching, no nulls), and refused requests with their errors."""

from __future__ import annotations

import httpx

from microsub_conformance.client import FORM, MicrosubReply
from microsub_conformance.requirement import DESIGN, Chapter, client
from microsub_conformance.timeline import ids
from microsub_conformance.verdict import NO_HEADER, Violation, expect, same
from microsub_conformance.world import World

replies = Chapter("replies", section="Transport")


def _every_success(w: World) -> dict[str, MicrosubReply]:
    """A successful reply of every action, by request."""
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


def _successes(w: World) -> dict[str, MicrosubReply]:
    return w.shared("a success of every action", _every_success)


@replies.requirement("object", source=client("IndiePass iOS"))
def reply_object(w: World) -> None:
    """Every success has exactly status 200 and a JSON object."""
    for what, reply in _successes(w).items():
        try:
            reply.ok()
        except Violation as failure:
            raise Violation(f"{what}: {failure.expected}", failure.found) from None


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
    """The paths of nulls inside `value`."""
    if value is None:
        return [place or "the whole reply"]
    if isinstance(value, dict):
        return [found for key, part in value.items() for found in nulls(part, f"{place}.{key}")]
    if isinstance(value, list):
        return [found for number, part in enumerate(value) for found in nulls(part, f"{place}[{number}]")]
    return []


errors = Chapter("errors", anchor="Error_Responses", section="Transport")


def _names(reply: MicrosubReply, parameter: str) -> None:
    """Check a 400 whose description names the parameter."""
    description = reply.refused(400, "invalid_request").get("error_description")
    expect(
        isinstance(description, str) and parameter in description,
        f"an 'error_description' that names '{parameter}'",
        reply.text,
    )


@errors.requirement("body")
def body(w: World) -> None:
    """An error is an object with 'error' and 'error_description', both strings."""
    refused = w.user.send("GET", query=[("action", "channels")], token=False)
    for reply in (refused, w.user.get("no-such-action"), w.user.get("timeline", channel="no-such-channel")):
        value = reply.json_object()
        for name in ("error", "error_description"):
            expect(isinstance(value.get(name), str) and value[name] != "", f"a string '{name}'", reply.text)


@errors.requirement("no-action", source=DESIGN)
def no_action(w: World) -> None:
    """A request without an action is a 400 that names the missing parameter."""
    _names(w.user.send("GET"), "action")
    _names(w.user.form([("channel", "x")]), "action")


@errors.requirement("unknown-action")
def unknown_action(w: World) -> None:
    """An unknown action or method is a 400 invalid_request or not_implemented."""
    channel = w.channel()
    for reply in (
        w.user.get("no-such-action"),
        w.user.post("no-such-action"),
        w.user.post("timeline", method="no-such-method", channel=channel, entry="1"),
        w.user.post("channels", method="no-such-method", channel=channel),
    ):
        reply.refused(400, "invalid_request", "not_implemented")


@errors.requirement("missing-parameter", source=DESIGN)
def missing_parameter(w: World) -> None:
    """A missing parameter is a 400 whose description names it."""
    channel = w.channel()
    _names(w.user.get("timeline"), "channel")
    _names(w.user.post("timeline", method="mark_read", entry="1"), "channel")
    _names(w.user.post("timeline", method="mark_read", channel=channel), "entry")
    _names(w.user.post("timeline", method="mark_unread", channel=channel), "entry")
    _names(w.user.post("timeline", method="remove", channel=channel), "entry")
    _names(w.user.post("follow", channel=channel), "url")
    _names(w.user.post("follow", url=w.blogs.eight.url), "channel")
    _names(w.user.get("follow"), "channel")
    _names(w.user.post("unfollow", channel=channel), "url")
    _names(w.user.post("mute", channel=channel), "url")
    _names(w.user.post("block", channel=channel), "url")
    _names(w.user.get("search"), "query")
    _names(w.user.get("preview"), "url")
    _names(w.user.post("channels", method="delete"), "channel")
    _names(w.user.post("channels", method="order"), "channels")
    _names(w.user.post("channels"), "name")
    _names(w.user.post("channels", name=""), "name")
    _names(w.user.post("timeline", method="mark_read", channel=channel, entry=[""]), "entry")
    _names(w.user.post("follow", channel="", url=w.blogs.eight.url), "channel")


@errors.requirement("unknown-channel", source=DESIGN)
def unknown_channel(w: World) -> None:
    """A channel that doesn't exist is a 404 not_found."""
    nowhere = "no-such-channel-here"
    for reply in (
        w.user.get("timeline", channel=nowhere),
        w.user.post("timeline", method="mark_read", channel=nowhere, entry="1"),
        w.user.post("timeline", method="mark_unread", channel=nowhere, entry="1"),
        w.user.post("timeline", method="mark_read", channel=nowhere, last_read_entry="everything"),
        w.user.post("timeline", method="remove", channel=nowhere, entry="1"),
        w.user.post("timeline", method="move", channel=nowhere, entry="1"),
        w.user.get("follow", channel=nowhere),
        w.user.post("follow", channel=nowhere, url=w.blogs.eight.url),
        w.user.post("unfollow", channel=nowhere, url=w.blogs.eight.url),
        w.user.post("mute", channel=nowhere, url=w.blogs.ben.url),
        w.user.get("mute", channel=nowhere),
        w.user.post("block", channel=nowhere, url=w.blogs.ben.url),
        w.user.post("channels", channel=nowhere, name="Renamed"),
        w.user.post("channels", method="delete", channel=nowhere),
    ):
        reply.refused(404, "not_found")


@errors.requirement("odd-channel", source=DESIGN)
def odd_channel(w: World) -> None:
    """A channel uid with unusual characters is a 400 or 404, never a server error."""
    for odd in ("a b", "../x", "{x}", "x" * 500, "ü", "*", "a:b", "a\nb", "a\x00b"):
        reply = w.user.get("timeline", channel=odd)
        expect(reply.status in {400, 404}, f"status 400 or 404 for the channel {odd!r}", reply.text)
        reply.json_object()


@errors.requirement("bad-cursor", source=DESIGN)
def bad_cursor(w: World) -> None:
    """A malformed cursor is a 400 that names the parameter."""
    channel, _ = w.filled(w.blogs.eight)
    for name in ("before", "after"):
        for cursor in ("nonsense!", "%%%", "bm9uc2Vuc2U", "-", "ü", "x" * 3000):
            _names(w.user.get("timeline", **{"channel": channel, name: cursor}), name)


@errors.requirement("bad-limit", source=DESIGN, level="should")
def bad_limit(w: World) -> None:
    """A limit that isn't a number is a 400 that names it."""
    channel = w.channel()
    for limit in ("many", "1.5", "-3"):
        _names(w.user.get("timeline", channel=channel, limit=limit), "limit")


@errors.requirement("bad-url", source=DESIGN)
def bad_url(w: World) -> None:
    """Following something other than an http(s) URL is a 400 that names 'url'."""
    channel = w.channel()
    for url in ("javascript:alert(1)", "ftp://example.com/feed", "file:///etc/passwd", "http://", "not a url"):
        _names(w.user.post("follow", channel=channel, url=url), "url")
    for url in ("javascript:alert(1)", "file:///etc/passwd"):
        reply = w.user.get("preview", url=url)
        expect(400 <= reply.status < 500, "an error of the 4xx kind", reply.text)
    expect(not w.user.get("follow", channel=channel).listed("items"), "no feed followed", "a feed is listed")


@errors.requirement("too-large", source=DESIGN, level="should")
def too_large(w: World) -> None:
    """A body of several megabytes is refused with 413."""
    body = b"action=search&query=" + b"x" * (3 << 20)
    try:
        reply = w.user.send("POST", body=body, headers={"Content-Type": FORM})
    except httpx.HTTPError as problem:
        raise Violation("status 413", f"no reply: {problem!r}") from None
    reply.refused(413)
