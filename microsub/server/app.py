"""The web application and its routes.

The Microsub endpoint is matched before Starlette's own routing, because it gets a thousand times more requests than
everything else, and its two addresses need no pattern.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from microsub.accounts import AppRequests
from microsub.admin import HealthReport
from microsub.api.channels import ChannelActions
from microsub.api.endpoint import MicrosubEndpoint
from microsub.api.events import EventActions
from microsub.api.feeds import FeedActions
from microsub.api.timeline import TimelineActions
from microsub.base.errors import StoreError
from microsub.base.plaintext import shown
from microsub.base.rate_limits import RateLimiter
from microsub.base.texts import Sentence
from microsub.feeds import Events, Feeds
from microsub.formats.feed_links import FeedLink
from microsub.greader.api import PATHS as NATIVE_PATHS
from microsub.greader.api import NativeEndpoint
from microsub.greader.contents import NativeContents
from microsub.greader.follows import NativeFollows
from microsub.greader.marks import NativeMarks
from microsub.greader.reads import NativeReading
from microsub.greader.streams import Streams
from microsub.hub import HubEndpoint, TopicEndpoint, topic_actions
from microsub.hub.store import PATH as TOPICS
from microsub.identity import INVITATION_PATH, ConsentPages, OAuthEndpoint, RequestCredentials
from microsub.identity.api import PATHS as OAUTH_PATHS
from microsub.identity.pages import FOLDER as IDENTITY_FOLDER
from microsub.identity.pages import account, connect, sign_in
from microsub.identity.pages.account import CREDENTIALS
from microsub.micropub import MEDIA_PATHS, MediaEndpoint, MicropubEndpoint, MicropubServices, PostEndpoint
from microsub.micropub.api import PATHS as MICROPUB_PATHS
from microsub.micropub.posting import PATH as POSTS
from microsub.model.reader import episodes_in, is_closed
from microsub.outputs import OutputActions, OutputEndpoint
from microsub.post_store import PostStoreEndpoint
from microsub.post_store.api import PATH as POST_STORE
from microsub.posts import Items
from microsub.reader import FOLDERS as READER_FOLDERS
from microsub.reader import installed
from microsub.reader.admin import pages as admin
from microsub.reader.admin.users import UserPages
from microsub.reader.answering import pages as answering
from microsub.reader.channel_list import ChannelList
from microsub.reader.channels import pages as channel_pages
from microsub.reader.channels.filters import FilterPages
from microsub.reader.feeds.chosen import ChosenFeeds
from microsub.reader.feeds.pages import FeedPages
from microsub.reader.first import pages as first
from microsub.reader.follow import preview
from microsub.reader.follow.pages import FollowPages
from microsub.reader.frame import ReaderSite
from microsub.reader.looks import InstanceLooks
from microsub.reader.navigation import NAVIGATION
from microsub.reader.reading import listening, searches
from microsub.reader.reading import pages as reading
from microsub.reader.reading.actions import MarkForms
from microsub.reader.reading.displays import routes as display_routes
from microsub.reader.reading.own_feeds import OwnFeeds
from microsub.reader.reading.pages import TimelinePages
from microsub.reader.reading.post_page import PostPages
from microsub.reader.reading.posts import FeedFaces, PostViews
from microsub.reader.reading.undo import UndoRecords
from microsub.reader.settings import devices, incoming, menu, outputs, rules
from microsub.reader.settings import lists as list_pages
from microsub.reader.settings import services as service_pages
from microsub.reader.settings import shortcuts as shortcut_pages
from microsub.server.backend import AccountChanges
from microsub.server.monitoring import Monitors, health, json_response, metrics
from microsub.server.parts import WebParts
from microsub.server.stores import signed_feeds
from microsub.timelines import ChannelDisplays, Channels, ReadState, SavedPosts
from microsub.transfer import FeedListEndpoint
from microsub.transfer.api import PATHS as LIST_PATHS
from microsub.web.actions import Table
from microsub.web.pages import static_route
from microsub.web.paths import ENDPOINT, HUB, OUTPUTS, WEBMENTION
from microsub.web.responses import error_reply, retry_after
from microsub.web.routes import missing_page
from microsub.web.services import services_in
from microsub.web.shortcuts import KEY_GROUPS, shortcuts
from microsub.web.visit import PageSite
from microsub.webmention import MentionStore, WebmentionEndpoint
from microsub.websub import WebSubEndpoint
from microsub.websub.hubs import PATH as WEBSUB

log = structlog.get_logger(__name__)

LAST_WORD = 0.5
"""Seconds for telling a client that the server is stopping."""
_BEGINNING = "the server is starting and waits for its store: try again in a few seconds"
_ENDING = "the server is stopping: try again in a few seconds"


class Application(Starlette):
    """Starlette with these routes, and with a shortcut to the Microsub `endpoint`."""

    def __init__(self, endpoint: MicrosubEndpoint, routes: Sequence[Route], site: PageSite) -> None:
        self._endpoint = endpoint
        super().__init__(routes=routes, exception_handlers={HTTPException: _http_error(site), 500: _server_error})
        self.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection of any kind."""
        try:
            if scope["type"] == "http" and is_endpoint(scope["path"]):
                await self._endpoint(scope, receive, send)
            else:
                await super().__call__(scope, receive, send)
        except StoreError as error:
            # Before the reply has begun, it becomes an error; later, uvicorn cuts it, as its end can't be known.
            path, kind = shown(scope.get("path", "")), type(error).__name__
            log.error("store failed in the middle of a reply", path=path, kind=kind, detail=str(error))  # noqa: TRY400
            failure = error_reply(error)
            with suppress(RuntimeError):
                await json_response(failure.content, failure.status, {"retry-after": retry_after(error)})(
                    scope, receive, send
                )
        except asyncio.CancelledError:  # the server is stopping, and can't wait for this request any longer
            # If the response has begun, this fails, or waits for a client that reads nothing.
            with suppress(RuntimeError, TimeoutError):
                async with asyncio.timeout(LAST_WORD):
                    await json_response({"error": "server_error", "error_description": _ENDING}, 503)(
                        scope, receive, send
                    )


