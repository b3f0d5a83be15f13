"""Servers that are broken on purpose, each in one way, and the requirements that must notice it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tests.conformance.reference_model import Channel, Feed, Model, Post, User
from tests.conformance.reference_server import Parameters, Server

VARIANTS: list[Variant] = []


@dataclass(frozen=True)
class Variant:
    """A broken server. `caught_by` must fail against it."""

    name: str
    server: type[Server]
    caught_by: tuple[str, ...]


def broken_model(*caught_by: str) -> Callable[[type[Model]], type[Model]]:
    """Build the server variant from the decorated model, caught by these requirements."""

    def add(model: type[Model]) -> type[Model]:
        server = type(model.__name__, (Server,), {"model_class": model})
        VARIANTS.append(Variant(model.__name__, server, caught_by))
        return model

    return add


def broken_server(*caught_by: str) -> Callable[[type[Server]], type[Server]]:
    """Register the decorated server, caught by these requirements."""

    def add(server: type[Server]) -> type[Server]:
        VARIANTS.append(Variant(server.__name__, server, caught_by))
        return server

    return add


def broken_item(*caught_by: str) -> Callable[[Callable[[dict[str, Any]], None]], None]:
    """The decorated function corrupts an item before it is returned."""

    def add(corrupt: Callable[[dict[str, Any]], None]) -> None:
        class Corrupting(Model):
            def item(self, post: Post, channel: Channel, read: bool) -> dict[str, Any]:
                item = super().item(post, channel, read)
                corrupt(item)
                return item

        server = type(corrupt.__name__, (Server,), {"model_class": Corrupting})
        VARIANTS.append(Variant(corrupt.__name__, server, caught_by))

    return add


# --- pages


@broken_model("paging.walk", "paging.insertion", "paging.before-adjacent", "reading.last-read-ties")
class TiesLost(Model):
    """Cursors and marks contain only the time of an item."""

    def cursor(self, post: Post) -> str:
        return super().cursor(Post("", "", "", post.time, 10**9, {}))

    def mark_before(self, user: User, uid: str, entry: str) -> int:
        if entry not in self.posts:
            return super().mark_before(user, uid, entry)
        limit = self.posts[entry].time
        shown = self.shown(user, self.channel(user, uid))
        return self.mark(user, uid, [post.id for post in shown if post.time <= limit], True)


@broken_model("paging.insertion", "paging.removed-cursor", "paging.before-new")
class OffsetsAsCursors(Model):
    """A cursor is the number of items that were already shown."""

    def page(
        self,
        user: User,
        uid: str,
        limit: int,
        before: str | None,
        after: str | None,
        is_read: bool | None,
        source: str | None,
    ) -> dict[str, Any]:
        rows = [row for row in self.rows(user, uid) if is_read in {None, row[2]}]
        start = int(after or 0) if not before else max(0, int(before) - limit)
        end = start + limit if not before else int(before)
        paging = {"before": str(start)} | ({"after": str(end)} if len(rows) > end else {})
        return {"items": [self.item(*row) for row in rows[start:end]], "paging": paging}


@broken_model("paging.before-adjacent", "paging.before-new")
class NewestBefore(Model):
    """`before` gives the newest items instead of the adjacent ones."""

    def page(self, user: User, uid: str, limit: int, before: str | None, *rest: Any) -> dict[str, Any]:
        everything = super().page(user, uid, 10**6 if before else limit, before, *rest)
        return everything | {"items": everything["items"][:limit]}


@broken_model("paging.end")
class AfterAtTheEnd(Model):
    """The last page also has `paging.after`."""

    def page(self, user: User, uid: str, limit: int, *rest: Any) -> dict[str, Any]:
        page = super().page(user, uid, limit, *rest)
        if page["items"]:
            page["paging"].setdefault("after", self.cursor(self.posts[page["items"][-1]["_id"]]))
        return page


@broken_model("timeline.global", "paging.global-walk")
class DoublesInGlobal(Model):
    """`global` shows an item once for each channel that contains it."""

    def rows(self, user: User, uid: str) -> list[tuple[Post, Channel, bool]]:
        rows = [(post, c, c.read[post.id]) for c in self.scope(user, uid) for post in self.shown(user, c)]
        return sorted(rows, key=lambda row: self.place(row[0]), reverse=True)


@broken_model("timeline.order", "timeline.merged-order")
class OrderOfArrival(Model):
    """Timelines are ordered by storing time."""

    def place(self, post: Post) -> tuple[float, int]:
        return (0.0, post.number)


# --- read state


@broken_model("revisions.read-stays", "revisions.edit-keeps-read", "revisions.counts")
class ReadComesBack(Model):
    """A poll marks the posts that it finds as unread again."""

    def store(self, feed: Feed, guid: str, seconds: float, wire: dict[str, Any]) -> None:
        super().store(feed, guid, seconds, wire)
        identifier = feed.posts[guid].id
        for user in self.users.values():
            for channel in user.channels.values():
                if identifier in channel.read:
                    channel.read[identifier] = False


@broken_model("revisions.removed-stays", "revisions.moved-stays", "removing.refollowed")
class RemovedComesBack(Model):
    """A poll adds all missing posts to the channels again."""

    def store(self, feed: Feed, guid: str, seconds: float, wire: dict[str, Any]) -> None:
        super().store(feed, guid, seconds, wire)
        for user in self.users.values():
            for channel in user.channels.values():
                if feed.url in channel.feeds:
                    self.add(user, channel, feed.posts[guid])

    def add(self, user: User, channel: Channel, post: Post, read: bool = False) -> None:
        channel.read.setdefault(post.id, read)


@broken_model("removing.marked", "revisions.removed-stays", "removing.refollowed")
class RemovingMarks(Model):
    """`remove` only marks as read."""

    def remove(self, user: User, uid: str, entries: Iterable[str]) -> int:
        return self.mark(user, uid, list(entries), True)


@broken_model("muting.count", "muting.unmute", "muting.global", "muting.marked")
class MutedAreCounted(Model):
    """The unread count includes muted items, and unmuting resets their read state."""

    def unread(self, user: User, channel: Channel, feed: str | None = None) -> int:
        return sum(not read for read in channel.read.values())

    def rule(self, user: User, uid: str, action: str, url: str) -> None:
        super().rule(user, uid, action, url)
        if action == "unmute":
            for channel in self.scope(user, uid):
                channel.read.update(dict.fromkeys(channel.read, False))


@broken_model("reading.count", "reading.mark-read", "channels.unread", "removing.count")
class CountsDrift(Model):
    """After a mark, counts and the number of marked items are off by one."""

    def mark(self, user: User, uid: str, entries: Iterable[str], read: bool) -> int:
        changed = super().mark(user, uid, entries, read)
        for channel in self.scope(user, uid):
            unread = [post.id for post in self.shown(user, channel) if not channel.read[post.id]]
            if read and unread:
                channel.read[unread[-1]] = True
        return changed

    def unread(self, user: User, channel: Channel, feed: str | None = None) -> int:
        return super().unread(user, channel, feed) + len(channel.gone)


@broken_model("reading.result", "reading.idempotent", "reading.unknown-ids", "reading.concurrent")
class CountsRequests(Model):
    """`updated` is the number of entries in the request."""

    def mark(self, user: User, uid: str, entries: Iterable[str], read: bool) -> int:
        super().mark(user, uid, entries, read)
        return len(list(entries))


@broken_model("reading.per-channel")
class SometimesReadEverywhere(Model):
    """A mark in one channel applies to all channels if it is one of several entries."""

    def mark(self, user: User, uid: str, entries: Iterable[str], read: bool) -> int:
        several = list(entries)
        return super().mark(user, "global" if len(several) > 1 else uid, several, read)


@broken_model("reading.last-read", "reading.last-read-updated", "reading.last-read-left", "reading.last-read-unknown")
class EverythingIsLast(Model):
    """`last_read_entry` marks the whole channel."""

    def mark_before(self, user: User, uid: str, entry: str) -> int:
        return super().mark_before(user, uid, "everything")


@broken_model("moving.state")
class MovedIsUnread(Model):
    """A moved item becomes unread."""

    def move(self, user: User, uid: str, entries: Iterable[str]) -> int:
        moved = super().move(user, uid, entries)
        super().mark(user, uid, entries, False)
        return moved


@broken_server("reading.concurrent")
class LostUpdates(Server):
    """Concurrent marks overwrite each other."""

    class model_class(Model):  # noqa: N801
        """Reads the flags, and writes all of them back a little later."""

        def mark(self, user: User, uid: str, entries: Iterable[str], read: bool) -> int:
            channel = self.channel(user, uid)
            flags = dict(channel.read)
            time.sleep(0.005)  # a real server handles other requests here
            changed = sum(flags.get(entry, read) is not read for entry in entries)
            channel.read = flags | {entry: read for entry in entries if entry in flags}
            return changed

    def locked(self, method: str, user: User, scopes: frozenset[str], parameters: Parameters) -> dict[str, Any]:
        return self.act(method, user, scopes, parameters)


# --- saving and arrival


@broken_model("saving.save", "saving.shown", "saving.unsave")
class SavingMoves(Model):
    """Saving an item removes it from its channel."""

    def save(self, user: User, entries: Iterable[str]) -> int:
        return super().move(user, "saved", entries)


@broken_model("saving.stays", "saving.mark-all")
class SavedLikeAnyOther(Model):
    """Removing an item from any channel also removes it from `saved`, and "mark all" also marks `saved`."""

    def remove(self, user: User, uid: str, entries: Iterable[str]) -> int:
        return super().remove(user, "global", entries)

    def mark_before(self, user: User, uid: str, entry: str) -> int:
        changed = super().mark_before(user, uid, entry)
        return changed + super().mark_before(user, "saved", entry)


@broken_model("arriving.since")
class ArrivalByPublication(Model):
    """The order of arrival is the order of publication."""

    def ids(self, user: User, *rest: Any) -> dict[str, Any]:
        user.arrived = {post.id: int(post.time) * 1000 + post.number for post in self.posts.values()}
        return super().ids(user, *rest)


@broken_model("arriving.all")
class IdsWithoutEnd(Model):
    """The last item of a reply is also the first one of the next reply."""

    def ids(self, user: User, uid: str, limit: int, *rest: Any) -> dict[str, Any]:
        reply = super().ids(user, uid, limit, *rest)
        if "after" in reply["paging"]:
            reply["paging"]["after"] = str(user.arrived[reply["items"][-2]["_id"]])
        return reply


# --- events


@broken_server("events.others")
class EverybodyHearsAll(Server):
    """Events of one user are sent to all users."""

    def note_event(self, user: User, name: str, data: dict[str, Any]) -> None:
        for one in self.events.values():
            one.append((name, data))


@broken_server("events.counts")
class CountsAsDifferences(Server):
    """A count event contains the difference instead of the count."""

    def note_event(self, user: User, name: str, data: dict[str, Any]) -> None:
        super().note_event(user, name, data | ({"unread": -1} if "unread" in data else {}))


@broken_server("events.resume")
class EventsFromNowOn(Server):
    """The client's last event id is ignored."""

    def stream(self, user: User, place: int) -> Response:
        return super().stream(user, len(self.events[user.name]))


