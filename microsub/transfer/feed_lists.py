"""Import of lists of feeds into a user's channels, and export of channels as such a list.

A folder becomes a channel: one with its uid if this server wrote the list, or one with its name, or a new one. Existing
follows and channel settings stay, so a list can be imported any number of times, and importing again finishes an
interrupted import. Everything is decided before anything is written (`_Planning`), so a dry run gives the same report.
The import sends no requests: new feeds become due for their first poll.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from email.utils import formatdate
from typing import TYPE_CHECKING

import orjson

from microsub import transfer  # pydantic takes long to load, and few lists have settings
from microsub.base.errors import InvalidRequest, NotFound, QuotaReached
from microsub.base.plaintext import counted, escaped, unprintable
from microsub.base.urls import canonical_feed_url, host_of, mask_credentials, web_parts, without_sign_in
from microsub.feeds import InternalAddress
from microsub.fetch.network import may_connect, parse_address
from microsub.fetch.values import Network
from microsub.model.reader import BUILT_IN, NAME, RESERVED, SAVED
from microsub.model.settings import Filters, OwnChannelSettings, stated
from microsub.timelines import (
    LAST_CHOICE,
    LONGEST_NAME,
    MOST_OF_NAME,
    ChannelDisplay,
    in_turns,
    new_in_a_day,
    slug,
)
from microsub.transfer.outlines import (
    MOST_OUTLINES,
    MOST_PROBLEMS,
    READ_LIST,
    FeedList,
    ListProblem,
    OutlineFeed,
    OutlineFolder,
    write_list,
)
from microsub.transfer.reports import Progress

if TYPE_CHECKING:
    from microsub.configuration.model import Quotas
    from microsub.feeds import Feeds
    from microsub.model.reader import Channel, Subscription
    from microsub.parsing.pool import ParsePool
    from microsub.timelines import ChannelDisplays, Channels, Following

LOOSE = "Home"
"""The channel for feeds without a folder."""
MANY = 20
"""A first import of more feeds shows channels as lists of titles, until the user chooses a view."""
AT_ONCE = 32
"""How many follows are written at a time."""
MOST_UNICODE = 1000
"""How many non-ASCII hosts a list may have."""
_STEP = 1e-6
_SPAN = MOST_OUTLINES * _STEP
"""Seconds between two follows of an import, which keep the order of the list, and the limit for all of them."""
_SHOWN = 20
_LOCAL = (".localhost", ".local", ".internal", ".home.arpa", ".lan")
_MASK = "***"


@dataclass(slots=True)
class ListedChannel:
    """The import's result in one channel: `added` and `existing` feeds. `made`: the channel is new.

    `also` counts those of the added that another channel follows, too, by its name.
    """

    uid: str
    name: str
    made: bool = False
    added: int = 0
    existing: int = 0
    also: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KnownFeed:
    """A feed of a list that its channel followed already, or the one of the name `place`.

    Without passwords and keys in its address.
    """

    channel: str
    name: str
    url: str
    place: str = ""


@dataclass(slots=True)
class ListReport:
    """The result of an import of a list, or (`dry_run`) its preview. `more_problems` counts unlisted ones.

    `known` has the feeds that were followed already, there or elsewhere, `MOST_PROBLEMS` at most.
    """

    user: str
    dry_run: bool
    channels: list[ListedChannel] = field(default_factory=list)
    problems: list[ListProblem] = field(default_factory=list)
    more_problems: int = 0
    known: list[KnownFeed] = field(default_factory=list)

    @property
    def added(self) -> int:
        """How many feeds are new to their channels."""
        return sum(one.added for one in self.channels)

    @property
    def existing(self) -> int:
        """How many feeds their channels already follow."""
        return sum(one.existing for one in self.channels)

    @property
    def also(self) -> int:
        """How many of the added feeds another channel follows, too."""
        return sum(sum(one.also.values()) for one in self.channels)

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {**asdict(self), "added": self.added, "existing": self.existing}

    def as_text(self) -> str:
        """For people: a line per channel, problems by line, and totals."""
        lines = [_described(one) for one in self.channels]
        lines += [f"line {one.line}: {one.found}: {one.why}" for one in self.problems[:_SHOWN]]
        count = len(self.problems) + self.more_problems
        if count > _SHOWN:
            lines.append(f"{counted(count - _SHOWN, 'further problem')}; --json names up to {len(self.problems)}")
        done = f"{counted(self.added, 'feed')} {'would be followed' if self.dry_run else 'followed'} for {self.user}"
        lines.append(f"{done}, {self.existing} known already, {counted(count, 'problem')}")
        return "\n".join(map(escaped, lines))


def _described(one: ListedChannel) -> str:
    parts = [counted(one.added, "feed"), *(["new channel"] if one.made else [])]
    parts += [f"{count} of them also in {place}" for place, count in one.also.items() if count]
    if one.existing:
        parts.append(f"{one.existing} known already")
    return f"{one.uid} ({one.name}): {', '.join(parts)}"


@dataclass(eq=False, repr=False)
class FeedLists:
    """Imports and exports lists. Times are Unix seconds; feeds may be in the `private` networks."""

    channels: Channels
    feeds: Feeds
    following: Following
    parser: ParsePool
    displays: ChannelDisplays
    private: Sequence[Network] = ()

    async def import_list(
        self,
        user: str,
        body: bytes,
        now: float,
        *,
        dry_run: bool = False,
        loose: str = LOOSE,
        quotas: Quotas | None = None,
        progress: Progress = lambda done, count: None,
    ) -> ListReport:
        """Follow the feeds of a list. `loose` is the channel for feeds without a folder; `quotas` apply if given.

        Raises ParseError, naming the line, if it isn't such a list; then nothing is changed.
        """
        listed = await self.parser.run(READ_LIST, "the list", body)
        planning = await self._planning(user, listed, now, loose, quotas)
        report = planning.report(dry_run)
        if not dry_run:
            await self._carry_out(user, planning, report, now, quotas, progress)
        report.problems.sort(key=lambda one: one.line)
        return report

    async def _planning(self, user: str, listed: FeedList, now: float, loose: str, quotas: Quotas | None) -> _Planning:
        channels, followed = await asyncio.gather(self.channels.list(user), self.channels.all_subscriptions(user))
        removed = await self.channels.removed(user)
        canonical = await asyncio.to_thread(_canonical_urls, listed)
        known = await self.feeds.find_many(canonical.values())
        begun = await self.channels.followed_on(user, now)
        planning = _Planning(user, listed, loose, self.private, canonical, known)
        await planning.stand(channels, followed, set(removed), begun, quotas)
        await planning.decide()
        return planning

    async def _carry_out(
        self,
        user: str,
        planning: _Planning,
        report: ListReport,
        now: float,
        quotas: Quotas | None,
        progress: Progress,
    ) -> None:
        most_channels, most_feeds = (quotas.channels or 0, quotas.feeds or 0) if quotas else (0, None)
        for channel in planning.all:
            if channel.counted.made:
                await self._make(user, channel, report, now, most_channels)
            if stated(channel.settings) and not channel.refused:
                await self.channels.set_settings(user, channel.counted.uid, channel.settings, now)
        due = [(channel, feed) for channel in planning.all for feed in channel.follows]
        if planning.is_first and len(due) > MANY:
            await self.displays.restore(user, {LAST_CHOICE: ChannelDisplay(view="list")})
        for start in range(0, len(due), AT_ONCE):
            some = due[start : start + AT_ONCE]
            outcomes = await asyncio.gather(
                *(
                    self._follow(user, channel.counted.uid, feed, now + (start + place) * _STEP, most_feeds)
                    for place, (channel, feed) in enumerate(some)
                )
            )
            for (channel, _), problem in zip(some, outcomes, strict=True):
                if problem is not None:
                    report.problems.append(problem)
                    channel.counted.added -= 1
                    if place := channel.also.get(problem.line):
                        channel.counted.also[place] -= 1
            progress(start + len(some), len(due))

    async def _make(self, user: str, channel: _Target, report: ListReport, now: float, most: int) -> None:
        wanted = channel.counted
        try:
            made = await self.channels.create(user, wanted.name, now, channel.uid or None, most=most)
        except (QuotaReached, InvalidRequest) as error:
            # The channels have changed since they were read.
            report.problems.append(ListProblem(channel.line, wanted.name, error.description))
            report.channels.remove(wanted)
            channel.follows, channel.refused = [], True
        else:
            wanted.uid = made.uid

    async def _follow(self, user: str, uid: str, feed: OutlineFeed, at: float, most: int | None) -> ListProblem | None:
        try:
            await self.following.follow(user, uid, feed.url, at, feed.name or None, most=most)
        except (QuotaReached, NotFound) as error:
            return ListProblem(feed.line, mask_credentials(feed.url), error.description)
        return None

    async def take_back(self, user: str, report: ListReport, since: float, now: float) -> None:
        """End the follows begun by the import of that moment; delete its channels if they have nothing else."""
        made = {one.uid for one in report.channels if one.made}
        for uid, followed in (await self.channels.all_subscriptions(user)).items():
            begun = begun_by(followed, since)
            feeds = {one.feed for one in begun}
            if uid in made and len(begun) == len(followed) and await self.following.holds_only(user, uid, feeds):
                await self.following.delete_channel(user, uid)
                continue
            for start in range(0, len(begun), AT_ONCE):
                some = begun[start : start + AT_ONCE]
                await asyncio.gather(*(self.following.unfollow(user, uid, one.url, now) for one in some))

    async def export(self, user: str, now: float, *, masked: bool) -> bytes:
        """All channels with their web feeds, as OPML. `masked` removes passwords and keys from addresses."""
        channels, followed = await asyncio.gather(self.channels.list(user), self.channels.all_subscriptions(user))
        records = await self.feeds.get_many(one.feed for found in followed.values() for one in found)

        def listed(one: Subscription) -> OutlineFeed:
            record = records.get(one.feed)
            url = mask_credentials(one.url) if masked else without_sign_in(one.url)
            home = (record.home if record else None) or ""
            title = (record.title if record else None) or ""
            return OutlineFeed(0, url, one.name or "", home=mask_credentials(home) if masked else home, title=title)

        found = [
            (
                OutlineFolder(0, channel.name, channel.uid, _written(channel.settings)),
                (listed(one) for one in followed[channel.uid] if InternalAddress.of(one.url) is None),
            )
            for channel in channels
            if channel.uid not in BUILT_IN or followed.get(channel.uid) or stated(channel.settings)
        ]
        # In a thread, since it takes a tenth of a second for thousands of feeds.
        return await asyncio.to_thread(write_list, f"Feeds of {user}", formatdate(now, usegmt=True), found)


def begun_by(followed: Iterable[Subscription], since: float) -> list[Subscription]:
    """The follows that the import of that moment began, in the order of its list. Pure."""
    begun = (one for one in followed if since <= one.followed_at < since + _SPAN)
    return sorted(begun, key=lambda one: one.followed_at)


# --- planning an import ---------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Target:
    """A channel that the import fills: it follows `urls` (with their line, 0: not in the list) and `feeds`.

    `uid` is the preferred uid of a new channel; `refused`: the quota is used up. `own` are its present settings,
    `settings` those of the list; `also` has the lines of `follows` with a feed of another channel, and its name.
    """

    counted: ListedChannel
    line: int = 0
    uid: str = ""
    own: OwnChannelSettings = field(default_factory=OwnChannelSettings)
    settings: OwnChannelSettings = field(default_factory=OwnChannelSettings)
    urls: dict[str, int] = field(default_factory=dict)
    feeds: set[str] = field(default_factory=set)
    also: dict[int, str] = field(default_factory=dict)
    follows: list[OutlineFeed] = field(default_factory=list)
    refused: bool = False


class _Planning:
    """Plans an import, given the present state."""

    def __init__(
        self,
        user: str,
        listed: FeedList,
        loose: str,
        private: Sequence[Network],
        canonical: Mapping[str, str],
        known: Mapping[str, str],
    ) -> None:
        self._user = user
        self._listed = listed
        self._loose = loose
        self._private = private
        self._canonical = canonical
        self._known = known
        self._there: dict[str, _Target] = {}
        self._places: dict[str, str] = {}  # the first channel's name, by canonical URL and by feed
        self._by_name: dict[str, _Target] = {}
        self._saved = ""
        self._may_filter = True
        self.is_first = False
        self._taken: set[str] = set()
        self._problems: list[ListProblem] = []
        self._known_feeds: list[KnownFeed] = []
        self._targets: dict[int, _Target] = {}
        self._channels_left = self._feeds_left = float("inf")
        self._reached: dict[str, str] = {}
        self.all: list[_Target] = []

    async def stand(
        self,
        channels: Sequence[Channel],
        followed: Mapping[str, Sequence[Subscription]],
        removed: set[str],
        begun: int,
        quotas: Quotas | None,
    ) -> None:
        """The present state: channels, their follows, uids of removed channels, follows begun today."""
        for channel in channels:
            if channel.uid == SAVED:
                self._saved = channel.name
                continue
            subscriptions = followed.get(channel.uid, ())
            target = _Target(ListedChannel(channel.uid, channel.name), own=channel.settings)
            target.urls = {canonical_feed_url(one.url): 0 async for one in in_turns(subscriptions)}
            target.feeds = {one.feed for one in subscriptions}
            for one in (*target.urls, *map(_other_form, target.urls), *target.feeds):
                self._places.setdefault(one, channel.name)
            self._there[channel.uid] = target
            self._by_name.setdefault(channel.name, target)
        self._taken = {*self._there, *removed}
        self.is_first = not any(followed.values())
        self._may_filter = quotas is None
        if quotas is not None:
            self._bound(quotas, sum(map(len, followed.values())), begun)

    def _bound(self, quotas: Quotas, count: int, begun: int) -> None:
        """Find how many feeds the quotas allow, with `count` followed already, `begun` of them today."""
        channels, feeds = quotas.channels or 0, quotas.feeds or 0
        day = new_in_a_day(feeds)
        self._feeds_left = day - begun
        self._reached["feeds"] = f"the limit for new follows in a day is reached: {day} of {day}"
        if feeds:
            self._feeds_left = min(self._feeds_left, feeds - count)
            self._reached["feeds"] = f"the limit for feeds is reached: {feeds} at most, and {day} new ones a day"
        if channels:
            self._channels_left = channels - sum(uid not in RESERVED for uid in self._there)
            self._reached["channels"] = f"the limit for channels is reached: {channels} of {channels}"

    async def decide(self) -> None:
        """Find a channel for each folder, and the feeds to follow in each."""
        listed = self._listed
        if listed.own:
            wished = {folder.uid for folder in listed.folders}
            self._by_name = {name: one for name, one in self._by_name.items() if one.counted.uid not in wished}
        async for place, folder in in_turns(enumerate(listed.folders)):
            self._targets[place] = self._target(folder)
        if any(feed.folder < 0 for feed in listed.feeds):
            self._targets[-1] = self._target(OutlineFolder(0, self._loose))
        self.all = list(dict.fromkeys(one for one in self._targets.values() if not one.refused))
        async for feed in in_turns(listed.feeds):
            self._decide_feed(feed, self._targets[feed.folder])

    def report(self, dry_run: bool) -> ListReport:
        """The report of the plan, as if every step succeeded."""
        problems = [*self._listed.problems, *self._problems]
        counts = [one.counted for one in self.all]
        return ListReport(self._user, dry_run, counts, problems, self._listed.more_problems, self._known_feeds)

    def _target(self, folder: OutlineFolder) -> _Target:
        found = self._there.get(folder.uid) if self._listed.own else None
        name = folder.name
        if found is None:
            name = " ".join(name.split())[:LONGEST_NAME] if self._listed.own else adapted(name)
            if name == self._saved:
                name = f"{name} (feeds)"
            if name != folder.name:
                self._problem(
                    folder.line, folder.name, f"a channel can't have this name; it is called '{name}' instead"
                )
            found = self._by_name.get(name) or self._made(folder, name)
        if not stated(found.own) and not found.refused:
            found.own = found.settings = self._settings(folder)
        return found

    def _made(self, folder: OutlineFolder, name: str) -> _Target:
        own = self._listed.own
        uid = folder.uid if own and NAME.match(folder.uid) and folder.uid not in RESERVED | self._taken else ""
        target = _Target(ListedChannel(uid or slug(name), name, made=True), folder.line, uid)
        target.refused = self._channels_left < 1
        if target.refused:
            self._problem(folder.line, name, self._reached["channels"])
        else:
            self._channels_left -= 1
            self._taken.add(uid)
        if not own:
            self._by_name[name] = target
        return target

    def _settings(self, folder: OutlineFolder) -> OwnChannelSettings:
        given = dict(folder.settings)
        if not self._may_filter and given.pop("filters", None) is not None:
            # Filters cost time of a process that serves all users, so only the admin sets them.
            self._problem(folder.line, folder.name, "its filters are left out: only the admin can set them")
        try:
            return transfer.read_settings(given)
        except ValueError as error:
            self._problem(folder.line, folder.name, f"its settings are invalid and were left out: {error}")
            return OwnChannelSettings()

    def _decide_feed(self, feed: OutlineFeed, target: _Target) -> None:
        shown = mask_credentials(feed.url)
        canonical = self._canonical[feed.url]
        if self._listed.own and _MASK in feed.url:
            self._problem(feed.line, shown, "its password or key was removed when the list was exported")
        elif (why := self._private_host(canonical)) is not None:
            self._problem(feed.line, shown, why)
        elif canonical in target.urls or self._known.get(canonical) in target.feeds:
            if earlier := target.urls.get(canonical, 0):
                self._problem(feed.line, shown, f"the same feed as in line {earlier}")
            else:
                target.counted.existing += 1
                self._know(feed, shown, target)
                self._note(feed, canonical, target)
        elif not self._listed.own and (earlier := target.urls.get(_other_form(canonical), 0)):
            self._problem(feed.line, shown, f"the same feed as in line {earlier}, under another address")
        elif target.refused:
            self._problem(feed.line, shown, "its channel can't be created")
        elif self._feeds_left < 1:
            self._problem(feed.line, shown, self._reached["feeds"])
        else:
            self._feeds_left -= 1
            target.counted.added += 1
            target.follows.append(feed)
            forms = (canonical, _other_form(canonical), self._known.get(canonical, ""))
            if place := next((self._places[one] for one in forms if one in self._places), ""):
                target.also[feed.line] = place
                target.counted.also[place] = target.counted.also.get(place, 0) + 1
                self._know(feed, shown, target, place)
            self._note(feed, canonical, target)

    def _know(self, feed: OutlineFeed, shown: str, target: _Target, place: str = "") -> None:
        if len(self._known_feeds) < MOST_PROBLEMS:
            self._known_feeds.append(KnownFeed(target.counted.uid, feed.name[:MOST_OF_NAME], shown, place))

    def _note(self, feed: OutlineFeed, canonical: str, target: _Target) -> None:
        target.urls[canonical] = feed.line
        target.urls.setdefault(_other_form(canonical), feed.line)
        for one in (canonical, _other_form(canonical)):
            self._places.setdefault(one, target.counted.name)
        if (known := self._known.get(canonical)) is not None:
            target.feeds.add(known)

    def _private_host(self, url: str) -> str | None:
        """The reason why a feed in a private network can't be fetched; no name is resolved."""
        host = host_of(url)
        address = parse_address(host)
        if address is not None:
            return None if may_connect(address, self._private) else "its address is in a private network"
        if self._private:
            return None
        return "its host name belongs to a private network" if f".{host}".endswith(_LOCAL) else None

    def _problem(self, line: int, found: str, why: str) -> None:
        self._problems.append(ListProblem(line, found[:MOST_OF_NAME], why))


