"""Which post is which: across polls, across edits, across two feeds of the same site.

An identity is a string that stays the same as long as the post does. It is a key, never shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from microsub.formats.post_types import is_beginning
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


def twin_identity(entry: Entry) -> str | None:
    """What copies of one post in two feeds have in common.

    Guid and link together, as a hex digest.

    None where one of them is missing: a link alone proves too little.
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