def create_app(
    parts: WebParts,
    *,
    base_url: str | None = None,
    monitors: Monitors | None = None,
    starters: Sequence[FeedLink] = (),
) -> Starlette:
    """The ASGI application at `base_url`, or by default at the address of the request.

    `monitors` are the clients that may read metrics, by default this machine; `starters` are feeds for new users.
    """
    folders = (IDENTITY_FOLDER, *READER_FOLDERS)
    looks = InstanceLooks(parts.stores.declared, parts.stores.effective.everything)
    known = {"shortcuts": shortcuts, "key_groups": KEY_GROUPS, "episodes_in": episodes_in, "is_closed": is_closed}
    known |= {"services_in": services_in}
    site = PageSite.at(parts.sessions, parts.clock, base_url, folders, NAVIGATION, looks.now, **known)
    routes = [
        *_monitoring_routes(parts, monitors or Monitors()),
        *_program_routes(parts, site),
        static_route(site.pages),
        *_identity_routes(parts, site),
        *installed.routes(site),
        *_reader_routes(parts, site, starters, looks),
    ]
    return Application(_microsub_endpoint(parts), routes, site)


def _monitoring_routes(parts: WebParts, monitors: Monitors) -> list[Route]:
    return [
        Route("/health", health(lambda: parts.health.check(parts.clock()), monitors)),
        Route("/metrics", metrics(lambda: parts.figures.exposition(parts.clock(), parts.health), monitors)),
    ]


def microsub_actions(parts: WebParts) -> Table:
    """All actions of the Microsub endpoint."""
    stores, reading, most, url = parts.stores, parts.reading, parts.quotas.most, parts.settings.public_url
    lists = ChannelActions(reading, stores.channels, parts.following, most, url)
    timelines = TimelineActions(stores.redis, stores.items, reading, stores.rules, parts.picked, most)
    events = EventActions(stores.redis, stores.channels, reading, parts.listeners, lists.listed, parts.clock)
    outputs = OutputActions(stores.outputs, parts.output_contents, stores.channels, parts.picked.among, most, url)
    followed = parts.following, parts.search, parts.entered, parts.post_search, most
    return {
        **lists.table(),
        **timelines.table(),
        **FeedActions(*followed, signed_feeds(stores)).table(),
        **events.table(),
        **outputs.table(),
        **topic_actions(parts.topics),
    }


def _microsub_endpoint(parts: WebParts) -> MicrosubEndpoint:
    return MicrosubEndpoint(
        microsub_actions(parts),
        parts.stores.accounts,
        parts.verification,
        _app_requests(parts),
        clock=parts.clock,
        path=ENDPOINT,
    )


def _app_requests(parts: WebParts) -> AppRequests:
    return AppRequests(parts.quotas, parts.token_used, parts.changed, parts.topics_changed)


