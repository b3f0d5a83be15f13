"""Eight feeds as their publishers sent them: every entry, in every encoding, and fast.

Their texts belong to their authors, so the results that were compared by hand with each document are kept as
fingerprints: for every entry `tests/data/feeds/<name>.json` has one line with dates, types and sizes in clear and, in
place of each text and address, its length and the beginning of its SHA-256. After a deliberate change of the formats,
write them again:

    MICROSUB_WRITE_CASES=1 pytest -n 0 -s tests/formats/test_corpus_feeds.py

It prints each value that differs from the compared one. Read them next to the document, then keep the new files.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from microsub.base.urls import host_of
from microsub.formats.entry_id import common_identity, identities
from microsub.formats.parse import parse
from microsub.formats.wire import feed_to_wire, to_wire
from microsub.model.jf2 import Feed
from tests.formats.test_hostile import assert_harmless
from tests.support import SHARED_CORPUS

CORPUS = SHARED_CORPUS / "feeds"
COMPARED = Path(__file__).parents[1] / "data" / "feeds"
pytestmark = pytest.mark.skipif(not CORPUS.exists(), reason=f"{CORPUS} is not here")
IN_CLEAR = {"type", "post-type", "published", "updated", "length", "duration", "format", "ttl"}

# file: entries, format, name, home
EXPECTED = {
    "encoding_ISO-8859-1.xml": (40, "rss", "Golem.de", "https://www.golem.de/"),
    "encoding_WINDOWS-1251.xml": (50, "rss", "iBash.Org.Ru", "http://ibash.org.ru/"),
    "large_atom.xml": (25, "atom", "Artificial truth", "https://dustri.org/b/"),
    "large_rss.xml": (25, "rss", "Artificial truth", "https://dustri.org/b/"),
    "no_encoding_ISO-8859-1.xml": (
        9,
        "rss",
        "Flux RSS du magazine de psychologie Le Cercle Psy",
        "https://le-cercle-psy.scienceshumaines.com/rss",
    ),
    "rdf_UTF8.xml": (60, "rdf", "heise online News", "https://www.heise.de/newsticker/"),
    "small_atom.xml": (20, "atom", "Recent Commits to v2:main", "https://github.com/miniflux/v2/commits/main"),
    "urdu_UTF8.xml": (
        26,
        "rss",
        "BBC News اردو - پاکستان کے لیے امریکی امداد کی بہار و خزاں",
        "http://www.bbcurdu.com/",
    ),
}
UNDATED = {"rdf_UTF8.xml"}


def read(name: str) -> Feed:
    return parse((CORPUS / name).read_bytes(), f"http://127.0.0.1:8000/{name}", "application/xml")


def fingerprint(value: Any, name: str = "") -> Any:
    """`value` with each text replaced by its length and digest, except texts that aren't an author's work."""
    if isinstance(value, dict):
        return {key: fingerprint(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [fingerprint(inner, name) for inner in value]
    if name in IN_CLEAR or not isinstance(value, str):
        return value
    return f"{len(value)}:{hashlib.sha256(value.encode()).hexdigest()[:16]}"


def result_of(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The feed's own data and its entries, as readers get them; each with its guid."""
    feed = read(name)
    about = feed_to_wire(feed)
    del about["children"]
    return about, [{**to_wire(entry), **({"guid": entry.guid} if entry.guid else {})} for entry in feed.entries]


