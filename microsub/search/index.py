"""One generation of the index: an SQLite file with the words of every post, and the rows that stand for posts.

A row's number grows with the time of publishing, so that the newest matches come first without sorting and a span of
time is a span of rows. FTS5 keeps no text (`content=''`), so that what a post once said can't be taken out again: an
edited post gets another row, and the former one stays empty, until a new generation is built. All of it is derived from
Redis. Works with SQLite from 3.34 on, where it has FTS5.

Calls block: they belong into a thread. A generation is written by one process (`replica`), and read by any number.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from microsub.search.words import IndexedPost

VERSION = "2"
"""Of what stands in the file, the folding of words included. A file of another one is built again."""

IN_A_SECOND = 1021
"""Rows for posts of the same second: many feeds give dates alone, so that midnight has a crowd. A prime, since ids of
such posts may lie at regular distances. A post whose row is taken has one of the minute, hour or day behind it.
"""

_SPANS = (60, 3600, 86_400)
_TRIES = 4
_LATEST = 2.0**40
_HASH_BYTES = 32 * 1024 * 1024
"""Memory for words that aren't written yet: few large writes cost half of many small ones."""
_SEGMENTS = 16
_WAIT = 5.0
"""Seconds that a lock of SQLite's is waited for; in WAL mode nobody holds one for long."""
_STEPS = 2000
"""Instructions of SQLite's machine between two looks at the clock."""

WEIGHTS = "5.0, 2.0, 1.0, 0.0"
"""What a match counts in title, author, body and marks, when the best are asked for."""

_TAKE = "INSERT OR IGNORE INTO rows VALUES (?, ?)"

_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE rows (row INTEGER PRIMARY KEY, item INTEGER UNIQUE);
CREATE VIRTUAL TABLE words USING fts5(title, author, body, marks, content='', tokenize='ascii');
"""


class IndexUnusable(Exception):
    """The file is missing, corrupt, of another version, or its disk is full.

    With `corrupt` nobody will ever read it again.
    """

    def __init__(self, path: Path, why: object, *, corrupt: bool = False) -> None:
        super().__init__(f"{path}: {why}")
        self.corrupt = corrupt


class QueryTooSlow(Exception):
    """A query needs more time than it may take."""


def is_supported() -> bool:
    """Whether this machine's SQLite can hold an index."""
    try:
        with sqlite3.connect(":memory:") as database:
            database.executescript(_SCHEMA)
    except sqlite3.Error:
        return False
    return sqlite3.sqlite_version_info >= (3, 34)


@dataclass(frozen=True, slots=True)
class Match:
    """A post that matches: its row, its item id, and how well it does (less is better, 0 where nobody asked)."""

    row: int
    item: int
    rank: float = 0.0


@dataclass(frozen=True, slots=True)
class Block:
    """Matches in their order; more may lie behind the row `last`, and none where that is None."""

    matches: Sequence[Match]
    last: int | None


@dataclass(frozen=True, slots=True)
class Span:
    """Rows between two others, both exclusive."""

    above: int | None = None
    below: int | None = None


def row_at(moment: float) -> int:
    """The first row of that Unix time."""
    return int(max(-_LATEST, min(_LATEST, moment))) * IN_A_SECOND


