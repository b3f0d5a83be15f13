"""The single-user file of the earlier Go server, converted to the current form.

It has `Channels` (uid → channel), `Feeds` (uid → list of feeds), `Settings` (uid → filters), `NextUID`, `Me`,
`TokenEndpoint` and `AuthEnabled`; Go ignores case in keys, including those of nested objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from microsub.base.urls import canonical_feed_url, is_usable, parts_of
from microsub.configuration.json_text import Path
from microsub.model.filters import PatternError, compiled

if TYPE_CHECKING:
    from microsub.configuration.document import BackendFindings

ENDPOINT_UNUSED = "has no effect without 'me', which determines whose tokens are accepted"

_KEYS = frozenset({"channels", "feeds", "nextuid", "me", "tokenendpoint", "authenabled"})
_NOTES = ("x-", "_", "//", "$")
_OWN = "notifications"
_RESERVED = frozenset({"global", "saved"})
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


def is_legacy(document: Any) -> bool:
    """Whether this is the old form: it has one of the old keys at the top level, and no `users`."""
    if not isinstance(document, Mapping):
        return False
    keys = {key.lower() for key in document}
    return "users" not in keys and bool(keys & _KEYS)


def upgrade(document: Mapping[str, Any], findings: BackendFindings) -> dict[str, Any]:
    """The current form of an old document.

    The user is named after the host of `Me`, otherwise `default`. Channels keep their uids and order. Invalid values
    are recorded in `findings` and left out.
    """
    top = _Object(document, (), findings)
    me, endpoint = top.url("me"), top.url("tokenendpoint")
    user: dict[str, Any] = {}
    if me:
        user["me"] = me
    if endpoint:
        user["token_endpoint"] = endpoint
    settings = top.object("settings")
    parts: list[_Object] = []
    user["channels"] = _channels(top, settings, parts)
    if top.get("authenabled") is not None:
        findings.warn((top.key("authenabled"),), "is dropped: here, requests always need a token")
    if endpoint and not me:
        findings.warn((top.key("tokenendpoint"),), ENDPOINT_UNUSED)
    if top.get("nextuid") is not None:
        findings.warn((top.key("nextuid"),), "is dropped: here, new channels get their uids in another way")
    for key in top.strays():
        findings.warn((key,), "is unknown and dropped")
    for key in settings.strays():
        findings.warn((*settings.path, key), "belongs to no channel and is dropped")
    places: dict[tuple[str | int, str], list[Path]] = {}
    for part in parts:
        for key in part.strays():
            places.setdefault((part.path[0], key.lower()), []).append((*part.path, key))
    for first, *others in places.values():
        more = f", here and in {len(others)} other place{'s' if len(others) > 1 else ''}" if others else ""
        findings.warn(first, f"is dropped{more}")
    kept = {key: value for key, value in document.items() if key.startswith(_NOTES)}
    return kept | {"users": {user_name(me): user}}


def channel_uids(document: Mapping[str, Any]) -> dict[str, str]:
    """Old uid → new uid from `upgrade` of each channel, in order."""
    return {old: uid for _, old, uid, _ in _named(_Object(document, (), None))}


def user_name(me: str) -> str:
    """The user name for a site: its host, with `-` for other characters, or `default`."""
    try:
        host = parts_of(me).hostname or ""
    except ValueError:
        host = ""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", host).strip("-")[:64]
    return name or "default"


class _Object:
    """An object with case-insensitive keys; the last spelling wins, as in Go."""

    def __init__(self, value: Any, path: tuple[str | int, ...], findings: BackendFindings | None) -> None:
        self.path = path
        self.findings = findings
        self.value: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
        self.spelling = {key.lower(): key for key in self.value}
        self.asked: set[str] = set()
        if value is not None and not isinstance(value, Mapping):
            self.wrong(path, value, "an object")

    def key(self, name: str) -> str:
        self.asked.add(name)
        return self.spelling.get(name, name)

    def strays(self) -> list[str]:
        """The keys that were never read, without notes."""
        return [key for key in self.value if not {key, key.lower()} & self.asked and not key.startswith(_NOTES)]

    def get(self, name: str) -> Any:
        return self.value.get(self.key(name))

    def object(self, name: str) -> _Object:
        return _Object(self.get(name), (*self.path, self.key(name)), self.findings)

    def text(self, name: str) -> str:
        value = self.get(name)
        if value is None or isinstance(value, str):
            return value or ""
        self.wrong((*self.path, self.key(name)), value, "text")
        return ""

    def url(self, name: str) -> str:
        value = self.text(name)
        if value and not is_usable(value) and "${" not in value:
            self.wrong((*self.path, self.key(name)), value, "an http or https URL")
            return ""
        return value

    def wrong(self, path: tuple[str | int, ...], value: Any, expected: str) -> None:
        if self.findings:
            self.findings.wrong(path, self.findings.written(path, value), expected)


def _channels(top: _Object, settings: _Object, parts: list[_Object]) -> list[dict[str, Any]]:
    """The channels in the current form; all objects they come from are added to `parts`."""
    feeds = top.object("feeds")
    channels = []
    for key, _, uid, entry in _named(top):
        channel: dict[str, Any] = {"uid": uid, "name": entry.text("name") or key}
        parts.append(entry)
        urls = _feeds(feeds, key, parts)
        if urls:
            channel["feeds"] = urls
        parts.append(own := _Object(settings.value.get(key), (*settings.path, key), top.findings))
        settings.asked.add(key)
        filters = _filters(own)
        if filters:
            channel["settings"] = {"filters": filters}
        if uid != _OWN or urls or filters:  # `notifications` exists anyway
            channels.append(channel)
    return channels


def _named(top: _Object) -> Iterator[tuple[str, str, str, _Object]]:
    """Key, old uid, new uid and entry of each channel of `Channels`, then of `Feeds`."""
    declared, feeds = top.object("channels"), top.object("feeds")
    taken: set[str] = set()
    for key in dict.fromkeys([*declared.value, *feeds.value]):
        entry = _Object(declared.value.get(key), (*declared.path, key), top.findings)
        old = entry.text("uid") or key
        uid = _uid(old, taken)
        taken.add(uid)
        yield key, old, uid, entry


def _uid(text: str, taken: set[str]) -> str:
    """A valid uid, the old one if possible."""
    uid = text if _NAME.match(text) else re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:64] or "channel"
    number = 2
    plain = uid[:60]
    while uid in taken or uid in _RESERVED:
        uid = f"{plain}-{number}"
        number += 1
    return uid


def _feeds(feeds: _Object, key: str, parts: list[_Object]) -> list[Any]:
    listed = feeds.value.get(key)
    path = (*feeds.path, key)
    if not isinstance(listed, list):
        if listed is not None:
            feeds.wrong(path, listed, "a list")
        return []
    urls: dict[str, Any] = {}
    for index, part in enumerate(listed):
        here: tuple[str | int, ...] = (*path, index)
        entry = _Object({} if isinstance(part, str) else part, here, feeds.findings)
        entry.asked.add("type")
        parts.append(entry)
        url = part if isinstance(part, str) else entry.text("url")
        name = entry.text("name")
        if not is_usable(url) and "${" not in url:
            feeds.wrong(here, url or part, "a feed with an http or https URL")
            continue
        urls.setdefault(canonical_feed_url(url), {"url": url, "name": name} if name else url)
    return list(urls.values())


def _filters(settings: _Object) -> dict[str, Any]:
    filters: dict[str, Any] = {}
    for old, new in (("includeregex", "include_regex"), ("excluderegex", "exclude_regex")):
        pattern = settings.text(old)
        try:
            compiled(pattern)
        except PatternError as error:
            expected = f"a regular expression in RE2 syntax; there is {error}"
            settings.wrong((*settings.path, settings.key(old)), pattern, expected)
        else:
            filters |= {new: pattern} if pattern else {}
    types = settings.get("excludetype")
    if isinstance(types, list) and types:
        filters["exclude_types"] = [kind for kind in types if isinstance(kind, str) and kind]
    return filters