# --- edits


@broken_model("revisions.edit", "revisions.edit-keeps-read")
class EditsLost(Model):
    """A known post is never updated."""

    def store(self, feed: Feed, guid: str, seconds: float, wire: dict[str, Any]) -> None:
        if guid not in feed.posts:
            super().store(feed, guid, seconds, wire)


@broken_model("revisions.no-doubles", "revisions.edit-keeps-read")
class EditsDouble(Model):
    """An edited post is stored as a new post."""

    def store(self, feed: Feed, guid: str, seconds: float, wire: dict[str, Any]) -> None:
        super().store(feed, f"{guid} {wire.get('content')}", seconds, wire)


@broken_model("revisions.edit-keeps-place")
class EditsMove(Model):
    """An edit changes the date of the post."""

    def store(self, feed: Feed, guid: str, seconds: float, wire: dict[str, Any]) -> None:
        super().store(feed, guid, seconds, wire)
        feed.posts[guid].time = seconds
        feed.posts[guid].wire = wire


# --- users


@broken_model("isolation.timeline", "isolation.marking", "isolation.changing")
class ChannelsOfAnybody(Model):
    """A uid also finds the channels of other users."""

    def channel(self, user: User, uid: str) -> Channel:
        for other in self.users.values():
            if uid in other.channels and uid != "notifications":
                return other.channels[uid]
        return super().channel(user, uid)


