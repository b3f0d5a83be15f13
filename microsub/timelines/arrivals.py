"""The order in which items came to a user, which is what apps that sync go by.

An item has a place from the moment in which the first of the user's channels shows it until the last one doesn't: the
same item in two channels came once. Places are Unix times in microseconds, and each is behind all that were given out
before, whatever clocks do; so what is behind the last place that an app knows is all that came since. The scripts that
bring items into timelines and take them out keep this order with the same step (lua/parts/arrivals.lua).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from microsub.identity.store import absent
from microsub.model.reader import SAVED, View
from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis
from microsub.redis.replies import text, texts
from microsub.redis.scripts import BATCH, batches, load
from microsub.timelines.timelinekeys import arrival_keys, distinct, members

EXAMINED = 20_000
"""Most items that one request looks at for a channel or a state."""

Order = Literal["newest", "oldest"]


class Arrival(NamedTuple):
    """An item as it came to a user: its id, its place (Unix time in microseconds), and its state."""

    id: str
    place: int
    is_read: bool
    is_saved: bool


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A piece of the order.

    `resume` is the place to go on behind, None where nothing lies there; `newest` the latest place that was looked at.
    """

    rows: tuple[Arrival, ...]
    resume: int | None
    newest: int | None


async def read_arrivals(
    redis: Redis, user: str, uid: str, *, limit: int, order: Order, after: str = "", view: View = "all"
) -> Arrivals:
    """Up to `limit` items of a channel or of `global`, behind a place or from the beginning.

    Looks at `EXAMINED` at most, so there may be fewer though more lie behind. One round trip for every thousand looked
    at. Raises NotFound.
    """
    rows: list[Arrival] = []
    place, examined, older = after, 0, True
    newest: int | None = None
    while older and len(rows) < limit and examined < EXAMINED:
        found, stands, older = await _stretch(redis, user, uid, min(BATCH, limit - len(rows)), order, place)
        if not found:
            break
        examined += len(found)
        place = str(found[-1].place)
        newest = max(found[0].place, found[-1].place, newest or 0)
        rows += [
            row
            for row, is_there in zip(found, stands, strict=True)
            if is_there and (view == "all" or row.is_read == (view == "read"))
        ]
    return Arrivals(tuple(rows), int(place) if older and place else None, newest)


async def _stretch(
    redis: Redis, user: str, uid: str, size: int, order: Order, after: str
) -> tuple[list[Arrival], list[bool], bool]:
    """The next items whatever their state, whether each stands in the channel, and whether more lie behind."""
    reply = await redis.script(
        load("arrival_page"),
        [keys.channels(user), keys.removed_channels(user), keys.arrivals(user), keys.posts(user, SAVED)],
        [size, order, after, uid, keys.pattern(keys.posts, user), keys.pattern(keys.unread, user)],
    )
    if isinstance(reply, int):
        raise await absent(redis, user, uid)
    pairs, unread, saved, stands, more = reply
    parts = text(pairs).split()
    rows = [
        Arrival(item, int(place), unread_digit == 48, saved_digit == 49)
        for item, place, unread_digit, saved_digit in zip(parts[0::2], parts[1::2], unread, saved, strict=True)
    ]
    return rows, [digit == 49 for digit in stands], bool(more)


async def repair_arrivals(redis: Redis, user: str, ids: Sequence[str], now: float) -> None:
    """Bring these items' places into agreement with what the channels show; `now` is Unix time.

    The ids in the order in which those without a place are to get one.
    """
    left = distinct(ids)
    while left:
        script_keys = [keys.channels(user), keys.removed_channels(user), *arrival_keys(user)]
        args: list[Arg] = [now, keys.pattern(keys.posts, user), *left[:BATCH]]
        left = left[await redis.script(load("arrival_repair"), script_keys, args) :]


async def repair_all_arrivals(redis: Redis, user: str, now: float) -> None:
    """The same for all that has a place: what no channel shows any more loses it."""
    async for ids in members(redis, keys.arrivals(user)):
        await repair_arrivals(redis, user, ids, now)


async def derive_arrivals(redis: Redis, user: str) -> None:
    """Write the order anew for items that came before there was one, by the time of publication.

    Nothing may come in or leave meanwhile.
    """
    lists = await redis.pipeline([("ZRANGE", key, 0, -1) for key in (keys.channels(user), keys.removed_channels(user))])
    shown: dict[str, list[float]] = {}
    for uid in (uid for reply in lists for uid in texts(reply)):
        flat = texts(await redis.command("ZRANGE", keys.posts(user, uid), 0, -1, "WITHSCORES"))
        for item, score in zip(flat[0::2], flat[1::2], strict=True):
            shown.setdefault(item, []).append(float(score))
    await redis.pipeline([("DEL", key) for key in arrival_keys(user)])
    places = in_order({item: scores[0] for item, scores in shown.items()})
    for batch in batches(places):
        await redis.command("ZADD", keys.arrivals(user), *(part for item, place in batch for part in (place, item)))
    counts = [(item, len(scores) - 1) for item, scores in shown.items() if len(scores) > 1]
    for some in batches([*counts, *(("last", place) for _, place in places[-1:])]):
        await redis.command("HSET", keys.arrivals_more(user), *(part for pair in some for part in pair))


def in_order(published: Mapping[str, float]) -> list[tuple[str, int]]:
    """Items with a place each, by time of publication (Unix seconds)."""
    place = 0
    found = []
    for item, at in sorted(published.items(), key=lambda one: (one[1], int(one[0]))):
        place = max(int(at * 1_000_000), place + 1)
        found.append((item, place))
    return found


def disagreeing_arrivals(
    shown: Mapping[str, int], places: Iterable[str], more: Mapping[str, int]
) -> dict[str, list[str]]:
    """Items whose place doesn't agree with how many channels show them, by what is wrong. Pure."""
    placed = set(places)
    counted = {item: count for item, count in shown.items() if count > 1}
    wrong = {item for item in counted.keys() | more.keys() if counted.get(item, 1) != more.get(item, 0) + 1}
    return {
        "shown, but not in the order of arrival": sorted(shown.keys() - placed),
        "in the order of arrival, though no channel shows it": sorted(placed - shown.keys()),
        "in the order of arrival with a wrong number of channels": sorted(wrong),
    }
