"""Texts of pages: ages, and those of templates."""

from __future__ import annotations

from pathlib import Path

import pytest

from microsub.web.environment import environment_of
from microsub.web.pages import Templates, age

HOUR, DAY = 3600, 86_400


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *((-5, "now"), (0, "now"), (59.9, "now"), (60, "1 min"), (HOUR - 1, "59 min"), (HOUR, "1 h")),
        *((DAY, "1 d"), (29 * DAY, "29 d"), (30 * DAY, "1 mo"), (364 * DAY, "12 mo"), (365 * DAY, "1 y")),
    ],
)
def test_an_age_is_in_its_largest_unit(seconds: float, said: str) -> None:
    """Below a minute, and in the future, it is `now`."""
    assert age(seconds) == said


def test_a_text_without_values_is_translated_once(tmp_path: Path) -> None:
    """It is HTML, `%%` is a percent sign, and values in other texts are escaped."""
    asked: list[str] = []

    def translate(text: str) -> str:
        asked.append(text)
        return text.replace("Saved", "<b>Gemerkt</b>")

    (tmp_path / "page.html").write_text('{{ _("100%% Saved") }} {{ _("%(name)s Saved", name=name) }}')
    environment = environment_of([tmp_path], translate)
    environment.install_gettext_callables(translate, lambda one, many, _: one, newstyle=True)  # type: ignore[attr-defined]
    shown = [environment.get_template("page.html").render(name=name) for name in ("Ann", "<i>")]
    assert shown == [f"100% <b>Gemerkt</b> {name} <b>Gemerkt</b>" for name in ("Ann", "&lt;i&gt;")]
    assert asked == ["100%% Saved", *["%(name)s Saved"] * 2]


def test_a_part_is_drawn_once_for_its_arguments(tmp_path: Path) -> None:
    drawn: list[str] = []
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "part.html").write_text("{% macro part(own) %}<p>{{ seen(own) }}</p>{% endmacro %}")
    (tmp_path / "templates" / "page.html").write_text('{{ drawn_once("part.html", "part", own) }}')

    def seen(own: str) -> str:
        drawn.append(own)
        return own

    templates = Templates([tmp_path], seen=seen)
    shown = [templates.render("page.html", {"own": own}) for own in ("<a>", "b", "<a>")]
    assert shown == ["<p>&lt;a&gt;</p>", "<p>b</p>", "<p>&lt;a&gt;</p>"]
    assert drawn == ["<a>", "b"]


def test_scripts_are_sent_without_lines_of_comments(tmp_path: Path) -> None:
    """Others keep their numbers, also those that end or begin with a comment."""
    script = "// One.\n/** Two\n * lines. */\nf(); // g\n/** Three. */ export const a = 1;\nh(); /* i */\n"
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "a.js").write_text(script)
    sent = "\n\n\nf(); // g\n/** Three. */ export const a = 1;\nh(); /* i */\n"
    assert Templates([tmp_path]).files["a.js"][0].decode() == sent
