"""What the page on the formats says is so: its programs run, and every field and function is there."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

from microsub.discovery import links
from microsub.discovery.links import FeedLink
from microsub.formats.parse import parse
from microsub.model.jf2 import Card, Content, Enclosure, Entry, Feed

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "formats.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
FEED = b"<rss version='2.0'><channel><title>Harbour</title><item><title>Ebb</title></item></channel></rss>"
SITE = b"<link rel='alternate' type='application/rss+xml' title='Harbour' href='/feed'>"


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_the_programs_run(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each prints the name of the feed."""
    (tmp_path / "feed.xml").write_bytes(FEED)
    (tmp_path / "page.html").write_bytes(SITE)
    monkeypatch.chdir(tmp_path)
    exec(compile(PROGRAMS[number], "page", "exec"), {})
    assert "Harbour" in capsys.readouterr().out


@pytest.mark.parametrize("value", [Feed, Entry, Content, Card, Enclosure, FeedLink])
def test_every_field_is_described(value: type) -> None:
    """By its name, in the code's own form."""
    assert {field.name for field in fields(value) if f"`{field.name}`" not in PAGE} == set()


@pytest.mark.parametrize("function", [parse, *(getattr(links, n) for n in links.__all__ if n != "FeedLink")])
def test_every_function_is_described(function: object) -> None:
    """With its arguments in their order."""
    assert callable(function)
    arguments = ", ".join(inspect.signature(function).parameters)
    assert f"`{function.__name__}({arguments})`" in PAGE
