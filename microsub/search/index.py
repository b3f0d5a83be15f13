"""One generation of the index: an SQLite file with the words of every post, and a row for each post.

Row numbers grow with the time of publication, so the newest matches come first without sorting, and a time span is a
span of rows. FTS5 stores no text (`content=''`), so a post's old words can't be removed: an edited post gets a new row,
and the old one stays empty until a new generation is built. Everything is derived from Redis. Needs SQLite 3.34 or
later, with FTS5.

Calls block, so run them in a thread. One process writes a generation (`replica`); any number may read it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from microsub.search.words import IndexedPost

VERSION = "4"
"""The version of the file's content, including how words are folded. A file of another version is rebuilt."""

IN_A_SECOND = 1021
"""Rows for posts of the same second: many feeds give only dates, so many posts share midnight. A prime, because ids of
such posts may be at regular distances. If a post's row is taken, it gets one of the following minute, hour or day.
"""

_SPANS = (60, 3600, 86_400)
_TRIES = 4
_LATEST = 2.0**40
_HASH_BYTES = 32 * 1024 * 1024
"""Memory for unwritten words: a few large writes cost half as much as many small ones."""
_SEGMENTS = 16
_WAIT = 5.0
"""Seconds to wait for a lock of SQLite's; in WAL mode none lasts long."""
_STEPS = 2000
"""Instructions of SQLite's virtual machine between two checks of the time limit."""

WEIGHTS = "5.0, 2.0, 1.0, 0.0"
"""Weights of a match in title, author, body and marks, for ranking."""

_TAKE = "INSERT OR IGNORE INTO rows VALUES (?, ?)"

_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE rows (row INTEGER PRIMARY KEY, item INTEGER UNIQUE);
CREATE VIRTUAL TABLE words USING fts5(title, author, body, marks, content='', tokenize='ascii');
"""


class IndexUnusable(Exception):
    """The file is missing, corrupt, of another version, or its disk is full.

    With `corrupt` it will never be readable again.
    """

    def __init__(self, path: Path, why: object, *, corrupt: bool = False) -> None:
        super().__init__(f"{path}: {why}")
        self.corrupt = corrupt


class QueryTooSlow(Exception):
    """A query has exceeded its time limit."""


def is_supported() -> bool:
    """Whether this machine's SQLite supports the index."""
    try:
        with sqlite3.connect(":memory:") as database:
            database.executescript(_SCHEMA)
    except sqlite3.Error:
        return False
    return sqlite3.sqlite_version_info >= (3, 34)


class Match(NamedTuple):
    """A matching post: its row, its item id, and its rank (less is better, 0 if unranked)."""

    row: int
    item: int
    rank: float = 0.0


def row_at(moment: float) -> int:
    """The first row of that Unix time."""
    return int(max(-_LATEST, min(_LATEST, moment))) * IN_A_SECOND


