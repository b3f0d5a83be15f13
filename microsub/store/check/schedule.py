"""The schedule: every followed feed waits at its host, every waiting host stands in line, and nobody else does."""

from __future__ import annotations

from collections.abc import Mapping

from microsub.formats.identity import host_of
from microsub.model.moments import number
from microsub.store import keys
from microsub.store.check.findings import Commands, Findings, Queue
from microsub.store.check.seen import Reader, Seen, batched, pairs
from microsub.store.invariants import scores

AREA = "schedule"
_AT_ONCE = 100
_FORGOTTEN = 86400.0
"""Seconds overdue after which a feed that nobody follows counts as left behind: its host's next turn drops it."""

_FURTHEST = 400 * 86400.0
"""Seconds ahead that no time of a schedule can lie."""


async def examine(reader: Reader, seen: Seen, found: Findings) -> None:
    """Hold hosts and their feeds against what is followed."""
    if seen.wrong & {keys.hosts_due(), keys.hosts_leases()}:
        return
    flat = await reader.walk("ZSCAN", [keys.hosts_due()])
    line = scores(flat[keys.hosts_due()])
    leases = pairs((await reader.walk("HSCAN", [keys.hosts_leases()]))[keys.hosts_leases()])
    found.examined["hosts"] += len(seen.hosts | line.keys())
    queued: dict[str, set[str]] = {}
    for batch in batched(sorted(seen.hosts), _AT_ONCE):
        queues = await reader.walk("ZSCAN", [keys.host_due(host) for host in batch])
        records = await reader.ask([("HMGET", keys.host(host), "free", "hold") for host in batch])
        for host, record in zip(batch, records, strict=True):
            queue = scores(queues[keys.host_due(host)])
            for feed, due in queue.items():
                queued.setdefault(feed, set()).add(host)
                _queued(seen, found, host, feed, due)
            later = max((number(value) or 0.0 for value in record or ()), default=0.0)
            _in_line(seen, found, host, queue, line.get(host), host in leases, later)
    for feed in seen.followed:
        record_of = seen.records.get(feed)
        if record_of is None or record_of.gone:
            continue
        host = host_of(record_of.url)
        fresh = all((feed, user, uid) in seen.fresh for user, uid in seen.followed[feed])
        if host not in queued.get(feed, ()) and not fresh and keys.host_due(host) not in seen.wrong:
            due = record_of.next_poll or 0.0
            remedy = Queue(feed, host, due if 0 < due < seen.now + _FURTHEST else seen.now)
            found.add(AREA, keys.feed(feed), "followed, but never polled", remedy)


def _queued(seen: Seen, found: Findings, host: str, feed: str, due: float) -> None:
    """One feed that waits at a host."""
    record = seen.records.get(feed)
    what = None
    if record is None:
        what = "waits to be polled, but there is no such feed" if keys.feed(feed) not in seen.wrong else None
    elif host_of(record.url) != host:
        what = f"waits at a host that isn't its own ({host_of(record.url)})"
    elif record.gone:
        what = "waits to be polled, though it is gone for good"
    elif feed not in seen.followed and due < seen.now - _FORGOTTEN:
        what = "waits to be polled, though nobody follows it"
    elif not due < seen.now + _FURTHEST:
        what = "waits for a time that never comes"
    if what:
        commands = (("ZREM", keys.host_due(host), feed), ("HDEL", keys.host(host), f"held:{feed}"))
        found.add(AREA, f"{keys.host_due(host)} {feed}", what, Commands(commands))


def _in_line(
    seen: Seen,
    found: Findings,
    host: str,
    queue: Mapping[str, float],
    stands: float | None,
    is_leased: bool,
    later: float,
) -> None:
    """A host with feeds stands in line, no later than its first feed, its spacing and its hold ask for."""
    waiting = {feed: due for feed, due in queue.items() if due < seen.now + _FURTHEST}
    if not waiting:
        return
    feed, due = min(waiting.items(), key=lambda pair: pair[1])
    subject = f"{keys.hosts_due()} {host}"
    if stands is None:
        what = "has feeds to poll, but doesn't stand in line"
    elif not is_leased and stands > max(due, later) + 1:
        what = "stands in line later than its feeds"
    elif not stands < seen.now + _FURTHEST:
        what = "stands in line for a time that never comes"
    else:
        return
    found.add(AREA, subject, what, Queue(feed, host, due))
