"""One reader's timelines as plain dicts and sets: slow, obvious, and independent of Redis.

The state machine does everything twice, here and in Redis, and compares. Nothing here knows keys or scripts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce

from microsub.model.reader import NOTIFICATIONS, Reason, TimelineItem

COMES_BACK = {Reason.UNFOLLOWED, Reason.DUPLICATE}


@dataclass
class ModelChannel:
    """posts and hidden: id → time of reading or None; gone: id → reason; feeds: feed → time of following;
    unread_from: feed → score from which on its items are unread, once the first ones have come in; excluded: the
    words that its filter keeps out; behind: feed → place from which on its items wait.
    """

    posts: dict[str, float | None] = field(default_factory=dict)
    hidden: dict[str, float | None] = field(default_factory=dict)
    gone: dict[str, Reason] = field(default_factory=dict)
    feeds: dict[str, float] = field(default_factory=dict)
    unread_from: dict[str, float] = field(default_factory=dict)
    muted: set[str] = field(default_factory=set)
    blocked: set[str] = field(default_factory=set)
    excluded: set[str] = field(default_factory=set)
    behind: dict[str, float] = field(default_factory=dict)

    def part_of(self, item: str) -> dict[str, float | None] | None:
        return self.posts if item in self.posts else self.hidden if item in self.hidden else None

    def leave(self, item: str, reason: Reason) -> None:
        self.posts.pop(item, None)
        self.hidden.pop(item, None)
        self.gone[item] = reason


@dataclass
class Model:
    """All channels of a reader, and the items that exist."""

    items: dict[str, TimelineItem]
    feed_of: dict[str, str]
    channels: dict[str, ModelChannel]
    muted: set[str] = field(default_factory=set)
    blocked: set[str] = field(default_factory=set)
    excluded: set[str] = field(default_factory=set)
    words: dict[str, str] = field(default_factory=dict)

    # --- reading -----------------------------------------------------------------------------------------------------

    def place(self, item: str) -> tuple[float, str]:
        return float(self.items[item].score), item

    def sorted(self, ids: Iterable[str]) -> list[str]:
        return sorted(ids, key=self.place, reverse=True)

    def fed(self, uid: str) -> list[ModelChannel]:
        """The named channels without `saved`, unless that is the named one."""
        return [one for one in self.named(uid) if uid == "saved" or one is not self.channels["saved"]]

    def named(self, uid: str) -> list[ModelChannel]:
        return list(self.channels.values()) if uid == "global" else [self.channels[uid]]

    def shown(self, uid: str) -> list[tuple[str, bool]]:
        """Ids and read flags, newest first."""
        channels = self.named(uid)
        ids = {item for channel in channels for item in channel.posts}
        unread = {item for channel in channels for item, at in channel.posts.items() if at is None}
        return [(item, item not in unread) for item in self.sorted(ids)]

    # --- rules -------------------------------------------------------------------------------------------------------

    def urls(self, item: str) -> set[str]:
        known = self.items[item]
        return {known.author, *known.sources} - {""}

    def is_muted(self, channel: ModelChannel, item: str) -> bool:
        return channel is not self.channels["saved"] and bool(self.urls(item) & (channel.muted | self.muted))

    def is_blocked(self, channel: ModelChannel, item: str) -> bool:
        return channel is not self.channels["saved"] and bool(self.urls(item) & (channel.blocked | self.blocked))

    def settle(self, channel: ModelChannel, item: str) -> None:
        part = channel.part_of(item)
        if part is None:
            return
        if self.is_blocked(channel, item):
            channel.leave(item, Reason.BLOCKED)
        elif self.is_muted(channel, item):
            channel.hidden[item] = part.pop(item)
        else:
            channel.posts[item] = part.pop(item)

    def rule(self, uid: str, kind: str, url: str, *, on: bool) -> None:
        sets = [getattr(self if uid == "global" else self.channels[uid], kind)]
        for rules in sets:
            (rules.add if on else rules.discard)(url)
        if kind == "blocked" and not on:
            return
        for channel in self.fed(uid):
            for item in [*channel.posts, *channel.hidden]:
                if url in self.urls(item):
                    self.settle(channel, item)

    # --- adding ------------------------------------------------------------------------------------------------------

    def excluded_in(self, uid: str) -> set[str]:
        """The words that the filters of the channel and of all channels keep out."""
        return self.channels[uid].excluded | (self.excluded if uid != NOTIFICATIONS else set())

    def add(self, uid: str, feed: str, ids: Sequence[str], now: float, limit: int, fresh: int) -> None:
        channel = self.channels[uid]
        if feed not in channel.feeds or not ids:
            return
        chosen = [item for item in self.sorted(ids) if self.words.get(item) not in self.excluded_in(uid)]
        if chosen and feed not in channel.unread_from:
            # Items that aren't shown don't count as the newest.
            shown = [one for one in chosen if not self.is_muted(channel, one) and not self.is_blocked(channel, one)]
            scores = [self.place(item)[0] for item in shown[:fresh]]
            channel.unread_from[feed] = min([channel.feeds[feed], *scores])
        for item in chosen:
            old = self.place(item)[0] < channel.unread_from[feed]
            self._take(channel, item, now if old else None, limit)

    def leave_for_later(self, uid: str, feed: str, ids: Sequence[str]) -> None:
        behind = self.channels[uid].behind
        behind[feed] = min([behind.get(feed, float("inf")), *(self.place(item)[0] for item in ids)])

    def catch_up(self, now: float, limit: int, fresh: int) -> None:
        for uid, channel in self.channels.items():
            waiting, channel.behind = channel.behind, {}
            for feed in sorted(waiting):
                due = [one for one in self.items if self.feed_of[one] == feed and self.place(one)[0] >= waiting[feed]]
                self.add(uid, feed, due, now, limit, fresh)

    def _take(self, channel: ModelChannel, item: str, read_at: float | None, limit: int) -> None:
        if channel.gone.get(item) not in {None, *COMES_BACK}:
            return
        duplicates = self.items[item].duplicates
        if channel.part_of(item) is not None:
            # Both are here after a move by a user: the one whose feed this channel doesn't follow leaves.
            for other in duplicates:
                part = channel.part_of(other.item)
                if part is not None and other.feed not in channel.feeds:
                    at = part[other.item]
                    channel.leave(other.item, Reason.DUPLICATE)
                    if at is not None and item in channel.posts and channel.posts[item] is None:
                        channel.posts[item] = at
            return
        final = [
            channel.gone[other.item] for other in duplicates if channel.gone.get(other.item) not in {None, *COMES_BACK}
        ]
        standing = [other for other in duplicates if channel.part_of(other.item) is not None]
        if final:
            channel.gone[item] = final[0]
            return
        if any(other.wins and other.feed in channel.feeds for other in standing):
            channel.gone[item] = Reason.DUPLICATE
            return
        left = any(channel.gone.get(other.item) == Reason.UNFOLLOWED for other in duplicates)
        if channel.gone.get(item) == Reason.DUPLICATE and not standing and not left:
            return
        if self.is_blocked(channel, item):
            return
        if standing:
            times = [(channel.part_of(other.item) or {})[other.item] for other in standing]
            read_at = next((at for at in times if at is not None), None)
            for other in standing:
                channel.leave(other.item, Reason.DUPLICATE)
        hidden = self.is_muted(channel, item)
        if not hidden and not standing and limit and len(channel.posts) >= limit:
            oldest = sorted(channel.posts, key=self.place)[: len(channel.posts) - limit + 1]
            if self.place(oldest[-1]) > self.place(item):
                return
            for out in oldest:
                channel.leave(out, Reason.EVICTED)
        channel.gone.pop(item, None)
        (channel.hidden if hidden else channel.posts)[item] = read_at

    # --- read state --------------------------------------------------------------------------------------------------

    def mark(self, uid: str, ids: Iterable[str], now: float | None) -> int:
        changed = set()
        for channel in self.named(uid):
            for item in ids:
                part = channel.part_of(item)
                if part is not None and (part[item] is None) != (now is None):
                    part[item] = now
                    changed.add(item)
        return len(changed)

    def mark_before(self, uid: str, last: str | None, now: float) -> int:
        if last is not None and not any(
            channel.part_of(last) is not None or last in channel.gone for channel in self.named(uid)
        ):
            return 0
        older = {
            item
            for channel in self.fed(uid)
            for item, at in channel.posts.items()
            if at is None and (last is None or self.place(item) <= self.place(last))
        }
        for channel in self.fed(uid):
            for item in older & channel.posts.keys():
                if channel.posts[item] is None:
                    channel.posts[item] = now
        return len(older)

    # --- leaving -----------------------------------------------------------------------------------------------------

    def remove(self, uid: str, ids: Iterable[str], reason: Reason, *, only_unread: bool = False) -> int:
        out = set()
        for channel in self.named(uid):
            for item in ids:
                part = channel.part_of(item)
                if part is not None and not (only_unread and part[item] is not None):
                    channel.leave(item, reason)
                    out.add(item)
        return len(out)

    def move(self, target_uid: str, ids: Iterable[str], *, hidden_too: bool = False) -> int:
        target = self.channels[target_uid]
        saved = self.channels["saved"]
        others = [one for one in self.channels.values() if one is not target and one is not saved]
        count = 0
        for item in dict.fromkeys(ids):
            shown = [one for one in others if item in one.posts]
            hidden = [one for one in others if hidden_too and item in one.hidden]
            stays = [saved] if not shown and not hidden_too and target is not saved and item in saved.posts else []
            if not shown + hidden + stays or self.is_blocked(target, item):
                continue
            times = [(source.part_of(item) or {})[item] for source in shown or stays or hidden]
            read_at = None if None in times else reduce(max, [at for at in times if at is not None])
            for source in shown + hidden:
                source.leave(item, Reason.MOVED)
            lost = target.gone.get(item, Reason.MOVED) not in {*COMES_BACK, Reason.MOVED}
            if target.part_of(item) is None and (shown or stays or not lost):
                target.gone.pop(item, None)
                (target.hidden if self.is_muted(target, item) else target.posts)[item] = read_at
            count += 1
        return count

    def save(self, uid: str, ids: Iterable[str], now: float, most: int) -> int | None:
        """The number of items added; None if there is no room for all of them, and then none was added."""
        saved = self.channels["saved"]
        shown = {item for channel in self.named(uid) for item in channel.posts}
        new = (set(ids) & shown) - saved.posts.keys()
        if most and new and len(saved.posts) + len(new) > most:
            return None
        for item in new:
            saved.gone.pop(item, None)
            saved.posts[item] = now
        return len(new)

    def unfollow(self, uid: str, feed: str) -> None:
        channel = self.channels[uid]
        channel.feeds.pop(feed, None)
        channel.unread_from.pop(feed, None)
        for part in (channel.posts, channel.hidden):
            for item in [item for item, at in part.items() if at is None and self.feed_of[item] == feed]:
                channel.leave(item, Reason.UNFOLLOWED)
                for other in self.items[item].duplicates:
                    waits = channel.gone.get(other.item) == Reason.DUPLICATE and other.feed in channel.feeds
                    if waits and not self.is_blocked(channel, other.item):
                        del channel.gone[other.item]
                        (channel.hidden if self.is_muted(channel, other.item) else channel.posts)[other.item] = None
                        break

    def expire_read(self, uid: str, until: float) -> int:
        channel = self.channels[uid]
        due = [
            item
            for part in (channel.posts, channel.hidden)
            for item, at in part.items()
            if at is not None and at <= until
        ]
        for item in due:
            channel.leave(item, Reason.READ_EXPIRED)
        return len(due)

    def trim(self, uid: str, limit: int) -> int:
        channel = self.channels[uid]
        due = [
            item
            for part in (channel.posts, channel.hidden)
            for item in sorted(part, key=self.place)[: max(0, len(part) - limit)]
        ]
        for item in due:
            channel.leave(item, Reason.EVICTED)
        return len(due)
