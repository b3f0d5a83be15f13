"""Catalogues of texts: the compiled files match the edited ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import texts

CASES = [(folder, language) for folder in texts.folders() for language in texts.LANGUAGES]


@pytest.mark.parametrize(("folder", "language"), CASES, ids=lambda case: getattr(case, "name", case))
def test_catalogues_are_compiled(folder: Path, language: str) -> None:
    """`python scripts/texts.py` would write the same files."""
    path = folder / "texts" / f"{language}.po"
    edited, compiled, _ = texts.catalogue(folder, language)
    assert path.read_bytes() == edited
    assert path.with_suffix(".mo").read_bytes() == compiled
