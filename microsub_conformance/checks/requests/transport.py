"""Forms of requests: methods, parameters, both forms of the endpoint, CORS."""

from __future__ import annotations

from collections.abc import Callable

from microsub_conformance.client import FORM, MicrosubReply
from microsub_conformance.requirement import DESIGN, Chapter, client
from microsub_conformance.timeline import ids
from microsub_conformance.verdict import NO_HEADER, Violation, expect, same
from microsub_conformance.world import World

transport = Chapter("transport", section="Transport")


def _creates(w: World, reply: MicrosubReply, name: str) -> None:
    """Check that `reply` is the channel `name`, and delete it after the check."""
    channel = reply.ok()
    same(channel.get("name"), name, "the created channel's name")
    uid = str(channel.get("uid"))
    w.afterwards(lambda: w.user.post("channels", method="delete", channel=uid))


@transport.requirement("get-query")
def get_query(w: World) -> None:
    """A GET carries its parameters in the query."""
    w.user.get("channels").listed("channels")


@transport.requirement("post-form")
def post_form(w: World) -> None:
    """A POST carries its parameters in an urlencoded form."""
    name = w.name("ümläut & plus+")
    _creates(w, w.user.form([("action", "channels"), ("name", name)]), name)


@transport.requirement("post-multipart", source=DESIGN)
def post_multipart(w: World) -> None:
    """A POST may be multipart."""
    name = w.name("multipart ü")
    parts = "".join(
        f'--frontier\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
        for key, value in (("action", "channels"), ("name", name))
    )
    headers = {"Content-Type": "multipart/form-data; boundary=frontier"}
    _creates(w, w.user.send("POST", body=f"{parts}--frontier--\r\n".encode(), headers=headers), name)


@transport.requirement("post-json", source=DESIGN)
def post_json(w: World) -> None:
    """A POST may be a JSON object."""
    name = w.name("json ü")
    _creates(w, w.user.json({"action": "channels", "name": name}), name)


@transport.requirement("post-json-charset", source=DESIGN)
def post_json_charset(w: World) -> None:
    """A JSON body's Content-Type may name a charset."""
    headers = {"Content-Type": "application/json; charset=utf-8"}
    w.user.send("POST", body=b'{"action":"search","query":"nothing at all"}', headers=headers).listed("results")


@transport.requirement("post-no-content-type", source=DESIGN)
def post_no_content_type(w: World) -> None:
    """A form without a Content-Type is read as a form."""
    name = w.name("bare")
    body = f"action=channels&name={name.replace(' ', '+')}".encode()
    _creates(w, w.user.send("POST", body=body), name)


@transport.requirement("post-empty-body", source=client("ek"), level="must")
def post_empty_body(w: World) -> None:
    """A POST may be empty, with everything in the query."""
    name = w.name("empty")
    query = [("action", "channels"), ("name", name)]
    _creates(w, w.user.send("POST", query=query), name)
    name = w.name("empty form")
    query = [("action", "channels"), ("name", name)]
    _creates(w, w.user.send("POST", query=query, body=b"", headers={"Content-Type": FORM}), name)


@transport.requirement("post-union", source=client("IndiePass desktop"))
def post_union(w: World) -> None:
    """The parameters of a POST are those of its query and of its body."""
    name = w.name("union")
    _creates(w, w.user.form([("name", name)], query=[("action", "channels")]), name)
    name = w.name("union json")
    _creates(w, w.user.json({"name": name}, query=[("action", "channels")]), name)


@transport.requirement("unencoded", source=client("IndiePass Android"), level="should")
def unencoded(w: World) -> None:
    """Form values are accepted without percent-encoding."""
    body = f"action=search&query={w.blogs.eight.url}".encode()
    w.user.send("POST", body=body, headers={"Content-Type": FORM}).listed("results")


@transport.requirement("get-content-type", source=client("IndiePass iOS"), level="must")
def get_content_type(w: World) -> None:
    """The Content-Type of a GET is ignored."""
    headers = {"Content-Type": "application/json"}
    w.user.send("GET", query=[("action", "channels")], headers=headers).listed("channels")


@transport.requirement("trailing-slash", source=client("microsub-notifier"))
def trailing_slash(w: World) -> None:
    """The endpoint responds with and without a trailing slash, without a redirect."""
    bare = w.user.endpoint.rstrip("/")
    for endpoint in (bare, f"{bare}/"):
        w.user.send("GET", query=[("action", "channels")], endpoint=endpoint).listed("channels")
        query = [("action", "search"), ("query", "nothing at all")]
        w.user.send("POST", query=query, endpoint=endpoint).listed("results")


@transport.requirement("user-endpoint", source=DESIGN, needs=("user endpoint",))
def user_endpoint(w: World) -> None:
    """The endpoint that names the user responds like the plain one."""
    endpoint = str(w.user_endpoint)
    channel = w.channel()
    for form in (endpoint.rstrip("/"), endpoint.rstrip("/") + "/"):
        listed = w.user.send("GET", query=[("action", "channels")], endpoint=form).listed("channels")
        expect(channel in [entry.get("uid") for entry in listed], "the user's own channel in the list", listed)


@transport.requirement("foreign-user-endpoint", source=DESIGN, needs=("user endpoint", "second user"))
def foreign_user_endpoint(w: World) -> None:
    """A token is refused at an endpoint that names another user."""
    reply = w.second.send("GET", query=[("action", "channels")], endpoint=w.user_endpoint)
    expect(reply.status in {401, 403}, "status 401 or 403", reply.text)


@transport.requirement("options", source=client("Ekstereye"))
def options(w: World) -> None:
    """OPTIONS returns 204 without a token."""
    reply = _preflight(w)
    same(reply.status, 204, "the status")


