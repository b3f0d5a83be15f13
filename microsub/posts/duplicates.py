"""Duplicates: posts of several feeds that are the same, and which of them wins.

Two items are duplicates if they share guid and link (their common identity) **and** one host serves both feeds, or the
host of the link serves one of them. In the latter case that feed's post wins, because it is the author's; on one host
the post that was stored first wins. Any other feed with the same guid and link changes nothing: it could be anyone's.

Thousands of feeds may claim one post, and each looks up all the others. So only `MOST` posts are remembered: first
those of the link's host, then the oldest of every host. A post that isn't remembered still finds these.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from microsub.base.urls import normalise_url
from microsub.model.reader import Duplicate
from microsub.posts import thin
from microsub.redis import keys
from microsub.redis.protocol import Command, Redis
from microsub.redis.replies import reading, text
from microsub.redis.replies import text as text_of

LIFETIME = 400 * 86400
"""Seconds for which duplicates are remembered after the last of them was written or seen in its feed."""

MOST = 64
"""Maximum number of remembered posts per common identity; half of them are for the host of the post's link."""

REFRESH = 30 * 86400
"""Seconds after which that time is extended for a post that its feed still lists."""


@dataclass(frozen=True, slots=True)
class PostOfFeed:
    """A feed's post among its duplicates: item and feed id, the feed's host, and the host of the post's link."""

    item: str
    feed: str
    host: str
    link_host: str

    def member(self) -> str:
        """The member of `keys.duplicates`."""
        return f"{self.item} {self.feed} {self.host} {self.link_host}"

    @classmethod
    def read(cls, member: bytes) -> PostOfFeed:
        """Parse a `member`. Raises StoreDamaged."""
        with reading(f"a post among its duplicates: {member[:80]!r}"):
            return cls(*text(member).split(" "))


def duplicates_of(mine: PostOfFeed, posts: Iterable[PostOfFeed]) -> tuple[Duplicate, ...]:
    """The duplicates of a post among those that share its guid and link, the oldest first."""
    found = []
    for other in sorted(posts, key=_age):
        if other.feed == mine.feed:
            continue
        wins = _other_wins(mine, other)
        if wins is not None:
            found.append(Duplicate(other.item, other.feed, wins))
    return tuple(found)