@broken_model("isolation.global", "isolation.marking")
class GlobalOfAll(Model):
    """`global` contains the items of all users."""

    def scope(self, user: User, uid: str) -> list[Channel]:
        if uid == "global":
            return [channel for other in self.users.values() for channel in other.channels.values()]
        return super().scope(user, uid)


@broken_model("isolation.read-state", "isolation.marking")
class ReadTogether(Model):
    """The read state belongs to the item, not to the user."""

    def mark(self, user: User, uid: str, entries: Iterable[str], read: bool) -> int:
        self.scope(user, uid)
        return sum(super(ReadTogether, self).mark(other, "global", entries, read) for other in self.users.values())


@broken_model("isolation.rules")
class RulesTogether(Model):
    """A rule of one user applies to all users."""

    def rule(self, user: User, uid: str, action: str, url: str) -> None:
        for other in self.users.values():
            super().rule(other if uid == "global" else user, uid, action, url)


@broken_server("scopes.follow", "scopes.channels", "scopes.rules")
class ScopesIgnored(Server):
    """Every token has all scopes."""

    def act(self, verb: str, user: User, scopes: frozenset[str], p: Parameters) -> dict[str, Any]:
        return super().act(verb, user, frozenset({"follow", "mute", "block", "channels"}), p)


@broken_server("scopes.read-marks")
class ReadIsNotEnough(Server):
    """Marking requires the scope for changing channels."""

    def change_timeline(self, user: User, p: Parameters) -> dict[str, Any]:
        p.need("scope")
        return super().change_timeline(user, p)


