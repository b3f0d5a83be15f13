"""The arithmetic and the output of `make bench`, and its built-in load generator."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.generator import request_texts
from benchmarks.load import Load
from benchmarks.report import Round, line, updated


def load(rate: float) -> Load:
    return Load(rate=rate, p50=1.0, p99=2.0, requests=int(rate), counted=0)


def test_a_ratio_is_the_median_of_each_rounds_own_ratio() -> None:
    """A round in which the whole machine was slow doesn't change the ratio."""
    rounds = [Round(load(500), load(1000)), Round(load(40), load(100)), Round(load(450), load(1000))]
    found = line("page", 1000, 36_000, rounds, 0.3, counts=False)
    assert found.ratio == 0.45
    assert (found.lowest, found.highest) == (0.4, 0.5)
    assert found.rate == 450
    assert found.changed is None


def test_a_page_keeps_all_but_its_figures() -> None:
    """Text around the marks stays; a page without marks is an error and stays unchanged."""
    page = "a\n<!-- bench -->\nold\n<!-- /bench -->\nb\n"
    assert updated(page, "new") == "a\n<!-- bench -->\nnew\n<!-- /bench -->\nb\n"
    with pytest.raises(ValueError, match="bench"):
        updated("a", "new")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("no marks", "'<!-- bench parsing --> … <!-- /bench parsing -->'"),
        ("<!-- bench -->\n<!-- /bench -->", "'<!-- bench parsing --> … <!-- /bench parsing -->'"),
        ("<!-- bench parsing -->\n", "found the first mark alone"),
        (None, "can't be read"),
    ],
)
def test_a_page_without_marks_is_refused_before_measuring(
    text: str | None, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong usage is exit code 2 with the page and the marks; only a page with marks is measured."""
    page = tmp_path / "page.md"
    if text is not None:
        page.write_text(text)
    calls: list[str] = []

    def parsing(_corpus: Path, *, quick: bool) -> command.Part:
        calls.append("quick" if quick else "whole")
        return command.Part("measured", {}, mark=command.PARTS["parsing"], figures="new")

    monkeypatch.setattr(command, "parsing", parsing)
    with pytest.raises(SystemExit) as ended:
        command.main(["--parts", "parsing", "--quick", "--update", str(page)])
    said = capsys.readouterr().err
    assert (ended.value.code, calls) == (2, [])
    assert str(page) in said
    assert named in said
    page.write_text("<!-- bench parsing -->\n<!-- /bench parsing -->\n")
    assert command.main(["--parts", "parsing", "--quick", "--update", str(page)]) == 0
    assert page.read_text() == "<!-- bench parsing -->\nnew\n<!-- /bench parsing -->\n"


def test_bodies_rotate_across_rounds() -> None:
    """The first body follows the last one."""
    texts = request_texts("http://127.0.0.1:1/x?y=z", ["A: b"], [b"one", b"two", b"six"], skip=4)
    sent = [text.rpartition(b"\r\n\r\n")[2] for text in itertools.islice(texts, 4)]
    assert sent == [b"two", b"six", b"one", b"two"]
    (get,) = itertools.islice(request_texts("http://127.0.0.1:1/x?y=z", ["A: b"], None, 0), 1)
    assert get == b"GET /x?y=z HTTP/1.1\r\nHost: 127.0.0.1:1\r\nA: b\r\n\r\n"
