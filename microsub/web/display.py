"""Display settings of one browser, stored in a cookie of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields, replace
from typing import Self

from microsub.web.pages import LANGUAGES

THEMES = ("auto", "light", "dark")
SIZES = ("small", "normal", "large", "larger")
DENSITIES = ("comfortable", "compact")
YES_OR_NO = ("no", "yes")
ORDERS = ("newest", "oldest")

CHOICES: Mapping[str, tuple[str, ...]] = {
    "theme": THEMES,
    "size": SIZES,
    "density": DENSITIES,
    "language": ("", *LANGUAGES),
    "scrolling": YES_OR_NO,
    "order": ORDERS,
    "quiet": YES_OR_NO,
}
"""The valid values of each field of `Display`."""


@dataclass(frozen=True, slots=True)
class Display:
    """The display settings of one browser.

    `language` is empty for the browser's language; with `scrolling`, scrolling past posts marks them as read; with
    `order`, the oldest or newest posts come first; `quiet` hides channels without unread posts.
    """

    theme: str = "auto"
    size: str = "normal"
    density: str = "comfortable"
    language: str = ""
    scrolling: str = "no"
    order: str = "newest"
    quiet: str = "no"

    @classmethod
    def of(cls, chosen: Mapping[str, str]) -> Self:
        """The settings with these values; invalid values give defaults."""
        known = {name: chosen[name] for name in CHOICES if chosen.get(name) in CHOICES[name]}
        return replace(cls(), **known)

    @classmethod
    def read(cls, cookie: str) -> Self:
        """The settings in a cookie's value; invalid values give defaults."""
        return cls.of(dict(zip((one.name for one in fields(cls)), cookie.split("."), strict=False)))

    def cookie(self) -> str:
        """The value of the cookie."""
        return ".".join(astuple(self))
