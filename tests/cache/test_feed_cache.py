"""The feed cache on every storage: its requests, its results, its copies."""

from __future__ import annotations

import asyncio
import shelve
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog.testing

from microsub.base.metrics import FEED_CACHE_ANSWERS
from microsub.cache import CachedFeed, DirectoryMapping, FeedCache, FetchError, ParseError, feeds
from microsub.fetch import Fetched, FetchRequest, FetchResult, NotModified
from microsub.formats.feed_links import BETTER_FEEDS
from microsub.formats.parse import PARSE, parse
from microsub.parsing.pool import ParsePool
from tests.support.feed_cache import NOON, URL, Clock, Place, document, site
from tests.support.waiting import wait_until

HOUR = 3600.0


@pytest.fixture(scope="module")
def shared_parser() -> Iterator[ParsePool]:
    """One parser for the caches of all tests: a process per test would take longer than the test."""
    made = ParsePool((PARSE, BETTER_FEEDS))
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _one_parser(shared_parser: ParsePool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "ParsePool", lambda _tasks: shared_parser)
    monkeypatch.setattr(shared_parser, "close", lambda: None)


def names(found: CachedFeed) -> list[str | None]:
    return [entry.name for entry in found.feed.entries]


async def test_the_feed_comes_parsed(place: Place) -> None:
    """The first result comes from the network; the second one is equal and comes from the copy."""
    web, clock = site(document(3)), Clock()
    cache = place.cache(fetcher=web, clock=clock)
    first = await cache.fetch(URL)
    assert (first.source, first.age, first.error, first.url) == ("network", 0.0, None, URL)
    assert names(first) == ["Post 3", "Post 2", "Post 1"]
    clock.now += 10
    second = await place.cache(fetcher=web, clock=clock).fetch(URL)
    assert (second.source, second.age, second.fetched_at) == ("cache", 10.0, NOON)
    assert second.feed == first.feed == parse(document(3), URL, "application/rss+xml")
    assert len(web.asked) == 1


async def test_no_request_within_the_time_to_live(memory: Place) -> None:
    """300 seconds by default, or as set for the cache, for a URL or for a call."""
    web, clock = site(etag=None), Clock()
    cache = memory.cache(fetcher=web, clock=clock)
    for after, requests in ((0, 1), (299, 1), (300, 2)):
        clock.now = NOON + after
        await cache.fetch(URL)
        assert len(web.asked) == requests
    own = memory.cache(fetcher=web, clock=clock, ttl=50, ttls={"https://BLOG.example/feed#x": 1000})
    clock.now += 999
    assert (await own.fetch(URL)).source == "cache"
    assert (await own.fetch(URL, ttl=999)).source == "network"
    assert (await own.fetch(URL, ttl=0)).source == "network"


async def test_validators_are_sent_back_unchanged(place: Place) -> None:
    """Even unusual validators are sent unchanged; a 304 makes the copy fresh again."""
    tag, date = 'W/"b\xe4r, \\"x\\""', "Mon, 01 Jan 2024  00:00:00 GMT"
    web, clock = site(etag=tag, last_modified=date), Clock()
    cache = place.cache(fetcher=web, clock=clock)
    first = await cache.fetch(URL)
    clock.now += 301
    again = await cache.fetch(URL)
    assert (web.asked[1].etag, web.asked[1].last_modified) == (tag, date)
    assert (again.source, again.age, again.fetched_at, again.feed) == ("not_modified", 0.0, NOON, first.feed)
    clock.now += 299
    assert (await cache.fetch(URL)).age == 299
    assert len(web.asked) == 2


async def test_one_validator_is_sent_back(memory: Place) -> None:
    """If the publisher sent only one, no other one is sent."""
    for tag, date in (('"1"', None), (None, "Mon, 01 Jan 2024 00:00:00 GMT")):
        web, clock = site(etag=tag, last_modified=date), Clock()
        cache = memory.cache(fetcher=web, clock=clock)
        await cache.remove(URL)
        await cache.fetch(URL)
        await cache.fetch(URL, force=True)
        assert [(request.etag, request.last_modified) for request in web.asked] == [(None, None), (tag, date)]


