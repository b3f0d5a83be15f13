"""Changes of several feeds at once, chosen in the table of all feeds or dragged to a channel, with one undo.

What was changed, and what was before, is in the user's undo record (`reader.reading.undo`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

import orjson
from starlette.responses import Response

from microsub.accounts import Most
from microsub.base.errors import InvalidRequest, NotFound, RequestError, StoreError, StoreUnavailable, StoreUnreached
from microsub.base.texts import N_, Sentence
from microsub.feeds import FeedRecord, Feeds
from microsub.model.reader import NAME, SAVED, Subscription
from microsub.model.settings import FollowSettings, FullTextChoice
from microsub.reader.channel_list import ChannelLink
from microsub.reader.frame import ReaderSite
from microsub.reader.places import FEED, ITEM_ID
from microsub.reader.reading.undo import UndoRecord, UndoRecords
from microsub.timelines import MOST_OF_NAME, Channels, Following, ReaderViews, SignedFeeds, feed_name
from microsub.web.visit import PageVisit

MOST_CHOSEN = 200
"""Feeds that one form may change: those of one page of the table."""
_SECONDS = 15.0
"""After this time the rest of the chosen feeds is left as it is, and named."""

_PAUSES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Seconds between attempts to store a result: the embedded engine starts again within two."""

_BROKEN = N_("The store of this server failed meanwhile. Choose it again.")
_UNDO_BROKEN = N_("The store of this server failed meanwhile. Press “Undo” again.")
_LATE = N_("This took too long. Choose it again.")
_LATE_UNDO = N_("This took too long. Press “Undo” again.")

Act = Literal["move", "copy", "pause", "resume", "auto", "on", "off", "unfollow", "rename", "address", "undo"]

_SETTINGS: Mapping[str, Mapping[str, bool | FullTextChoice]] = {
    "pause": {"paused": True},
    "resume": {"paused": False},
    **{choice: {"full_text": choice} for choice in get_args(FullTextChoice)},
}


@dataclass
class ChosenResult:
    """What became of the chosen feeds: the names of those that were changed, by id, and those left, with the reasons.

    There are neither until that is known. `channel` and `place` are the uid and the name of the channel to which they
    were moved or copied. What an undo left can be undone again: `undone` is the act then. `unsure`: the store broke off
    while it changed one of those left. `still`: the channels that a feed has left and those that it is still in, by its
    id, if there are both, or if it has left several by a move, or was moved alone. `feed` is the id of the feed that is
    followed instead, at another address. `page` is the channel on whose page of the feed it was done. `name`: a new one
    that the feed got, too; '' if it lost its own.
    """

    act: Act
    channel: str = ""
    place: str = ""
    done: dict[str, str] = field(default_factory=dict)
    left: list[tuple[str, str]] = field(default_factory=list)
    undo: str = ""
    undone: Act | None = None
    unsure: bool = False
    still: dict[str, tuple[str, str]] = field(default_factory=dict)
    feed: str = ""
    page: str = ""
    name: str | None = None


