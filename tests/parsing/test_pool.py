"""Parsing in processes, with limits and in turns."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import structlog

from microsub.base.errors import ParseError, ParserUnavailable, ParsingStopped
from microsub.fetch import Answered, Fetched, asking_for
from microsub.formats.parse import PARSE, parse
from microsub.identity.protocol.links import PROFILE_LINKS
from microsub.model.jf2 import Feed
from microsub.parsing.pool import ParsePool
from microsub.parsing.process import ParserProcess, ProcessEnded
from microsub.server.parsers import TASKS
from tests.support.waiting import PATIENCE, wait_until


def document(body: bytes = b"", name: str = "x") -> Fetched:
    return Fetched(f"http://u:p@a.test/{name}", f"http://a.test/{name}", 200, {}, body, "text/xml", None, None, None)


async def feed_in(pool: ParsePool, document: Fetched) -> Feed:
    return await pool.run(PARSE, document.url, document.body, document.final_url, document.content_type)


URL = "http://u:p@a.test/x"
SMALL = b"<rss><channel><title>t</title><item><title>x</title></item></channel></rss>"
LARGE = b"<rss><channel><title>t</title>" + b"<item><title>x</title><description>y</description></item>" * 1000
SPINS = b"<rss><channel><title>t</title>" + b"<" * 5_000_000
"""A document that keeps its parser busy for minutes."""


@pytest.fixture
async def pool() -> AsyncIterator[ParsePool]:
    """A pool that is closed at the end."""
    made = ParsePool(TASKS)
    yield made
    made.close()


def test_a_process_loads_neither_the_store_nor_the_network() -> None:
    """Half of its start and of its memory would go into them."""
    modules = ", ".join(sorted({task.do.__module__ for task in TASKS}))
    needless = {"asyncio", "httpx", "redis", "structlog"}
    program = f"import sys, microsub.parsing.process, {modules}; print(*({needless} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stdout.split() == []


async def test_documents_are_parsed_at_their_final_address(pool: ParsePool) -> None:
    """Relative links are resolved against the URL after redirects."""
    feed = await feed_in(pool, document(LARGE))
    assert (feed.name, len(feed.entries), feed.url) == ("t", 300, "http://a.test/x")


async def test_processes_start_on_demand_and_end_when_idle() -> None:
    """A busy process stays; a document that isn't a feed doesn't end it."""
    pool = ParsePool(TASKS, idle=0.3)
    assert not pool.processes
    await feed_in(pool, document(SMALL))
    first = pool.processes
    with pytest.raises(ParseError, match="empty"):
        await feed_in(pool, document(b" "))
    assert pool.processes == first
    assert len(first) == 1
    await wait_until(lambda: not pool.processes)
    assert (await feed_in(pool, document(SMALL))).name == "t"
    pool.close()


async def test_a_process_begins_while_the_document_is_on_its_way(pool: ParsePool) -> None:
    """A sign-in doesn't wait for its start."""
    pool.warm()
    pool.warm()
    await wait_until(lambda: len(pool.processes) == 1)
    first = pool.processes
    await feed_in(pool, document(SMALL))
    assert pool.processes == first


async def test_a_document_over_its_processor_time_is_stopped(pool: ParsePool) -> None:
    """The document fails, with its URL masked, and the next one is parsed."""
    pool = ParsePool(TASKS, quick=0.1, seconds=0.3)
    with pytest.raises(ParsingStopped, match=r"in 0\.3 s of processor time") as failure:
        await feed_in(pool, document(SPINS))
    assert "u:p" not in str(failure.value)
    assert failure.value.seconds == 0.3
    assert (await feed_in(pool, document(SMALL))).name == "t"
    pool.close()


async def test_time_in_which_a_process_does_not_run_does_not_count(pool: ParsePool) -> None:
    """No document fails because the machine is busy."""
    pool = ParsePool(TASKS, processes=1, quick=1.0, seconds=1.0)
    await feed_in(pool, document(SMALL))
    (pid,) = pool.processes
    os.kill(pid, signal.SIGSTOP)
    reading = asyncio.create_task(feed_in(pool, document(SMALL)))
    await asyncio.sleep(1.5)
    assert not reading.done()
    os.kill(pid, signal.SIGCONT)
    assert (await reading).name == "t"
    assert pool.processes == {pid}
    pool.close()


async def test_a_slow_document_skips_the_quick_lane_next_time() -> None:
    """Otherwise it would lose that time at every poll."""
    pool = ParsePool(TASKS, quick=0.1, seconds=0.2)
    for _ in range(2):
        with pytest.raises(ParsingStopped):
            await feed_in(pool, document(SPINS, "slow"))
    lanes = {pool._submit(job).slow for job in [_job("slow"), _job("slow")]}
    assert lanes == {True}
    assert not pool._submit(_job("other")).slow
    pool.close()