async def test_freshness_headers_extend_the_time_to_live(memory: Place) -> None:
    """`max-age` and `Expires`, also of a 304, extend the time to live up to two days; they never shorten it."""
    for max_age, fresh, stale in ((1000.0, 999, 1000), (9e9, 48 * HOUR - 1, 48 * HOUR), (0.0, 299, 300)):
        web, clock = site(max_age=max_age), Clock()
        cache = memory.cache(fetcher=web, clock=clock)
        await cache.remove(URL)
        for source in ("network", "not_modified"):
            assert (await cache.fetch(URL)).source == source
            clock.now += fresh
            assert (await cache.fetch(URL)).source == "cache"
            clock.now += stale - fresh


async def test_a_304_without_freshness_keeps_the_old_headers(memory: Place) -> None:
    """RFC 9111, 4.3.4: headers that the 304 doesn't have stay."""
    web, clock = site(max_age=1000.0), Clock()
    cache = memory.cache(fetcher=web, clock=clock)
    await cache.fetch(URL)
    web.answer = lambda request: NotModified(request.url, request.etag, request.last_modified, None)
    clock.now += 1001
    await cache.fetch(URL)
    clock.now += 999
    assert (await cache.fetch(URL)).source == "cache"


async def test_no_store_is_kept_for_the_time_to_live(memory: Place) -> None:
    """After that it isn't used at all: not after an error, not offline, not for its validators."""
    web, clock = site(cache_control="private, No-Store, max-age=9999", max_age=0.0), Clock()
    cache = memory.cache(fetcher=web, clock=clock)
    await cache.fetch(URL)
    clock.now += 299
    assert (await cache.fetch(URL, offline=True)).source == "cache"
    clock.now += 1
    with pytest.raises(FetchError):
        await cache.fetch(URL, offline=True)
    await cache.fetch(URL)
    assert web.asked[1].etag is None
    web.fail()
    clock.now += 300
    with pytest.raises(FetchError, match="connect"):
        await cache.fetch(URL)


async def test_a_failure_leaves_the_copy(memory: Place) -> None:
    """It is returned with the error and its true age, and its validators are sent next time."""
    web, clock = site(), Clock()
    cache = memory.cache(fetcher=web, clock=clock)
    first = await cache.fetch(URL)
    web.fail("timeout")
    clock.now += 400
    for _ in range(2):
        found = await cache.fetch(URL)
        assert isinstance(found.error, FetchError)
        assert found.error.reason == "timeout"
        assert (found.source, found.age, found.feed) == ("cache", 400.0, first.feed)
    web.serve(document())
    again = await cache.fetch(URL)
    assert (again.source, again.error, web.asked[-1].etag) == ("not_modified", None, '"1"')


async def test_a_broken_document_leaves_the_copy(memory: Place) -> None:
    """The copy keeps its validators; a later valid document replaces it."""
    web, clock = site(), Clock()
    cache = memory.cache(fetcher=web, clock=clock)
    first = await cache.fetch(URL)
    web.serve(b"Maintenance", etag='"bad"')
    found = await cache.fetch(URL, force=True)
    assert isinstance(found.error, ParseError)
    assert (found.source, found.feed, found.etag) == ("cache", first.feed, '"1"')
    web.serve(document(5), etag='"2"')
    again = await cache.fetch(URL, force=True)
    assert (again.source, again.error, len(again.feed.entries)) == ("network", None, 5)
    assert [request.etag for request in web.asked] == [None, '"1"', '"1"']


