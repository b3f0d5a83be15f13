"""Text as the index holds it, and as queries look for it: folded, with bigrams where no blanks part words. Pure.

Case and accents don't count. SQLite's tokenizer `ascii` makes the words: ASCII letters and digits, and all that isn't
ASCII; so text in ASCII goes to it as it is, and other text leaves here with blanks where a word ends. Chinese,
Japanese, Korean, Thai, Lao, Khmer and Burmese are written as overlapping pairs of characters, each run with its last
character alone behind them: a longer word is a phrase of pairs, and a single character the beginning of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import add
from typing import Any

from microsub.model.plaintext import normalised

MOST_CHARACTERS = 100_000
"""Of one post that are indexed. Books come as feeds too."""

_ACCENTS = re.compile(r"[\u0300-\u036f]+")
_LETTERS = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "ł": "l", "ħ": "h", "ı": "i", "þ": "th"}
)
"""Letters that Unicode doesn't take apart, and that people without them on their keyboards write so."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua9e0-\ua9ff\uaa60-\uaa7f\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_FOREIGN = re.compile("[^\x00-\x7f]+")
_LONGEST_WORD = 32
_SYMBOL = re.compile("[\u2190-\u2bff\U0001f000-\U0001faff]")
_BETWEEN = re.compile(
    # Marks that belong to letters of Indic, Arabic and Hebrew words are no letters to Python.
    "[^\\w\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0dff\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff"
    "\u2190-\u2bff\U0001f000-\U0001faff]+"
)
_WORD = re.compile("[0-9A-Za-z\x80-\U0010ffff]+")

MARK = "\ue000"
"""What the words of addresses, kinds and feeds begin with: no word of a text does."""

ALL = f"{MARK}all"
"""A word of every post, from which a query of exclusions alone takes away."""


def folded(text: str) -> str:
    """`text` as the tokenizer gets it; the same for a post and for a query."""
    return text if text.isascii() else _FOREIGN.sub(_of_run, text)


def _of_run(run: re.Match[str]) -> str:
    text = run[0]
    return _folded_word(text) if len(text) <= _LONGEST_WORD else _folded(text)


def _folded(text: str) -> str:
    """What isn't ASCII, folded; what isn't a word is a blank."""
    text = _ACCENTS.sub("", normalised("NFKD", text)).casefold().translate(_LETTERS)
    text = _BETWEEN.sub(" ", normalised("NFKC", text))
    return _UNSPACED_RUN.sub(_pairs, _SYMBOL.sub(" \\g<0> ", text)).encode("utf-8", "ignore").decode()


_folded_word = lru_cache(maxsize=50_000)(_folded)


def _pairs(run: re.Match[str]) -> str:
    text = run[0]
    return f" {' '.join(map(add, text, text[1:] + ' '))} "


def words_of(text: str) -> list[str]:
    """The words of a post's text, as the tokenizer makes them."""
    words: list[str] = _WORD.findall(folded(text).lower())
    return words


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that stand side by side; with `open_ended`, the last of them is the beginning of one."""

    words: tuple[str, ...]
    open_ended: bool = False

    @classmethod
    def of(cls, text: str, *, open_ended: bool = False) -> Phrase:
        """What has to stand in a post that has `text`; without words where nothing in it is a word."""
        words = words_of(text)
        if len(words) > 1 and len(words[-1]) == 1 and _UNSPACED_RUN.match(words[-1]) and words[-2][1:] == words[-1]:
            words.pop()  # the end of a run, behind which the post's own may go on
        elif words and len(words[-1]) == 1 and _UNSPACED_RUN.match(words[-1]):
            open_ended = True
        return cls(tuple(words), open_ended)


def link_words(address: str) -> list[str]:
    """The words of an address, marked, in their order."""
    return [MARK + word for word in words_of(address.partition("://")[2] or address)]


def feed_word(feed_id: str) -> str:
    """The word of every post of that feed."""
    return f"{MARK}f{feed_id}"


def kind_word(kind: str) -> str:
    """The word of every post of that kind (`post-type`)."""
    return f"{MARK}k{kind}"


@dataclass(frozen=True, slots=True)
class IndexedPost:
    """A post as the index takes it: its item id, its score (Unix time), and a text for each column."""

    item: int
    score: float
    title: str
    author: str
    body: str
    marks: str


_LINKS = ("url", "in-reply-to", "like-of", "repost-of", "bookmark-of", "follow-of", "category")


def document(item: int, score: float, wire: Mapping[str, Any]) -> IndexedPost:
    """What is found of an item with that JSON (`docs/reference/api.md`, Items): also what it replies to and repeats."""
    body = _body(wire)
    refs = wire.get("refs")
    quoted = [ref for ref in refs.values() if isinstance(ref, Mapping)] if isinstance(refs, Mapping) else []
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
    text = content.get("text") if isinstance(content, Mapping) else content
    body = [*_strings(text or summary)]
    if text and isinstance(summary, str) and summary[:200] not in text:
        body.append(summary)
    body += _texts(entry, "category")
    for name in ("checkin", "location"):
        if isinstance(place := entry.get(name), Mapping):
            body += [*_texts(place, "name"), *_texts(place, "locality")]
    for enclosure in entry.get("enclosure") or ():
        if isinstance(enclosure, Mapping):
            body += _texts(enclosure, "title")
    return body


def _person(entry: Mapping[str, Any]) -> list[str]:
    author = entry.get("author")
    return [*_texts(author, "name"), *_texts(author, "url")] if isinstance(author, Mapping) else []


def _texts(entry: Mapping[str, Any], name: str) -> Sequence[str]:
    return _strings(entry.get(name))


def _strings(value: object) -> Sequence[str]:
    if isinstance(value, str):
        return (value,) if value else ()
    if isinstance(value, list):
        return [one for one in value if isinstance(one, str) and one]
    return ()
