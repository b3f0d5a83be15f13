"""What somebody meant who mistyped a line of their page: the nearest thing that would be right. Pure.

Only a guess, made for text that doesn't work as it stands; so it is offered to be read, and never followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher, get_close_matches
from urllib.parse import urlsplit

from microsub.identity.page_check.lines import Line, microsub_line, provider_lines
from microsub.identity.protocol.identifiers import MAX_URL, endpoint
from microsub.identity.protocol.rels import Written
from microsub.model.reader import NAME

_NEAR_REL = 0.8
_NEAR_ADDRESS = 0.85
_NEAR_HOST = 0.9
_NEAR_NAME = 0.75
_MOST_LETTERS = 4
_MOST_RELS = 100
_NO_TYPOS = frozenset(
    {
        "introspection_endpoint",
        "registration_endpoint",
        "revocation_endpoint",
        "ticket_endpoint",
        "userinfo_endpoint",
    }
)
"""Relations of the same family that are meant as they are written."""

# A scheme with or without its colon and slashes, a user, and what could be a host and a path.
_ADDRESS = re.compile(
    r"(?:(?P<scheme>[A-Za-z]{2,7})(?::/{0,3}|/{2}))?(?:[^/@]*@)?(?P<rest>(?P<host>[^/:@]+)(?::[0-9]+)?/.*)"
)


def misnamed(links: Sequence[Written], rels: Sequence[str], has: Iterable[str]) -> Mapping[str, Written]:
    """The links that were meant for those of `rels` that aren't in `has`: each by a relation that is nearly theirs."""
    found: dict[str, Written] = {}
    looked_at: set[str] = set()
    for link in links:
        for rel in link.rels:
            # Nobody mistypes as many as somebody may have put there to keep this server busy.
            if rel in looked_at or len(looked_at) >= _MOST_RELS:
                continue
            looked_at.add(rel)
            if rel in rels or rel in _NO_TYPOS:
                continue
            near = max(rels, key=lambda one: _likeness(_folded(rel), _folded(one)))
            if near in has or _likeness(_folded(rel), _folded(near)) < _NEAR_REL:
                continue
            if endpoint(link.target, link.base) is not None:
                found.setdefault(near, link)
    return found


def mended_address(target: str) -> str | None:
    """The https or http address that `target` seems to have been meant for; None where nothing is near."""
    text = re.sub(r"[\x00-\x20\x7f]", "", target[:MAX_URL]).replace("\\", "/").partition("#")[0]
    match = _ADDRESS.fullmatch(text)
    if match is None or "." not in match["host"].strip("."):
        return None
    scheme = next(iter(get_close_matches((match["scheme"] or "https").lower(), ("https", "http"), 1)), None)
    address = endpoint(f"{scheme}://{match['rest']}") if scheme else None
    return address if address != target else None


def near_own_line(rel: str, url: str, base: str | None, user: str | None = None) -> Line | None:
    """The line of the server at `base` that `url` is nearly; `user` is whose page it is, if known."""
    if base is None:
        return None
    lines = {line.rel: line for line in provider_lines(base)}
    name = user or last_name(url)
    if name:
        lines["microsub"] = microsub_line(base, name)
    line = lines.get(rel)
    if line is None or line.href == url:
        return None
    # Hosts by themselves: all servers have paths that are alike.
    hosts = (urlsplit(line.href).netloc, urlsplit(url).netloc)
    return line if _likeness(*hosts) >= _NEAR_HOST and _likeness(line.href, url) >= _NEAR_ADDRESS else None


def last_name(url: str) -> str | None:
    """The last of several parts of an address's path, where it could be the name of a user."""
    parts = url.partition("?")[0].rstrip("/").split("/")
    return parts[-1] if len(parts) > 4 and NAME.match(parts[-1]) else None


def near_name(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is nearly `name`."""
    return next(iter(get_close_matches(name, list(names), 1, _NEAR_NAME)), None) if NAME.match(name) else None


def _folded(rel: str) -> str:
    return rel.lower().replace("_", "-")


def _likeness(one: str, other: str) -> float:
    # What somebody made who wants a comparison to take long differs in length; a typo hardly does.
    if abs(len(one) - len(other)) > _MOST_LETTERS:
        return 0.0
    return SequenceMatcher(None, one, other, autojunk=False).ratio()
