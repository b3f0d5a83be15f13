"""A backend.json for the demo: two users whose channels follow the invented blogs, polled every few seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from microsub.demo.cast import BY_SLUG
from microsub.demo.documents import feed_paths
from microsub.demo.markup import feed_path, home_path

POLL_SECONDS = 5
"""How often each of the demo's feeds is polled; far more often than is polite towards anybody else."""

CHANNELS: Mapping[str, Sequence[tuple[str, str, Sequence[str]]]] = {
    "robin": (
        ("people", "People", ("mo", "second-thoughts", "kestrel-kettle")),
        ("workshop", "Workshop", ("slow-lathe", "orrery", "salt-and-ladders")),
        ("listening", "Listening", ("nine-minutes-of-fog",)),
        ("elsewhere", "Elsewhere", ("cafe-desuet", "dry-watercolour", "harbour-log")),
    ),
    "kim": (
        ("everything", "Everything", ("mo", "orrery", "harbour-log", "nine-minutes-of-fog")),
        ("kitchen", "Kitchen", ("salt-and-ladders", "kestrel-kettle", "cafe-desuet")),
    ),
}
"""User → channels as (uid, name, blogs). Both follow some of the same blogs, each of which is polled once."""


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
            "feeds": {base + path: {"interval": POLL_SECONDS, "ttl": 0} for path in feed_paths()},
        },
    }


def _feed(base: str, slug: str) -> dict[str, Any]:
    blog = BY_SLUG[slug]
    return {"url": base + feed_path(blog), "name": blog.title}


def write_backend(path: Path, base: str) -> bool:
    """Write the demo's backend.json to `path`; True when it was written.

    A file that follows the publisher at `base` already is left alone, because it holds what was changed since.
    """
    if path.exists() and f'"{base}{home_path(BY_SLUG["mo"])}"' in path.read_text():
        return False
    path.write_text(json.dumps(backend_document(base), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return True
