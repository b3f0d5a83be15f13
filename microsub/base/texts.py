"""Texts for people: written in English, translated where a page shows them."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self


def N_(text: str) -> str:  # noqa: N802 - the name that gettext's tools know
    """Mark a text that is translated where it is shown."""
    return text


class Sentence(str):
    """An English sentence with `{values}`, translatable on pages."""

    _form: str
    _values: Mapping[str, object]

    def __new__(cls, form: str, **values: object) -> Self:
        """The sentence in English."""
        made = super().__new__(cls, form.format(**values))
        made._form, made._values = form, values
        return made

    def translated(self, translate: Callable[[str], str]) -> str:
        """The sentence in the language of `translate`."""
        values = {
            name: value.translated(translate) if isinstance(value, Sentence) else value
            for name, value in self._values.items()
        }
        return translate(self._form).format(**values)


def translated(text: object, translate: Callable[[str], str]) -> str:
    """The translation of a text by `translate`, with its values; otherwise the text itself."""
    if isinstance(text, Sentence):
        return text.translated(translate)
    return translate(text) if isinstance(text, str) and text else str(text)


def program() -> str:
    """How this server's commands begin, for people where it was started.

    That is `microsub`, or a relative path such as `.venv/bin/microsub`, as it was typed. Strangers learn no full one.
    """
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return "python -m microsub"
    return sys.argv[0] if called.name.startswith("microsub") and not called.is_absolute() else "microsub"


def size(count: int) -> str:
    """A number of bytes in the largest unit that it reaches, rounded down."""
    unit = next((unit for unit in ("MiB", "KiB") if count >= _UNITS[unit]), "bytes")
    return f"{count // _UNITS[unit]} {unit}"


_UNITS = {"MiB": 1 << 20, "KiB": 1 << 10, "bytes": 1}


class SentenceTable:
    """Messages of code without access to translations, each a form with `{values}` and the form that pages show.

    Values named `why`, `what` and `other` are looked up in the table too; a `day` is translated with its month.
    """

    LONGEST = 1000
    """Maximum number of characters of a message."""

    def __init__(self, shown: Mapping[str, str]) -> None:
        self._patterns = [(re.compile(_pattern(form), re.S), page) for form, page in shown.items()]

    @classmethod
    def read(cls, path: Path) -> Self:
        """The table in a file, with a row for each message: its `text`, and `shown` if pages show another form."""
        rows = tomllib.loads(path.read_text("utf-8"))
        return cls({row["text"]: row.get("shown", row["text"]) for row in rows.values()})

    def found(self, text: str) -> str:
        """`text` as a `Sentence` if it has one of the forms, otherwise unchanged."""
        if isinstance(text, Sentence) or len(text) > self.LONGEST:
            return text
        for pattern, shown in self._patterns:
            if match := pattern.fullmatch(text):
                said = match.groupdict()
                inner = {name: self.found(said[name]) for name in said.keys() & {"why", "what", "other"}}
                days = {"day": _day(said["day"])} if "day" in said else {}
                return Sentence(shown, **{**said, **inner, **days})
        return text


def _day(text: str) -> str:
    """A day such as `21 November 2026` as a sentence; other text is unchanged."""
    parts = re.fullmatch(r"(\d{1,2}) ([A-Z][a-z]+) (\d{4})", text)
    if parts is None:
        return text
    return Sentence("{day} {month} {year}", day=parts[1], month=Sentence(parts[2]), year=parts[3])


def _pattern(form: str) -> str:
    parts = re.split(r"\{(\w+)\}", form)
    return "".join(f"(?P<{part}>.+?)" if place % 2 else re.escape(part) for place, part in enumerate(parts))


def duration(seconds: int) -> Sentence:
    """A number of seconds, rounded to minutes, hours or days."""
    if seconds >= 2 * 86_400:
        return Sentence("{number} days", number=seconds // 86_400)
    if seconds >= 2 * 3600:
        return Sentence("{number} hours", number=seconds // 3600)
    if seconds >= 120:
        return Sentence("{number} minutes", number=-(-seconds // 60))
    return Sentence("1 second") if seconds == 1 else Sentence("{number} seconds", number=seconds)
