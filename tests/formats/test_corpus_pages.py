"""Real pages and feeds of the IndieWeb give the facts of `pages.json`, one by one."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from microsub.base.errors import ParseError
from microsub.formats.dates import from_text
from microsub.formats.lookups import completed, lacking
from microsub.formats.parse import parse
from microsub.formats.references import answer
from microsub.formats.wire import to_wire
from microsub.model.jf2 import Entry
from tests.support import SHARED_CORPUS

CORPUS = SHARED_CORPUS / "pages.json"

# (document, index of the item, property): why the fact doesn't hold; docs/explanation/look-ups.md explains it.
KNOWN_DIFFERENCES: dict[tuple[int, int, str], str] = {
    (
        109,
        0,
        "url",
    ): "a bare origin gets its slash: both forms are one address (RFC 3986, 6.2.3), as other facts have it",
    (182, 0, "content.text"): "a link takes the place of an embedded page that isn't a known player",
}
# Only the author's page has these, so `parse` alone has to leave them open.
NEEDS_LOOKUP = {
    (15, 0, "author.name"),
    (15, 0, "author.photo"),
    (17, 0, "author.name"),
    (17, 0, "author.photo"),
}
ENOUGH = 0.97


def pages() -> list[dict[str, Any]]:
    if not CORPUS.exists():
        pytest.skip(f"{CORPUS} is not here")
    return json.loads(CORPUS.read_text())


def reach(item: dict[str, Any], path: str) -> Any:
    """A property of an item; dots separate nested properties."""
    value: Any = item
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return list(value) if path == "refs" and value else value


def agrees(path: str, expected: Any, found: Any) -> bool:
    """Whether a value agrees with the fact, by the rules of the corpus."""
    if found is None:
        return False
    if path in {"published", "updated"}:
        moments = from_text(expected), datetime.fromisoformat(found)
        return moments[0] == moments[1]
    if isinstance(expected, list):
        return set(expected) <= set(found) if path == "refs" else set(expected) == set(found)
    if isinstance(expected, str) and isinstance(found, str):
        return " ".join(expected.split()) == " ".join(found.split())
    return expected == found


def looked_up(entry: Entry, page: dict[str, Any]) -> Entry:
    """`entry` completed by the corpus's answers to its look-ups; it has few of the addresses."""
    found = {}
    for look_up in lacking(entry, page["url"]):
        reply = page["http"].get(look_up.url)
        if reply is not None and reply["status"] == 200:
            kind = next(iter(reply["headers"].get("content-type", [])), None)
            if (said := answer(look_up, reply["body"].encode(), look_up.url, kind)) is not None:
                found[look_up] = said
    return completed(entry, found)


def items_of(page: dict[str, Any], *, look_up: bool) -> list[dict[str, Any]]:
    entries = parse(page["body"].encode(), page["url"], None).entries
    return [to_wire(looked_up(entry, page) if look_up else entry) for entry in entries]


def misses(page: dict[str, Any], *, look_up: bool) -> dict[tuple[int, int, str], str]:
    """The facts that don't hold, and the values found instead; a wrong number of items is one more."""
    try:
        items = items_of(page, look_up=look_up)
    except ParseError as error:
        return {(page["id"], i, path): str(error) for i, fact in enumerate(page["facts"]) for path in fact}
    missed = {}
    if len(items) != page["count"]:
        missed[page["id"], -1, "count"] = f"{len(items)} items, not {page['count']}"
    for index, fact in enumerate(page["facts"]):
        for path, expected in fact.items():
            found = reach(items[index], path) if index < len(items) else None
            if not agrees(path, expected, found):
                missed[page["id"], index, path] = f"{expected!r}, found {found!r}"
    return missed


def test_the_facts_of_the_corpus_are_found() -> None:
    """An established parser's findings on these pages are found here too, except for the listed differences."""
    documents = pages()
    total = sum(len(fact) for page in documents for fact in page["facts"])
    missed = {place: what for page in documents for place, what in misses(page, look_up=True).items()}
    for place, what in missed.items():
        print(f"{place}: {what}; {KNOWN_DIFFERENCES.get(place, 'not listed')}")
    print(f"{total - len(missed)} of {total} facts hold")
    assert missed.keys() == KNOWN_DIFFERENCES.keys()
    assert total - len(missed) >= ENOUGH * total


def test_authors_known_by_address_need_a_look_up() -> None:
    """A page that names its author only by address says no more; nothing is made up."""
    missed = {place for page in pages() for place in misses(page, look_up=False)}
    assert missed == KNOWN_DIFFERENCES.keys() | NEEDS_LOOKUP
    by_id = {page["id"]: page for page in pages()}
    for number, index, _ in NEEDS_LOOKUP:
        author = items_of(by_id[number], look_up=False)[index]["author"]
        assert author.keys() == {"type", "url"}


def test_completing_is_deterministic_and_idempotent() -> None:
    """Completing twice equals completing once."""
    for page in pages():
        for entry in parse(page["body"].encode(), page["url"], None).entries:
            once = looked_up(entry, page)
            assert looked_up(entry, page) == once
            assert looked_up(once, page) == once