@broken_server("tokens.missing", "tokens.invalid", "tokens.scheme", "errors.body")
class AnybodyIsAlice(Server):
    """A request without a valid token is treated as the first user's."""

    def authorize(self, request: Request, parameters: Parameters) -> tuple[User, frozenset[str]]:
        try:
            return super().authorize(request, parameters)
        except Exception:
            return self.model.user("alice"), frozenset({"read"})


@broken_server("transport.foreign-user-endpoint")
class AnyUsersEndpoint(Server):
    """The user in the endpoint is ignored."""

    def authorize(self, request: Request, parameters: Parameters) -> tuple[User, frozenset[str]]:
        request.path_params.pop("user", None)
        return super().authorize(request, parameters)


# --- transport


@broken_server("replies.content-type", "replies.error-content-type", "replies.no-store")
class OtherHeaders(Server):
    """The content type has a parameter, and replies may be cached."""

    def reply(self, status: int, value: Mapping[str, Any], headers: Mapping[str, str]) -> Response:
        response = super().reply(status, value, headers)
        response.headers["Content-Type"] = "application/json; charset=utf-8"
        response.headers["Cache-Control"] = "max-age=60"
        return response


@broken_server("replies.object")
class CreatedIs201(Server):
    """Following a feed is answered with 201."""

    def reply(self, status: int, value: Mapping[str, Any], headers: Mapping[str, str]) -> Response:
        return super().reply(201 if status == 200 and value.get("type") == "feed" else status, value, headers)


@broken_server("tokens.missing", "transport.cors-replies")
class BareErrors(Server):
    """Error replies lack the helpful headers."""

    def reply(self, status: int, value: Mapping[str, Any], headers: Mapping[str, str]) -> Response:
        response = super().reply(status, value, {})
        if status != 200:
            del response.headers["Access-Control-Allow-Origin"]
        return response


@broken_server("transport.trailing-slash")
class SlashRedirects(Server):
    """A trailing slash is answered with a redirect."""

    async def endpoint(self, request: Request) -> Response:
        if request.url.path.endswith("/"):
            return RedirectResponse(str(request.url.replace(path=request.url.path.rstrip("/"))), 307)
        return await super().endpoint(request)


@broken_server("transport.lists", "channels.order-forms")
class LastOfAList(Server):
    """Of repeated parameters, only the last one is used."""

    def locked(self, method: str, user: User, scopes: frozenset[str], parameters: Parameters) -> dict[str, Any]:
        parameters._values = {name: values[-1:] for name, values in parameters._values.items()}
        return super().locked(method, user, scopes, parameters)


# --- channels and feeds


