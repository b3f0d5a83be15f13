"""Converts posts and queries to the words of the index. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from microsub.model.query import PostQuery, Term
from microsub.model.words import Phrase, folded, words_of

MOST_CHARACTERS = 100_000
"""Indexed characters of one post: books are published as feeds too."""

_LINK, _FEED, _KIND, ALL = "\ue000", "\ue001", "\ue002", "\ue003"
"""Prefixes of words for addresses, feeds and kinds: each its own, and no word of a text contains one. `ALL` is a word
of every post, the base of queries that only exclude.
"""


def link_words(address: str) -> list[str]:
    """The words of an address, marked, in order."""
    return [_LINK + word for word in words_of(address.partition("://")[2] or address)]


def feed_word(feed_id: str) -> str:
    """The word of all posts of that feed."""
    return _FEED + feed_id


def kind_word(kind: str) -> str:
    """The word of all posts of that kind (`post-type`)."""
    return _KIND + kind


class IndexedPost(NamedTuple):
    """A post in the form of the index: its item id, its score (Unix time), and a text per column."""

    item: int
    score: float
    title: str
    author: str
    body: str
    marks: str


_LINKS = ("url", "in-reply-to", "like-of", "repost-of", "bookmark-of", "follow-of", "category")


def document(item: int, score: float, wire: Mapping[str, Any], full: Mapping[str, str] | None = None) -> IndexedPost:
    """The words of an item's JSON (`docs/reference/api.md`, Items), including posts it replies to or repeats.

    The words of its `full` text, if it has one, are in front of those of its feed's text, unless they contain it.
    """
    body = _body(wire)
    if full is not None:
        body = [full["text"], *(text for text in body if text[:200] not in full["text"])]
    refs = wire.get("refs")
    quoted = [ref for ref in refs.values() if isinstance(ref, dict)] if isinstance(refs, dict) else []
    for ref in quoted:
        body += _body(ref)
    for ref in quoted:
        body += [*_texts(ref, "name"), *_person(ref)]
    links = [address for name in _LINKS if name in wire for address in _texts(wire, name) if "://" in address]
    marks = [ALL, feed_word(str(wire.get("_source", ""))), kind_word(str(wire.get("post-type", "")))]
    for address in dict.fromkeys(links):
        marks += link_words(address[:2048])
    return IndexedPost(
        item,
        score,
        _joined(_texts(wire, "name")),
        _joined(_person(wire)),
        _joined(body),
        " ".join(marks).replace("\0", " "),
    )


def _joined(parts: Iterable[str]) -> str:
    return folded("\n".join(parts)[:MOST_CHARACTERS])


def _body(entry: Mapping[str, Any]) -> list[str]:
    content, summary = entry.get("content"), entry.get("summary")
    text = content.get("text") if isinstance(content, dict) else content
    body = [*_strings(text or summary)]
    if text and isinstance(summary, str) and summary[:200] not in text:
        body.append(summary)
    body += _texts(entry, "category")
    for name in ("checkin", "location"):
        if isinstance(place := entry.get(name), dict):
            body += [*_texts(place, "name"), *_texts(place, "locality")]
    for enclosure in entry.get("enclosure") or ():
        if isinstance(enclosure, dict):
            body += _texts(enclosure, "title")
    return body


def _person(entry: Mapping[str, Any]) -> list[str]:
    author = entry.get("author")
    return [*_texts(author, "name"), *_texts(author, "url")] if isinstance(author, dict) else []


def _texts(entry: Mapping[str, Any], name: str) -> Sequence[str]:
    return _strings(entry.get(name))


def _strings(value: object) -> Sequence[str]:
    if isinstance(value, str):
        return (value,) if value else ()
    if isinstance(value, list):
        return [one for one in value if isinstance(one, str) and one]
    return ()


# --- queries for FTS5 -------------------------------------------------------------------------------------------------

_ADDRESS = re.compile(r"(?:\w+://)?[\w-]+(?:\.[\w-]+)+(?:[/:?#].*)?|\w+://\S+", re.DOTALL)


def expression(query: PostQuery, feeds: Mapping[str, Sequence[str]]) -> str:
    """The query in FTS5's language (https://www.sqlite.org/fts5.html, 3). `feeds` maps its feed names to ids.

    States and times of the query aren't part of it.
    """
    wanted, unwanted = [f'"{ALL}"'], []
    for clause in query.clauses:
        if len(clause) == 1 and clause[0].excluded:
            unwanted.append(_condition(clause[0], feeds))
        else:
            wanted.append(_any(f'("{ALL}" NOT {found})' if term.excluded else found for term in clause
                               for found in (_condition(term, feeds),)))  # fmt: skip
    found = " AND ".join(wanted[1:] or wanted)
    return f"({found}) NOT {_any(unwanted)}" if unwanted else found


def _any(conditions: Iterator[str] | Sequence[str]) -> str:
    return f"({' OR '.join(conditions)})"


def _condition(term: Term, feeds: Mapping[str, Sequence[str]]) -> str:
    if term.field == "feed":
        return _any([f'"{feed_word(feed)}"' for feed in feeds[term.text]] or [f'"{feed_word("none")}"'])
    if term.field == "kind":
        return f'"{kind_word(term.text)}"'
    found = _quoted(term.phrase)
    if term.field in {"title", "author"}:
        return f"{term.field} : {found}"
    if not term.field and _ADDRESS.fullmatch(term.text) and (words := link_words(term.text)):
        return _any([found, _quoted(Phrase(tuple(words), term.phrase.open_ended))])
    return found


def _quoted(phrase: Phrase) -> str:
    return f'"{" ".join(phrase.words)}"' + (" *" if phrase.open_ended else "")
