"""Documents and their results: each `<case>.<ext>` in `tests/data/formats` has a `<case>.jf2.json`.

A new bug is a new pair. `MICROSUB_WRITE_CASES=1 pytest tests/formats/test_cases.py` writes the expected side; read
the difference before you keep it. `url` and `content_type` in the expected file say how the document was served; a
document that isn't a feed has an `error` there, the reason that the feed's health shows. Each document says in a
comment what it shows.
"""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import pytest

from microsub.base.errors import ParseError
from microsub.formats.encoding import decode
from microsub.formats.entry_id import identities
from microsub.formats.parse import parse
from microsub.formats.wire import card_to_wire, to_wire
from microsub.model.jf2 import Card
from tests.support.reader_apps import APPS, IndiePassDesktop

DATA = Path(__file__).parents[1] / "data" / "formats"
CASES = sorted(path for path in DATA.iterdir() if not path.name.endswith(".jf2.json"))

OFFLINE = httpx.AsyncClient()
READERS = [kind(OFFLINE) for kind in (*APPS, IndiePassDesktop)]


def expected_beside(path: Path) -> Path:
    return path.with_name(path.name.rpartition(".")[0] + ".jf2.json")


def result_of(path: Path, url: str, content_type: str | None) -> dict[str, Any]:
    """Everything that `parse` returns for a document, as JSON."""
    served = {"url": url, **({"content_type": content_type} if content_type else {})}
    try:
        feed = parse(path.read_bytes(), url, content_type)
    except ParseError as error:
        return {**served, "error": error.detail}
    about = {f.name: getattr(feed, f.name) for f in fields(feed) if f.name != "entries"}
    about = {k: card_to_wire(v) if isinstance(v, Card) else v for k, v in about.items() if v is not None}
    items = [to_wire(entry) for entry in feed.entries]
    for item, entry, identity in zip(items, feed.entries, identities(feed.entries), strict=True):
        item |= {"(guid)": entry.guid, "(identity)": identity}
    return {**served, "feed": about, "items": items}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_a_document_becomes_the_jf2_beside_it(path: Path) -> None:
    """The whole result is as expected: feed, items, identities."""
    beside = expected_beside(path)
    expected = json.loads(beside.read_text()) if beside.exists() else {}
    url = expected.get("url", f"https://reader.example/{path.name}")
    result = result_of(path, url, expected.get("content_type"))
    if os.environ.get("MICROSUB_WRITE_CASES"):
        beside.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
        expected = json.loads(beside.read_text())
    assert result == expected


def test_apps_show_every_post_of_a_document() -> None:
    """None of them ends a page at a value of another type or without a part that it needs."""
    added = {"_id": "1", "_is_read": False, "_source": "f1", "_channel": {"id": "home", "uid": "home", "name": "Home"}}
    for path in CASES:
        posts = json.loads(expected_beside(path).read_text()).get("items", [])
        page = {"items": [post | added for post in posts], "paging": {}}
        for app in READERS:
            assert len(app.items(page)) == len(posts), (path.name, app.name)


def test_every_document_says_what_it_shows() -> None:
    """In a comment, or in a field of that name where the format has no comments."""
    for path in CASES:
        text = decode(path.read_bytes(), None)
        assert path.suffix == ".txt" or "<!-- " in text or '"comment": "' in text, (
            f'{path.name}: say in a comment what the document shows: <!-- … -->, or in JSON a field "comment"'
        )


def test_every_expectation_has_its_document() -> None:
    """No expected file is left from a document that was renamed or removed."""
    wanted = {expected_beside(path) for path in CASES}
    assert set(DATA.glob("*.jf2.json")) == wanted
