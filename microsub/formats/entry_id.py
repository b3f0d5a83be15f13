"""Identifies posts across polls, edits and several feeds of a site, and determines their type.

An identity is a string that never changes during a post's life. It is a key, and is never shown.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

from microsub.base.digests import sha256_hex
from microsub.base.urls import normalise_url
from microsub.formats.html.text import without_controls
from microsub.model.jf2 import Entry

MAX_IDENTITY = 512
GUID_DIGEST = 8
"""Bytes of a `guid_digest`."""


def identity(entry: Entry) -> str:
    """The identity of `entry`: its guid, else its link, else a hash of title and content.

    Guids and links are normalised, so that a move to https or a new campaign parameter doesn't make a new post.
    """
    return bounded(normalise_url(entry.guid or "") or normalise_url(entry.url or "") or _hash_of_text(entry))


def identities(entries: Sequence[Entry]) -> list[str]:
    """The identities of a whole document's entries, in order.

    Some publishers give several posts the same guid (the site's address, for example). These are distinguished by their
    links, or by their text if links are missing too; if both are equal, it is one post that is listed twice.
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


def guid_digest(guid: str) -> bytes:
    """A short digest of an identity, for sets of a document's guids."""
    return hashlib.blake2b(guid.encode("utf-8", "surrogatepass"), digest_size=GUID_DIGEST).digest()


def told_apart(guid: str, link: str, written: str) -> str:
    """The identity that a post with `guid` would have among others with the same guid.

    '' if its link adds nothing to its guid (`written` as in the feed).
    """
    return bounded(f"{guid} {normalise_url(link)}") if link and link != written else ""


def common_identity(entry: Entry) -> str | None:
    """The common identity of copies of one post in two feeds.

    Guid and link together, as a hex digest. None if one of them is missing: a link alone proves too little.
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
    # A title that repeats the text, or was left out for that reason, doesn't change the identity.
    name = "" if is_beginning(entry.name, body) else entry.name or ""
    text = "\0".join((name, body, *entry.photo, *entry.audio, *entry.video))
    return "text:" + sha256_hex(text)


def bounded(text: str, most: int = MAX_IDENTITY) -> str:
    """`text`, or a digest if it is longer than `most`: guids become hash fields in Redis."""
    if len(text) <= most:
        return text
    return text[:64] + "#" + sha256_hex(text)


# --- post types ----------------------------------------------------------------------------------------------------
#
# Post Type Discovery (https://www.w3.org/TR/post-type-discovery/), in its order. Types that it doesn't name but readers
# know (bookmark, follow, checkin, audio) come where they can't override one that it names: bookmarks and checkins
# usually have photos, audio comes last.

_ANSWERS = frozenset({"yes", "no", "maybe", "interested"})
_ADDRESSES = re.compile(r"https?://\S+")
_LITTLE = 10
"""Characters by which a body may exceed a name without saying more; a fifth of the name's length is allowed too."""


def post_type(entry: Entry) -> str:
    """The post type of `entry`, derived only from its properties."""
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
    """Whether the pictures are enclosures of a text with a title, as in news.

    The specification doesn't cover enclosures; a picture that is marked up as a post's photo makes it a photo post.
    """
    body = body_text(entry)
    if not body or says_no_more(entry.name, body):
        return False
    enclosed = {enclosure.url for enclosure in entry.enclosure}
    return enclosed.issuperset(entry.photo)


def body_text(entry: Entry) -> str:
    """The text that the name is compared with: content, else summary, else nothing."""
    text = entry.content.text if entry.content else None
    return text or entry.summary or ""


def says_no_more(name: str | None, body: str) -> bool:
    """Whether `name` isn't a title of `body`, but nearly all of it or its truncated beginning.

    Engines truncate with an ellipsis or inside a word; a headline that a longer text starts with is a title. True for
    an empty name.
    """
    folded = fold(name or "")
    if not folded:
        return True
    if not _begins(folded, _beginning(body, len(folded) + 1)):
        return False
    body = fold(body)
    rest = body[len(folded) :] if body.startswith(folded) else ""
    if rest[:1].isalnum():
        return True
    room = max(_LITTLE, len(folded) // 5)
    # Cross-posting programs add the post's address.
    return len(rest) <= 1000 and len(_ADDRESSES.sub("", rest).strip()) <= room


def is_beginning(text: str | None, body: str) -> bool:
    """Whether `body` starts with `text`, possibly truncated with an ellipsis; True for an empty one."""
    folded = fold(text or "")
    return _begins(folded, _beginning(body, len(folded) + 1))


def is_teaser(summary: str, body: str) -> bool:
    """Whether a summary only repeats the beginning of `body`, even if the publisher's software adds a line to it."""
    folded = fold(summary)
    text = _beginning(body, len(folded) + 1)
    if _begins(folded, text):
        return True
    begin = _ADDED.split(folded, maxsplit=1)[0].rstrip()
    return len(begin) > 10 and len(folded) - len(begin) <= _MOST_ADDED and _begins(begin, text)


# Written by WordPress and its plug-ins below a teaser: "[…] The post X appeared first on Y."
_ADDED = re.compile(
    r"(?i)\s?\[(?:…|\.\.\.|&hellip;)\]|…|\bThe post .{1,300} (?:appeared first|first appeared) on "
    r"|\bDer Beitrag .{1,300} erschien zuerst auf |\bL.article .{1,300} est apparu en premier sur "
    r"|\bLa entrada .{1,300} (?:se public. primero en|aparece primero en) |\bL.articolo .{1,300} proviene da "
    r"|\bHet bericht .{1,300} verscheen eerst op |\bContinue reading\b|\bRead more\b|\bWeiterlesen\b"
)
_MOST_ADDED = 500


def _begins(folded: str, body: str) -> bool:
    if body.startswith(folded):
        # Engines truncate long texts anywhere; a short title must end at a word boundary: "Go" doesn't match "Gophers".
        return len(folded) > 20 or not folded or not body[len(folded) : len(folded) + 1].isalnum()
    cut = folded.removesuffix("...").removesuffix("…").removesuffix("[…]").rstrip()
    return len(cut) > 10 and cut != folded and body.startswith(cut)


def _beginning(text: str, least: int) -> str:
    """The first characters of the folded text, at least `least` if it has so many: folding a long one takes long."""
    if len(text) > (most := 2 * least + 100) and len(begin := fold(text[:most])) >= least:
        return begin
    return fold(text)


def fold(text: str) -> str:
    """Trim and collapse white space, and remove control characters."""
    return " ".join(without_controls(text).split())
