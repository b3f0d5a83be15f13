"""Poll given feeds now, beside whatever workers are doing, and say when all are done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from microsub.formats.identity import host_of, mask_credentials
from microsub.pipeline.record import held_until

if TYPE_CHECKING:
    from microsub.pipeline.runner import Worker
    from microsub.store.feeds import FeedRecord, Feeds
    from microsub.store.schedule import Schedule

_LOOK_AGAIN = 0.1
_EARLIEST = 0.0
"""A due time before all others: who asks for a feed now doesn't queue behind the host's other feeds."""


@dataclass(frozen=True, slots=True)
class PollReport:
    """What became of one feed. `url` is masked; `outcome` is polled, failed, gone, unfollowed, unknown, held (the
    publisher asked for a pause) or late (the time was over); `detail` explains.
    """

    feed: str
    url: str
    outcome: str
    detail: str = ""


class PollNow:
    """Makes feeds due at once and helps their hosts to a turn; a worker that has a host already is waited for."""

    def __init__(
        self, feeds: Feeds, schedule: Schedule, worker: Worker, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._feeds = feeds
        self._schedule = schedule
        self._worker = worker
        self._clock = clock

    async def poll(self, feed_ids: Iterable[str], seconds: float = 120.0) -> dict[str, PollReport]:
        """Poll those feeds once from now on; returns when all are done, `seconds` from now at the latest.

        A poll that some worker began before the call doesn't count. Raises StoreError.
        """
        start = self._clock()
        waiting = dict.fromkeys(feed_ids)
        reports: dict[str, PollReport] = {}
        turns: set[asyncio.Task[int]] = set()
        deadline = time.monotonic() + seconds
        try:
            while True:
                records = await self._feeds.get_many(waiting)
                for feed_id in list(waiting):
                    report = await self._report(feed_id, records.get(feed_id), start)
                    if report is not None:
                        reports[feed_id] = report
                        del waiting[feed_id]
                if not waiting:
                    return reports
                if time.monotonic() >= deadline:
                    late = "not polled in time; it stays due"
                    return reports | {
                        feed_id: PollReport(feed_id, mask_credentials(records[feed_id].url), "late", late)
                        for feed_id in waiting
                    }
                pairs = [(feed_id, host_of(records[feed_id].url)) for feed_id in waiting]
                await self._schedule.bump(pairs, _EARLIEST)
                turns.add(asyncio.create_task(self._worker.run_once(sorted({host for _, host in pairs}))))
                done, turns = await asyncio.wait(turns, timeout=_LOOK_AGAIN, return_when=asyncio.FIRST_COMPLETED)
                polled = sum(turn.result() for turn in done)
                if done and not polled:
                    await asyncio.sleep(_LOOK_AGAIN)
        finally:
            for turn in turns:
                turn.cancel()

    async def _report(self, feed_id: str, record: FeedRecord | None, start: float) -> PollReport | None:
        """What is known of a feed's poll since `start`; None while there is more to wait for."""
        if record is None:
            return PollReport(feed_id, "", "unknown", "there is no such feed")
        url = mask_credentials(record.url)
        if record.gone:
            return PollReport(feed_id, url, "gone", record.last_error or "the publisher asked not to be asked again")
        # Times are kept in milliseconds.
        if record.last_poll is not None and record.last_poll >= start - 0.001:
            return PollReport(feed_id, url, "failed" if record.last_error else "polled", record.last_error or "")
        now = self._clock()
        until = max(held_until(record) or 0.0, await self._schedule.held_until(host_of(record.url)) or 0.0)
        if until > now:
            return PollReport(feed_id, url, "held", f"the publisher asked for a pause of {until - now:.0f} s more")
        if not await self._feeds.subscriber_count(feed_id):
            return PollReport(feed_id, url, "unfollowed", "nobody follows it")
        return None
