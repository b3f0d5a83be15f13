"""The merged timeline of more channels than one page reads completely."""

from __future__ import annotations

import random

import pytest

from microsub.model.reader import Cursor, Row
from microsub.redis import keys
from microsub.redis.protocol import Command, Redis
from microsub.timelines.pages import TimelineRange, read_range

CHANNELS, ITEMS = 90, 150


@pytest.mark.parametrize("seed", range(8))
async def test_the_newest_of_many_channels_come_first(redis: Redis, seed: int) -> None:
    """Each item comes once, even among others of the same time, in a channel where it is unread if there is one."""
    chance, sizes = random.Random(seed), ((0, 1), (0, 1, 3, 6))[seed % 2]
    # Scores with all their digits: a rounded bound would leave out the item that it was made from.
    scores = {str(n): 1_700_000_000 + (n // 8) / 7 for n in range(1, ITEMS)}
    posts: dict[str, set[str]] = {}
    unread: dict[str, set[str]] = {}
    for n in range(CHANNELS):
        uid, here = f"c{n}", chance.sample(list(scores), chance.choice(sizes))
        posts[uid] = set(here)
        unread[uid] = {item for item in here if chance.random() < 0.6}
        commands: list[Command] = [
            ("ZADD", keys.channels("ann"), n, uid),
            ("HSET", keys.channel("ann", uid), "name", uid),
        ]
        commands += [("ZADD", keys.posts("ann", uid), repr(scores[item]), item) for item in posts[uid]]
        commands += [("SADD", keys.unread("ann", uid), item) for item in unread[uid]]
        await redis.pipeline(commands)
    anywhere = set().union(*unread.values())
    for limit in (1, 4, 12):
        for span, there in (
            (TimelineRange(limit), set().union(*posts.values())),
            (TimelineRange(limit, unread_only=True), anywhere),
        ):
            expected = sorted(there, key=lambda item: (scores[item], item), reverse=True)
            found: list[Row] = []
            page = (await read_range(redis, "ann", "global", span, 0))[1]
            while True:
                found += page.rows
                if not page.older:
                    break
                assert len(page.rows) == limit
                cursor = Cursor(page.rows[-1].score, page.rows[-1].id)
                page = (await read_range(redis, "ann", "global", span._replace(direction="after", cursor=cursor), 0))[1]
            assert [row.id for row in found] == expected
            assert all(row.is_read == (row.id not in anywhere) for row in found)
            assert all(row.id in posts[row.channel] for row in found)
            assert all(row.is_read or row.id in unread[row.channel] for row in found)


async def test_an_unread_item_behind_a_read_one_is_found_in_a_later_channel(redis: Redis) -> None:
    """When the page knows already how new an item must be, all items of a channel that are as new are examined."""
    for uid, posts in {"a": {"10": True}, "b": {"9": True}, "c": {"12": False, "11": True}}.items():
        await redis.pipeline(
            [
                ("ZADD", keys.channels("ann"), ord(uid), uid),
                ("HSET", keys.channel("ann", uid), "name", uid),
                *(("ZADD", keys.posts("ann", uid), item, item) for item in posts),
                *(("SADD", keys.unread("ann", uid), item) for item, is_open in posts.items() if is_open),
            ]
        )
    page = (await read_range(redis, "ann", "global", TimelineRange(1, unread_only=True), 0))[1]
    assert [row.id for row in page.rows] == ["11"]
