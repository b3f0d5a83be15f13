"""Chapters in a JSON document that an episode names (Podcasting 2.0, https://podcasting2.org/docs). Pure."""

from __future__ import annotations

from typing import Any

from microsub.base.errors import ParseError
from microsub.base.urls import safe_url
from microsub.formats.encoding import decode
from microsub.formats.jsonfeed import read_object
from microsub.formats.podcast import bounded_podcast
from microsub.model.jf2 import Podcast, PodcastChapter
from microsub.parsing.task import Task

MOST_READ = 10_000
"""Chapters that are looked at; those that are shown are the first ones, as many as of a feed."""


def chapters_in(body: bytes, url: str, content_type: str | None) -> tuple[PodcastChapter, ...]:
    """The chapters in the document found at `url`, in their order in time, without those of no table of contents.

    Starts that are no numbers from 0 on are left out. Raises ParseError for other documents.
    """
    document: Any = read_object(decode(body, content_type), url)
    listed = document.get("chapters") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ParseError(url, "this document has no chapters")
    found = [chapter for node in listed[:MOST_READ] if (chapter := _chapter(node, url)) is not None]
    found.sort(key=lambda one: one.start)
    bounded = bounded_podcast(Podcast(chapter=tuple(found)))
    return bounded.chapter if bounded is not None else ()


def _chapter(node: Any, base: str) -> PodcastChapter | None:
    if not isinstance(node, dict) or node.get("toc") is False:
        return None
    start, title, link = node.get("startTime"), node.get("title"), node.get("url")
    if isinstance(start, bool) or not isinstance(start, int | float) or not 0 <= start < _LATEST:
        return None
    return PodcastChapter(
        float(start),
        title if isinstance(title, str) else None,
        safe_url(link, base) if isinstance(link, str) else None,
    )


_LATEST = 1_000_000
"""Seconds: eleven days, the longest number in the addresses of files."""

CHAPTERS_IN = Task(chapters_in, thorough=False)