async def test_errors_are_raised_where_there_is_no_copy(memory: Place) -> None:
    """FetchError or ParseError, and FetchError when offline; credentials are masked."""
    web = site()
    cache = memory.cache(fetcher=web, clock=Clock())
    with pytest.raises(FetchError) as offline:
        await cache.fetch("https://ann:sesame@blog.example/feed", offline=True)
    assert offline.value.reason == "offline"
    assert "sesame" not in str(offline.value)
    assert web.asked == []
    web.fail("dns")
    with pytest.raises(FetchError) as caught:
        await cache.fetch(URL)
    assert caught.value.reason == "dns"
    web.serve(b"nothing", etag=None)
    with pytest.raises(ParseError):
        await cache.fetch(URL)


async def test_retry_after_is_respected(memory: Place) -> None:
    """`Retry-After` applies to all callers and to `force`; it ends in time, or when the clock is set back."""
    web, clock = site(), Clock()
    cache = memory.cache(fetcher=web, clock=clock)
    await cache.fetch(URL)
    web.fail("throttled", status=429, retry_after=1000)
    clock.now += 300
    await cache.fetch(URL)
    clock.now += 999
    found = await cache.fetch(URL, force=True)
    assert (found.source, isinstance(found.error, FetchError), len(web.asked)) == ("cache", True, 2)
    clock.now += 1
    await cache.fetch(URL)
    assert len(web.asked) == 3
    clock.now -= 5000
    await cache.fetch(URL, force=True)
    assert len(web.asked) == 4


async def test_a_410_is_not_requested_again(memory: Place) -> None:
    """A 410 holds until a call uses `force`."""
    web = site()
    web.fail("gone", status=410)
    cache = memory.cache(fetcher=web, clock=Clock())
    for _ in range(2):
        with pytest.raises(FetchError, match="gone"):
            await cache.fetch(URL)
    assert len(web.asked) == 1
    web.serve(document())
    assert (await cache.fetch(URL, force=True)).source == "network"


async def test_unchanged_bytes_are_not_parsed(memory: Place) -> None:
    """A 200 with the same body only costs a hash; validators and age are updated."""
    parsed = []

    def counting(body: bytes, url: str, content_type: str | None) -> object:
        parsed.append(url)
        return parse(body, url, content_type)

    web, clock = site(etag='"1"'), Clock()
    cache = memory.cache(fetcher=web, clock=clock, parse=counting)
    await cache.fetch(URL)
    web.serve(document(), etag='"2"')
    clock.now += 301
    found = await cache.fetch(URL)
    assert (found.source, found.age, found.etag, len(parsed)) == ("network", 0.0, '"2"', 1)
    web.serve(document(9), etag='"3"')
    assert len((await cache.fetch(URL, force=True)).feed.entries) == 9
    assert len(parsed) == 2


async def test_copies_of_other_versions_are_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """This happens once and without a request, because the other version may have stored something else."""
    parsed = []

    def counting(body: bytes, url: str, content_type: str | None) -> object:
        parsed.append(url)
        return parse(body, url, content_type)

    cache = FeedCache({}, fetcher=site(), clock=Clock(), parse=counting)
    with monkeypatch.context() as before:
        before.setattr(feeds, "_mark", lambda: b"0.1 of another version\n")
        first = await cache.fetch(URL)
    for _ in range(2):
        assert (await cache.fetch(URL, offline=True)).feed == first.feed
        assert len(parsed) == 2


async def test_a_storage_runs_in_its_own_thread(tmp_path: Path) -> None:
    """A function opens it, for storages that may only be used in the thread that opened them."""
    opened: list[tuple[shelve.Shelf[bytes], threading.Thread]] = []

    def opening() -> shelve.Shelf[bytes]:
        opened.append((shelve.open(str(tmp_path / "shelf")), threading.current_thread()))  # noqa: SIM115
        return opened[-1][0]

    for source in ("network", "cache"):
        async with FeedCache(opening, fetcher=site(), clock=Clock()) as cache:
            assert (await cache.fetch(URL)).source == source
        shelf, thread = opened[-1]
        assert thread is not threading.current_thread()
        with pytest.raises(ValueError, match="closed shelf"):
            list(shelf)
    assert len(opened) == 2


