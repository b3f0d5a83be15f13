"""Parsing with an end as a plain function, for programs whose threads and event loops are their own affair."""

from __future__ import annotations

from microsub.discovery.feedlinks import FeedLink
from microsub.model.jf2 import Feed
from microsub.parsing.pool import QUICK, SECONDS, ParsePool
from microsub.parsing.process import MEMORY


class BoundedParser:
    """Called like `formats.parse.parse`, and blocks: documents are read in processes, `at_once` of them at a time.

    `seconds` (of processor time) and `memory` (bytes) bound the work on one document. Safe for threads and after forks.
    Raises ParserUnavailable when no process can be started, and in calls during which it is closed.
    """

    def __init__(self, *, seconds: float = SECONDS, memory: int = MEMORY, at_once: int = 2) -> None:
        self._pool = ParsePool(at_once, quick=QUICK, seconds=seconds, memory=memory)

    def __call__(self, body: bytes, url: str, content_type: str | None) -> Feed:
        """The feed in a document. Raises ParseError, and ParsingStopped when it takes too much time or memory."""
        feed: Feed = self._pool.run("parse", url, body, url, content_type)
        return feed

    def better_feeds(self, body: bytes, url: str, content_type: str | None) -> list[FeedLink]:
        """The feeds to follow instead of a page (`discovery.links`). Raises ParsingStopped."""
        links: list[FeedLink] = self._pool.run("better_feeds", url, body, url, content_type, None)
        return links

    def close(self) -> None:
        """End the processes, and with them the documents that are being read. Later calls begin again."""
        self._pool.close()
