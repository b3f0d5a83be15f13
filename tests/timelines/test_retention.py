"""Cleanup of timelines: by time since reading, by age of unread items, by number; its dry run reports the same."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import structlog

from microsub.accounts.store import User
from microsub.base.clock import DAY
from microsub.base.periodic import RoundTiming
from microsub.configuration.effective import DeclaredSettings
from microsub.configuration.model import UserSettings
from microsub.model.reader import TimelineItem
from microsub.model.settings import USUAL
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.timelines.add import Added
from microsub.timelines.gone import absences
from microsub.timelines.retention import RESTORABLE, SOONEST, Retention, is_overdue
from microsub.work import SHARDS
from tests.support.one_reader import ANN, NOW, OneReader, item
from tests.support.waiting import wait_until

SHARD = zlib.crc32(ANN.encode()) % SHARDS


@dataclass
class Keep:
    """Limits that a test can change."""

    keep_read_days: float | None = 7
    keep_unread_days: float | None = 180
    max_items: int | None = 2000


class Cleaned(OneReader):
    """A reader whose timelines are cleaned up."""

    def __init__(self, redis: Redis) -> None:
        super().__init__(redis)
        self.keep = Keep()
        self.declared: Collection[str] | None = ()
        self.retention = Retention(
            self.redis, self.accounts, self.channels, self.items, self.limits, self.declared_users
        )

    async def declared_users(self) -> Collection[str] | None:
        return self.declared

    async def limits(self, user: str, uid: str) -> Keep:
        return self.keep

    async def clean(self, now: float) -> dict[str, object]:
        """Runs a cleanup, after a dry run that reports exactly the same and changes nothing."""
        before = await self.redis.command("ZRANGE", keys.posts(ANN, "home"), 0, -1)
        planned = await self.retention.run(now, dry_run=True)
        assert await self.redis.command("ZRANGE", keys.posts(ANN, "home"), 0, -1) == before
        done = await self.retention.run(now)
        assert (done.channels, done.users) == (planned.channels, planned.users)
        assert (planned.dry_run, done.dry_run) == (True, False)
        assert (await self.retention.run(now, dry_run=True)).channels == ()
        report = done.as_dict()
        return {name: report[name] for name in ("read", "unread", "over_limit")}


@pytest.fixture
async def world(redis: Redis) -> Cleaned:
    world = Cleaned(redis)
    await world.begin()
    return world


def aged(number: int, days: float, **more: object) -> TimelineItem:
    return item(number, NOW - days * DAY, **more)


async def test_read_items_leave_some_days_after_reading(world: Cleaned) -> None:
    """An item leaves 7 days after it was read, muted or not, and never returns; one marked as unread again stays."""
    await world.add("home", *(item(n, NOW, author="https://a.example/" if n == 4 else "") for n in range(1, 6)))
    await world.timelines.mark_read(ANN, "home", ["1", "4", "5"], NOW)
    await world.timelines.mark_read(ANN, "home", ["2"], NOW + 1)
    await world.timelines.mark_unread(ANN, "home", ["5"], NOW + 2)
    await world.rules.mute(ANN, "home", "https://a.example/", NOW)
    assert await world.clean(NOW + 7 * DAY) == {"read": 2, "unread": 0, "over_limit": 0}
    assert await world.ids("home") == ["5", "3", "2"]
    assert await world.add("home", item(1, NOW), item(4, NOW)) == Added()


async def test_by_default_read_items_stay_for_thirty_days(world: Cleaned) -> None:
    """The default is that of other readers."""
    world.keep = Keep(USUAL.keep_read_days, USUAL.keep_unread_days, USUAL.max_items)
    await world.add("home", item(1, NOW), item(2, NOW))
    await world.timelines.mark_read(ANN, "home", ["1"], NOW)
    await world.clean(NOW + 29 * DAY)
    assert await world.ids("home") == ["2", "1"]
    await world.clean(NOW + 30 * DAY)
    assert await world.ids("home") == ["2"]


async def test_unread_items_leave_when_old_in_every_respect(world: Cleaned) -> None:
    """An unread item leaves only if it was published, discovered and followed long ago."""
    await world.channels.unfollow(ANN, "home", "1")
    await world.follow("home", "1", NOW - 200 * DAY)
    await world.follow("home", "2", NOW - 10 * DAY)
    await world.add("home", aged(1, 190), aged(2, 190), aged(3, 10), aged(4, 190))
    await world.add("home", aged(5, 190), feed="2")
    world.items.discovered["2"] = NOW - DAY
    await world.timelines.mark_read(ANN, "home", ["4"], NOW)
    assert await world.clean(NOW) == {"read": 0, "unread": 1, "over_limit": 0}
    assert await world.ids("home") == ["3", "5", "4", "2"]
    assert await world.add("home", aged(1, 190)) == Added()


async def test_the_oldest_beyond_the_limit_leave(world: Cleaned) -> None:
    """A timeline over its limit loses its oldest items, whether read or not, also in many batches."""
    await world.add("home", *(item(n, NOW + n) for n in range(1, 2601)))
    await world.timelines.mark_read(ANN, "home", ["3", "2600"], NOW)
    world.keep.max_items = 100
    assert await world.clean(NOW) == {"read": 0, "unread": 0, "over_limit": 2500}
    assert await world.unread("home") == 99


async def test_removed_channels_go_after_thirty_days(world: Cleaned) -> None:
    """A removed channel can be restored for 30 days, then it is deleted."""
    await world.channels.disable(ANN, "home", NOW)
    assert (await world.retention.run(NOW + RESTORABLE - 1)).channels == ()
    (cleanup,) = (await world.retention.run(NOW + RESTORABLE)).channels
    assert (cleanup.uid, cleanup.deleted) == ("home", True)
    assert await world.redis.command("KEYS", "*:home*") == []
    assert not await world.channels.delete_removed(ANN, "work")


async def test_disabled_users_go_after_thirty_days(world: Cleaned) -> None:
    """All their data goes; until then it can be restored. A dry run only reports, and other users keep their data."""
    for name in (ANN, "bob"):
        await world.accounts.add_user(name, "", NOW)
        await world.accounts.create_token(name, ["read"], "app", NOW)
        await DeclaredSettings(world.redis).set_user(name, UserSettings(max_items=7))
        await world.rules.mute(name, "global", "https://a.example/", NOW)
        await world.channels.create(name, "Put aside", NOW, "aside")
        await world.channels.disable(name, "aside", NOW + 9 * DAY)
    await world.add("home", item(1), item(2), item(3))
    await world.timelines.remove(ANN, "home", ["1"], NOW)
    await world.timelines.mark_read(ANN, "home", ["2"], NOW + 30 * DAY)
    await world.accounts.disable_user(ANN, NOW)
    with structlog.testing.capture_logs() as lines:
        assert (await world.retention.run(NOW + RESTORABLE - 1)).users == ()
        assert (await world.retention.run(NOW + RESTORABLE, dry_run=True)).users == (ANN,)
        assert await world.accounts.user(ANN)
        assert (await world.retention.run(NOW + RESTORABLE)).users == (ANN,)
    assert [line["user"] for line in lines if line["event"] == "user_deleted"] == [ANN]
    assert await world.redis.command("KEYS", f"*{{{ANN}}}*") == []
    assert [user.name for user in await world.accounts.users()] == ["bob"]
    assert await world.redis.command("SMEMBERS", keys.users()) == [b"bob"]
    assert (await DeclaredSettings(world.redis).everything()).users.keys() == {"bob"}
    assert len(await world.accounts.tokens("bob")) == 1
    assert await world.channels.removed("bob") == {"aside": NOW + 9 * DAY}
    assert (await world.retention.run(NOW + RESTORABLE, dry_run=True)).as_dict()["users"] == []


async def test_users_in_the_file_are_not_deleted(world: Cleaned) -> None:
    """The next application restores a user who is listed again; if the file is unreadable, nobody is deleted."""
    await world.accounts.disable_user(ANN, NOW)
    for declared in ({ANN}, None):
        world.declared = declared
        assert (await world.retention.run(NOW + RESTORABLE, dry_run=True)).users == ()
        assert (await world.retention.run(NOW + RESTORABLE)).users == ()
    assert await world.accounts.user(ANN)


@pytest.mark.parametrize("disabled_again", [True, False])
async def test_a_user_who_comes_back_during_the_deletion_stays(world: Cleaned, disabled_again: bool) -> None:
    """Restored, or restored and disabled again: the next step notices it, and the remaining data stays."""
    await world.add("home", item(1))
    await world.accounts.disable_user(ANN, NOW)
    (found,) = await world.accounts.users()
    await world.accounts.restore_user(ANN)
    if disabled_again:
        await world.accounts.disable_user(ANN, NOW + 1)
    assert not await world.accounts.delete_disabled(found)
    assert await world.ids("home") == ["1"]


async def test_a_channel_made_during_the_deletion_is_found_by_the_next(
    world: Cleaned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user is deleted last, after all channels."""
    await world.accounts.disable_user(ANN, NOW)
    (found,) = await world.accounts.users()
    script = world.redis.script

    async def meanwhile(*arguments: Any) -> Any:
        done = await script(*arguments)
        monkeypatch.undo()
        await world.channels.create(ANN, "New", NOW, "new")
        return done

    monkeypatch.setattr(world.redis, "script", meanwhile)
    assert not await world.accounts.delete_disabled(found)
    assert await world.accounts.delete_disabled(found)
    assert await world.redis.command("KEYS", f"*{{{ANN}}}*") == []