async def test_an_open_shelf_keeps_copies_or_is_refused(tmp_path: Path) -> None:
    """One on SQLite, as usual from Python 3.13 on, works only in the thread that opened it."""
    with shelve.open(str(tmp_path / "shelf")) as shelf:
        if type(shelf.dict).__module__ == "dbm.sqlite3":
            with pytest.raises(TypeError, match=r"FeedCache\(lambda: shelve.open"):
                FeedCache(shelf, fetcher=site())
            return
        async with FeedCache(shelf, fetcher=site(), clock=Clock()) as cache:
            assert [(await cache.fetch(URL)).source for _ in range(2)] == ["network", "cache"]


async def test_a_clock_that_jumps(memory: Place) -> None:
    """After a jump in either direction there is at most one conditional request more, and no copy is fresh forever."""
    web, clock = site(), Clock()
    cache = memory.cache(fetcher=web, clock=clock)
    await cache.fetch(URL)
    clock.now -= 30 * 86400
    assert (await cache.fetch(URL)).source == "not_modified"
    assert (await cache.fetch(URL)).source == "cache"
    clock.now += 60 * 86400
    assert (await cache.fetch(URL)).source == "not_modified"
    clock.now -= 30
    assert ((await cache.fetch(URL)).source, (await cache.fetch(URL)).age) == ("cache", 0.0)
    assert all(request.etag for request in web.asked[1:])


@pytest.mark.parametrize("damage", ["empty", "noise", "cut", "flipped", "other version", "other url", "pickle"])
async def test_damaged_copies_count_as_absent(place: Place, damage: str) -> None:
    """They are logged and replaced, and never raise an error or reach a caller."""
    web, clock = site(), Clock()
    cache = place.cache(fetcher=web, clock=clock)
    await cache.fetch(URL)
    raw = place.raw()
    good = raw[URL]
    raw[URL] = {
        "empty": b"",
        "noise": bytes(range(256)) * 9,
        "cut": good[:-1],
        "flipped": good[:300] + bytes([good[300] ^ 1]) + good[301:],
        "other version": good.replace(b"microsub-copy 1 ", b"microsub-copy 9 ", 1),
        "other url": good.replace(b"blog.example", b"evil.example"),
        "pickle": b"cos\nsystem\n(S'false'\ntR.",
    }[damage]
    with structlog.testing.capture_logs() as lines:
        with pytest.raises(FetchError, match="no stored copy"):
            await cache.fetch(URL, offline=True)
        found = await cache.fetch(URL)
    assert (found.source, web.asked[1].etag, len(lines)) == ("network", None, 3)
    assert all("corrupt" in line["event"] for line in lines)
    assert (await cache.fetch(URL)).source == "cache"


async def test_purge_forgets_the_old_and_the_damaged(place: Place) -> None:
    """A copy that was checked recently stays, whenever it was fetched; a removed one is fetched unconditionally."""
    web, clock = site(), Clock()
    cache = place.cache(fetcher=web, clock=clock)
    old, checked, bad = "https://a.example/", "https://b.example/", "https://c.example/"
    for url in (old, checked, bad):
        await cache.fetch(url)
    clock.now += HOUR
    await cache.fetch(checked)
    place.raw()[bad] = b"?"
    assert await cache.purge(HOUR / 2) == 2
    assert list(place.raw()) == [checked]
    assert await cache.purge(HOUR) == 0
    await cache.fetch(old)
    assert web.asked[-1].etag is None
    await cache.remove(old)
    await cache.remove(old)
    assert await cache.purge(-1) == 1
    assert list(place.raw()) == []


