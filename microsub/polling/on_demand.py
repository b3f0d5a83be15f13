"""Polls feeds now: given ones, next to working workers, with a report; or one or all of a user at a request."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from microsub.base.errors import InvalidRequest, NotFound, TooManyRequests
from microsub.base.rate_limits import RateLimit, RateLimiter
from microsub.base.tasks import cancel_all
from microsub.base.texts import N_
from microsub.base.urls import host_of, mask_credentials
from microsub.feeds import held_until
from microsub.redis.scripts import batches

if TYPE_CHECKING:
    from microsub.feeds import FeedRecord, Feeds, Schedule
    from microsub.polling.worker import Worker

POLLS_OF_USER = RateLimit("feeds asked at once", "user", 20)
"""By a button on a page. The button polls each feed at most once a minute."""
REFRESHES_OF_USER = RateLimit("refreshes of all feeds", "user", 1)

_LOOK_AGAIN = 0.05
_LOOKS_PER_SECOND = 5000
"""Maximum number of records read per second of waiting, so that waiting for thousands of feeds doesn't load Redis."""

_BUMP_AGAIN = 1.0
_FIRST_CHANCE = 5.0
"""Seconds without a finished poll for which the poll is left to a server's worker: its settings are the real ones."""

_LAST_CHANCE = 30.0
"""Seconds after which our own refusal counts, even if a server's worker, which may be allowed more, is alive."""

_LAST_WORDS = 2.0
"""Seconds for finished turns to hand back their hosts."""

_EARLIEST = 0.0
"""A due time earlier than all others: a feed polled on demand doesn't wait for the host's other feeds."""


class PollReport(NamedTuple):
    """The result for one feed; `url` is masked, `detail` explains.

    `outcome` is polled, failed, gone, unfollowed, unknown, internal (no publisher), written (only programs save its
    posts), held (the publisher asked for a pause), refused (our settings forbid its address; nothing was recorded) or
    late (the time ran out). `new` and `updated` count the items of a polled feed.
    """

    feed: str
    url: str
    outcome: str
    detail: str = ""
    new: int = 0
    updated: int = 0


async def _nobody() -> bool:
    return False


