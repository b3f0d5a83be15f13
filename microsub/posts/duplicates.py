"""Duplicates: posts of several feeds that are the same, and which of them wins.

Two items are duplicates if they share guid and link (their common identity) **and** one host serves both feeds, or the
host of the link serves one of them. In the latter case that feed's post wins, because it is the author's; on one host
the post that was stored first wins. Any other feed with the same guid and link changes nothing: it could be anyone's.

Thousands of feeds may claim one post, and each looks up all the others. So only `MOST` posts are remembered: first
those of the link's host, then the oldest of every host. A post that isn't remembered still finds these.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from microsub.base.digests import base64url
from microsub.base.urls import normalise_url
from microsub.model.reader import Duplicate
from microsub.posts import thin
from microsub.redis import keys
from microsub.redis.protocol import Arg, Command, Redis
from microsub.redis.replies import reading, text
from microsub.redis.replies import text as text_of
from microsub.redis.structures import Hash, Members, Request, Scores, rows, together

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
        """The member of `keys.duplicates`: the feed's host is left out if it is the link's."""
        return f"{self.item} {self.feed}" if self.host == self.link_host else f"{self.item} {self.feed} {self.host}"

    @classmethod
    def read(cls, member: bytes, link_host: str) -> PostOfFeed:
        """Parse a `member` in the set of that host. Raises StoreDamaged."""
        with reading(f"a post among its duplicates: {member[:80]!r}"):
            parts = text(member).split(" ")
            item, feed, host = parts if len(parts) == 3 else [*parts, link_host]
            return cls(item, feed, host, link_host)

    def former_member(self) -> str:
        """The member of `keys.former_duplicates`."""
        return f"{self.item} {self.feed} {self.host} {self.link_host}"

    @classmethod
    def former(cls, member: bytes) -> PostOfFeed:
        """Parse a `former_member`. Raises StoreDamaged."""
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


BECAME = "became"
"""An item's field with the id of the item that replaces it: the other direction of `WAS`."""


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
    stored, departed = await rows(redis, maps, guids)
    ids = {
        key: text_of(item or left or b"")
        for key, item, left in zip(posts, stored, departed, strict=True)
        if item or left
    }
    links = await links_of(redis, [*ids.values()])
    return {
        key: item
        for (key, item), link in zip(ids.items(), links, strict=True)
        if item != "0" and _agree(text_of(link) if link else "", posts[key][1])
    }


async def copies(redis: Redis, feed_id: str, posts: Mapping[str, tuple[Sequence[str], str]]) -> dict[str, str]:
    """Users' own copies of a feed's posts (key → guids and link), by key, in the form of `WAS`. Two round trips."""
    guids = [(key, guid) for key, (names, _) in posts.items() for guid in names]
    found = await Hash(redis, keys.feed_imported(feed_id)).get_many([guid for _, guid in guids])
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
    return thin.completed(names, await rows(redis, map(keys.item, ids), asked))


async def links_of(redis: Redis, ids: Sequence[str]) -> list[bytes | None]:
    """The links of these items, None for a missing item. One round trip."""
    return [link for (link,) in await fields_of(redis, ids, ("link",))]


def _agree(link: str, other: str) -> bool:
    return not link or not other or normalise_url(link) == normalise_url(other)


_HEX = 64
"""Characters of an identity as posts say it themselves, and as layout 8 stored it."""
_MONTH_BITS, _DIGEST_BITS = 8, 44
"""Parts of a score, which is an integer of 52 bits: beyond, the engine would keep it as text."""
_MONTH = 30 * 86400
_SEEN = 3
"""Members of a set that are looked at with every registration there: so at most a third of a set is older."""


def short(identity: str) -> str:
    """A common identity as items store it: the first 64 bits of its digest, in 11 characters; others are unchanged."""
    if len(identity) == _HEX:
        return base64url(bytes.fromhex(identity)[:8])
    return identity


def is_former(identity: str) -> bool:
    """Whether an item stores an identity as layout 8 did: there may be a set named by it."""
    return len(identity) == _HEX


def _key(post: PostOfFeed) -> str:
    return keys.duplicates(post.link_host)


def _bounds(identity: str) -> tuple[int, int]:
    """The first and last score of posts with that identity."""
    digest = hashlib.blake2b(short(identity).encode(), digest_size=8).digest()
    first = (int.from_bytes(digest) >> (64 - _DIGEST_BITS)) << _MONTH_BITS
    return first, first + (1 << _MONTH_BITS) - 1


