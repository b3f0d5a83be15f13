"""backend.json as frozen values: users, channels, feeds and settings, after validation and expansion.

`from_document` expects a document that `validate` has passed; `to_document` is its inverse up to form (the canonical
document that is remembered as applied, see `storage`, Three-way merge).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal

from microsub.configuration.joining import (
    Quotas,
    Registration,
    quotas_from,
    quotas_part,
    registration_from,
    registration_part,
)

UnreadStyle = Literal["count", "boolean", "none"]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Limits:
    """Retention and unread style of one level; None means: as the level above says. 0 means without limit.

    `first_fetch_unread` is how many of the newest posts of a newly followed feed come in as unread.
    """

    keep_read_days: float | None = None
    keep_unread_days: float | None = None
    max_items: int | None = None
    unread: UnreadStyle | None = None
    first_fetch_unread: int | None = None

    def over(self, above: Limits) -> Limits:
        """These limits, and those of the level above where these say nothing."""
        return Limits(
            **{
                name: getattr(above, name) if getattr(self, name) is None else getattr(self, name)
                for name in LIMIT_NAMES
            }
        )


LIMIT_NAMES: tuple[str, ...] = tuple(entry.name for entry in fields(Limits))

DEFAULT_LIMITS = Limits(keep_read_days=30, keep_unread_days=180, max_items=2000, unread="count", first_fetch_unread=10)


@dataclass(frozen=True, slots=True)
class FeedConfig:
    """A feed in a channel; `name` is the owner's own name for it."""

    url: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ChannelConfig:
    """A channel as declared. `filters` is the `settings.filters` object; `mute` and `block` hold URLs."""

    uid: str
    name: str
    feeds: tuple[FeedConfig, ...] = ()
    settings: Limits = Limits()
    filters: Mapping[str, Any] = field(default_factory=dict)
    mute: tuple[str, ...] = ()
    block: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UserConfig:
    """A user as declared; `me` is empty where none is given, `quotas` holds only what is declared."""

    name: str
    me: str = ""
    channels: tuple[ChannelConfig, ...] = ()
    settings: Limits = Limits()
    mute: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    token_endpoint: str | None = None
    quotas: Quotas = field(default_factory=Quotas)

    def by_uid(self) -> dict[str, ChannelConfig]:
        """The channels by their uids."""
        return {channel.uid: channel for channel in self.channels}


@dataclass(frozen=True, slots=True)
class Polling:
    """How politely feeds are asked: seconds, and requests to one host at a time (`ingest`, Polling)."""

    min_interval: float = 300
    max_interval: float = 86_400
    host_interval: float = 1
    host_concurrency: int = 1


@dataclass(frozen=True, slots=True)
class Delivery:
    """How posts reach timelines (`ingest`, fan-out and warm-up): a number of timelines, and days; 0 is no limit."""

    fan_out_limit: int = 0
    away_days: float = 0
    warm_up_days: float = 30


@dataclass(frozen=True, slots=True)
class Identity:
    """How tokens of users' own providers are checked: seconds for which an answer holds, and for which it may serve
    beyond that while the provider can't be asked.
    """

    token_cache: float = 600
    token_grace: float = 3600


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """Other manners for one host; None means: as `Polling` says."""

    interval: float | None = None
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class FeedPolicy:
    """Manners for one feed, in seconds; None means: as usual.

    `interval` takes the place of the adaptive interval, `ttl` that of what the publisher says on how long a copy is
    fresh (`max-age`, `Expires`, the document's own wishes): for so long it isn't asked for again.
    """

    interval: float | None = None
    ttl: float | None = None


KEEP_PER_FEED = 300
"""Posts of a feed that stay in the store though nobody has them any more."""


@dataclass(frozen=True, slots=True)
class InstanceSettings:
    """What holds for everybody. `limits` holds only what is declared: use `Limits.over(DEFAULT_LIMITS)`.

    `keep_per_feed` is how many of a feed's newest posts stay in the store in any case, 0 for all. `hosts` is keyed by
    lower-case host name, `feeds` by URL as declared; `public_feeds` are found by words. `quotas` hold for all but those
    who registered themselves, who have those of `registration`.
    """

    limits: Limits = Limits()
    keep_per_feed: int = KEEP_PER_FEED
    polling: Polling = Polling()
    delivery: Delivery = Delivery()
    hosts: Mapping[str, HostPolicy] = field(default_factory=dict)
    feeds: Mapping[str, FeedPolicy] = field(default_factory=dict)
    public_feeds: tuple[FeedConfig, ...] = ()
    identity: Identity = Identity()
    registration: Registration = field(default_factory=Registration)
    quotas: Quotas = field(default_factory=Quotas)


@dataclass(frozen=True, slots=True)
class Backend:
    """The whole of backend.json."""

    users: Mapping[str, UserConfig] = field(default_factory=dict)
    settings: InstanceSettings = InstanceSettings()


# --- from a document ---------------------------------------------------------------------------------------------


def from_document(document: Mapping[str, Any]) -> Backend:
    """The values of a valid, expanded document."""
    users = {name: _user(name, part) for name, part in document.get("users", _NOTHING).items()}
    return Backend(users, instance_from(document.get("settings", _NOTHING)))


def limits_from(part: Mapping[str, Any]) -> Limits:
    """The limits in a settings object of any level; other keys are left alone."""
    return Limits(**_known(Limits, part))


