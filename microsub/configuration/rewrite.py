"""The other direction: backend.json as it should be, so that it says what the stores hold.

Pure. Only what differs is touched: the order of keys, unknown keys and `${…}` stay, and so do users that are disabled.
Users who registered themselves come into the file by nobody but its owner: an older copy of it would disable them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from microsub.configuration.document import BackendDocument
from microsub.configuration.facts import URLS, Current, Forms, inserted, permuted
from microsub.configuration.file import escape
from microsub.configuration.model import ChannelConfig, FeedConfig, UserConfig, encode
from microsub.model.reader import NOTIFICATIONS

WRITTEN = frozenset({"me", "channels", "mute", "block"})
"""What is written of a user; all else in an entry is its owner's."""


def edited(
    document: BackendDocument,
    current: Current,
    forms: Forms = URLS,
) -> dict[str, Any] | None:
    """The document with what was changed through the API; None when it says all that already.

    The document must be what was last applied, else an edit of the file would be undone here.
    """
    raw: dict[str, Any] = copy.deepcopy(dict(document.raw))
    editor = _Editor(forms)
    for name, user in current.users.items():
        declared = document.backend.users.get(name)
        if declared is None and name in current.registered:
            continue
        users = raw.setdefault("users", {})
        if declared is None:
            users[name] = {"me": escape(user.me)} if user.me else {}
            declared = UserConfig(user.me)
        editor.user(users[name], declared, user)
    return raw if raw != document.raw else None


@dataclass(frozen=True)
class _Editor:
    forms: Forms

    def user(self, raw: dict[str, Any], file: UserConfig, now: UserConfig) -> None:
        if now.me != file.me:
            raw["me"] = escape(now.me)
            if not now.me:
                del raw["me"]
        self.rules(raw, file, now)
        entries = {channel.uid: entry for channel, entry in zip(file.channels, raw.get("channels", ()), strict=True)}
        declared, there = file.by_uid(), now.by_uid()
        for uid, channel in there.items():
            if uid in declared:
                self.channel(entries[uid], declared[uid], channel)
            elif uid != NOTIFICATIONS or channel.feeds:
                entries[uid] = _escaped(encode(channel))
        order = [uid for uid in declared if uid in there and uid != NOTIFICATIONS]
        order = permuted(order, [uid for uid in there if uid in declared and uid != NOTIFICATIONS])
        new = [uid for uid in there if uid in entries and uid not in declared and uid != NOTIFICATIONS]
        order = inserted(order, [*there], new)
        if NOTIFICATIONS in entries:
            # Readers always show it first; where it stands in the file is its owner's taste and says nothing.
            declared_at = next((at for at, each in enumerate(file.channels) if each.uid == NOTIFICATIONS), 0)
            order.insert(declared_at, NOTIFICATIONS)
        if order or "channels" in raw:
            raw["channels"] = [entries[uid] for uid in order]

    def channel(self, raw: dict[str, Any], file: ChannelConfig, now: ChannelConfig) -> None:
        if now.name != file.name and now.uid != NOTIFICATIONS:
            raw["name"] = escape(now.name)
        self.feeds(raw, file, now)
        self.rules(raw, file, now)
        self.settings(raw, file, now)

    def feeds(self, raw: dict[str, Any], file: ChannelConfig, now: ChannelConfig) -> None:
        there = {self.forms.feed(feed.url): feed for feed in now.feeds}
        # Several entries may mean one feed: a page, and the feed that it names. They stay, under any of their names.
        names: dict[str, set[str | None]] = {}
        for declared in file.feeds:
            names.setdefault(self.forms.feed(declared.url), set()).add(declared.name)
        entries = []
        for entry, declared in zip(raw.get("feeds", ()), file.feeds, strict=True):
            key = self.forms.feed(declared.url)
            if key in there:
                entries.append(entry if there[key].name in names[key] else _named(entry, declared, there[key]))
        entries += [_escaped(encode(feed)) for key, feed in there.items() if key not in names]
        if entries != raw.get("feeds", []):
            raw["feeds"] = entries

    def rules(self, raw: dict[str, Any], file: UserConfig | ChannelConfig, now: UserConfig | ChannelConfig) -> None:
        for kind in ("mute", "block"):
            there = {self.forms.profile(url): url for url in getattr(now, kind)}
            entries = []
            for entry, declared in zip(raw.get(kind, ()), getattr(file, kind), strict=True):
                if there.pop(self.forms.profile(declared), None) is not None:
                    entries.append(entry)
            entries += [escape(url) for url in there.values()]
            if entries != raw.get(kind, []):
                raw[kind] = entries

    def settings(self, raw: dict[str, Any], file: ChannelConfig, now: ChannelConfig) -> None:
        before, after = encode(file.settings), encode(now.settings)
        for name in dict.fromkeys([*before, *after]):
            if name not in after:
                raw["settings"].pop(name)
            elif before.get(name) != after[name]:
                raw.setdefault("settings", {})[name] = _escaped(after[name])


def _named(entry: Any, declared: FeedConfig, now: FeedConfig) -> Any:
    """The file's entry of a feed with the name that it has now."""
    if now.name == declared.name:
        return entry
    if isinstance(entry, Mapping):
        rest = {key: value for key, value in entry.items() if key != "name" or now.name is not None}
        return rest | ({"name": escape(now.name)} if now.name is not None else {})
    return {"url": entry, "name": escape(now.name or "")}


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, Mapping):
        return {key: _escaped(part) for key, part in value.items()}
    return [_escaped(part) for part in value] if isinstance(value, list) else value