class Generation:
    """An open generation. For one thread at a time."""

    def __init__(self, path: Path, database: sqlite3.Connection) -> None:
        self.path = path
        self._database = database
        self._deadline = float("inf")
        database.set_progress_handler(self._is_late, _STEPS)

    @classmethod
    def create(cls, path: Path, facts: Mapping[str, str]) -> Generation:
        """Create a file without posts. Raises IndexUnusable."""
        with _explained(path):
            path.touch(0o600)  # it contains the words of private feeds
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
        """Open an existing file. Raises IndexUnusable."""
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
        # After a power failure, the loss is noticed, and a rebuild at most is needed.
        made.execute("PRAGMA synchronous = NORMAL")
        made.execute("PRAGMA cache_size = -16000")
        return made

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    # --- reading ------------------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, str]:
        """Facts about the whole index: texts by name."""
        with _explained(self.path):
            return dict(self._database.execute("SELECT name, value FROM facts"))

    def counts(self) -> tuple[int, int]:
        """The number of posts, and of empty rows."""
        with _explained(self.path):
            posts, rows = self._database.execute("SELECT count(item), count(*) FROM rows").fetchone()
            return posts, rows - posts

    def matches(
        self, expression: str, depth: int, *, above: int | None = None, below: int | None = None,
        among: Collection[int] | None = None, upward: bool = False, ranked: bool = False, seconds: float = float("inf"),
    ) -> tuple[list[Match], int | None]:  # fmt: skip
        """The `depth` newest matches between two rows, both exclusive, or the oldest (`upward`); `among` these items.

        Also the row after which more may follow, None for no more.

        Raises QueryTooSlow after `seconds`, and IndexUnusable.
        """
        conditions, values = ["words MATCH ?"], [expression]
        for condition, row in (("words.rowid > ?", above), ("words.rowid < ?", below)):
            if row is not None:
                conditions.append(condition)
                values.append(row)  # type: ignore[arg-type]
        wanted = "1" if among is None else f"rows.item IN ({','.join(map(str, among))})"
        rank = f"printf(' %.9g', bm25(words, {WEIGHTS}))" if ranked else "' 0'"
        found = f"CASE WHEN {wanted} THEN rows.row || ' ' || rows.item || {rank} END"
        order, last = ("ASC", "max") if upward else ("DESC", "min")
        # FTS5 returns rows in order, and mustn't be the inner loop. All matches come in one result row: between two
        # rows, Python would wait for the GIL, once per match, while the event loop is busy.
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
        return matches, reached if count == depth else None

    def matching(
        self, expression: str, ids: Collection[int], above: int | None, below: int | None,
        *, seconds: float = float("inf"),
    ) -> list[Match]:  # fmt: skip
        """The matches among a few items, between two rows as in `matches`. Raises as that does."""
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
        within = [row for row in rows if (above is None or row[0] > above) and (below is None or row[0] < below)]
        return [Match(row, item) for row, item in within]

    def missing(self, ids: Collection[int]) -> list[int]:
        """The item ids that aren't in the index."""
        with _explained(self.path):
            low, high = min(ids), max(ids)
            there = {item for (item,) in self._database.execute(
                "SELECT item FROM rows WHERE item BETWEEN ? AND ?", (low, high))}  # fmt: skip
        return [item for item in ids if item not in there]

    def items(self, after: int, limit: int) -> list[int]:
        """Up to `limit` item ids greater than `after`, in their order."""
        with _explained(self.path):
            found = self._database.execute("SELECT item FROM rows WHERE item > ? ORDER BY item LIMIT ?", (after, limit))
            return [item for (item,) in found]

    # --- writing ------------------------------------------------------------------------------------------------------

    def write(self, documents: Iterable[IndexedPost], gone: Iterable[int], facts: Mapping[str, str]) -> None:
        """Write new and edited posts, each once, empty the rows of items that are `gone`, and write `facts`.

        In one transaction.
        """
        with _explained(self.path), self._transaction():
            posts = list(documents)
            self._empty([*gone, *(post.item for post in posts)])
            rows = self._rows_for(posts)
            texts = [
                (row, post.title, post.author, post.body, post.marks) for row, post in zip(rows, posts, strict=True)
            ]
            texts.sort()  # FTS5 flushes its buffer whenever a row number is lower than the one before
            self._database.executemany(
                "INSERT INTO words (rowid, title, author, body, marks) VALUES (?, ?, ?, ?, ?)", texts
            )
            self._note(facts)

    def note(self, facts: Mapping[str, str]) -> None:
        """Write facts about the whole index."""
        with _explained(self.path), self._transaction():
            self._note(facts)

    def finish(self) -> None:
        """Move all writes into the main file, for others to open."""
        with _explained(self.path):
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _note(self, facts: Mapping[str, str]) -> None:
        self._database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    def _empty(self, items: Iterable[int]) -> None:
        self._database.executemany("UPDATE rows SET item = NULL WHERE item = ?", ((item,) for item in items))

    def _rows_for(self, posts: Sequence[IndexedPost]) -> list[int]:
        """A row for each post: its preferred row if that is free."""
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
    """Rows for a post whose preferred row is taken, best first: in the shortest span that has room."""
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
    """Convert SQLite's errors to those of this module."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "interrupted" in str(error):
            raise QueryTooSlow from None
        raise IndexUnusable(path, error) from error
    except (sqlite3.DatabaseError, OSError) as error:
        raise IndexUnusable(path, error, corrupt=isinstance(error, sqlite3.DatabaseError)) from error
