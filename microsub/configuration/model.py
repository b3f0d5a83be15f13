"""backend.json as frozen values in the shape of the file.

The meaning, default and bounds of a key are declared only at its field. The check of a file (`shape.check_shape`), the
JSON Schema and the reference page (`scripts/reference.py`) are made from them. `decode` reads a valid document;
`encode` writes the canonical form, which is recorded as applied.
"""

from __future__ import annotations

import functools
import re
import time
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from microsub import model
from microsub.base.errors import InvalidRequest
from microsub.base.identifiers import PROFILE, unfit_profile
from microsub.base.plaintext import unprintable
from microsub.base.urls import MAX_URL, domain, is_usable
from microsub.model.query import QueryUnreadable, parsed
from microsub.model.reader import MOST_OF_QUERY, Subscription
from microsub.model.settings import (
    FILE_OBJECT,
    NOTES,
    ChannelSettings,
    Filters,
    Fits,
    FollowSettings,
    Level,
    Maybe,
    OwnChannelSettings,
    UserAgent,
    blank,
    declared,
    flag,
    number,
    stated,
)
from microsub.model.sign_ins import LONGEST_NAME, MOST_BYTES, MOST_HEADERS, sign_in_headers

T = TypeVar("T")

# --- kinds of text -------------------------------------------------------------------------------------------------

URL = "an http or https URL, such as https://blog.example/feed.xml"
_HTTP = r"^([Hh][Tt][Tt][Pp][Ss]?://[^\s]+|.*\$\{.*)$"
_DOMAIN = "a domain of two or more parts, such as example.org, which includes its subdomains"
LANGUAGE = r"^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,4}$"
COLOR = r"^#[0-9A-Fa-f]{6}$"
NAME = "1 to 64 letters, digits, '_' or '-'"


def _no_name(text: str) -> str | None:
    return None if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", text) else ""


def _no_url(text: str) -> str | None:
    return None if is_usable(text) else ""


def _no_language(text: str) -> str | None:
    return None if re.fullmatch(LANGUAGE, text) else ""


def _no_domain(text: str) -> str | None:
    return None if domain(text) else ""


def _no_stranger(text: str) -> str | None:
    return None if is_usable(text) or domain(text) else ""


def _unprintable(text: str) -> str | None:
    return "" if unprintable(" ".join(text.split())) else blank(text)


def _no_color(text: str) -> str | None:
    return None if re.fullmatch(COLOR, text) else ""


def _unsendable(text: str) -> str | None:
    return None if text.isprintable() else ""


def _no_user(text: str) -> str | None:
    return "" if ":" in text else _unsendable(text)


def _no_header(text: str) -> str | None:
    try:
        sign_in_headers(headers=text)
    except InvalidRequest:
        return ""
    return "" if "\n" in text else None


def _no_query(text: str) -> str | None:
    try:
        parsed(text, time.time())
    except QueryUnreadable as error:
        return f"with {error.found} at character {error.position} instead of {error.expected}"
    return None


Name = Annotated[str, Fits(_no_name, NAME, "^[A-Za-z0-9_-]{1,64}$", 64)]
Url = Annotated[str, Fits(_no_url, URL, _HTTP, 100_000)]
Rule = Annotated[str, Fits(_no_url, URL, _HTTP)]
Profile = Annotated[str, Fits(unfit_profile, PROFILE, _HTTP)]
Title = Annotated[str, Fits(blank, "text that isn't blank", r"\S", 200)]
Text = Annotated[str, Fits(blank, "text that isn't blank", r"\S", 2000)]
Picture = Annotated[str, Fits(_no_url, "an http or https URL", _HTTP, MAX_URL)]
Language = Annotated[str, Fits(_no_language, "a language tag such as en or pt-BR", LANGUAGE, 35)]
InstanceName = Annotated[str, Fits(_unprintable, "printable text that isn't blank", r"\S", 40)]
Color = Annotated[str, Fits(_no_color, "a colour such as #0b57a4", COLOR, 7)]
SourceTitle = Annotated[str, Fits(_unprintable, "printable text that isn't blank", r"\S", 200)]
UserName = Annotated[str, Fits(_no_user, "printable text without a colon", r"^[^:]*$", LONGEST_NAME)]
Password = Annotated[str, Fits(_unsendable, "printable text", longest=LONGEST_NAME)]
Header = Annotated[
    str,
    Fits(_no_header, "one `Name: value` in ASCII, with a name that this server doesn't set itself", ":", MOST_BYTES),
]
Query = Annotated[str, Fits(_no_query, "a search in the syntax of `action=search`", r"\S", MOST_OF_QUERY)]
Domain = Annotated[str, Fits(_no_domain, _DOMAIN, longest=253)]
Refused = Annotated[str, Fits(_no_stranger, f"{_DOMAIN}, or a profile URL")]

