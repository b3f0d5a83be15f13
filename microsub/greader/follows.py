"""Changes of feeds and folders by native apps: follow, unfollow, rename, move; and lists of feeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from microsub.accounts import UserQuotas
from microsub.base.errors import FetchError, InvalidRequest, NotFound, ParseError
from microsub.base.urls import web_address
from microsub.discovery import EnteredAddresses, Search
from microsub.fetch import asking_for
from microsub.greader.api import OK, NativeCall, NativeRoute, NativeTable, json_reply
from microsub.greader.ids import stream_of, streams_of
from microsub.greader.streams import label_names, pick_feed
from microsub.model.reader import Subscription
from microsub.timelines import Channels, Following
from microsub.transfer import MOST_BYTES, FeedLists, ListImports
from microsub.web.responses import CORS, HttpReply

FIRST_CHANNEL = "Feeds"
"""The channel that a first follow without a folder creates."""
MOST_FEEDS = 1000
"""Feeds that one request may change."""
_POST = frozenset({"POST"})


@dataclass(eq=False, repr=False)
class NativeFollows:
    """The changes of feeds and folders, and lists of feeds, of native apps."""

    channels: Channels
    following: Following
    search: Search
    entered: EnteredAddresses
    lists: FeedLists
    imports: ListImports
    quotas: UserQuotas

    def table(self) -> NativeTable:
        """The requests by name."""
        return {
            "subscription/edit": NativeRoute(self.edit, _POST, writes=True, changes_topics=True),
            "subscription/quickadd": NativeRoute(self.quick_add, _POST, writes=True, changes_topics=True),
            "subscription/export": NativeRoute(self.exported),
            "subscription/import": NativeRoute(
                self.imported, _POST, writes=True, most_body=MOST_BYTES, takes_document=True
            ),
            "rename-tag": NativeRoute(self.rename_label, _POST, writes=True),
            "disable-tag": NativeRoute(self.disable_label, _POST, writes=True, changes_topics=True),
            "preference/list": NativeRoute(_no_preferences),
            "preference/stream/list": NativeRoute(_no_stream_preferences),
            "preference/set": NativeRoute(_ignored, _POST),
            "preference/stream/set": NativeRoute(_ignored, _POST),
            "friend/list": NativeRoute(_no_friends),
        }

    async def edit(self, call: NativeCall) -> HttpReply:
        """Follow, unfollow or change feeds; `t` has a name for each of `s`, in their order, or is missing.

        Following a followed feed again changes it: else it would also be in the first folder, the one that apps show.
        """
        action, names = call.params.text("ac"), call.params.every("t")
        streams = [stream_of(text) for text in call.params.every("s")]
        if action not in ("subscribe", "unsubscribe", "edit"):
            raise InvalidRequest("'ac' can't be used: expected subscribe, unsubscribe or edit")
        if names and len(names) != len(streams):  # a query and a body that both name the feeds
            streams = [stream_of(text) for text in call.params.many("s")]
        if names and len(names) != len(streams):
            raise InvalidRequest("'t' can't be used: expected as many names as 's' has feeds")
        if len(streams) > MOST_FEEDS:
            raise InvalidRequest(f"'s' names too many feeds: expected {MOST_FEEDS} at most")
        named = dict.fromkeys(zip_longest(streams, names))
        feeds = [(stream.value, name) for stream, name in named if stream is not None and stream.kind == "feed"]
        if action == "edit" and not all([await self._held(call, feed) for feed, _ in feeds]):
            raise NotFound("the feed isn't followed")
        for feed, _ in feeds if action == "subscribe" else ():
            if not await self._held(call, feed):
                await self._address(call, feed)
        # A refusal comes before the first change, and a new folder is made once for all feeds.
        if len(feeds) * len(call.params.many("a")) > MOST_FEEDS:
            raise InvalidRequest(f"'s' and 'a' ask for too many follows: expected {MOST_FEEDS} at most")
        removed = await self._labelled(call, "r", create=False)
        added = [] if action == "unsubscribe" or not feeds else await self._labelled(call, "a")
        for feed, name in feeds:
            held = await self._held(call, feed)
            if action == "subscribe" and not held:
                await self._follow(call, feed, name, added)
            elif action == "unsubscribe":
                for uid, one in held.items():
                    await self.following.unfollow(call.user, uid, one.url, call.now)
            else:
                await self._change(call, held, name, added, [uid for uid in removed if uid in held])
        return OK

    async def quick_add(self, call: NativeCall) -> HttpReply:
        """Follow the feed that an address or words lead to; a followed one counts as found."""
        query = (call.params.need("quickadd", "the address of a feed")).strip().removeprefix("feed/")
        found = {"numResults": 0, "query": query}
        held = await self._held(call, query)
        if not held:
            with asking_for(f"user {call.user}"):
                whole = await self.entered.whole(call.user, query)
                try:
                    links = (await self.search.feeds(whole, call.now)).feeds
                except (FetchError, ParseError, InvalidRequest):
                    links = []
            if not links:
                return json_reply(found)
            await self._follow(call, links[0].url, None, await self._labelled(call, "a"))
            held = await self._held(call, links[0].url)
        for one in held.values():
            name = one.name or query
            return json_reply({**found, "numResults": 1, "streamId": f"feed/{one.id}", "streamName": name})
        return json_reply(found)

    async def rename_label(self, call: NativeCall) -> HttpReply:
        """Rename a channel; an unknown one is ignored."""
        former, later = (stream_of(call.params.text(name) or "") for name in ("s", "dest"))
        if later is None or later.kind != "label":
            raise InvalidRequest("'dest' can't be used: expected the label's new name")
        labels = label_names(call.channels)
        if former is not None and former.kind == "label" and former.value in labels:
            await self.channels.rename(call.user, labels[former.value], later.value, call.now)
        return OK

    async def disable_label(self, call: NativeCall) -> HttpReply:
        """Remove a channel as a folder; its feeds go to the first of the others."""
        label, labels = stream_of(call.params.text("s") or ""), label_names(call.channels)
        if label is None or label.kind != "label" or label.value not in labels:
            return OK
        uid = labels[label.value]
        others = [one for one in labels.values() if one != uid]
        if not others:
            raise InvalidRequest("the only folder can't be removed: its feeds would have none")
        everywhere = await self.channels.all_subscriptions(call.user)
        elsewhere = {one.feed for other in others for one in everywhere.get(other, ())}
        for one in everywhere.get(uid, ()):
            if one.feed not in elsewhere:
                await self.following.move(call.user, others[0], one.url, call.now)
        await self.following.delete_channel(call.user, uid)
        return OK

    async def exported(self, call: NativeCall) -> HttpReply:
        """The user's feeds as OPML."""
        content = await self.lists.export(call.user, call.now, masked=True)
        return HttpReply(content, [(b"content-type", b"text/x-opml; charset=utf-8"), *CORS])

    async def imported(self, call: NativeCall) -> HttpReply:
        """Follow the feeds of a list."""
        give_back = self.imports.admit(call.user)
        try:
            quotas = await self.quotas.of(call.user)
            with asking_for(f"user {call.user}"):
                await self.lists.import_list(call.user, call.body.content, call.now, dry_run=False, quotas=quotas)
        except ParseError as error:
            raise InvalidRequest(f"the list can't be used: {error}") from None
        finally:
            give_back()
        return OK

    async def _held(self, call: NativeCall, value: str) -> dict[str, Subscription]:
        """The channels that follow the feed of an id or address, with their subscriptions."""
        everywhere = await self.channels.all_subscriptions(call.user)
        feed = pick_feed([one for some in everywhere.values() for one in some], value)
        return {uid: one for uid, some in everywhere.items() for one in some if one.feed == feed}

    async def _address(self, call: NativeCall, value: str) -> str:
        address = web_address(await self.entered.whole(call.user, value))
        if address is None:
            raise InvalidRequest("'s' can't be used: expected feed/ and an http or https address")
        return address

    async def _follow(self, call: NativeCall, value: str, name: str | None, added: Sequence[str]) -> None:
        address = await self._address(call, value)
        for uid in added or [await self._first(call)]:
            most = await self.quotas.most("feeds", call.user)
            await self.following.follow(call.user, uid, address, call.now, name, most=most)

    async def _change(
        self,
        call: NativeCall,
        held: dict[str, Subscription],
        name: str | None,
        added: Sequence[str],
        removed: Sequence[str],
    ) -> None:
        """Rename a feed, and change its folders: it stays in the last one, because it must be in a channel.

        Apps show one folder of a feed, the first, and most name only the new one when they move it.
        """
        if not held:
            raise NotFound("the feed isn't followed")
        first = next((uid for uid in _own(call) if uid in held), "")
        if added and first and first not in added and not removed:
            removed = [first]
        (url, *_) = (one.url for one in held.values())
        if len(added) == 1 and added[0] not in held and removed and set(held) <= {*removed}:
            await self.following.move(call.user, added[0], url, call.now)
        else:
            most = await self.quotas.most("feeds", call.user)
            for uid in added:
                if uid not in held:
                    own = next(iter(held.values()))
                    await self.following.follow_again(call.user, uid, own, call.now, most=most)
            for uid in removed:
                if {*held, *added} - {*removed}:
                    await self.following.unfollow(call.user, uid, held[uid].url, call.now)
        if name is not None:
            feed = next(iter(held.values())).feed
            for uid in {*held, *added}:
                await self.following.change(call.user, uid, feed, call.now, name=name)

    async def _labelled(self, call: NativeCall, parameter: str, *, create: bool = True) -> list[str]:
        """The channels that a parameter names as labels; with `create`, missing ones are created."""
        labels, found = label_names(call.channels), list[str]()
        for label in streams_of(parameter, call.params.many(parameter)):
            if label.kind != "label":
                continue
            if label.value in labels:
                found.append(labels[label.value])
            elif create:
                found.append(await self._created(call, label.value))
        return found

    async def _first(self, call: NativeCall) -> str:
        return next(iter(_own(call)), "") or await self._created(call, FIRST_CHANNEL)

    async def _created(self, call: NativeCall, name: str) -> str:
        most = await self.quotas.most("channels", call.user)
        return (await self.channels.create(call.user, name, call.now, most=most)).uid


def _own(call: NativeCall) -> Sequence[str]:
    """The user's own channels in their order."""
    own = set(label_names(call.channels).values())
    return [channel.uid for channel in call.channels if channel.uid in own]


async def _no_preferences(_: NativeCall) -> HttpReply:
    return json_reply({"prefs": []})


async def _no_stream_preferences(_: NativeCall) -> HttpReply:
    return json_reply({"streamprefs": {}})


async def _ignored(_: NativeCall) -> HttpReply:
    """Preferences of other servers, such as the order of folders, which apps send without ever reading them."""
    return OK


async def _no_friends(_: NativeCall) -> HttpReply:
    return json_reply({"friends": []})
