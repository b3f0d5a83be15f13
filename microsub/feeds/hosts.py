"""The schedule: which worker polls which host, and when. Each host has at most one worker at a time.

The due set has two levels. Hosts are in one sorted set by the time of their next allowed request. A worker takes the
host that has waited longest, then polls the host's due feeds, the earliest first, one request at a time. So a slow host
delays no other host, and thousands of feeds on one host queue behind each other.

A lease is a claim on a host in the calendar of hosts: its member is the host. The host's own record has its newest
token, and refuses writes with an older one.

The two levels are in different slots. Feeds are written before their host. If the host is taken, a mark is left next to
its lease, and the holder looks for feeds again after giving it back. So whatever happens in between, the host of a
due feed is due as well.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from microsub.base.logs import LibraryLogger
from microsub.model.moments import is_ahead, number
from microsub.redis import keys
from microsub.redis.protocol import Arg, Command, Redis, ScriptCall
from microsub.redis.replies import score_text, text, texts
from microsub.redis.scripts import batches, load
from microsub.work import Calendar, Claim

log = LibraryLogger(__name__)

HOST_RECORD = 48 * 3600
"""Lifetime in seconds of a host's record (holds, spacing)."""

LONGEST_HOLD = HOST_RECORD

FARTHEST = 8 * 86400.0
"""Seconds from now beyond which nothing is planned: a `Retry-After` holds a feed for 7 days at most. Later times were
planned while a clock was ahead, and are due now.
"""

SET_RIGHT_SECONDS = 60.0
"""Seconds between two checks of one process for times from a clock that was ahead: a machine's clock may stay so."""

LEASE = 90.0
"""Default length of a worker's lease, in seconds."""

_AT_ONCE = 200

FEEDS_FOR_A_HOLD = 3

_HOST = load("schedule_host")
_HOLD = load("schedule_hold")


class DueFeeds(NamedTuple):
    """Feeds of a host that are due, the earliest first.

    `further` is when another one is due, as a Unix time or None; `hold` until when the host is held, 0 for no hold.
    """

    ids: tuple[str, ...] = ()
    further: float | None = None
    hold: float = 0.0


