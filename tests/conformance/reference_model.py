"""The state of the reference server: users, channels and posts in plain dictionaries, in memory, not optimised.

It is meant to be read and to be broken: the suite's tests override single methods of `Model`.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from microsub.base.urls import normalise_profile

BUILT_IN = ("notifications", "saved")


class Refused(Exception):
    """A request that gets an error reply: status, code and description."""

    def __init__(self, status: int, code: str, description: str, **more: str) -> None:
        super().__init__(description)
        self.status, self.code, self.description, self.more = status, code, description, more


@dataclass
class Post:
    """A stored post. `place` orders timelines: Unix time, then the sequence number of the storing."""

    id: str
    feed: str
    guid: str
    time: float
    number: int
    wire: dict[str, Any]

    @property
    def place(self) -> tuple[float, int]:
        """Sort key; larger is higher in the timeline."""
        return (self.time, -self.number)


@dataclass
class Feed:
    """A feed that somebody follows or has followed."""

    id: str
    url: str
    name: str | None = None
    etag: str | None = None
    posts: dict[str, Post] = field(default_factory=dict)


@dataclass
class Channel:
    """A channel: `read` maps the ids of its posts to their read flag, `gone` holds ids that are permanently gone."""

    uid: str
    name: str
    feeds: list[str] = field(default_factory=list)
    read: dict[str, bool] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    rules: dict[str, list[str]] = field(default_factory=lambda: {"mute": [], "block": []})


@dataclass
class User:
    """A user: channels in order, the rules of `global`, and the arrival number of each item."""

    name: str
    channels: dict[str, Channel] = field(default_factory=dict)
    arrived: dict[str, int] = field(default_factory=dict)
    rules: dict[str, list[str]] = field(default_factory=lambda: {"mute": [], "block": []})


def place_of(cursor: str, parameter: str) -> tuple[float, int]:
    """Decode a cursor."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
        seconds, number = re.fullmatch(r"(\d+\.\d+) (\d+)", text).groups()  # type: ignore[union-attr]
    except (ValueError, AttributeError):
        raise Refused(400, "invalid_request", f"'{parameter}' is not a cursor of this server") from None
    return float(seconds), -int(number)


