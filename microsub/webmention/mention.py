"""Webmentions as values: state, owner, and the result of a check of the source. Pure.

Spec: https://www.w3.org/TR/webmention/#receiving-webmentions. A webmention is identified by its source and target; the
same pair again is an update. All times are Unix seconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from typing import Literal
from urllib.parse import urljoin

from microsub.base.digests import short_digest
from microsub.base.urls import domain, host_of, normalise_profile, within
from microsub.fetch import RequestFailure
from microsub.model.jf2 import Entry

State = Literal["new", "shown", "held", "rejected", "withdrawn", "deleted", "failed"]
"""`new`: never verified. `held`: waiting for its user's approval. `rejected`: by its user, permanently. `withdrawn`:
its user wants it deleted. `deleted`: it was withdrawn, or the source is gone or has no link to the target. `failed`:
every attempt to fetch the source failed.
"""

PAUSES = (60.0, 300.0, 1800.0, 7200.0, 43_200.0)
"""Seconds before each retry if the source can't be fetched now. After the last retry the webmention has failed."""

_LONGEST_TITLE = 200
_DOTS = re.compile(r"(?i)/(?:\.|%2e){1,2}(?=[/?#]|\Z)")


@dataclass(frozen=True, slots=True)
class Mention:
    """A webmention in its user's list.

    `received` is when the pair last arrived; `tries` counts the checks of the source since then. `edition` grows each
    time its post is deleted, because a deleted post doesn't come back. `kind`, `author` and `title` come from the
    source; `why` explains the result of the last check.
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
        """The identifier of the pair."""
        return id_of(self.source, self.target)

    @property
    def site(self) -> str:
        """The home page of the source's site."""
        return urljoin(self.source, "/")

    @property
    def guid(self) -> str:
        """The guid of its post."""
        return f"webmention:{self.id}:{self.edition}"

    def to_json(self) -> str:
        """The webmention as it is stored: default values are left out."""
        return json.dumps(
            {one.name: value for one in fields(self) if (value := getattr(self, one.name)) != one.default}
        )

    @classmethod
    def of(cls, text: str | bytes) -> Mention:
        """Read a stored webmention. Raises ValueError and TypeError."""
        return cls(**json.loads(text))


def id_of(source: str, target: str) -> str:
    """The identifier of a pair of checked addresses, without the source's fragment."""
    return short_digest(f"{source.partition('#')[0]}\n{target}".encode(), 12)


# --- owners and refused sites ------------------------------------------------------------------------------------


def covers(address: str, target: str) -> bool:
    """Whether `target` is the page `address` or below it; scheme, query and fragment are ignored."""
    if _DOTS.search(target):
        return False
    own, other = (normalise_profile(url.partition("#")[0].partition("?")[0]) for url in (address, target))
    return other == own or other.startswith(own.removesuffix("/") + "/")


def is_refused(source: str, refused: Collection[str]) -> bool:
    """Whether the source is on one of these domains, or at or below one of these addresses."""
    host = host_of(source)
    return any(
        covers(entry, source) if "://" in entry else (name := domain(entry)) is not None and within(host, name)
        for entry in refused
    )


# --- the check of the source (3.2.2, 3.2.4) -----------------------------------------------------------------------


Look = Entry | str | RequestFailure
"""The result of a check of the source: its post if it links to the target, or why the webmention is over.

It is if the source replied 410 or is there without the link, or the user doesn't want the webmention.
"""


def decide(mention: Mention, look: Look, now: float, *, needs_approval: bool) -> tuple[Mention, float | None]:
    """Decide what a check of the source means for a webmention, and when to check again, None for never.

    A webmention that was shown before needs no approval, and stays if its source can't be fetched.
    """
    match look:
        case Entry():
            approved = mention.approved or mention.state == "shown" or not needs_approval
            state: State = "shown" if approved else "held"
            kind, author = look.post_type or "", (look.author and look.author.name) or ""
            text = look.name or (look.content and look.content.text) or look.summary or ""
            title = " ".join(text.split())[:_LONGEST_TITLE]
            return replace(mention, state=state, tries=0, kind=kind, author=author, title=title, why=""), None
        case str(why):
            state = "rejected" if mention.state == "rejected" else "deleted"
            return replace(mention, state=state, approved=False, tries=0, why=why), None
        case RequestFailure(ours=True):
            return mention, now + PAUSES[0]
        case RequestFailure():
            return _not_read(replace(mention, tries=mention.tries + 1, why=look.why), look, now)


def _not_read(tried: Mention, look: RequestFailure, now: float) -> tuple[Mention, float | None]:
    if not look.lasting and tried.tries <= len(PAUSES):
        return tried, now + max(PAUSES[tried.tries - 1], min(look.retry_after or 0.0, PAUSES[-1]))
    return replace(tried, state="failed" if tried.state == "new" else tried.state, tries=0), None
