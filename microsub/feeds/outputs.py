"""Output feeds as values: the feed, its items with their state, addresses. Pure.

An item is *published* until it was shown as often as allowed, then *imported*. It is *removed* when its user removes
it, or when it leaves because there are too many. An *impression* is one sending of it to others than its user.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from microsub.base.errors import InvalidRequest
from microsub.configuration.model import LONGEST_SHOWN, OutputConfig, encode
from microsub.model.reader import NAME
from microsub.web.paths import OUTPUTS

ENDINGS = ("rss", "atom", "json", "html")
"""The formats, by the ending of their addresses (`formats.documents`)."""

MOST_ITEMS = 10_000
"""Maximum number of items in an output feed without a lower quota: each reply checks all of them."""

State = Literal["published", "imported", "removed"]

_SECRET = re.compile(r"[A-Za-z0-9_-]{20,64}")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True, slots=True)
class OutputFeed:
    """An output feed of `user`.

    `id` is a UUID. `secret` is part of its address, None if that was revoked. `modified` is the Unix time at which its
    content last changed, `changed` that of its settings, `removed` that of its removal from backend.json. `source` is
    when its channel was created, None if it had none. Arrivals of that source (`taken_from`) were read up to
    `position`.
    """

    user: str
    name: str
    id: str
    settings: OutputConfig = field(default_factory=OutputConfig)
    secret: str | None = None
    created: float = 0.0
    changed: float = 0.0
    modified: float = 0.0
    removed: float | None = None
    editions: int = 0
    source: str | None = None
    taken_from: str = ""
    position: int = 0

    @property
    def title(self) -> str:
        """The title that readers show."""
        return self.settings.title or self.name

    @property
    def is_limited(self) -> bool:
        """Whether its items expire by themselves."""
        return bool(self.settings.max_impressions or self.settings.max_age)

    @property
    def stem(self) -> str | None:
        """Its address below `OUTPUTS` without an ending: readable if it is public, None if it has none."""
        if self.settings.public:
            return f"{self.user}/{self.name}"
        return None if self.secret is None else f"{self.user}.{self.secret}"

    def addresses(self, base: str) -> dict[str, str]:
        """Its addresses by format, on the server at `base`; empty if the address was revoked."""
        stem = self.stem
        return {} if stem is None else {ending: f"{base}{OUTPUTS}/{stem}.{ending}" for ending in ENDINGS}

    def as_dict(self, base: str, size: tuple[int, int]) -> Mapping[str, object]:
        """The feed on the server at `base` for JSON, with its numbers of published and imported items."""
        settings = self.settings
        chosen = {name: getattr(settings, name) for name in ("description", "image", "author", "language")}
        chosen |= {"channel": settings.channel, "search": settings.search, "filters": encode(settings.filters)}
        return {
            "name": self.name,
            "title": self.title,
            **{name: value for name, value in chosen.items() if value},
            "max_impressions": settings.max_impressions,
            "max_age": settings.max_age,
            "republish": "edits" if settings.republishes else "never",
            "public": settings.public,
            "published": size[0],
            "imported": size[1],
            "addresses": self.addresses(base),
        }


class PostVersion(NamedTuple):
    """Two digests of a post: of all shown properties, and of the post's own words; '' if unknown."""

    shown: str = ""
    own: str = ""

    def is_edit_of(self, former: PostVersion) -> bool:
        """Whether the post's author changed it. Unknown digests show no edit."""
        return bool(self.own and former.own) and self.own != former.own


class OutputRow(NamedTuple):
    """An item that an output feed shows: the time (Unix) and number of its publication, and its post's version then.

    `again` is why it was published again: '' if it wasn't, else `edited` or `again`, by hand.
    """

    item: str
    published: float
    edition: str
    version: PostVersion
    again: str = ""


