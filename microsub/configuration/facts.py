"""Three-way merge of backend.json: last applied file, present file, stores.

All three are split into facts, each with at most one value. Only edits count: facts that differ between the last
applied file and the present one. So other changes made through the API stay, and an unedited file changes nothing. If
file and API changed the same fact, the later change wins and is reported.

`edited` is the other direction: it writes the state of the stores into the file. This module is pure: it takes times
and state, and returns changes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from microsub.base.settings import mask_password
from microsub.base.urls import canonical_feed_url, normalise_profile, without_credentials
from microsub.configuration.json_text import escape
from microsub.configuration.model import (
    Backend,
    ChannelConfig,
    FeedConfig,
    InstanceSettings,
    UserConfig,
    UserSettings,
    encode,
)
from microsub.model.reader import GLOBAL, NOTIFICATIONS, SAVED
from microsub.model.settings import OwnChannelSettings, stated

if TYPE_CHECKING:
    from microsub.configuration.document import BackendDocument


class ChangeKind(Enum):
    """Kinds of changes in the order in which they are applied; the text is the line in the log."""

    INSTANCE = "settings of the instance changed"
    USER_ADDED = "user {user} added"
    SITE = "user {user}: site changed to {value}"
    TOKEN_ENDPOINT = "user {user}: token endpoint set to {value}"  # noqa: S105 - no password
    ADMIN = "user {user}: admin: {value}"
    USER_SETTINGS = "user {user}: settings changed"
    FILTERS = "user {user}: filter for all channels changed"  # before feeds, so that it applies to their posts
    CHANNEL_REMOVED = "channel {user}/{uid} removed, restorable for 30 days"  # first, so that names are free again
    CHANNEL_RENAMED = "channel {user}/{uid} renamed to '{value}'"
    CHANNEL_ADDED = "channel {user}/{uid} added"
    CHANNEL_SETTINGS = "channel {user}/{uid}: settings changed"
    MUTED = "channel {user}/{uid}: mute {value}"  # before feeds, so that it applies to their posts
    BLOCKED = "channel {user}/{uid}: block {value}"
    FEED_ADDED = "channel {user}/{uid} follows {value}"  # before removals: a feed that moves always has a follower
    FEED_SIGNED = "channel {user}/{uid}: sign-in of {value} changed"
    FEED_RENAMED = "channel {user}/{uid}: name of a feed changed: {value}"
    FEED_CHANGED = "channel {user}/{uid}: settings of {value} changed"
    FEED_REMOVED = "channel {user}/{uid} no longer follows {value}"
    OUTPUT_ADDED = "output feed {user}/{uid} added"  # after the channels that it may publish
    OUTPUT_CHANGED = "output feed {user}/{uid}: settings changed"
    OUTPUT_REMOVED = "output feed {user}/{uid} removed, restorable for 30 days"
    SOURCE_ADDED = "source {user}/{uid} added"
    SOURCE_CHANGED = "source {user}/{uid}: settings changed"
    SOURCE_REMOVED = "source {user}/{uid} revoked"
    UNMUTED = "channel {user}/{uid}: mute of {value} removed"
    UNBLOCKED = "channel {user}/{uid}: block of {value} removed"
    REORDERED = "channels of {user} reordered: {value}"
    USER_REMOVED = "user {user} disabled, restorable for 30 days"
    USER_RETURNED = "user {user} restored, as the file declares"  # last: old data stays hidden, and a retry does it all


_NAMED = {
    "output": ("output feed", (ChangeKind.OUTPUT_ADDED, ChangeKind.OUTPUT_CHANGED, ChangeKind.OUTPUT_REMOVED)),
    "source": ("source", (ChangeKind.SOURCE_ADDED, ChangeKind.SOURCE_CHANGED, ChangeKind.SOURCE_REMOVED)),
}
"""Kinds of named things of a user: their label, and the changes that add, change and remove them."""

_RANK = {what: rank for rank, what in enumerate(ChangeKind)}


@dataclass(frozen=True, slots=True)
class Change:
    """One idempotent change to the stores. `str()` is its line in the log.

    `value` is the URL of a site (USER_ADDED, SITE, USER_RETURNED; '' for none), of a token endpoint (None for none) or
    of a rule, whether a user is an admin, the name of a channel, a FeedConfig, whole settings, or uids in order. `uid`
    is `global` for rules of all channels, and the name for an output feed or source. `restored`: the change restores a
    removed user or channel with its data. `former` is the FeedConfig from which that of FEED_CHANGED was made: only
    what differs is changed; or that of FEED_SIGNED, whose address had another sign-in.
    """

    what: ChangeKind
    user: str = ""
    uid: str = ""
    value: Any = None
    restored: bool = False
    former: FeedConfig | None = None

    def __str__(self) -> str:
        value = self.value
        if value is None and self.what is ChangeKind.TOKEN_ENDPOINT:
            value = "the one named by the user's page"
        if isinstance(value, FeedConfig):
            value = value.url if self.what is not ChangeKind.FEED_RENAMED else f"'{value.name or ''}' for {value.url}"
        if self.what is ChangeKind.ADMIN:
            value = "on" if value else "off"
        value = ", ".join(value) if isinstance(value, tuple) else _text(value)
        line = self.what.value.format(user=self.user, uid=self.uid, value=value)
        return line.removesuffix("added") + "restored" if self.restored else line


@dataclass(frozen=True, slots=True)
class Clash:
    """`user` can't have the URL `me`: `other` (perhaps `disabled`) has it already, as `theirs`."""

    user: str
    me: str
    other: str
    theirs: str
    disabled: bool = False

    def __str__(self) -> str:
        me, theirs = mask_password(self.me), mask_password(self.theirs)
        text = f"'{me}' already belongs to the user '{self.other}'" + (
            f", written as '{theirs}'" if theirs != me else ""
        )
        return (
            f"{text}, who is disabled; to restore them: microsub user restore {self.other}" if self.disabled else text
        )