@dataclass(eq=False, repr=False)
class ChosenFeeds:
    """Changes the feeds that a form names, each as the page of that feed would."""

    reader: ReaderSite
    channels: Channels
    following: Following
    feeds: Feeds
    reading: ReaderViews
    undo: UndoRecords
    most: Most
    signed: SignedFeeds

    async def change(self, visit: PageVisit) -> Response:
        """Do what the form says with the feeds that it names, each in one channel or, without one, in all."""
        act: Act = next((act for act in get_args(Act) if act == visit.form.text("do")), "undo")
        if act in {"rename", "address", "undo"}:
            raise InvalidRequest(N_("Choose what to do with the feeds."))
        names = {*visit.form.getlist("feed")}
        if len(names) > MOST_CHOSEN:
            raise InvalidRequest(Sentence(N_("Choose at most {most} feeds at once."), most=MOST_CHOSEN))
        target = await self._target(visit) if act in {"move", "copy"} else None
        page = visit.form.text("page")
        return await self.do(visit, act, names, target, page=page if NAME.match(page) else "")

    async def do(
        self, visit: PageVisit, act: Act, names: Set[str], target: ChannelLink | None = None, *, page: str = "",
        said: Mapping[str, str] | None = None, named: tuple[str, str] | None = None,
    ) -> Response:  # fmt: skip
        """Do it with feeds that are named by id, perhaps with the channel before it; `target` is of a move or copy.

        Leads to all feeds, or if it was done on a feed's page, in the channel `page`, to that as long as it exists,
        and whose address then has what is `said`, too. It was `named` just before: its new and its former name.
        """
        user = await self.reader.user(visit)
        everywhere = await self.channels.all_subscriptions(user)
        chosen = [
            (uid, one)
            for uid, some in everywhere.items()
            for one in some
            if names & {f"{uid}/{one.feed}", one.feed} and uid != SAVED
        ]
        if not chosen and names and all(ITEM_ID.fullmatch(name.rpartition("/")[2]) for name in names):
            raise NotFound(N_("You don’t follow this feed."))
        if not chosen:
            raise InvalidRequest(N_("Choose the feeds first: tick the boxes before their names."))
        if act in {"move", "copy"}:  # from all channels at once, and into the other one once
            chosen = [*{one.feed: (uid, one) for uid, one in reversed(chosen)}.values()][::-1]
        ids = {one.feed for _, one in chosen}
        before = [(uid, one) for uid, some in everywhere.items() for one in some if one.feed in ids]
        unread: dict[str, list[str]] = {}
        if act == "unfollow":
            there = await self.reading.unread_ids(user, [*dict.fromkeys(uid for uid, _ in chosen)])
            unread = await self._of_feeds(there, chosen)
        holders: dict[str, dict[str, Subscription]] = {}
        for uid, one in before:
            holders.setdefault(one.feed, {})[uid] = one
        several = {feed: of for feed, of in holders.items() if act == "move" and len(of) > 1}
        links = await self.reader.links(visit) if act == "unfollow" or several else ()
        uids = {uid for of in several.values() for uid in of}
        states = await self.reading.states_of(user, uids, [*several]) if several else {}
        channel, place = (target.uid, target.name) if target is not None else ("", "")
        result = ChosenResult(act, channel, place, page=page)
        if named is not None:
            result.name, former = named
            before = [(uid, replace(one, name=former or None) if uid == page else one) for uid, one in before]
        kept = await self.undo.remember_feeds(
            user, before if act in {"move", "copy"} else chosen, unread, states, told=_stored(result)
        )
        most = await self.most("feeds", user)

        async def change(uid: str, follow: Subscription) -> None:
            if act == "move" and target is not None:
                await self.following.move(
                    user, target.uid, follow.url, visit.now, holders=holders.pop(follow.feed, None)
                )
            else:
                await self._one(user, act, uid, follow, target, visit.now, most)

        stays = await self._each(visit, result, chosen, change)
        if act == "unfollow":
            left = [(one.feed, uid) for uid, one in chosen if (uid, one) not in stays]
            for feed in result.done:
                of = [(link.name, (feed, link.uid) in left) for link in links if link.uid in holders[feed]]
                out, rest = (", ".join(one for one, is_out in of if is_out is wanted) for wanted in (True, False))
                result.still |= {feed: (out, rest)} if rest else {}
        for feed in several.keys() & result.done.keys():
            others = [link.name for link in links if link.uid in several[feed] and link.uid != channel]
            if len(others) > 1 or len(result.done) == 1:
                result.still[feed] = (", ".join(others), "")
        return await self._told(visit, result, kept, said)

    async def change_address(
        self, visit: PageVisit, user: str, follow: Subscription, name: str, url: str
    ) -> tuple[FeedRecord, UndoRecord]:
        """Follow the feed at `url` instead of another one of that name, in all channels that follow that.

        Raises InvalidRequest if one of them follows both, and what `Following.change_address` raises.
        """
        known, everywhere = await self.feeds.find(url), await self.channels.all_subscriptions(user)
        before = [(uid, one) for uid, some in everywhere.items() for one in some if one.feed == follow.feed]
        for uid, _ in before if known != follow.feed else ():
            if any(one.feed == known for one in everywhere[uid]):
                place = next(link.name for link in await self.reader.links(visit) if link.uid == uid)
                both = N_("You already follow the feed at this address in {channel}.")
                raise InvalidRequest(Sentence(both, channel=place))
        await self.signed.renew(user, follow, visit.now)
        most = await self.most("feeds", user)
        try:
            record = await self.following.change_address(user, follow.feed, url, visit.now, most=most)
        except RequestError:
            await self.signed.prune(user, visit.now, url)
            raise
        result = ChosenResult("address", done={follow.feed: name}, feed=record.id)
        return record, await self.undo.remember_feeds(user, before, {}, told=_stored(result))

    async def renamed(self, user: str, uid: str, follow: Subscription, name: str, shown: str) -> UndoRecord:
        """Record a follow as it was before the user gave the feed that `name`, with which it is `shown` so now."""
        result = ChosenResult("rename", done={follow.feed: shown}, page=uid, name=name)
        return await self.undo.remember_feeds(user, [(uid, follow)], {}, told=_stored(result))

    async def take_back(self, visit: PageVisit) -> Response:
        """Restore what was before the last change of several feeds."""
        user, name = await self.reader.user(visit), visit.form.text("undo")
        kept = await self.undo.changed_feeds(user, name)
        if kept is None or not kept[0]:
            raise NotFound(N_("This can no longer be undone."))
        done = ChosenResult(**orjson.loads(kept[0]))
        done.act = done.undone or done.act
        held: dict[str, list[tuple[str, Subscription]]] = {}
        for uid, one in kept[1]:
            held.setdefault(one.feed, []).append((uid, one))
        most = await self.most("feeds", user)
        result = ChosenResult("undo", done.channel, done.place, undone=done.act, still=done.still, feed=done.feed)
        result.page, result.name = done.page, done.name
        states = await self.undo.states(user, name)
        uids = {done.channel, *(uid for of in states.values() for uid in of)}
        present = await self.reading.states_of(user, uids, [*states]) if states else {}

        async def again(uid: str, follow: Subscription) -> None:
            if done.act == "move":
                before, now = states.get(follow.feed, {}), present.get(follow.feed, {})
                if done.name is not None:
                    await self._name_back(user, done, done.channel, follow, visit.now)
                await self.following.move_back(user, done.channel, held[follow.feed], before, now, visit.now, most=most)
            else:
                await self._again(user, done, uid, follow, held[follow.feed], visit.now, most)

        is_whole = done.act in {"move", "copy"}
        feeds = [some[0] for some in held.values()] if is_whole else kept[1]
        left = await self._each(visit, result, feeds, again)
        posts = await self.undo.posts(user, name) if left else {}
        await self.undo.undo(user, name, visit.now)
        rest = [place for _, one in left for place in held[one.feed]] if is_whole else left
        unread = await self._of_feeds(posts, rest)
        again_ = await self.undo.remember_feeds(user, rest, unread, states if left else {}, told=_stored(result))
        marks = {"undo": visit.form.text("marks")[:16]}
        return await self._told(visit, result, again_, marks)

    async def result(self, visit: PageVisit) -> ChosenResult | None:
        """The result that the address names, for ten minutes; None without one."""
        name = visit.query.get("result", "")
        kept = await self.undo.changed_feeds(visit.user, name) if name else None
        if kept is None or not kept[0]:
            return None
        told: dict[str, Any] = orjson.loads(kept[0])
        return ChosenResult(**{**told, "undo": name})

    async def _of_feeds(
        self, posts: Mapping[str, Collection[str]], follows: Sequence[tuple[str, Subscription]]
    ) -> dict[str, list[str]]:
        """Those of the posts, by channel, that are of feeds that are followed there."""
        found: dict[str, list[str]] = {}
        for uid, ids in posts.items():
            some = await self.reading.of_feeds({*ids}, [one.feed for there, one in follows if there == uid])
            found[uid] = [item for items in some.values() for item in items]
        return found

    async def _each(
        self,
        visit: PageVisit,
        result: ChosenResult,
        follows: Sequence[tuple[str, Subscription]],
        change: Callable[[str, Subscription], Awaitable[None]],
    ) -> list[tuple[str, Subscription]]:
        """Change one follow after the other, and note what became of each feed; returns those that were left."""
        late = _LATE_UNDO if result.act == "undo" else _LATE
        left: list[tuple[str, Subscription]] = []
        records = await self.feeds.within_reach(one.feed for _, one in follows)
        begun = time.monotonic()
        for uid, follow in follows:
            name = feed_name(follow, records.get(follow.feed) or FeedRecord(follow.feed, follow.url))
            if time.monotonic() - begun > _SECONDS:
                result.left.append((name, visit.translate(late)))
                left.append((uid, follow))
                continue
            try:
                await change(uid, follow)
            except RequestError as error:
                result.left.append((name, visit.translate(error.description)))
                left.append((uid, follow))
            except StoreError as error:
                result.unsure |= isinstance(error, StoreUnavailable) and not isinstance(error, StoreUnreached)
                result.left.append((name, visit.translate(_UNDO_BROKEN if result.act == "undo" else _BROKEN)))
                left.append((uid, follow))
            else:
                result.done.setdefault(follow.feed, name)  # once, also if it was in several channels
        return left

    async def _one(
        self, user: str, act: Act, uid: str, follow: Subscription, target: ChannelLink | None, now: float, most: int
    ) -> None:
        if act == "unfollow":
            await self.signed.renew(user, follow, now)
            await self.following.unfollow(user, uid, follow.url, now)
        elif target is None:
            wanted = _with(follow.settings, act)
            await self.following.change(user, uid, follow.feed, now, settings=wanted, former=follow.settings)
        elif await self.channels.subscription(user, target.uid, follow.feed) is not None:
            raise InvalidRequest(N_("It is in that channel already."))
        else:
            await self.following.follow_again(user, target.uid, follow, now, most=most)

    async def _again(
        self,
        user: str,
        done: ChosenResult,
        uid: str,
        follow: Subscription,
        held: Sequence[tuple[str, Subscription]],
        now: float,
        most: int,
    ) -> None:
        """Undo one change other than a move; `held` are the channels that followed the feed before."""
        if done.act == "unfollow":
            await self.following.follow_again(user, uid, follow, now, most=most)
        elif done.act == "address":
            instead = await self.channels.subscription(user, uid, done.feed)
            former = await self.following.change_address(user, done.feed, follow.url, now, only=uid)
            if instead is not None and former.id != done.feed:  # its unread posts leave
                await self.following.unfollow(user, uid, instead.url, now)
        elif done.act == "copy":
            if done.channel not in {uid for uid, _ in held}:
                await self.following.unfollow(user, done.channel, follow.url, now)
        elif done.act == "rename":
            if not await self._name_back(user, done, uid, follow, now):
                raise InvalidRequest(N_("It has another name by now, or has left the channel."))
        else:
            changed = _with(follow.settings, done.act)
            if not await self.following.change(user, uid, follow.feed, now, settings=follow.settings, former=changed):
                raise NotFound(N_("The channel no longer follows this feed."))

    async def _name_back(self, user: str, done: ChosenResult, uid: str, was: Subscription, now: float) -> bool:
        """Give a feed its former name again; returns whether it still had the new one there."""
        present, former = await self.channels.subscription(user, uid, was.feed), was.name or ""
        if is_there := present is not None and (present.name or "") in {done.name, former}:
            await self.following.change(user, uid, was.feed, now, name=former)
        return is_there

    async def _target(self, visit: PageVisit) -> ChannelLink:
        """The channel that the form names, or its uid, which a drag gives."""
        links, uid = await self.reader.links(visit), visit.form.text("target")
        dragged = next((link for link in links.own if link.uid == uid), None)
        found = dragged if uid else links.chosen(visit.form.text("to"))
        if found is None:
            raise NotFound(N_("There is no such channel."))
        return found

    async def _told(
        self, visit: PageVisit, result: ChosenResult, kept: UndoRecord, said: Mapping[str, str] | None = None
    ) -> Response:
        """Lead to the result, after waiting for a store that has stopped; one that stays away still has the undo."""
        for pause in (*_PAUSES, None):
            try:
                await self.undo.tell(visit.user, kept, _stored(result))
                break
            except StoreUnavailable:
                if pause is not None:
                    await asyncio.sleep(pause)
        is_followed = result.done and not result.left and result.act != "unfollow"
        if is_followed and (result.page or result.undone == "address"):
            uid = result.channel if result.act == "move" else result.page
            about = {"channel": uid, **(said or {}), "result": kept.id}
            return visit.go(f"{FEED}/{next(iter(result.done))}/settings", fragment="top", **about)
        return self._go(visit, kept.id)

    def _go(self, visit: PageVisit, result: str) -> Response:
        sort, words, start, part = (visit.form.text(name) for name in ("sort", "q", "from", "part"))
        place = {"from": start if ITEM_ID.fullmatch(start) else ""}
        return visit.go(FEED, sort=sort[:20], q=words[:MOST_OF_NAME], result=result, part=part[:1], **place)


def _stored(result: ChosenResult) -> bytes:
    return orjson.dumps(asdict(result))


def _with(own: FollowSettings, act: str) -> FollowSettings:
    """The settings with those that the action changes."""
    changes: dict[str, Any] = dict(_SETTINGS[act])
    return replace(own, **changes)
