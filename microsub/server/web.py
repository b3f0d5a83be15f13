"""Builds the web application for reader apps and programs."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial

from starlette.types import ASGIApp

from microsub.accounts.activity import Activity, ActivityNotes, TokenUse
from microsub.accounts.credentials import AttemptCounts
from microsub.accounts.foreign import ForeignTokens
from microsub.accounts.quotas import RequestRate, UserQuotas
from microsub.accounts.sessions import PendingStore, Sessions
from microsub.accounts.store import Accounts, ServiceTokens
from microsub.admin.health import Health
from microsub.admin.hours import Hours
from microsub.admin.overview import ServerOverview
from microsub.backend_file.sync import Configuration
from microsub.base.settings import Settings
from microsub.cache import CachingFetcher
from microsub.configuration.effective import EffectiveSettings
from microsub.configuration.model import Registration
from microsub.discovery.directory import Directory
from microsub.discovery.entered import EnteredAddresses
from microsub.discovery.picked import PickedPosts
from microsub.discovery.search import PARSE_PATIENCE, PARSE_SECONDS, Search
from microsub.feeds.push_health import PushState
from microsub.fetch import Fetcher
from microsub.hub.store import TopicChanges
from microsub.identity.admission import Admission, UserAddresses
from microsub.identity.clients import ClientApps, ConsentLimit
from microsub.identity.foreign_tokens import ForeignTokenCheck, Introspection
from microsub.identity.local_sign_in import LocalSignIn
from microsub.identity.page_check import PageDoctor
from microsub.identity.profiles import Profiles
from microsub.identity.protocol.documents import profile_page
from microsub.identity.provider import IndieAuthProvider
from microsub.identity.sign_in import SignInClient, SignInLimits
from microsub.micropub.media import Media
from microsub.micropub.posting import Posting
from microsub.parsing.pool import ParsePool
from microsub.polling.on_demand import PollOnRequest
from microsub.post_store.posts import Posts
from microsub.posts.imported import Imported
from microsub.reader.answering.answers import Answers
from microsub.reader.first.pages import starter_feeds
from microsub.reader.reading.images import Images
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.tracking import Tracker
from microsub.search import STANDING_BY, IndexFolder, IndexReader, PostSearch
from microsub.server.app import create_app
from microsub.server.fetching import open_caching_fetcher, open_fetcher
from microsub.server.monitoring import Monitors
from microsub.server.parsers import TASKS
from microsub.server.stores import (
    Stores,
    callback_base,
    catch_up,
    feed_lists,
    following,
    hub_topics,
    ingest,
    output_contents,
    sources,
    tell_failure,
    user_export,
)
from microsub.server.surface import IdentityServices, Services
from microsub.server.worker import STAGES, can_search, figures, follower, letter_retry, post_store, survey
from microsub.timelines.item_cache import ItemCache
from microsub.timelines.sync.live_events import Listeners
from microsub.timelines.views import ReaderViews
from microsub.transfer import ListImports
from microsub.webmention.receiver import MentionReceiver
from microsub.webmention.store import MentionStore
from microsub.webpush.devices import Devices
from microsub.websub.callbacks import Callbacks
from microsub.websub.store import SubscriptionStore, push_state
from microsub.work import DeadLetters


@contextlib.asynccontextmanager
async def open_app(
    settings: Settings, stores: Stores, config: Configuration
) -> AsyncIterator[tuple[ASGIApp, Callable[[], None]]]:
    """The ASGI application with its cache of items, and a function that ends all parsing and event streams.

    Call the function before the server waits for open requests: those waiting for parsing are then answered at once.
    """
    tracker = Tracker(stores.url, keys.ITEM_PREFIX)
    cache = ItemCache(stores.items, tracker, max_bytes=settings.item_cache_mb * 1024 * 1024)
    parser = ParsePool(TASKS, seconds=PARSE_SECONDS, patience=PARSE_PATIENCE)
    listeners = Listeners(Tracker(stores.url, keys.LIVE_EVENTS_PREFIX))

    def stop() -> None:
        parser.stop()
        listeners.stop()

    async with (
        open_caching_fetcher(settings, stores, shared=True) as fetcher,
        open_fetcher(settings, stores) as plain,
    ):
        identity = make_identity(settings, stores.redis, plain, parser, stores.effective)
        reading, used = app_reading(stores, cache), ActivityNotes(TokenUse(stores.redis).note)
        try:
            services = app_services(
                settings, stores, reading, parser, config, identity, listeners, searching=fetcher, plain=plain
            )
            services = replace(services, token_used=used.note)
            starters = starter_feeds(settings.starter_feeds)
            monitors = monitors_of(settings)
            async with _index(settings, stores) as index:
                if index is not None:
                    # Each has its own limits, so that requests for output feeds don't block their users' searches.
                    own, finding = (_post_search(stores, reading, index, visits=visits) for visits in (True, False))
                    contents = output_contents(
                        stores, partial(identity.quotas.most, "output_items"), finding, reading.fill, settings.base_url
                    )
                    services = replace(services, post_search=own, output_contents=contents)
                    services = replace(services, figures=figures(stores, index))
                topics = hub_topics(settings, stores, services.output_contents, reading.fill)
                if topics is not None:
                    services = replace(services, topics=topics, topics_changed=noting_topics(stores))
                yield create_app(services, base_url=settings.base_url, monitors=monitors, starters=starters), stop
        finally:
            stop()
            await services.list_imports.aclose()
            identity.local.close()
            await reading.aclose()
            await used.aclose()
            await cache.aclose()
            await listeners.aclose()


def monitors_of(settings: Settings) -> Monitors:
    """The clients that may read metrics and the details of /health."""
    return Monitors(settings.metrics_networks, settings.metrics_token, settings.trusted_proxies)


@contextlib.asynccontextmanager
async def _index(settings: Settings, stores: Stores) -> AsyncIterator[IndexReader | None]:
    """This machine's index of posts, if search is on. This process writes it if no worker here does."""
    if not can_search(settings):
        yield None
        return
    index = IndexReader(IndexFolder(settings.index))
    writing = asyncio.create_task(follower(settings, stores, STANDING_BY).run_forever(), name="search")
    writing.add_done_callback(tell_failure)
    try:
        yield index
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await asyncio.to_thread(index.close)


