"""Event streams: an extension, checked if the server has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from microsub_conformance.requirement import DESIGN, Chapter, client
from microsub_conformance.stream import HeardEvents, StreamEvent
from microsub_conformance.timeline import Item, ids, unread_ids
from microsub_conformance.verdict import Skip, expect, same
from microsub_conformance.world import World

events = Chapter("events", section="Actions, events")


@contextmanager
def _listening(w: World, place: str = "") -> Iterator[HeardEvents]:
    """A stream whose first event has arrived. Raises Skip if the server has no streams."""
    headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": place} if place else {})
    with w.user.listening([("action", "events")], headers) as (status, kind, heard):
        if status == 400:
            raise Skip("the server has no event streams")
        expect(status == 200 and kind.startswith("text/event-stream"), "a stream of events", f"{status} {kind}")
        first = heard.until(lambda one: True, "an event at the beginning")
        same(first.name, "started", "the first event")
        yield heard


def _about(channel: str, name: str) -> Any:
    """Whether an event of that name is about that channel."""

    def is_it(one: StreamEvent) -> bool:
        data: Mapping[str, Any] = one.data
        inner = data.get("channel")
        return one.name == name and channel in (
            data.get("uid"),
            inner,
            inner.get("uid") if isinstance(inner, dict) else None,
        )

    return is_it


@events.requirement("head", source=DESIGN)
def head(w: World) -> None:
    """A stream isn't cacheable, and needs a token: without one, the reply is 401 with JSON."""
    with _listening(w) as heard:
        expect(
            "no-store" in heard.headers.get("cache-control", ""),
            "Cache-Control: no-store",
            heard.headers.get("cache-control"),
        )
    w.user.send("GET", query=[("action", "events")], token=False).refused(401, "unauthorized")


@events.requirement("channels", source=client("Ekstereye"))
def channels(w: World) -> None:
    """Events report created, renamed and deleted channels with uid and name."""
    with _listening(w) as heard:
        uid = w.user.post("channels", name=w.name()).done()["uid"]
        made = heard.until(_about(uid, "new channel"), "the event 'new channel'")
        renamed = w.name("renamed")
        w.user.post("channels", channel=uid, name=renamed).done()
        changed = heard.until(_about(uid, "update channel"), "the event 'update channel'")
        w.user.post("channels", method="delete", channel=uid).done()
        heard.until(_about(uid, "delete channel"), "the event 'delete channel'")
    expect(isinstance(made.data["channel"].get("name"), str), "the channel's name", made.data)
    same(changed.data["channel"].get("name"), renamed, "the channel's new name")


@events.requirement("items", source=client("Ekstereye"))
def items(w: World) -> None:
    """Events report new unread items as on a page, each once, and then the channel's count."""
    with _listening(w) as heard:
        channel, found = w.filled(w.blogs.eight)
        unread = unread_ids(found)
        heard.until(
            lambda one: _about(channel, "new item in channel")(one) and one.data.get("unread") == len(unread),
            f"the event 'new item in channel' with {len(unread)} unread",
        )
        told: list[Item] = [one.data["item"] for one in heard.past if _about(channel, "new item")(one)]
    same(sorted(ids(told)), sorted(unread), "the items that were told")
    same(
        {item["_id"]: item for item in told},
        {item["_id"]: item for item in found if item["_id"] in unread},
        "the items",
    )


@events.requirement("counts", source=client("Ekstereye"))
def counts(w: World) -> None:
    """The event of a mark has the new unread count, not a difference."""
    channel, found = w.unread_channel()
    with _listening(w) as heard:
        for number, item in enumerate(ids(found)[:2], 1):
            w.user.post("timeline", method="mark_read", channel=channel, entry=item).ok()
            told = heard.until(_about(channel, "new item in channel"), "the event 'new item in channel'")
            same(told.data.get("unread"), len(found) - number, "the unread count")


@events.requirement("resume", source=DESIGN)
def resume(w: World) -> None:
    """A stream resumes after the client's last event: nothing is missing, nothing is repeated."""
    with _listening(w) as heard:
        one = w.channel("first")
        place = heard.until(_about(one, "new channel"), "the event 'new channel'").id
        expect(bool(place), "an id at the event", place)
    two, three = w.channel("second"), w.channel("third")
    with _listening(w, place) as heard:
        heard.until(_about(three, "new channel"), "the events in between")
        told = [event.data["channel"]["uid"] for event in heard.past if event.name == "new channel"]
    same(told, [two, three], "the channels that were told")


@events.requirement("others", source=DESIGN, needs=("second user",))
def others(w: World) -> None:
    """Users get no events about other users' channels and items."""
    with _listening(w) as heard:
        theirs = w.channel("theirs", w.second)
        w.fill(theirs, w.blogs.eight, w.second)
        mine = w.channel("mine")
        heard.until(_about(mine, "new channel"), "the event 'new channel' of the own channel")
        told = [one for one in heard.past if one.name != "started" and not _about(mine, "new channel")(one)]
    same(told, [], "the events of other users")
