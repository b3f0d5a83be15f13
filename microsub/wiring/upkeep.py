"""What keeps the store in shape, by itself or at an admin's word."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import time
from collections.abc import Collection, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING

from microsub.settings import Settings
from microsub.wiring.stores import Stores, following

if TYPE_CHECKING:  # a command needs one of these, which is imported where it is built
    from microsub.check.command import Checking
    from microsub.delivery.rebuilding import Rebuilding
    from microsub.ekster.importing import OldFile
    from microsub.ekster.report import ImportReport
    from microsub.timelines.retention import Retention
    from microsub.upkeep.figures import Figures
    from microsub.upkeep.follow_repair import FollowRepair
    from microsub.upkeep.sweep import Sweeping


def upkeep(settings: Settings, stores: Stores) -> dict[str, Coroutine[None, None, None]]:
    """What runs beside polling for ever, by name. Of all workers one at a time has its turn with each part; only
    reminding remembers its last round, so that each has its own.
    """
    from microsub.feeds.announcing import Announcing
    from microsub.feeds.store.events import Events
    from microsub.kit.periodic import RoundTiming
    from microsub.posts.asking_again import AskingAgain
    from microsub.redis.lease import leased, take_turn
    from microsub.redis.streams import STAGES, Stream
    from microsub.upkeep.outbox import Reminding
    from microsub.upkeep.stream_consumers import RollCall
    from microsub.upkeep.sweep import BETWEEN_SWEEPS

    pace = RoundTiming(turn=functools.partial(take_turn, stores.redis))
    sweeps = replace(pace, between=BETWEEN_SWEEPS)
    alone = functools.partial(leased, stores.redis, "sweep")
    return {
        "retention": retention(settings, stores).run_for_ever(pace),
        "sweep": sweeping(stores).run_for_ever(alone, sweeps),
        "follow_repair": follow_repair(stores).run_for_ever(pace),
        "moves": follow_repair(stores).finish_moves_for_ever(pace),
        "reminding": Reminding(
            stores.feeds, stores.items, Stream(stores.redis, "stored"), Announcing(Events(stores.redis))
        ).run_for_ever(),
        "asking_again": AskingAgain(stores.redis, stores.items, Stream(stores.redis, "incomplete")).run_for_ever(pace),
        "figures": figures(stores).publish_for_ever(),
        "roll_call": RollCall([Stream(stores.redis, name) for name in STAGES]).run_for_ever(pace),
    }


def figures(stores: Stores) -> Figures:
    """The service that counts users and feeds, and what processes have counted."""
    from microsub.redis.processcounts import ProcessCounts
    from microsub.upkeep.figures import Figures

    return Figures(stores.feeds, stores.accounts, stores.presence, ProcessCounts(stores.redis))


def rebuilding(stores: Stores) -> Rebuilding:
    """The service that fills timelines from the store."""
    from microsub.delivery.rebuilding import Rebuilding
    from microsub.redis.streams import Stream

    stored = Stream(stores.redis, "stored")
    return Rebuilding(stores.redis, stores.channels, stores.items, stored, stores.in_force.instance_now)


def sweeping(stores: Stores) -> Sweeping:
    """The service that lets items go which nobody refers to."""
    from microsub.upkeep.sweep import Sweeping

    def kept() -> int:
        return stores.in_force.instance_now().keep_per_feed or sys.maxsize

    return Sweeping(stores.redis, stores.accounts, stores.feeds, kept=kept)


def retention(settings: Settings, stores: Stores) -> Retention:
    """The service that lets read and old items go, and what was removed long ago."""

    from microsub.timelines.retention import Retention

    async def declared() -> Collection[str] | None:
        if not settings.backend.exists():
            return ()
        from microsub.configuration.document import check

        found = (await asyncio.to_thread(check, settings.backend, os.environ)).document
        return None if found is None else found.backend.users.keys()

    return Retention(stores.redis, stores.accounts, stores.channels, stores.items, stores.in_force.of, declared)


def follow_repair(stores: Stores) -> FollowRepair:
    """The repair of feeds' followers and of the schedule, by what the channels say."""
    from microsub.upkeep.follow_repair import FollowRepair

    return FollowRepair(stores.accounts, stores.channels, stores.feeds, stores.schedule, following(stores))


async def import_ekster(stores: Stores, file: OldFile, url: str, user: str, *, dry_run: bool) -> ImportReport:
    """Take over the older Go server's file and its Redis at `url` for a user. Raises what `open_old` raises."""
    from microsub.ekster.importing import Importing
    from microsub.ekster.store import open_old
    from microsub.parsing.pool import ParsePool
    from microsub.posts.store.imported import Imported
    from microsub.wiring.backend import applier

    parser = ParsePool()
    importing = Importing(stores.redis, stores.accounts, stores.channels, stores.feeds, stores.items, stores.adder,
                          stores.schedule, Imported(stores.redis), stores.in_force.of,
                          applier(stores), parser)  # fmt: skip
    try:
        async with open_old(url, stores.redis) as source:
            return await importing.run(user, file, source, time.time(), dry_run=dry_run)
    finally:
        parser.close()


def checking(stores: Stores) -> Checking:
    """The check of all invariants, and their repair."""
    from microsub.check.command import Checking

    return Checking(stores.redis, follow_repair(stores))