def noting_topics(stores: Stores) -> Callable[[str, float], Awaitable[object]]:
    """The function that records that a user's topics may have changed."""
    changes = TopicChanges(stores.redis)
    return lambda user, now: changes.note([user], (), now)


def _post_search(stores: Stores, reading: ReaderViews, index: IndexReader, *, visits: bool) -> PostSearch:
    return PostSearch(stores.redis, stores.channels, stores.feeds, reading, index, visits=visits)


def app_reading(stores: Stores, cache: ItemCache) -> ReaderViews:
    """The use cases of reading; timelines are filled first for users who were away."""
    style, seen = stores.effective.unread_style, ActivityNotes(Activity(stores.redis).note)
    return ReaderViews(
        stores.redis,
        stores.channels,
        stores.feeds,
        stores.items,
        cache,
        style=style,
        catch_up=catch_up(stores),
        seen=seen,
    )


def app_services(
    settings: Settings,
    stores: Stores,
    reading: ReaderViews,
    parser: ParsePool,
    config: Configuration,
    identity: IdentityServices,
    listeners: Listeners,
    *,
    searching: CachingFetcher,
    plain: Fetcher,
) -> Services:
    """The application's services. Searches fetch with `searching`, all others with `plain`, which has no cache."""
    directory, media = Directory(stores.feeds, stores.effective.instance_now), Media(stores.redis)
    health = Health(stores.presence, lambda: config.status, _push_state(settings, stores))
    search, entered = Search(searching, directory, parser), EnteredAddresses(stores.redis)
    found = survey(stores)
    lists, subscription_store = feed_lists(settings, stores, parser), SubscriptionStore(stores.redis)
    return Services(
        accounts=stores.accounts,
        reading=reading,
        redis=stores.redis,
        channels=stores.channels,
        items=stores.items,
        feeds=stores.feeds,
        images=Images(stores.redis, plain),
        answers=Answers(stores.redis, plain),
        devices=Devices(stores.redis),
        following=following(stores),
        rules=stores.rules,
        search=search,
        entered=entered,
        picked=PickedPosts(
            search,
            entered,
            Imported(stores.redis),
            stores.items,
            stores.room,
            stores.feeds,
            stores.channels.followed_feeds,
        ),
        feed_lists=lists,
        list_imports=ListImports(stores.redis, lists, identity.quotas, config.touched, stores.clock),
        user_export=user_export(stores),
        health=health,
        figures=figures(stores),
        posts=Posts(stores.feeds, stores.items, stores.events),
        callbacks=Callbacks(stores.redis, stores.feeds, stores.schedule, subscription_store, clock=stores.clock),
        mentions=mention_receiver(stores, settings.public_url),
        service_tokens=ServiceTokens(stores.redis),
        identity=identity,
        overview=ServerOverview(
            stores.redis, health, stores.accounts, stores.presence, found, Hours(stores.redis), STAGES
        ),
        survey=found,
        polls=PollOnRequest(stores.feeds, stores.schedule),
        dead_letters=DeadLetters(stores.redis),
        retry_letters=letter_retry(stores),
        subscription_store=subscription_store,
        applied=stores.applied,
        activity=Activity(stores.redis),
        backend=lambda: config.status,
        outputs=stores.outputs,
        output_contents=output_contents(
            stores, partial(identity.quotas.most, "output_items"), fill=reading.fill, base_url=settings.base_url
        ),
        listeners=listeners,
        sources=sources(stores),
        posting=posting(stores, parser, media),
        media=media,
        settings_of=stores.effective.of,
        name_instance=stores.applied.name_instance,
        changed=config.touched,
        public_url=settings.public_url,
        clock=stores.clock,
    )


