"""The name and the colour of an instance, as its pages show them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

NAME, COLOR = "Reader", "#0b57a4"
HEX = re.compile(r"#[0-9a-f]{6}")
_LIGHT, _DARK = "#f3f3ef", "#202227"
"""The backgrounds with the least contrast, `--raised` of pages.css. On buttons of the colour the text is white or
black, whose contrast to it is larger still.
"""
_DARK_COLOR = "#8ec2ff"
CONTRAST = 4.5
"""WCAG 2.2, 1.4.3: of text and its background."""
_STEPS = 64


@dataclass(frozen=True, slots=True)
class Looks:
    """How an instance is called, and the colour of what acts: `#rrggbb`, by default `COLOR`."""

    name: str = NAME
    color: str = COLOR

    @property
    def light(self) -> str:
        """The colour on light pages: darker than chosen, if text in it couldn't be read otherwise."""
        return _readable(self.color, _LIGHT, 0)

    @property
    def dark(self) -> str:
        """The colour on dark pages, lighter than chosen if necessary."""
        return _DARK_COLOR if self.color == COLOR else _readable(self.color, _DARK, 255)

    @property
    def sheet(self) -> str:
        """The name of the style sheet of pages with the colour; empty for the usual one, which pages.css has."""
        return "" if self.color == COLOR else f"{self.color[1:]}.css"


def rule_of(name: str) -> bytes | None:
    """The rule with the colour at the end of the style sheet of that name; None if it is no name of one."""
    color = f"#{name.removesuffix('.css')}"
    if not name.endswith(".css") or not HEX.fullmatch(color):
        return None
    looks = Looks(color=color)
    return f":root {{ --accent: light-dark({looks.light}, {looks.dark}); }}\n".encode()


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, 1 to 21, by WCAG 2.2."""
    first, second = sorted((_luminance(one), _luminance(other)))
    return (second + 0.05) / (first + 0.05)


def _readable(color: str, ground: str, towards: int) -> str:
    """The colour, mixed with black (0) or white (255) until its contrast is enough."""

    def mixed(step: int) -> str:
        return "#" + "".join(f"{round(part + (towards - part) * step / _STEPS):02x}" for part in _parts(color))

    return next(found for step in range(_STEPS + 1) if contrast(found := mixed(step), ground) >= CONTRAST)


def _parts(color: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(color[1:])
    return red, green, blue


def _luminance(color: str) -> float:
    red, green, blue = (_linear(part / 255) for part in _parts(color))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