class Schedule:
    """The due set. All times are Unix seconds."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._hosts = Calendar(redis, [(keys.hosts_due(), keys.hosts_leases())], FARTHEST)
        self._next_set_right = -math.inf

    async def add(self, feed_id: str, host: str, due: float) -> None:
        """Have a feed polled at `due`, or earlier if it is already due earlier."""
        await self.bump([(feed_id, host)], due)

    async def bump(self, feeds: Iterable[tuple[str, str]], now: float) -> None:
        """Make (feed, host) pairs due at that time; spacing and holds of hosts stay in force.

        Feeds without a host are never due (`FeedRecord.poll_host`).
        """
        by_host: defaultdict[str, list[str]] = defaultdict(list)
        for feed_id, host in feeds:
            if host:
                by_host[host] += (feed_id, score_text(now))
        if not by_host:
            return
        times = await self._redis.scripts([_on_host(host, "", "add", *pairs) for host, pairs in by_host.items()])
        await self._hosts.note({host: float(time) for host, time in zip(by_host, times, strict=True)}, "sooner")

    async def set_right(self, now: float, lease: float = LEASE) -> int:
        """Make polls due at once that were planned while a clock was ahead; the number of feeds.

        These are the feeds whose last poll is in the future. Spacing and holds of their hosts from that time are
        ignored; leases of that time end in `lease` seconds, unless their holders renew them.
        """
        await self._redis.command("HSET", keys.hosts_leases(), "* at", int(now))
        flat = await self._redis.command("ZRANGEBYSCORE", keys.hosts_due(), score_text(now), "+inf", "WITHSCORES")
        hosts = {text(host): float(at) for host, at in zip(flat[0::2], flat[1::2], strict=True)}
        count = 0
        for batch in batches([*hosts], _AT_ONCE):
            waiting = await self._redis.pipeline([("ZRANGE", keys.host_due(host), 0, -1) for host in batch])
            feeds = [(one.decode(), host) for host, found in zip(batch, waiting, strict=True) for one in found]
            polls = await self._redis.pipeline([("HGET", keys.feed(feed), "last_poll") for feed, _ in feeds])
            wrong = [pair for pair, last in zip(feeds, polls, strict=True) if is_ahead(number(last), now)]
            tokens = await self._redis.command("HMGET", keys.hosts_leases(), *batch)
            taken = [host for host, token in zip(batch, tokens, strict=True) if token and is_ahead(hosts[host], now)]
            await self._redis.pipeline(
                [("HDEL", keys.host(host), "free", "hold") for host in {host for _, host in wrong}]
                + [("ZADD", keys.hosts_due(), "XX", score_text(now + lease), host) for host in taken]
            )
            await self.bump(wrong, now)
            count += len(wrong)
        return count

    async def holds(self, feeds: Sequence[tuple[str, str]]) -> list[bool]:
        """Whether each (feed, host) pair will get its turn: feed and host are both scheduled, or it has no host."""
        commands: list[Command] = []
        for feed_id, host in feeds:
            commands += [("ZSCORE", keys.host_due(host), feed_id), ("ZSCORE", keys.hosts_due(), host)]
        times = await self._redis.pipeline(commands)
        waiting = zip(feeds, times[0::2], times[1::2], strict=True)
        return [not host or (one is not None and turn is not None) for (_, host), one, turn in waiting]

    async def take(self, now: float, count: int, lease: float, among: Iterable[str] | None = None) -> list[Claim]:
        """At most `count` hosts that are due, the longest waiting first, each leased for `lease` s.

        `among` limits it to these hosts, in their order, without those that aren't due or belong to a worker.
        """
        if among is not None and not (among := list(among)):
            return []
        leases, latest = await self._hosts.take(now, count, lease, among or ())
        if is_ahead(latest, now) and time.monotonic() >= self._next_set_right:
            self._next_set_right = time.monotonic() + SET_RIGHT_SECONDS
            feeds = await self.set_right(now, lease)
            log.warning("a clock was ahead; polls that it planned are due now", seconds=latest - now, feeds=feeds)
            leases += (await self._hosts.take(now, count - len(leases), lease, among or ()))[0]
        return [lease for lease in leases if lease.member]

    async def due_feeds(self, lease: Claim, now: float, count: int) -> DueFeeds:
        """At most `count` due feeds of the host; none if the lease was lost."""
        reply = await self._host(lease, "due", score_text(now), count, score_text(now + FARTHEST))
        if reply is None:
            return DueFeeds()
        further, hold, *ids = texts(reply)
        return DueFeeds(tuple(ids), float(further) if further else None, float(hold or 0))

    async def renew(self, leases: Sequence[Claim], now: float, lease_seconds: float) -> list[bool]:
        """Keep hosts for `lease_seconds` from now; False for lost leases. One round trip."""
        return await self._hosts.keep(leases, now + lease_seconds)

    async def finish(self, lease: Claim, feed_id: str, next_due: float | None) -> bool:
        """Plan a polled feed for `next_due`, or never (None). False if the lease was lost."""
        if not await self._holds(lease):
            return False
        return bool(await self._host(lease, "finish", feed_id, _time_or_never(next_due)))

    async def release(
        self, lease: Claim, now: float, interval: float, finished: tuple[str, float | None] | None = None
    ) -> bool:
        """Give the host back, for `interval` seconds at least. False if the lease was lost.

        `finished`, a feed and when it is due again, saves a `finish` before. It counts even if the lease has run out,
        unless the next holder has looked at the host already: the feed was polled.
        """
        args = () if finished is None else (finished[0], _time_or_never(finished[1]))
        next_request = await self._host(lease, "next", score_text(now + interval), score_text(now + FARTHEST), *args)
        if next_request is None:
            return False
        released = await self._redis.script(self._releasing(lease, next_request))
        return await self._released(lease, next_request, released)

    def ending(
        self, lease: Claim, now: float, interval: float, finished: tuple[str, float], due: DueFeeds
    ) -> list[ScriptCall]:
        """`release` as calls without a reply in between, to be sent with others; `ended` reads their replies.

        `due` is the result of `due_feeds`; its only feed is finished, and no hold was added since. Feeds added
        meanwhile are looked for at the end, as in `release`.
        """
        feed_id, next_due = finished
        first = next_due if due.further is None else min(next_due, due.further)
        hold = due.hold if due.hold <= now + FARTHEST else 0.0
        next_request = score_text(max(first, now + interval, hold))
        spacing = (score_text(now + interval), score_text(now + FARTHEST), feed_id, score_text(next_due))
        next_call = _on_host(lease.member, lease.token, "next", *spacing)
        return [next_call, self._releasing(lease, next_request.encode())]

    async def ended(self, lease: Claim, replies: Sequence[Any]) -> bool:
        """The result of the calls of `ending`, as `release` returns it."""
        next_request, released = replies
        return await self._released(lease, next_request, released)

    def _releasing(self, lease: Claim, next_request: bytes) -> ScriptCall:
        return self._hosts.ending(lease, float(next_request) if next_request else None, "release")

    async def _released(self, lease: Claim, next_request: bytes | None, released: Sequence[int]) -> bool:
        if released[0] > 1:
            # Feeds were added while the host was taken, and our earlier look may have missed them.
            again = await self._redis.script(_on_host(lease.member, "", "add"))
            if again and again != next_request:
                await self._hosts.note({lease.member: float(again)}, "sooner")
        return released[0] > 0

    async def hold(self, host: str, feed_id: str, until: float, now: float) -> int:
        """Note that the publisher wants no requests for this feed before `until` (at most 48 h from now).

        Returns the number of held feeds of the host; with three or more, the whole host is held.
        """
        until = min(until, now + LONGEST_HOLD)
        rule = {"until": score_text(until), "now": score_text(now), "enough": FEEDS_FOR_A_HOLD, "life": HOST_RECORD}
        return int(await self._redis.script(_HOLD(host, feed=feed_id, **rule)))

    async def held_until(self, host: str) -> float | None:
        """The end of the host's newest hold, possibly past; None if there was none recently."""
        reply = await self._redis.command("HGET", keys.host(host), "hold")
        return float(reply) if reply is not None else None

    async def held_among(self, hosts: Iterable[str], now: float) -> dict[str, float]:
        """Those of the hosts that are held at that time, and until when. One round trip for a thousand."""
        found: dict[str, float] = {}
        for some in batches(list(hosts)):
            replies = await self._redis.pipeline([("HGET", keys.host(host), "hold") for host in some])
            times = {host: float(reply) for host, reply in zip(some, replies, strict=True) if reply is not None}
            found |= {host: until for host, until in times.items() if until > now}
        return found

    async def _holds(self, lease: Claim) -> bool:
        token = await self._redis.command("HGET", keys.hosts_leases(), lease.member)
        return token is not None and text(token) == lease.token

    async def _host(self, lease: Claim, verb: str, *args: str | int) -> Any:
        return await self._redis.script(_on_host(lease.member, lease.token, verb, *args))


def _on_host(host: str, token: str, verb: str, *rest: Arg) -> ScriptCall:
    return _HOST(host, token=token, life=HOST_RECORD, verb=verb, rest=rest)


def _time_or_never(seconds: float | None) -> str:
    return "" if seconds is None else score_text(seconds)
