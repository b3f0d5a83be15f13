"""The colour of an instance: any one stays readable in both schemes."""

from __future__ import annotations

import random
import re

import pytest

from microsub.web.looks import COLOR, CONTRAST, Looks, contrast, rule_of
from microsub.web.pages import FOLDER

SOME = random.Random(5)
COLORS = [
    "#000000",
    "#ffffff",
    "#ffee00",
    "#0b57a4",
    "#7f7f7f",
    *(f"#{SOME.randrange(1 << 24):06x}" for _ in range(300)),
]


def test_contrasts_are_those_of_wcag() -> None:
    """Black on white has the most."""
    assert round(contrast("#000000", "#ffffff"), 2) == round(contrast("#ffffff", "#000000"), 2) == 21
    assert round(contrast("#767676", "#ffffff"), 2) == 4.54


def test_text_in_any_colour_can_be_read() -> None:
    """On all backgrounds of pages.css, and the text of buttons on the colour; a readable colour stays as it is."""
    css = (FOLDER / "static" / "pages.css").read_text()
    pairs = {name: found for name, *found in re.findall(r"--(\w+(?:-\w+)?): light-dark\((#\w+), (#\w+)\)", css)}
    assert pairs["accent"] == [Looks().light, Looks().dark]
    grounds = [[_six(one) for one in pairs[name]] for name in ("ground", "raised", "on-accent")]
    for color in COLORS:
        looks = Looks(color=color)
        for number, shown in enumerate((looks.light, looks.dark)):
            assert all(contrast(shown, ground[number]) >= CONTRAST for ground in grounds), color
        if color != COLOR and contrast(color, grounds[1][0]) >= CONTRAST:
            assert looks.light == color


def _six(color: str) -> str:
    return color if len(color) == 7 else "#" + "".join(part * 2 for part in color[1:])


@pytest.mark.parametrize("name", ["", ".css", "12345.css", "0b57a4", "0B57A4.css", "{}body.css", "0b57a4.css.css"])
def test_other_names_are_no_style_sheets(name: str) -> None:
    """They aren't made into CSS."""
    assert rule_of(name) is None


def test_a_style_sheet_has_its_colours() -> None:
    """Those of both schemes."""
    looks = Looks(color="#ffee00")
    assert rule_of(looks.sheet) == f":root {{ --accent: light-dark({looks.light}, #ffee00); }}\n".encode()
    assert Looks().sheet == ""