def _program_routes(parts: WebParts, site: PageSite) -> list[Route]:
    """The endpoints for programs, except the Microsub endpoint."""
    stores, clock, stylesheet = parts.stores, parts.clock, site.pages.static("pages.css")
    posts = PostStoreEndpoint(parts.posts, parts.service_tokens, clock)
    outputs = OutputEndpoint(
        stores.outputs, parts.output_contents, stores.accounts, parts.sessions, clock, site.address, stylesheet
    )
    micropub = MicropubServices(
        parts.provider.verify,
        parts.token_used,
        stores.accounts,
        parts.quotas,
        stores.channels,
        stores.feeds,
        parts.sources,
        parts.posting,
        parts.media,
        clock,
        parts.settings.public_url,
    )
    mentions, native = WebmentionEndpoint(parts.mentions), _native_endpoint(parts, site)
    grant_of = RequestCredentials(stores.accounts, parts.verification).grant
    lists = FeedListEndpoint(parts.feed_lists, parts.list_imports, parts.quotas, grant_of, clock, parts.changed)
    return [
        Route(f"{POST_STORE}/{{path:path}}", posts),
        Route(f"{OUTPUTS}/{{path:path}}", outputs),
        *(Route(path, MicropubEndpoint(micropub)) for path in MICROPUB_PATHS),
        *(Route(path, MediaEndpoint(micropub)) for path in MEDIA_PATHS),
        Route(f"{POSTS}/{{name:path}}", PostEndpoint(micropub, stylesheet)),
        Route(f"{WEBSUB}{{place:path}}", WebSubEndpoint(parts.callbacks)),
        Route(HUB, HubEndpoint(stores.redis, parts.topics, clock)),
        Route(f"{TOPICS}/{{path:path}}", TopicEndpoint(parts.topics)),
        *(Route(f"{WEBMENTION}{path}", mentions) for path in ("", "/", "/{user}", "/{user}/")),
        *(Route(path, lists) for path in LIST_PATHS),
        *(Route(path, native) for path in NATIVE_PATHS),
    ]


def _native_endpoint(parts: WebParts, site: PageSite) -> NativeEndpoint:
    stores, requests = parts.stores, _app_requests(parts)
    redis = parts.foresight
    channels, feeds, items = Channels(redis), Feeds(redis), Items(redis)
    views = parts.reading.over(redis, channels, feeds, items)
    streams = Streams(redis, channels, views, items, Events(redis))
    translated, base = site.pages.translated, parts.settings.public_url
    contents = NativeContents(redis, channels, feeds, views, translated, base)
    follows = NativeFollows(
        stores.channels,
        parts.following,
        parts.search,
        parts.entered,
        parts.feed_lists,
        parts.list_imports,
        parts.quotas,
    )

    def told(text: str, language: str) -> str:
        return translated(Sentence(text, address=base + account.ACCOUNT), language)

    return NativeEndpoint(
        {
            **NativeReading(redis, streams, contents, views).table(),
            **NativeMarks(stores.redis, stores.channels, stores.items, streams, requests).table(),
            **follows.table(),
        },
        stores.accounts,
        views,
        requests,
        redis,
        told=told,
        clock=parts.clock,
    )


def _identity_routes(parts: WebParts, site: PageSite) -> list[Route]:
    """The pages for signing in, consent and the account; then, as consent has the same path, the OAuth endpoints."""
    provider, local, channels = parts.provider, parts.local, parts.app_channels
    has_search = parts.post_search is not None
    oauth = OAuthEndpoint(provider, parts.clock, site.address.base)
    return [
        *connect.routes(site, parts.doctor),
        *account.routes(site, local, provider, channels, has_search=has_search),
        *ConsentPages(provider, parts.profiles, parts.consents, channels, has_search=has_search).routes(site),
        *sign_in.routes(site, local, parts.signing_in, provider, parts.quotas),
        *(Route(path, oauth) for path in OAUTH_PATHS),
    ]


def is_endpoint(path: str) -> bool:
    """Whether `path` is the Microsub endpoint, with or without user and final slash."""
    if path == ENDPOINT:
        return True
    if not path.startswith(f"{ENDPOINT}/"):
        return False
    rest = path[len(ENDPOINT) + 1 :]
    return rest != "/" and "/" not in rest.removesuffix("/")


