"""The demo's web server: `documents` over HTTP with validators, an ASGI application.

Conditional requests follow RFC 9110, section 13: `If-None-Match` decides if given, otherwise `If-Modified-Since`. The
`ETag` is a hash of the body, `Last-Modified` the time of the newest post or edit. `write_backend` makes a backend.json
that follows all blogs.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from datetime import datetime
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from microsub_demo.blog import Blog
from microsub_demo.cast import BLOGS, BY_SLUG, SEED
from microsub_demo.documents import Document, document, feed_path, home_path
from microsub_demo.lively import LIVELY

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Answer = tuple[int, list[tuple[bytes, bytes]], bytes]
"""Status, headers, body."""


class Publisher:
    """An ASGI application that publishes the demo's blogs.

    `base` is its own address without a final slash, for the absolute URLs in feeds; if empty, the address of the
    request is used. `clock` returns Unix seconds.
    """

    def __init__(self, base: str = "", clock: Callable[[], float] = time.time, seed: int = SEED) -> None:
        self.base = base
        self.clock = clock
        self.seed = seed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; ignores everything except HTTP."""
        if scope["type"] != "http":
            return
        status, headers, body = self.answer(scope["method"], scope["path"], _headers(scope), _address(scope))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def answer(self, method: str, path: str, request: Mapping[str, str], address: str) -> Answer:
        """The reply to a request at `address`; header names are in lower case."""
        if method not in {"GET", "HEAD"}:
            return 405, [(b"allow", b"GET, HEAD")], b""
        found = document(path, self.clock(), self.base or address, self.seed)
        if found is None:
            return 404, [(b"content-type", b"text/plain")], b"nothing here (yet)\n"
        if found.status != 200:
            return found.status, _entity(found), found.body
        etag = f'"{hashlib.blake2s(found.body, digest_size=12).hexdigest()}"'
        validators = [(b"etag", etag.encode()), (b"last-modified", _http_date(found.changed))]
        if _is_fresh(request, etag, found.changed):
            return 304, validators, b""
        return 200, [*validators, *_entity(found)], found.body


def _address(scope: Scope) -> str:
    host, port = scope.get("server") or ("127.0.0.1", 80)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _http_date(instant: datetime) -> bytes:
    return format_datetime(instant, usegmt=True).encode()


def _entity(found: Document) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", found.content_type.encode()),
        (b"content-length", str(len(found.body)).encode()),
        (b"cache-control", b"no-cache"),
    ]


def _is_fresh(request: Mapping[str, str], etag: str, changed: datetime) -> bool:
    known = request.get("if-none-match")
    if known is not None:
        tags = {tag.strip().removeprefix("W/") for tag in known.split(",")}
        return "*" in tags or etag in tags
    since = request.get("if-modified-since")
    if since is None:
        return False
    try:
        return changed <= parsedate_to_datetime(since)
    except (ValueError, TypeError):  # a date that is invalid or has no time zone counts as absent
        return False


POLL_SECONDS = 5, 60
"""How often the demo's feeds are polled, lively ones and others: far too often for real publishers."""

CHANNELS: Mapping[str, Sequence[tuple[str, str, Sequence[str]]]] = {
    "kim": (
        ("people", "People", ("mo", "bo", "second-thoughts", "kestrel-kettle", "gone-fishing")),
        ("news", "News", ("quay-courier", "gauge", "linkrot", "out-of-paper")),
        ("workshop", "Workshop", ("slow-lathe", "orrery", "salt-and-ladders", "kitchen-arithmetic", "proofs")),
        ("code", "Code", ("tidewater-systems", "release-notes")),
        ("reading", "Reading", ("long-table", "night-ferry", "appointments", "three-panels", "locked-diary")),
        ("listening", "Listening", ("nine-minutes-of-fog", "slow-radio")),
        (
            "elsewhere",
            "Elsewhere",
            ("harbour-log", "cafe-desuet", "waldrand", "azotea", "dry-watercolour", "amado-station", "lamp-and-ink"),
        ),
    ),
    "robin": (
        ("everything", "Everything", ("mo", "orrery", "harbour-log", "nine-minutes-of-fog")),
        ("kitchen", "Kitchen", ("salt-and-ladders", "kestrel-kettle", "cafe-desuet")),
    ),
}
"""User → channels as (uid, name, blogs). Both users follow some of the same blogs, which are polled only once."""


def backend_document(base: str) -> dict[str, Any]:
    """The content of a backend.json that follows the publisher at `base` (no slash at its end)."""
    host = urlsplit(base).hostname or "127.0.0.1"
    return {
        "users": {
            user: {
                "me": f"{base}/people/{user}/",
                "channels": [
                    {"uid": uid, "name": name, "feeds": [_feed(base, slug) for slug in slugs]}
                    for uid, name, slugs in channels
                ],
            }
            for user, channels in CHANNELS.items()
        },
        "settings": {
            "max_items": 500,
            "hosts": {host: {"interval": 0, "concurrency": 4}},
            "feeds": {base + feed_path(blog): {"interval": _interval(blog), "ttl": 0} for blog in BLOGS},
        },
    }


def _interval(blog: Blog) -> int:
    lively, other = POLL_SECONDS
    return lively if blog in LIVELY else other


def _feed(base: str, slug: str) -> dict[str, Any]:
    blog = BY_SLUG[slug]
    return {"url": base + feed_path(blog), "name": blog.title}


def write_backend(path: Path, base: str) -> bool:
    """Write the demo's backend.json to `path`; True if it was written.

    A file that already follows the publisher at `base` isn't touched, because it may have later changes.
    """
    if path.exists() and f'"{base}{home_path(BY_SLUG["mo"])}"' in path.read_text():
        return False
    path.write_text(json.dumps(backend_document(base), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return True
