"""What a webmention says, whose it is, and what a look at its source leads to. Pure.

Spec: https://www.w3.org/TR/webmention/#receiving-webmentions. A webmention is known by its pair of source and target;
the same pair again is an update. All times are Unix seconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from typing import Literal
from urllib.parse import urljoin

from microsub.kit.digests import short_digest
from microsub.kit.urls import domain, host_of, normalise_profile, within

State = Literal["new", "shown", "held", "rejected", "withdrawn", "deleted", "failed"]
"""`new`: never verified. `held`: it waits for its user's approval. `rejected`: by its user, for good. `withdrawn`: its
user wants it deleted. `deleted`: so it was, or the source is gone, or has no link to the target. `failed`: the source
could not be had, however often it was asked.
"""

PAUSES = (60.0, 300.0, 1800.0, 7200.0, 43_200.0)
"""Before each further try, where the source can't be had now. After the last one the webmention has failed."""

_DOTS = re.compile(r"(?i)/(?:\.|%2e){1,2}(?=[/?#]|\Z)")


@dataclass(frozen=True, slots=True)
class Mention:
    """A webmention as its user's list has it.

    `received` is when the pair came last, and `tries` counts the looks at the source since then. `edition` grows each
    time that its post was deleted, since a post that was deleted doesn't come back. `kind`, `author` and `title` are
    what the source says of itself, `why` is what became of the last look.
    """

    source: str
    target: str
    received: float
    state: State = "new"
    approved: bool = False
    tries: int = 0
    edition: int = 0
    kind: str = ""
    author: str = ""
    title: str = ""
    why: str = ""

    @property
    def id(self) -> str:
        """What the pair is known by."""
        return id_of(self.source, self.target)

    @property
    def site(self) -> str:
        """The first page of the site that the source lies on."""
        return urljoin(self.source, "/")

    @property
    def guid(self) -> str:
        """What its post is known by."""
        return f"webmention:{self.id}:{self.edition}"

    def to_json(self) -> str:
        """The webmention as it is stored: what stands at its default is left out."""
        return json.dumps(
            {one.name: value for one in fields(self) if (value := getattr(self, one.name)) != one.default}
        )

    @classmethod
    def of(cls, text: str | bytes) -> Mention:
        """The webmention read back. Raises ValueError and TypeError."""
        return cls(**json.loads(text))


def id_of(source: str, target: str) -> str:
    """What the pair of two checked addresses is known by: the fragment of the source says nothing of its page."""
    return short_digest(f"{source.partition('#')[0]}\n{target}".encode(), 12)


# --- whose it is -------------------------------------------------------------------------------------------------


def covers(address: str, target: str) -> bool:
    """Whether `target` is the page `address` or below it; scheme, query and fragment make no difference."""
    if _DOTS.search(target):
        return False
    own, other = (normalise_profile(url.partition("#")[0].partition("?")[0]) for url in (address, target))
    return other == own or other.startswith(own.removesuffix("/") + "/")


def is_refused(source: str, refused: Collection[str]) -> bool:
    """Whether the source lies on one of these domains, or at or below one of these addresses."""
    host = host_of(source)
    return any(
        covers(entry, source) if "://" in entry else (name := domain(entry)) is not None and within(host, name)
        for entry in refused
    )


# --- the look at the source (3.2.2, 3.2.4) ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Linked:
    """The source links to the target, and says this of itself."""

    kind: str
    author: str
    title: str


@dataclass(frozen=True, slots=True)
class NotLinked:
    """The source answered 410, or is there without the link."""

    why: str


@dataclass(frozen=True, slots=True)
class NotRead:
    """The source could not be had; `lasting`: in an hour it would be the same. `retry_after` is in seconds.

    `ours`: nobody was asked, which counts as no try.
    """

    why: str
    lasting: bool = False
    retry_after: float = 0.0
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Unwanted:
    """Its user has rejected or withdrawn it: the source isn't asked."""


Look = Linked | NotLinked | NotRead | Unwanted


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a look leads to: the webmention from now on, and when to look again, None for never."""

    mention: Mention
    again: float | None = None


def decide(mention: Mention, look: Look, now: float, *, needs_approval: bool) -> Verdict:
    """Decide what becomes of a webmention.

    One that was shown needs no approval, and stays where its source can't be had.
    """
    match look:
        case Linked(kind, author, title):
            approved = mention.approved or mention.state == "shown" or not needs_approval
            state: State = "shown" if approved else "held"
            said = replace(mention, state=state, tries=0, kind=kind, author=author, title=title, why="")
            return Verdict(said)
        case NotLinked(why):
            return Verdict(replace(mention, state="deleted", approved=False, tries=0, why=why))
        case Unwanted():
            state = "rejected" if mention.state == "rejected" else "deleted"
            return Verdict(replace(mention, state=state, approved=False, tries=0, why="by its user"))
        case NotRead(ours=True):
            return Verdict(mention, now + PAUSES[0])
        case NotRead():
            return _not_read(replace(mention, tries=mention.tries + 1, why=look.why), look, now)


def _not_read(tried: Mention, look: NotRead, now: float) -> Verdict:
    if not look.lasting and tried.tries <= len(PAUSES):
        return Verdict(tried, now + max(PAUSES[tried.tries - 1], min(look.retry_after, PAUSES[-1])))
    return Verdict(replace(tried, state="failed" if tried.state == "new" else tried.state, tries=0))
