"""Display settings: choices among few values, stored as one text, with the account or in a cookie of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields, replace
from typing import ClassVar, Self

from microsub.web.pages import LANGUAGES

THEMES = ("auto", "light", "dark")
SIZES = ("small", "normal", "large", "larger")
DENSITIES = ("comfortable", "compact")
YES_OR_NO = ("no", "yes")
FONTS = ("auto", "sans", "serif")
LEADINGS = ("tight", "normal", "loose")
WIDTHS = ("narrow", "normal", "wide")
ORDERS = ("newest", "oldest")
SPEEDS = ("75", "100", "125", "150", "175", "200")


@dataclass(frozen=True, slots=True)
class Choices:
    """Settings whose fields are texts, each with a default and the few values that can be chosen in `CHOICES`."""

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]]

    def changed(self, chosen: Mapping[str, str]) -> Self:
        """These settings with the chosen values; invalid ones change nothing."""
        known = {name: chosen[name] for name, valid in self.CHOICES.items() if chosen.get(name) in valid}
        return replace(self, **known)

    @classmethod
    def read(cls, stored: str) -> Self:
        """The settings as stored; invalid values give defaults."""
        return cls().changed(dict(zip((one.name for one in fields(cls)), stored.split("."), strict=False)))

    def stored(self) -> str:
        """The settings as they are stored."""
        return ".".join(astuple(self))


@dataclass(frozen=True, slots=True)
class Display(Choices):
    """The display settings of an account, or of a browser in which nobody is signed in.

    `language` is empty for the browser's language; with `scrolling`, scrolling past posts marks them as read; with
    `order`, the oldest or newest posts come first; `quiet` hides channels without unread posts. `font`, `leading` (the
    height of lines) and `width` are those of posts; `minutes` shows how long reading takes. `speed` is that of
    the player, in percent. New settings come last.
    """

    theme: str = "auto"
    size: str = "normal"
    density: str = "comfortable"
    language: str = ""
    scrolling: str = "no"
    order: str = "newest"
    quiet: str = "no"
    font: str = "auto"
    leading: str = "normal"
    width: str = "normal"
    minutes: str = "no"
    speed: str = "100"

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "theme": THEMES,
        "size": SIZES,
        "density": DENSITIES,
        "language": ("", *LANGUAGES),
        "scrolling": YES_OR_NO,
        "order": ORDERS,
        "quiet": YES_OR_NO,
        "font": FONTS,
        "leading": LEADINGS,
        "width": WIDTHS,
        "minutes": YES_OR_NO,
        "speed": SPEEDS,
    }