def waiting_app(reason: str, monitors: Monitors) -> Starlette:
    """The application of a process that waits for Redis: /health gives the reason; all else is 503."""

    async def check() -> HealthReport:
        return HealthReport("unreachable", "unknown", reason=reason)

    async def later(_: Request) -> Response:
        return json_response({"error": "server_error", "error_description": _BEGINNING}, 503, {"retry-after": "5"})

    everything = Route("/{path:path}", later, methods=["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
    return Starlette(routes=[Route("/health", health(check, monitors)), everything])


def _reader_routes(parts: WebParts, site: PageSite, starters: Sequence[FeedLink], looks: InstanceLooks) -> list[Route]:
    """The pages of the web interface."""
    stores = parts.stores
    links = ChannelList(stores.channels, parts.reading.style, parts.survey.attention)
    keeping = (stores.accounts.set_settings, stores.accounts.revise_setting)

    reader = ReaderSite(site, parts.quotas, links, parts.changed, parts.topics_changed, *keeping)
    read_state = ReadState(stores.redis, stores.items)
    saved, undo = SavedPosts(stores.redis, stores.items), UndoRecords(stores.redis, read_state)
    faces = FeedFaces(stores.feeds)
    views = PostViews(faces, parts.images, parts.reading.own_view.names)
    own_feeds = OwnFeeds(stores.channels, faces)
    signed = signed_feeds(stores)
    chosen = ChosenFeeds(
        *(reader, stores.channels, parts.following, stores.feeds, parts.reading, undo, parts.quotas.most, signed)
    )
    fetches = RateLimiter()  # of full texts, which two pages fetch
    displays = ChannelDisplays(stores.redis)
    posts = PostPages(
        *(reader, parts.reading, views, stores.outputs, parts.answers, parts.articles, fetches, displays),
        clock=parts.clock,
    )
    timelines = TimelinePages(
        *(reader, parts.reading, views, parts.post_search, stores.channels, parts.answers, undo),
        *(displays, own_feeds, stores.feeds),
    )
    return [
        *first.routes(reader, timelines, stores.channels, parts.following, parts.quotas, starters),
        *timelines.routes(),
        *display_routes(reader, displays, parts.following),
        *posts.routes(),
        *searches.routes(reader),
        *listening.routes(reader, read_state),
        *answering.routes(reader, parts.answers, parts.signing_in),
        *reading.routes(reader, stores.redis, parts.listeners, parts.images),
        *MarkForms(reader, parts.reading, read_state, saved, parts.quotas, undo).routes(),
        *FollowPages(
            reader,
            stores.channels,
            stores.feeds,
            parts.following,
            parts.search,
            parts.entered,
            parts.images,
            parts.quotas,
            own_feeds,
            signed,
            stores.effective.of,
        ).routes(),
        *preview.routes(
            reader,
            stores.channels,
            stores.feeds,
            parts.search,
            parts.entered,
            views,
            picked=parts.picked,
            quotas=parts.quotas,
            saved=saved,
            outputs=stores.outputs,
            contents=parts.output_contents,
        ),
        *channel_pages.routes(
            reader,
            stores.channels,
            parts.following,
            stores.feeds,
            parts.reading,
            undo,
            signed=signed,
            quotas=parts.quotas,
            polls=parts.polls,
            settings_of=stores.effective.of,
        ),
        *FeedPages(
            reader,
            stores.channels,
            parts.following,
            stores.feeds,
            parts.reading,
            parts.images,
            polls=parts.polls,
            settings_of=stores.effective.of,
            signed=signed,
            most=parts.quotas.most,
            articles=parts.articles,
            limiter=fetches,
            search=parts.search,
            entered=parts.entered,
            chosen=chosen,
            read_state=read_state,
        ).routes(),
        *admin.routes(
            site,
            parts.quotas,
            overview=parts.overview,
            survey=parts.survey,
            post_search=parts.post_search,
            feeds=stores.feeds,
            polls=parts.polls,
            dead=parts.dead_letters,
            retry=parts.retry_letters,
            hubs=parts.subscription_store,
            users=UserPages(
                stores.accounts,
                parts.activity,
                parts.local.credentials,
                AccountChanges(parts.config, stores),
                INVITATION_PATH,
                CREDENTIALS,
            ),
            accounts=stores.accounts,
            settings=stores.declared,
            applied=stores.applied,
            backend=parts.backend,
            looks=looks,
            changed=stores.effective.forget,
        ),
        *FilterPages(reader, stores.accounts, stores.channels, parts.reading, undo, read_state).routes(),
        *menu.routes(reader),
        *shortcut_pages.routes(reader),
        *service_pages.routes(reader),
        *list_pages.routes(
            reader,
            parts.feed_lists,
            parts.list_imports,
            stores.accounts,
            parts.user_export,
            stores.applied.name_instance,
            stores.effective.of,
        ),
        *outputs.routes(reader, stores.outputs, parts.output_contents, stores.channels, parts.quotas),
        *rules.routes(reader, stores.rules, stores.channels, parts.quotas),
        *incoming.routes(reader, parts.sources, MentionStore(stores.redis), stores.rules, parts.quotas),
        *devices.routes(reader, parts.devices, parts.sessions),
    ]


def _http_error(site: PageSite) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
        if (page := await missing_page(site, request, status, headers)) is not None:
            return page
        code = "not_found" if status == 404 else "invalid_request"
        where = f"there is nothing at '{request.url.path[:200]}'"
        text = where if status == 404 else f"HTTP method not allowed here: {request.method}"
        return json_response({"error": code, "error_description": text}, status, headers)

    return answer


async def _server_error(_: Request, __: Exception) -> Response:
    return json_response(
        {"error": "server_error", "error_description": "the server failed; its log has the details"}, 500
    )