# --- settings ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Quotas(Level):
    """How much a user may have; 0 means no limit. Quotas apply to changes made in reader apps, never to the admin's."""

    __pydantic_config__ = FILE_OBJECT

    channels: Maybe[int] = number("Channels, without `notifications` and `saved`.", le=1_000_000)
    feeds: Maybe[int] = number("Feeds in all channels together; a feed in two channels counts twice.", le=1_000_000)
    tokens: Maybe[int] = number("Valid grants of apps, and tokens made by hand.", le=1_000_000)
    requests: Maybe[int] = number("Requests to the Microsub endpoint per minute.", le=1_000_000)
    rules: Maybe[int] = number("Mutes and blocks in all channels together. By default 1000.", le=1_000_000)
    saved: Maybe[int] = number("Saved posts. By default 10,000 for users who registered themselves.", le=10_000_000)
    outputs: Maybe[int] = number("Output feeds.", le=1_000_000)
    output_items: Maybe[int] = number("Items of one output feed. By default 1000; never more than 10,000.", le=10_000)
    sources: Maybe[int] = number("Sources, which post into channels.", le=1_000_000)
    media: Maybe[int] = number(
        "Bytes of all files from sources, which are stored in Redis. By default 200,000,000, and a tenth of that for "
        "users who registered themselves.",
        le=10**12,
    )
    posts: Maybe[int] = number(
        "Bytes of posts: of feeds, in equal parts for all their followers; of the user's sources; and picked from "
        "previews. By default 300,000,000 for users who registered themselves.",
        le=10**12,
    )


MOST_RULES = 1000
"""The default quota of mutes and blocks: each of them is checked for every new post."""

MOST_IMPRESSIONS = 10_000
LONGEST_SHOWN = 3_153_600_000
"""Bounds of `max_impressions` and of `max_age`, in seconds: a hundred years."""

OUTPUT_ITEMS = 1000
"""The default quota of items in one output feed."""

OF_DECLARED = Quotas(
    channels=0,
    feeds=0,
    tokens=0,
    requests=0,
    rules=MOST_RULES,
    saved=0,
    outputs=0,
    output_items=OUTPUT_ITEMS,
    sources=0,
    media=200_000_000,
    posts=0,
)
"""The default quotas of users declared by the admin."""
OF_REGISTERED = replace(
    OF_DECLARED,
    channels=50,
    feeds=500,
    tokens=50,
    requests=600,
    saved=10_000,
    outputs=20,
    sources=20,
    media=20_000_000,
    posts=300_000_000,
)
"""The default quotas of users who registered themselves."""


@dataclass(frozen=True, slots=True)
class MentionSettings:
    """A user's settings for webmentions."""

    __pydantic_config__ = FILE_OBJECT

    receive: bool = flag("Whether webmentions of this user's pages are accepted.", True)
    pages: tuple[Url, ...] = declared("URLs of the user's pages besides `me`; pages below them are included.", ())
    approval: bool = flag(
        "Whether a webmention appears in `notifications` only after `microsub webmention approve`.", False
    )


@dataclass(frozen=True, slots=True)
class MentionPolicy:
    """Senders whose webmentions are refused for all users."""

    __pydantic_config__ = FILE_OBJECT

    refuse: tuple[Refused, ...] = declared(
        "Refused sites: domains with their subdomains, and URLs such as `https://people.example/mallory` with the "
        "pages below them.",
        (),
    )