@pytest.mark.parametrize("whole", [True, False], ids=["user", "channel"])
async def test_mutes_until_a_time_end_with_their_user_or_channel(world: Cleaned, whole: bool) -> None:
    """Also the end of one that would last for years, which names the user and the muted address."""
    await world.channels.create(ANN, "Old", NOW, "old")
    for uid in ("home", "old", "global"):
        await world.rules.mute(ANN, uid, "https://muted.example/", NOW, until=NOW + 1000 * DAY)
    await world.channels.disable(ANN, "old", NOW)
    if whole:
        await world.accounts.disable_user(ANN, NOW)
    await world.retention.run(NOW + RESTORABLE)
    ends = await world.redis.command("ZRANGE", keys.mute_ends(), 0, -1)
    assert sorted(end.split()[1] for end in ends) == ([] if whole else [b"global", b"home"])


@pytest.mark.parametrize(
    ("created", "disabled", "overdue"),
    [
        (NOW, None, False),
        (NOW, NOW, True),
        (NOW, NOW + 1, False),
        (NOW, 0.0, False),
        (NOW, NOW - 1, False),
        (0.0, NOW, False),
        (NOW, float("nan"), False),
        (NOW, float("inf"), False),
    ],
)
def test_only_overdue_users_are_deleted(created: float, disabled: float | None, overdue: bool) -> None:
    """An active user isn't overdue, and neither is one with impossible times."""
    assert is_overdue(User(ANN, "", created, disabled), NOW + RESTORABLE) is overdue


