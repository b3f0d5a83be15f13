"""The report on a profile page: what is there or missing, how to correct it, for which apps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Literal


@dataclass(frozen=True, slots=True)
class LinkLine:
    """One `<link>`."""

    rel: str
    href: str

    @property
    def html(self) -> str:
        """As it stands in a page."""
        return f'<link rel="{self.rel}" href="{escape(self.href)}">'


PROFILES = "/u"


def profile_page(base: str, user: str) -> str:
    """The address that the server at `base` lends to `user`, whose `me` it is where they have none of their own."""
    return f"{base}{PROFILES}/{user}"


def microsub_line(base: str, user: str) -> LinkLine:
    """Where `user` reads. With the name in it, tokens of the user's own provider can be checked."""
    return LinkLine("microsub", f"{base}/microsub/{user}")


def provider_lines(base: str) -> tuple[LinkLine, ...]:
    """The lines of who has the server at `base` as identity provider: what the standard wants, then what apps read."""
    return (
        LinkLine("indieauth-metadata", f"{base}/.well-known/oauth-authorization-server"),
        LinkLine("authorization_endpoint", f"{base}/auth"),
        LinkLine("token_endpoint", f"{base}/token"),
    )


FindingLevel = Literal["ok", "advice", "problem"]

TOGETHER = "Together"
MONOCLE = "Monocle"
ANDROID = "IndiePass Android"
IOS = "IndiePass iOS"
DESKTOP = "IndiePass desktop"
EK = "ek"
EKSTEREYE = "Ekstereye"
PADD = "PADD"
NOTIFIER = "microsub-notifier"
HERE = "this server"
"""Its own sign-in, and its check of other providers' tokens."""

ALL = (TOGETHER, MONOCLE, ANDROID, IOS, EK, EKSTEREYE, PADD, NOTIFIER)
"""Apps that find everything by the page, and need the two older relations there: Monocle with a newer library reads
`indieauth-metadata`, with that of its lock file it doesn't. IndiePass desktop is given endpoint and token by hand.
"""

WANT_MICROPUB = (IOS, EKSTEREYE)
"""Apps that don't sign anybody in whose page names no `micropub`."""

_WIDTH = 96
_INDENT = " " * 9


@dataclass(frozen=True, slots=True)
class PageFinding:
    """One thing. `about` is a name that stays the same from version to version; `text` says what is so, `fix` what to
    do, where there is something; `clients` are the apps that it concerns, none for everybody.

    A `problem` keeps apps, or more than one of them, from working; `advice` is about one app, or about a day to come.
    """

    level: FindingLevel
    about: str
    text: str
    fix: str = ""
    clients: tuple[str, ...] = ()

    @property
    def concerns(self) -> str:
        """The `clients` in words; empty for everybody."""
        rest = [client for client in self.clients if client not in ALL]
        return ", ".join(["all apps", *rest] if set(ALL) <= set(self.clients) else self.clients)


@dataclass(frozen=True, slots=True)
class PageReport:
    """All that was found at `url`, in the order in which apps come upon it."""

    url: str
    findings: tuple[PageFinding, ...]

    @property
    def is_complete(self) -> bool:
        """Whether nothing that is needed is missing."""
        return not self.problems

    @property
    def problems(self) -> int:
        """How many findings have to be corrected."""
        return sum(1 for one in self.findings if one.level == "problem")

    @property
    def verdict(self) -> str:
        """It all in one sentence."""
        if self.problems:
            return f"{_counted(self.problems, 'problem')} to correct, then apps can sign you in."
        advice = sum(1 for one in self.findings if one.level == "advice")
        return "Nothing is missing." if not advice else f"Nothing is missing; {_counted(advice, 'piece')} of advice."

    def as_dict(self) -> dict[str, object]:
        """For programs."""
        return {
            "url": self.url,
            "complete": self.is_complete,
            "findings": [
                {
                    "level": one.level,
                    "about": one.about,
                    "text": one.text,
                    **({"fix": one.fix} if one.fix else {}),
                    **({"clients": list(one.clients)} if one.clients else {}),
                }
                for one in self.findings
            ],
        }

    def as_text(self) -> str:
        """For a terminal."""
        return "\n".join([self.url, *(line for one in self.findings for line in _printed(one)), self.verdict])


def _printed(one: PageFinding) -> Iterable[str]:
    yield from _wrapped(f"{one.about}: {one.text}", f"{one.level:<9}")
    if one.fix:
        yield from _wrapped(f"-> {one.fix}")
    if one.clients:
        yield from _wrapped(f"concerns {one.concerns}")


def _wrapped(text: str, begins: str = _INDENT) -> list[str]:
    """Sentences as paragraphs; lines that are to be copied stay lines."""
    first, *lines = text.split("\n")
    told = wrap(
        first, _WIDTH, initial_indent=begins, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False
    )
    return [*told, *(_INDENT + line for line in lines)]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