@dataclass(frozen=True, slots=True)
class UserSettings(ChannelSettings):
    """Settings for all of this user's channels, the user's quotas and webmentions."""

    quotas: Quotas = field(
        default_factory=Quotas,
        metadata={"description": "This user's quotas, which override the general ones."},
    )
    webmention: MentionSettings = field(
        default_factory=MentionSettings, metadata={"description": "This user's settings for webmentions."}
    )


@dataclass(frozen=True, slots=True)
class Polling:
    """Limits on how often feeds and hosts are polled."""

    __pydantic_config__ = FILE_OBJECT

    min_interval: float = number(
        "Minimum seconds between two polls of a feed, however active it is.", 300, ge=60, le=172_800
    )
    max_interval: float = number(
        "Maximum seconds between two polls. The publisher's `max-age` can exceed it.", 86_400, ge=60, le=172_800
    )
    host_interval: float = number("Seconds between two requests to one host.", 1, le=3600)
    host_concurrency: int = number("Simultaneous requests to one host.", 1, ge=1, le=100)


@dataclass(frozen=True, slots=True)
class DeliverySettings:
    """How new posts are added to the timelines of a feed's followers."""

    __pydantic_config__ = FILE_OBJECT

    fan_out_limit: int = number(
        "How many timelines get a new post at once, those of the most recently active users first; "
        "the others get it when they are read. 0: all.",
        0,
        le=10_000_000,
    )
    away_days: float = number(
        "Days without a request after which a user's timelines get no new posts until the user returns; then they are "
        "filled. 0: never.",
        0,
        le=3650,
    )
    warm_up_days: float = number(
        "How many days back new, lost or skipped timelines are filled from the store. 0: no limit.",
        30,
        le=3650,
    )


@dataclass(frozen=True, slots=True)
class IdentitySettings:
    """How tokens from a user's own provider are checked."""

    __pydantic_config__ = FILE_OBJECT

    token_cache: float = number(
        "Seconds for which a provider's answer about a token is cached. A revocation at the provider takes effect "
        "within this time.",
        600,
        ge=1,
        le=86_400,
    )
    token_grace: float = number(
        "Seconds for which a valid token still works while its provider can't be reached. 0: none.",
        3600,
        le=604_800,
    )


Openness = Literal["nobody", "domains", "everybody"]
Republish = Literal["never", "edits"]


@dataclass(frozen=True, slots=True)
class Registration:
    """Who can create an account by signing in with their own site."""

    __pydantic_config__ = FILE_OBJECT

    open: Openness = declared(
        "Who may create an account: nobody, people whose site is on one of `domains`, or everybody.", "nobody"
    )
    domains: tuple[Domain, ...] = declared(
        "Domains such as `example.org`, including subdomains (`ann.example.org`).", ()
    )
    refuse: tuple[Refused, ...] = declared(
        "Who can never create an account: domains with their subdomains, and profile URLs such as "
        "`https://people.example/mallory`.",
        (),
    )
    most: int = number("Maximum number of accounts that people created themselves. 0: no limit.", 1000, le=10_000_000)
    quotas: Quotas = field(
        default_factory=Quotas,
        metadata={
            "description": "Quotas of each of these users. By default 50 channels, 500 feeds, 50 tokens, 1,000 "
            "mutes and blocks, 10,000 saved posts, 20 output feeds of 1,000 items, 20 sources with files of "
            "20,000,000 bytes, 300,000,000 bytes of posts, and 600 requests a minute."
        },
    )


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """Limits for one host, which override `polling`."""

    __pydantic_config__ = FILE_OBJECT

    interval: Maybe[float] = number("Seconds between two requests.", le=3600)
    concurrency: Maybe[int] = number("Simultaneous requests.", ge=1, le=100)


@dataclass(frozen=True, slots=True)
class FeedPolicy:
    """Intervals and the User-Agent for one feed."""

    __pydantic_config__ = FILE_OBJECT

    interval: Maybe[float] = number(
        "Seconds between two polls, instead of the adaptive interval. Freshness headers of the publisher can raise it, "
        "unless `ttl` is set.",
        ge=1,
        le=172_800,
    )
    ttl: Maybe[float] = number(
        "Seconds for which a fetched copy counts as fresh and isn't fetched again, whatever the publisher says. "
        "0: only the interval counts.",
        le=172_800,
    )
    user_agent: Maybe[UserAgent] = declared(
        "How requests for the feed name this server, if its publisher refuses the usual way: `compatible` with "
        "browsers, or as a `browser`."
    )


