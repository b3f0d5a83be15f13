"""A periodic look at all followed feeds, so that pages about thousands of them read only a few keys.

One worker at a time reads all feeds and stores their order by health, the follows of those that can't be read, the
hosts that are held, and sums. A page reads these, and the records of the feeds that it shows. Polls note at once which
feeds begin and cease to be readable, and changes of follows what they change; a survey corrects what they couldn't.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain

import orjson

from microsub.base.errors import StoreError, StoreUnavailable
from microsub.base.periodic import RoundTiming, run_periodically
from microsub.base.urls import host_of
from microsub.feeds import (
    FAILURE_FIELDS,
    FeedCondition,
    FeedRecord,
    Feeds,
    FollowerChange,
    Schedule,
    fails,
    push_health,
    state_of,
)
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import reading
from microsub.redis.scripts import batches
from microsub.redis.structures import Scores, Value, replace

STATES = ("failing", "gone", "new", "ok", "written")
"""States of followed feeds, most important first."""

FIRST = 3.0
"""Seconds after which a worker makes the first survey."""
BETWEEN = 60.0
"""Approximate seconds between two surveys."""
REST = 100.0
"""Pause between surveys, in durations of the last one: surveys use at most a hundredth of a processor."""
QUICK = 1.0
"""Maximum seconds of a survey that runs while a page waits for it."""
KEPT = 86_400
_BATCH = 500
_STEP = 1e12
"""The difference between the scores of two states: more than any Unix time."""
_MOST_HUBS = 100


async def followed_feeds(feeds: Feeds) -> AsyncIterator[tuple[FeedRecord, int]]:
    """All followed feeds with an address on the web, by id, each with the number of its followers."""
    ids = await feeds.all_ids()
    for some in batches(ids, _BATCH):
        for feed in await followed_among(feeds, some):
            yield feed


async def followed_among(feeds: Feeds, ids: Sequence[str]) -> list[tuple[FeedRecord, int]]:
    """The given feeds that have an address on the web and followers, in this order, each with their number."""
    records = await feeds.get_many(ids)
    counts = await asyncio.gather(*(feeds.subscriber_count(feed_id) for feed_id in records))
    found = zip(records.values(), counts, strict=True)
    return [(record, followers) for record, followers in found if followers and not record.is_internal]


@dataclass(frozen=True, slots=True)
class FeedSums:
    """The state of all followed feeds at the Unix time `at`; the survey took `seconds`.

    `states` counts feeds by state, `ways` those that name a hub by the way their posts arrive, `hubs` by the hub's
    host: all its feeds, and those that it pushes. `followers` are the followers of all feeds together.
    """

    at: float
    states: Mapping[str, int]
    ways: Mapping[str, int]
    followers: int = 0
    hubs: Mapping[str, Sequence[int]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def feeds(self) -> int:
        """The number of feeds."""
        return sum(self.states.values())


class _Counting:
    """Sums while they are computed."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._states = dict.fromkeys(STATES, 0)
        self._ways = dict.fromkeys(("pushed", "subscribed", "polled"), 0)
        self._hubs: dict[str, list[int]] = {}
        self._followers = 0

    def add(self, feed: FeedRecord, followers: int) -> None:
        self._states[state_of(feed)] += 1
        self._followers += followers
        if not feed.hub:
            return
        health = push_health(feed, self._now)
        self._ways["pushed" if health.pushed else "subscribed" if health.subscribed else "polled"] += 1
        of_hub = self._hubs.setdefault(host_of(feed.hub), [0, 0])
        of_hub[0] += 1
        of_hub[1] += health.pushed

    def sums(self, seconds: float = 0.0) -> FeedSums:
        largest = sorted(self._hubs.items(), key=lambda hub: (-hub[1][0], hub[0]))[:_MOST_HUBS]
        return FeedSums(self._now, self._states, self._ways, self._followers, dict(largest), seconds)


async def sums_of(feeds: Feeds, now: float) -> FeedSums:
    """The current sums of all followed feeds; reads each of them."""
    counting = _Counting(now)
    async for feed, followers in followed_feeds(feeds):
        counting.add(feed, followers)
    return counting.sums()


def _is_due(last: FeedSums, now: float) -> bool:
    return not 0 <= now - last.at < REST * last.seconds


