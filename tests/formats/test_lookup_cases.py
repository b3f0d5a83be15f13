"""Pages for look-ups and their results: a `<case>.html` in `tests/data/lookups` has a `<case>.json`.

`look_up` is the kind of look-up for `asked`, `url` is where the page was found, and `answer` is the result (null:
nothing). `MICROSUB_WRITE_CASES=1 pytest tests/formats/test_lookup_cases.py` writes the answers again; read the
difference before you keep it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from microsub.formats.lookups import LookUp
from microsub.formats.references import answer
from microsub.formats.wire import card_to_wire, to_wire
from microsub.model.jf2 import Card

DATA = Path(__file__).parents[1] / "data" / "lookups"
CASES = sorted(DATA.glob("*.html"))


def look_up_of(said: dict[str, Any]) -> LookUp:
    return LookUp(said["look_up"], said["asked"])


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_page_says_what_is_written_beside_it(path: Path) -> None:
    """The author's card, or the reference, with everything that a reader would see."""
    beside = path.with_suffix(".json")
    said = json.loads(beside.read_text())
    found = answer(look_up_of(said), path.read_bytes(), said["url"], "text/html; charset=utf-8")
    wire = None if found is None else card_to_wire(found) if isinstance(found, Card) else to_wire(found)
    if os.environ.get("MICROSUB_WRITE_CASES"):
        said["answer"] = wire
        beside.write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n")
    assert wire == said["answer"]


def test_every_answer_has_its_page() -> None:
    """No expected file is left from a page that was renamed or removed."""
    assert {path.stem for path in DATA.glob("*.json")} == {path.stem for path in CASES}