class Generation:
    """An open file. For one thread at a time."""

    def __init__(self, path: Path, database: sqlite3.Connection) -> None:
        self.path = path
        self._database = database
        self._deadline = float("inf")
        database.set_progress_handler(self._is_late, _STEPS)

    @classmethod
    def create(cls, path: Path, facts: Mapping[str, str]) -> Generation:
        """A new file without posts. Raises IndexUnusable."""
        with _explained(path):
            path.touch(0o600)  # it holds the words of private feeds
            made = cls._open(path, "rwc")
            made.execute("PRAGMA journal_mode = WAL")
            made.executescript(_SCHEMA)
            made.execute("INSERT INTO words (words, rank) VALUES ('hashsize', ?)", (_HASH_BYTES,))
            made.execute("INSERT INTO words (words, rank) VALUES ('automerge', ?)", (_SEGMENTS,))
            found = cls(path, made)
            found.note({**facts, "version": VERSION})
            return found

    @classmethod
    def open(cls, path: Path, *, read_only: bool) -> Generation:
        """A file that is there. Raises IndexUnusable."""
        with _explained(path):
            found = cls(path, cls._open(path, "rw"))
            if read_only:
                found._database.execute("PRAGMA query_only = ON")
            if found.facts().get("version") != VERSION:
                raise IndexUnusable(path, "written by another version", corrupt=True)
            return found

    @staticmethod
    def _open(path: Path, mode: str) -> sqlite3.Connection:
        made = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=_WAIT, isolation_level=None,
            check_same_thread=False,
        )  # fmt: skip
        # A power failure costs a rebuild at most, which is noticed.
        made.execute("PRAGMA synchronous = NORMAL")
        made.execute("PRAGMA cache_size = -16000")
        return made

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    # --- reading ------------------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, str]:
        """What is noted of the whole: texts by name."""
        with _explained(self.path):
            return dict(self._database.execute("SELECT name, value FROM facts"))

    def counts(self) -> tuple[int, int]:
        """How many posts are in it, and how many rows are empty."""
        with _explained(self.path):
            posts, rows = self._database.execute("SELECT count(item), count(*) FROM rows").fetchone()
            return posts, rows - posts

    def matches(
        self, expression: str, span: Span, depth: int, *, among: Collection[int] | None = None, upward: bool = False,
        ranked: bool = False, seconds: float = float("inf"),
    ) -> Block:  # fmt: skip
        """The `depth` newest matches of the span, or the oldest ones (`upward`); of these only the items `among`.

        Raises QueryTooSlow after so many seconds, and IndexUnusable.
        """
        conditions, values = ["words MATCH ?"], [expression]
        for condition, row in (("words.rowid > ?", span.above), ("words.rowid < ?", span.below)):
            if row is not None:
                conditions.append(condition)
                values.append(row)  # type: ignore[arg-type]
        wanted = "1" if among is None else f"rows.item IN ({','.join(map(str, among))})"
        rank = f"printf(' %.9g', bm25(words, {WEIGHTS}))" if ranked else "' 0'"
        found = f"CASE WHEN {wanted} THEN rows.row || ' ' || rows.item || {rank} END"
        order, last = ("ASC", "max") if upward else ("DESC", "min")
        # FTS5 has its rows in order already, and mustn't be the inner loop. All comes in one row: between two rows
        # Python would have to wait for its turn, as often as there are matches, while the event loop is busy.
        text = (
            f"SELECT group_concat(found, ' '), count(*), {last}(row) FROM ("  # noqa: S608
            f"SELECT rows.row AS row, {found} AS found FROM words CROSS JOIN rows ON rows.row = words.rowid "
            f"WHERE {' AND '.join(conditions)} AND rows.item IS NOT NULL ORDER BY words.rowid {order} LIMIT ?)"
        )
        self._deadline = time.monotonic() + seconds
        try:
            with _explained(self.path):
                listed, count, reached = self._database.execute(text, (*values, depth)).fetchone()
        finally:
            self._deadline = float("inf")
        parts = (listed or "").split()
        matches = [
            Match(int(row), int(item), float(rank))
            for row, item, rank in zip(parts[0::3], parts[1::3], parts[2::3], strict=True)
        ]
        return Block(matches, reached if count == depth else None)

    def matching(
        self, expression: str, span: Span, ids: Collection[int], *, seconds: float = float("inf")
    ) -> list[Match]:
        """Those of a few items that match within the span. Raises as `matches` does."""
        text = (
            "SELECT rows.row, rows.item FROM rows CROSS JOIN words ON words.rowid = rows.row "  # noqa: S608
            f"WHERE rows.item IN ({','.join(map(str, ids))}) AND words MATCH ?"
        )
        self._deadline = time.monotonic() + seconds
        try:
            with _explained(self.path):
                rows = self._database.execute(text, (expression,)).fetchall()
        finally:
            self._deadline = float("inf")
        above, below = span.above, span.below
        within = [row for row in rows if (above is None or row[0] > above) and (below is None or row[0] < below)]
        return [Match(row, item) for row, item in within]

    def missing(self, ids: Collection[int]) -> list[int]:
        """Those of the item ids that it doesn't have."""
        with _explained(self.path):
            low, high = min(ids), max(ids)
            there = {item for (item,) in self._database.execute(
                "SELECT item FROM rows WHERE item BETWEEN ? AND ?", (low, high))}  # fmt: skip
        return [item for item in ids if item not in there]

    def items(self, after: int, limit: int) -> list[int]:
        """Up to `limit` of its item ids that are greater than `after`, in their order."""
        with _explained(self.path):
            found = self._database.execute("SELECT item FROM rows WHERE item > ? ORDER BY item LIMIT ?", (after, limit))
            return [item for (item,) in found]

    # --- writing ------------------------------------------------------------------------------------------------------

    def write(self, documents: Iterable[IndexedPost], gone: Iterable[int], facts: Mapping[str, str]) -> None:
        """Take in posts, new and edited ones, each once; empty the rows of items that are `gone`; note `facts`.

        All in one step.
        """
        with _explained(self.path), self._transaction():
            posts = list(documents)
            self._empty([*gone, *(post.item for post in posts)])
            rows = self._rows_for(posts)
            texts = [
                (row, post.title, post.author, post.body, post.marks) for row, post in zip(rows, posts, strict=True)
            ]
            texts.sort()  # FTS5 writes all that it has gathered whenever a row is less than the one before
            self._database.executemany(
                "INSERT INTO words (rowid, title, author, body, marks) VALUES (?, ?, ?, ?, ?)", texts
            )
            self._note(facts)

    def note(self, facts: Mapping[str, str]) -> None:
        """Note facts of the whole."""
        with _explained(self.path), self._transaction():
            self._note(facts)

    def finish(self) -> None:
        """Bring what was written into the file itself, for others to open."""
        with _explained(self.path):
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _note(self, facts: Mapping[str, str]) -> None:
        self._database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    def _empty(self, items: Iterable[int]) -> None:
        self._database.executemany("UPDATE rows SET item = NULL WHERE item = ?", ((item,) for item in items))

    def _rows_for(self, posts: Sequence[IndexedPost]) -> list[int]:
        """A row for each, the first place of its own where that is free."""
        rows = {post.item: row_at(post.score) + post.item % IN_A_SECOND for post in posts}
        if self._database.executemany(_TAKE, ((row, item) for item, row in rows.items())).rowcount < len(rows):
            items = ",".join(map(str, rows))
            rows = dict(self._database.execute(f"SELECT item, row FROM rows WHERE item IN ({items})"))  # noqa: S608
        return [rows[post.item] if post.item in rows else self._further_row(post) for post in posts]

    def _further_row(self, post: IndexedPost) -> int:
        return next(row for row in _further_rows(post) if self._database.execute(_TAKE, (row, post.item)).rowcount)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.rollback()
            raise
        self._database.commit()

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline


def _further_rows(post: IndexedPost) -> Iterator[int]:
    """Where a post may stand whose first place is taken, the best one first: the shortest span that has room."""
    first = row_at(post.score)
    scattered = post.item
    for seconds in _SPANS:
        for _ in range(_TRIES):
            scattered = (scattered * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % 2**64
            yield first + (scattered >> 20) % (seconds * IN_A_SECOND)
    while True:
        scattered = (scattered * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % 2**64
        yield first + (scattered >> 10)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """What SQLite says in the words of this module."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "interrupted" in str(error):
            raise QueryTooSlow from None
        raise IndexUnusable(path, error) from error
    except (sqlite3.DatabaseError, OSError) as error:
        raise IndexUnusable(path, error, corrupt=isinstance(error, sqlite3.DatabaseError)) from error
