"""The index follows the stored posts, and recovers from every failure."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from microsub.base.errors import SearchUnavailable
from microsub.feeds.events import Event, Events
from microsub.model.jf2 import Content
from microsub.posts import FULL, stored_full_text
from microsub.posts.ingest import PostWriter
from microsub.redis import keys
from microsub.search import index_follower
from microsub.search.index import Generation
from microsub.search.words import document
from tests.search.conftest import FEED, QUICK, Replica
from tests.support.fork_server import Process, fork_server
from tests.support.posts import NOON, candidate
from tests.support.waiting import wait_until
from tests.support.world import World

Store = Callable[..., Any]


@pytest.mark.parametrize("most", [index_follower._WRITTEN_BYTES, 1], ids=["at once", "in parts"])
async def test_stored_edited_and_deleted_posts_are_followed(
    replica: Replica, server: World, store: Store, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """They are found after the next check for events; large ones are written in several parts."""
    monkeypatch.setattr(index_follower, "_WRITTEN_BYTES", most)
    await store(candidate("two", text="the ferry and gulls", at=NOON + 5), candidate("one", text="the ferry"))
    replica.follow()
    await replica.finds("ferry", "2", "1")
    feed = await store(candidate("three", text="another ferry", at=NOON - 7))
    await replica.finds("ferry", "2", "1", "3")
    server.clock.advance(60)
    await store(candidate("one", text="no boat at all"))
    await replica.finds("ferry", "2", "3")
    assert await replica.found("boat") == ["1"]
    await server.redis.command("DEL", keys.item("2"))
    await server.events.announce([Event("post_deleted", feed.id, server.now, "2", "two")])
    await replica.finds("ferry", "3")


async def test_the_words_of_full_texts_are_found(replica: Replica, server: World, store: Store) -> None:
    """Also those of its feed's text, and no longer any of the full text once the post is deleted."""
    feed = await store(candidate("one", text="the ferry, and …"))
    replica.follow()
    await replica.finds("ferry", "1")
    await server.items.note({"1": {FULL: stored_full_text(Content("<p>The boat sails.</p>", "The boat sails."))}})
    await server.events.announce([Event("post_modified", feed.id, server.now, "1", "one", ("content",))])
    await replica.finds("boat", "1")
    assert await replica.found("ferry boat") == ["1"]
    assert await replica.found("title:boat") == []
    await server.redis.command("DEL", keys.item("1"))
    await server.events.announce([Event("post_deleted", feed.id, server.now, "1", "one")])
    await replica.finds("boat")


async def test_changes_without_events_are_indexed(replica: Replica, server: World, store: Store) -> None:
    """Imports write posts without events, and the sweep deletes some."""
    feed = await store(candidate("one", text="the ferry"))
    replica.follow()
    await replica.finds("ferry", "1")
    await PostWriter(server.redis).write(feed, [candidate(f"p{n}", text="imported") for n in range(30)], server.now)
    await wait_until(lambda: _has(replica, "imported", 30))
    await server.redis.command("DEL", keys.item("1"))
    await replica.finds("ferry")


async def _has(replica: Replica, query: str, count: int) -> bool:
    return len(await replica.found(query)) == count


async def test_a_stream_that_was_trimmed_costs_a_rebuild(replica: Replica, server: World, store: Store) -> None:
    """Posts that were edited meanwhile are found in their current version."""
    await store(candidate("one", text="the ferry"))
    replica.follow()
    await replica.finds("ferry", "1")
    await replica.stop()
    first = replica.folder.current()
    short = Events(server.redis, kept=1)
    server.clock.advance(60)
    await store(candidate("one", text="no boat"), candidate("two", text="gulls"))
    for number in range(300):  # Redis trims in blocks of 100
        await short.announce([Event("feed_modified", "1", server.now, changed=(f"f{number}",))])
    assert not await server.events.reach("1-0")
    replica.follow()
    await replica.finds("boat", "1")
    assert (await replica.found("ferry"), await replica.found("gulls")) == ([], ["2"])
    assert replica.folder.current() != first


