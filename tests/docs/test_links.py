"""Every link between the documents has a target."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The anchors that a renderer makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    """A relative link names a file that exists, and its anchor a heading in that file."""
    broken = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in link or link.startswith("mailto:"):
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(link)
    assert not broken, f"{page}: {broken}"


def test_the_readme_names_every_page() -> None:
    """README.md links each page below docs/, including generated ones; the decisions are in a list of their own."""
    lists = ROOT / "README.md", ROOT / "docs/decisions/README.md"
    named = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in lists
        for link in LINK.findall(page.read_text("utf-8"))
    }
    missing = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md") if page not in named)
    assert not missing, f"README.md has no link to {', '.join(missing)}"