def instance_from(part: Mapping[str, Any]) -> InstanceSettings:
    """The top-level settings object."""
    return InstanceSettings(
        limits=limits_from(part),
        keep_per_feed=int(part.get("keep_per_feed", KEEP_PER_FEED)),
        polling=Polling(**_known(Polling, part.get("polling", _NOTHING))),
        delivery=Delivery(**_known(Delivery, part.get("delivery", _NOTHING))),
        identity=Identity(**_known(Identity, part.get("identity", _NOTHING))),
        hosts={name.lower(): HostPolicy(**_known(HostPolicy, entry)) for name, entry in part.get("hosts", {}).items()},
        feeds={url: FeedPolicy(**_known(FeedPolicy, entry)) for url, entry in part.get("feeds", {}).items()},
        public_feeds=_feeds(part.get("public_feeds", ())),
        registration=registration_from(part.get("registration", _NOTHING)),
        quotas=quotas_from(part.get("quotas", _NOTHING)),
    )


_WHOLE = frozenset({"max_items", "first_fetch_unread", "host_concurrency", "concurrency", "fan_out_limit"})


def _known(kind: type, part: Mapping[str, Any]) -> dict[str, Any]:
    names: Mapping[str, Any] = kind.__dataclass_fields__  # type: ignore[attr-defined]
    return {name: int(part[name]) if name in _WHOLE else part[name] for name in names if part.get(name) is not None}


def _user(name: str, part: Mapping[str, Any]) -> UserConfig:
    return UserConfig(
        name=name,
        me=part.get("me", ""),
        channels=tuple(_channel(entry) for entry in part.get("channels", ())),
        settings=limits_from(part.get("settings", _NOTHING)),
        mute=tuple(part.get("mute", ())),
        block=tuple(part.get("block", ())),
        token_endpoint=part.get("token_endpoint"),
        quotas=quotas_from(part.get("settings", _NOTHING).get("quotas", _NOTHING)),
    )


def _channel(part: Mapping[str, Any]) -> ChannelConfig:
    settings = part.get("settings", _NOTHING)
    return ChannelConfig(
        uid=part["uid"],
        name=" ".join(part.get("name", part["uid"]).split()),
        feeds=_feeds(part.get("feeds", ())),
        settings=limits_from(settings),
        filters=_without_notes(settings.get("filters", _NOTHING)),
        mute=tuple(part.get("mute", ())),
        block=tuple(part.get("block", ())),
    )


def _feeds(parts: Sequence[Any]) -> tuple[FeedConfig, ...]:
    return tuple(
        FeedConfig(part) if isinstance(part, str) else FeedConfig(part["url"], _spaced(part.get("name")))
        for part in parts
    )


def _spaced(name: str | None) -> str | None:
    return None if name is None else " ".join(name.split())


def _without_notes(part: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name in FILTER_NAMES}


FILTER_NAMES = ("include_types", "include_words", "include_regex", "exclude_types", "exclude_words", "exclude_regex")

POST_TYPES = (
    *("article", "note", "photo", "video", "audio", "reply", "like", "repost", "bookmark", "follow"),
    *("rsvp", "checkin", "event"),
)
"""The kinds of posts that filters tell apart (`formats.post_types`)."""

# --- to a document -----------------------------------------------------------------------------------------------


def to_document(backend: Backend) -> dict[str, Any]:
    """The canonical document: what stands at its default is left out."""
    users = {name: _user_part(user) for name, user in backend.users.items()}
    return _filled(users=users, settings=instance_part(backend.settings))


def _filled(**parts: Any) -> dict[str, Any]:
    return {name: part for name, part in parts.items() if part not in (None, "", {}, [])}


def limits_part(limits: Limits) -> dict[str, Any]:
    """The settings object of these limits."""
    return _values(limits)


def user_settings_part(limits: Limits, quotas: Quotas) -> dict[str, Any]:
    """The settings object of a user."""
    return limits_part(limits) | _filled(quotas=quotas_part(quotas))


def _values(entry: Any) -> dict[str, Any]:
    return {part.name: value for part in fields(entry) if (value := getattr(entry, part.name)) is not None}


def instance_part(settings: InstanceSettings) -> dict[str, Any]:
    """The top-level settings object."""
    return limits_part(settings.limits) | _filled(
        keep_per_feed=None if settings.keep_per_feed == KEEP_PER_FEED else settings.keep_per_feed,
        polling=_unusual(settings.polling, Polling()),
        delivery=_unusual(settings.delivery, Delivery()),
        identity=_unusual(settings.identity, Identity()),
        hosts={name: _values(entry) for name, entry in settings.hosts.items()},
        feeds={url: _values(entry) for url, entry in settings.feeds.items()},
        public_feeds=[feed_part(feed) for feed in settings.public_feeds],
        registration=registration_part(settings.registration),
        quotas=quotas_part(settings.quotas),
    )


def _unusual(settings: Any, default: Any) -> dict[str, Any]:
    usual = _values(default)
    return {name: value for name, value in _values(settings).items() if value != usual[name]}


def _user_part(user: UserConfig) -> dict[str, Any]:
    return _filled(
        me=user.me,
        token_endpoint=user.token_endpoint,
        channels=[channel_part(channel) for channel in user.channels],
        settings=user_settings_part(user.settings, user.quotas),
        mute=list(user.mute),
        block=list(user.block),
    )


def channel_part(channel: ChannelConfig) -> dict[str, Any]:
    """One entry of `channels`."""
    settings = limits_part(channel.settings) | _filled(filters=dict(channel.filters))
    return {"uid": channel.uid, "name": channel.name} | _filled(
        feeds=[feed_part(feed) for feed in channel.feeds],
        settings=settings,
        mute=list(channel.mute),
        block=list(channel.block),
    )


def feed_part(feed: FeedConfig) -> Any:
    """One entry of `feeds`: the URL alone, or an object where the feed has a name."""
    return feed.url if feed.name is None else {"url": feed.url, "name": feed.name}
