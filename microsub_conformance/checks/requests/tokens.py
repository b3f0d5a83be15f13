"""Forms of the token, requests without a valid one, and the rights of one with only the scope `read`."""

from __future__ import annotations

from microsub_conformance.client import FORM, MicrosubReply
from microsub_conformance.requirement import DESIGN, Chapter, client
from microsub_conformance.timeline import ids
from microsub_conformance.verdict import NO_HEADER, expect, same
from microsub_conformance.world import World

tokens = Chapter("tokens", anchor="Authentication", section="Transport")


@tokens.requirement("header")
def header(w: World) -> None:
    """The token is read from the Authorization header, its scheme in any case."""
    for scheme in ("Bearer", "bearer", "BEARER"):
        headers = {"Authorization": f"{scheme} {w.user.token}"}
        w.user.send("GET", query=[("action", "channels")], headers=headers, token=False).listed("channels")


@tokens.requirement("query", source=DESIGN)
def query_token(w: World) -> None:
    """The token may be 'access_token' in the query."""
    query = [("action", "channels"), ("access_token", w.user.token)]
    w.user.send("GET", query=query, token=False).listed("channels")


@tokens.requirement("form", source=DESIGN)
def form_token(w: World) -> None:
    """The token may be 'access_token' in the form."""
    body = f"action=search&query=nothing&access_token={w.user.token}".encode()
    w.user.send("POST", body=body, headers={"Content-Type": FORM}, token=False).listed("results")


def _unauthorized(reply: MicrosubReply) -> None:
    reply.refused(401, "unauthorized")
    challenge = reply.headers.get("www-authenticate", "")
    expect(challenge.split(" ")[0].lower() == "bearer", "a header WWW-Authenticate: Bearer", challenge or NO_HEADER)


@tokens.requirement("missing")
def missing(w: World) -> None:
    """Without a token: 401 unauthorized with WWW-Authenticate: Bearer."""
    _unauthorized(w.user.send("GET", query=[("action", "channels")], token=False))
    _unauthorized(w.user.send("POST", query=[("action", "channels"), ("name", "x")], token=False))
    _unauthorized(w.user.send("GET", query=[("action", "channels"), ("access_token", "")], token=False))


@tokens.requirement("invalid")
def invalid(w: World) -> None:
    """With an unknown token: 401 unauthorized with WWW-Authenticate: Bearer."""
    turned = w.user.token[:-1] + ("a" if w.user.token[-1] != "a" else "b")
    for token in ("nonsense", turned, "a.b.c", "....", "x" * 3000):
        headers = {"Authorization": f"Bearer {token}"}
        _unauthorized(w.user.send("GET", query=[("action", "channels")], headers=headers, token=False))


@tokens.requirement("scheme", source=DESIGN)
def scheme(w: World) -> None:
    """Another scheme than Bearer is a 401, not a server error."""
    for value in (f"Basic {w.user.token}", "Bearer", w.user.token):
        headers = {"Authorization": value}
        _unauthorized(w.user.send("GET", query=[("action", "channels")], headers=headers, token=False))


scopes = Chapter("scopes", anchor="Scopes", section="Scopes")


@scopes.requirement("read", source=DESIGN, needs=("read token",))
def read(w: World) -> None:
    """'read' covers channels, timelines, search, preview and the lists."""
    channel, items = w.filled(w.blogs.eight)
    same(ids(w.reader.get("timeline", channel=channel).listed("items")), ids(items), "the items")
    w.reader.get("channels").listed("channels")
    w.reader.get("channels", method="tree").listed("channels")
    w.reader.get("timeline", channel="global").listed("items")
    w.reader.get("follow", channel=channel).listed("items")
    w.reader.get("mute", channel=channel).listed("items")
    w.reader.get("block", channel=channel).listed("items")
    w.reader.get("search", query=w.blogs.eight.url).listed("results")
    w.reader.post("search", query=w.blogs.eight.url).listed("results")
    w.reader.get("preview", url=w.blogs.unseen.url).listed("items")


@scopes.requirement("read-marks", source=client("microsub-notifier, IndiePass iOS"), needs=("read token",))
def read_marks(w: World) -> None:
    """'read' is enough to mark items."""
    channel, items = w.unread_channel()
    w.reader.post("timeline", method="mark_read", channel=channel, entry=ids(items)[:2]).ok()
    same(w.unread(channel), len(items) - 2, "the unread count")
    w.reader.post("timeline", method="mark_unread", channel=channel, entry=ids(items)[0]).ok()
    w.reader.post("timeline", method="mark_read", channel=channel, last_read_entry=ids(items)[4]).ok()
    same(w.unread(channel), 3, "the unread count after all marks")
    w.reader.post("timeline", method="remove", channel=channel, entry=ids(items)[0]).ok()
    same(len(w.items(channel)), len(items) - 1, "the number of items after a remove")


def _insufficient(reply: MicrosubReply, scope: str) -> None:
    value = reply.refused(403, "insufficient_scope")
    expect(scope in str(value.get("scope", "")).split(), f"the scope {scope!r} as 'scope' in the error", value)


@scopes.requirement("follow", needs=("read token",))
def follow(w: World) -> None:
    """follow and unfollow need the scope 'follow'."""
    channel = w.channel()
    for action in ("follow", "unfollow"):
        _insufficient(w.reader.post(action, channel=channel, url=w.blogs.eight.url), "follow")
    _insufficient(w.reader.post("follow", method="update", channel=channel, url=w.blogs.eight.url), "follow")
    same(w.user.get("follow", channel=channel).listed("items"), [], "the feeds of the channel")


@scopes.requirement("channels", needs=("read token",))
def channels(w: World) -> None:
    """Creating and changing channels needs the scope 'channels'."""
    name = w.name("kept")
    channel = w.channel_named(name)
    refused = w.name("not made")
    _insufficient(w.reader.post("channels", name=refused), "channels")
    _insufficient(w.reader.post("channels", channel=channel, name="Changed"), "channels")
    _insufficient(w.reader.post("channels", method="delete", channel=channel), "channels")
    _insufficient(w.reader.post("channels", method="order", channels=[channel]), "channels")
    names = [entry.get("name") for entry in w.user.get("channels").listed("channels")]
    expect(name in names and refused not in names, "the channels as they were", names)


@scopes.requirement("rules", needs=("read token",))
def rules(w: World) -> None:
    """Muting needs the scope 'mute', blocking the scope 'block'."""
    channel = w.channel()
    for scope in ("mute", "block"):
        for action in (scope, f"un{scope}"):
            _insufficient(w.reader.post(action, channel=channel, url=w.blogs.ben.url), scope)
        same(w.user.get(scope, channel=channel).listed("items"), [], f"the list of {scope}")
