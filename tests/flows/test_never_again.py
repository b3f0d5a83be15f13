"""Random histories of feeds and a reader, over the real pipeline: nothing becomes unread again.

Publishers add, edit, rename, drop and restore posts and write their guids differently; readers follow, unfollow, move,
mark and remove; retention, sweeps and rebuilds run in between, and time passes. After every step: no post twice in a
channel, and no post is unread that was read, removed or cleaned up there, unless its reader marked it as unread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from email.utils import formatdate
from typing import TypeVar

import orjson
import pytest
import structlog
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from microsub.admin.sweep import GRACE, Sweeping
from microsub.configuration.model import DeliverySettings, InstanceSettings
from microsub.fetch import Fetched, FetchRequest, FetchResult
from microsub.model.settings import ChannelSettings
from microsub.server.jobs import rebuilding
from microsub.timelines.retention import Retention
from tests.support import examples, later
from tests.support.histories import History, emptied, try_histories
from tests.support.invariants import violations
from tests.support.polling import World

T = TypeVar("T")
UIDS = ("home", "work")
FEEDS = ("one", "two")
EXAMPLES = examples(8)
LIMITS = ChannelSettings(keep_read_days=2, keep_unread_days=20, max_items=8, unread="count", first_fetch_unread=3)
AGELESS = InstanceSettings(delivery=DeliverySettings(warm_up_days=0))
SPELLINGS = ("https://{feed}.test/{n}", "http://{feed}.test/{n}", "https://{feed}.test/{n}?utm_source=feed")
"""Spellings of one guid, as publishers change it between days."""

uids = st.sampled_from(UIDS)
feeds = st.sampled_from(FEEDS)
numbers = st.integers(0, 11)


class Publisher:
    """Documents by address, generated on request."""

    def __init__(self) -> None:
        self.listed: dict[str, dict[int, str]] = {feed: {} for feed in FEEDS}
        self.spelling = dict.fromkeys(FEEDS, 0)

    async def fetch(self, request: FetchRequest) -> FetchResult:
        (feed,) = (name for name in FEEDS if f"{name}.test" in request.url)
        items = "".join(
            f"<item><guid>{SPELLINGS[self.spelling[feed]].format(feed=feed, n=n).replace('&', '&amp;')}</guid>"
            f"<title>{n} {title}</title><pubDate>{formatdate(1_600_000_000 + n * 86400, usegmt=True)}</pubDate></item>"
            for n, title in sorted(self.listed[feed].items(), reverse=True)
        )
        body = f"<rss version='2.0'><channel><title>{feed}</title>{items}</channel></rss>".encode()
        return Fetched(request.url, request.url, 200, {}, body, "text/xml", None, None, None, None)


class Machine(History):
    """One reader, two channels, two feeds, all stages."""

    def __init__(self) -> None:
        super().__init__()
        self.it = World(self.redis)
        self.site = Publisher()
        self.it.fetcher = self.site  # type: ignore[assignment]
        self.following = self.it.following
        self.done: dict[str, set[str]] = {uid: set() for uid in UIDS}
        self.before: dict[str, dict[str, bool]] = {uid: {} for uid in UIDS}
        self.excused: dict[str, set[str]] = {uid: set() for uid in UIDS}

    def teardown(self) -> None:
        self.it.parser.close()
        super().teardown()

    @initialize(first=st.sets(numbers, min_size=2))
    def begin(self, first: set[int]) -> None:
        self.run(self.it.accounts.add_user("alice", "", self.it.clock()))
        for uid in UIDS:
            self.run(self.it.channels.create("alice", uid, self.it.clock(), uid))
        self.site.listed["one"] = dict.fromkeys(first, "new")
        self.follow("home", "one")
        self.poll("one")

    # --- publishers --------------------------------------------------------------------------------------------------

    @rule(feed=feeds, n=numbers, title=st.sampled_from(("new", "edited", "edited again")))
    def publish(self, feed: str, n: int, title: str) -> None:
        self.site.listed[feed][n] = title

    @rule(feed=feeds, n=numbers)
    def drop(self, feed: str, n: int) -> None:
        self.site.listed[feed].pop(n, None)

    @rule(feed=feeds, spelling=st.integers(0, len(SPELLINGS) - 1))
    def spell_guids_otherwise(self, feed: str, spelling: int) -> None:
        self.site.spelling[feed] = spelling

    @rule(feed=feeds)
    def poll(self, feed: str) -> None:
        found = self.run(self.it.feeds.find(url(feed)))
        if found is not None:
            self.run(self.it.poll_id(found))

    # --- the reader --------------------------------------------------------------------------------------------------

    @rule(uid=uids, feed=feeds)
    def follow(self, uid: str, feed: str) -> None:
        self.run(self.following.follow("alice", uid, url(feed), self.it.clock()))

    @rule(uid=uids, feed=feeds)
    def unfollow(self, uid: str, feed: str) -> None:
        self._excuse_unread(uid, feed)
        self.run(self.following.unfollow("alice", uid, url(feed), self.it.clock()))

    @rule(uid=uids, feed=feeds)
    def follow_elsewhere(self, uid: str, feed: str) -> None:
        followed = self.run(self.it.channels.all_subscriptions("alice"))
        if any(sub.url == url(feed) for subs in followed.values() for sub in subs):
            self.run(self.following.move("alice", uid, url(feed), self.it.clock()))
            # Posts keep their state in the new channel; in the old one they are done.
            self.done[uid] -= {name for name in self.done[uid] if name.startswith(feed)}

    @rule(uid=uids, pick=st.integers(0, 30), unread=st.booleans())
    def mark(self, uid: str, pick: int, unread: bool) -> None:
        if chosen := self._pick(uid, pick):
            item, name = chosen
            act = self.it.timelines.mark_unread if unread else self.it.timelines.mark_read
            self.run(act("alice", uid, [item], self.it.clock()))
            if unread:
                self.done[uid].discard(name)
                self.before[uid].pop(name, None)

    @rule(uid=uids, pick=st.integers(0, 30))
    def remove(self, uid: str, pick: int) -> None:
        if chosen := self._pick(uid, pick):
            self.run(self.it.timelines.remove("alice", uid, [chosen[0]], self.it.clock()))

    @rule(uid=uids, pick=st.integers(0, 30))
    def move(self, uid: str, pick: int) -> None:
        if chosen := self._pick(uid, pick):
            other = UIDS[1 - UIDS.index(uid)]
            self.run(self.it.timelines.move("alice", other, [chosen[0]], self.it.clock()))
            self.done[other].discard(chosen[1])  # its state moves with it

    # --- upkeep ------------------------------------------------------------------------------------------------------

    @rule(days=st.sampled_from((0.5, 3, 25)))
    def time_passes(self, days: float) -> None:
        self.it.clock.advance(days * 86400)

    @rule()
    def clean_up(self) -> None:
        async def limits(_user: str, _uid: str) -> ChannelSettings:
            return LIMITS

        async def declared() -> Sequence[str]:
            return ()

        it = self.it
        retention = Retention(it.redis, it.accounts, it.channels, it.items, limits, declared)
        self.run(retention.run(it.clock()))
        for uid in UIDS:
            self.run(retention.visit(f"alice {uid}", it.clock()))

    @rule(kept=st.integers(0, 3), twice=st.booleans())
    def sweep(self, kept: int, twice: bool) -> None:
        for _ in range(1 + twice):
            self.run(
                Sweeping(self.redis, self.it.accounts, self.it.feeds, self.it.outputs, kept=later(lambda: kept)).run(
                    self.it.clock()
                )
            )
            self.it.clock.advance(GRACE + 1)

    @rule(uid=st.sampled_from((*UIDS, None)))
    def rebuild(self, uid: str | None) -> None:
        service = replace(rebuilding(self.it), settings=later(lambda: AGELESS))
        self.run(service.rebuild("alice", uid, self.it.clock()))
        self.run(self.it.stages.run_once())

    # --- invariant ---------------------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_unread_again(self) -> None:
        assert not any(self.run_all(violations(self.redis, "alice", uid) for uid in UIDS))
        for uid in UIDS:
            shown = self._shown(uid)
            names = [name for _, name, _ in shown]
            assert len(names) == len(set(names)), f"twice in {uid}: {names}"
            now = {name: is_read for _, name, is_read in shown}
            again = {name for name, is_read in now.items() if not is_read} & self.done[uid]
            assert not again, f"unread again in {uid}: {again}"
            left = self.before[uid].keys() - now.keys() - self.excused[uid]
            self.done[uid] |= left | {name for name, is_read in now.items() if is_read}
            self.before[uid] = now
            self.excused[uid] = set()

    def _shown(self, uid: str) -> list[tuple[str, str, bool]]:
        """Item id, post name and read flag of each item."""
        if not self.run(self.it.accounts.user("alice")):
            return []
        rows = self.run(self.it.rows("alice", uid, 1000))
        data = self.run(self.it.items.data([row.id for row in rows]))
        assert all(data), "a timeline refers to an item that isn't there"
        wires = [orjson.loads(one or b"{}") for one in data]
        feeds = [wire["url"].split("//")[1].split(".")[0] for wire in wires]
        names = [f"{feed} {wire['name'].split()[0]}" for feed, wire in zip(feeds, wires, strict=True)]
        return [(row.id, name, row.is_read) for row, name in zip(rows, names, strict=True)]

    def _pick(self, uid: str, pick: int) -> tuple[str, str] | None:
        shown = self._shown(uid)
        return shown[pick % len(shown)][:2] if shown else None

    def _excuse_unread(self, uid: str, feed: str) -> None:
        """Posts that an unfollow removes while unread may come back with a new follow."""
        self.excused[uid] = {name for _, name, is_read in self._shown(uid) if not is_read and name.startswith(feed)}


def url(feed: str) -> str:
    return f"https://{feed}.test/feed"


@pytest.mark.timeout(600)
def test_read_and_removed_items_never_return(redis_url: str) -> None:
    """Random histories on a real Redis."""
    structlog.configure(processors=[], logger_factory=structlog.ReturnLoggerFactory())  # thousands of polls
    try_histories(Machine, emptied(redis_url), EXAMPLES, steps=30)
