"""Pages for newcomers match this version and their app."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import microsub
from microsub.cli.options import SERVICE
from tests.support.reader_apps import APPS, App, IndiePassDesktop

ROOT = Path(__file__).parents[2]
OLDER = {"authorization_endpoint", "token_endpoint"}


def test_the_tutorial_calls_settings_of_the_app_as_the_app_does() -> None:
    """All fields of the app are named, and no others."""
    text = (ROOT / "docs" / "tutorial" / "first-timeline.md").read_text("utf-8")
    steps = text.partition("## Read it in an app")[2].partition("## ")[0]
    assert set(re.findall(r"\*([\w ]+? endpoints?)\*", steps)) == set(IndiePassDesktop.fields)


def test_the_version_has_a_chapter_of_the_changelog() -> None:
    """The section lists its features for users."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    chapter = text.partition(f"\n## {microsub.__version__}\n")[2].partition("\n## ")[0]
    assert {"Follow", "Read", "Sign in", "Run"} <= set(re.findall(r"^### (.+)$", chapter, re.MULTILINE))


@pytest.mark.parametrize("kind", APPS, ids=lambda kind: kind.name)
def test_the_table_of_apps_says_what_their_replays_look_for(kind: type[App]) -> None:
    """For example, Ekstereye needs `micropub`, and Monocle, with its locked library, the two older links."""
    text = (ROOT / "docs" / "how-to" / "check-your-page.md").read_text("utf-8")
    name = kind.name.replace("IndiePass ", "IndiePass for ")
    (row,) = re.findall(rf"^\| (?:ek, )?{name}(?:, PADD)? \| ([^|;]*)", text, re.MULTILINE)
    found = set(re.findall(r"`([\w-]+)`", row)) | (OLDER if "the two older ones" in row else set())
    assert found == set(kind.wants)


def test_the_set_up_names_the_file_that_commands_find() -> None:
    """The service reads its variables from this file."""
    assert f"EnvironmentFile={SERVICE}" in (ROOT / "docs" / "how-to" / "deploy-systemd.md").read_text("utf-8")


def test_pages_name_the_checkout_that_the_set_up_makes() -> None:
    """Commands and units of all pages are in the folder into which the first step clones."""
    pages = [page.read_text("utf-8") for page in (ROOT / "docs" / "how-to").glob("*.md")]
    (made,) = {folder for page in pages for folder in re.findall(r"git clone <this repository> (/srv/\S+)", page)}
    assert {folder for page in pages for folder in re.findall(r"(/srv/\S+)/(?:\.venv|backend\.json\.ex)", page)} == {
        made
    }
