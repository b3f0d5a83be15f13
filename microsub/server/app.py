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

from microsub.admin.health import HealthReport
from microsub.api.channels import ChannelActions
from microsub.api.endpoint import MicrosubEndpoint
from microsub.api.events import EventActions
from microsub.api.feeds import FeedActions
from microsub.api.timeline import TimelineActions
from microsub.base.errors import StoreError
from microsub.base.plaintext import shown
from microsub.hub.api import HubEndpoint, TopicActions, TopicEndpoint
from microsub.hub.topics import PATH as TOPICS
from microsub.identity.api import PATHS as OAUTH_PATHS
from microsub.identity.api import OAuthEndpoint, RequestCredentials
from microsub.identity.app_channels import AppChannels
from microsub.identity.pages import FOLDER as IDENTITY_FOLDER
from microsub.identity.pages import account, sign_in, start
from microsub.identity.pages.consent import ConsentPages
from microsub.micropub.api import MEDIA_PATHS, MediaEndpoint, MicropubEndpoint, MicropubServices, PostEndpoint
from microsub.micropub.api import PATHS as MICROPUB_PATHS
from microsub.micropub.posting import PATH as POSTS
from microsub.outputs.api.actions import OutputActions
from microsub.outputs.api.documents import OutputEndpoint
from microsub.post_store.api import PATH as POST_STORE
from microsub.post_store.api import PostStoreEndpoint
from microsub.reader import FOLDERS as READER_FOLDERS
from microsub.reader import NAVIGATION, installed
from microsub.reader.admin import pages as admin
from microsub.reader.answering import pages as answering
from microsub.reader.channel_list import ChannelList
from microsub.reader.channels import filters
from microsub.reader.channels import pages as channel_pages
from microsub.reader.first import pages as first
from microsub.reader.first.pages import StarterFeed
from microsub.reader.follow import preview
from microsub.reader.follow.pages import FollowPages
from microsub.reader.frame import ReaderSite
from microsub.reader.reading import pages as reading
from microsub.reader.reading.actions import MarkForms
from microsub.reader.reading.pages import TimelinePages
from microsub.reader.reading.post_page import PostPages
from microsub.reader.reading.posts import PostViews
from microsub.reader.reading.undo import UndoRecords
from microsub.reader.settings import devices, incoming, menu, outputs, rules
from microsub.reader.settings import lists as list_pages
from microsub.server.monitoring import Monitors, health, json_response, metrics
from microsub.server.surface import Services
from microsub.timelines.read_state import ReadState
from microsub.timelines.saved import SavedPosts
from microsub.transfer.api import PATHS as LIST_PATHS
from microsub.transfer.api import FeedListEndpoint
from microsub.web.actions import Table
from microsub.web.pages import static_route
from microsub.web.paths import ENDPOINT, HUB, OUTPUTS, WEBMENTION
from microsub.web.responses import error_reply, retry_after
from microsub.web.routes import missing_page
from microsub.web.visit import PageSite
from microsub.webmention.receiver import WebmentionEndpoint
from microsub.webmention.store import MentionStore
from microsub.websub.callbacks import WebSubEndpoint
from microsub.websub.hubs import PATH as WEBSUB

log = structlog.get_logger(__name__)

LAST_WORD = 0.5
"""Seconds for telling a client that the server is stopping."""
_BEGINNING = "the server is starting and waits for its store: try again in a few seconds"
_ENDING = "the server is stopping: try again in a few seconds"


def microsub_actions(services: Services) -> Table:
    """All actions of the Microsub endpoint."""
    most, url = services.identity.quotas.most, services.public_url
    reading, channels, following = services.reading, services.channels, services.following
    lists = ChannelActions(reading, channels, following, most, url)
    return {
        **lists.table(),
        **TimelineActions(services.redis, services.items, reading, services.rules, services.picked, most).table(),
        **FeedActions(following, services.search, services.entered, services.post_search, most).table(),
        **EventActions(services.redis, channels, reading, services.listeners, lists.listed, services.clock).table(),
        **OutputActions(services.outputs, services.output_contents, channels, services.picked.among, most, url).table(),
        **TopicActions(services.topics).table(),
    }