async def test_many_forms_of_one_address_share_a_copy(place: Place) -> None:
    """International hosts and paths, case, default port and fragment: one request, made to the URL as given."""
    web = site()
    cache = place.cache(fetcher=web, clock=Clock())
    forms = (
        "https://bücher.example/straße?q=ü",
        "https://xn--bcher-kva.example/stra%C3%9Fe?q=%C3%BC",
        "HTTPS://BÜCHER.example:443/straße?q=ü#top",
        "feed:https://bücher.example/straße?q=ü",
    )
    for url in forms:
        assert (await cache.fetch(url)).url == url
    assert [request.url for request in web.asked] == [forms[0]]
    assert len(place.raw()) == 1
    assert (await cache.fetch("https://emoji.example/😀/\udc80")).source == "network"


async def test_tasks_share_one_request(place: Place) -> None:
    """One of many simultaneous calls asks the publisher, also with `force`; all share its success or failure."""
    web = site()
    cache = place.cache(fetcher=web, clock=Clock())
    for answer in ("good", "bad"):
        web.gate = asyncio.Event()
        tasks = [asyncio.ensure_future(cache.fetch(URL, force=number % 2 == 0)) for number in range(20)]
        await wait_until(lambda: web.asked)
        if answer == "bad":
            web.fail()
        asyncio.get_running_loop().call_later(0.05, web.gate.set)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert len(web.asked) == 1
        if answer == "good":
            assert sorted(found.source for found in results) == ["cache"] * 19 + ["network"]  # type: ignore[union-attr]
        else:
            assert {type(found) for found in results} == {FetchError}
        web.asked.clear()
        await cache.remove(URL)


def answers() -> Counter[str]:
    samples = [sample for family in FEED_CACHE_ANSWERS.collect() for sample in family.samples]
    return Counter({one.labels["answer"]: int(one.value) for one in samples if one.name.endswith("_total")})


async def test_answers_are_counted_by_their_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each result counts once: without a request, from another call, or by a request that succeeded or failed."""
    web, clock = site(), Clock()
    cache = FeedCache(fetcher=web, clock=clock)

    async def answered(url: str = URL, **how: Any) -> dict[str, int]:
        before = answers()
        await asyncio.gather(cache.fetch(url, **how), return_exceptions=True)
        return dict(answers() - before)

    assert await answered() == {"fetched": 1}
    assert await answered() == {"fresh": 1}
    assert await answered(offline=True) == {"offline": 1}
    assert await answered(force=True) == {"revalidated": 1}
    web.fail("timeout")
    assert await answered(force=True) == {"stale": 1}
    web.fail("throttled", status=429, retry_after=60.0)
    assert await answered("https://elsewhere.example/feed") == {"failed": 1}
    assert await answered("https://elsewhere.example/feed") == {"paused": 1}
    web.serve(document(5), etag='"2"')
    web.gate = asyncio.Event()
    requests, joined = cache._copies._requests, list[object]()
    wait = requests.wait
    monkeypatch.setattr(requests, "wait", lambda request: joined.append(request) or wait(request))
    before = answers()
    tasks = [asyncio.ensure_future(cache.fetch(URL, force=True)) for _ in range(3)]
    await wait_until(lambda: len(web.asked) == 5 and len(joined) == 2)
    web.gate.set()
    await asyncio.gather(*tasks)
    assert answers() - before == Counter(fetched=1, coalesced=2)


async def test_a_cancelled_call_doesnt_cancel_the_others(place: Place) -> None:
    """If the call with the request is cancelled, another one makes it; if a waiting call is, the others continue."""
    web = site()
    web.gate = asyncio.Event()
    cache = place.cache(fetcher=web, clock=Clock())
    tasks = [asyncio.ensure_future(cache.fetch(URL)) for _ in range(5)]
    await wait_until(lambda: web.asked)
    asker = next(task for task in tasks if task is web.askers[0])
    waiting = next(task for task in tasks if task is not asker)
    asker.cancel()
    waiting.cancel()
    await wait_until(lambda: len(web.asked) == 2)
    web.gate.set()
    results = dict(zip(tasks, await asyncio.gather(*tasks, return_exceptions=True), strict=True))
    gave_up = {task for task, found in results.items() if isinstance(found, asyncio.CancelledError)}
    assert gave_up == {asker, waiting}
    assert len(web.asked) == 2


def test_threads_share_one_request(place: Place) -> None:
    """16 threads use the synchronous interface at once."""
    web = site()
    web.threads_gate = threading.Event()
    sources: list[str] = []
    with place.blocking(fetcher=web) as cache:
        threads = [threading.Thread(target=lambda: sources.append(cache.fetch(URL).source)) for _ in range(16)]
        for thread in threads:
            thread.start()
        web.threads_gate.set()
        for thread in threads:
            thread.join()
        assert sorted(sources) == ["cache"] * 15 + ["network"]
        assert len(web.asked) == 1
        web.serve(document(3), etag='"2"')
        assert len(cache.fetch(URL, force=True).feed.entries) == 3
        assert cache.purge(1000) == 0
        cache.remove(URL)
        with pytest.raises(FetchError):
            cache.fetch(URL, offline=True)


def test_threads_with_different_feeds(place: Place) -> None:
    """A storage that isn't thread-safe stays intact: every copy is complete."""
    web = site()
    urls = [f"https://{number}.example/feed" for number in range(40)]
    with place.blocking(fetcher=web) as cache:
        found = dict(cache.fetch_many(urls + urls))
        assert {url: each.source for url, each in found.items()} == dict.fromkeys(urls, "network")  # type: ignore[union-attr]
        assert sorted(place.raw()) == sorted(urls)
        assert {cache.fetch(url).source for url in urls} == {"cache"}


