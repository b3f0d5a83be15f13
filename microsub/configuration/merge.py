"""Three-way merge of backend.json: what was last applied, what the file says now, what the stores hold.

Only edits count, that is, differences between the last applied file and the present one; so what users did through the
API elsewhere stays, and a file that says nothing new does nothing. Where file and API changed the same thing, the later
change wins and is reported (`storage`, Three-way merge). Pure: times and state come in, changes go out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from microsub.configuration.changes import (
    Change,
    ChannelAdded,
    ChannelRemoved,
    ChannelRenamed,
    ChannelSettingsChanged,
    ChannelsReordered,
    Conflict,
    Current,
    FeedAdded,
    FeedRemoved,
    FeedRenamed,
    InstanceSettingsChanged,
    RuleAdded,
    RuleKind,
    RuleRemoved,
    TokenEndpointChanged,
    UserAdded,
    UserChanged,
    UserQuotasChanged,
    UserRemoved,
    UserReturned,
    UserSettingsChanged,
)
from microsub.configuration.joining import Quotas
from microsub.configuration.model import (
    LIMIT_NAMES,
    Backend,
    ChannelConfig,
    FeedConfig,
    Limits,
    UserConfig,
)
from microsub.configuration.order import inserted, permuted
from microsub.kit.hosts import comparable, comparable_profile
from microsub.settings import mask_password

ALWAYS_THERE = "notifications"
"""The channel that every user has: it is never added, renamed, removed or moved from its first place."""

_RANKS: Mapping[type, int] = {
    kind: rank
    for rank, kind in enumerate(
        (
            InstanceSettingsChanged,
            UserAdded,
            UserChanged,
            TokenEndpointChanged,
            UserSettingsChanged,
            UserQuotasChanged,
            ChannelRemoved,  # before names are used again
            ChannelRenamed,
            ChannelAdded,
            ChannelSettingsChanged,
            RuleAdded,  # before the posts come that it is about
            FeedAdded,  # before the removal, so that a feed that moves always has a follower
            FeedRenamed,
            FeedRemoved,
            RuleRemoved,
            ChannelsReordered,
            UserRemoved,
            UserReturned,  # who comes back sees nothing of before; and until then the next try does it all
        )
    )
}


@dataclass(frozen=True, slots=True)
class Merge:
    """The changes in the order in which they are to be applied, and the conflicts that were decided."""

    changes: tuple[Change, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


def merge(
    base: Backend,
    file: Backend,
    current: Current,
    *,
    edited_at: float,
    same_feed: Callable[[str], str] = comparable,
    same_profile: Callable[[str], str] = comparable_profile,
    again: bool = False,
) -> Merge:
    """What makes `current` follow the edits from `base` to `file`, which was last written at `edited_at` (Unix time).

    `same_feed` and `same_profile` give the form in which two URLs of feeds, or of muted and blocked profiles, are
    equal. With `again`, changes of several steps are named although they seem to be done already, because somebody may
    have broken off in the middle of one.
    """
    merger = _Merger(current, edited_at, same_feed, same_profile, again)
    if file.settings not in (base.settings, current.settings):
        merger.changes.append(InstanceSettingsChanged(file.settings))
    for name, user in file.users.items():
        merger.user(base.users.get(name), user)
    for name in base.users:
        if name not in file.users and (name in current.users or (again and name in current.disabled)):
            merger.removed_user(name)
    merger.changes.sort(key=lambda change: _RANKS[type(change)])
    return Merge(tuple(merger.changes), tuple(merger.conflicts))


@dataclass
class _Merger:
    current: Current
    edited_at: float
    same_feed: Callable[[str], str]
    same_profile: Callable[[str], str]
    again: bool = False
    changes: list[Change] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)

    def user(self, base: UserConfig | None, file: UserConfig) -> None:
        now = self.current.users.get(file.name)
        if now is None:
            if file == base:
                return  # somebody disabled the user, and the file says nothing new
            former = self.current.disabled.get(file.name)
            if former is None:
                self.changes.append(UserAdded(file.name, file.me))
                base, now = None, UserConfig(file.name, file.me)
            else:
                # What they had isn't restored by the file, which may mean somebody else: it is made what the file says.
                self.changes.append(UserReturned(file.name, file.me))
                base = now = replace(former, me=file.me)
        old = base or UserConfig(file.name)
        if file.me not in (old.me, now.me):
            if base is not None and now.me != old.me:
                self.conflict(f"site of user {file.name}", file.me, now.me, None)
            self.changes.append(UserChanged(file.name, file.me))
        if file.token_endpoint != now.token_endpoint:  # nothing else sets it
            self.changes.append(TokenEndpointChanged(file.name, file.token_endpoint))
        if file.settings not in (old.settings, now.settings):
            self.changes.append(UserSettingsChanged(file.name, file.settings))
        if file.quotas != now.quotas:  # nothing else sets them
            self.changes.append(UserQuotasChanged(file.name, file.quotas))
        self.rules(file.name, "global", old, file, now)
        self.channels(old, file, now)

    def removed_user(self, name: str) -> None:
        """A user that the file no longer has. Who registered themselves stays, without what the file said of them."""
        if name not in self.current.registered:
            self.changes.append(UserRemoved(name))
            return
        now = self.current.users[name]
        if now.token_endpoint is not None:
            self.changes.append(TokenEndpointChanged(name, None))
        if now.settings != Limits():
            self.changes.append(UserSettingsChanged(name, Limits()))
        if now.quotas != Quotas():
            self.changes.append(UserQuotasChanged(name, Quotas()))

    def channels(self, base: UserConfig, file: UserConfig, now: UserConfig) -> None:
        before, wanted, there = base.by_uid(), file.by_uid(), now.by_uid()
        added = [
            uid for uid, channel in wanted.items() if self.channel(file.name, before.get(uid), channel, there.get(uid))
        ]
        removed = {
            uid
            for uid, channel in before.items()
            if uid not in wanted and self.removed(file.name, channel, there.get(uid))
        }
        self.order(base, file, [channel.uid for channel in now.channels if channel.uid not in removed], added)

    def channel(self, user: str, base: ChannelConfig | None, file: ChannelConfig, now: ChannelConfig | None) -> bool:
        """Merge one channel of the file; True when it is added."""
        empty = ChannelConfig(file.uid, file.name)
        if now is None and file.uid != ALWAYS_THERE:
            if base is not None and self.equal(file, base):
                return False  # removed through the API, and the file says nothing new
            if base is not None:
                self.conflict(f"channel {user}/{file.uid}", "an edit", "removed it", None)
            removed = (user, file.uid) in self.current.removed
            self.changes.append(ChannelAdded(user, file.uid, file.name, restored=removed))
            self.content(user, empty, file, empty)
            return True
        if now is not None and base is None and self.again and file.uid != ALWAYS_THERE:
            self.changes.append(ChannelAdded(user, file.uid, now.name, restored=True))
        now = now or empty
        if base is None:
            base = replace(empty, name="")
        self.rename(user, base, file, now)
        self.content(user, base, file, now)
        return False

    def removed(self, user: str, base: ChannelConfig, now: ChannelConfig | None) -> bool:
        """A channel that the file no longer has; True when it goes."""
        if now is None:
            if self.again and (user, base.uid) in self.current.removed:
                self.changes.append(ChannelRemoved(user, base.uid))
            return False
        if base.uid == ALWAYS_THERE:
            self.content(user, base, ChannelConfig(base.uid, base.name), now)
            return False
        what = f"channel {user}/{base.uid}"
        if not self.equal(base, now) and not self.conflict(what, "removed it", "another content", (user, base.uid)):
            return False
        self.changes.append(ChannelRemoved(user, base.uid))
        return True

    def equal(self, one: ChannelConfig, other: ChannelConfig) -> bool:
        def form(channel: ChannelConfig) -> tuple[Any, ...]:
            feeds = {self.same_feed(feed.url): feed.name for feed in channel.feeds}
            rules = [{self.same_profile(url) for url in urls} for urls in (channel.mute, channel.block)]
            return channel.name, feeds, rules, channel.settings, dict(channel.filters)

        return form(one) == form(other)

    def rename(self, user: str, base: ChannelConfig, file: ChannelConfig, now: ChannelConfig) -> None:
        if file.name in (base.name, now.name) or file.uid == ALWAYS_THERE:
            return
        what = f"name of channel {user}/{file.uid}"
        if now.name == base.name or self.conflict(what, f"'{file.name}'", f"'{now.name}'", (user, file.uid)):
            self.changes.append(ChannelRenamed(user, file.uid, file.name))

    def content(self, user: str, base: ChannelConfig, file: ChannelConfig, now: ChannelConfig) -> None:
        self.settings(user, base, file, now)
        self.rules(user, file.uid, base, file, now)
        self.feeds(user, base, file, now)

    def settings(self, user: str, base: ChannelConfig, file: ChannelConfig, now: ChannelConfig) -> None:
        def fields(channel: ChannelConfig) -> dict[str, Any]:
            return {name: getattr(channel.settings, name) for name in LIMIT_NAMES} | {"filters": dict(channel.filters)}

        before, wanted, result = fields(base), fields(file), fields(now)
        changed = False
        for name, value in wanted.items():
            if value == before[name] or value == result[name]:
                continue
            what = f"setting {name} of channel {user}/{file.uid}"
            key = (user, file.uid)
            if result[name] == before[name] or self.conflict(what, str(value), str(result[name]), key):
                result[name] = value
                changed = True
        if changed:
            filters = result.pop("filters")
            self.changes.append(ChannelSettingsChanged(user, file.uid, Limits(**result), filters))

    def feeds(self, user: str, base: ChannelConfig, file: ChannelConfig, now: ChannelConfig) -> None:
        before, wanted, there = (self.by_url(channel) for channel in (base, file, now))
        for key, feed in wanted.items():
            self.feed(user, file.uid, before.get(key), feed, there.get(key))
        for key, feed in before.items():
            if key not in wanted and (key in there or self.again):
                self.changes.append(FeedRemoved(user, file.uid, there.get(key, feed).url))

    def feed(self, user: str, uid: str, base: FeedConfig | None, file: FeedConfig, now: FeedConfig | None) -> None:
        old_name = base.name if base else None
        if base is not None and file.name == old_name:
            return
        if now is None:
            if base is not None:
                self.conflict(f"feed {mask_password(file.url)} in {user}/{uid}", "an edit", "removed it", None)
            self.changes.append(FeedAdded(user, uid, file.url, file.name))
        elif base is None and self.again:
            self.changes.append(FeedAdded(user, uid, now.url, now.name))
        elif file.name not in (old_name, now.name):
            what = f"name of {mask_password(file.url)} in {user}/{uid}"
            if now.name == old_name or self.conflict(what, f"'{file.name}'", f"'{now.name}'", (user, uid)):
                self.changes.append(FeedRenamed(user, uid, now.url, file.name))

    def by_url(self, channel: ChannelConfig) -> dict[str, FeedConfig]:
        return {self.same_feed(feed.url): feed for feed in channel.feeds}

    def rules(
        self,
        user: str,
        uid: str,
        base: UserConfig | ChannelConfig,
        file: UserConfig | ChannelConfig,
        now: UserConfig | ChannelConfig,
    ) -> None:
        kinds: tuple[RuleKind, ...] = ("mute", "block")
        for kind in kinds:
            before, wanted, there = (
                {self.same_profile(url): url for url in getattr(part, kind)} for part in (base, file, now)
            )
            for key, url in wanted.items():
                if key not in before and (key not in there or self.again):
                    self.changes.append(RuleAdded(user, uid, kind, url))
            for key, url in before.items():
                if key not in wanted and (key in there or self.again):
                    self.changes.append(RuleRemoved(user, uid, kind, url))

    def order(self, base: UserConfig, file: UserConfig, there: list[str], added: list[str]) -> None:
        was = [channel.uid for channel in base.channels if channel.uid != ALWAYS_THERE]
        wanted = [channel.uid for channel in file.channels if channel.uid != ALWAYS_THERE]
        there = [uid for uid in there if uid != ALWAYS_THERE]
        shared = set(was) & set(wanted) & set(there)
        before, after, present = ([uid for uid in uids if uid in shared] for uids in (was, wanted, there))
        order = list(there)
        if after not in (before, present):
            api = ", ".join(present)
            what = f"order of the channels of {file.name}"
            if present == before or self.conflict(what, ", ".join(after), api, (file.name, "")):
                here = set(there)
                order = permuted(there, [uid for uid in wanted if uid in here])
        order = inserted(order, wanted, added)
        if order != [*there, *added]:
            self.changes.append(ChannelsReordered(file.name, tuple(order)))

    def conflict(self, what: str, file: str, api: str, key: tuple[str, str] | None) -> bool:
        """Note a conflict; True when the file wins. A change of the API without a known time counts as earlier."""
        changed = self.current.changed.get(key, 0.0) if key is not None else 0.0
        winner: Literal["file", "api"] = "api" if changed > self.edited_at else "file"
        self.conflicts.append(Conflict(what, file, api, winner))
        return winner == "file"
