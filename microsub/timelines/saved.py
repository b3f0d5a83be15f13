"""The channel `saved`: items that a user keeps, in addition to their place in other channels.

Only the user removes items: no limit of age or number, no rule, and no "mark all" of other channels affects it. All
times are Unix seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from itertools import compress

from microsub.base.errors import QuotaReached
from microsub.model.reader import GLOBAL, SAVED, Reason
from microsub.posts import Items
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.readings import reading_times
from microsub.redis.scan import members_at
from microsub.redis.scripts import batches
from microsub.redis.structures import Scores, together
from microsub.timelines.pages import shown_among
from microsub.timelines.remove import SAVED_POSTS, Leaving, move_items, take_out
from microsub.timelines.restore import save_items
from microsub.timelines.timelinekeys import distinct


class SavedPosts:
    """Puts items into `saved`, and removes them."""

    def __init__(self, redis: Redis, items: Items) -> None:
        self._redis = redis
        self._items = items

    async def save(self, user: str, ids: Sequence[str], now: float, *, uid: str = GLOBAL, most: int = 0) -> int:
        """Save items that the channel or (`global`) any channel of the user shows; returns the number newly saved.

        They also stay where they are. Unknown ids and saved items are ignored. If the user would have more than `most`
        (0: any number), none is saved and QuotaReached is raised. Raises NotFound.
        """
        shown = await shown_among(self._redis, user, uid, distinct(ids))
        return await self.save_posts(user, shown, now, most=most)

    async def save_posts(self, user: str, ids: Sequence[str], now: float, *, most: int = 0) -> int:
        """Save stored posts for a user, whether or not any channel shows them; returns the number newly saved.

        The caller must know that the user may see these posts, so never pass on ids from an app. Unknown and saved
        posts are ignored. Up to a thousand are saved all or none. Raises NotFound and QuotaReached.
        """
        count = 0
        for batch in batches(distinct(ids)):
            count += await save_items(self._redis, self._items, user, batch, now, most)
        return count

    async def among(self, user: str, ids: Sequence[str]) -> set[str]:
        """See `saved_among`."""
        return await saved_among(self._redis, user, ids)

    async def unsave(self, user: str, ids: Sequence[str], now: float) -> int:
        """Remove items from `saved` only; returns their number. Raises NotFound."""
        return len(await take_out(self._redis, user, SAVED, ids, Leaving(Reason.REMOVED), now))

    async def move_in(self, user: str, ids: Sequence[str], now: float, *, most: int) -> int:
        """Move items from all other channels into `saved`, with their read state; returns the number moved.

        Unknown ids are ignored. If the user would have more than `most` (0: any number), none is moved; of hundreds,
        some may be moved before other requests reach the limit. Raises NotFound and QuotaReached.
        """
        if most:  # move_items counts again with each batch; this check comes before the first one
            new = set(await shown_among(self._redis, user, GLOBAL, distinct(ids))) - await saved_among(
                self._redis, user, ids
            )
            count = await count_saved(self._redis, user)
            if new and count + len(new) > most:
                raise QuotaReached(SAVED_POSTS, count, most)
        return await move_items(self._redis, self._items, user, SAVED, ids, now, most=most)


async def count_saved(redis: Redis, user: str) -> int:
    """The number of items that the user has saved."""
    return await Scores(redis, keys.posts(user, SAVED)).count()


async def saved_among(redis: Redis, user: str, ids: Sequence[str]) -> set[str]:
    """The given ids that the user has saved. One round trip."""
    return await members_at(redis, [keys.posts(user, SAVED)], distinct(ids))


async def saved_of(redis: Redis, users: Collection[str], ids: Sequence[str]) -> list[tuple[str, dict[str, int | None]]]:
    """The users who have saved any of these items: user, and time of reading (None for unread) by id."""
    scores, times = await asyncio.gather(
        together(*(Scores(redis, keys.posts(user, SAVED)).get_many(ids) for user in users)),
        reading_times(redis, [keys.read(user, SAVED) for user in users], ids),
    )
    found = []
    for user, shown, read in zip(users, scores, times, strict=True):
        if saved := {item: read.get(item) for item in compress(ids, (score is not None for score in shown))}:
            found.append((user, saved))
    return found
