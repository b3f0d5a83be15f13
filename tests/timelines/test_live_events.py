"""A user's live events in Redis: which operation writes which event, for how long, and the data read with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from microsub.base.errors import Unauthorized
from microsub.model.reader import Channel, Credential
from microsub.model.settings import OwnChannelSettings
from microsub.redis import keys
from microsub.timelines import SavedPosts
from microsub.timelines.sync.live_events import KEPT_SECONDS, EventPosition, LiveEvent, open_events, read_events
from tests.support.one_reader import ANN, NOW, OneReader, item


@pytest.fixture
async def credential(world: OneReader) -> Credential:
    made = world.accounts.credential(await world.accounts.create_token(ANN, ["read"], "test", NOW))
    assert made is not None
    return made


async def told(
    world: OneReader, credential: Credential, after: EventPosition
) -> tuple[Sequence[LiveEvent], Mapping[str, Channel]]:
    found = await read_events(world.redis, credential, after, NOW)
    assert found is not None
    return found[1:]


async def test_each_change_is_one_event(world: OneReader, credential: Credential) -> None:
    """An event names the channel and its new unread items; a mark that changes nothing isn't an event."""
    after = await open_events(world.redis, ANN)
    await world.add("home", item(5), item(7), item(6))
    await world.timelines.mark_read(ANN, "home", ["5"], NOW)
    await world.timelines.mark_read(ANN, "home", ["5", "99"], NOW)
    await world.timelines.move(ANN, "work", ["7"], NOW)
    await world.timelines.remove(ANN, "home", ["6"], NOW)
    await SavedPosts(world.redis, world.items).save(ANN, ["5"], NOW)  # type: ignore[arg-type]
    events, channels = await told(world, credential, after)
    came = [(one.name, one.channel, [row.id for row in one.came]) for one in events]
    # The move and the channel's earlier events come in one step; items that have left since aren't listed.
    assert came == [
        ("items", "home", ["5"]),
        ("items", "home", []),
        ("items", "work", ["7"]),
        ("items", "home", []),
        ("items", "home", []),
        ("items", "saved", []),
    ]
    (first,) = events[0].came
    assert (first.is_read, first.is_saved) == (True, True), "the state is that of the moment of reading"
    assert {uid: channel.unread for uid, channel in channels.items()} == {"home": 0, "work": 1, "saved": 0}


async def test_changes_of_channels_are_events(world: OneReader, credential: Credential) -> None:
    """Each has the current name and settings; the event of a deleted channel has nothing else."""
    after = await open_events(world.redis, ANN)
    channels = world.channels
    await channels.create(ANN, "News", NOW)
    await channels.create(ANN, "News", NOW)
    await channels.rename(ANN, "home", "House", NOW)
    await channels.set_settings(ANN, "home", OwnChannelSettings(unread="boolean"), NOW)
    await channels.order(ANN, ["work", "home"])
    await channels.order(ANN, ["work", "home"])
    await channels.disable(ANN, "work", NOW)
    await channels.restore(ANN, "work")
    await channels.delete(ANN, "news")
    events, listed = await told(world, credential, after)
    assert [(one.name, one.channel) for one in events] == [
        ("new channel", "news"),
        *[("update channel", "home")] * 2,
        ("update channel", "work"),
        ("delete channel", "work"),
        ("new channel", "work"),
        ("delete channel", "news"),
    ]
    assert events[3].order == ("notifications", "work", "home", "saved")
    assert {uid: (one.name, one.settings.unread) for uid, one in listed.items()} == {
        "home": ("House", "boolean"),
        "work": ("Work", None),
    }


async def test_rules_are_events_of_the_channels_that_they_change(world: OneReader, credential: Credential) -> None:
    """Muted items leave, and items that are shown again count as new."""
    await world.add("home", item(5, sources=("https://loud.example/",)), item(6))
    after = await open_events(world.redis, ANN)
    await world.rules.mute(ANN, "global", "https://loud.example/", NOW)
    await world.rules.unmute(ANN, "global", "https://loud.example/", NOW)
    await world.rules.block(ANN, "work", "https://loud.example/", NOW)
    events, _ = await told(world, credential, after)
    assert [(one.channel, [row.id for row in one.came]) for one in events] == [("home", []), ("home", ["5"])]


async def test_events_are_written_only_for_listeners(world: OneReader, credential: Credential) -> None:
    """A stream begins with the first app, and expires; the gap that follows is noticed."""
    await world.add("home", item(5))
    await world.channels.create(ANN, "News", NOW)
    assert await world.redis.command("EXISTS", keys.live_events(ANN)) == 0
    after = await open_events(world.redis, ANN)
    assert await open_events(world.redis, ANN) == after, "another app begins where the first one does"
    assert KEPT_SECONDS - 5 < await world.redis.command("TTL", keys.live_events(ANN)) <= KEPT_SECONDS
    await world.redis.command("DEL", keys.live_events(ANN))
    await world.add("home", item(6))
    assert await read_events(world.redis, credential, after, NOW) is None
    again = await open_events(world.redis, ANN)
    assert (await told(world, credential, again))[0] == []


async def test_a_capped_stream_reports_the_gap(world: OneReader, credential: Credential) -> None:
    """Some hundreds of events are kept."""
    after = await open_events(world.redis, ANN)
    await world.add("home", item(5))
    for number in range(800):
        mark = world.timelines.mark_read if number % 2 else world.timelines.mark_unread
        await mark(ANN, "home", ["5"], NOW)
        if number == 0:
            await world.timelines.mark_read(ANN, "home", ["5"], NOW)
    assert 500 <= await world.redis.command("XLEN", keys.live_events(ANN)) <= 700
    assert await read_events(world.redis, credential, after, NOW) is None


async def test_a_token_that_has_ended_reads_nothing(world: OneReader, credential: Credential) -> None:
    """The same holds for a token of a disabled user."""
    after = await open_events(world.redis, ANN)
    with pytest.raises(Unauthorized):
        await read_events(world.redis, Credential(ANN, "0" * 64), after, NOW)
    await world.accounts.disable_user(ANN, NOW)
    with pytest.raises(Unauthorized):
        await read_events(world.redis, credential, after, NOW)


async def test_no_event_holds_more_than_a_hundred_items(world: OneReader, credential: Credential) -> None:
    """The event has the newest items; its count is that of all items."""
    after = await open_events(world.redis, ANN)
    await world.add("home", *(item(number) for number in range(100, 400)))
    events, channels = await told(world, credential, after)
    assert [row.id for row in events[0].came] == [str(number) for number in range(300, 400)]
    assert channels["home"].unread == 300