def conflict_line(what: str, file: str, api: str, *, file_wins: bool) -> str:
    """The line about a fact that the file and the API have changed: the later change wins."""
    return f"{what}: file: {file}; API: {api}; {'the file' if file_wins else 'the API'} changed it later and wins"


@dataclass(frozen=True, slots=True)
class Current:
    """The present state of the stores.

    `users` has every enabled user, with their existing channels in order; `disabled` has the others. `changed` has the
    Unix time of the last change through the API, if known: of a channel by (user, uid), of the order of channels by
    (user, ''), of an output feed by (user, 'output <name>'), of a source by (user, 'source <id>'). `removed` channels
    can be restored. `settings` are the instance's. Users in `registered` created their own accounts: the file may have
    an entry for them, but removing it doesn't disable them.
    """

    users: Mapping[str, UserConfig] = field(default_factory=dict)
    settings: InstanceSettings = field(default_factory=InstanceSettings)
    disabled: Mapping[str, UserConfig] = field(default_factory=dict)
    removed: frozenset[tuple[str, str]] = frozenset()
    changed: Mapping[tuple[str, str], float] = field(default_factory=dict)
    registered: frozenset[str] = frozenset()


class Merge(NamedTuple):
    """The changes in the order of their application, and a line for each decided conflict.

    `channelless` are the changes that give an output feed or a source a channel that its user won't have.
    """

    changes: tuple[Change, ...] = ()
    conflicts: tuple[str, ...] = ()
    channelless: tuple[Change, ...] = ()


# --- facts ---------------------------------------------------------------------------------------------------------

Fact = tuple[str, str]
"""The key of a fact: a kind, and the name of a setting or a URL in the form for comparison."""


@dataclass(frozen=True, slots=True)
class FactValue:
    """The value of a fact; `url` is the original spelling of a URL, ignored in comparisons."""

    value: Hashable
    url: str = field(default="", compare=False)


Facts = Mapping[Fact, FactValue]


Form = Callable[[str], str]
"""The form in which the address of a feed is compared."""


def facts_of(form: Form, user: UserConfig) -> dict[str, Facts]:
    """All facts of a user by channel uid, or `global` for facts that concern no single channel."""
    own = {name: FactValue(getattr(user, name)) for name in ("me", "token_endpoint", "admin", "settings", "filters")}
    outputs: dict[Fact, FactValue] = {("output", name): FactValue(output) for name, output in user.outputs.items()}
    sources: dict[Fact, FactValue] = {("source", name): FactValue(source) for name, source in user.sources.items()}
    everywhere = {(name, ""): said for name, said in own.items()} | _rules(user) | outputs | sources
    facts: dict[str, Facts] = {GLOBAL: everywhere}
    for channel in user.channels:
        facts[channel.uid] = {
            ("name", ""): FactValue(channel.name),
            **{("setting", name): FactValue(value) for name, value in stated(channel.settings).items()},
            **_rules(channel),
            **{("feed", form(feed.url)): FactValue(replace(feed, url=""), feed.url) for feed in channel.feeds},
        }
    return facts