# --- feeds, channels, users ----------------------------------------------------------------------------------------


class _TextOrObject:
    """Text as short form of an object that only has its first key."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        first = fields(source)[0].name
        return model.before(lambda part: {first: part} if isinstance(part, str) else part, handler(source))

    def __get_pydantic_json_schema__(self, core: Any, handler: Callable[[Any], Any]) -> Any:
        return {"anyOf": [{"type": "string", "pattern": _HTTP}, handler(core)]}


@dataclass(frozen=True, slots=True)
class PublicFeedConfig:
    """A feed that users can find: only its URL, or an object."""

    __pydantic_config__ = FILE_OBJECT

    url: Url
    name: Maybe[Title] = declared(
        "The name shown to this user instead of the feed's own title, also for its posts without an author."
    )

    def __post_init__(self) -> None:
        if self.name is not None:
            object.__setattr__(self, "name", " ".join(self.name.split()))


@dataclass(frozen=True, slots=True, repr=False)
class SignInConfig:
    """Credentials with which a feed is asked for, for this user alone. They are sent to the feed's own origin only."""

    __pydantic_config__ = FILE_OBJECT

    user_name: Maybe[UserName] = declared("The user name (HTTP Basic).")
    password: Maybe[Password] = declared("Its password, best as a variable such as `${MEMBERS_PASSWORD}`.")
    headers: tuple[Header, ...] = declared(
        f"Headers, such as `Cookie: session=…` or `X-Api-Key: ${{NEWS_KEY}}`; at most {MOST_HEADERS} with "
        f"{MOST_BYTES} bytes, `Authorization` of the user name included.",
        (),
    )

    def __repr__(self) -> str:
        return f"SignInConfig({'…' if self.sent() else ''})"

    def sent(self) -> Mapping[str, str]:
        """The headers to send, by lower-case name; none without a sign-in. Raises InvalidRequest."""
        if self == NO_SIGN_IN:
            return {}
        return sign_in_headers(self.user_name or "", self.password or "", "\n".join(self.headers))


NO_SIGN_IN = SignInConfig()


@dataclass(frozen=True)
class FeedConfig(FollowSettings, PublicFeedConfig):
    """A feed in a channel: only its URL, or an object."""

    sign_in: SignInConfig = field(
        default_factory=SignInConfig,
        metadata={"description": "Credentials of this user, who then follows a feed of their own at the URL."},
    )

    @classmethod
    def of(cls, follow: Subscription) -> FeedConfig:
        """The declaration of a follow."""
        return cls(follow.url, follow.name, **stated(follow.settings))

    @property
    def settings(self) -> FollowSettings:
        """The settings besides the name."""
        return FollowSettings(**{one.name: getattr(self, one.name) for one in fields(FollowSettings)})


Feeds = tuple[Annotated[FeedConfig, _TextOrObject()], ...]


@dataclass(frozen=True, slots=True)
class ChannelConfig:
    """A declared channel."""

    __pydantic_config__ = FILE_OBJECT

    uid: Name = field(metadata={"description": "The permanent name; another uid means another channel."})
    name: Title = declared("The name that apps show; by default the uid.", "")
    feeds: Feeds = declared("The feeds that the channel follows: URLs, or objects with a URL and a name.", ())
    settings: OwnChannelSettings = field(default_factory=OwnChannelSettings)
    mute: tuple[Rule, ...] = declared("Authors or feeds not shown in this channel.", ())
    block: tuple[Rule, ...] = declared("Authors or feeds never stored in this channel.", ())

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", " ".join((self.name or self.uid).split()))