class Application(Starlette):
    """Starlette, with a shortcut to the Microsub endpoint."""

    def __init__(
        self, services: Services, base_url: str | None, monitors: Monitors, starters: Sequence[StarterFeed]
    ) -> None:
        self._endpoint = MicrosubEndpoint(
            microsub_actions(services),
            services.accounts,
            services.identity.verification,
            services.identity.quotas,
            clock=services.clock,
            changed=services.changed,
            topics_changed=services.topics_changed,
            used=services.token_used,
            path=ENDPOINT,
        )
        site = PageSite.at(
            services.identity.sessions,
            services.clock,
            base_url,
            (IDENTITY_FOLDER, *READER_FOLDERS),
            NAVIGATION,
        )
        identity, has_search = services.identity, services.post_search is not None
        channels = AppChannels(services.channels, services.sources, identity.quotas, services.changed)
        consent = ConsentPages(identity.provider, identity.profiles, identity.consents, channels, has_search=has_search)
        oauth = OAuthEndpoint(identity.provider, services.clock, site.address.base)
        lists = FeedListEndpoint(
            services.feed_lists,
            services.list_imports,
            identity.quotas,
            RequestCredentials(services.accounts, identity.verification).grant,
            services.clock,
            services.changed,
        )
        mentions = WebmentionEndpoint(services.mentions)
        micropub = MicropubServices(
            services.identity.provider.verify,
            services.token_used,
            services.accounts,
            services.identity.quotas,
            services.channels,
            services.feeds,
            services.sources,
            services.posting,
            services.media,
            services.clock,
            services.public_url,
        )
        routes = [
            Route("/health", health(lambda: services.health.check(services.clock()), monitors)),
            Route(
                "/metrics", metrics(lambda: services.figures.exposition(services.clock(), services.health), monitors)
            ),
            Route(
                f"{POST_STORE}/{{path:path}}",
                PostStoreEndpoint(services.posts, services.service_tokens, services.clock),
            ),
            Route(
                f"{OUTPUTS}/{{path:path}}",
                OutputEndpoint(
                    services.outputs,
                    services.output_contents,
                    services.accounts,
                    identity.sessions,
                    services.clock,
                    site.address,
                    site.pages.static("pages.css"),
                ),
            ),
            *(Route(path, MicropubEndpoint(micropub)) for path in MICROPUB_PATHS),
            *(Route(path, MediaEndpoint(micropub)) for path in MEDIA_PATHS),
            Route(f"{POSTS}/{{name:path}}", PostEndpoint(micropub, site.pages.static("pages.css"))),
            Route(f"{WEBSUB}{{place:path}}", WebSubEndpoint(services.callbacks)),
            Route(HUB, HubEndpoint(services.redis, services.topics, services.clock)),
            Route(f"{TOPICS}/{{path:path}}", TopicEndpoint(services.topics)),
            *(Route(f"{WEBMENTION}{path}", mentions) for path in ("", "/", "/{user}", "/{user}/")),
            static_route(site.pages),
            *start.routes(site, identity.doctor),
            *account.routes(site, identity.local, identity.provider, channels, has_search=has_search),
            *consent.routes(site),
            *sign_in.routes(site, identity.local, identity.signing_in, identity.provider, identity.quotas),
            *installed.routes(site),
            *_reader_routes(services, site, starters),
            *(Route(path, oauth) for path in OAUTH_PATHS),
            *(Route(path, lists) for path in LIST_PATHS),
        ]
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
    services: Services,
    *,
    base_url: str | None = None,
    monitors: Monitors | None = None,
    starters: Sequence[StarterFeed] = (),
) -> Starlette:
    """The ASGI application at `base_url`, or by default at the address of the request.

    `monitors` are the clients that may read metrics, by default this machine; `starters` are feeds for new users.
    """
    return Application(services, base_url, monitors or Monitors(), starters)


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


def _reader_routes(services: Services, site: PageSite, starters: Sequence[StarterFeed]) -> list[Route]:
    """The pages of the web interface."""
    links = ChannelList(services.channels, services.reading.style, services.survey.attention)
    identity = services.identity
    reader = ReaderSite(site, identity.quotas, links, services.changed, services.topics_changed)
    read_state = ReadState(services.redis, services.items.scores)
    saved, undo = SavedPosts(services.redis, services.items), UndoRecords(services.redis, read_state)
    views = PostViews(services.feeds, services.images, services.reading.own_names)
    posts = PostPages(reader, services.reading, views, services.outputs, services.answers)
    timelines = TimelinePages(
        reader, services.reading, views, services.post_search, services.channels, services.answers, undo
    )
    return [
        *first.routes(reader, timelines, services.channels, services.following, identity.quotas, starters),
        *timelines.routes(),
        *posts.routes(),
        *answering.routes(reader, services.answers, identity.signing_in),
        *reading.routes(reader, services.redis, services.listeners, services.images),
        *MarkForms(reader, services.reading, read_state, saved, identity.quotas, undo).routes(),
        *FollowPages(
            reader,
            services.channels,
            services.feeds,
            services.following,
            services.search,
            services.entered,
            services.images,
            identity.quotas,
        ).routes(),
        *preview.routes(
            reader,
            services.channels,
            services.feeds,
            services.search,
            services.entered,
            views,
            picked=services.picked,
            quotas=identity.quotas,
            saved=saved,
            outputs=services.outputs,
            contents=services.output_contents,
        ),
        *channel_pages.routes(
            reader,
            services.channels,
            services.following,
            services.feeds,
            services.reading,
            undo,
            quotas=identity.quotas,
            polls=services.polls,
            survey=services.survey,
            settings_of=services.settings_of,
        ),
        *admin.routes(
            site,
            identity.quotas,
            overview=services.overview,
            survey=services.survey,
            post_search=services.post_search,
            feeds=services.feeds,
            polls=services.polls,
            dead=services.dead_letters,
            retry=services.retry_letters,
            hubs=services.subscription_store,
            accounts=services.accounts,
            activity=services.activity,
            credentials=identity.local.credentials,
            applied=services.applied,
            backend=services.backend,
        ),
        *filters.routes(reader, services.channels, services.reading, undo, read_state),
        *menu.routes(reader),
        *list_pages.routes(
            reader,
            services.feed_lists,
            services.list_imports,
            services.accounts,
            services.user_export,
            services.name_instance,
        ),
        *outputs.routes(reader, services.outputs, services.output_contents, services.channels, identity.quotas),
        *rules.routes(reader, services.rules, services.channels, identity.quotas),
        *incoming.routes(reader, services.sources, MentionStore(services.redis), services.rules, identity.quotas),
        *devices.routes(reader, services.devices, identity.sessions),
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