def _rules(part: UserConfig | ChannelConfig) -> dict[Fact, FactValue]:
    both = (("mute", part.mute), ("block", part.block))
    return {(kind, normalise_profile(url)): FactValue(True, url) for kind, urls in both for url in urls}


# --- merge ---------------------------------------------------------------------------------------------------------


def merge(
    base: Backend,
    file: Backend,
    current: Current,
    *,
    edited_at: float,
    form: Form = canonical_feed_url,
    again: bool = False,
) -> Merge:
    """The changes that apply the edits from `base` to `file`, saved at Unix time `edited_at`.

    With `again`, changes of several steps are included even if they seem to be done: an earlier attempt may have been
    interrupted.
    """
    changes: list[Change] = []
    conflicts: list[str] = []
    channelless: list[Change] = []
    if file.settings not in (base.settings, current.settings):
        changes.append(Change(ChangeKind.INSTANCE, value=file.settings))
    for name, user in file.users.items():
        merger = _UserMerger(name, current, edited_at, form, again)
        merger.user(base.users.get(name), user)
        changes += merger.changes
        conflicts += merger.conflicts
        channelless += merger.channelless
    for name in base.users:
        if name not in file.users and (name in current.users or (again and name in current.disabled)):
            changes += _removed(name, current)
    return Merge(tuple(sorted(changes, key=lambda change: _RANK[change.what])), tuple(conflicts), tuple(channelless))


def _removed(name: str, current: Current) -> Iterable[Change]:
    """Remove a user who is no longer in the file; registered users stay, without the file's settings."""
    if name not in current.registered:
        yield Change(ChangeKind.USER_REMOVED, name)
        return
    now = current.users[name]
    if now.token_endpoint is not None:
        yield Change(ChangeKind.TOKEN_ENDPOINT, name, value=None)
    if now.admin:
        yield Change(ChangeKind.ADMIN, name, value=False)
    if now.settings != UserSettings():
        yield Change(ChangeKind.USER_SETTINGS, name, value=UserSettings())


def _lacks_channel(change: Change, there: Collection[str]) -> bool:
    """Whether a change gives an output feed or a source a channel that isn't in `there`, its user's channels."""
    if change.what in {ChangeKind.OUTPUT_ADDED, ChangeKind.OUTPUT_CHANGED}:
        return change.value.channel not in {None, SAVED, *there}
    return change.what in {ChangeKind.SOURCE_ADDED, ChangeKind.SOURCE_CHANGED} and change.value.channel not in there