async def test_many_at_once_but_one_per_host(memory: Place) -> None:
    """`fetch_many` yields feeds and errors as they arrive, with one request at a time per host."""
    web = site()
    busy: dict[str, int] = {}
    good = web.answer

    class Watching:
        async def fetch(self, request: FetchRequest) -> FetchResult:
            host = request.url.split("/")[2]
            busy[host] = busy.get(host, 0) + 1
            assert busy[host] == 1
            await asyncio.sleep(0.001)
            busy[host] -= 1
            if "bad" in request.url:
                return Fetched(request.url, request.url, 200, {}, b"?", None, None, None, None)
            return good(request)

    cache = memory.cache(fetcher=Watching(), clock=Clock())
    urls = [f"https://{host}.example/{path}" for host in "abc" for path in ("1", "2", "bad")]
    outcomes = {url: outcome async for url, outcome in cache.fetch_many(urls, at_once=3)}
    assert {url for url, outcome in outcomes.items() if isinstance(outcome, ParseError)} == {
        url for url in urls if "bad" in url
    }
    assert len(outcomes) == 9


async def test_huge_documents_are_not_kept(place: Place) -> None:
    """A document over 2 MiB after compression is returned to all callers, and the older copy is removed."""
    import random

    web = site()
    cache = place.cache(fetcher=web, clock=Clock())
    await cache.fetch(URL)
    noise = random.Random(1).randbytes(1_500_000).hex().encode()
    web.serve(document(3).replace(b"</channel>", b"<!--" + noise + b"--></channel>"), etag='"2"')
    found = await cache.fetch(URL, force=True)
    assert len(found.feed.entries) == 3
    assert URL in place.raw()
    noise = random.Random(1).randbytes(2_500_000).hex().encode()
    web.serve(document(4).replace(b"</channel>", b"<!--" + noise + b"--></channel>"), etag='"3"')
    found = await cache.fetch(URL, force=True)
    assert len(found.feed.entries) == 4
    assert URL not in place.raw()


