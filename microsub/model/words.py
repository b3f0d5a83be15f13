"""Words of a text, folded, as an index stores them and queries look them up. Pure.

Case and accents don't count. SQLite's tokenizer `ascii` makes the words: ASCII letters and digits, and all non-ASCII
characters. So ASCII text is passed to it unchanged, and in other text blanks are put between words first. Chinese,
Japanese, Korean, Thai, Lao, Khmer and Burmese are written as overlapping pairs of characters, each run followed by its
last character alone: a longer word is a phrase of pairs, and a single character the beginning of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from operator import add
from typing import NamedTuple

from microsub.base.plaintext import normalised

_ACCENTS = re.compile(r"[\u0300-\u036f]+")
_LETTERS = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "ł": "l", "ħ": "h", "ı": "i", "þ": "th"}
)
"""Letters that Unicode doesn't decompose, and their usual spelling on keyboards without them."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua9e0-\ua9ff\uaa60-\uaa7f\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_FOREIGN = re.compile("[^\x00-\x7f]+")
_LONGEST_WORD = 32
_SYMBOL = re.compile("[\u2190-\u2bff\U0001f000-\U0001faff]")
_INSIDE = (
    # Python doesn't count marks that belong to letters of Indic, Arabic and Hebrew words as letters.
    "\\w\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0dff\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff"
    "\u2190-\u2bff\U0001f000-\U0001faff"
)
_BETWEEN = re.compile(f"[^{_INSIDE}]+")
_WORD = re.compile("[0-9A-Za-z\x80-\U0010ffff]+")
_PLACED = re.compile(
    f"[{_UNSPACED}]+|{_SYMBOL.pattern}|(?:(?![_{_UNSPACED}]|{_SYMBOL.pattern})[{_INSIDE}\u0300-\u036f])+"
)


def folded(text: str) -> str:
    """`text` as the tokenizer gets it; the same function for posts and queries."""
    return text if text.isascii() else _FOREIGN.sub(_of_run, text)


def _of_run(run: re.Match[str]) -> str:
    text = run[0]
    return _folded_word(text) if len(text) <= _LONGEST_WORD else _folded(text)


def _folded(text: str) -> str:
    """Fold text that isn't ASCII; characters outside words become blanks."""
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


def count_words(text: str) -> int:
    """About how many words a text has; two characters of an unspaced script count as one."""
    return len(text.split()) + sum(len(run) for run in _UNSPACED_RUN.findall(text)) // 2


class PlacedWord(NamedTuple):
    """A word of a text, folded, and its place: the first character and the one behind the last."""

    word: str
    start: int
    end: int


def placed_words(text: str) -> list[PlacedWord]:
    """The words of `text` as `words_of` gives them, each with its place.

    Words that folding makes of one have all its place. Signs that folding turns into letters, such as №, have none.
    """
    if text.isascii():  # the same, in a fifth of the time
        return [PlacedWord(run[0].lower(), run.start(), run.end()) for run in _WORD.finditer(text)]
    found: list[PlacedWord] = []
    for run in _PLACED.finditer(text):
        start, end = run.span()
        words = words_of(run[0])
        if len(words) == end - start > 1 and _UNSPACED_RUN.match(run[0]):  # pairs of characters
            found += (PlacedWord(word, at, at + len(word)) for at, word in enumerate(words, start))
        else:
            found += (PlacedWord(word, start, end) for word in words)
    return found


@dataclass(frozen=True, slots=True)
class Phrase:
    """Consecutive words; with `open_ended`, the last one is the beginning of a word."""

    words: tuple[str, ...]
    open_ended: bool = False

    @classmethod
    def of(cls, text: str, *, open_ended: bool = False) -> Phrase:
        """The words that a post with `text` must contain; empty if `text` contains no word."""
        words = words_of(text)
        if len(words) > 1 and len(words[-1]) == 1 and _UNSPACED_RUN.match(words[-1]) and words[-2][1:] == words[-1]:
            words.pop()  # the end of a run, where the post's own run may continue
        elif words and len(words[-1]) == 1 and _UNSPACED_RUN.match(words[-1]):
            open_ended = True
        return cls(tuple(words), open_ended)


def placed_phrases(text: str, phrases: Iterable[Phrase]) -> list[tuple[int, int]]:
    """The places of all phrases in `text`, in order; takes about as long for many or long phrases as for one word."""
    words = placed_words(text)
    joined, numbers, length = "".join(f"\n{one.word}" for one in words) + "\n", dict[int, int](), 0
    for number, one in enumerate(words):
        numbers[length] = number
        length += 1 + len(one.word)
    found = list[tuple[int, int]]()
    for phrase in dict.fromkeys(phrases):
        sought, last = "\n" + "\n".join(phrase.words) + ("" if phrase.open_ended else "\n"), phrase.words[-1]
        place = joined.find(sought)
        while place >= 0:
            first = numbers[place]
            word, start, end = words[first + len(phrase.words) - 1]
            is_part = word != last and _UNSPACED_RUN.match(word)
            found.append((words[first].start, start + len(last) if is_part else end))
            place = joined.find(sought, place + 1)
    return sorted(found)