class Model:
    """The whole state of the server, and the operations that change it."""

    FRESH = 10

    def __init__(self, users: Iterable[str]) -> None:
        self.users = {name: User(name, {uid: Channel(uid, uid.title()) for uid in BUILT_IN}) for name in users}
        self.feeds: dict[str, Feed] = {}
        self.posts: dict[str, Post] = {}
        self._numbers = iter(range(1, 10**9))

    # --- channels

    def user(self, name: str) -> User:
        """The user with this name."""
        return self.users[name]

    def channel(self, user: User, uid: str) -> Channel:
        """A channel by uid."""
        if uid not in user.channels:
            raise Refused(404, "not_found", f"there is no channel '{uid}'")
        return user.channels[uid]

    def scope(self, user: User, uid: str) -> list[Channel]:
        """The channels that a uid names: one, or all for `global`."""
        return list(user.channels.values()) if uid == "global" else [self.channel(user, uid)]

    def create(self, user: User, name: str) -> Channel:
        """Create a channel, or return the existing one with this name."""
        for channel in user.channels.values():
            if channel.name == name:
                return channel
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:50] or "channel"
        uid = stem
        while uid in user.channels or uid.lower() in {"global", "notifications", "saved"}:
            uid = f"{stem}-{next(self._numbers)}"
        user.channels[uid] = Channel(uid, name)
        return user.channels[uid]

    def order(self, user: User, uids: list[str]) -> None:
        """Permute the listed channels among their positions."""
        for uid in uids:
            self.channel(user, uid)
        listed = [uid for uid in dict.fromkeys(uids) if uid not in BUILT_IN]
        turn = iter(listed)
        places = [next(turn) if uid in listed else uid for uid in user.channels]
        user.channels = {uid: user.channels[uid] for uid in places}

    # --- timelines

    def matches(self, post: Post, urls: Iterable[str]) -> bool:
        """Whether a rule with these URLs applies to a post."""
        about = {normalise_profile(post.feed)}
        if author := post.wire.get("author", {}).get("url"):
            about.add(normalise_profile(author))
        return any(normalise_profile(url) in about for url in urls)

    def hidden(self, user: User, channel: Channel, post: Post) -> bool:
        """Whether a post is muted."""
        return self.matches(post, [*user.rules["mute"], *channel.rules["mute"]])

    def shown(self, user: User, channel: Channel) -> list[Post]:
        """The posts of a channel's timeline, newest first."""
        posts = [self.posts[identifier] for identifier in channel.read]
        return sorted((post for post in posts if not self.hidden(user, channel, post)), key=self.place, reverse=True)

    def place(self, post: Post) -> tuple[float, int]:
        """The order of timelines."""
        return post.place

    def unread(self, user: User, channel: Channel, feed: str | None = None) -> int:
        """The unread count of a channel, or of one feed in it."""
        shown = self.shown(user, channel)
        return sum(not channel.read[post.id] for post in shown if feed in {None, post.feed})

    def rows(self, user: User, uid: str) -> list[tuple[Post, Channel, bool]]:
        """The rows of a timeline: post, channel and read flag, newest first; in `global` each post once."""
        found: dict[str, tuple[Post, Channel, bool]] = {}
        for channel in self.scope(user, uid):
            for post in self.shown(user, channel):
                read = channel.read[post.id]
                if post.id not in found or not read:
                    found[post.id] = (post, channel, read)
        return sorted(found.values(), key=lambda row: self.place(row[0]), reverse=True)

    def cursor(self, post: Post) -> str:
        """The cursor for the place of a post."""
        return base64.urlsafe_b64encode(f"{post.time!r} {post.number}".encode()).rstrip(b"=").decode()

    def page(
        self,
        user: User,
        uid: str,
        limit: int,
        before: str | None,
        after: str | None,
        is_read: bool | None,
        source: str | None,
    ) -> dict[str, Any]:
        """A page of a timeline."""
        rows = self.rows(user, uid)
        if is_read is not None:
            rows = [row for row in rows if row[2] is is_read]
        if source is not None:
            rows = [row for row in rows if self.feeds[row[0].feed].id == source]
        if before:
            place = place_of(before, "before")
            rows = [row for row in rows if self.place(row[0]) > place]
            shown, older = rows[-limit:], bool(rows)
        else:
            if after:
                place = place_of(after, "after")
                rows = [row for row in rows if self.place(row[0]) < place]
            shown, older = rows[:limit], len(rows) > limit
        paging = {}
        if shown:
            paging["before"] = self.cursor(shown[0][0])
            if older:
                paging["after"] = self.cursor(shown[-1][0])
        return {"items": [self.item(*row) | self.kept(user, row[0]) for row in shown], "paging": paging}

    def kept(self, user: User, post: Post) -> dict[str, Any]:
        """The properties that say whether an item is saved."""
        return {"_saved": True} if post.id in user.channels["saved"].read else {}

    def ids(
        self, user: User, uid: str, limit: int, oldest: bool, after: str | None, is_read: bool | None
    ) -> dict[str, Any]:
        """The ids of items in order of arrival."""
        rows = {post.id: (post, read) for post, _, read in self.rows(user, uid) if is_read in {None, read}}
        order = sorted(rows, key=lambda one: user.arrived[one], reverse=not oldest)
        if after is not None:
            if not after.isdigit():
                raise Refused(400, "invalid_request", "'after' is not a cursor of this server")
            order = [
                one for one in order if (user.arrived[one] > int(after)) == oldest and user.arrived[one] != int(after)
            ]
        shown = order[:limit]
        paging = {"since": str(max(user.arrived[one] for one in shown))} if shown else {}
        if len(order) > limit:
            paging["after"] = str(user.arrived[shown[-1]])
        items = [{"_id": one, "_is_read": rows[one][1], **self.kept(user, rows[one][0])} for one in shown]
        return {"items": items, "paging": paging}

    def save(self, user: User, entries: Iterable[str]) -> int:
        """Add posts of any channel to `saved`."""
        saved = user.channels["saved"]
        shown = {post.id for post, _, _ in self.rows(user, "global")}
        new = [entry for entry in dict.fromkeys(entries) if entry in shown and entry not in saved.read]
        saved.read.update(dict.fromkeys(new, True))
        return len(new)

    def item(self, post: Post, channel: Channel, read: bool) -> dict[str, Any]:
        """An item as the API returns it."""
        described = {"id": channel.uid, "uid": channel.uid, "name": channel.name}
        feed = self.feeds[post.feed]
        return post.wire | {"_id": post.id, "_source": feed.id, "_is_read": read, "_channel": described}

    # --- read state

    def mark(self, user: User, uid: str, entries: Iterable[str], read: bool) -> int:
        """Mark entries; returns the number that changed."""
        changed = set()
        for channel in self.scope(user, uid):
            for entry in entries:
                if channel.read.get(entry, read) is not read:
                    channel.read[entry] = read
                    changed.add(entry)
        return len(changed)

    def mark_before(self, user: User, uid: str, entry: str) -> int:
        """Mark an entry and all older ones."""
        changed = 0
        scope = [channel for channel in self.scope(user, uid) if uid == "saved" or channel.uid != "saved"]
        known = any(entry in channel.read or entry in channel.gone for channel in scope)
        for channel in scope:
            if entry == "everything":
                entries = [post.id for post in self.shown(user, channel)]
            elif known:
                place = self.place(self.posts[entry])
                entries = [post.id for post in self.shown(user, channel) if self.place(post) <= place]
            else:
                continue
            changed += self.mark(user, channel.uid, entries, True)
        return changed

    def remove(self, user: User, uid: str, entries: Iterable[str]) -> int:
        """Remove entries from a channel permanently."""
        changed = 0
        for channel in self.scope(user, uid):
            for entry in entries:
                if channel.read.pop(entry, None) is not None:
                    channel.gone.add(entry)
                    changed += 1
        return changed

    def move(self, user: User, uid: str, entries: Iterable[str]) -> int:
        """Move entries into the channel `uid`."""
        target = self.channel(user, uid)
        changed = 0
        for entry in entries:
            for channel in user.channels.values():
                if channel is not target and channel.uid != "saved" and entry in channel.read:
                    read = channel.read.pop(entry)
                    channel.gone.add(entry)
                    target.gone.discard(entry)
                    target.read.setdefault(entry, read)
                    changed += 1
        return changed

    # --- feeds

    def follow(self, user: User, channel: Channel, url: str) -> None:
        """Fill a channel from a fetched feed."""
        if url in channel.feeds:
            return
        channel.feeds.append(url)
        posts = sorted(self.feeds[url].posts.values(), key=self.place, reverse=True)
        now = time.time()
        for number, post in enumerate(posts):
            self.add(user, channel, post, read=number >= self.FRESH and post.time < now)

    def unfollow(self, channel: Channel, url: str) -> None:
        """Stop following; unread posts are removed."""
        if url in channel.feeds:
            channel.feeds.remove(url)
            for identifier, read in list(channel.read.items()):
                if not read and self.posts[identifier].feed == url:
                    del channel.read[identifier]

    def add(self, user: User, channel: Channel, post: Post, read: bool = False) -> None:
        """Add a post to a channel, unless it is there, was removed permanently, or is blocked."""
        blocked = self.matches(post, [*user.rules["block"], *channel.rules["block"]])
        if post.id not in channel.read and post.id not in channel.gone and not blocked:
            channel.read[post.id] = read
            # A post that was in no channel any more gets a new arrival number.
            if not any(post.id in one.read for one in user.channels.values() if one is not channel):
                user.arrived[post.id] = next(self._numbers)

    def store(self, feed: Feed, guid: str, seconds: float, wire: dict[str, Any]) -> None:
        """Store a post or its edit from a poll; a new post is added to all channels that follow the feed."""
        known = feed.posts.get(guid)
        if known:
            known.wire = wire | {"published": known.wire["published"]}
            return
        number = next(self._numbers)
        post = Post(str(number), feed.url, guid, seconds, number, wire)
        feed.posts[guid] = self.posts[post.id] = post
        for user in self.users.values():
            for channel in user.channels.values():
                if feed.url in channel.feeds:
                    self.add(user, channel, post)

    # --- rules

    def rule(self, user: User, uid: str, action: str, url: str) -> None:
        """Mute, unmute, block or unblock."""
        kind = action.removeprefix("un")
        rules = (user.rules if uid == "global" else self.channel(user, uid).rules)[kind]
        if action.startswith("un"):
            rules[:] = [other for other in rules if normalise_profile(other) != normalise_profile(url)]
        elif normalise_profile(url) not in {normalise_profile(other) for other in rules}:
            rules.append(url)
        if action == "block":
            for channel in [one for one in self.scope(user, uid) if one.uid != "saved"]:
                for identifier in [one for one in channel.read if self.matches(self.posts[one], [url])]:
                    del channel.read[identifier]
                    channel.gone.add(identifier)
