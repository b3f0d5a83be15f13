"""The pages on identity are correct: the tests that they name exist, and lines for people's pages are the server's."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from microsub.accounts.credentials import INVITATION
from microsub.accounts.sessions import SIGN_IN
from microsub.base.clock import HOUR
from microsub.identity.protocol.documents import micropub_line, microsub_line, provider_lines, webmention_line
from microsub.model.session import CONFIRMATION
from microsub.server.parsers import TASKS

ROOT = Path(__file__).parents[2]
SECURITY = ROOT / "docs" / "explanation" / "security.md"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
BASES = ("https://reader.example", "http://127.0.0.1:8080")
LINE = re.compile(r'<link rel="([a-z_-]+)" href="((?:https://reader\.example|http://127\.0\.0\.1:8080)[^"]*)">')
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_tests_that_a_page_names_exist(page: Path) -> None:
    """Each file exists, and each test in it."""
    for path, name in TEST.findall(page.read_text("utf-8")):
        file = ROOT / path
        assert file.exists(), path
        assert not name or re.search(rf"^ *(?:async )?def {name}\(", file.read_text("utf-8"), re.MULTILINE), name


def test_every_attack_has_a_counter_and_a_test() -> None:
    """No row in the tables of attacks is incomplete."""
    tables = re.findall(r"\| attack \|.*\n\|[-|]+\n((?:\|.*\n)+)", SECURITY.read_text("utf-8"))
    rows = [row for table in tables for row in table.splitlines()]
    assert len(rows) > 40
    assert not [row for row in rows if row.count("|") != 4 or "::test_" not in row]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_lines_for_peoples_pages_are_those_of_the_server(page: Path) -> None:
    """A line copied from any page is the one that `/` shows."""
    own = {line.html for base in BASES for line in (*provider_lines(base), microsub_line(base, "alice"))}
    own |= {line.html for base in BASES for line in (micropub_line(base), webmention_line(base, "alice"))}
    own |= {microsub_line(BASES[1], "YOUR-NAME").html, '<link rel="microsub" href="https://reader.example/microsub">'}
    found = [match[0] for match in LINE.finditer(unescape(page.read_text("utf-8")))]
    assert set(found) <= own, page


LIFETIMES = {
    "how-to/sign-in.md": (f"more than {SIGN_IN // 60} minutes",),
    "how-to/use-this-server-as-provider.md": (f"once, within {INVITATION // HOUR} hours",),
    "how-to/sign-in-with-a-passkey.md": (
        f"once, within {INVITATION // HOUR} hours",
        f"holds for {CONFIRMATION // 60} minutes",
    ),
    "explanation/security.md": (f"once, within {INVITATION // HOUR} hours",),
    "reference/commands.md": (f"once, within {INVITATION // HOUR} hours",),
    "reference/keys.md": (
        f"to sign in. Lifetime: {INVITATION // HOUR} hours, once",
        f"of that id. Lifetime: {CONFIRMATION // 60} minutes",
        f"of its `state`. Lifetime: {SIGN_IN // 60} minutes, once",
    ),
}


@pytest.mark.parametrize("page", LIFETIMES)
def test_lifetimes_are_those_of_the_server(page: str) -> None:
    """A sign-in, a confirmation and an invitation last as long as `identity.limits` says."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    assert [words for words in LIFETIMES[page] if words not in text] == []


def test_every_door_of_foreign_documents_is_in_the_table() -> None:
    """All requests to parser processes are described, with their caller and time limit."""
    text = SECURITY.read_text("utf-8")
    table = text.partition("## Untrusted documents")[2].partition("## ")[0]
    assert [task.name for task in TASKS if f"`{task.do.__name__}`" not in table] == []
