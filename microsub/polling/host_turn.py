"""One turn for one host: poll what is due there, under a lease that is renewed meanwhile, then hand the host back."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from microsub.configuration.model import InstanceSettings
from microsub.errors import StoreError
from microsub.fetch import out_of_descriptors
from microsub.polling.policy import HostManners, host_manners

if TYPE_CHECKING:
    from collections.abc import Sequence

    from microsub.feeds.store.queue import DueFeeds, HostLease, Schedule
    from microsub.feeds.store.record import Feeds
    from microsub.polling.poll import Ending, Poller, PollResult
    from microsub.redis.protocol import ScriptCall

log = structlog.get_logger(__name__)

LEASE_SECONDS = 90.0
HAND_BACK_SECONDS = 1.5
_MOST_PER_TURN = 50
_PAUSE_AFTER_STORE_TROUBLE = 5.0
REST_SECONDS = 10.0
"""For which nobody is asked, once there was no file descriptor left: requests under way give some back meanwhile."""


@dataclass(slots=True)
class _Left:
    """What the end of a turn has still to write: the last feed, and when it is due again; nothing where the host was
    handed back with the end of its poll.
    """

    finished: tuple[str, float | None] | None = None
    is_over: bool = False


class Turn:
    """Gives hosts their turns. One instance serves all hosts of a worker at once.

    `pause` of the host's manners lies between the end of a turn and the start of the next; it is the schedule's to
    keep, so that it holds for all workers and other hosts get their turns meanwhile.
    """

    def __init__(
        self,
        schedule: Schedule,
        feeds: Feeds,
        poller: Poller,
        *,
        settings: Callable[[], InstanceSettings] = InstanceSettings,
        lease_seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._schedule = schedule
        self._feeds = feeds
        self._poller = poller
        self._settings = settings
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._stopping = False
        self._rests_until = 0.0

    @property
    def rests(self) -> bool:
        """Whether no turn shall begin at present, because this process had no file descriptor left, or no parser."""
        return self._clock() < self._rests_until

    def stop(self) -> None:
        """Begin no further feed of a host."""
        self._stopping = True

    async def of(self, lease: HostLease) -> int:
        """Poll the host's due feeds; how many. Ends early, as cancelled, when the lease is lost.

        Trouble with the store ends the turn, is logged, and raises nothing: the feeds stay due.
        """
        manners = host_manners(self._settings(), lease.host)
        pause = manners.interval
        keeper = asyncio.create_task(self._keep(lease, asyncio.current_task()))
        left = _Left()
        try:
            return await self._poll_due(lease, manners, left)
        except StoreError as error:
            pause = max(pause, _PAUSE_AFTER_STORE_TROUBLE)
            log.warning("the store failed during a poll", host=lease.host, error=str(error))
            return 0
        finally:
            keeper.cancel()
            if not left.is_over:
                await self._hand_back(lease, pause, left.finished)

    async def _poll_due(self, lease: HostLease, manners: HostManners, left: _Left) -> int:
        polled = 0
        while polled < _MOST_PER_TURN and not self._stopping and not self.rests:
            due = await self._schedule.due_feeds(lease, self._clock(), manners.concurrency)
            if not due.ids:
                break
            ending = None
            if manners.interval > 0 and len(due.ids) == 1:
                ending = functools.partial(self._ending, lease, manners.interval, due)
            ends = await asyncio.gather(
                *(self._feed(lease, feed_id, left, ending) for feed_id in due.ids), return_exceptions=True
            )
            for end in ends:
                if end is not None:
                    raise end
            polled += len(due.ids)
            if manners.interval > 0:
                break
        return polled

    def _ending(self, lease: HostLease, interval: float, due: DueFeeds, next_poll: float) -> Sequence[ScriptCall]:
        """What hands the host back with the end of its only poll."""
        (feed_id,) = due.ids
        return self._schedule.ending(lease, self._clock(), interval, (feed_id, next_poll), due)

    async def _feed(self, lease: HostLease, feed_id: str, left: _Left, ending: Ending | None) -> None:
        """Poll one feed; with `ending` it is the last one of the turn."""
        try:
            result = await self._poller.poll(feed_id, ending)
        except StoreError:
            raise
        except Exception as error:
            if isinstance(error, OSError) and out_of_descriptors(error):
                result = self._poller.put_off(feed_id, str(error))
            else:
                log.exception("a poll ended in a bug", feed=feed_id, host=lease.host)
                result = await self._poller.give_up(feed_id, "internal", f"{type(error).__name__} while polling")
        if result.outcome == "local":
            self._rest(result.detail)
        if result.ended is not None:
            left.is_over = True
            if not await self._schedule.ended(lease, result.ended):
                log.warning("a lease was lost during a poll", host=lease.host, feed=feed_id)
            return
        await self._finish(lease, feed_id, result, None if ending is None else left)

    def _rest(self, detail: str) -> None:
        if not self.rests:
            log.error(
                "out of file descriptors or processes, polling pauses for a while", seconds=REST_SECONDS, detail=detail
            )
        self._rests_until = self._clock() + REST_SECONDS

    async def _finish(self, lease: HostLease, feed_id: str, result: PollResult, left: _Left | None) -> None:
        """Plan the feed's next poll, or leave that to the end of the turn, which comes at once."""
        now = self._clock()
        if result.hold_until is not None:
            await self._schedule.hold(lease.host, feed_id, result.hold_until, now)
        if result.next_poll is not None and result.host and result.host != lease.host:
            # The feed has moved: first into the other host's queue, then out of this one, so that it is never in none.
            await self._schedule.add(feed_id, result.host, result.next_poll)
            await self._schedule.finish(lease, feed_id, None)
            return
        if left is not None and result.next_poll is not None:
            left.finished = (feed_id, result.next_poll)
            return
        if not await self._schedule.finish(lease, feed_id, result.next_poll):
            log.warning("a lease was lost during a poll", host=lease.host, feed=feed_id)
        if result.next_poll is None and result.outcome != "gone" and await self._feeds.subscriber_count(feed_id):
            # Somebody followed it between the count of followers, or their leaving for another feed, and this end.
            await self._schedule.add(feed_id, lease.host, now)

    async def _keep(self, lease: HostLease, work: asyncio.Task[object] | None) -> None:
        """Renew the lease while the work lasts; end the work when the lease is lost."""
        good_until = time.monotonic() + self._lease_seconds
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            begun = time.monotonic()
            try:
                kept = await self._schedule.renew(lease, self._clock(), self._lease_seconds)
            except StoreError:
                kept = begun < good_until - self._lease_seconds / 3
            else:
                good_until = begun + self._lease_seconds
            if not kept:
                log.warning("a lease was lost; its poll is given up", host=lease.host)
                if work is not None:
                    work.cancel()
                return

    async def _hand_back(self, lease: HostLease, pause: float, finished: tuple[str, float | None] | None) -> None:
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(HAND_BACK_SECONDS):
                await self._schedule.release(lease, self._clock(), pause, finished)
