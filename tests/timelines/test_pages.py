"""Pages built from bytes."""

from __future__ import annotations

import json

import pytest

from microsub.model.reader import Cursor, PageRows, Row
from microsub.timelines.splicer import Splicer, paging

ROWS = (Row("9", "1700000009.5", False, "home"), Row("8", "1700000008", True, "blogs"))
DATA = [b'"type":"entry","_id":"9","_source":"1"}', b'"type":"entry","_id":"8","_source":"2"}']
NAMES = {"home": 'Ho"me', "blogs": "Blögs"}


def rows(*found: Row, older: bool = False, resume: Cursor | None = None) -> PageRows:
    return PageRows.of(found, older, NAMES, resume)


def test_an_item_that_vanished_is_left_out() -> None:
    """The page is still valid JSON, and its cursors don't change."""
    page = json.loads(Splicer().page(rows(*ROWS, older=True), [None, DATA[1]]))
    assert [item["_id"] for item in page["items"]] == ["8"]
    assert set(page["paging"]) == {"before", "after"}


FIRST, LAST, STOP = Cursor("1700000009.5", "9"), Cursor("1700000008", "8"), Cursor("1600000000", "1")


@pytest.mark.parametrize(
    ("page", "newer", "expected"),
    [
        (rows(), False, {}),
        (rows(*ROWS), False, {"before": FIRST}),
        (rows(*ROWS, older=True), False, {"before": FIRST, "after": LAST}),
        (rows(*ROWS, older=True), True, {"before": FIRST, "after": LAST}),
        (rows(*ROWS, older=True, resume=STOP), False, {"before": FIRST, "after": STOP}),
        (rows(older=True, resume=STOP), False, {"after": STOP}),
        (rows(resume=STOP), True, {"before": STOP}),
        (rows(*ROWS, older=True, resume=STOP), True, {"before": STOP, "after": LAST}),
    ],
)
def test_paging(page: PageRows, newer: bool, expected: dict[str, Cursor]) -> None:
    """Always an object; `after` only if older items exist; a short page's cursor continues where it stopped."""
    assert json.loads(paging(page, newer)) == {name: cursor.encode() for name, cursor in expected.items()}
