"""The texts of the pages exist in every language."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import texts

CASES = [(folder, language) for folder in texts.folders() for language in texts.LANGUAGES]


@pytest.mark.parametrize(("folder", "language"), CASES, ids=lambda case: getattr(case, "name", case))
def test_no_text_is_missing(folder: Path, language: str) -> None:
    """Each text of templates and code has a translation; `python scripts/texts.py` lists new ones."""
    assert texts.missing(folder, language) == []


@pytest.mark.parametrize("folder", texts.folders(), ids=lambda folder: folder.name)
def test_german_pages_say_sie(folder: Path) -> None:
    """Page by page alike; no sentence says it the other way."""
    catalogue = (folder / "texts" / "de.po").read_text(encoding="utf-8")
    said = re.findall(r'^msgstr.*(?:\n".*)*', catalogue, re.MULTILINE)
    other = r"\b(du|dir|dich|dein\w*|abonniere|gib|klicke|lies|öffne|prüfe|wähle)\b"
    assert [text for text in said if re.search(other, text, re.IGNORECASE)] == []
