"""One look at everything, in the order in which its parts need each other."""

from __future__ import annotations

from microsub.store.check import census, channels, credentials, feeds, idcounters, people, schedule
from microsub.store.check.findings import Findings
from microsub.store.check.seen import Reader, Seen
from microsub.store.port import Redis

PARTS = (
    census.examine,
    people.examine,
    credentials.examine,
    feeds.examine,
    channels.examine,
    feeds.examine_items,
    schedule.examine,
    idcounters.examine,
)


async def look(redis: Redis, now: float) -> Findings:
    """Examine everything once. `now` is Unix time in seconds."""
    found = Findings()
    seen = Seen(now)
    reader = Reader(redis, seen.wrong)
    for part in PARTS:
        await part(reader, seen, found)
    return found
