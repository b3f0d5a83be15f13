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
from microsub_conformance.native import access, changes, streams, values
from microsub_conformance.requirement import Requirement, client

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

NATIVE_CHAPTERS = (
    access.sign_in,
    access.addresses,
    values.ids,
    values.fields,
    values.lists,
    streams.streams,
    streams.pages,
    streams.contents,
    changes.marks,
    changes.feeds,
    changes.folders,
)
"""Those of the Google Reader API."""

REQUIREMENTS, NATIVE_REQUIREMENTS = (
    tuple(requirement for chapter in chapters for requirement in chapter.requirements)
    for chapters in (CHAPTERS, NATIVE_CHAPTERS)
)


def pick(
    patterns: Sequence[str] = (),
    sources: Sequence[str] = (),
    must_only: bool = False,
    requirements: Sequence[Requirement] = REQUIREMENTS,
) -> tuple[Requirement, ...]:
    """The requirements whose id matches one of `patterns` and whose source is one of `sources`; empty means all.

    A pattern is a shell pattern of an id (`paging.*`) or the name of a chapter (`paging`); a source is `spec`,
    `design`, `client` or `client:<name>`.
    """
    return tuple(
        requirement
        for requirement in requirements
        if (not patterns or any(_matches(requirement.id, pattern) for pattern in patterns))
        and (not sources or _comes_from(requirement, sources))
        and not (must_only and requirement.level != "must")
    )


def _comes_from(requirement: Requirement, sources: Sequence[str]) -> bool:
    own = {requirement.source, requirement.group, *(client(app) for app in requirement.apps)}
    return not own.isdisjoint(sources)


def _matches(identifier: str, pattern: str) -> bool:
    return fnmatchcase(identifier, pattern) or identifier.partition(".")[0] == pattern
