"""Settings of a channel, each declared once: value, default, bounds and description.

Everything else is derived from the fields: the format of backend.json and its reference page (`configuration.model`),
the hash fields in Redis (`timelines.channels`), and which level's value holds (`ChannelSettings.over`). Pydantic reads
the markers; it is loaded only to check a file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from typing import Annotated, Any, Literal, Self, TypeVar

import orjson

from microsub import model  # pydantic and re2 take long to load, and only the check of a file needs them

T = TypeVar("T")

UnreadStyle = Literal["count", "boolean", "none"]

NOTES = "^(x-|_|//)"
"""Keys for notes of the file's author, which have no effect."""

FILE_OBJECT: Mapping[str, Any] = {"extra": "forbid", "json_schema_extra": {"patternProperties": {NOTES: True}}}
"""Pydantic's configuration for objects of backend.json: an unknown key is reported."""


class LeftOut:
    """A field that may be left out, and then is None; `null` isn't a valid value."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """The schema of the value itself."""
        schema = handler(source)
        return schema["schema"] if schema["type"] == "nullable" else schema


Maybe = Annotated[T | None, LeftOut()]


@dataclass(frozen=True)
class Fits:
    """Text of 1 to `longest` characters for which `problem` returns None; otherwise it returns the reason.

    `expected` describes valid text; `pattern` is the part of the check that editors can do.
    """

    problem: Callable[[str], str | None]
    expected: str
    pattern: str = ""
    longest: int = 2048

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """The type's check, followed by this one."""

        def check(text: str) -> str:
            problem, expected = self.problem(text), self.expected
            if len(text) > self.longest:
                problem, expected = f"of {len(text)} characters", f"at most {self.longest}"
            if problem is not None:
                raise model.misfit(problem, expected)
            return text

        return model.after(check, handler(source))

    def __get_pydantic_json_schema__(self, core: Any, handler: Callable[[Any], Any]) -> Any:
        """The part of the check that editors can do."""
        pattern = {"pattern": self.pattern} if self.pattern else {}
        return {**handler(core), "minLength": 1, "maxLength": self.longest, **pattern}


def declared(description: str, default: Any = None, *, usual: Any = None, **bounds: Any) -> Any:
    """A field of a settings object; `usual` is the effective value if no level gives one."""
    shown = usual if default is None else default
    more = {"json_schema_extra": {"default": shown}} if shown not in (None, ()) else {}
    return field(default=default, metadata={"description": description, "usual": usual, **more, **bounds})


def number(description: str, default: Any = None, *, usual: Any = None, ge: float = 0, le: float) -> Any:
    """A field with a number from `ge` to `le`."""
    return declared(description, default, usual=usual, strict=True, ge=ge, le=le)


def flag(description: str, default: bool | None = None, *, usual: bool | None = None) -> Any:
    """A field that is true or false; texts such as "no" are invalid."""
    return declared(description, default, usual=usual, strict=True)


def usual(kind: type[T]) -> T:
    """The effective value if no level gives one."""
    return kind(**{one.name: one.metadata["usual"] for one in fields(kind) if "usual" in one.metadata})  # type: ignore[arg-type]


def stated(value: Any) -> dict[str, Any]:
    """The fields of a settings object that differ from their default."""
    return {one.name: part for one in fields(value) if (part := getattr(value, one.name)) != _default(one)}


