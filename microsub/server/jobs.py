"""Jobs of a worker, periodic or by command, and the handlers of its queues.

A command needs one of them, so each is loaded at its first use, by way of the features' faces.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import structlog

from microsub import admin, articles, delivery, polling, post_store, posts, search, timelines, websub
from microsub.base.errors import StoreError
from microsub.base.settings import Settings
from microsub.configuration.document import check
from microsub.redis.presence import TO_COME, ProcessCounts
from microsub.server.stores import Stores, following, ingest, signed_feeds
from microsub.work import DeadLetter, DeadLetters, Handler, Stream

if TYPE_CHECKING:
    from microsub.parsing.pool import ParsePool

log = structlog.get_logger(__name__)


def hub_deliveries(stores: Stores, stages: delivery.Stages, parser: ParsePool) -> Handler:
    """The handler of what hubs delivered."""
    subscriptions = websub.SubscriptionStore(stores.redis, clock=stores.clock)
    return websub.Deliveries(
        *(stores.feeds, subscriptions, ingest(stores, stages.wake), parser, polling.pushed_fields),
        require_room=stores.room.require,
        clock=stores.clock,
    ).handle


QUEUES: Mapping[str, Callable[[Stores, delivery.Stages, ParsePool], Handler]] = {"pushed": hub_deliveries}
"""The queues of features by name, with what makes the handler of their messages."""


STAGES = ("stored", "incomplete", "articles", *QUEUES)
"""All queues: ids for timelines, ids to be completed, feeds with articles to be read, and those of features."""


def article_stage(
    stores: Stores, page_reader: articles.PageReader, icons: articles.IconFinder | None = None
) -> articles.ArticleStage:
    """The handler of feeds with posts whose full texts may be wanted."""
    parts = (stores.feeds, stores.items, stores.channels, stores.events, Stream(stores.redis, "articles"))
    return articles.ArticleStage(*parts, page_reader, icons=icons, clock=stores.clock)


def letter_retry(stores: Stores) -> Callable[[Sequence[DeadLetter]], Awaitable[list[str]]]:
    """The function that puts dead letters back, and returns failures as text; see `delivery.stage.retry`."""
    return functools.partial(delivery.retry, DeadLetters(stores.redis), store=ingest(stores).add_found, stages=STAGES)


@contextlib.asynccontextmanager
async def worker_to_come(stores: Stores) -> AsyncIterator[None]:
    """A heartbeat for a worker that is about to start, so that no other takes its place.

    It counts for a minute, like any other, or until the end of the block. An unreachable Redis is ignored here.
    """
    name = f"{polling.worker_name()}{TO_COME}"
    with contextlib.suppress(StoreError):
        await stores.presence.beat(name, time.time())
    try:
        yield
    finally:
        with contextlib.suppress(StoreError):
            await stores.presence.leave(name)


def can_search(settings: Settings) -> bool:
    """Whether search is on and this machine's SQLite supports it."""
    if settings.search and not search.is_supported():
        log.warning("posts can't be searched: the SQLite of this Python is older than 3.34, or has no FTS5")
        return False
    return settings.search


def follower(settings: Settings, stores: Stores, timing: search.FollowTiming | None = None) -> search.IndexFollower:
    """The service that updates this machine's index of posts."""
    folder = search.IndexFolder(settings.index)
    return search.IndexFollower(
        stores.redis, stores.items, stores.events, folder, stores.applied.instance, timing=timing
    )


def figures(stores: Stores, index: search.IndexReader | None = None) -> admin.Figures:
    """The service for the counts of users and feeds, and of all processes."""
    counts = ProcessCounts(stores.redis)
    return admin.Figures(stores.feeds, stores.accounts, stores.presence, counts, index, stores.events)


def survey(stores: Stores) -> admin.Survey:
    """The service that surveys all feeds regularly."""
    return admin.Survey(stores.redis, stores.feeds, stores.schedule)


def post_bytes(stores: Stores) -> admin.PostBytes:
    """The service that corrects users' shares of the bytes of posts."""
    parts = (stores.channels, stores.items, stores.outputs, stores.room)
    return admin.PostBytes(stores.redis, stores.accounts, stores.feeds, *parts)


def repacking(stores: Stores) -> posts.Repacking:
    """The service that packs posts of an earlier layout."""
    return posts.Repacking(stores.redis)


def gone_repacking(stores: Stores) -> timelines.GoneRepacking:
    """The service that packs the ids that had left timelines of an earlier layout."""
    return timelines.GoneRepacking(stores.redis, stores.accounts)


def store_of_posts(stores: Stores) -> post_store.PostStore:
    """The post store on open stores."""
    parts = (stores.redis, stores.feeds, stores.items, ingest(stores), stores.events, sweeping(stores))
    return post_store.PostStore(*parts, clock=stores.clock)


def rebuilding(stores: Stores) -> delivery.Rebuilding:
    """The service that fills timelines from the store."""
    stored = Stream(stores.redis, "stored")
    return delivery.Rebuilding(
        stores.redis, stores.channels, stores.items, stored, stores.effective.instance, stores.effective.of
    )


def sweeping(stores: Stores) -> admin.Sweeping:
    """The service that deletes posts to which no timeline refers."""

    async def kept() -> int:
        return (await stores.effective.instance()).keep_per_feed or sys.maxsize

    return admin.Sweeping(stores.redis, stores.accounts, stores.feeds, stores.outputs, kept=kept)


def retention(settings: Settings, stores: Stores) -> timelines.Retention:
    """The service that removes read and old items, and data that was removed long ago."""

    async def declared() -> Collection[str] | None:
        if not settings.backend.exists():
            return ()
        found = (await asyncio.to_thread(check, settings.backend, os.environ)).document
        return None if found is None else found.backend.users.keys()

    return timelines.Retention(
        stores.redis, stores.accounts, stores.channels, stores.items, stores.effective.of, declared
    )


def follow_repair(stores: Stores) -> admin.FollowRepair:
    """The repair of feeds' followers and of the schedule from the channels."""
    return admin.FollowRepair(
        *(stores.redis, stores.accounts, stores.channels, stores.feeds, stores.schedule),
        *(following(stores), signed_feeds(stores)),
    )


async def check_store(stores: Stores, *, repair: bool) -> admin.CheckReport:
    """Check all invariants, and `repair` what can be repaired."""
    return await admin.check_store(stores.redis, follow_repair(stores), repair=repair, clock=stores.clock)
