"""A backend.json for the demo: two users whose channels follow the invented blogs, polled every few seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from microsub.demo.cast import BY_SLUG
from microsub.demo.markup import feed_path, home_path

POLL_SECONDS = 10
"""How often the demo's feeds are polled; far more often than is polite towards anybody else."""

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
    return {
        "users": {
            user: {
                "me": f"{base}{home_path(BY_SLUG['mo'])}{user}",
                "channels": [
                    {"uid": uid, "name": name, "feeds": [_feed(base, slug) for slug in slugs]}
                    for uid, name, slugs in channels
                ],
            }
            for user, channels in CHANNELS.items()
        },
        "settings": {},
    }


def _feed(base: str, slug: str) -> dict[str, Any]:
    blog = BY_SLUG[slug]
    return {"url": base + feed_path(blog), "name": blog.title, "interval": POLL_SECONDS}
