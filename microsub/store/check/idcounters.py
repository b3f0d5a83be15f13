"""The counters of ids: whether they are numbers, and stand where all ids that were given out lie behind them."""

from __future__ import annotations

from microsub.store import counters, keys
from microsub.store.check.findings import Call, Findings
from microsub.store.check.seen import Reader, Seen
from microsub.store.ids import is_id

AREA = "keys"
_SPOILT = -1


def is_sound(value: int) -> bool:
    """Whether a counter that stands there can be counted on."""
    return 0 <= value <= counters.MOST


async def begin(reader: Reader, seen: Seen) -> int:
    """Note where the counters stand before anything else is looked at; what that of the items says."""
    seen.counters.items.first = await _value(reader, keys.item_ids())
    seen.counters.feeds.first = await _value(reader, keys.feed_ids())
    return seen.counters.items.first


async def examine(reader: Reader, seen: Seen, found: Findings) -> None:
    """Hold the counters against what was seen. Where one is of no use, ids that are only mentioned count as well: a
    guid, or a timeline's memory of what left, would else mean another post.
    """
    for feed in (*seen.urls.values(), *seen.followed):
        seen.counters.feeds.mention(feed)
    for key, ids in ((keys.item_ids(), seen.counters.items), (keys.feed_ids(), seen.counters.feeds)):
        now = await _value(reader, key)
        beyond = now > counters.MOST > ids.newest
        least = ids.newest
        if now <= 0 or beyond:
            least = max(least, ids.mentioned)
        remedy = Call("counter_raise", (key,), (least, counters.MOST))
        if now == _SPOILT:
            found.add(AREA, key, "no number that ids could come from", remedy)
        elif ids.newest > max(ids.first, now):
            found.add(AREA, key, "behind the ids that were given out already", remedy)
        elif beyond:
            found.add(AREA, key, "far beyond all ids that were given out", remedy)


async def _value(reader: Reader, key: str) -> int:
    """A counter's value; 0 where there is none, or one of a wrong type."""
    if await reader.redis.command("TYPE", key) not in (b"string", "string"):
        return 0
    value = await reader.redis.command("GET", key)
    if value is None:
        return 0
    text = value.decode("utf-8", "replace")
    return int(text) if text == "0" or is_id(text) else _SPOILT
