"""Whether a feed cuts its posts: decided by comparing some of them with their pages. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from microsub.base.clock import DAY
from microsub.base.urls import host_of
from microsub.model.moments import number

VOTED, JUDGED = "cut_votes", "cut_judged"
"""The record's fields with the last comparisons, and with the Unix time of the last one."""

VOTES = 3
"""Posts that are compared before a feed's followers with the choice `auto` get full texts."""

_TRIED = 2 * VOTES
"""Posts that are tried at a time in order to compare `VOTES` of them."""

_AGAIN = 30 * DAY

_MORE, _TIMES = 60, 1.5
"""Words by which an article must be longer than the feed's text, besides being so many times as long."""

_LONG = 300
"""Words of a text that counts as whole unless its end is marked as a cut: pages have comments too."""

_SAME = 0.5
"""The share of a text's words, in threes, that is in an article from which it is an extract."""

_GOES_ON = re.compile(
    r"(?:\.\.\.|…|\b(?:(?:continue|keep|read) (?:reading|more|on)|read (?:the )?(?:full|whole|rest)\b.{0,40}"
    r"|weiterlesen|mehr lesen|lire la suite|seguir leyendo|leer más|lees verder"
    r"|the post .{1,300} appeared first on .{1,200}))"
    r"[\s.…»›→>\])]*\Z",
    re.IGNORECASE | re.DOTALL,
)


def is_cut(own: str, article: str, link: str, home: str) -> bool:
    """Whether a post's `own` text in the feed is less than the text of the article at its `link`.

    `home` is the address of the feed or of its page: a short text about somebody else's page isn't a cut one.
    """
    has, there = own.split(), article.split()
    if len(there) < len(has) * _TIMES + _MORE or (len(has) >= _LONG and not goes_on(own)):
        return False
    return _site(link) == _site(home) or _shared(has, there) >= _SAME


def goes_on(text: str) -> bool:
    """Whether a text says at its end that there is more of it."""
    return bool(_GOES_ON.search(text[-600:]))


@dataclass(frozen=True, slots=True)
class Judgement:
    """The comparisons of a feed's posts with their pages.

    `votes` has a letter for each of the last ones, `c` for a cut post and `w` for a whole one; `at` is the Unix time of
    the last one.
    """

    votes: str
    at: float

    @classmethod
    def of(cls, extra: Mapping[str, str], now: float) -> Judgement:
        """As in a feed's record. A feed that gave whole posts is compared again after `_AGAIN`."""
        found = cls(extra.get(VOTED, "")[-VOTES:], number(extra.get(JUDGED)) or 0.0)
        return cls("", found.at) if found.is_cut is False and now - found.at > _AGAIN else found

    @property
    def is_cut(self) -> bool | None:
        """Whether the feed cuts its posts, as most comparisons say; None if there are too few."""
        return 2 * self.votes.count("c") > VOTES if len(self.votes) >= VOTES else None

    @property
    def last(self) -> bool:
        """Whether the last post that was compared is cut."""
        return self.votes.endswith("c")

    def wants(self, tried: int) -> bool:
        """Whether followers with the choice `auto` want another page, after so many."""
        return self.is_cut or (self.is_cut is None and tried < _TRIED)

    def after(self, is_cut: bool, now: float) -> Judgement:
        """The judgement after another comparison."""
        return Judgement((self.votes + ("c" if is_cut else "w"))[-VOTES:], now)

    @property
    def noted(self) -> dict[str, str | None]:
        """The fields of the feed's record."""
        return {VOTED: self.votes, JUDGED: f"{self.at:.0f}"}


def _site(url: str) -> str:
    """The last two names of a host: enough to tell one's own pages from others."""
    return ".".join(host_of(url).removeprefix("www.").split(".")[-2:])


def _shared(own: list[str], article: list[str]) -> float:
    threes = [tuple(own[at : at + 3]) for at in range(max(0, len(own) - 2))]
    there = {tuple(article[at : at + 3]) for at in range(max(0, len(article) - 2))}
    return sum(three in there for three in threes) / len(threes) if threes else 0.0