@dataclass(frozen=True, slots=True)
class OutputConfig:
    """An output feed: posts that a user publishes at an address of their own."""

    __pydantic_config__ = FILE_OBJECT

    title: Maybe[Title] = declared("The title that readers show; by default the feed's name.")
    description: Maybe[Text] = declared("What the feed is about, in a few sentences.")
    image: Maybe[Picture] = declared("The URL of its picture, such as a podcast's cover.")
    author: Maybe[Title] = declared("The name of the person who publishes it.")
    language: Maybe[Language] = declared("The language of its posts, such as `en` or `pt-BR`.")
    channel: Maybe[Name] = declared("A channel whose posts are all published, besides items added by hand.")
    search: Maybe[Query] = declared(
        "A search in the syntax of `action=search`. Its results are published: from the channel, or from all channels "
        "if none is given."
    )
    filters: Filters = field(
        default_factory=Filters, metadata={"description": "Which of these posts are published; by default all."}
    )
    max_impressions: int = number(
        "In how many replies an item is shown; then it counts as imported and leaves the feed. 0: no limit.",
        0,
        le=MOST_IMPRESSIONS,
    )
    max_age: int = number(
        "Seconds for which an item is shown after it was published. 0: no limit.", 0, le=LONGEST_SHOWN
    )
    republish: Maybe[Republish] = declared(
        "Whether a post that its author edited is published again: `never` or `edits`. By default `never` with "
        "`max_impressions`, otherwise `edits`."
    )
    public: bool = flag(
        "Whether the feed is at /feeds/USER/NAME; otherwise only at an address that can't be guessed.", False
    )

    @property
    def republishes(self) -> bool:
        """Whether edited posts are published again."""
        return self.republish == "edits" or (self.republish is None and not self.max_impressions)


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """A script or an app that posts into a channel. `microsub source token` creates its token."""

    __pydantic_config__ = FILE_OBJECT

    channel: Name = field(metadata={"description": "The channel into which it posts."})
    name: Maybe[SourceTitle] = declared("The name that apps show; by default the source's id.")


@dataclass(frozen=True, slots=True)
class UserConfig:
    """A user's declaration."""

    __pydantic_config__ = FILE_OBJECT

    me: Profile = declared(
        "The user's own site, with which they sign in; by default the page /u/NAME of this server.", ""
    )
    token_endpoint: Maybe[Url] = declared(
        "The endpoint that checks this user's tokens, instead of the one named by the site `me`."
    )
    admin: bool = flag("Whether the user has access to /admin, with all feeds, users and the server's state.", False)
    channels: tuple[ChannelConfig, ...] = declared(
        "Channels in the order in which apps show them. 'notifications' always exists, listed or not. 'saved' always "
        "exists too, as the last one, and can't be listed.",
        (),
    )
    settings: UserSettings = field(
        default_factory=UserSettings,
        metadata={"description": "Settings for all of this user's channels, the user's quotas and webmentions."},
    )
    mute: tuple[Rule, ...] = declared("Authors or feeds not shown in any channel.", ())
    block: tuple[Rule, ...] = declared("Authors or feeds never stored in any channel.", ())
    filters: Filters = field(
        default_factory=Filters,
        metadata={
            "description": "Rules for new posts in all channels except 'notifications'. Posts must also pass those of "
            "the channel and of the feed."
        },
    )
    outputs: Mapping[Name, OutputConfig] = field(
        default_factory=dict, metadata={"description": "Output feeds by name."}
    )
    sources: Mapping[Name, SourceConfig] = field(
        default_factory=dict,
        metadata={"description": "Sources by id: scripts and apps that post into the user's channels."},
    )

    def by_uid(self) -> dict[str, ChannelConfig]:
        """The channels by their uids."""
        return {channel.uid: channel for channel in self.channels}


