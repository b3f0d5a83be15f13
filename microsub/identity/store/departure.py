"""A disabled user's data going for good, in steps that a crash or a return of the user may interrupt anywhere."""

from __future__ import annotations

from microsub.model.reader import GLOBAL
from microsub.redis import identitykeys, keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import text, texts
from microsub.redis.scripts import load
from microsub.timelines.store.timelinekeys import batches

_AT_ONCE = 500
USER_KEYS = (*identitykeys.USER_KEYS, *keys.USER_KEYS)


async def delete_disabled(redis: Redis, name: str, disabled: float) -> bool:
    """Delete the user and all that is theirs, as long as they have been disabled since exactly that Unix time.

    One channel or 500 tokens a step, so that Redis is held up for a moment only. False when the user was restored or
    disabled anew meanwhile, or is given channels: then what is left stays. Who follows what in the feeds' own lists is
    left to the mending.
    """
    head = [keys.user(name), keys.channels(name), keys.removed_channels(name)]

    async def step(uid: str, *doomed: str) -> bool:
        return bool(await redis.script(load("user_delete"), [*head, *doomed], [repr(disabled), uid]))

    lists = await redis.pipeline([("ZRANGE", key, 0, -1) for key in head[1:]])
    for uid in (text(one) for reply in lists for one in reply):
        if not await step(uid, *(key(name, uid) for key in keys.CHANNEL_KEYS)):
            return False
    digests = texts(await redis.command("SMEMBERS", keys.tokens(name)))
    for batch in batches(digests, _AT_ONCE):
        if not await step("", *(keys.token(name, digest) for digest in batch)):
            return False
    for list_of, member in identitykeys.USER_LISTS:
        members = texts(await redis.command("SMEMBERS", list_of(name)))
        for batch in batches(members, _AT_ONCE):
            if not await step("", *(member(name, one) for one in batch)):
                return False
    # Before the end, since a user made anew may be given limits of their own.
    await redis.command("HDEL", keys.settings(), f"user:{name}")
    rest = [keys.muted(name, GLOBAL), keys.blocked(name, GLOBAL), *(key(name) for key in USER_KEYS)]
    if not await step("", *rest):
        return False
    await _unlist(redis, name)
    return True


async def end_access(redis: Redis, name: str) -> None:
    """End by what apps and browsers come in as a user. May be repeated; a list goes after all that stands in it."""
    digests = texts(await redis.command("SMEMBERS", keys.tokens(name)))
    for batch in batches(digests, _AT_ONCE):
        await redis.command("DEL", *(keys.token(name, digest) for digest in batch))
    for list_of, member in identitykeys.USER_LISTS:
        members = texts(await redis.command("SMEMBERS", list_of(name)))
        for batch in batches(members, _AT_ONCE):
            await redis.command("DEL", *(member(name, one) for one in batch))
        await redis.command("DEL", list_of(name))
    await redis.command("DEL", keys.tokens(name))


async def _unlist(redis: Redis, name: str) -> None:
    """Take the name out of the list, in another slot; and back in where somebody has made that user again meanwhile."""
    await redis.command("SREM", keys.users(), name)
    await redis.command("ZREM", keys.seen(), name)
    if await redis.command("EXISTS", keys.user(name)):
        await redis.command("SADD", keys.users(), name)
