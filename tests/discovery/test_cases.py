"""Pages and their feeds: each `<case>.html` in `tests/data/discovery` has a `<case>.json` with the expected result.

A new site needs a new pair. `MICROSUB_WRITE_CASES=1 pytest tests/discovery/test_cases.py` writes the expected results
again; read the difference before you keep it. `url` and `link` say how the page was served; `feeds` is the result of a
search, `instead` the feeds followed instead of the page, best first, and `by address` those that don't need the page.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from selectolax.lexbor import LexborHTMLParser

from microsub.formats.feed_links import better_feeds, discover, feeds_by_address
from microsub.formats.feed_links.sites import matching, sites

DATA = Path(__file__).parents[1] / "data" / "discovery"
CASES = sorted(DATA.glob("*.html"))


def served(path: Path) -> dict[str, str]:
    """URL and HTTP header of a case, from its expected result."""
    beside = path.with_suffix(".json")
    return json.loads(beside.read_text()) if beside.exists() else {"url": f"https://reader.example/{path.name}"}


def result_of(path: Path) -> dict[str, Any]:
    """All results of discovery for a page, as JSON."""
    said = served(path)
    url, link = said["url"], said.get("link")
    body = path.read_bytes()
    feeds = [{k: v for k, v in asdict(feed).items() if v} for feed in discover(body, url, "text/html", link)]
    result: dict[str, Any] = {"url": url, **({"link": link} if link else {}), "feeds": feeds}
    result["instead"] = [feed.url for feed in better_feeds(body, url, "text/html", link)]
    if known := [feed.url for feed in feeds_by_address(url)]:
        result["by address"] = known
    return result


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_page_leads_to_the_feeds_beside_it(path: Path) -> None:
    """URLs, formats, titles, photos and their order are as expected."""
    result = result_of(path)
    if os.environ.get("MICROSUB_WRITE_CASES"):
        path.with_suffix(".json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    assert result == served(path)


def test_every_expectation_has_its_page() -> None:
    """No expected file is left over from a page that was renamed or removed."""
    assert {path.stem for path in DATA.glob("*.json")} == {path.stem for path in CASES}


def test_every_known_site_has_its_page() -> None:
    """Each row of the table is used for a document."""
    used = set()
    for path in CASES:
        text = path.read_text()
        used |= {site.name for site, _ in matching(served(path)["url"], text, LexborHTMLParser(text))}
    assert {site.name for site in sites()} - used == set()