def surplus(posts: Sequence[PostOfFeed], most: int = MOST) -> list[PostOfFeed]:
    """The posts beyond `most`, the least useful ones."""
    if len(posts) <= most:
        return []
    ranks: Counter[str] = Counter()
    own: list[tuple[int, PostOfFeed]] = []
    others: list[tuple[int, PostOfFeed]] = []
    for post in sorted(posts, key=_age):
        (own if post.host == post.link_host else others).append((ranks[post.host], post))
        ranks[post.host] += 1
    others.sort(key=lambda pair: (pair[0], -_age(pair[1])))  # the host's first post, from the newest hosts
    room = max(most // 2, most - len(others))
    kept = [post for _, post in own[:room]]
    kept += [post for _, post in others[: most - len(kept)]]
    keep = set(kept)
    return [post for post in posts if post not in keep]


def _age(post: PostOfFeed) -> int:
    return int(post.item)


def _other_wins(mine: PostOfFeed, other: PostOfFeed) -> bool | None:
    """Whether `other` wins over `mine`; None if they are no duplicates."""
    if not mine.host or not other.host:
        return None
    if mine.host == other.host:
        return int(other.item) < int(mine.item)
    if other.host == other.link_host:
        return True
    if mine.host == mine.link_host:
        return False
    return None


WAS = "was"
"""An item's field with the items that it replaces, `<item id> <feed id> …`: of feeds that merged into its own, and
copies from imports.
"""


def was_of(text: str) -> tuple[Duplicate, ...]:
    """The posts that an item replaces, whatever their hosts: their feeds declared it."""
    parts = text.split()
    return tuple(Duplicate(item, feed) for item, feed in zip(parts[::2], parts[1::2], strict=False))


async def predecessors(redis: Redis, feed_id: str, posts: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Items of that feed, by key, that are the same as posts (key → identity and link) of its successor.

    The identities agree, and the links too if both are known; a deleted post, or one that was never here, has only its
    identity. Two round trips.
    """
    if not posts:
        return {}
    guids = [guid for guid, _ in posts.values()]
    maps = (keys.feed_guids(feed_id), keys.feed_departed(feed_id))
    stored, departed = await redis.pipeline([("HMGET", key, *guids) for key in maps])
    ids = {key: text_of(item or left) for key, item, left in zip(posts, stored, departed, strict=True) if item or left}
    links = await links_of(redis, [*ids.values()])
    return {
        key: item
        for (key, item), link in zip(ids.items(), links, strict=True)
        if item != "0" and _agree(text_of(link) if link else "", posts[key][1])
    }


async def copies(redis: Redis, feed_id: str, posts: Mapping[str, tuple[Sequence[str], str]]) -> dict[str, str]:
    """Users' own copies of a feed's posts (key → guids and link), by key, in the form of `WAS`. Two round trips."""
    guids = [(key, guid) for key, (names, _) in posts.items() for guid in names]
    found = await redis.command("HMGET", keys.feed_imported(feed_id), *(guid for _, guid in guids))
    ids = [(key, item) for (key, _), some in zip(guids, found, strict=True) if some for item in text_of(some).split()]
    links = await links_of(redis, [item for _, item in ids])
    by_key: dict[str, str] = {}
    for (key, item), link in zip(ids, links, strict=True):
        if link is not None and _agree(text_of(link), posts[key][1]):
            by_key[key] = f"{by_key.get(key, '')} {item} {feed_id}".strip()
    return by_key


async def fields_of(redis: Redis, ids: Sequence[str], names: Sequence[str]) -> list[list[bytes | None]]:
    """These fields of some items, row by row, as they are stored; only None for a missing item. One round trip."""
    asked = thin.with_others(names)
    rows = await redis.pipeline([("HMGET", keys.item(item), *asked) for item in ids])
    return [thin.completed(names, row) for row in rows]


async def links_of(redis: Redis, ids: Sequence[str]) -> list[bytes | None]:
    """The links of these items, None for a missing item. One round trip."""
    return [link for (link,) in await fields_of(redis, ids, ("link",))]


def _agree(link: str, other: str) -> bool:
    return not link or not other or normalise_url(link) == normalise_url(other)


_WHOLE = 64
"""Hex digits of a whole identity."""


def short(identity: str) -> str:
    """A common identity as it is stored: the first 128 bits of its digest, in 22 characters; a short one unchanged."""
    if len(identity) != _WHOLE:
        return identity
    return base64.urlsafe_b64encode(bytes.fromhex(identity)[:16]).rstrip(b"=").decode()


def is_whole(identity: str) -> bool:
    """Whether an item stores the whole identity, as up to layout 11."""
    return len(identity) == _WHOLE


def register(identity: str, post: PostOfFeed) -> list[Command]:
    """Commands that register a post among its duplicates."""
    key = keys.duplicates(short(identity))
    return [("SADD", key, post.member()), ("EXPIRE", key, LIFETIME)]


def unregister(identity: str, post: PostOfFeed) -> list[Command]:
    """Commands that remove a post from its duplicates."""
    return [("SREM", key, post.member()) for key in _keys(identity)]


def _keys(identity: str) -> list[str]:
    """The sets of an identity: one, and up to layout 11 another one by the whole identity."""
    return [keys.duplicates(one) for one in dict.fromkeys((short(identity), identity))]


async def run_and_shorten(redis: Redis, commands: Sequence[Command], identities: Iterable[str]) -> None:
    """Run commands, and move the duplicates of whole identities from the sets of layout 11.

    One round trip, unless there are such sets. Look-ups for a whole identity ask both sets, so it may be interrupted;
    repeating it changes nothing.
    """
    old = {one: keys.duplicates(one) for one in identities if is_whole(one)}
    replies = await redis.pipeline([*commands, *(("SMEMBERS", key) for key in old.values())])
    there = {one: members for one, members in zip(old, replies[len(commands) :], strict=True) if members}
    if there:
        moves: list[Command] = []
        for one, members in there.items():
            key = keys.duplicates(short(one))
            moves += [("SADD", key, *members), ("EXPIRE", key, LIFETIME)]
        await redis.pipeline(moves)
        await redis.pipeline([("DEL", old[one]) for one in there])


async def look_up(redis: Redis, wanted: Mapping[str, Sequence[PostOfFeed]]) -> dict[str, tuple[Duplicate, ...]]:
    """The duplicates of posts (common identity → posts), by item id.

    One round trip, and another one if there are more than can be remembered: the surplus is forgotten.
    """
    asked = [(identity, key) for identity in wanted for key in _keys(identity)]
    replies = await redis.pipeline([("SMEMBERS", key) for _, key in asked])
    members: dict[str, dict[bytes, None]] = {}
    for (identity, _), reply in zip(asked, replies, strict=True):
        members.setdefault(identity, {}).update(dict.fromkeys(reply))
    found: dict[str, tuple[Duplicate, ...]] = {}
    forget: list[Command] = []
    for identity, asking in wanted.items():
        posts = [PostOfFeed.read(member) for member in members[identity]]
        if many := surplus(posts):
            forget += [("SREM", key, *(post.member() for post in many)) for key in _keys(identity)]
            gone = set(many)
            posts = [post for post in posts if post not in gone]
        found |= {mine.item: duplicates_of(mine, posts) for mine in asking}
    if forget:
        await redis.pipeline(forget)
    return found


def by_identity(pairs: Iterable[tuple[str, PostOfFeed]]) -> dict[str, list[PostOfFeed]]:
    """The argument of `look_up`, from identities and posts."""
    wanted: dict[str, list[PostOfFeed]] = {}
    for identity, post in pairs:
        wanted.setdefault(identity, []).append(post)
    return wanted
