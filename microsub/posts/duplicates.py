"""Copies of one post in several feeds: which are the same post, and which one counts.

Two items are twins when their guid and link agree (that is their common identity) **and** their feeds are served by
one host, or one of the feeds by the host that the link leads to. The latter's copy wins, since it is the author's;
on one host the copy that was stored first wins. Any other feed that claims the same guid and link changes nothing: it
could be anyone.

Thousands of feeds may claim one post, and each of them asks for all the others. So only `MOST` copies are kept: first
those of the link's host, then the oldest of every host. A copy that isn't kept still finds those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from microsub.kit.urls import normalise_url
from microsub.model.reader import Twin
from microsub.redis import keys
from microsub.redis.protocol import Command, Redis
from microsub.redis.replies import reading, text
from microsub.redis.replies import text as text_of

LIFETIME = 400 * 86400
"""Seconds that copies are known of each other after the last of them was written or seen in its feed."""

MOST = 64
"""Copies of one post that are remembered; half of them are for the host that the post's link leads to."""

REFRESH = 30 * 86400
"""Seconds after which a post that its feed still lists has that prolonged."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """One feed's copy of a post: item and feed id, the feed's host, and the host of the post's link."""

    item: str
    feed: str
    host: str
    link_host: str

    def member(self) -> str:
        """As it stands in `keys.twins`."""
        return f"{self.item} {self.feed} {self.host} {self.link_host}"

    @classmethod
    def read(cls, member: bytes) -> Duplicate:
        """`member` read back. Raises StoreDamaged."""
        with reading(f"a member of twins: {member[:80]!r}"):
            return cls(*text(member).split(" "))


def twins_of(mine: Duplicate, copies: Iterable[Duplicate]) -> tuple[Twin, ...]:
    """The twins of one copy among those that share its guid and link, the oldest first."""
    found = []
    for other in sorted(copies, key=_age):
        if other.feed == mine.feed:
            continue
        wins = _other_wins(mine, other)
        if wins is not None:
            found.append(Twin(other.item, other.feed, wins))
    return tuple(found)


def surplus(copies: Sequence[Duplicate], most: int = MOST) -> list[Duplicate]:
    """Those of the copies that are too many, the least useful ones."""
    if len(copies) <= most:
        return []
    ranks: Counter[str] = Counter()
    own: list[tuple[int, Duplicate]] = []
    others: list[tuple[int, Duplicate]] = []
    for copy in sorted(copies, key=_age):
        (own if copy.host == copy.link_host else others).append((ranks[copy.host], copy))
        ranks[copy.host] += 1
    others.sort(key=lambda pair: (pair[0], -_age(pair[1])))  # the host's first copy, from the newest hosts
    room = max(most // 2, most - len(others))
    kept = [copy for _, copy in own[:room]]
    kept += [copy for _, copy in others[: most - len(kept)]]
    keep = set(kept)
    return [copy for copy in copies if copy not in keep]


def _age(copy: Duplicate) -> int:
    return int(copy.item)


def _other_wins(mine: Duplicate, other: Duplicate) -> bool | None:
    """Whether `other` wins over `mine`; None where they are no twins."""
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
"""The field of an item that names its copies in feeds that gave their followers to its own: `<item id> <feed id> …`."""

MERGED = "merged"
"""The field of a feed's record that names the feeds which gave it their followers, the latest last."""


def was_of(text: str) -> tuple[Twin, ...]:
    """The copies that an item takes the place of, whatever their hosts: their feeds said so."""
    parts = text.split()
    return tuple(Twin(item, feed) for item, feed in zip(parts[::2], parts[1::2], strict=False))


async def predecessors(redis: Redis, feed_id: str, posts: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Items of that feed, by key, that are the posts (key → identity and link) of its successor.

    The identities agree, and the links where both are known: what was deleted is known by its identity alone. Two round
    trips.
    """
    if not posts:
        return {}
    replies = await redis.command("HMGET", keys.feed_guids(feed_id), *(guid for guid, _ in posts.values()))
    ids = {key: text_of(item) for key, item in zip(posts, replies, strict=True) if item}
    links = await redis.pipeline([("HGET", keys.item(item), "link") for item in ids.values()])
    return {
        key: item
        for (key, item), link in zip(ids.items(), links, strict=True)
        if item != "0" and _agree(text_of(link) if link else "", posts[key][1])
    }


def _agree(link: str, other: str) -> bool:
    return not link or not other or normalise_url(link) == normalise_url(other)


def register(identity: str, copy: Duplicate) -> list[Command]:
    """Commands that make `copy` known to its twins."""
    key = keys.twins(identity)
    return [("SADD", key, copy.member()), ("EXPIRE", key, LIFETIME)]


async def look_up(redis: Redis, wanted: Mapping[str, Sequence[Duplicate]]) -> dict[str, tuple[Twin, ...]]:
    """The twins of copies, each with its identity (identity → copies), by item id.

    One round trip, and one more where there are more copies than are to be remembered: those are forgotten.
    """
    replies = await redis.pipeline([("SMEMBERS", keys.twins(identity)) for identity in wanted])
    found: dict[str, tuple[Twin, ...]] = {}
    forget: list[Command] = []
    for (identity, asking), reply in zip(wanted.items(), replies, strict=True):
        copies = [Duplicate.read(member) for member in reply]
        if many := surplus(copies):
            forget.append(("SREM", keys.twins(identity), *(copy.member() for copy in many)))
            gone = set(many)
            copies = [copy for copy in copies if copy not in gone]
        found |= {mine.item: twins_of(mine, copies) for mine in asking}
    if forget:
        await redis.pipeline(forget)
    return found


def by_identity(pairs: Iterable[tuple[str, Duplicate]]) -> dict[str, list[Duplicate]]:
    """What `look_up` takes, from identities and copies."""
    wanted: dict[str, list[Duplicate]] = {}
    for identity, copy in pairs:
        wanted.setdefault(identity, []).append(copy)
    return wanted
