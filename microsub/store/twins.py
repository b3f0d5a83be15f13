"""Copies of one post in several feeds: which of them are the same post, and which one counts.

Two items are twins when their guid and link agree (that is their common identity) **and** their feeds are served by
one host, or one of the feeds by the host that the link leads to. The latter's copy wins, since it is the author's;
on one host the copy that was stored first wins. Any other feed that claims the same guid and link changes nothing: it
could be anyone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from microsub.model.reader import Twin
from microsub.store import keys
from microsub.store.port import Command, Redis

LIFETIME = 400 * 86400
"""Seconds that copies are known of each other after the last of them was written or seen in its feed."""

REFRESH = 30 * 86400
"""Seconds after which a post that its feed still lists has that prolonged."""


@dataclass(frozen=True, slots=True)
class Copy:
    """One feed's copy of a post: item and feed id, the feed's host, and the host of the post's link."""

    item: str
    feed: str
    host: str
    link_host: str

    def member(self) -> str:
        """As it stands in `keys.twins`."""
        return f"{self.item} {self.feed} {self.host} {self.link_host}"

    @classmethod
    def read(cls, member: bytes) -> Copy:
        """`member` read back."""
        item, feed, host, link_host = member.decode().split(" ")
        return cls(item, feed, host, link_host)


def twins_of(item_id: str, copies: Iterable[Copy]) -> tuple[Twin, ...]:
    """The twins of one item among all copies that share its guid and link, the oldest first."""
    known = list(copies)
    mine = next((copy for copy in known if copy.item == item_id), None)
    if mine is None:
        return ()
    found = []
    for other in sorted(known, key=lambda copy: int(copy.item)):
        if other.feed == mine.feed:
            continue
        wins = _other_wins(mine, other)
        if wins is not None:
            found.append(Twin(other.item, other.feed, wins))
    return tuple(found)


def _other_wins(mine: Copy, other: Copy) -> bool | None:
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


def register(identity: str, copy: Copy) -> list[Command]:
    """Commands that make `copy` known to its twins."""
    key = keys.twins(identity)
    return [("SADD", key, copy.member()), ("EXPIRE", key, LIFETIME)]


async def look_up(redis: Redis, identities: Mapping[str, str]) -> dict[str, tuple[Twin, ...]]:
    """The twins of items (id → identity), by id. One round trip."""
    wanted: Sequence[str] = list(dict.fromkeys(identities.values()))
    replies = await redis.pipeline([("SMEMBERS", keys.twins(identity)) for identity in wanted])
    copies = {
        identity: [Copy.read(member) for member in reply] for identity, reply in zip(wanted, replies, strict=True)
    }
    return {item_id: twins_of(item_id, copies[identity]) for item_id, identity in identities.items()}