@dataclass(frozen=True, slots=True)
class OutputItem:
    """An item of an output feed with its state. Times are Unix seconds.

    `published` is when it was last published, unless it is removed. `impressions` counts since then; `times` are those
    of the latest ones.
    """

    id: str
    state: State
    edited: float
    published: float | None = None
    imported: float | None = None
    impressions: int = 0
    times: Sequence[float] = ()

    def as_dict(self, title: str) -> Mapping[str, object]:
        """For JSON, with the title of its post."""
        named = {"published": self.published, "imported": self.imported}
        known = {name: value for name, value in named.items() if value is not None}
        shown = {"impressions": self.impressions, "impression_times": list(self.times)}
        return {"id": self.id, "title": title, "state": self.state, **known, **shown, "edited": self.edited}


@dataclass(frozen=True, slots=True)
class OutputAddress:
    """The target of a path below `OUTPUTS`: by `secret`, or by `name` if that is empty."""

    user: str
    secret: str
    name: str
    form: str

    @classmethod
    def of(cls, path: str) -> OutputAddress | None:
        """Parse a path; without an ending it is the page. None if it is invalid."""
        whole = path.removeprefix(f"{OUTPUTS}/")
        stem, _, form = whole.rpartition(".")
        if form not in ENDINGS:
            stem, form = whole, "html"
        if "/" in stem:
            user, _, name = stem.partition("/")
            secret = ""
        else:
            user, _, secret = stem.partition(".")
            name = ""
        fits = NAME.match(user) and (_SECRET.fullmatch(secret) if secret else NAME.match(name))
        return cls(user, secret, name, form) if fits else None


def require_name(name: str) -> str:
    """The name of an output feed. Raises InvalidRequest."""
    if not NAME.match(name):
        raise InvalidRequest(f"'{name[:80]}' can't name an output feed: expected 1 to 64 of A-Z a-z 0-9 _ -")
    return name


def seconds_of(text: str) -> int:
    """Parse a duration such as `24h`, `90m`, `7d` or `3600` into seconds. Raises InvalidRequest."""
    found = re.fullmatch(r"([0-9]{1,10})\s*([smhdw]?)", text.strip().lower())
    seconds = int(found[1]) * _UNITS[found[2]] if found else LONGEST_SHOWN + 1
    if seconds > LONGEST_SHOWN:
        raise InvalidRequest(f"'{text[:80]}' isn't a valid age: expected a number with s, m, h, d or w, such as 24h")
    return seconds


class OutputStore(Protocol):
    """The output feeds of all users, as other features need them. Every method may raise StoreError."""

    async def all_of(self, user: str) -> list[OutputFeed]:
        """All output feeds of the user, by name."""

    async def get(self, user: str, name: str) -> OutputFeed:
        """The feed. Raises NotFound, also for a removed feed."""

    async def put(self, user: str, name: str, settings: OutputConfig, now: float) -> OutputFeed:
        """Create an output feed or change its settings; a removed one comes back."""

    async def remove(self, user: str, name: str, now: float) -> None:
        """Stop serving a feed until `put` or `delete`; its items stay. Raises NotFound."""

    async def find(self, user: str, secret: str) -> OutputFeed:
        """The feed at an address. Raises NotFound, and AddressRevoked for a revoked address."""

    async def find_public(self, user: str, name: str) -> OutputFeed:
        """The public feed of that name. Raises NotFound."""

    async def items(self, feed: OutputFeed, limit: int, offset: int = 0) -> list[OutputItem]:
        """The items with their state, most recently edited first."""

    async def among(self, feed: OutputFeed, ids: Sequence[str]) -> list[str]:
        """The ids that are published or imported in the feed."""

    async def restore(
        self, feed: OutputFeed, items: Sequence[OutputItem], versions: Mapping[str, PostVersion], now: float
    ) -> int:
        """Add items with the state that they had elsewhere; returns how many. Raises NotFound."""

    def references(self, user: str) -> AsyncIterator[list[str]]:
        """Ids that the user's output feeds show or have shown, in batches."""