def _canonical_urls(listed: FeedList) -> dict[str, str]:
    """The canonical URL of each URL in the list.

    Raises InvalidRequest for too many non-ASCII hosts: each takes up to two milliseconds.
    """
    hosts = {parts.netloc for feed in listed.feeds if not feed.url.isascii() and (parts := web_parts(feed.url))}
    if len(hosts) > MOST_UNICODE:
        raise InvalidRequest(f"the list names {len(hosts)} hosts with non-ASCII names, expected at most {MOST_UNICODE}")
    return {feed.url: canonical_feed_url(feed.url) for feed in listed.feeds}


def _other_form(canonical: str) -> str:
    """The address without scheme and last slash, in which addresses of one feed most often differ."""
    return canonical.partition("://")[2].rstrip("/")


def adapted(name: str) -> str:
    """A valid channel name as close to `name` as possible. Pure."""
    hidden = unprintable(name)
    text = " ".join("".join(" " if one.isspace() else "" if one in hidden else one for one in name).split())
    if len(text) > MOST_OF_NAME:
        cut = MOST_OF_NAME - 1
        # Don't split a letter or emoji from its combining characters.
        while cut > MOST_OF_NAME // 2 and (
            unicodedata.category(text[cut])[0] == "M" or "\u200d" in text[cut - 1 : cut + 1]
        ):
            cut -= 1
        text = text[:cut].rstrip() + "…"
    return text or LOOSE


def _written(settings: OwnChannelSettings) -> dict[str, str]:
    """Own settings as attributes: numbers and words as text, filters as JSON."""
    return {
        name: orjson.dumps(stated(value)).decode() if isinstance(value, Filters) else str(value)
        for name, value in stated(settings).items()
    }