class PollNow:
    """Makes feeds due at once and gives their hosts a turn, unless a worker already does.

    `others` says whether other workers are alive, which then come first. `refused` has, by feed, the reason why our
    own worker may not poll it; it grows during the work.
    """

    def __init__(
        self,
        feeds: Feeds,
        schedule: Schedule,
        worker: Worker,
        *,
        others: Callable[[], Awaitable[bool]] = _nobody,
        refused: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._feeds = feeds
        self._schedule = schedule
        self._worker = worker
        self._others = others
        self._refused = {} if refused is None else refused
        self._clock = clock

    async def poll(self, feed_ids: Iterable[str], patience: float = 120.0) -> dict[str, PollReport]:
        """Poll those feeds once from now on; returns when their posts are in the timelines.

        Also returns if no poll ended for `patience` seconds. A poll that began before the call doesn't count. Raises
        StoreError.
        """
        start = self._clock()
        waiting, reports = await self._sort_out(feed_ids)
        turns: set[asyncio.Task[int]] = set()
        looked = progress = time.monotonic()
        bumped = float("-inf")
        others = await self._others()
        first_chance, last_chance = (_FIRST_CHANCE, _LAST_CHANCE) if others else (0.0, 0.0)
        try:
            while waiting and looked - progress < patience:
                if looked - bumped > _BUMP_AGAIN:
                    # Repeatedly: the end of a poll that began before the call also sets the feed's time.
                    await self._schedule.bump(waiting.items(), _EARLIEST)
                    bumped = looked
                polled = 0
                allowed = {host for feed_id, host in waiting.items() if feed_id not in self._refused}
                if allowed and looked - progress >= first_chance:
                    turns.add(asyncio.create_task(self._worker.run_once(sorted(allowed))))
                    done, turns = await asyncio.wait(turns, timeout=_LOOK_AGAIN, return_when=asyncio.FIRST_COMPLETED)
                    polled = sum(turn.result() for turn in done)
                if not polled:
                    await asyncio.sleep(_LOOK_AGAIN + len(waiting) / _LOOKS_PER_SECOND)
                looked = time.monotonic()
                found = await self._look(waiting, start, refusals=looked - progress >= last_chance)
                progress = looked if found else progress
                reports |= found
                waiting = {feed_id: host for feed_id, host in waiting.items() if feed_id not in found}
            if turns and not waiting:
                await asyncio.wait(turns, timeout=_LAST_WORDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._worker.delivered()
        finally:
            await cancel_all(turns)
        records = await self._feeds.get_many(waiting)
        return reports | {
            feed_id: PollReport(feed_id, mask_credentials(record.url), "late", "not polled in time; it is still due")
            for feed_id, record in records.items()
        }

    async def _sort_out(self, feed_ids: Iterable[str]) -> tuple[dict[str, str], dict[str, PollReport]]:
        """The feeds that can be polled, with their hosts, and reports for those that can't."""
        ids = list(dict.fromkeys(feed_ids))
        records = await self._feeds.get_many(ids)
        waiting: dict[str, str] = {}
        reports: dict[str, PollReport] = {}
        for feed_id in ids:
            record = records.get(feed_id)
            refusal = await self._refusal(feed_id, record)
            if refusal is not None:
                reports[feed_id] = refusal
            elif record is not None:
                waiting[feed_id] = host_of(record.url)
        return waiting, reports

    async def _refusal(self, feed_id: str, record: FeedRecord | None) -> PollReport | None:
        """The reason why a feed can't be polled now; None if it can."""
        if record is None:
            return PollReport(feed_id, "", "unknown", "there is no such feed")
        url = mask_credentials(record.url)
        if record.is_internal:
            return PollReport(feed_id, url, "internal", "it has no publisher: its posts are sent to this server")
        if record.is_written:
            return PollReport(feed_id, url, "written", "it isn't polled: its posts are saved by programs")
        if record.gone:
            return PollReport(
                feed_id, url, "gone", record.last_error or "the publisher reported it as permanently gone"
            )
        if not await self._feeds.subscriber_count(feed_id):
            return PollReport(feed_id, url, "unfollowed", "nobody follows it")
        now = self._clock()
        until = max(held_until(record, now) or 0.0, await self._schedule.held_until(host_of(record.url)) or 0.0)
        if (pause := until - now) > 0:
            return PollReport(feed_id, url, "held", f"the publisher asked for a pause of {pause:.0f} s more")
        return None

    async def _look(self, waiting: dict[str, str], start: float, *, refusals: bool) -> dict[str, PollReport]:
        """Reports on the feeds that were polled since `start`, or that can't be any more.

        With `refusals` our own refusals are included, otherwise they are left to other workers. A feed that has moved
        to another host (it was a page that named a feed there) is waited for there.
        """
        reports: dict[str, PollReport] = {}
        records = await self._feeds.get_many(waiting)
        for feed_id in waiting:
            record = records.get(feed_id)
            # Times are stored in milliseconds.
            if record is not None and (record.last_poll or 0.0) >= start - 0.001:
                reports[feed_id] = _report(record)
            elif refusals and record is not None and feed_id in self._refused:
                url = mask_credentials(record.url)
                reports[feed_id] = PollReport(feed_id, url, "refused", self._refused[feed_id])
            elif record is None or record.gone or held_until(record, self._clock()) is not None:
                refusal = await self._refusal(feed_id, record)
                reports |= {feed_id: refusal} if refusal is not None else {}
            else:
                waiting[feed_id] = host_of(record.url)
        return reports


AGAIN = 60.0
"""Seconds after a poll in which a user's request doesn't poll the feed again."""

_AHEAD = 60.0
"""Seconds of waiting that a user's request gives its feed: those of the host that have waited longer come first, so
that few users can't keep the feeds of others from their turn.
"""

RECENT = 300.0
"""Seconds after a poll in which a refresh of all feeds leaves a feed out, as the planning does by default."""
_AT_ONCE, _EACH, _APART = 20, 100, 5.0
"""A refresh of all feeds makes the first ones due at once, and then so many more after each of these seconds: others'
feeds have their turns meanwhile.
"""


class PollOnRequest:
    """Makes a feed due at once at a user's request, or all feeds in turns, within limits; the workers do the rest."""

    def __init__(self, feeds: Feeds, schedule: Schedule) -> None:
        self._feeds = feeds
        self._schedule = schedule
        self._limiter = RateLimiter()

    async def ask(self, user: str, feed_id: str, now: float) -> None:
        """Make the feed due at its host's next turn; spacing and holds stay in force.

        Raises NotFound, InvalidRequest for one that isn't polled, and TooManyRequests.
        """
        if not self._limiter.count(POLLS_OF_USER, user):
            raise TooManyRequests(
                N_("You have refreshed many feeds: try again in a minute."), int(POLLS_OF_USER.seconds)
            )
        record = await self._feeds.get(feed_id)
        if record is None or not record.poll_host:
            raise NotFound(N_("There is no such feed, or it isn't polled."))
        if record.gone:
            raise InvalidRequest(
                N_("The publisher reported this feed as permanently gone, so it isn't polled any more.")
            )
        if held_until(record, now) is not None:
            raise InvalidRequest(N_("The publisher asked for a pause, which isn't over yet."))
        if 0 <= now - (record.last_poll or 0.0) < AGAIN:
            raise TooManyRequests(N_("This feed was polled less than a minute ago: try again in a minute."), int(AGAIN))
        await self._schedule.bump([(feed_id, host_of(record.url))], now - _AHEAD)

    async def ask_all(self, user: str, records: Iterable[FeedRecord], now: float) -> None:
        """Make a user's feeds due that `waits_for_refresh`, those that wait longest first.

        They have their turns among all feeds; spacing and holds of hosts stay in force. Raises TooManyRequests.
        """
        if not self._limiter.count(REFRESHES_OF_USER, user):
            raise TooManyRequests(
                N_("You have refreshed all feeds: try again in a minute."), int(REFRESHES_OF_USER.seconds)
            )
        waiting = [one for one in records if waits_for_refresh(one, now)]
        pairs = [(one.id, host_of(one.url)) for one in sorted(waiting, key=lambda one: one.last_poll or 0.0)]
        await self._schedule.bump(pairs[:_AT_ONCE], now)
        for turn, some in enumerate(batches(pairs[_AT_ONCE:], _EACH), 1):
            await self._schedule.bump(some, now + turn * _APART)


def waits_for_refresh(record: FeedRecord, asked: float) -> bool:
    """Whether a refresh of all feeds at that Unix time hasn't polled the feed yet, and will."""
    return _can_be_polled(record, asked) and (record.last_poll or 0.0) < asked - RECENT


def free_again(record: FeedRecord, asked: float) -> float | None:
    """The Unix time from which a refresh of all feeds polls a feed that the one at `asked` left out, as it was recent.

    None for others, and for a feed that has been polled since.
    """
    last = record.last_poll or 0.0
    is_recent = _can_be_polled(record, asked) and asked - RECENT <= last < asked
    return last + RECENT if is_recent else None


def _can_be_polled(record: FeedRecord, asked: float) -> bool:
    return bool(record.poll_host) and not record.gone and held_until(record, asked) is None


def _report(record: FeedRecord) -> PollReport:
    """The result of an ended poll, from the record."""
    outcome = "gone" if record.gone else "failed" if record.last_error else "polled"
    new, updated = (int(record.extra.get(name) or 0) for name in ("last_new", "last_updated"))
    return PollReport(record.id, mask_credentials(record.url), outcome, record.last_error or "", new, updated)