@dataclass(frozen=True, slots=True)
class InstanceSettings(ChannelSettings):
    """Settings for everybody, which users and channels can override."""

    name: Maybe[InstanceName] = declared(
        "The name of this server at the top of its pages, in titles and as an installed app. Without it, the one that "
        "an admin gives on the page *Name and colour*."
    )
    color: Maybe[Color] = declared(
        "The colour of links and buttons. Where text in it would have a contrast below 4.5 to 1, it is darker on light "
        "pages and lighter on dark ones. Without it, the one of the page *Name and colour*."
    )
    keep_per_feed: int = number(
        "How many of a feed's newest posts stay in the store for new followers, even if no timeline has them. 0: all.",
        300,
        le=1_000_000,
    )
    polling: Polling = field(default_factory=Polling)
    delivery: DeliverySettings = field(default_factory=DeliverySettings)
    identity: IdentitySettings = field(default_factory=IdentitySettings)
    registration: Registration = field(default_factory=Registration)
    quotas: Quotas = field(
        default_factory=Quotas,
        metadata={
            "description": "Quotas of users declared by the admin; registered users have `registration.quotas`. "
            "By default only `rules`, `output_items` and `media` are limited."
        },
    )
    webmention: MentionPolicy = field(
        default_factory=MentionPolicy, metadata={"description": "Senders whose webmentions are refused for all users."}
    )
    hosts: Mapping[str, HostPolicy] = field(
        default_factory=dict,
        metadata={"description": "`interval` and `concurrency` by host, for hosts that you run."},
    )
    feeds: Mapping[Url, FeedPolicy] = field(
        default_factory=dict, metadata={"description": "Intervals and User-Agents by feed URL."}
    )
    public_feeds: tuple[Annotated[PublicFeedConfig, _TextOrObject()], ...] = declared(
        "Feeds that all users can find with a search by words.", ()
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "hosts", {name.lower(): policy for name, policy in self.hosts.items()})


async def default_settings() -> InstanceSettings:
    """The settings of an instance without backend.json, for parts that wait for the current ones."""
    return InstanceSettings()


@dataclass(frozen=True, slots=True)
class Backend:
    """Declares users, their channels, feeds and settings. ${NAME} in a value stands for an environment variable."""

    __pydantic_config__: ClassVar = {
        **FILE_OBJECT,
        "json_schema_extra": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "patternProperties": {NOTES: True},
        },
    }

    users: Mapping[Name, UserConfig] = field(
        default_factory=dict,
        metadata={"description": "Users by name (at most 64 letters, digits, _ and -)."},
    )
    settings: InstanceSettings = field(default_factory=InstanceSettings)


# --- from and to documents -----------------------------------------------------------------------------------------


def decode(kind: type[T], part: Any) -> T:
    """The value of a valid document or a part of one; unknown keys are left out."""
    readers = _readers(kind)  # type: ignore[arg-type]  # every class can be hashed
    if isinstance(part, str):
        part = {next(iter(readers)): part}
    return kind(**{name: read(part[name]) for name, read in readers.items() if part.get(name) is not None})


def encode(value: Any) -> Any:
    """The document of a value; defaults are left out. Sign-ins must have become addresses (`SignInConfig`)."""
    if isinstance(value, SignInConfig):
        raise TypeError("a sign-in is never written")
    if is_dataclass(value):
        found = {name: encode(part) for name, part in stated(value).items()}
        return found["url"] if isinstance(value, PublicFeedConfig) and len(found) == 1 else found
    if isinstance(value, Mapping):
        return {key: encode(part) for key, part in value.items()}
    return [encode(part) for part in value] if isinstance(value, tuple) else value


@functools.cache
def _readers(kind: type[Any]) -> Mapping[str, Callable[[Any], Any]]:
    hints = get_type_hints(kind)
    return {one.name: _reader(hints[one.name]) for one in fields(kind)}


def _reader(hint: Any) -> Callable[[Any], Any]:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _reader(args[0])
    if isinstance(hint, type) and is_dataclass(hint):
        return functools.partial(decode, hint)
    if origin is tuple:
        member = _reader(args[0])
        return lambda part: tuple(map(member, part))
    if origin is Mapping:
        value = _reader(args[1])
        return lambda part: {key: value(one) for key, one in part.items()}
    return int if hint is int else lambda part: part


def kind_at(path: tuple[str | int, ...]) -> Any:
    """The class of the object at a path in a document."""
    kind: Any = Backend
    for key in path:
        if is_dataclass(kind):
            kind = get_type_hints(kind)[str(key)]
        else:
            kind = get_args(kind)[0 if get_origin(kind) is tuple else 1]
    return kind
