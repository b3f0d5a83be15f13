"""Which kind of post an entry is: Post Type Discovery (https://www.w3.org/TR/post-type-discovery/).

The order is the specification's. Kinds that it doesn't name and readers know (bookmark, follow, checkin, audio) stand
where they can't shadow one that it does name: bookmarks and checkins usually carry photos, audio is what is left.
"""

from __future__ import annotations

import re

from microsub.formats.html.text import without_controls
from microsub.model.jf2 import Entry

_ANSWERS = frozenset({"yes", "no", "maybe", "interested"})
_ADDRESSES = re.compile(r"https?://\S+")
_LITTLE = 10
"""Characters that a body may have more than a name without saying more; a fifth of the name's length is fine, too."""


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
        ("follow", entry.follow_of),
        ("checkin", entry.checkin),
        ("video", entry.video),
        ("photo", entry.photo and not _is_illustrated_article(entry)),
        ("audio", entry.audio),
    )
    for kind, value in decisive:
        if value:
            return kind
    return "note" if says_no_more(entry.name, body_text(entry)) else "article"


def _is_illustrated_article(entry: Entry) -> bool:
    """Whether the pictures are files enclosed with a text that has a title, as those of news are.

    The specification knows no enclosures; a picture that is marked up as the photo of a post makes it a photo.
    """
    body = body_text(entry)
    if not body or says_no_more(entry.name, body):
        return False
    enclosed = {enclosure.url for enclosure in entry.enclosure}
    return enclosed.issuperset(entry.photo)


def body_text(entry: Entry) -> str:
    """What the name is compared with: content, else summary, else nothing."""
    text = entry.content.text if entry.content else None
    return text or entry.summary or ""


def says_no_more(name: str | None, body: str) -> bool:
    """Whether `name` is no title of `body` but nearly all of it, or its beginning as an engine cut it off: with an
    ellipsis, or inside a word. A headline with which a longer text begins is a title. True for an empty name.
    """
    folded, body = fold(name or ""), fold(body)
    if not _begins(folded, body):
        return False
    rest = body[len(folded) :] if body.startswith(folded) else ""
    if not folded or rest[:1].isalnum():
        return True
    room = max(_LITTLE, len(folded) // 5)
    # Programs that post elsewhere add the address of the post.
    return len(rest) <= 1000 and len(_ADDRESSES.sub("", rest).strip()) <= room


def is_beginning(text: str | None, body: str) -> bool:
    """Whether `body` begins with `text`, perhaps cut off with an ellipsis; True for an empty one."""
    return _begins(fold(text or ""), fold(body))


def _begins(folded: str, body: str) -> bool:
    if body.startswith(folded):
        # Engines cut long texts anywhere; a short title isn't the beginning of a longer word: "Go" and "Gophers".
        return len(folded) > 20 or not folded or not body[len(folded) : len(folded) + 1].isalnum()
    cut = folded.removesuffix("...").removesuffix("…").removesuffix("[…]").rstrip()
    return len(cut) > 10 and cut != folded and body.startswith(cut)


def fold(text: str) -> str:
    """White space trimmed and collapsed, and no control characters."""
    return " ".join(without_controls(text).split())
