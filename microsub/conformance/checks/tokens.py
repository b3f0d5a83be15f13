"""Where the token may stand, and what happens without a good one."""

from __future__ import annotations

from microsub.conformance.client import FORM, Reply
from microsub.conformance.requirement import DESIGN, Chapter
from microsub.conformance.verdict import NO_HEADER, expect
from microsub.conformance.world import World

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


def _unauthorized(reply: Reply) -> None:
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
