"""Foreign text, made safe for one line of a terminal or list, and normalised for comparison."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

_OTHERS = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
CONTROLS = re.compile(f"[\x00-\x1f{_OTHERS}]")
"""Ends of lines; controls, which could set colours, titles and more; and marks that reverse the text after them."""
_IN_LINES = re.compile(f"[\x00-\x09\x0b-\x1f{_OTHERS}]")
_IN_JSON = re.compile(f"[{_OTHERS}]")
_JOINING = re.compile("[\u200c\u200d\U000e0020-\U000e007f]")
# Marks and characters that become marks; symbols too, which does no harm.
_MARKS = re.compile(r"(?:[^\w\s\0-\u02ff]|[\uff9e\uff9f]){30}")
_ACCENTS = re.compile("[\u0300-\u036f]")
_WORDS_AND_NUMBERS = re.compile("([^0-9]*)(?:0*([0-9]+))?")

SHOWN = 80
"""Maximum number of characters of foreign text that an error message quotes."""


def escaped(text: str) -> str:
    r"""`text` with every such character in Python's notation, such as `\n`, so that a line stays a line."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def escaped_lines(text: str) -> str:
    """`text` with every such character in Python's notation, except ends of lines."""
    return _IN_LINES.sub(lambda found: escaped(found[0]), text)


def escaped_json(text: str) -> str:
    r"""JSON of the same value, with every such character as `\u009b`; JSON itself escapes only the first 32."""
    return _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def unprintable(text: str) -> set[str]:
    """The characters in `text` that can't be shown; joiners, which Persian words and emoji contain, can be."""
    return set() if text.isprintable() else {one for one in _JOINING.sub("", text) if not one.isprintable()}


def on_one_line(text: str) -> str:
    """`text` with blanks instead of such characters, and without repeated blanks."""
    return " ".join(CONTROLS.sub(" ", text).split())


def normalised(form: Literal["NFKC", "NFKD"], text: str) -> str:
    """`text` in a Unicode normalisation form, in linear time.

    Sorting the marks on a letter takes quadratic time, so after 30 a joiner ends the run (UAX #15, 13).
    """
    return unicodedata.normalize(form, _MARKS.sub("\\g<0>\u034f", text))


def by_name(name: str) -> tuple[tuple[str, int, str], ...]:
    """A key that sorts names as people do: "Feed 2" before "feed 10", and letters with accents beside those without."""
    plain = _ACCENTS.sub("", normalised("NFKD", name).casefold())
    parts = (found.groups("") for found in _WORDS_AND_NUMBERS.finditer(plain))
    return (*((words, len(number), number) for words, number in parts), (name, 0, ""))


def shown(text: str) -> str:
    """`text`, shortened and made safe for an error message."""
    short = text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
    return "".join(letter if letter.isprintable() else "�" for letter in short)


def counted(number: int, noun: str) -> str:
    """A number of things in words: `1 user`, `2 users`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
