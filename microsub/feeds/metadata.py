"""Stores a feed's title and picture and announces the change, at least once, whatever process dies."""

from __future__ import annotations

from collections.abc import Mapping

from microsub.feeds.announcing import Announcing
from microsub.feeds.store.events import Event
from microsub.feeds.store.metadata import names_in
from microsub.feeds.store.record import Feeds


async def describe(
    feeds: Feeds,
    announcing: Announcing,
    feed_id: str,
    said: Mapping[str, str | None],
    now: float,
    *,
    if_changed: Mapping[str, str | None] | None = None,
    reading: float | None = None,
    is_new: bool = False,
) -> tuple[str, ...]:
    """Keep what is said of a feed, and announce what of it is news, with what an earlier attempt left untold.

    Returns the names of the fields that changed now. `if_changed` is written in the same step where any did. A feed
    that is new is announced as such. A `reading` that a later one has overtaken changes nothing. Raises StoreError; to
    be repeated where it broke off.
    """
    described = await feeds.describe(feed_id, said, if_changed, reading)
    if is_new:
        await announcing.tell([Event("feed_created", feed_id, now)])
        if described.untold:
            await feeds.told(feed_id, described.untold)
    elif described.untold:
        await tell(feeds, announcing, feed_id, described.untold, now)
    return described.changed


async def tell(feeds: Feeds, announcing: Announcing, feed_id: str, note: str, now: float) -> None:
    """Announce what a note says. Raises StoreError."""
    await announcing.tell([Event("feed_modified", feed_id, now, changed=names_in(note))])
    await feeds.told(feed_id, note)
