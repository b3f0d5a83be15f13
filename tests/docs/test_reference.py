"""The reference pages match the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from microsub.transfer import records
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


def test_the_page_about_exports_names_all_properties() -> None:
    """A line of each type has no others."""
    page = (DOCS / "reference" / "export.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w ]+)` \| (.+) \|$", page, re.MULTILINE))
    hints = [get_type_hints(record) for record in get_args(records.ExportRecord)]
    made = {get_args(of["type"])[0]: {f"`{name}`" for name in of if name != "type"} for of in hints}
    assert rows.keys() - {"type"} == made.keys()
    assert [(kind, name) for kind, names in made.items() for name in names if name not in rows[kind]] == []