async def test_a_failing_storage_doesnt_stop_the_feed() -> None:
    """Errors of a mapping are logged; the feed comes from the network."""
    from microsub.cache import FeedCache

    class Broken(dict[str, bytes]):
        def get(self, *_: object) -> bytes:
            raise OSError("no disk")

        def __setitem__(self, *_: object) -> None:
            raise OSError("disk full")

    web = site()
    with structlog.testing.capture_logs() as lines:
        async with FeedCache(Broken(), fetcher=web, clock=Clock()) as cache:
            assert (await cache.fetch(URL)).source == "network"
            assert (await cache.fetch(URL)).source == "network"
    assert {line["problem"] for line in lines} == {"OSError: no disk", "OSError: disk full"}


class Locked:
    """A storage as an earlier feed cache had it: a lock that isn't a method, and nothing but reading and writing."""

    def __init__(self, storage: dict[str, bytes]) -> None:
        self.lock = threading.Lock()
        self.storage = storage

    def get(self, key: str, default: Any = None) -> Any:
        with self.lock:
            return self.storage.get(key, default)

    def __getitem__(self, key: str) -> bytes:
        with self.lock:
            return self.storage[key]

    def __setitem__(self, key: str, value: bytes) -> None:
        with self.lock:
            self.storage[key] = value


class Unregistered:
    """What has the methods of a mapping, without being registered as one."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def __getitem__(self, key: str) -> bytes:
        return self.kept[key]

    def __setitem__(self, key: str, value: bytes) -> None:
        self.kept[key] = value

    def __delitem__(self, key: str) -> None:
        del self.kept[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.kept)


class Choosy(Unregistered):
    """What refuses unknown names with an error of its own, as `diskcache.FanoutCache` does."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"cannot access {name}")


@pytest.mark.parametrize("storage", [Locked({}), Unregistered(), Choosy()], ids=["locked", "unregistered", "choosy"])
async def test_any_mutable_mapping_is_a_storage(storage: Any) -> None:
    """Three calls, one request; forgetting a URL works too."""
    web = site()
    async with FeedCache(storage, fetcher=web, clock=Clock()) as cache:
        found = [await cache.fetch(URL) for _ in range(3)]
        assert [one.storage_error for one in found] == [None] * 3
        assert len(web.asked) == 1
        await cache.remove(URL)
        assert (await cache.fetch(URL)).source == "network"
        assert len(web.asked) == 2
        await cache.purge(older_than=10.0)


@pytest.mark.parametrize("storage", ["feeds", b"", [], 3, Path("feeds"), object()])
def test_an_invalid_storage_is_refused_at_once(storage: Any) -> None:
    with pytest.raises(TypeError, match="expected a mapping of text to bytes"):
        FeedCache(storage)


async def test_an_error_of_the_storage_comes_with_the_feed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And stands in the program's own log."""
    (tmp_path / "file").touch()
    structlog_config = structlog.get_config() if structlog.is_configured() else None
    structlog.reset_defaults()
    try:
        async with FeedCache(DirectoryMapping(tmp_path / "file" / "feeds"), fetcher=site(), clock=Clock()) as cache:
            found = await cache.fetch(URL)
        async with FeedCache(object, fetcher=site(), clock=Clock()) as cache:  # type: ignore[arg-type]
            opened = await cache.fetch(URL)
    finally:
        if structlog_config is not None:
            structlog.configure(**structlog_config)
    assert isinstance(found.storage_error, OSError)
    assert isinstance(opened.storage_error, TypeError)
    assert {record.name for record in caplog.records} == {"microsub.cache"}
    assert f"a copy can't be stored url={URL} problem=" in caplog.text


@pytest.mark.parametrize("url", [None, b"https://blog.example/feed", 7])
async def test_an_address_is_a_text(url: Any) -> None:
    async with FeedCache(fetcher=site(), clock=Clock()) as cache:
        with pytest.raises(TypeError, match="expected the http or https URL of a feed"):
            await cache.fetch(url)
        with pytest.raises(TypeError, match="expected the http or https URL of a feed"):
            _ = [one async for one in cache.fetch_many([URL, url])]