def posting(stores: Stores, parser: ParsePool, media: Media) -> Posting:
    """The service that accepts posts from sources."""
    erase = post_store(stores).delete
    parts = (stores.redis, stores.feeds, stores.items, ingest(stores), parser, media, erase)
    return Posting(*parts, clock=stores.clock, require_room=stores.room.require)


def mention_receiver(stores: Stores, base: str, steady: Callable[[], float] = time.monotonic) -> MentionReceiver:
    """The receiver of webmentions, for a server at `base`."""
    store, hosted_profile = MentionStore(stores.redis), partial(profile_page, base)
    parts = (store, stores.accounts, stores.rules, stores.effective)
    return MentionReceiver(*parts, hosted_profile=hosted_profile, own=base, clock=stores.clock, steady=steady)


def _push_state(settings: Settings, stores: Stores) -> Callable[[float], Awaitable[PushState]] | None:
    return None if callback_base(settings) is None else partial(push_state, stores.redis)


def make_identity(
    settings: Settings, redis: Redis, fetcher: Fetcher, parser: ParsePool, effective: EffectiveSettings
) -> IdentityServices:
    """All use cases of identity. `fetcher` has no cache; `parser` reads strangers' pages."""
    private = bool(settings.allow_private_networks)
    profiles = Profiles(fetcher, parser, private=private, own=settings.public_url)
    vouching = Introspection(fetcher, profiles, own=settings.public_url, private=private)
    accounts = Accounts(redis)
    quotas = UserQuotas(effective, accounts, RequestRate(AttemptCounts(redis)))

    async def registration() -> Registration:
        return (await effective.instance()).registration

    admission = Admission(accounts, profiles, registration, private=private)
    hosted_profile = partial(profile_page, settings.public_url)
    sessions, addresses = Sessions(redis, hosted_profile), UserAddresses(accounts, hosted_profile)
    return IdentityServices(
        profiles=profiles,
        provider=IndieAuthProvider(redis, ClientApps(fetcher, parser), partial(quotas.most, "tokens"), hosted_profile),
        sessions=sessions,
        local=LocalSignIn(redis, sessions, addresses),
        signing_in=SignInClient(
            PendingStore(redis), profiles, fetcher, admission, SignInLimits(addresses), private=private
        ),
        verification=ForeignTokenCheck(ForeignTokens(redis), vouching, lambda: effective.instance_now().identity),
        doctor=PageDoctor(fetcher, parser, private=private),
        quotas=quotas,
        consents=ConsentLimit(AttemptCounts(redis)),
    )
