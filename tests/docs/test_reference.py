"""The reference pages match the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import reference

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", sorted(reference.PAGES))
def test_a_generated_page_is_up_to_date(name: str) -> None:
    """Every generated page is what the code generates now; `make docs` writes it again."""
    assert (DOCS / "reference" / name).read_text(encoding="utf-8") == reference.PAGES[name]()


def test_the_schema_for_editors_is_up_to_date() -> None:
    """The JSON Schema in the package is what the model generates now."""
    assert reference.SCHEMA.read_text(encoding="utf-8") == reference.schema_text()


def test_the_api_page_lists_the_scope_of_every_action() -> None:
    """The scopes in the API reference are those of the action table."""
    page = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    assert reference.scopes_table() in page
