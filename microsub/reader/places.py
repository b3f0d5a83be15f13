"""Places of reading: a channel or a search with its view, and related addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, Self, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from microsub.base.errors import InvalidRequest, NotFound
from microsub.base.texts import N_, Sentence
from microsub.base.urls import LONGEST_FOLLOWED, mask_credentials, web_address
from microsub.model.query import LEAST_OF_BEGINNING
from microsub.model.reader import (
    GLOBAL,
    MOST_OF_QUERY,
    NAME,
    SAVED,
    Cursor,
    KeptSearch,
    Order,
    PageQuery,
    PostSearchRequest,
)

CHANNEL, FEED, SEARCH, POST, HOME = "/channel", "/feed", "/search", "/post", "/"
LISTENING, LAST_READ = "/listening", "/read"
PAGE_SIZE = 20

Show = Literal["all", "unread"]

_BEGINNING = Cursor("-99999999999", "0")
"""The cursor before all posts."""
_LONGEST_TIME = 11

ITEM_ID = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
"""The id of a post or a feed."""


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ListPart(Generic[_T]):
    """A part of a long list: the entries from `start` on, of `count`.

    `earlier` and `later` are the starts of the neighbouring parts, None for none.
    """

    shown: Sequence[_T]
    start: int
    count: int
    earlier: int | None
    later: int | None

    @classmethod
    def of(cls, everything: Sequence[_T], start: str, most: int) -> Self:
        """At most `most` entries from `start` on, as given in an address."""
        first = int(start) if ITEM_ID.fullmatch(start) else 0
        earlier = max(0, min(first, len(everything)) - most) if first else None
        later = first + most if first + most < len(everything) else None
        return cls(everything[first : first + most], first, len(everything), earlier, later)


_QUOTES = '"“”„«»'
_READ_STATE = re.compile(
    rf"[{_QUOTES}][^{_QUOTES}]*[{_QUOTES}]|(?<!\S)(-?)is:[{_QUOTES}]?((?:un)?read)[{_QUOTES}]?(?!\S)", re.I
)
"""A condition in a search on whether posts are read, or a phrase, in which there is none."""


@dataclass(frozen=True, slots=True)
class TimelinePlace:
    """A part of a timeline, or of the posts that match `words`. `before` and `after` are wire cursors: newer than the
    one, or older than the other. A page has at most `size` posts. The best matches come first with `best`. `last_read`:
    the posts of all channels that were read last.
    """

    uid: str
    show: Show = "unread"
    source: str = ""
    words: str | None = None
    before: str = ""
    after: str = ""
    oldest_first: bool = False
    size: int = PAGE_SIZE
    best: bool = False
    last_read: bool = False

    @classmethod
    def of(cls, uid: str, query: Mapping[str, str]) -> Self:
        """The place in an address. Raises NotFound for invalid channels and feeds."""
        source = query.get("source", "")
        if not NAME.match(uid) or not ITEM_ID.fullmatch(source or "1"):
            raise NotFound(N_("There is no such channel."))
        shown: Show = "all" if query.get("show", default_show(uid, source)) == "all" else "unread"
        return cls(uid, shown, source, None, query.get("before", ""), query.get("after", ""))

    @classmethod
    def listed(cls, path: str) -> Self | None:
        """The place of the list at that path of ours; None for other pages. Raises NotFound as `of` does."""
        parts = urlsplit(path)
        query, (kind, _, name) = dict(parse_qsl(parts.query)), parts.path.strip("/").partition("/")
        if kind == "feed" and name:
            return cls.of(query.get("channel", GLOBAL), {**query, "source": name})
        uid = {"": GLOBAL, "saved": SAVED, "channel": name}.get(kind, "")
        return cls.of(uid, query) if uid and not parts.netloc else None

    @classmethod
    def searched(cls, query: Mapping[str, str]) -> Self:
        """The place in the address of a search."""
        words = query.get("q", "").strip()
        if len(words) > MOST_OF_QUERY:
            raise InvalidRequest(Sentence("The search has more than {most} characters.", most=MOST_OF_QUERY))
        uid = query.get("channel", GLOBAL)
        if not NAME.match(uid):
            raise NotFound(N_("There is no such channel."))
        best = query.get("sort") == "relevance"
        stated = {(sign, state.lower()) for sign, state in _READ_STATE.findall(words)}
        show: Show = "unread" if stated & {("", "unread"), ("-", "read")} else "all"
        return cls(uid, show, "", words, query.get("before", ""), query.get("after", ""), best=best)

    @property
    def path(self) -> str:
        """The place's address."""
        return self._path({"before": self.before, "after": self.after})

    @property
    def at_start(self) -> Self:
        """The beginning of the place, with its newest posts."""
        return replace(self, before="", after="")

    @property
    def start(self) -> str:
        """The address of the beginning."""
        return self._path({})

    def since(self, at: str) -> Self:
        """The place from a moment on, which an address has in Unix time; the same without one, or with a cursor."""
        if not at or len(at) > _LONGEST_TIME or not (at.isascii() and at.isdecimal()) or self.before or self.after:
            return self
        if self.oldest_first:
            return replace(self, before=Cursor(at, "0").encode())
        return replace(self, after=Cursor(str(int(at) + 1), "0").encode())

    def showing(self, show: Show) -> str:
        """The address of the same place with all or only unread posts, which a search names among its words.

        Empty if no words are left, or too many.
        """
        if self.words is None:
            return replace(self, show=show).start
        rest = " ".join(_READ_STATE.sub(lambda found: "" if found[2] else found[0], self.words).split())
        words = f"{rest} is:unread".strip() if show == "unread" else rest
        return replace(self, words=words).start if 0 < len(words) <= MOST_OF_QUERY else ""

    def of_feed(self, source: str, uid: str) -> str:
        """The address of one feed's posts in that channel: unread ones, or all, as here."""
        return TimelinePlace(uid, self.show, source).start

    def sorted(self, *, best: bool) -> str:
        """The address of the same search with the best matches first, or the newest ones."""
        return replace(self, best=best).start

    @property
    def beginning(self) -> str:
        """The address of the search for words that begin with the last one; empty if that is too short, or no word."""
        *_, last = (self.words or "").split() or [""]
        if len(last) < LEAST_OF_BEGINNING or not last.isalnum():
            return ""
        return replace(self, words=f"{self.words}*").start

    def older(self, cursor: str) -> str:
        """The address of the posts older than the cursor."""
        return self._path({"after": cursor})

    def newer(self, cursor: str) -> str:
        """The address of the posts newer than the cursor."""
        return self._path({"before": cursor})

    def page_query(self, limit: int | None = None) -> PageQuery:
        """The query for the timeline. Raises InvalidRequest for unknown cursors."""
        if self.before and self.after:
            raise InvalidRequest(N_("Use either “before” or “after”, not both."))
        begins = _BEGINNING if self.oldest_first and not self.after else None
        return PageQuery(
            limit=limit or self.size,
            before=Cursor.decode(self.before, "before") if self.before else begins,
            after=Cursor.decode(self.after, "after") if self.after else None,
            view=self.show,
            source=self.source or None,
        )

    def search_request(self) -> PostSearchRequest:
        """The query for the search; all matches are counted at the start."""
        order: Order = "relevance" if self.best else "newest"
        cursors = self.before or None, self.after or None
        return PostSearchRequest(self.words or "", self.size, *cursors, order, counted=self == self.at_start)

    def _path(self, cursors: Mapping[str, str]) -> str:
        if self.last_read:
            return LAST_READ
        if self.words is not None:
            channel = {} if self.uid == GLOBAL else {"channel": self.uid}
            sort = {"sort": "relevance"} if self.best else {}
            return _address(SEARCH, {"q": self.words, **channel, **sort, **cursors})
        show = {} if self.show == default_show(self.uid, self.source) else {"show": self.show}
        if self.source:
            channel = {} if self.uid == GLOBAL else {"channel": self.uid}
            return _address(f"{FEED}/{self.source}", {**channel, **show, **cursors})
        return _address("/saved" if self.uid == SAVED else f"{CHANNEL}/{self.uid}", {**show, **cursors})


class SearchLink(KeptSearch):
    """A kept search as a link in the list of channels."""

    __slots__ = ()

    @property
    def place(self) -> TimelinePlace:
        """Where its posts are."""
        return TimelinePlace(self.uid, "all", words=self.words, best=self.best)

    def is_at(self, place: TimelinePlace) -> bool:
        """Whether it is the search of that place, in whatever order."""
        return (self.words, self.uid) == (place.words, place.uid)


def default_show(uid: str, source: str = "") -> Show:
    """The default view of a channel, or of one of its feeds."""
    return "all" if uid == SAVED or source else "unread"


def given_address(text: str) -> str:
    """The address of a feed or author's page that the user entered. Raises InvalidRequest."""
    found = web_address(text)
    if found is None:
        raise InvalidRequest(
            Sentence(
                "invalid address: found '{found}', expected the address of an author's page or of a feed, beginning "
                "with http:// or https://, of at most {most} bytes",
                found=mask_credentials(text)[:200],
                most=LONGEST_FOLLOWED,
            )
        )
    return found


def _address(path: str, query: Mapping[str, str]) -> str:
    given = urlencode({name: value for name, value in query.items() if value})
    return f"{path}?{given}" if given else path
