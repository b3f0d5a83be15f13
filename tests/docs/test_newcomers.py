"""What newcomers read is of this version and of the app that they use."""

from __future__ import annotations

import re
from pathlib import Path

import microsub
from tests.support.reader_apps import IndiePassDesktop

ROOT = Path(__file__).parents[2]


def test_the_tutorial_calls_settings_of_the_app_as_the_app_does() -> None:
    """Each of its fields, and none that it doesn't have."""
    text = (ROOT / "docs" / "tutorial" / "first-timeline.md").read_text("utf-8")
    steps = text.partition("## Read it in an app")[2].partition("## ")[0]
    assert set(re.findall(r"\*([\w ]+? endpoints?)\*", steps)) == set(IndiePassDesktop.fields)


def test_the_version_has_a_chapter_of_the_changelog() -> None:
    """Which says what it can do for people."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    chapter = text.partition(f"\n## {microsub.__version__}\n")[2].partition("\n## ")[0]
    assert {"Follow", "Read", "Sign in", "Run"} <= set(re.findall(r"^### (.+)$", chapter, re.MULTILINE))