async def test_the_quick_lane_stays_open_for_others() -> None:
    """While heavy documents run and wait, small ones of the same caller are parsed."""
    pool = ParsePool(TASKS, seconds=600.0)
    pool._known_slow.update({document(name=f"heavy{number}").url: None for number in range(4)})
    heavy = [asyncio.create_task(feed_in(pool, document(SPINS, f"heavy{number}"))) for number in range(4)]
    assert (await feed_in(pool, document(SMALL))).name == "t"
    assert len(pool._slow) == 3
    assert not any(task.done() for task in heavy)
    pool.close()
    await asyncio.gather(*heavy, return_exceptions=True)


async def test_callers_take_turns_in_the_slow_lane() -> None:
    """A caller's heavy document waits for one of another caller who has many, not for all.

    Behind 60 previews, another caller's document used to take 38 s. It must be the second one at the latest.
    """
    pool = ParsePool(TASKS, quick=0.05, seconds=0.2)
    pool._known_slow.update({document(name=name).url: None for name in ("many0", "many1", "many2", "many3", "one0")})
    ended: list[str] = []

    async def read(whom: str, number: int) -> None:
        with asking_for(whom):
            with pytest.raises(ParsingStopped):
                await feed_in(pool, document(SPINS, f"{whom}{number}"))
            ended.append(whom)

    await asyncio.gather(*(read("many", number) for number in range(4)), read("one", 0))
    assert ended.index("one") <= 1
    pool.close()


async def test_an_abandoned_parse_is_ended() -> None:
    """The process is free for the next document; a waiting one is never parsed."""
    pool = ParsePool(TASKS, processes=1, seconds=600.0, quick=600.0)
    first = asyncio.create_task(feed_in(pool, document(SPINS)))
    await wait_until(lambda: bool(pool._parsers.running))
    second = asyncio.create_task(feed_in(pool, document(SPINS)))
    await wait_until(lambda: len(pool._quick) == 1)
    for task in (second, first):
        task.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert (await feed_in(pool, document(SMALL))).name == "t"
    pool.close()


async def test_a_document_without_a_turn_in_time_is_refused() -> None:
    """The document doesn't count as failed, and the one in the process continues."""
    pool = ParsePool(TASKS, processes=1, seconds=600.0, quick=600.0)
    first = asyncio.create_task(feed_in(pool, document(SPINS)))
    await wait_until(lambda: bool(pool._parsers.running))
    pool._patience = 0.1
    with pytest.raises(ParserUnavailable, match="the server is busy"):
        await feed_in(pool, document(SMALL))
    assert len(pool._quick) == 0
    assert not first.done()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    pool._patience = 60.0
    assert (await feed_in(pool, document(SMALL))).name == "t"
    pool.close()


async def test_closing_ends_processes_at_once() -> None:
    """Busy processes are killed; waiting callers get an error."""
    pool = ParsePool(TASKS, seconds=600.0, quick=600.0)
    reading = [asyncio.create_task(feed_in(pool, document(SPINS, str(number)))) for number in range(5)]
    await wait_until(lambda: len(pool._parsers.running) == 2 and len(pool.processes) == 2)
    processes = [process._process for process in pool._parsers.processes]
    pool.close()
    assert all(process.wait(10) == -signal.SIGKILL for process in processes)
    for result in await asyncio.gather(*reading, return_exceptions=True):
        assert isinstance(result, ParserUnavailable)


async def test_a_stopped_pool_refuses_what_comes_later(pool: ParsePool) -> None:
    """A request that parses several documents ends with the next one."""
    pool.stop()
    pool.warm()
    with pytest.raises(ParserUnavailable, match="stopping"):
        await feed_in(pool, document(SMALL))
    assert not pool.processes