async def test_vanished_items_are_forgotten_late(world: Cleaned) -> None:
    """The departure of an item is remembered while the item exists, and at least for 30 days after its arrival here."""
    await world.add("home", item(1), item(2), item(3))
    await world.timelines.remove(ANN, "home", ["1", "2", "3"], NOW)
    del world.items.items["1"], world.items.items["3"]
    for last, now in ((2, NOW), (3, NOW + DAY)):
        await world.redis.command("SET", keys.item_ids(), last)
        for _ in range(2):
            await world.retention.look_for_channels(now)
    for days, left in ((30, {"1", "2", "3"}), (31, {"2", "3"}), (32, {"2"}), (500, {"2"})):
        now = NOW + days * DAY
        await world.redis.command("SET", keys.item_ids(), 10 + days)
        await world.retention.look_for_channels(now)
        await world.retention.visit(f"{ANN} home", now)
        assert {one.id async for some in absences(world.redis, ANN, "home") for one in some} == left
    assert await world.redis.command("HLEN", keys.item_days()) == 2


@pytest.mark.parametrize(
    ("keep", "days"),
    [
        (Keep(keep_read_days=8.5, keep_unread_days=0), 0.5),
        (Keep(keep_read_days=8.1, keep_unread_days=0), 0.25),
        (Keep(keep_read_days=0, keep_unread_days=20), 0.75),
        (Keep(keep_read_days=40, keep_unread_days=40), 1),
        (Keep(0, 0, 0), 1),
    ],
)
async def test_a_channel_is_looked_at_when_its_next_item_is_due(world: Cleaned, keep: Keep, days: float) -> None:
    """One was read 8 days ago, one was published 19 1/4 days ago; at least 6 hours later, and at least once per day."""
    await world.add("home", aged(1, 1), aged(2, 19.25))
    await world.timelines.mark_read(ANN, "home", ["1"], NOW - 8 * DAY)
    world.keep = keep
    cleanup, again = await world.retention.visit(f"{ANN} home", NOW)
    assert cleanup.total == 0
    assert again == pytest.approx(NOW + days * DAY, abs=1)


