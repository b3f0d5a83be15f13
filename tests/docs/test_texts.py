"""The texts of the pages exist in every language."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import texts

CASES = [(folder, language) for folder in texts.folders() for language in texts.LANGUAGES]


@pytest.mark.parametrize(("folder", "language"), CASES, ids=lambda case: getattr(case, "name", case))
def test_no_text_is_missing(folder: Path, language: str) -> None:
    """Each text of templates and code has a translation; `python scripts/texts.py` lists new ones."""
    assert texts.missing(folder, language) == []