def _month(now: float) -> int:
    return int(now // _MONTH) % (1 << _MONTH_BITS)


def _is_over(score: float, now: float) -> bool:
    age = (_month(now) - int(score)) % (1 << _MONTH_BITS)
    return LIFETIME / _MONTH + 1 < age < (1 << _MONTH_BITS) / 2


async def register(
    redis: Redis, posts: Sequence[tuple[str, PostOfFeed]], now: float, commands: Sequence[Command] = ()
) -> None:
    """Run commands, and register posts (common identity, post) among their duplicates. Idempotent.

    One round trip, unless there are sets of layout 8, whose members move, or posts that were registered too
    long ago, which are forgotten.
    """
    buckets = [Scores(redis, key) for key in dict.fromkeys(_key(post) for _, post in posts)]
    former = {key: identity for identity, _ in posts for key in _former(identity)}
    writing: list[Request[Any]] = [Request(redis, commands, list), *_adding(redis, posts, now)]
    seeing: list[Request[Any]] = [bucket.some(_SEEN) for bucket in buckets]
    seen = (await together(*writing, *seeing, *(Members(redis, key).all() for key in former)))[len(writing) :]
    for bucket, row in zip(buckets, seen, strict=False):
        await bucket.delete(*(member for member, score in row if _is_over(score, now)))
    await _move(redis, dict(zip(former, seen[len(buckets) :], strict=True)), former, now)


async def renew(redis: Redis, identities: Iterable[str], now: float) -> None:
    """Move the duplicates of these identities from their sets of layout 8. Idempotent.

    Look-ups for an identity that an item stores as layout 8 did ask these sets too, so it may be interrupted.
    """
    former = {key: identity for identity in identities for key in _former(identity)}
    replies = await together(*(Members(redis, key).all() for key in former))
    await _move(redis, dict(zip(former, replies, strict=True)), former, now)


async def _move(redis: Redis, sets: Mapping[str, Iterable[bytes]], identities: Mapping[str, str], now: float) -> None:
    there = {key: members for key, members in sets.items() if members}
    if there:
        posts = [(identities[key], PostOfFeed.former(one)) for key in there for one in there[key]]
        await together(*_adding(redis, posts, now))
        await together(*(Members(redis, key).clear() for key in there))


def _adding(redis: Redis, posts: Iterable[tuple[str, PostOfFeed]], now: float) -> list[Request[None]]:
    scores: dict[str, dict[str, Arg]] = {}
    for identity, post in posts:
        scores.setdefault(_key(post), {})[post.member()] = _bounds(identity)[0] + _month(now)
    return [Scores(redis, key, LIFETIME).set(members) for key, members in scores.items()]


def unregister(redis: Redis, identity: str, post: PostOfFeed) -> list[Command]:
    """Commands that remove a post from its duplicates."""
    return [command for one in _forgetting(redis, identity, [post]) for command in one.commands]


def _forgetting(redis: Redis, identity: str, posts: Sequence[PostOfFeed]) -> list[Request[int]]:
    former = [post.former_member() for post in posts]
    return [
        Scores(redis, _key(posts[0])).delete(*(post.member() for post in posts)),
        *(Members(redis, key).delete(former) for key in _former(identity)),
    ]


def _former(identity: str) -> list[str]:
    """The key of an identity's set of layout 8."""
    return [keys.former_duplicates(identity)] if is_former(identity) else []


async def look_up(redis: Redis, wanted: Mapping[str, Sequence[PostOfFeed]]) -> dict[str, tuple[Duplicate, ...]]:
    """The duplicates of posts (common identity → posts), by item id.

    One round trip, and another one if there are more than can be remembered: the surplus is forgotten.
    """
    known = await posts_with(redis, {identity: posts[0].link_host for identity, posts in wanted.items()})
    return await among(redis, known, wanted)


async def posts_with(redis: Redis, identities: Mapping[str, str]) -> dict[str, list[PostOfFeed]]:
    """All posts with each of these identities (identity → host of its link). One round trip."""
    # Former sets first: members that move to another set in between are then in one of the replies.
    former = [(identity, Members(redis, key).all()) for identity in identities for key in _former(identity)]
    asked = [
        Scores(redis, keys.duplicates(host)).at_scores(*_bounds(identity)) for identity, host in identities.items()
    ]
    replies = await together(*(request for _, request in former), *asked)
    known: dict[str, dict[PostOfFeed, None]] = {}
    for (identity, host), reply in zip(identities.items(), replies[len(former) :], strict=True):
        known[identity] = dict.fromkeys(PostOfFeed.read(member, host) for member in reply)
    for (identity, _), reply in zip(former, replies, strict=False):
        known[identity] |= dict.fromkeys(PostOfFeed.former(member) for member in reply)
    return {identity: [*posts] for identity, posts in known.items()}


async def among(
    redis: Redis, known: Mapping[str, Sequence[PostOfFeed]], wanted: Mapping[str, Sequence[PostOfFeed]]
) -> dict[str, tuple[Duplicate, ...]]:
    """`look_up`, of which the posts with these identities are known already."""
    found: dict[str, tuple[Duplicate, ...]] = {}
    forget: list[Request[int]] = []
    for identity, asking in wanted.items():
        posts = known[identity]
        if many := surplus(posts):
            forget += _forgetting(redis, identity, many)
            gone = set(many)
            posts = [post for post in posts if post not in gone]
        found |= {mine.item: duplicates_of(mine, posts) for mine in asking}
    await together(*forget)
    return found


def by_identity(pairs: Iterable[tuple[str, PostOfFeed]]) -> dict[str, list[PostOfFeed]]:
    """The argument of `look_up`, from identities and posts."""
    wanted: dict[str, list[PostOfFeed]] = {}
    for identity, post in pairs:
        wanted.setdefault(identity, []).append(post)
    return wanted
