"""The lines of a user's export: one JSON object each, after a header with the version.

In this order: the header; channels in the user's order; rules for all channels; how the user reads; then feeds,
follows, posts, items, absences, output feeds and sources, each after the lines that it refers to; the end, with the
number of lines. Ids are the exporting server's and only valid within this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import orjson

from microsub import parsing
from microsub.base.errors import InvalidRequest
from microsub.model.reader import Episode, KeptSearch

VERSION = 1
LONGEST_LINE = 16 * 1024 * 1024
"""Maximum characters of a line; a post has at most four million."""


@dataclass(frozen=True, slots=True)
class ExportHeader:
    """The header: the user, the server's data (`instance`), the time, and the version of the software."""

    user: str
    instance: str
    exported: str
    software: str
    me: str = ""
    version: int = VERSION
    type: Literal["user"] = "user"


@dataclass(frozen=True, slots=True)
class ExportedChannel:
    """A channel with its own settings, as in backend.json, and the URLs that it mutes and blocks.

    `mute_until` has the Unix times of mutes that end.
    """

    uid: str
    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    mute: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    mute_until: Mapping[str, float] = field(default_factory=dict)
    type: Literal["channel"] = "channel"


@dataclass(frozen=True, slots=True)
class ExportedRules:
    """The URLs muted and blocked in all channels, with the ends of mutes as in channels, and the filter for all."""

    mute: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    mute_until: Mapping[str, float] = field(default_factory=dict)
    filters: Mapping[str, Any] = field(default_factory=dict)
    type: Literal["rules"] = "rules"


@dataclass(frozen=True, slots=True)
class ExportedReading:
    """How pages look, as names and values: `display` all of them, `views` those of a channel, by uid.

    `views` has the last choice as `''`. `searches` are those in the list of channels: with `uid`, in that channel only.
    `read_everywhere`: whether a post that is read in one channel is read in all. `episodes` are those of the player,
    `shortcuts` the keys of the actions whose keys the user has changed, `services` the names and addresses of services
    to which posts can be sent.
    """

    display: Mapping[str, str] = field(default_factory=dict)
    views: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    searches: tuple[KeptSearch, ...] = ()
    read_everywhere: bool = False
    episodes: tuple[Episode, ...] = ()
    shortcuts: Mapping[str, str] = field(default_factory=dict)
    services: tuple[tuple[str, str], ...] = ()
    type: Literal["reading"] = "reading"


@dataclass(frozen=True, slots=True)
class ExportedFeed:
    """A feed that is followed or has posts in the export.

    With `signed_in`, its posts came with a sign-in, which the file doesn't contain: others at `url` may not get them.
    """

    feed: str
    url: str
    title: str | None = None
    photo: str | None = None
    home: str | None = None
    description: str | None = None
    signed_in: bool = False
    type: Literal["feed"] = "feed"


@dataclass(frozen=True, slots=True)
class ExportedFollow:
    """A follow with its settings, as in backend.json; posts before `unread_from` (Unix time) are added as read."""

    channel: str
    feed: str
    url: str
    followed_at: float
    name: str | None = None
    unread_from: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    type: Literal["follow"] = "follow"


@dataclass(frozen=True, slots=True)
class ExportedPost:
    """A post of a feed, or (feed '') of none: `jf2` as apps get it, guid, place, own link, saved fields.

    `full` is the full text from its page: `html`, `text`, and `automatic` if the feed cuts its posts.
    """

    post: str
    guid: str
    score: float
    hash: str
    jf2: Mapping[str, Any]
    feed: str = ""
    link: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)
    full: Mapping[str, Any] = field(default_factory=dict)
    type: Literal["post"] = "post"


@dataclass(frozen=True, slots=True)
class ExportedItems:
    """Posts in a channel's timeline, oldest first, each with the Unix time of reading, None for unread."""

    channel: str
    items: tuple[tuple[str, float | None], ...]
    type: Literal["items"] = "items"


@dataclass(frozen=True, slots=True)
class ExportedAbsences:
    """Posts that have left a channel: post ('' if it is gone), its feed and guid, Unix time of the export, reason."""

    channel: str
    items: tuple[tuple[str, str, str, int, int], ...]
    type: Literal["gone"] = "gone"


@dataclass(frozen=True, slots=True)
class ExportedOutput:
    """An output feed with its settings, as in backend.json. It gets a new address."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    type: Literal["output"] = "output"


@dataclass(frozen=True, slots=True)
class ExportedOutputItems:
    """Items of an output feed: post, times of publication, import and last edit, impressions and their times."""

    output: str
    items: tuple[tuple[str, float | None, float | None, float, int, tuple[float, ...]], ...]
    type: Literal["output items"] = "output items"


@dataclass(frozen=True, slots=True)
class ExportedSource:
    """A source that posts into a channel, as in backend.json. It gets a new token."""

    source: str
    settings: Mapping[str, Any]
    type: Literal["source"] = "source"


@dataclass(frozen=True, slots=True)
class ExportEnd:
    """The end, which shows that the file is complete; `lines` counts this one too."""

    lines: int
    type: Literal["end"] = "end"


ExportRecord = (
    ExportHeader
    | ExportedChannel
    | ExportedRules
    | ExportedReading
    | ExportedFeed
    | ExportedFollow
    | ExportedPost
    | ExportedItems
    | ExportedAbsences
    | ExportedOutput
    | ExportedOutputItems
    | ExportedSource
    | ExportEnd
)

_KINDS: Mapping[str, Any] = {kind.__dataclass_fields__["type"].default: kind for kind in get_args(ExportRecord)}


def read_record(line: bytes, number: int) -> ExportRecord:
    """A line of an export. Raises InvalidRequest, naming the line, and both versions if it is from a newer one."""
    if len(line) > LONGEST_LINE:
        raise InvalidRequest(f"line {number}: found {len(line)} bytes, expected at most {LONGEST_LINE}")
    try:
        found = orjson.loads(line)
        kind = found["type"]
        if kind == "user" and (version := int(found["version"])) > VERSION:
            raise InvalidRequest(
                f"line {number}: the export has version {version}, but this server reads versions up to {VERSION}; "
                "upgrade the server first"
            )
        record: ExportRecord = parsing.reader(_KINDS[kind])(line)
    except (ValueError, KeyError, TypeError) as error:
        why = str(error).partition("\n")[0] if isinstance(error, orjson.JSONDecodeError) else _problem(error)
        raise InvalidRequest(f"line {number}: not a line of a user's export: {why}") from None
    return record


def _problem(error: Exception) -> str:
    """The error of pydantic or Python, in a few words."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return f"its 'type' is missing or unknown ({str(error)[:60]})"
    first = errors()[0]
    return f"'{'.'.join(map(str, first['loc'][1:]))}': {first['msg']}"