@dataclass
class _UserMerger:
    name: str
    current: Current
    edited_at: float
    form: Form
    again: bool
    changes: list[Change] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    channelless: list[Change] = field(default_factory=list)

    def change(self, what: ChangeKind, uid: str = "", value: Any = None, *, restored: bool = False) -> None:
        self.changes.append(Change(what, self.name, uid, value, restored))

    def user(self, base: UserConfig | None, file: UserConfig) -> None:
        now = self.current.users.get(self.name)
        if now is None:
            if file == base:
                return  # the user was disabled elsewhere, and the file has no edit
            former = self.current.disabled.get(self.name)
            if former is None:
                self.change(ChangeKind.USER_ADDED, value=file.me)
                base, now = None, UserConfig(file.me)
            else:
                # The file may mean another person, so it doesn't restore earlier data: the user gets what it declares.
                self.change(ChangeKind.USER_RETURNED, value=file.me)
                base = now = replace(former, me=file.me)
        base = base or UserConfig()
        was, wanted, there = (facts_of(self.form, part) for part in (base, file, now))
        added: list[str] = []
        gone: set[str] = set()
        for uid in dict.fromkeys([*wanted, *was]):
            before, after, present = (part.get(uid, {}) for part in (was, wanted, there))
            if uid in (GLOBAL, NOTIFICATIONS):  # never added, renamed, removed or moved
                if after or present:
                    self.edits(uid, before, after, present)
            elif uid not in wanted:
                if self.removes(uid, before, there.get(uid)):
                    gone.add(uid)
            elif uid in there:
                if uid not in was and self.again:
                    self.change(ChangeKind.CHANNEL_ADDED, uid, present["name", ""].value, restored=True)
                self.edits(uid, before, after, present)
            elif before != after:  # otherwise it was removed through the API, and the file has no edit
                if before:
                    self.conflict(f"channel {self.name}/{uid}", "an edit", "removed it")
                restored = (self.name, uid) in self.current.removed
                self.change(ChangeKind.CHANNEL_ADDED, uid, after["name", ""].value, restored=restored)
                added.append(uid)
                self.edits(uid, {}, after, {("name", ""): after["name", ""]})
        self.order(base, file, now, added, gone)
        remaining = (wanted.keys() | there.keys() | {NOTIFICATIONS}) - gone - {GLOBAL, SAVED}
        self.channelless = [change for change in self.changes if _lacks_channel(change, remaining)]

    def removes(self, uid: str, before: Facts, present: Facts | None) -> bool:
        """Decide on a channel that is no longer in the file; whether it is removed."""
        if present is None:
            if self.again and (self.name, uid) in self.current.removed:
                self.change(ChangeKind.CHANNEL_REMOVED, uid)
            return False
        what = f"channel {self.name}/{uid}"
        if before != present and not self.conflict(what, "removed it", "another content", uid):
            return False
        self.change(ChangeKind.CHANNEL_REMOVED, uid)
        return True

    def edits(self, uid: str, before: Facts, after: Facts, present: Facts) -> None:
        """Merge the facts of one channel, or of `global`."""
        settings: dict[str, Any] = {}
        signed = self.signed(uid, before, after, present)
        for fact in dict.fromkeys([*after, *before]):
            if fact in signed:
                continue
            was, wanted, there = before.get(fact), after.get(fact), present.get(fact)
            if was == wanted and fact != _ENDPOINT:
                continue
            match fact:
                case ("setting", name):
                    if self.wins(f"setting {name} of channel {self.name}/{uid}", was, wanted, there, uid):
                        settings[name] = wanted.value if wanted else None
                case ("mute" | "block" as kind, _):
                    self.rule(kind, uid, was, wanted, there)
                case ("feed", _):
                    self.feed(uid, was, wanted, there)
                case ("output" | "source" as kind, name):
                    self.named(kind, name, was, wanted, there)
                case ("name", _) if wanted and uid != NOTIFICATIONS:
                    if self.wins(f"name of channel {self.name}/{uid}", was, wanted, there, uid):
                        self.change(ChangeKind.CHANNEL_RENAMED, uid, wanted.value)
                case ("me", _) if wanted:
                    if self.wins(f"site of user {self.name}", was, wanted, there):
                        self.change(ChangeKind.SITE, value=wanted.value)
                case ("admin", _) if wanted:
                    if self.wins(f"whether user {self.name} is an admin", was, wanted, there):
                        self.change(ChangeKind.ADMIN, value=wanted.value)
                case ("filters", _) if wanted and wanted != there:
                    file, api = ("another content" if one and one.value else "removed it" for one in (wanted, there))
                    if there == was or self.conflict(f"filter for all channels of {self.name}", file, api):
                        self.change(ChangeKind.FILTERS, value=wanted.value)
                case ("token_endpoint" | "settings", _) if wanted and wanted != there:  # only the file sets it
                    self.change(
                        ChangeKind.TOKEN_ENDPOINT if fact == _ENDPOINT else ChangeKind.USER_SETTINGS, value=wanted.value
                    )
        if settings:
            now = {name: said.value for (kind, name), said in present.items() if kind == "setting"} | settings
            value = OwnChannelSettings(**{name: part for name, part in now.items() if part is not None})
            self.change(ChangeKind.CHANNEL_SETTINGS, uid, value)

    def signed(self, uid: str, before: Facts, after: Facts, present: Facts) -> set[Fact]:
        """Merge edits of sign-ins, which make a followed feed another one; the facts that this decides."""
        decided: set[Fact] = set()
        if all(fact in before for fact in after):
            return decided  # nothing can have got another address
        was, wanted, there = map(_by_bare_address, (before, after, present))
        for address, new in wanted.items():
            old = was.get(address, new)
            now = old if old in present else there.get(address, new)
            if new in before or new in {old, now} or after.keys() & {old, now}:
                continue
            decided |= {old, new}
            what = f"sign-in of {mask_password(address)} in {self.name}/{uid}"
            if now == old or self.conflict(what, "another one", "another one", uid):
                wanted_feed, former = _feed(after[new]), _feed(present[now])
                self.changes.append(Change(ChangeKind.FEED_SIGNED, self.name, uid, wanted_feed, former=former))
                self.feed_settings(uid, _feed(before[old]), wanted_feed, replace(former, url=wanted_feed.url))
        return decided

    def rule(
        self, kind: str, uid: str, was: FactValue | None, wanted: FactValue | None, there: FactValue | None
    ) -> None:
        if wanted and (there is None or self.again):
            self.change(ChangeKind.MUTED if kind == "mute" else ChangeKind.BLOCKED, uid, wanted.url)
        elif was and not wanted and (there or self.again):
            self.change(ChangeKind.UNMUTED if kind == "mute" else ChangeKind.UNBLOCKED, uid, was.url)

    def feed(self, uid: str, was: FactValue | None, wanted: FactValue | None, there: FactValue | None) -> None:
        if wanted is None:
            if there or self.again:
                self.change(ChangeKind.FEED_REMOVED, uid, FeedConfig((there or was or FactValue(None)).url))
            return
        if there is None:
            if was:
                self.conflict(f"feed {mask_password(wanted.url)} in {self.name}/{uid}", "an edit", "removed it")
            self.change(ChangeKind.FEED_ADDED, uid, _feed(wanted))
        elif was is None and self.again:
            self.change(ChangeKind.FEED_ADDED, uid, _feed(there))
        else:  # a feed that already exists keeps what the file doesn't say
            self.feed_settings(uid, _feed(was or FactValue(FeedConfig(""))), _feed(wanted), _feed(there))

    def feed_settings(self, uid: str, was: FeedConfig, wanted: FeedConfig, there: FeedConfig) -> None:
        changed: dict[str, Any] = {}
        for name in (one.name for one in fields(FeedConfig) if one.name != "url"):
            before, after, present = (FactValue(getattr(part, name)) for part in (was, wanted, there))
            what = f"{name} of {mask_password(wanted.url)} in {self.name}/{uid}"
            if before != after and self.wins(what, before, after, present, uid):
                changed[name] = after.value
        if "name" in changed:
            self.change(ChangeKind.FEED_RENAMED, uid, FeedConfig(there.url, changed.pop("name")))
        if changed:
            value = replace(there, **changed)
            self.changes.append(Change(ChangeKind.FEED_CHANGED, self.name, uid, value, former=there))

    def named(
        self, kind: str, name: str, was: FactValue | None, wanted: FactValue | None, there: FactValue | None
    ) -> None:
        if wanted == there:
            return
        what, (added, changed, removed) = _NAMED[kind]
        if there != was:
            file, api = ("other settings" if said else "removed it" for said in (wanted, there))
            if not self.conflict(f"{what} {self.name}/{name}", file, api, f"{kind} {name}"):
                return
        if wanted is None:
            self.change(removed, name)
        else:
            self.change(changed if there else added, name, wanted.value)

    def order(self, base: UserConfig, file: UserConfig, now: UserConfig, added: list[str], gone: set[str]) -> None:
        was, wanted, there = (
            [channel.uid for channel in part.channels if channel.uid != NOTIFICATIONS] for part in (base, file, now)
        )
        there = [uid for uid in there if uid not in gone]
        known = set(was)
        # Restored channels get their place before the order is decided, as they will have on the next merge.
        order = inserted(there, wanted, [uid for uid in added if uid in known])
        here = set(order)
        shared = known & set(wanted) & here
        before, after, present = ([uid for uid in uids if uid in shared] for uids in (was, wanted, order))
        if after not in (before, present):
            what = f"order of the channels of {self.name}"
            if present == before or self.conflict(what, ", ".join(after), ", ".join(present), ""):
                order = permuted(order, [uid for uid in wanted if uid in here])
        order = inserted(order, wanted, [uid for uid in added if uid not in known])
        if order != [*there, *added]:
            self.change(ChangeKind.REORDERED, value=tuple(order))

    def wins(
        self,
        what: str,
        was: FactValue | None,
        wanted: FactValue | None,
        there: FactValue | None,
        uid: str | None = None,
    ) -> bool:
        """Whether an edit from `was` to `wanted` is applied if `there` is the present value."""
        if wanted == there:
            return False
        if there == was:
            return True
        file, api = (f"'{_text(said.value)}'" if said else "nothing" for said in (wanted, there))
        return self.conflict(what, file, api, uid)

    def conflict(self, what: str, file: str, api: str, uid: str | None = None) -> bool:
        """Record a conflict; True if the file wins. An API change of unknown time counts as earlier."""
        changed = self.current.changed.get((self.name, uid), 0.0) if uid is not None else 0.0
        file_wins = changed <= self.edited_at
        self.conflicts.append(conflict_line(what, file, api, file_wins=file_wins))
        return file_wins