async def test_a_failed_start_is_no_failure_of_a_document(pool: ParsePool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All callers get the error, it is logged once, and later documents are parsed."""

    def out_of_descriptors(*_given: object) -> ParserProcess:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with structlog.testing.capture_logs() as lines, monkeypatch.context() as patched:
        patched.setattr("microsub.parsing.pool.ParserProcess", out_of_descriptors)
        for _ in range(2):
            with pytest.raises(ParserUnavailable, match="Too many open files"):
                await feed_in(pool, document(SMALL))
    assert [line["event"] for line in lines] == ["no parser can be started, which isn't caused by a document"]
    assert (await feed_in(pool, document(SMALL))).name == "t"


async def test_whatever_fails_at_a_start_reaches_the_caller(pool: ParsePool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a thread that has ended."""

    def broken(*_given: object) -> ParserProcess:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr("microsub.parsing.pool.ParserProcess", broken)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await asyncio.wait_for(feed_in(pool, document(SMALL)), 10)
    assert (await feed_in(pool, document(SMALL))).name == "t"


async def test_a_process_is_ended_when_it_takes_too_much_memory() -> None:
    """Only the document fails."""
    pool = ParsePool(TASKS, memory=8 * 1024 * 1024)
    with pytest.raises(ParseError, match="memory"):
        await feed_in(pool, document(LARGE * 20))
    assert (await feed_in(pool, document(SMALL))).name == "t"
    pool.close()


async def test_a_process_that_died_while_idle_costs_nothing(pool: ParsePool) -> None:
    """The next document gets another process and doesn't fail."""
    await feed_in(pool, document(SMALL))
    (pid,) = pool.processes
    os.kill(pid, signal.SIGKILL)
    assert (await feed_in(pool, document(SMALL))).name == "t"
    assert pool.processes != {pid}


async def test_even_small_documents_are_parsed_in_a_process(pool: ParsePool) -> None:
    """The server's own process parses no foreign document, not even one of a few bytes."""
    page = Answered(200, {"content-type": "text/html"}, b"<link rel=me href=https://b.test/>", "http://a.test/")
    _, me = await pool.run(PROFILE_LINKS, page.final_url, page.body, page.final_url, page.content_type, None, False)
    assert me == ("https://b.test/",)
    assert len(pool.processes) == 1


def test_replies_that_are_no_values_end_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hijacked process can only send text, numbers and our dataclasses of these."""
    process = ParserProcess((PARSE,))
    replies = [b'{"failure":null,"stopped":false,"seconds":0.1,"resident":1}', b'{"url":"x","format":["not text"]}']
    sizes = (len(replies[0]).to_bytes(8, "big") + len(replies[1]).to_bytes(8, "big"),)
    parts = iter([*sizes, *replies])
    monkeypatch.setattr(process, "_receive", lambda *_: next(parts))
    with pytest.raises(ProcessEnded):
        process.run(PARSE, SMALL, ("http://a.test/", None), seconds=5, where="http://a.test/")
    process.close()


def test_replies_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that announces gigabytes is ended before it sends them."""
    process = ParserProcess((PARSE,))
    monkeypatch.setattr(process, "_receive", lambda *_: (1 << 40).to_bytes(8, "big") * 2)
    with pytest.raises(ProcessEnded):
        process.run(PARSE, SMALL, ("http://a.test/", None), seconds=5, where="http://a.test/")
    process.close()


# --- as a plain function -------------------------------------------------------------------------------------------


def test_it_reads_what_the_parser_reads() -> None:
    """This holds for small and large documents, feeds or not."""
    bounded = ParsePool((PARSE,))
    for body in (SMALL, LARGE):
        assert bounded.run_blocking(PARSE, URL, body, URL, "text/xml") == parse(body, URL, "text/xml")
    for body in (b"nothing", b" " * 300_000):
        with pytest.raises(ParseError) as failure:
            bounded.run_blocking(PARSE, URL, body, URL, None)
        assert not isinstance(failure.value, ParsingStopped)
    bounded.close()


def test_many_threads() -> None:
    """Each thread gets the feed of its own document."""
    bounded = ParsePool((PARSE,))
    with ThreadPoolExecutor(6) as threads:
        titles = [f"t{number}" for number in range(12)]
        bodies = [LARGE.replace(b"<title>t<", f"<title>{title}<".encode()) for title in titles]
        assert [
            feed.name for feed in threads.map(lambda body: bounded.run_blocking(PARSE, URL, body, URL, None), bodies)
        ] == titles
    bounded.close()


async def test_closing_ends_what_is_read() -> None:
    """Waiting callers aren't delayed by it; later documents are parsed as before."""
    bounded = ParsePool((PARSE,), 1)
    stopped: list[ParserUnavailable] = []

    def read() -> None:
        try:
            bounded.run_blocking(PARSE, URL, SPINS, URL, "text/html")
        except ParserUnavailable as error:
            stopped.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    await wait_until(lambda: len(bounded._parsers.running) == 1 and len(bounded._quick) == 2)
    bounded.close()
    await wait_until(lambda: len(stopped) == 3)
    assert bounded.run_blocking(PARSE, URL, LARGE, URL, None).name == "t"
    bounded.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_after_a_fork_each_process_has_its_own() -> None:
    """The child neither uses nor ends the parent's parser."""
    bounded = ParsePool((PARSE,), 1)
    bounded.run_blocking(PARSE, URL, LARGE, URL, None)
    mine = bounded.processes
    child = os.fork()
    if child == 0:
        fine = bounded.run_blocking(PARSE, URL, LARGE, URL, None).name == "t" and not mine & bounded.processes
        bounded.close()
        os._exit(0 if fine else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    bounded.run_blocking(PARSE, URL, LARGE, URL, None)
    assert bounded.processes == mine
    bounded.close()


def _job(name: str) -> object:
    from microsub.parsing.pool import _Job

    return _Job(PARSE, document(SMALL, name).url, SMALL, ("http://a.test/", None), ("",))
