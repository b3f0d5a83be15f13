"""One connection to Redis and all stores that stand on it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from microsub.config.settings import Settings, mask_password
from microsub.configuration.effective import SettingsInForce
from microsub.configuration.store import Applied
from microsub.services.following import Following
from microsub.store.accounts import Accounts
from microsub.store.activity import Activity
from microsub.store.behind import Behind
from microsub.store.channels import Channels
from microsub.store.connect import connect, doubts
from microsub.store.datafolder import require_data
from microsub.store.embedded import start_embedded
from microsub.store.feeds import Feeds
from microsub.store.items import Items
from microsub.store.migrations import migrate
from microsub.store.port import Redis
from microsub.store.presence import Presence
from microsub.store.revival import Watch, kept_alive
from microsub.store.rules import Rules
from microsub.store.schedule import Schedule
from microsub.store.timelines import Timelines
from microsub.wiring.tasks import tell_failure

if TYPE_CHECKING:  # the pipeline counts what it does, and what counts is slow to load: most commands need neither
    from microsub.pipeline.fan_out import FanOut, TimelineLimits

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Stores:
    """One connection and everything that stands on it. `where` tells people where the data is; `watch` is what is
    known of the life of an embedded Redis.
    """

    redis: Redis
    url: str
    where: str
    accounts: Accounts
    channels: Channels
    timelines: Timelines
    rules: Rules
    feeds: Feeds
    items: Items
    schedule: Schedule
    applied: Applied
    presence: Presence
    in_force: SettingsInForce
    watch: Watch


@contextlib.asynccontextmanager
async def open_stores(settings: Settings, *, create: bool = False) -> AsyncIterator[Stores]:
    """Connect to Redis, the embedded one when no other is given, and bring its data to the present layout.

    With `create` a data folder is made where there is none: for the processes of a server, and what begins one. All
    others work on data that is there. Raises ConfigError, StoreUnavailable or SchemaMismatch, and NotFound where there
    is no data.
    """
    if settings.embedded and not create:
        require_data(settings.data_dir)
    async with contextlib.AsyncExitStack() as stack:
        url = settings.redis_url
        where = f"Redis at {mask_password(url)}" if url else ""
        embedded = None
        if url is None:
            embedded = await asyncio.to_thread(start_embedded, settings.data_dir)
            stack.push_async_callback(asyncio.to_thread, embedded.stop)
            url, where = embedded.url, f"{embedded.data_dir} (embedded Redis {embedded.version})"
        redis = await connect(url, replicas=None if settings.embedded else settings.redis_replicas)
        stack.push_async_callback(redis.aclose)
        watch = Watch()
        if embedded is not None:
            watch = await stack.enter_async_context(kept_alive(embedded, redis, ended=tell_failure))
        await migrate(redis)
        yield _stores(redis, url, where, watch)


async def warn_of_losses(settings: Settings, stores: Stores) -> None:
    """Log, for a Redis that isn't ours to configure, which of its settings may lose data."""
    if not settings.embedded:
        for sentence in await doubts(stores.redis):
            log.warning(sentence)


def _stores(redis: Redis, url: str, where: str, watch: Watch) -> Stores:
    items = Items(redis)
    channels = Channels(redis)
    applied = Applied(redis)
    return Stores(
        redis=redis,
        url=url,
        where=where,
        accounts=Accounts(redis),
        channels=channels,
        timelines=Timelines(redis, items),
        rules=Rules(redis, items),
        feeds=Feeds(redis),
        items=items,
        schedule=Schedule(redis),
        applied=applied,
        presence=Presence(redis),
        in_force=SettingsInForce(applied, channels),
        watch=watch,
    )


def following(stores: Stores) -> Following:
    """The use case that connects channels with feeds."""
    return Following(
        stores.channels, stores.feeds, stores.items, stores.timelines, stores.schedule, TimelineLimitsInForce(stores)
    )


class TimelineLimitsInForce:
    """What a timeline takes, from the settings in force."""

    def __init__(self, stores: Stores) -> None:
        self._in_force = stores.in_force

    async def __call__(self, user: str, uid: str) -> TimelineLimits:
        """See `pipeline.fan_out.LimitsOf`."""
        from microsub.pipeline.fan_out import TimelineLimits

        limits = await self._in_force.limits(user, uid)
        return TimelineLimits(items=limits.max_items or 0, fresh=limits.first_fetch_unread or 0)


def fan_out(stores: Stores) -> FanOut:
    """What brings posts into timelines."""
    from microsub.pipeline.fan_out import FanOut, Patient, TimelineLimits

    async def limits() -> Callable[[str], TimelineLimits]:
        of_user = await stores.in_force.limits_of_users()
        made: dict[int, TimelineLimits] = {}  # most of thousands of users share one value, which `of_user` holds

        def known(user: str) -> TimelineLimits:
            limits = of_user(user)
            if (found := made.get(id(limits))) is None:
                found = made[id(limits)] = TimelineLimits(limits.max_items or 0, limits.first_fetch_unread or 0)
            return found

        return known

    delivery = Patient(Activity(stores.redis), Behind(stores.redis), lambda: stores.in_force.instance_now().delivery)
    return FanOut(stores.feeds, stores.items, stores.timelines, limits, patient=delivery)
