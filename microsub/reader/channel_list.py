"""The list of channels: a short one next to every page, and the complete one to choose from."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from weakref import WeakKeyDictionary

from microsub.base.errors import InvalidRequest
from microsub.model.reader import GLOBAL, NOTIFICATIONS, RESERVED, SAVED, Channel
from microsub.reader.places import CHANNEL, SearchLink, TimelinePlace
from microsub.timelines import ChannelNames, Channels, StyleOf
from microsub.web.pages import N_
from microsub.web.visit import PageVisit

MOST_BESIDE = 100
"""Maximum number of a user's channels next to a page."""


@dataclass(frozen=True)
class ChannelLink:
    """A channel in the list, with `count` unread posts; `unread` is 0 if it shows no count."""

    uid: str
    name: str
    address: str
    count: int
    unread: int
    saved: int
    """Posts in *Saved*; 0 for other channels."""
    is_marked: bool
    """Whether something is unread, for channels that show only this."""
    attention: int
    """Feeds in the channel that can't be read."""
    health: str
    """The page about these feeds."""
    branch: str
    """The page with the channel's feeds, '' if it has none of its own."""
    html: Callable[[ChannelLink], str]

    @cached_property
    def line(self) -> str:
        """The link as HTML, while another channel is open."""
        return self.html(self)


