"""A generation of the index: matches, their order, and the effect of edits and deletions."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from microsub.model.query import parsed
from microsub.search.index import Generation, IndexUnusable, QueryTooSlow, row_at
from microsub.search.replica import IndexFolder
from microsub.search.words import document, expression
from tests.support.posts import NOON


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Generation]:
    generation = Generation.create(tmp_path / "posts-1.sqlite", {"cursor": "0"})
    yield generation
    generation.close()


def put(generation: Generation, item: int, text: str = "", at: float = NOON, **wire: object) -> None:
    entry = {"type": "entry", "post-type": "note", "content": {"html": "", "text": text}, "_source": "1", **wire}
    generation.write([document(item, at, entry)], [], {})


def found(generation: Generation, query: str, **how: Any) -> list[int]:
    asked = parsed(query, NOON)
    words = expression(asked, {name: [name] for name in asked.feeds})
    return [match.item for match in generation.matches(words, 100, **how)[0]]


def test_words_are_found_without_case_and_accents(made: Generation) -> None:
    put(made, 1, "Das Café an der Straße, um halb DREI")
    put(made, 2, "Съешь ещё этих мягких булок")
    put(made, 3, "Łódź; na\u0308ive don’t")
    for query, items in {
        "cafe": [1], "CAFÉ": [1], "strasse": [1], "straße drei": [1], '"halb drei"': [1], '"drei halb"': [],
        "еще": [2], "булок": [2], "бул*": [2], "lodz naive": [3], "don't": [3], "tee": [], "caf": [],
    }.items():  # fmt: skip
        assert found(made, query) == items, query


def test_scripts_without_blanks_are_found_by_parts(made: Generation) -> None:
    put(made, 1, "今日は東京タワーに行きました。とても楽しかった。")
    put(made, 2, "我们在北京大学学习中文。")
    put(made, 3, "ภาษาไทยเขียนติดกัน")
    put(made, 4, "한국어로 검색합니다")
    put(made, 5, "ﾄｳｷｮｳ at 東")
    for query, items in {
        "東京": [1], "東京タワー": [1], "タワー": [1], "京都": [], "東京大学": [], "東": [1, 5], "文": [2], "中文": [2],
        "北京大学": [2], "学习中文": [2], "ไทย": [3], "เขียน": [3], "한국어": [4], "검색": [4], "トウキョウ": [5],
        '"at 東"': [5],
    }.items():  # fmt: skip
        assert sorted(found(made, query)) == items, query


def test_fields_kinds_feeds_links_and_what_is_quoted(made: Generation) -> None:
    put(
        made, 1, "Late again #ferry", name="The tide", author={"type": "card", "name": "Ann Harbour", "url": "https://ann.example/"},
        url="https://pier.example/2024/tide/f22/krepost", category=["weather", "sea"],
    )  # fmt: skip
    quoted = {
        "type": "entry",
        "name": "Gulls",
        "content": {"text": "Two gulls", "html": ""},
        "author": {"name": "Bo Tern"},
    }
    refs = {"https://bo.example/1": quoted}
    put(made, 2, "", **{"post-type": "repost", "repost-of": ["https://bo.example/1"], "refs": refs, "_source": "22"})
    for query, items in {
        "title:tide": [1], "title:late": [], "author:ann": [1], 'author:"ann harbour"': [1], "author:tern": [],
        "ann": [1], "tern": [2], "gulls": [2], "weather": [1], "#weather": [1], "#ferry": [1], "kind:note": [1],
        "kind:repost": [2], "feed:22": [2], "-feed:22": [1], "pier.example": [1], "https://pier.example/2024/tide": [1],
        "pier.example/2025": [], "https://bo.example/1": [2], "pier": [], "all": [], "k": [], "2024": [],
        "gulls OR tide": [2, 1], "gulls OR -tide": [2], "-tide": [2],
    }.items():  # fmt: skip
        assert sorted(found(made, query)) == sorted(items), query


def test_the_newest_come_first_in_any_order_of_arrival(made: Generation) -> None:
    """The order is that of publishing times, also before 1970 and with thousands of posts in one second."""
    moments = {1: NOON, 2: -86_400.0 * 4000, 3: NOON + 0.5, 4: 0.0, 5: 1e15, 6: NOON - 1}
    for item, at in moments.items():
        put(made, item, "tide", at)
    assert found(made, "tide") == [5, 3, 1, 6, 4, 2]
    assert found(made, "tide", upward=True) == found(made, "tide")[::-1]
    assert found(made, "tide", above=row_at(0) - 1, below=row_at(NOON)) == [6, 4]
    made.write([document(100 + number, NOON + 3600, {"content": {"text": "crowd"}}) for number in range(3000)], [], {})
    put(made, 9000, "crowd", NOON + 3600 + 86_400 * 2)
    put(made, 9001, "crowd", NOON)
    words = expression(parsed("crowd", NOON), {})
    items = [match.item for match in made.matches(words, 9999)[0]]
    assert (len(set(items)), items[0], items[-1]) == (3002, 9000, 9001)


def test_edited_and_deleted_texts_arent_found(made: Generation) -> None:
    """This is so even if another post later gets a row of the same second."""
    put(made, 1, "the first version")
    put(made, 1, "the second one")
    assert (found(made, "first"), found(made, "second"), made.counts()) == ([], [1], (1, 1))
    made.write([], [1, 7], {})
    assert (found(made, "second"), made.counts()) == ([], (0, 2))
    for item in range(65, 400, 64):  # which would all get the row that 1 had
        put(made, item, "another")
    assert found(made, "first OR second") == []
    assert sorted(found(made, "another")) == list(range(65, 400, 64))
    assert made.missing(range(60, 131)) == [item for item in range(60, 131) if item not in {65, 129}]
    assert made.items(100, 2) == [129, 193]


def test_the_best_matches(made: Generation) -> None:
    """A title counts more than a text, and a rare word more than a frequent one."""
    for item in range(1, 40):
        put(made, item, "nothing but fog and fog")
    put(made, 50, "something else", name="Fog")
    put(made, 51, "a heron in the fog")
    matches = made.matches(expression(parsed("fog", NOON), {}), 100, ranked=True)[0]
    assert min(matches, key=lambda match: match.rank).item == 50
    matches = made.matches(expression(parsed("fog OR heron", NOON), {}), 100, ranked=True)[0]
    assert min(matches, key=lambda match: match.rank).item == 51


def test_a_slow_question_is_broken_off_and_the_next_one_answered(made: Generation) -> None:
    made.write([document(item, NOON + item, {"content": {"text": "tide"}}) for item in range(1, 4000)], [], {})
    with pytest.raises(QueryTooSlow):
        made.matches('"tide"', 9999, seconds=-1.0)
    assert len(made.matches('"tide"', 9999, seconds=60.0)[0]) == 3999


def test_broken_and_missing_files_are_distinguished(made: Generation, tmp_path: Path) -> None:
    """A write that failed halfway leaves nothing behind."""
    with pytest.raises(ZeroDivisionError):
        made.write((document(1 // number, NOON, {}) for number in (1, 0)), [], {})
    assert made.counts() == (0, 0)
    made.finish()
    for name, content, corrupt in (
        ("none", None, False),
        ("text", b"no database at all" * 300, True),
        ("empty", b"", False),
    ):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(IndexUnusable) as refused:
            Generation.open(path, read_only=True)
        assert refused.value.corrupt is corrupt, name
    with sqlite3.connect(made.path) as other:
        other.execute("UPDATE facts SET value = 'another' WHERE name = 'version'")
    with pytest.raises(IndexUnusable, match="another version"):
        Generation.open(made.path, read_only=True)


def test_only_its_owner_reads_the_file(made: Generation) -> None:
    """It contains the words of private feeds."""
    assert made.path.stat().st_mode & 0o077 == 0


def test_the_files_that_name_and_renew_it_are_private(tmp_path: Path) -> None:
    """Like all files of the data folder, whatever the umask is."""
    folder, before = IndexFolder(tmp_path), os.umask(0)
    try:
        folder.use(folder.fresh())
        folder.ask_for_rebuild()
    finally:
        os.umask(before)
    assert {path.name: path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {"current": 0, "rebuild": 0}


def test_long_and_odd_posts_are_taken(made: Generation) -> None:
    """The number of words is bounded; lone surrogates, NUL and values of wrong types are tolerated."""
    words = " ".join(random.Random(1).choices(["tide", "fog", "heron"], k=60_000))
    put(made, 1, words + " beyond")
    put(made, 2, "a\x00b \ud800 c", name=["x"], author="Ann", category=7, refs=[1], enclosure=[{"title": "sound"}])
    made.write([document(3, NOON, {})], [], {})
    assert found(made, "beyond") == []
    assert found(made, "tide") == [1]
    assert found(made, "sound") == [2]
    assert sorted(found(made, "-heron")) == [2, 3]


def test_matches_among_some_items(made: Generation) -> None:
    """The limit counts all matches, but only the given items are returned; `last` is where the next block begins."""
    made.write([document(item, NOON + item, {"content": {"text": "tide"}}) for item in range(1, 101)], [], {})
    block, last = made.matches('"tide"', 60, among=[95, 41, 40, 7, 999], ranked=True)
    assert [match.item for match in block] == [95, 41]
    assert block[0].rank < 0
    rest, end = made.matches('"tide"', 60, below=last, among=[95, 41, 40, 7, 999])
    assert ([match.item for match in rest], end) == ([40, 7], None)
    assert made.matches('"tide"', 60, among=[])[0] == []