def differences(expected: Any, found: Any, value: Any, path: str) -> Iterator[str]:
    """Differing fingerprints: the place, the compared value, and the current one in clear."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted({*expected, *found}):
            yield from differences(expected.get(key), found.get(key), (value or {}).get(key), f"{path}.{key}")
    elif expected != found:
        now = "nothing" if value is None else f"{found} {value!r}"
        yield f"{path}: compared {expected or 'nothing'}, now {now}"


def lines_of(about: Any, entries: list[Any]) -> str:
    """The file: one line for the feed, one for each entry, so that version control shows which ones changed."""
    lines = [json.dumps(entry, separators=(",", ":")) for entry in entries]
    return f'{{"feed":{json.dumps(about, separators=(",", ":"))},\n"entries":[\n' + ",\n".join(lines) + "\n]}\n"


@pytest.mark.parametrize("name", EXPECTED)
def test_every_entry_equals_the_checked_one(name: str) -> None:
    """Title, date, author, body, enclosures and all other fields of all entries, in their order."""
    about, entries = result_of(name)
    now = fingerprint(about), fingerprint(entries)
    kept = COMPARED / f"{name}.json"
    compared = json.loads(kept.read_text()) if kept.exists() else {"feed": {}, "entries": []}
    found = list(differences(compared["feed"], now[0], about, f"{name} feed"))
    missing: list[Any] = [{}] * (len(entries) - len(compared["entries"]))
    for place, (expected, fingerprints, entry) in enumerate(
        zip([*compared["entries"], *missing], now[1], entries, strict=False)
    ):
        found += differences(expected, fingerprints, entry, f"{name} entry {place}")
    if os.environ.get("MICROSUB_WRITE_CASES"):
        print(*found, sep="\n")
        kept.write_text(lines_of(*now))
        return
    print(*(line[:3000] for line in found), sep="\n")
    assert not found
    assert len(compared["entries"]) == len(entries)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_feed_is_read_whole(name: str) -> None:
    """Number of entries, format, title and home are as published."""
    feed = read(name)
    assert (len(feed.entries), feed.format, feed.name, feed.home) == EXPECTED[name]


def test_all_entries_are_read_and_two_feeds_share_posts() -> None:
    """255 entries in all, and one with nothing but a date; 230 posts, because one blog is both Atom and RSS."""
    feeds = [read(name) for name in EXPECTED]
    assert sum(len(feed.entries) for feed in feeds) == 255
    seen = {identity for feed in feeds for identity in identities(feed.entries)}
    assert len(seen) == 230
    atom, rss = read("large_atom.xml"), read("large_rss.xml")
    assert [common_identity(entry) for entry in atom.entries] == [common_identity(entry) for entry in rss.entries]
    assert all(common_identity(entry) for entry in atom.entries)


@pytest.mark.parametrize("name", EXPECTED)
def test_every_entry_is_complete_and_harmless(name: str) -> None:
    """Address, author, body and date are there, absolute and clean; no byte was decoded wrongly."""
    feed = read(name)
    assert_harmless(feed)
    for entry in feed.entries:
        assert entry.url
        assert "127.0.0.1" not in host_of(entry.url)
        assert entry.author
        assert entry.author.name
        assert entry.content
        assert entry.content.text
        assert entry.name or entry.post_type == "note"
        assert bool(entry.published) is (name not in UNDATED)
        assert "\ufffd" not in f"{entry.name}{entry.content.html}{entry.author.name}"


def test_titles_are_right_in_every_encoding() -> None:
    """ISO-8859-1 declared and undeclared, windows-1251, UTF-8 in two scripts."""
    titles = {name: [entry.name for entry in read(name).entries] for name in EXPECTED}
    assert titles["encoding_WINDOWS-1251.xml"][0] == "Цитата #17703"
    latin = titles["no_encoding_ISO-8859-1.xml"]
    assert latin[2] == "La criminalité liée surtout à... l'ennui ?"
    assert latin[3] == "Caroline Eliacheff : « Dolto reste authentiquement subversive »"
    assert any("ü" in (title or "") for title in titles["encoding_ISO-8859-1.xml"])
    assert titles["rdf_UTF8.xml"][0] == "OLED-TVs: Vorsichtsmaßnahmen gegen Einbrennen"
    assert titles["urdu_UTF8.xml"][0].startswith("امریکی عسکری امداد")


def test_authors_and_categories_are_found() -> None:
    """Atom's author with profile, RSS' author, categories of both forms of one blog."""
    commits = read("small_atom.xml")
    assert (commits.entries[0].author.name, commits.entries[0].author.url) == (
        "fguillot",
        "https://github.com/fguillot",
    )
    for name in ("large_atom.xml", "large_rss.xml"):
        blog = read(name)
        assert {entry.author.name for entry in blog.entries} == {"jvoisin"}
        assert all(entry.category for entry in blog.entries)


def test_hub_self_and_interval_are_found() -> None:
    """WebSub links and RSS `ttl`, in seconds."""
    golem = read("encoding_ISO-8859-1.xml")
    assert golem.hub == "http://golem.superfeedr.com/"
    assert golem.self_url == "https://rss.golem.de/rss.php?feed=RSS2.0"
    assert read("urdu_UTF8.xml").ttl == 900
