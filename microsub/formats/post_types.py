"""Which kind of post an entry is: Post Type Discovery (https://www.w3.org/TR/post-type-discovery/).

The order is the specification's. Kinds that it doesn't name and readers know (bookmark, checkin, audio) stand where
they can't shadow one that it does name: bookmarks and checkins usually carry photos, audio is what is left.
"""

from __future__ import annotations

from microsub.formats.text import without_controls
from microsub.model.jf2 import Entry

_ANSWERS = frozenset({"yes", "no", "maybe", "interested"})


def post_type(entry: Entry) -> str:
    """The post type of `entry`, from its properties alone."""
    if entry.type == "event":
        return "event"
    if entry.rsvp and entry.rsvp.strip().lower() in _ANSWERS:
        return "rsvp"
    decisive = (
        ("reply", entry.in_reply_to),
        ("repost", entry.repost_of),
        ("like", entry.like_of),
        ("bookmark", entry.bookmark_of),
        ("checkin", entry.checkin),
        ("video", entry.video),
        ("photo", entry.photo),
        ("audio", entry.audio),
    )
    for kind, value in decisive:
        if value:
            return kind
    return "note" if repeats(entry.name, body_text(entry)) else "article"


def body_text(entry: Entry) -> str:
    """What the name is compared with: content, else summary, else nothing."""
    text = entry.content.text if entry.content else None
    return text or entry.summary or ""


def repeats(name: str | None, body: str) -> bool:
    """Whether `name` adds nothing to `body`: it is empty, or its beginning, perhaps cut off with an ellipsis."""
    folded = fold(name or "")
    if not folded:
        return True
    body = fold(body)
    if body.startswith(folded):
        # Engines cut long texts anywhere; a short title isn't the beginning of a longer word.
        return len(folded) > 20 or not body[len(folded) : len(folded) + 1].isalnum()
    cut = folded.removesuffix("...").removesuffix("…").removesuffix("[…]").rstrip()
    return len(cut) > 10 and cut != folded and body.startswith(cut)


def fold(text: str) -> str:
    """White space trimmed and collapsed, and no control characters."""
    return " ".join(without_controls(text).split())