class Survey:
    """The latest findings about all feeds, and the survey that produces them. Times are Unix seconds."""

    def __init__(self, redis: Redis, feeds: Feeds, schedule: Schedule) -> None:
        self._sums = Value(redis, keys.survey(), KEPT)
        self._surveyed = Scores(redis, keys.surveyed_feeds(), KEPT)
        self._holds = Scores(redis, keys.surveyed_holds(), KEPT)
        self._failing = Scores(redis, keys.surveyed_failing(), KEPT)
        self._feeds = feeds
        self._schedule = schedule

    async def run_forever(self, pace: RoundTiming) -> None:
        """Survey repeatedly, in one of all workers at a time; soon for the first time."""
        await asyncio.sleep(FIRST)
        with contextlib.suppress(StoreError):  # the next round logs it
            if await self.last() is None:
                await self.look(pace.clock())
        await run_periodically(self._round, "survey", pace, BETWEEN)

    async def _round(self, now: float) -> None:
        last = await self.last()
        if last is None or _is_due(last, now):
            await self.look(now)

    async def recent(self, now: float) -> FeedSums | None:
        """Current sums if a survey is quick and due, otherwise those of the last one; None before the first one."""
        last = await self.last()
        if last is None or last.seconds > QUICK or not _is_due(last, now):
            return last
        with contextlib.suppress(StoreError):  # a full Redis can't store it, but admins read pages especially then
            await self.look(now)
        return await self.last()

    async def look(self, now: float) -> None:
        """Survey all followed feeds, and store the findings."""
        begun, counting = time.monotonic(), _Counting(now)
        scores: dict[str, float] = {}
        hosts: set[str] = set()
        troubled: list[str] = []
        async for feed, followers in followed_feeds(self._feeds):
            counting.add(feed, followers)
            scores[feed.id] = STATES.index(state_of(feed)) * _STEP + (feed.last_success or 0.0)
            hosts.add(host_of(feed.url))
            if FeedCondition.of(feed, now).needs_attention:
                troubled.append(feed.id)
        held = await self._schedule.held_among(hosts, now)
        for surveyed, found in ((self._surveyed, scores), (self._holds, held)):
            await replace(surveyed, {name: f"{score:.3f}" for name, score in found.items()})
        await self._replace_failing(troubled)
        said = orjson.dumps(asdict(counting.sums(time.monotonic() - begun)))
        await self._sums.set(said)

    async def last(self) -> FeedSums | None:
        """The sums of the last survey; None before the first one."""
        said = await self._sums.get()
        if said is None:
            return None
        with reading(keys.survey()):
            return FeedSums(**orjson.loads(said))

    async def feeds(self, state: str, count: int, beyond: int = 0) -> list[tuple[FeedRecord, int]]:
        """Up to `count` feeds that were in that state, or in any with '', longest without an answer first; with their
        current records and numbers of followers.
        """
        low = STATES.index(state) * _STEP if state else 0.0
        high = low + _STEP if state else len(STATES) * _STEP
        found = await self._surveyed.between(f"{low:.0f}", f"({high:.0f}", count, beyond)
        return await followed_among(self._feeds, [feed for feed, _ in found])

    async def held(self, now: float, count: int) -> list[tuple[str, float]]:
        """Up to `count` hosts that get no requests, and until when (Unix time), the shortest waits first."""
        return await self._holds.between(f"({now:.3f}", "+inf", count)

    async def attention(self, user: str) -> Mapping[str, int]:
        """The number of feeds that can't be read in the user's channels, by uid; channels without any are left out.

        Empty while it can't be read: its master of a cluster may be away, and the user's own may not.
        """
        try:
            names = await self._failing.beginning(f"{user}/")
        except StoreUnavailable:
            return {}
        return Counter(name.split("/")[1] for name in names)

    async def note(self, feed: str) -> None:
        """Store for all its followers whether a feed can be read now: of two polls, the later one may be noted first.

        A survey corrects what isn't stored.
        """
        with contextlib.suppress(StoreError):
            for some in batches(await self._follows([feed]), _BATCH):
                is_failing = await self._fail([feed])
                await (self._failing.set(dict.fromkeys(some, 0)) if is_failing else self._failing.delete(*some))

    async def note_follower(self, feed: str, user: str, uid: str, action: FollowerChange) -> None:
        """The same for a channel that has begun or ceased to follow a feed."""
        name = f"{user}/{uid}/{feed}"
        with contextlib.suppress(StoreError):
            if action == "unfollow":
                await self._failing.delete(name)
            elif await self._fail([feed]):
                await self._failing.set({name: 0})

    async def _replace_failing(self, troubled: Sequence[str]) -> None:
        """Store the follows of these feeds as those that fail, but read those again that polls have changed since."""
        wanted, stored = {*await self._follows(troubled)}, {*await self._failing.names()}
        turned = {name.rpartition("/")[2] for name in wanted ^ stored}
        now = {*await self._follows(sorted(await self._fail(sorted(turned))))}
        for some in batches(sorted(now - stored), _BATCH):
            await self._failing.set(dict.fromkeys(some, 0))
        for some in batches(sorted(name for name in stored - now if name.rpartition("/")[2] in turned), _BATCH):
            await self._failing.delete(*some)

    async def _fail(self, feeds: Sequence[str]) -> set[str]:
        """Those of these feeds that can't be read."""
        asked = (self._feeds.descriptions(some, FAILURE_FIELDS) for some in batches(feeds, _BATCH))
        found = await asyncio.gather(*asked)
        return {feed for feed, fields in zip(feeds, chain(*found), strict=True) if fails(*fields)}

    async def _follows(self, feeds: Sequence[str]) -> list[str]:
        """The names of all follows of these feeds."""
        found = list[str]()
        for some in batches(feeds, _BATCH):
            places = await asyncio.gather(*map(self._feeds.subscribers, some))
            found += [f"{user}/{uid}/{feed}" for feed, of in zip(some, places, strict=True) for user, uid in of]
        return found