def _default(one: Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()


class Level:
    """Settings of several levels: None means the value of the level above, 0 means no limit."""

    __slots__ = ()

    def over(self, above: Level) -> Self:
        """These settings, with the values of the level above in place of None."""
        kind: Any = type(self)
        names = [one.name for one in fields(kind)]
        found = {name: getattr(self, name) for name in names}
        return kind(  # type: ignore[no-any-return]
            **{name: getattr(above, name, None) if value is None else value for name, value in found.items()}
        )


@dataclass(frozen=True, slots=True)
class ChannelSettings(Level):
    """Settings of a channel, or of all channels of a user or of the instance. 0 keeps posts forever."""

    __pydantic_config__ = FILE_OBJECT

    keep_read_days: Maybe[float] = number(
        "Days to keep a post after it was read; 0 keeps it forever.", usual=30, le=36500
    )
    keep_unread_days: Maybe[float] = number("Days to keep an unread post; 0 keeps it forever.", usual=180, le=36500)
    max_items: Maybe[int] = number("Posts per channel; 0 sets no limit.", usual=2000, le=10_000_000)
    unread: Maybe[UnreadStyle] = declared(
        "The figure that apps show for unread posts: their number, whether there are any, or nothing.", usual="count"
    )
    first_fetch_unread: Maybe[int] = number(
        "How many of the newest posts of a newly followed feed are unread.", usual=10, le=10_000
    )
    feed_trouble: Maybe[bool] = flag(
        "Whether `notifications` reports followed feeds that fail for a week, are gone, or have moved.",
        usual=True,
    )

    def limits(self) -> ChannelSettings:
        """These settings without those that only one level has."""
        return ChannelSettings(**{one.name: getattr(self, one.name) for one in fields(ChannelSettings)})


USUAL = usual(ChannelSettings)
"""The effective settings if neither channel nor user nor instance give any."""


def blank(text: str) -> str | None:
    """A check for `Fits`: blank text is invalid."""
    return None if text.strip() else ""


def _irregular(text: str) -> str | None:
    if not text:
        return "which is empty"
    try:
        model.compiled(text)
    except model.PatternError as error:
        return f"with {error}"
    return None


Word = Annotated[str, Fits(blank, "text that isn't blank", r"\S", 200)]
Regex = Annotated[str, Fits(_irregular, "a regular expression in RE2 syntax", longest=2000)]

POST_TYPES = (
    *("article", "note", "photo", "video", "audio", "reply", "like", "repost", "bookmark", "follow"),
    *("rsvp", "checkin", "mention", "event"),
)
"""The kinds of posts that filters distinguish (`formats.entry_id`)."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Rules for which new posts are accepted. Title, summary, text and categories are searched."""

    __pydantic_config__ = FILE_OBJECT

    include_types: tuple[Word, ...] = declared(f"Only posts of these types: {', '.join(POST_TYPES)}.", ())
    include_words: tuple[Word, ...] = declared(
        "Only posts that contain one of these words or phrases, ignoring case, or that match `include_regex`.", ()
    )
    include_regex: Maybe[Regex] = declared(
        "Only posts that match this expression (RE2), or that contain one of `include_words`."
    )
    exclude_types: tuple[Word, ...] = declared("No posts of these types.", ())
    exclude_words: tuple[Word, ...] = declared("No posts that contain one of these words or phrases.", ())
    exclude_regex: Maybe[Regex] = declared("No posts that match this expression (RE2).")

    def __bool__(self) -> bool:
        return bool(stated(self))

    @classmethod
    def of(cls, part: Mapping[str, Any]) -> Filters:
        """Filters from a valid `filters` object, without notes and unknown keys."""
        names = {one.name for one in fields(cls)}
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in part.items() if name in names
        }
        return cls(**given)

    @classmethod
    def read(cls, text: str | bytes) -> Filters:
        """Filters as `stored`; none in an empty text. Raises ValueError, TypeError and AttributeError for others."""
        found = cls.of(orjson.loads(text)) if text else cls()
        for value in stated(found).values():
            if not all(isinstance(one, str) for one in value):
                raise TypeError("a filter has something else than words")
        return found

    def stored(self) -> str:
        """The filters as JSON, for `read`; scripts compare it. Empty for none."""
        return orjson.dumps(stated(self)).decode() if self else ""


@dataclass(frozen=True, slots=True)
class OwnChannelSettings(ChannelSettings):
    """Settings of one channel."""

    filters: Filters = field(default_factory=Filters, metadata={"description": "Rules for new posts of the channel."})


FeedView = Literal["list", "cards", "full"]

FullTextChoice = Literal["off", "on", "auto"]


def _no_selector(text: str) -> str | None:
    return model.unfit_selector(text)


Selector = Annotated[str, Fits(_no_selector, "a CSS selector such as `article .text`", longest=500)]

UserAgent = Literal["compatible", "browser"]
"""Other ways to name this server to a publisher: as compatible with browsers, or as a browser."""


@dataclass(frozen=True)
class FollowSettings:
    """A user's settings for one feed of a channel, besides its name. Other followers don't notice them.

    They stand beside the feed's URL in backend.json.
    """

    __pydantic_config__ = FILE_OBJECT

    view: Maybe[FeedView] = declared(
        "How the feed's own page shows its posts: `list`, `cards` or `full`; by default as the channel does."
    )
    full_text: Maybe[FullTextChoice] = declared(
        "Which text posts are shown with: `off`, that of the feed; `on`, that of the page that they link to; `auto`, "
        "that of the page if the feed was found to cut its posts. By default `auto`, but `off` for feeds that were "
        "followed before the server had this setting."
    )
    article: Maybe[Selector] = declared(
        "CSS selector of the elements that hold the article on the pages of posts, if full texts are wrong. "
        "It counts while all followers of the feed on this server have chosen the same."
    )
    article_without: Maybe[Selector] = declared(
        "CSS selector of elements that are left out of full texts; it counts as `article` does."
    )
    hide_in_all: bool = flag("Whether the feed's posts are shown in this channel only, not in *All*.", False)
    notify: Maybe[bool] = flag(
        "Whether devices are notified of the feed's new posts; by default those that are notified of the channel's."
    )
    keep_unread_days: Maybe[float] = number(
        "Days to keep an unread post of the feed; 0 keeps it forever. By default as the channel does.", le=36500
    )
    paused: bool = flag("Whether new posts of the feed wait: they come into the channel when the pause ends.", False)
    filter: Filters = field(
        default_factory=Filters,
        metadata={"description": "Rules for new posts of the feed, which must also pass those of the channel."},
    )

    def __bool__(self) -> bool:
        return bool(stated(self))

    def changed(self, former: FollowSettings, wanted: FollowSettings) -> FollowSettings:
        """These settings, with those in which `wanted` differs from `former`, from which it was made."""
        differing = {one.name: getattr(wanted, one.name) for one in fields(self)}
        return replace(self, **{name: value for name, value in differing.items() if value != getattr(former, name)})


NO_SETTINGS = FollowSettings()

SettingsOf = Callable[[str, str], Awaitable[ChannelSettings]]
"""Maps user and channel uid to the effective settings; none of them is None."""
