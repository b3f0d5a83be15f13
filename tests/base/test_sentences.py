"""Texts with values in them, in English and in the language of a page."""

from __future__ import annotations

import string

import pytest

from microsub.base.texts import Sentence, duration, size, translated
from scripts import texts

GERMAN = {"{who} says {what}": "{what}, sagt {who}", "nothing": "nichts", "{number} minutes": "{number} Minuten"}


def _german(text: str) -> str:
    return GERMAN.get(text, text)


def test_a_sentence_is_translatable_english() -> None:
    """The values stay the same, except for sentences, which are translated too; other text stays."""
    said = Sentence("{who} says {what}", who="nothing", what=Sentence("nothing"))
    assert said == "nothing says nothing"
    assert translated(said, _german) == "nichts, sagt nothing"
    assert translated("unknown {braces}", _german) == "unknown {braces}"
    assert translated("", _german) == ""


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(1, "1 second"), (119, "119 seconds"), (121, "3 minutes"), (7200, "2 hours"), (604_800, "7 days")],
)
def test_durations_have_a_fitting_unit(seconds: int, said: str) -> None:
    """The language is that of the page."""
    assert duration(seconds) == said
    assert translated(duration(121), _german) == "3 Minuten"


@pytest.mark.parametrize(("count", "said"), [(12, "12 bytes"), (2047, "1 KiB"), (16_842_752, "16 MiB")])
def test_sizes_have_a_fitting_unit(count: int, said: str) -> None:
    """It is rounded down, so that "more than" stays true."""
    assert size(count) == said


def _values(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize("folder", texts.folders(), ids=lambda folder: folder.name)
def test_translations_have_the_values_of_their_text(folder: object) -> None:
    """No translation needs a value that the text doesn't have."""
    from babel.messages.pofile import read_po

    with (folder / "texts" / "de.po").open("rb") as file:  # type: ignore[operator]
        for message in read_po(file, locale="de"):
            if isinstance(message.id, str) and "%(" not in message.id and message.id and "}" in message.id:
                assert _values(str(message.string)) <= _values(message.id), message.id