async def test_a_channel_that_is_gone_is_not_looked_at_again(world: Cleaned) -> None:
    """Removed or deleted; after it is restored, the daily check finds it."""
    await world.channels.disable(ANN, "home", NOW)
    await world.channels.delete(ANN, "work")
    for uid in ("home", "work"):
        assert (await world.retention.visit(f"{ANN} {uid}", NOW))[1] is None


async def test_reports_can_be_read(world: Cleaned) -> None:
    """The text names channel and numbers, and says whether it was a dry run."""
    await world.add("home", item(1), item(2))
    await world.timelines.mark_read(ANN, "home", ["1"], NOW - 8 * DAY)
    assert (await world.retention.run(NOW, dry_run=True)).as_text().startswith("ann/home: 1 read, ")
    assert "1 items would leave" in (await world.retention.run(NOW, dry_run=True)).as_text()


async def test_a_channel_deleted_during_cleanup_stops_nothing(world: Cleaned, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other channels are still cleaned up."""
    await world.follow("work", "1", NOW - 300 * DAY)
    for uid in ("home", "work"):
        await world.channels.unfollow(ANN, uid, "1")
        await world.follow(uid, "1", NOW - 300 * DAY)
        await world.add(uid, aged(1, 200))
    look_up = world.items.fields

    async def deleted_meanwhile(ids: Sequence[str], names: Sequence[str]) -> list[list[bytes | None]]:
        monkeypatch.undo()
        await world.channels.delete(ANN, "home")
        return await look_up(ids, names)

    monkeypatch.setattr(world.items, "fields", deleted_meanwhile)
    await world.retention.run(NOW)
    assert await world.ids("work") == []


async def test_missing_due_times_are_planned_daily(world: Cleaned) -> None:
    """Data of an earlier version has no due times: a daily check plans them, and items leave when they are due, also
    those of channels that were created since.
    """
    await world.add("home", item(1, NOW), item(2, NOW))
    await world.timelines.mark_read(ANN, "home", ["1"], NOW)
    now = NOW + 6 * DAY
    task = asyncio.create_task(world.retention.run_forever(RoundTiming(lambda: now, 0.01, steady=lambda: now)))

    async def planned() -> bool:
        at = await world.redis.command("ZSCORE", keys.due("retention", SHARD), f"{ANN} home")
        return bool(float(at) > now + 600)

    await world.retention.look_for_channels(now)
    now += SOONEST
    await wait_until(planned)
    assert await world.ids("home") == ["2", "1"]
    now = NOW + 7 * DAY + SOONEST
    await wait_until(planned)
    assert await world.ids("home") == ["2"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