@broken_model("channels.order-places")
class OrderAtTheTop(Model):
    """Ordered channels come first, before `notifications`."""

    def order(self, user: User, uids: list[str]) -> None:
        listed = list(dict.fromkeys(uids))
        rest = [uid for uid in user.channels if uid not in listed]
        user.channels = {uid: self.channel(user, uid) for uid in [*rest[:1], *listed, *rest[1:]]}


@broken_model("channels.create-twice", "channels.uid-characters", "channels.reserved")
class NamesAreUids(Model):
    """The uid is the name, and a second channel with the same name replaces the first one."""

    def create(self, user: User, name: str) -> Channel:
        user.channels.pop(name, None)
        uid = name if name.lower() in {"global", "saved"} else f"{name} {next(self._numbers)}"
        user.channels[uid] = Channel(uid, name)
        return user.channels[uid]


@broken_model("following.unfollow-items")
class UnfollowKeepsItems(Model):
    """Unread items stay after an unfollow."""

    def unfollow(self, channel: Channel, url: str) -> None:
        if url in channel.feeds:
            channel.feeds.remove(url)


@broken_model("following.old-as-read")
class FloodOfOld(Model):
    """All posts of a new follow are unread."""

    FRESH = 10**6


@broken_model("blocking.earlier")
class BlockedComeIn(Model):
    """A block removes existing items, but new posts are still accepted."""

    def add(self, user: User, channel: Channel, post: Post, read: bool = False) -> None:
        if post.id not in channel.gone:
            channel.read.setdefault(post.id, read)


@broken_server("following.one-poll", "revisions.conditional")
class PollsTooMuch(Server):
    """Every follow fetches the feed, and no fetch is conditional."""

    def follow(self, user: User, p: Parameters) -> dict[str, Any]:
        if p.need("url") in self.model.feeds:
            self.poll(self.model.feeds[p.need("url")])
        return super().follow(user, p)

    def fetch(self, url: str, etag: str | None = None) -> Any:
        return super().fetch(url, None)


@broken_server("preview.stores-nothing")
class PreviewFollows(Server):
    """A preview puts the posts into `notifications`."""

    def act(self, verb: str, user: User, scopes: frozenset[str], p: Parameters) -> dict[str, Any]:
        answer = super().act(verb, user, scopes, p)
        if p.get("action") == "preview" and answer["items"]:
            url = p.need("url")
            if url not in self.model.feeds:
                self.model.feeds[url] = Feed(f"f{len(self.model.feeds) + 1}", url)
                self.poll(self.model.feeds[url])
            self.model.follow(user, user.channels["notifications"], url)
        return answer


@broken_server("preview.source")
class PreviewTellsTheFeed(Server):
    """Previewed items contain the feed's id."""

    def preview(self, p: Parameters) -> dict[str, Any]:
        answer = super().preview(p)
        return answer | {"items": [item | {"_source": "f1"} for item in answer["items"]]}


# --- items


@broken_item("items.source", "items.strings")
def source_as_object(item: dict[str, Any]) -> None:
    item["_source"] = {"_id": item["_source"]}
    item["published"] = 1700000000


@broken_item("items.no-null")
def photo_is_null(item: dict[str, Any]) -> None:
    item["author"] = {"photo": None, **item["author"]}


@broken_item("items.lists", "items.responses")
def lists_of_one_as_strings(item: dict[str, Any]) -> None:
    for name, value in item.items():
        if isinstance(value, list) and len(value) == 1:
            item[name] = value[0]


@broken_item("items.channel", "items.is-read", "items.id")
def without_ids(item: dict[str, Any]) -> None:
    del item["_channel"]["id"]
    item["_is_read"] = 0
    item["_id"] = f"item:{item['_id']}"


@broken_item("items.sanitised", "items.content")
def raw_content(item: dict[str, Any]) -> None:
    item["content"] = {"html": "<p>Visible text<script>steal()</script></p>"}


@broken_item("items.published")
def naive_times(item: dict[str, Any]) -> None:
    item["published"] = item["published"][:19]


@broken_item("items.author", "items.post-type", "items.checkin")
def without_author(item: dict[str, Any]) -> None:
    for name in ("author", "post-type"):
        item.pop(name, None)
    if "checkin" in item:
        item["checkin"]["latitude"] = 52.5