class ChannelLinks(tuple[ChannelLink, ...]):
    """All channels of a user in order, after the one with all posts; searches that the user keeps."""

    searches: tuple[SearchLink, ...] = ()

    @property
    def own(self) -> list[ChannelLink]:
        """The channels that the user created."""
        return [link for link in self if link.uid not in RESERVED]

    def beside(self, uid: str) -> list[ChannelLink]:
        """The channels next to a page on which that channel is open.

        If there are more than `MOST_BESIDE`, only the nearest ones with unread posts or problems.
        """
        own = self.own
        if self.is_long:
            own = [link for link in own if link.count or link.attention or link.uid == uid]
            place = next((place for place, link in enumerate(own) if link.uid == uid), 0)
            first = max(0, min(place - MOST_BESIDE // 2, len(own) - MOST_BESIDE))
            own = own[first : first + MOST_BESIDE]
        kept = {link.uid for link in own} | RESERVED
        return [link for link in self if link.uid in kept]

    def marked(self, troubled: Mapping[str, int]) -> ChannelLinks:
        """The same list with these numbers of feeds that can't be read, by uid; they may be newer than the survey's."""
        now = ((link, troubled.get(link.uid, 0)) for link in self)
        links = ChannelLinks(link if link.attention == count else replace(link, attention=count) for link, count in now)
        links.searches = self.searches
        return links

    @property
    def unread(self) -> dict[str, int]:
        """The numbers that the list shows, by uid: of unread posts, and of all posts in *Saved*."""
        return {link.uid: link.unread or link.saved for link in self}

    @property
    def is_long(self) -> bool:
        """Whether there are too many channels for a short list."""
        return len(self) > MOST_BESIDE + len(RESERVED)

    def onward(self, uid: str, unread: int | None) -> ChannelLink | None:
        """The user's next channel with unread posts, after that one and around; None after *All*.

        From a feed's page with so many unread posts, first the channel itself, while it has more.
        """
        own, here = self.own, next((link for link in self if link.uid == uid), None)
        if here is not None and unread is not None and here.count > unread:
            return here
        place = own.index(here) + 1 if here in own else 0
        around = own[place:] + own[:place] if uid != GLOBAL else []
        return next((link for link in around if link.count and link.uid != uid), None)

    def chosen(self, field: str) -> ChannelLink | None:
        """The user's channel in a form field: by its name if there are many, otherwise by its uid.

        Raises InvalidRequest if the field is empty.
        """
        if not field.strip():
            raise InvalidRequest(N_("Choose a channel first."))
        return self.called(field) if self.is_long else next((link for link in self.own if link.uid == field), None)

    def called(self, name: str) -> ChannelLink | None:
        """The user's channel with that name; if there is none, one that differs only in upper and lower case."""
        name = name.strip()
        same = [link for link in self.own if link.name.casefold() == name.casefold()]
        return next((link for link in same if link.name == name), same[0] if same else None)

    def named(self, words: str) -> list[ChannelLink]:
        """The channels whose names contain the words, in any case."""
        return [link for link in self if words.casefold() in link.name.casefold()]


class ChannelList:
    """Makes the list of channels next to each page.

    `style_of` returns the style of counts that a user's channels inherit; `attention_of` the numbers of feeds that
    can't be read, by uid.
    """

    def __init__(
        self, channels: Channels, style_of: StyleOf, attention_of: Callable[[str], Awaitable[Mapping[str, int]]]
    ) -> None:
        self._channels = channels
        self._style_of = style_of
        self._attention_of = attention_of

    async def links(self, visit: PageVisit) -> ChannelLinks:
        """The list of the signed-in user: all channels together, the built-in ones, their own. Raises SignInNeeded."""
        user = visit.require_session().user
        inherited, (names, counts, everything, saved), troubled = await asyncio.gather(
            self._style_of(user), self._channels.distinct_counts(user), self._attention_of(user)
        )
        lines = _lines_of(names, inherited, visit)
        whole = _ChannelLine(visit, GLOBAL, visit.translate(N_("All")), f"{CHANNEL}/{GLOBAL}", "count")
        each = [
            line.link(count, troubled.get(line.uid, 0), saved if line.uid == SAVED else 0)
            for line, count in zip(lines, counts, strict=True)
        ]
        built_in = sorted((link for link in each if link.uid in RESERVED), key=lambda link: link.uid != SAVED)
        links = ChannelLinks([whole.link(everything), *built_in, *ChannelLinks(each).own])
        links.searches = SearchLink.read(visit.require_session().searches)
        return links


class _ChannelLine:
    """A channel in a user's list in one language, rendered again only if one of its numbers has changed.

    Some users have hundreds of channels, most of which are unchanged since the previous page.
    """

    __slots__ = ("_address", "_branch", "_health", "_html", "_link", "_name", "_style", "uid")

    def __init__(self, visit: PageVisit, uid: str, name: str, path: str, style: str) -> None:
        self.uid = uid
        self._name = name
        self._address = visit.site.pages.href(path)
        self._health = visit.site.pages.href(f"/channels/{uid}?show=attention")
        self._branch = "" if uid in RESERVED else visit.site.pages.href(f"/channels/{uid}/feeds")
        self._style = style
        self._html = visit.site.pages.macro("links.html", "channel_link", visit.language)
        self._link: ChannelLink | None = None

    def link(self, count: int, attention: int = 0, saved: int = 0) -> ChannelLink:
        """The link with these numbers of unread posts, of feeds that can't be read, and of saved posts."""
        known = self._link
        if known is None or (count, attention, saved) != (known.count, known.attention, known.saved):
            known = self._link = ChannelLink(
                self.uid,
                self._name,
                self._address,
                count,
                unread=count if self._style == "count" else 0,
                saved=saved,
                is_marked=self._style == "boolean" and count > 0,
                attention=attention,
                health=self._health,
                branch=self._branch,
                html=self._html,
            )
        return known


_lines: WeakKeyDictionary[ChannelNames, dict[tuple[str, str], list[_ChannelLine]]] = WeakKeyDictionary()
"""By language and style of counts; kept as long as the names."""


def _lines_of(names: ChannelNames, inherited: str, visit: PageVisit) -> list[_ChannelLine]:
    known, way = _lines.setdefault(names, {}), (visit.language, inherited)
    if way not in known:
        known[way] = [_line(visit, channel, channel.settings.unread or inherited) for channel in names.channels]
    return known[way]


def _line(visit: PageVisit, channel: Channel, style: str) -> _ChannelLine:
    own = {NOTIFICATIONS: N_("Notifications"), SAVED: N_("Saved")}
    is_renamed = channel.name != own.get(channel.uid)
    name = channel.name if is_renamed else visit.translate(channel.name)
    path = TimelinePlace.of(channel.uid, {}).start
    return _ChannelLine(visit, channel.uid, name, path, "none" if channel.uid == SAVED else style)
