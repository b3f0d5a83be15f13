"""The parts of an invented blog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Format = Literal["rss", "rss091", "rdf", "atom", "jsonfeed", "h-feed"]


@dataclass(frozen=True, slots=True)
class Blog:
    """One invented blog.

    `every` is the time between two posts in seconds, `offset` shifts it relative to other blogs. `kinds` are used in
    turn by post number. `edits` are ages in seconds at which a post is changed. `window` is how many posts the feed
    lists, `length` how many paragraphs an article has. With `excerpts` the feed has the beginnings of texts, and pages
    have them whole. `inset` names markup that articles have (see `documents.INSETS`). A feed with another `status` than
    200 is refused with it; the blog's page isn't.
    """

    slug: str
    title: str
    author: str
    about: str
    format: Format
    every: int
    offset: int
    titles: tuple[str, ...]
    lines: tuple[str, ...]
    words: Mapping[str, tuple[str, ...]]
    tags: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("article",)
    edits: tuple[int, ...] = ()
    encoding: str = "utf-8"
    language: str = "en"
    window: int = 20
    length: int = 3
    excerpts: bool = False
    inset: str = ""
    status: int = 200
    colours: tuple[str, str] = ("#27445c", "#e9b44c")

    @property
    def has_photo_field(self) -> bool:
        """Whether its format has a property for pictures, which then aren't in the text."""
        return self.format in {"h-feed", "jsonfeed"}
