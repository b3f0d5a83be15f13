"""All requirements, a module per subject, in the order in which they are checked, and their selection.

The docstring of a check is the title of its requirement.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from microsub_conformance.checks import (
    channels,
    discovery,
    events,
    follows,
    isolation,
    items,
    pages,
    read_state,
    removal,
    revisions,
    rules,
    saved,
)
from microsub_conformance.checks.requests import replies, tokens, transport
from microsub_conformance.requirement import Requirement

CHAPTERS = (
    transport.transport,
    tokens.tokens,
    replies.replies,
    replies.errors,
    channels.channels,
    follows.following,
    follows.formats,
    items.items,
    pages.timeline,
    pages.paging,
    read_state.reading,
    removal.removing,
    removal.moving,
    saved.saving,
    saved.arriving,
    events.events,
    rules.muting,
    rules.blocking,
    discovery.searching,
    discovery.previewing,
    revisions.revisions,
    isolation.isolation,
    tokens.scopes,
)

REQUIREMENTS: tuple[Requirement, ...] = tuple(
    requirement for chapter in CHAPTERS for requirement in chapter.requirements
)


def pick(patterns: Sequence[str] = (), sources: Sequence[str] = (), must_only: bool = False) -> tuple[Requirement, ...]:
    """The requirements whose id matches one of `patterns` and whose source is one of `sources`; empty means all.

    A pattern is a shell pattern of an id (`paging.*`) or the name of a chapter (`paging`); a source is `spec`,
    `design`, `client` or `client:<name>`.
    """
    return tuple(
        requirement
        for requirement in REQUIREMENTS
        if (not patterns or any(_matches(requirement.id, pattern) for pattern in patterns))
        and (not sources or any(source in {requirement.source, requirement.group} for source in sources))
        and not (must_only and requirement.level != "must")
    )


def _matches(identifier: str, pattern: str) -> bool:
    return fnmatchcase(identifier, pattern) or identifier.partition(".")[0] == pattern