_ENDPOINT: Fact = ("token_endpoint", "")
"""Always compared, because a user restored by a command has none until the file is merged."""


def _by_bare_address(facts: Facts) -> dict[str, Fact]:
    """The facts of feeds by their addresses without credentials; the first one if several are the same."""
    feeds = [(fact, said) for fact, said in facts.items() if fact[0] == "feed"]
    return {canonical_feed_url(without_credentials(said.url)): fact for fact, said in reversed(feeds)}


def _feed(said: FactValue) -> FeedConfig:
    """The feed of a fact, with its URL as spelled there."""
    value: Any = said.value
    feed: FeedConfig = replace(value, url=said.url)
    return feed


def _text(value: Any) -> str:
    text = str(value)
    return mask_password(text) if "://" in text else text


# --- order ---------------------------------------------------------------------------------------------------------


def permuted(order: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """`order` with the members of `wanted` permuted into that order; the others stay in place."""
    left = iter(wanted)
    members = set(wanted)
    return [next(left) if uid in members else uid for uid in order]


def inserted(order: Sequence[str], wanted: Sequence[str], added: Sequence[str]) -> list[str]:
    """`order` with each added uid next to its neighbour in `wanted`, or at the end.

    Every added uid is in `wanted`, and none in `order`.
    """
    present, new = set(order), set(added)
    first = next((uid for uid in wanted if uid in present), None)
    behind: dict[str | None, list[str]] = {}
    neighbour: str | None = None
    for uid in wanted:
        if uid in present:
            neighbour = uid
        elif uid in new:
            behind.setdefault(neighbour, []).append(uid)
    leading = behind.pop(None, [])
    merged: list[str] = []
    for uid in order:
        if uid == first:
            merged += leading
        merged += [uid, *behind.get(uid, ())]
    return merged if first is not None else merged + leading


# --- back into the file --------------------------------------------------------------------------------------------

WRITTEN = frozenset({"me", "admin", "channels", "mute", "block", "filters", "outputs", "sources"})
"""The keys of a user's entry that are written back; the others are left to the admin."""


def edited(
    document: BackendDocument,
    current: Current,
    form: Form = canonical_feed_url,
) -> dict[str, Any] | None:
    """The document with changes made through the API added; None if there are none.

    `document` must be the one last applied, otherwise an edit of the file would be undone here. Only differences are
    written: the order of keys, unknown keys, `${…}` and disabled users stay. Registered users aren't added, because
    going back to an older copy of the file would then disable them; only the admin adds them.
    """
    raw: dict[str, Any] = copy.deepcopy(dict(document.raw))
    for name, user in current.users.items():
        declared = document.backend.users.get(name)
        if declared is None and name in current.registered:
            continue
        users = raw.setdefault("users", {})
        if declared is None:
            users[name] = {"me": escape(user.me)} if user.me else {}
            declared = UserConfig(user.me)
        _edit_user(form, users[name], declared, user)
    return raw if raw != document.raw else None


def _edit_user(form: Form, raw: dict[str, Any], file: UserConfig, now: UserConfig) -> None:
    if now.me != file.me:
        raw["me"] = escape(now.me)
        if not now.me:
            del raw["me"]
    if now.admin != file.admin:
        raw["admin"] = now.admin
    _edit_rules(raw, file, now)
    _differences(raw, *({"filters": encode(part.filters)} if part.filters else {} for part in (file, now)))
    _edit_named(raw, "outputs", file.outputs, now.outputs)
    _edit_named(raw, "sources", file.sources, now.sources)
    entries = {channel.uid: entry for channel, entry in zip(file.channels, raw.get("channels", ()), strict=True)}
    declared, there = file.by_uid(), now.by_uid()
    for uid, channel in there.items():
        if uid in declared:
            _edit_channel(form, entries[uid], declared[uid], channel)
        elif uid != NOTIFICATIONS or channel.feeds:
            entries[uid] = _escaped(encode(channel))
    order = [uid for uid in declared if uid in there and uid != NOTIFICATIONS]
    order = permuted(order, [uid for uid in there if uid in declared and uid != NOTIFICATIONS])
    new = [uid for uid in there if uid in entries and uid not in declared and uid != NOTIFICATIONS]
    order = inserted(order, [*there], new)
    if NOTIFICATIONS in entries:
        # Apps always show it first; its position in the file has no meaning, so it stays.
        declared_at = next((at for at, each in enumerate(file.channels) if each.uid == NOTIFICATIONS), 0)
        order.insert(declared_at, NOTIFICATIONS)
    if order or "channels" in raw:
        raw["channels"] = [entries[uid] for uid in order]


def _edit_channel(form: Form, raw: dict[str, Any], file: ChannelConfig, now: ChannelConfig) -> None:
    if now.name != file.name and now.uid != NOTIFICATIONS:
        raw["name"] = escape(now.name)
    _edit_feeds(form, raw, file, now)
    _edit_rules(raw, file, now)
    _edit_settings(raw, file, now)


def _edit_feeds(form: Form, raw: dict[str, Any], file: ChannelConfig, now: ChannelConfig) -> None:
    there = {form(feed.url): feed for feed in now.feeds}
    # Several entries may mean the same feed: a page, and the feed that it names. All stay, with their settings.
    known: dict[str, set[FeedConfig]] = {}
    for declared in file.feeds:
        known.setdefault(form(declared.url), set()).add(replace(declared, url=""))
    entries = []
    for entry, declared in zip(raw.get("feeds", ()), file.feeds, strict=True):
        key = form(declared.url)
        if key in there:
            present = replace(there[key], url="")
            is_said = present in known[key]
            entries.append(entry if is_said else _changed(entry, declared, replace(present, url=declared.url)))
    entries += [_escaped(encode(feed)) for key, feed in there.items() if key not in known]
    if entries != raw.get("feeds", []):
        raw["feeds"] = entries


def _edit_rules(raw: dict[str, Any], file: UserConfig | ChannelConfig, now: UserConfig | ChannelConfig) -> None:
    for kind in ("mute", "block"):
        there = {normalise_profile(url): url for url in getattr(now, kind)}
        entries = []
        for entry, declared in zip(raw.get(kind, ()), getattr(file, kind), strict=True):
            if there.pop(normalise_profile(declared), None) is not None:
                entries.append(entry)
        entries += [escape(url) for url in there.values()]
        if entries != raw.get(kind, []):
            raw[kind] = entries


def _edit_named(raw: dict[str, Any], key: str, file: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Output feeds or sources, by name."""
    for name in file.keys() - now.keys():
        raw[key].pop(name)
    for name, said in now.items():
        if said != file.get(name):
            entry = raw.setdefault(key, {}).setdefault(name, {})
            _differences(entry, encode(file[name]) if name in file else {}, encode(said))


def _edit_settings(raw: dict[str, Any], file: ChannelConfig, now: ChannelConfig) -> None:
    before, after = encode(file.settings), encode(now.settings)
    if before != after:
        _differences(raw.setdefault("settings", {}), before, after)


def _differences(entry: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> None:
    """Write the differences between `before` and `after` into an object of the file."""
    for name in dict.fromkeys([*before, *after]):
        if name not in after:
            entry.pop(name)
        elif before.get(name) != after[name]:
            entry[name] = _escaped(after[name])


def _changed(entry: Any, declared: FeedConfig, now: FeedConfig) -> Any:
    """The file's entry of a feed, with the feed's present settings."""
    if now == declared:
        return entry
    changed = dict(entry) if isinstance(entry, Mapping) else {"url": entry}
    before, after = ({"url": part} if isinstance(part, str) else part for part in (encode(declared), encode(now)))
    _differences(changed, before, after)
    return changed


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, Mapping):
        return {key: _escaped(part) for key, part in value.items()}
    return [_escaped(part) for part in value] if isinstance(value, list) else value


class UserChanges(Protocol):
    """Applies an admin's changes to users."""

    async def vet(self, change: Change) -> None:
        """Raise an error if the change can't be applied."""

    async def apply(self, change: Change, now: float) -> None:
        """Apply one change at a Unix time; a missing subject is no error."""