@pytest.mark.parametrize("how", ["emptied", "restored", "other"])
async def test_another_redis_costs_a_rebuild(how: str, replica: Replica, server: World, store: Store) -> None:
    """If Redis returns empty or from a backup, or is another one, no earlier post is found."""
    await server.redis.command("SET", keys.instance(), "here")
    await store(candidate("one", text="the ferry"))
    replica.follow()
    await replica.finds("ferry", "1")
    if how == "other":
        await server.redis.command("SET", keys.instance(), "elsewhere")
        await server.redis.command("DEL", keys.item("1"))
    elif how == "restored":
        await server.redis.command("DEL", keys.item("1"), keys.events_stream())
    else:
        await server.redis.command("FLUSHDB")
        await server.redis.command("SET", keys.instance(), "here")
    await replica.finds("ferry")
    await store(candidate("other", text="a ferry again"))
    await wait_until(lambda: _has(replica, "ferry", 1))


async def test_lost_files_are_built_again(replica: Replica, store: Store) -> None:
    """The generation, its name and the whole folder are lost in turn. A search without an index raises an error."""
    await store(candidate("one", text="the ferry"))
    task = replica.follow()
    await replica.finds("ferry", "1")
    for lose in (
        lambda: replica.folder.current().unlink(),  # type: ignore[union-attr]
        (replica.path / "current").unlink,
        lambda: (replica.path / "current").write_text("../../etc/passwd"),
        lambda: [path.unlink() for path in replica.path.iterdir()],
    ):
        former = replica.folder.current()
        lose()
        await wait_until(lambda before=former: replica.folder.current() not in {None, before})  # type: ignore[misc]
        await replica.finds("ferry", "1")
    assert not task.done()
    await replica.stop()
    (replica.path / "current").unlink()
    with pytest.raises(SearchUnavailable):
        await replica.index.matches('"ferry"', 10)


@pytest.mark.parametrize("follows", [True, False])
@pytest.mark.parametrize("damage", ["garbage", "truncated", "half"])
async def test_a_corrupt_file_is_built_again(damage: str, follows: bool, replica: Replica, store: Store) -> None:
    """The writer notices it, or a reader, who takes the file out of use."""
    await store(*(candidate(f"p{number}", text=f"ferry {number}") for number in range(200)))
    replica.follow()
    await wait_until(lambda: _has(replica, "ferry", 200))
    await replica.stop()
    path = replica.folder.current()
    assert path is not None
    size = path.stat().st_size
    with path.open("r+b") as file:
        if damage == "truncated":
            file.truncate(0)
        else:
            file.seek(0 if damage == "garbage" else 4096)
            file.write(os.urandom(size))
    for leftover in replica.path.glob("*-*l"):
        leftover.unlink()
    replica.reads_afresh()
    if not follows:
        assert await replica.found("ferry") == []
        assert (replica.folder.current() is None) == (damage != "truncated")
    replica.follow()
    if follows and damage == "half":  # which a reader of other pages doesn't notice
        await wait_until(lambda: _reads_in_vain(replica, path))
    await wait_until(lambda: _has(replica, "ferry", 200))
    assert replica.folder.current() != path
    await wait_until(lambda: len(list(replica.path.glob("*.sqlite"))) == 1)


async def _reads_in_vain(replica: Replica, path: Path) -> bool:
    await replica.found("ferry")
    return replica.folder.current() != path


async def test_of_several_processes_one_writes(replica: Replica, server: World, tmp_path: Path, store: Store) -> None:
    """When it ends, another process continues from there without a rebuild."""
    await store(candidate("one", text="the ferry"))
    first = replica.follow()
    await replica.finds("ferry", "1")
    generation = replica.folder.current()
    second = replica.follow()
    assert replica.folder.has_writer()
    assert not await replica.follower().build()
    await store(candidate("two", text="a second ferry", at=NOON - 5))
    await replica.finds("ferry", "1", "2")
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await store(candidate("three", text="a third ferry", at=NOON - 9))
    await replica.finds("ferry", "1", "2", "3")
    assert replica.folder.current() == generation
    assert not second.done()
    await replica.stop()
    assert not replica.folder.has_writer()
    other = Replica(server, tmp_path / "other-machine")
    assert await other.follower().build()
    assert await other.found("ferry") == ["1", "2", "3"]
    await other.aclose()