def _preflight(w: World) -> MicrosubReply:
    headers = {
        "Origin": "https://reader.example",
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "authorization,cache-control",
    }
    return w.user.send("OPTIONS", headers=headers, token=False)


@transport.requirement("cors-preflight", source=client("Ekstereye"))
def cors_preflight(w: World) -> None:
    """A preflight allows any origin, and the headers and methods of clients."""
    reply = _preflight(w)
    origin = reply.headers.get("access-control-allow-origin")
    expect(
        origin in {"*", "https://reader.example"},
        "Access-Control-Allow-Origin to allow any origin",
        origin or NO_HEADER,
    )
    allowed = {part.strip().lower() for part in reply.headers.get("access-control-allow-headers", "").split(",")}
    wanted = {"authorization", "content-type", "accept", "cache-control", "last-event-id"}
    missing = sorted(wanted - allowed)
    # A server may also return only the requested methods and headers; then the others can't be checked.
    if allowed != {"authorization", "cache-control"}:
        expect(not missing, f"Access-Control-Allow-Headers to hold {', '.join(sorted(wanted))}", f"missing: {missing}")
    methods = {part.strip().upper() for part in reply.headers.get("access-control-allow-methods", "").split(",")}
    expect({"GET", "POST", "OPTIONS"} <= methods, "Access-Control-Allow-Methods: GET, POST, OPTIONS", sorted(methods))


@transport.requirement("cors-replies", source=client("Ekstereye"))
def cors_replies(w: World) -> None:
    """Successes and errors carry the CORS header too."""
    origin = {"Origin": "https://reader.example"}
    good = w.user.send("GET", query=[("action", "channels")], headers=origin)
    refused = w.user.send("GET", query=[("action", "channels")], headers=origin, token=False)
    wrong = w.user.send("GET", query=[("action", "no-such-action")], headers=origin)
    for reply in (good, refused, wrong):
        found = reply.headers.get("access-control-allow-origin")
        expect(found in {"*", "https://reader.example"}, "Access-Control-Allow-Origin on every reply", reply.text)


@transport.requirement("events", source=client("Ekstereye"))
def events(w: World) -> None:
    """GET events returns a stream of events or a JSON error with status 400."""
    status, kind, first = w.user.opening([("action", "events")], {"Accept": "text/event-stream"})
    if status == 200:
        expect(kind.startswith("text/event-stream"), "content type text/event-stream", kind)
    else:
        expect(status == 400 and kind == "application/json", "status 400 with JSON", f"{status} {kind} {first[:200]!r}")


@transport.requirement("empty-is-absent", source=client("ek"))
def empty_is_absent(w: World) -> None:
    """An empty parameter counts as absent."""
    channel, items = w.filled(w.blogs.eight)
    query = [("action", "timeline"), ("channel", channel)]
    query += [(name, "") for name in ("after", "before", "limit", "is_read", "source", "method")]
    found = w.user.send("GET", query=query).listed("items")
    same(ids(found), ids(items), "the items")


@transport.requirement("lists", source=DESIGN)
def lists(w: World) -> None:
    """A list may be entry=, entry[]=, repeated entry=, entry[0]=, JSON string, JSON list, or multipart entry[]."""
    channel, items = w.unread_channel()
    one, two = ids(items)[:2]
    mark = [("action", "timeline"), ("method", "mark_read"), ("channel", channel)]
    as_json = dict(mark)
    multipart = "".join(
        f'--frontier\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
        for key, value in [*mark, ("entry[]", one), ("entry[]", two)]
    )
    headers = {"Content-Type": "multipart/form-data; boundary=frontier"}
    sends: dict[str, tuple[int, Callable[[], MicrosubReply]]] = {
        "entry=a": (1, lambda: w.user.form([*mark, ("entry", one)])),
        "entry[]=a": (1, lambda: w.user.form([*mark, ("entry[]", one)])),
        "entry[]=a&entry[]=b": (2, lambda: w.user.form([*mark, ("entry[]", one), ("entry[]", two)])),
        "entry=a&entry=b": (2, lambda: w.user.form([*mark, ("entry", one), ("entry", two)])),
        "entry[0]=a&entry[1]=b": (2, lambda: w.user.form([*mark, ("entry[0]", one), ("entry[1]", two)])),
        "entry[]=a&entry[]=b in the query": (2, lambda: w.user.form([], [*mark, ("entry[]", one), ("entry[]", two)])),
        "JSON string": (1, lambda: w.user.json({**as_json, "entry": one})),
        "JSON list": (2, lambda: w.user.json({**as_json, "entry": [one, two]})),
        "JSON list as entry[]": (2, lambda: w.user.json({**as_json, "entry[]": [one, two]})),
        "multipart entry[]": (
            2,
            lambda: w.user.send("POST", body=f"{multipart}--frontier--\r\n".encode(), headers=headers),
        ),
    }
    for form, (count, send) in sends.items():
        try:
            send().ok()
        except Violation as failure:
            raise Violation(f"the form {form} to be read: {failure.expected}", failure.found) from None
        left = w.unread(channel)
        expect(left == len(items) - count, f"{count} items read after {form}", f"{len(items) - left} items read")
        for entry in (one, two):
            w.user.post("timeline", method="mark_unread", channel=channel, entry=entry).ok()
        same(w.unread(channel), len(items), "the unread count after mark_unread of each")


@transport.requirement("json-broken", source=DESIGN)
def json_broken(w: World) -> None:
    """A body that isn't the JSON it claims to be is a 400."""
    headers = {"Content-Type": "application/json"}
    for body in (b'{"action":', b'["channels"]', b'"channels"', b"null", b"\xff\xfe"):
        w.user.send("POST", body=body, headers=headers).refused(400, "invalid_request")
