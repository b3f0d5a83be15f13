"""Which post is which across polls, edits and two feeds of a site; and of which kind it is.

An identity is a string that stays the same as long as the post does. It is a key, never shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from microsub.formats.html.text import without_controls
from microsub.kit.digests import sha256_hex
from microsub.kit.urls import normalise_url
from microsub.model.jf2 import Entry

MAX_IDENTITY = 512


def identity(entry: Entry) -> str:
    """What `entry` is known by: its guid, else its link, else a hash of title and content.

    Guids and links are compared in normal form, so that a move to https or a new campaign parameter is no new post.
    """
    return bounded(normalise_url(entry.guid or "") or normalise_url(entry.url or "") or _hash_of_text(entry))


def identities(entries: Sequence[Entry]) -> list[str]:
    """The identities of a whole document, in its order.

    Some publishers give several posts one guid (the site's address, say). Those are told apart by their links, or by
    their text where links are missing too; what agrees in both is one post that is listed twice.
    """
    found = [identity(entry) for entry in entries]
    repeated = {guid for guid, count in Counter(found).items() if count > 1}
    links: dict[str, set[str]] = {guid: set() for guid in repeated}
    for entry, guid in zip(entries, found, strict=True):
        if guid in repeated:
            links[guid].add(_second_look(entry))
    shared = {guid for guid, looks in links.items() if len(looks) > 1}
    return [
        bounded(f"{guid} {_second_look(entry)}") if guid in shared else guid
        for entry, guid in zip(entries, found, strict=True)
    ]


def told_apart(guid: str, link: str, written: str) -> str:
    """What a post that is known by `guid` would be known by beside others of the same guid.

    '' where its link says nothing that its guid (`written` as the feed has it) doesn't say.
    """
    return bounded(f"{guid} {normalise_url(link)}") if link and link != written else ""


def common_identity(entry: Entry) -> str | None:
    """What copies of one post in two feeds have in common.

    Guid and link together, as a hex digest. None where one of them is missing: a link alone proves too little.
    """
    if not entry.guid or not entry.url:
        return None
    return sha256_hex(f"{normalise_url(entry.guid)}\n{normalise_url(entry.url)}")


def _second_look(entry: Entry) -> str:
    return normalise_url(entry.url) if entry.url and entry.url != entry.guid else _hash_of_text(entry)


def _hash_of_text(entry: Entry) -> str:
    content = entry.content
    body = (content.text or content.html or "") if content else ""
    body = body or entry.summary or ""
    # A title that is there twice, or was left out because it was, makes no other post.
    name = "" if is_beginning(entry.name, body) else entry.name or ""
    text = "\0".join((name, body, *entry.photo, *entry.audio, *entry.video))
    return "text:" + sha256_hex(text)


def bounded(text: str, most: int = MAX_IDENTITY) -> str:
    """`text`, or a digest of one that is longer than `most`: guids become hash fields in Redis."""
    if len(text) <= most:
        return text
    return text[:64] + "#" + sha256_hex(text)


# --- its kind ------------------------------------------------------------------------------------------------------
#
# Post Type Discovery (https://www.w3.org/TR/post-type-discovery/), in its order. Kinds that it doesn't name
# and readers know (bookmark, follow, checkin, audio) stand where they can't shadow one that it names: bookmarks and
# checkins usually carry photos, audio is what is left.

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
    """Whether the pictures are files enclosed with a text that has a title, as in news.

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
    """Whether `name` is no title of `body` but nearly all of it, or its cut-off beginning.

    An engine cuts with an ellipsis, or inside a word; a headline that a longer text begins with is a title. True for
    an empty name.
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
    """Whether `body` begins with `text`, maybe cut off with an ellipsis; True for an empty one."""
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