async def test_a_rebuild_can_be_requested(replica: Replica, store: Store) -> None:
    """The former generation answers until the new one is complete."""
    await store(candidate("one", text="the ferry"))
    replica.follow()
    await replica.finds("ferry", "1")
    former = replica.folder.current()
    replica.folder.ask_for_rebuild()
    while replica.folder.has_wish():
        assert await replica.found("ferry") == ["1"]
        await asyncio.sleep(0)
    assert replica.folder.current() != former
    assert await replica.found("ferry") == ["1"]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_generation_replaced_while_opened_isnt_used(
    when: str, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are deleted one by one, so the rest may lack the newest posts; the named generation has them all."""
    replica.path.mkdir()
    former, latter = (Generation.create(replica.folder.fresh(), {}) for _ in range(2))
    former.finish()
    for generation in (former, latter):
        generation.write([document(1, NOON, {"content": {"html": "", "text": "the ferry"}, "_source": "1"})], [], {})
    (replica.path / "current").write_text(former.path.name)
    opened = Generation._open

    def replaced_meanwhile(path: Path, mode: str) -> Any:
        if when == "before":
            replica.folder.use(latter.path)
        database = opened(path, mode)
        replica.folder.use(latter.path)
        return database

    monkeypatch.setattr(Generation, "_open", staticmethod(replaced_meanwhile))
    matches, _ = await replica.index.matches('"ferry"', 10)
    assert [match.item for match in matches] == [1]
    former.close()
    latter.close()


async def test_many_edits_cost_a_rebuild(
    replica: Replica, server: World, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise empty rows would accumulate."""
    monkeypatch.setattr("microsub.search.index_follower._ALWAYS_EMPTY", 10)
    replica.follow()
    for version in range(15):
        server.clock.advance(60)
        await store(candidate("one", text=f"version {version} of it"))
        await replica.finds(f'"version {version}"', "1")
    await wait_until(lambda: _was_tidied(replica))
    assert await replica.found("version") == ["1"]


async def _was_tidied(replica: Replica) -> bool:
    figures = await replica.index.figures()
    return figures.usable and figures.empty < 10


async def test_a_writer_that_is_killed_at_any_moment_loses_nothing(
    replica: Replica, server: World, redis_url: str, store: Store
) -> None:
    """After many kills of the writing process, every post is found once, in its current version."""
    stored: dict[int, str] = {}

    async def change(number: int) -> None:
        server.clock.advance(1)
        text = f"ferry word{number} turn{len(stored)}x{number}"
        await store(candidate(f"p{number % 40}", text=text))
        stored[number % 40] = text

    for number in range(40):
        await change(number)
    for kill in range(6):
        writer = await _writer(redis_url, replica.path)
        try:
            for number in range(60):
                await change(kill * 60 + number)
            await asyncio.sleep(0.05 * kill)
        finally:
            writer.kill()
            await writer.wait()
    replica.follow()
    await wait_until(lambda: _has(replica, "ferry", 40))
    for text in stored.values():
        await wait_until(lambda query=f'"{text}"': _has(replica, query, 1))  # type: ignore[misc]
    assert len(set(await replica.found("ferry"))) == 40


async def _writer(url: str, path: Path) -> Process:
    log = path.with_name("writer.log")
    with log.open("wb") as out:
        process = fork_server().start("tests.search.index_writer", (url, str(path)), os.environ, out, out)
    await wait_until(lambda: b"begun" in log.read_bytes())
    return process


async def test_a_full_disk_is_waited_out(replica: Replica, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The follower retries; meanwhile searches raise an error."""
    await store(candidate("one", text="the ferry"))
    full = True

    def create(*arguments: Any) -> Any:
        if full:
            raise OSError(28, "No space left on device")
        return made(*arguments)

    from microsub.search.index import Generation

    made = Generation.create
    monkeypatch.setattr(Generation, "create", create)
    task = replica.follow()
    await asyncio.sleep(4 * QUICK.failure)
    assert not task.done()
    assert not (await replica.index.figures()).usable
    full = False
    await replica.finds("ferry", "1")


async def test_an_index_reports_its_figures(replica: Replica, server: World, store: Store) -> None:
    """It reports its posts, its size and its position in the stream of events."""
    assert not (await replica.index.figures()).usable
    await store(candidate("one"), candidate("two"), url=FEED)
    assert await replica.follower().build()
    figures = await replica.index.figures()
    assert (figures.posts, figures.empty, figures.usable, figures.followed) == (2, 0, True, False)
    assert figures.built == server.now
    assert figures.bytes > 4096
    assert await server.events.since(figures.cursor) == []
    await store(candidate("three"))
    assert len(await server.events.since(figures.cursor)) == 1
