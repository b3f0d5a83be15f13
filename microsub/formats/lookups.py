"""Decides which look-ups an entry needs, and completes it with the results.

Step 7 of the authorship algorithm (https://indieweb.org/authorship-spec) fetches the author's page. Targets of replies,
likes, reposts and bookmarks are fetched as their context (https://indieweb.org/reply-context). `references` reads the
fetched pages.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, Literal

from microsub.base.urls import has_credentials, host_of, normalise_url
from microsub.model.jf2 import Card, Entry

MAX_TARGETS = 4
"""Targets that are looked up for one entry; an entry with more is from a bridge that lists copies."""

# Documents without cards and posts, which may be large.
_NO_PAGE = re.compile(
    r"(?i)\.(?:jpe?g|png|gif|webp|avif|svg|ico|mp[34]|m4[av]|og[gv]|opus|flac|wav|webm|mov|mkv|zip|t?gz|bz2|xz|7z|rar|exe|dmg"
    r"|iso|apk|deb|rpm|jar|pdf|epub|mobi|docx?|xlsx?|pptx?|css|js|wasm|torrent)\Z"
)
# Sites that show pages only to signed-in users, or to browsers. A busy feed of theirs has an author per post.
_WALLED = re.compile(r"(?:.*\.)?(?:x|twitter|facebook|instagram|threads|linkedin|reddit|tiktok)\.(?:com|net)")
_SAYS_SOMETHING = ("name", "summary", "content", "photo", "video", "audio")


@dataclass(frozen=True, slots=True)
class LookUp:
    """A page to look up: the author's, for a missing name and photo; or a target, for the entry's `refs`.

    Targets are those of a reply, like, repost, bookmark, follow or quotation.
    """

    kind: Literal["author", "target"]
    url: str


def lacking(entry: Entry, source: str | None = None) -> tuple[LookUp, ...]:
    """The look-ups that would complete `entry`: its author, then at most `MAX_TARGETS` targets.

    Not for data on the entry's own page or in the document that it comes from (`source`, an address), for addresses
    with secrets, for files that aren't pages, or on sites that show servers nothing.
    """
    # A home page isn't a post's own page: posts without an address link to it, and their author may be there.
    own = entry.url if entry.url and not _is_home(entry.url) else None
    known = {_page(url) for url in (own, source) if url}
    found: list[LookUp] = []
    author = entry.author
    if author is not None and author.url and not (author.name and author.photo) and is_worth_it(author.url, known):
        found.append(LookUp("author", author.url))
    places: set[str] = set()
    for url in targets(entry):
        place = normalise_url(url)
        if place not in places and not _says_something(entry.refs.get(url)) and is_worth_it(url, known):
            places.add(place)
            found.append(LookUp("target", url))
        if len(places) == MAX_TARGETS:
            break
    return tuple(found)


def targets(entry: Entry) -> tuple[str, ...]:
    """The addresses that `entry` is about, without duplicates, starting with those that determine its post type."""
    quoted = (entry.quotation_of,) if entry.quotation_of else ()
    about = (entry.in_reply_to, entry.repost_of, entry.like_of, entry.bookmark_of, entry.follow_of, quoted)
    return tuple(dict.fromkeys(chain(*about)))


def completed(entry: Entry, found: Mapping[LookUp, Card | Entry]) -> Entry:
    """Complete `entry` with the results; what the publisher wrote isn't changed.

    Results that the entry doesn't need (any more) are ignored, so this may be repeated with any results.
    """
    author, refs = entry.author, dict(entry.refs)
    for look_up in lacking(entry):
        answer = found.get(look_up)
        match look_up.kind, answer:
            case "author", Card() if author is not None:
                author = replace(author, name=author.name or answer.name, photo=author.photo or answer.photo)
            case "target", Card() | Entry():
                refs[look_up.url] = _filled(refs.get(look_up.url), answer)
    # The same object if nothing was found, so that callers that compare by identity needn't write it again.
    return entry if author == entry.author and refs == entry.refs else replace(entry, author=author, refs=refs)


def is_worth_it(url: str, known: Collection[str] = ()) -> bool:
    """Whether a look-up of that address may find a page.

    Not if it has a secret, is a file or one of the `known` pages, or is on a site that shows servers nothing.
    """
    path = url.partition("#")[0].partition("?")[0]
    if _page(url) in known or has_credentials(url) or _NO_PAGE.search(path):
        return False
    return not _WALLED.fullmatch(host_of(url))


def _is_home(url: str) -> bool:
    page = _page(url)
    return page.endswith("/") and page.count("/") == 3


def _page(url: str) -> str:
    return normalise_url(url).partition("#")[0]


def _says_something(ref: Entry | Card | None) -> bool:
    """Whether `ref` tells a reader more than its address."""
    if isinstance(ref, Card):
        return ref.name is not None
    return ref is not None and any(getattr(ref, name) for name in _SAYS_SOMETHING)


def _filled(own: Entry | Card | None, answer: Card | Entry) -> Card | Entry:
    """The data on the entry's page, with gaps filled from the target; if the types differ, the target's."""
    if type(own) is not type(answer):
        return answer
    assert own is not None
    gaps: dict[str, Any] = {
        field.name: value
        for field in fields(own)
        if not getattr(own, field.name) and (value := getattr(answer, field.name))
    }
    return replace(own, **gaps)
