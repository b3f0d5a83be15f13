"""The kept versions of backend.json: which ones stay, and from which of them an edit began. Pure.

A version's name says when it was there (UTC), the beginning of its SHA-256, and whether somebody saved it by hand:
`20260131T081500.000000Z-0a1b2c3d.json`, and `….saved.json`. All others were written by the server.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from microsub.configuration.legacy import is_legacy
from microsub.configuration.model import Backend, ChannelConfig, FeedConfig, UserConfig, from_document
from microsub.configuration.variables import expand
from microsub.kit.hosts import comparable, comparable_profile

NEWEST_KEPT = 10
"""Versions that are kept in any case, and as many that were saved by hand."""
_HOURS, _DAYS = 24, 30
_STAMP = "%Y%m%dT%H%M%S.%fZ"


@dataclass(frozen=True, slots=True)
class Origin:
    """The older version `name` from which an edit began; `back`: the file says what that version said, no more."""

    name: str
    backend: Backend
    back: bool


def version_name(digest: str, now: float, *, by_hand: bool, after: str = "") -> str:
    """The name of a version that was there at `now` (Unix time), or just behind the version `after` if that is later:
    the order of the names is that in which the versions came, whatever the clock says.
    """
    at = datetime.fromtimestamp(now, UTC)
    with contextlib.suppress(ValueError):
        at = max(at, datetime.strptime(after.partition("-")[0], _STAMP).replace(tzinfo=UTC) + timedelta(microseconds=1))
    stamp = at.strftime(_STAMP)
    return f"{stamp}-{digest[:8]}{'.saved' if by_hand else ''}.json"


def is_saved(name: str) -> bool:
    """Whether that version was saved by hand."""
    return name.endswith(".saved.json")


def is_version_of(name: str, digest: str) -> bool:
    """Whether the version of that name has the content of that SHA-256 (hex)."""
    return name.partition("-")[2].partition(".")[0] == digest[:8]


def surplus(names: Iterable[str], now: float) -> list[str]:
    """The versions that need not stay at `now`: beside the newest ten, and the newest ten that were saved by hand, the
    last one of each hour stays for a day, and the last one of each day for 30 days.
    """
    ordered = sorted(names)
    kept = {*ordered[-NEWEST_KEPT:], *[name for name in ordered if is_saved(name)][-NEWEST_KEPT:]}
    for form, length, count in (("%Y%m%dT%H", 3600, _HOURS), ("%Y%m%d", 86_400, _DAYS)):
        periods = {datetime.fromtimestamp(now - length * ago, UTC).strftime(form) for ago in range(count)}
        width = len(datetime.fromtimestamp(now, UTC).strftime(form))
        kept.update({name[:width]: name for name in ordered if name[:width] in periods}.values())
    return [name for name in ordered if name not in kept]


def since_saved(names: Iterable[str], digest: str) -> list[str]:
    """The versions, newest first, that differ from the one of `digest` (which must be the newest) by what the server
    wrote alone: those behind which nobody has saved another one.
    """
    ordered = sorted(names, reverse=True)
    if not ordered or not is_version_of(ordered[0], digest):
        return []
    found = []
    for newer, name in itertools.pairwise(ordered):
        if is_saved(newer):
            break
        found.append(name)
    return found


def said(body: bytes, environ: Mapping[str, str]) -> Backend | None:
    """What a kept version declares; None where it can't be read."""
    try:
        document = json.loads(body.decode("utf-8-sig"))
        if is_legacy(document):
            return None
        return from_document(expand(document, environ, lambda *_: None))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def origin(file: Backend, last: Backend, older: Sequence[tuple[str, Backend]]) -> Origin | None:
    """From which version the edit to `file` began; None: from `last`, which was applied last.

    It is the one from which `file` differs in the fewest declarations, of equal ones the newest. `older` has the others
    by name, newest first.
    """
    wanted = declarations(file)
    found, fewest = None, len(declarations(last) ^ wanted)
    for name, backend in older:
        differing = len(declarations(backend) ^ wanted)
        if differing < fewest:
            found, fewest = Origin(name, backend, differing == 0), differing
    return found


def declarations(backend: Backend) -> frozenset[Hashable]:
    """All that a file says, each thing by itself: so the size of an edit is the number of those that differ."""
    said: set[Hashable] = {("settings", name, _form(part)) for name, part in asdict(backend.settings).items()}
    for user in backend.users.values():
        said.add((user.name, user.me, user.token_endpoint, _form(asdict(user.settings)), _form(asdict(user.quotas))))
        said.update((user.name, *rule) for rule in _rules(user))
        said.add((user.name, "order", tuple(channel.uid for channel in user.channels)))
        for channel in user.channels:
            said.update((user.name, channel.uid, *part) for part in _of_channel(channel))
    return frozenset(said)


def _of_channel(channel: ChannelConfig) -> Iterable[tuple[str, ...]]:
    yield "name", channel.name
    yield "settings", _form(asdict(channel.settings)), _form(channel.filters)
    yield from _rules(channel)
    yield from (_feed(feed) for feed in channel.feeds)


def _feed(feed: FeedConfig) -> tuple[str, ...]:
    return "feed", comparable(feed.url), feed.name or ""


def _rules(part: UserConfig | ChannelConfig) -> Iterable[tuple[str, ...]]:
    yield from (("mute", comparable_profile(url)) for url in part.mute)
    yield from (("block", comparable_profile(url)) for url in part.block)


def _form(part: Any) -> str:
    return json.dumps(part, sort_keys=True, default=dict)
