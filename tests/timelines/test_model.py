"""Random operations on one reader's timelines, in any order, against a brute-force model.

After every step the pages, flags, counts and the memory of items that left equal those of the model, the invariants of
the keys hold, and no item that was read, removed, moved or cleaned up is unread again unless its reader asked for that.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product, starmap
from typing import TypeVar
from unittest.mock import AsyncMock

import orjson
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from microsub.base.errors import QuotaReached
from microsub.configuration.model import DeliverySettings, InstanceSettings
from microsub.model.reader import SAVED, Cursor, Duplicate, PageQuery, Reason, TimelineItem
from microsub.model.settings import USUAL, Filters, OwnChannelSettings
from microsub.redis import keys
from microsub.redis.replies import texts
from microsub.redis.scripts import load
from microsub.timelines import READ_EVERYWHERE, SavedPosts
from microsub.timelines.backlog import CatchUp
from microsub.timelines.gone import Absence, absences
from microsub.timelines.sync.arrivals import keep_order
from tests.conftest import fake_redis
from tests.support import THOROUGH, examples, later
from tests.support.histories import History, emptied, try_histories
from tests.support.invariants import violations, wrong_arrivals
from tests.support.one_reader import ANN, OneReader
from tests.support.timelines import pack_readings, readings_of_layout_14, unread_of_layout_12
from tests.timelines.model import Model, ModelChannel

T = TypeVar("T")
UIDS = ("notifications", "home", "work")
ALL = (*UIDS, SAVED)
FEEDS = ("1", "2", "3")
AUTHORS = ("https://a.example/", "https://b.example/", "")
WORDS = ("tea", "rain", "chess")
START = 1_000.0
EXAMPLES = examples(20)
"""The number of random histories."""

uids = st.sampled_from(UIDS)
goals = st.sampled_from(ALL)
anywhere = st.sampled_from((*ALL, "global"))
ruled = st.sampled_from((*UIDS, "global"))
feeds = st.sampled_from(FEEDS)
urls = st.sampled_from((*AUTHORS[:2], "https://3.example/"))
ids = st.integers(8, 31).map(str)
limits = st.sampled_from((0, 0, 3, 5))
some_ids = st.lists(ids, min_size=1, max_size=6)


def universe() -> tuple[dict[str, TimelineItem], dict[str, str]]:
    """Items 8 to 31 in three feeds, many with the same score; posts of feeds 1 and 2 have copies of each other."""
    items, feed_of = {}, {}
    for number in range(8, 32):
        feed = FEEDS[number % 3]
        feed_of[str(number)] = feed
        score = repr(990.0 + number // 4 * 2.5 + 0.000001 * (number % 2))
        sources = (f"https://{feed}.example/",)
        items[str(number)] = TimelineItem(str(number), score, AUTHORS[number % len(AUTHORS) - 1], sources)
    for number in range(9, 31, 6):
        one, other = str(number), str(number + 1)
        items[one] = replace(items[one], duplicates=(Duplicate(other, feed_of[other], wins=False),))
        items[other] = replace(items[other], duplicates=(Duplicate(one, feed_of[one], wins=True),))
    return items, feed_of


def scored(flat: list[bytes]) -> dict[str, float]:
    """Members and scores of a sorted set."""
    return {one.decode(): float(at) for one, at in zip(flat[0::2], flat[1::2], strict=True)}


class Machine(History):
    """One reader, three channels, three feeds."""

    def __init__(self) -> None:
        super().__init__()
        self.world = OneReader(self.redis)
        self.saved = SavedPosts(self.redis, self.world.items)  # type: ignore[arg-type]
        self.rules = self.world.rules
        self.now = START
        items, feed_of = universe()
        self.world.items.items = dict(items)
        self.world.items.feeds = feed_of
        self.model = Model(dict(items), feed_of, {uid: ModelChannel() for uid in ALL})
        self.settled: dict[str, set[str]] = {uid: set() for uid in ALL}
        self.places: dict[str, float] = {}
        self.last_place = 0.0
        self.is_ordered = False
        self.seen: dict[str, dict[str, bool]] = {uid: {} for uid in ALL}
        for one in items:
            self.say(one, WORDS[int(one) % len(WORDS)])

    def say(self, item: str, word: str) -> None:
        self.model.words[item] = word
        self.world.items.data[item] = orjson.dumps({"type": "entry", "content": {"text": word}})

    @initialize(pairs=st.sets(st.tuples(uids, feeds), min_size=3), first=st.sets(ids), syncs=st.booleans())
    def begin(self, pairs: set[tuple[str, str]], first: set[str], syncs: bool) -> None:
        self.run(self.world.accounts.add_user(ANN, "", START))
        self.run(self.world.accounts.set_settings(ANN, {READ_EVERYWHERE: "no"}))
        if syncs:
            self.an_app_syncs()
        self.run(self.redis.command("XADD", keys.live_events(ANN), "*", "event", "opened"))
        for uid in UIDS[1:]:
            self.run(self.world.channels.create(ANN, uid, START, uid))
        for uid, feed in sorted(pairs):
            self.follow(uid, feed)
            self.deliver(uid, feed, sorted(first), 0, 2)

    @rule()
    def an_app_syncs(self) -> None:
        """From then on the order of arrival is kept; earlier items come before later ones."""
        now = self.tick()
        assert self.run(keep_order(self.redis, self.world.items, ANN, now)) == self.is_ordered
        self.is_ordered = True

    def tick(self) -> float:
        self.now += 1
        return self.now

    # --- operations --------------------------------------------------------------------------------------------------

    @rule(uid=uids, feed=feeds)
    def follow(self, uid: str, feed: str) -> None:
        now = self.tick()
        channel = self.model.channels[uid]
        new = self.run(self.world.channels.follow(ANN, uid, feed, f"https://{feed}.example/", now))
        assert new == (feed not in channel.feeds)
        if new:
            channel.feeds[feed] = now

    @rule(uid=uids, feed=feeds)
    def unfollow(self, uid: str, feed: str) -> None:
        now = self.tick()
        was = self.run(self.world.channels.unfollow(ANN, uid, feed))
        assert was == (feed in self.model.channels[uid].feeds)
        self.run(self.world.timelines.unfollow(ANN, uid, feed, now))
        self.model.unfollow(uid, feed)

    @rule(uid=uids, feed=feeds, chosen=some_ids, limit=limits, fresh=st.integers(0, 3))
    def deliver(self, uid: str, feed: str, chosen: list[str], limit: int, fresh: int) -> None:
        now = self.tick()
        mine = [one for one in dict.fromkeys(chosen) if self.model.feed_of[one] == feed]
        items = [self.model.items[one] for one in mine]
        self.run(self.world.timelines.add(ANN, uid, feed, items, now=now, limit=limit, fresh=fresh))
        self.model.add(uid, feed, mine, now, limit, fresh)

    @rule(feed=feeds, limit=limits, twice=st.booleans())
    def poll(self, feed: str, limit: int, twice: bool) -> None:
        """Delivers all items of a feed to all channels, as after a rebuild, and possibly twice, as after a crash."""
        mine = [one for one in self.model.items if self.model.feed_of[one] == feed]
        for _ in range(1 + twice):
            for uid in UIDS:
                self.deliver(uid, feed, mine, limit, 2)

    @rule(uid=uids, words=st.sets(st.sampled_from(WORDS)))
    def filter_by(self, uid: str, words: set[str]) -> None:
        """Sets or removes a filter; items that are in the channel stay, and others don't come in."""
        filters = {"exclude_words": sorted(words)} if words else {}
        self.run(
            self.world.channels.set_settings(ANN, uid, OwnChannelSettings(filters=Filters.of(filters)), self.tick())
        )
        self.model.channels[uid].excluded = words

    @rule(words=st.sets(st.sampled_from(WORDS)))
    def filter_everywhere(self, words: set[str]) -> None:
        """Sets or removes the filter for all channels."""
        filters = Filters(exclude_words=tuple(sorted(words)))
        self.run(self.world.accounts.set_settings(ANN, {"filters": filters.stored()}))
        self.model.excluded = words

    @rule(item=ids, word=st.sampled_from(WORDS), limit=limits)
    def edit(self, item: str, word: str, limit: int) -> None:
        """An item with a changed text is offered again to the channels with filters, and to no others."""
        now, feed = self.tick(), self.model.feed_of[item]
        self.say(item, word)
        for _, uid in self.run(self.world.timelines.filtering(feed, [(ANN, uid) for uid in UIDS])):
            assert self.model.excluded_in(uid)
            self.run(self.world.timelines.add(ANN, uid, feed, [self.model.items[item]], now=now, limit=limit, fresh=0))
            self.model.add(uid, feed, [item], now, limit, 0)

    @rule(uid=uids, feed=feeds, chosen=some_ids)
    def leave_for_later(self, uid: str, feed: str, chosen: list[str]) -> None:
        """The delivery for readers who are inactive."""
        mine = [one for one in chosen if self.model.feed_of[one] == feed]
        if mine:
            since = min((self.model.items[one].score for one in mine), key=float)
            self.run(self.world.timelines.put_off(feed, since, [(ANN, uid)]))
            self.model.leave_for_later(uid, feed, mine)

    @rule(limit=limits, fresh=st.integers(0, 3))
    def come_back(self, limit: int, fresh: int) -> None:
        """The first request afterwards fills the timelines; nothing waits any more."""
        now = self.tick()
        limited = AsyncMock(return_value=replace(USUAL, max_items=limit, first_fetch_unread=fresh))
        ageless = InstanceSettings(delivery=DeliverySettings(warm_up_days=0))
        filling = CatchUp(self.redis, self.world.items, self.world.timelines, limited, later(lambda: ageless))  # type: ignore[arg-type]
        assert self.run(filling.fill(ANN, "global", now))
        assert not self.run(self.redis.command("EXISTS", keys.behind(ANN)))
        self.model.catch_up(now, limit, fresh)

    @rule(uid=anywhere, chosen=some_ids)
    def mark_read(self, uid: str, chosen: list[str]) -> None:
        now = self.tick()
        changed = self.run(self.world.timelines.mark_read(ANN, uid, chosen, now))
        assert changed == self.model.mark(uid, chosen, now)

    @rule(uid=anywhere, chosen=some_ids)
    def mark_unread(self, uid: str, chosen: list[str]) -> None:
        changed = self.run(self.world.timelines.mark_unread(ANN, uid, chosen, self.tick()))
        assert changed == self.model.mark(uid, chosen, None)
        for name in ALL if uid == "global" else [uid]:
            self.settled[name] -= set(chosen)

    @rule(uid=anywhere, last=ids)
    def mark_before(self, uid: str, last: str) -> None:
        now = self.tick()
        changed = self.run(self.world.timelines.mark_read_before(ANN, uid, last, now))
        assert changed == self.model.mark_before(uid, last, now)

    @rule(uid=anywhere)
    def mark_all(self, uid: str) -> None:
        now = self.tick()
        changed = self.run(self.world.timelines.mark_all_read(ANN, uid, now))
        assert changed == self.model.mark_before(uid, None, now)

    @rule(uid=anywhere, chosen=some_ids)
    def remove(self, uid: str, chosen: list[str]) -> None:
        removed = self.run(self.world.timelines.remove(ANN, uid, chosen, self.tick()))
        assert removed == self.model.remove(uid, chosen, Reason.REMOVED)

    @rule(goal=goals, chosen=some_ids, hidden_too=st.booleans())
    def move(self, goal: str, chosen: list[str], hidden_too: bool) -> None:
        shown = {one for uid in ALL if uid != goal for one in self.model.channels[uid].posts}
        moved = self.run(self.world.timelines.move(ANN, goal, chosen, self.tick(), hidden_too=hidden_too))
        assert moved == self.model.move(goal, chosen, hidden_too=hidden_too)
        asked_for = set(chosen) if not hidden_too else set(chosen) & shown
        returned = {one for one in chosen if self.model.channels[goal].gone.get(one) is None}
        self.settled[goal] -= asked_for | returned

    @rule(uid=anywhere, chosen=some_ids, most=st.sampled_from((0, 0, 5)))
    def save(self, uid: str, chosen: list[str], most: int) -> None:
        now = self.tick()
        room = self.model.save(uid, chosen, now, most)
        try:
            assert self.run(self.saved.save(ANN, chosen, now, uid=uid, most=most)) == room
        except QuotaReached:
            assert room is None

    @rule(chosen=some_ids)
    def unsave(self, chosen: list[str]) -> None:
        left = self.run(self.saved.unsave(ANN, chosen, self.tick()))
        assert left == self.model.remove(SAVED, chosen, Reason.REMOVED)

    @rule(uid=ruled, url=urls, on=st.booleans())
    def mute(self, uid: str, url: str, on: bool) -> None:
        act = self.rules.mute if on else self.rules.unmute
        self.run(act(ANN, uid, url, self.tick()))
        self.model.rule(uid, "muted", url, on=on)

    @rule(uid=ruled, url=urls, on=st.booleans())
    def block(self, uid: str, url: str, on: bool) -> None:
        act = self.rules.block if on else self.rules.unblock
        self.run(act(ANN, uid, url, self.tick()))
        self.model.rule(uid, "blocked", url, on=on)

    @rule(item=ids, author=st.sampled_from(AUTHORS))
    def learn_author(self, item: str, author: str) -> None:
        known = replace(self.model.items[item], author=author)
        self.model.items[item] = self.world.items.items[item] = known
        for uid in UIDS:
            self.run(self.world.timelines.recheck_in([(ANN, uid)], [known], self.tick()))
            self.model.settle(self.model.channels[uid], item)

    @rule(item=ids)
    def forget_copies(self, item: str) -> None:
        """The record of copies in other feeds expires; no item comes back because of that."""
        self.model.items[item] = self.world.items.items[item] = replace(self.model.items[item], duplicates=())

    @rule(uid=uids, age=st.integers(0, 10))
    def expire_read(self, uid: str, age: int) -> None:
        now = self.tick()
        left = self.run(self.world.timelines.expire_read(ANN, uid, now - age, now))
        assert left == self.model.expire_read(uid, now - age)

    @rule(uid=uids, chosen=some_ids)
    def expire_unread(self, uid: str, chosen: list[str]) -> None:
        reason = Reason.UNREAD_EXPIRED
        left = self.run(self.world.timelines.withdraw(ANN, uid, chosen, reason, self.tick(), only_unread=True))
        assert left == self.model.remove(uid, chosen, reason, only_unread=True)

    @rule(uid=uids, limit=st.integers(1, 6))
    def trim(self, uid: str, limit: int) -> None:
        left = self.run(self.world.timelines.trim(ANN, uid, limit, self.tick()))
        assert left == self.model.trim(uid, limit)

    # --- invariants --------------------------------------------------------------------------------------------------

    @invariant()
    def keys_agree(self) -> None:
        assert not any(self.run_all(violations(self.redis, ANN, uid) for uid in ALL))

    @invariant()
    def the_order_of_arrival_agrees(self) -> None:
        """From the first sync on it has the shown items, each once; items keep their places, and a new one comes after
        all earlier ones.
        """
        if not self.is_ordered:
            order = (keys.arrivals(ANN), keys.arrivals_again(ANN), keys.arrivals_more(ANN))
            assert self.run(self.redis.command("EXISTS", *order)) == 0
            return
        assert self.run(wrong_arrivals(self.redis, ANN)) == []
        places = scored(self.run(self.redis.command("ZRANGE", keys.arrivals(ANN), 0, -1, "WITHSCORES")))
        assert places.keys() == {item for channel in self.model.channels.values() for item in channel.posts}
        assert len(set(places.values())) == len(places)
        for item in places.keys() & self.places.keys():
            assert places[item] == self.places[item] or places[item] > self.last_place, "it came once more"
        assert all(places[item] > self.last_place for item in places.keys() - self.places.keys())
        self.places = places
        self.last_place = max([self.last_place, *places.values()])
        if self.now == START:
            return
        kept, ways = self.model.channels[SAVED].posts, list(product((*ALL, "global"), (True, False)))
        for (uid, oldest_first), rows in zip(ways, self.run_all(starmap(self.world.arrivals, ways)), strict=True):
            shown = dict(self.model.shown(uid))
            wanted = sorted(shown, key=lambda item: places[item], reverse=not oldest_first)
            assert rows == [(item, places[item], shown[item], item in kept) for item in wanted]

    @invariant()
    def every_change_is_an_event_and_every_event_a_change(self) -> None:
        """An event for each channel whose items or their state changed, with those that came in unread."""
        seen = {uid: {item: at is None for item, at in self.model.channels[uid].posts.items()} for uid in ALL}
        told: set[str] = set()
        came: dict[str, set[str]] = {uid: set() for uid in ALL}
        for _, row in self.run(self.redis.command("XRANGE", keys.live_events(ANN), "-", "+")) or ():
            fields = dict(zip(texts(row[0::2]), texts(row[1::2]), strict=True))
            if fields["event"] == "items":
                told.add(fields["channel"])
                came[fields["channel"]] |= set(fields["came"].split())
        assert {uid for uid in ALL if seen[uid] != self.seen[uid]} <= told
        for uid in ALL:
            new = {item for item, unread in seen[uid].items() if unread and item not in self.seen[uid]}
            assert new <= came[uid]
        self.seen = seen
        if self.now > START:
            self.run(self.redis.command("XTRIM", keys.live_events(ANN), "MAXLEN", 0))

    @invariant()
    def nothing_comes_back(self) -> None:
        """An item that was read once, or has left, isn't unread later, unless it is marked unread or moved in."""
        for uid in ALL:
            # The store has what the model has, by the next invariant.
            unread = {one for one, read in self.model.shown(uid) if not read} if self.now > START else set()
            assert not unread & self.settled[uid]
            channel = self.model.channels[uid]
            self.settled[uid] |= {
                one for part in (channel.posts, channel.hidden) for one in part if part[one] is not None
            }
            self.settled[uid] |= {
                one
                for one, why in channel.gone.items()
                if why not in {Reason.UNFOLLOWED, Reason.DUPLICATE, Reason.EVICTED}
            }

    @invariant()
    def everything_is_as_in_the_model(self) -> None:
        if self.now == START:
            return
        counts = {channel.uid: channel.unread for channel in self.run(self.world.channels.list(ANN))}
        kept, everywhere = self.model.channels[SAVED].posts, (*ALL, "global")
        pages = self.run_all(self.world.timelines.page(ANN, uid, PageQuery(limit=100), self.now) for uid in everywhere)
        unread, read = (
            self.run_all(self.world.ids(uid, view=view) for uid in everywhere) for view in ("unread", "read")
        )
        for place, uid in enumerate(everywhere):
            shown = self.model.shown(uid)
            assert [(row.id, row.is_read) for row in pages[place].rows] == shown
            assert [row.is_saved for row in pages[place].rows] == [item in kept for item, _ in shown]
            assert unread[place] == [one for one, is_read in shown if not is_read]
            assert read[place] == [one for one, is_read in shown if is_read]
            if uid != "global":
                assert counts[uid] == sum(not is_read for _, is_read in shown)
        asked = [("ZRANGE", keys.hidden(ANN, uid), 0, -1, "WITHSCORES") for uid in ALL]
        for uid, reply in zip(ALL, self.run(self.redis.pipeline(asked)), strict=True):
            left = self.run(self.left(uid))
            assert {one.id: one.reason for one in left} == self.model.channels[uid].gone
            assert len({one.id for one in left}) == len(left)
            assert scored(reply).keys() == self.model.channels[uid].hidden.keys()

    async def left(self, uid: str) -> list[Absence]:
        return [one for uid in (uid,) async for some in absences(self.redis, ANN, uid) for one in some]

    @rule(uid=st.sampled_from(ALL), some=st.sets(ids))
    def had_left_before_the_migration(self, uid: str, some: set[str]) -> None:
        """Ids that left are in the form of layout 8 again, as if an upgrade hadn't come to them yet."""
        old = [one for one in self.run(self.left(uid)) if one.id in some]
        for one in old:
            self.run(self.redis.command("SREM", keys.gone(ANN, uid), 16 * int(one.id) + one.reason))
            score = f"{int(self.now) + one.reason / 16:.4f}"
            self.run(self.redis.command("ZADD", keys.gone_before(ANN, uid), score, one.id))

    @rule(uid=st.sampled_from(ALL), most=st.integers(1, 3))
    def pack_some(self, uid: str, most: int) -> None:
        """A step of the migration."""
        self.run(self.redis.script(load("gone_move")(ANN, uid, most=most)))

    @rule(uid=st.sampled_from(ALL))
    def was_unread_before_the_migration(self, uid: str) -> None:
        """The unread items are in the form of layout 8 again."""
        self.run(unread_of_layout_12(self.redis, ANN, uid))

    @rule(uid=st.sampled_from(ALL), most=st.sampled_from([1, 2, 100]))
    def pack_unread(self, uid: str, most: int) -> None:
        """A step of the migration."""
        self.run(self.redis.script(load("unread_pack")(ANN, uid, how="pack", most=most)))

    @rule(uid=st.sampled_from(ALL), most=st.integers(1, 6))
    def sort_newest(self, uid: str, most: int) -> None:
        """A page of unread items was read; from then on its channel's newest ones are in order."""
        self.run(self.redis.script(load("unread_newest")(ANN, uid, most=most)))

    @rule(uid=st.sampled_from(ALL))
    def were_read_before_the_migration(self, uid: str) -> None:
        """The times of reading are in the form of layout 8 again."""
        self.run(readings_of_layout_14(self.redis, ANN, uid))

    @rule(uid=st.sampled_from(ALL), most=st.sampled_from([1, 2, 100]))
    def pack_readings(self, uid: str, most: int) -> None:
        """A step of the migration."""
        self.run(pack_readings(self.redis, ANN, uid, most))

    @rule(uid=anywhere, near=ids, limit=st.integers(1, 5), before=st.booleans())
    def look_around(self, uid: str, near: str, limit: int, before: bool) -> None:
        """A page next to any place, also that of an item which is elsewhere or gone, is the model's slice."""
        cursor = Cursor(self.model.items[near].score, near)
        query = PageQuery(limit=limit, before=cursor) if before else PageQuery(limit=limit, after=cursor)
        page = self.run(self.world.timelines.page(ANN, uid, query, self.now))
        place = self.model.place(near)
        shown = self.model.shown(uid)
        newer = [row for row in shown if self.model.place(row[0]) > place]
        older = [row for row in shown if self.model.place(row[0]) < place]
        expected = newer[-limit:] if before else older[:limit]
        assert [(row.id, row.is_read) for row in page.rows] == expected
        assert page.older == (len(shown) > len(newer) if before else len(older) > limit)

    @rule(uid=anywhere, near=ids, limit=st.integers(1, 5), before=st.booleans())
    def look_around_unread(self, uid: str, near: str, limit: int, before: bool) -> None:
        """The same of unread items; some of the newest ones may be in order."""
        cursor = Cursor(self.model.items[near].score, near)
        side = {"before": cursor} if before else {"after": cursor}
        page = self.run(self.world.timelines.page(ANN, uid, PageQuery(limit=limit, view="unread", **side), self.now))
        place = self.model.place(near)
        unread = [one for one, is_read in self.model.shown(uid) if not is_read]
        newer = [one for one in unread if self.model.place(one) > place]
        older = [one for one in unread if self.model.place(one) < place]
        assert page.ids == (newer[-limit:] if before else older[:limit])
        assert page.older == (len(unread) > len(newer) if before else len(older) > limit)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["real", *(["fake"] if THOROUGH else [])])
def test_any_history_ends_as_the_model_does(kind: str, redis_url: str) -> None:
    """Random histories keep every invariant and equal the model after every step."""
    connect, count = (emptied(redis_url), EXAMPLES) if kind == "real" else (fake_redis, EXAMPLES // 3)
    try_histories(Machine, connect, count, steps=40)
