"""The web application: which address is answered by what, and what needs no token.

The Microsub endpoint is found before Starlette's own routing, because it is asked a thousand times more often than
everything else and its two addresses need no pattern.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from microsub.identity.api.oauth import PATHS as OAUTH_PATHS
from microsub.identity.api.oauth import OAuthEndpoint
from microsub.identity.pages import page_routes
from microsub.identity.web.routing import missing_page
from microsub.identity.web.site import PageSite, make_site
from microsub.kit.http.responses import CORS
from microsub.library.api import PATH as POST_STORE
from microsub.library.api import PostStoreEndpoint
from microsub.monitoring import Monitors
from microsub.surface import Services
from microsub.timelines.api.endpoint import MicrosubEndpoint

ENDPOINT = "/microsub"

_ENDING = "the server is stopping: try again in some seconds"

Page = Callable[[Request], Awaitable[Response]]


class Application(Starlette):
    """Starlette, with the shortest way to the Microsub endpoint."""

    def __init__(self, services: Services, base_url: str | None, monitors: Monitors) -> None:
        self._endpoint = MicrosubEndpoint(services, ENDPOINT)
        site = make_site(services, base_url)
        oauth = OAuthEndpoint(services, site.address.base)
        routes = [
            Route("/health", _health(services, monitors)),
            Route("/metrics", _metrics(services, monitors)),
            Route(f"{POST_STORE}/{{path:path}}", PostStoreEndpoint(services)),
            *page_routes(site),
            *(Route(path, oauth) for path in OAUTH_PATHS),
        ]
        super().__init__(routes=routes, exception_handlers={HTTPException: _http_error(site), 500: _server_error})
        self.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of any kind that ASGI knows."""
        try:
            if scope["type"] == "http" and is_endpoint(scope["path"]):
                await self._endpoint(scope, receive, send)
            else:
                await super().__call__(scope, receive, send)
        except asyncio.CancelledError:  # the server ends, and can't wait for this request any longer
            with suppress(RuntimeError):  # where the answer has begun
                await _json({"error": "server_error", "error_description": _ENDING}, 503)(scope, receive, send)


def create_app(services: Services, *, base_url: str | None = None, monitors: Monitors | None = None) -> Starlette:
    """The ASGI application. `base_url` is where the outside sees it; without one the request's own address is shown.

    `monitors` are who may see metrics, by default this machine.
    """
    return Application(services, base_url, monitors or Monitors())


def is_endpoint(path: str) -> bool:
    """Whether `path` is the Microsub endpoint's: with or without a user, with or without a slash at its end."""
    if path == ENDPOINT:
        return True
    if not path.startswith(f"{ENDPOINT}/"):
        return False
    rest = path[len(ENDPOINT) + 1 :]
    return rest != "/" and "/" not in rest.removesuffix("/")


def _health(services: Services, monitors: Monitors) -> Page:
    async def health(request: Request) -> Response:
        report = await services.health.check(services.clock())
        content: dict[str, str | float] = {"status": report.status}
        if monitors.admits(request):
            content |= {"redis": report.redis, "worker": report.worker, "backend": report.backend}
            if report.worker_age is not None:
                content["worker_last_seen_seconds"] = report.worker_age
            if report.reason is not None:
                content["reason"] = report.reason
        return _json(content, 200 if report.status == "ok" else 503)

    return health


def _metrics(services: Services, monitors: Monitors) -> Page:
    async def exposition(request: Request) -> Response:
        if not monitors.admits(request):
            where = "metrics are shown to MICROSUB_METRICS_NETWORKS, and for MICROSUB_METRICS_TOKEN"
            return _json({"error": "forbidden", "error_description": where}, 403)
        body, content_type = await services.figures.exposition(services.clock())
        return Response(body, headers={"content-type": content_type})

    return exposition


def _http_error(site: PageSite) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
        if (page := missing_page(site, request, status, headers)) is not None:
            return page
        code = "not_found" if status == 404 else "invalid_request"
        where = f"there is nothing at '{request.url.path[:200]}'"
        text = where if status == 404 else f"{request.method} is not usable here"
        return _json({"error": code, "error_description": text}, status, headers)

    return answer


async def _server_error(_: Request, __: Exception) -> Response:
    return _json({"error": "server_error", "error_description": "the server failed; its log has the details"}, 500)


def _json(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    response = Response(orjson.dumps(content), status, headers={"cache-control": "no-store", **(headers or {})})
    response.raw_headers += [(b"content-type", b"application/json"), *CORS]
    return response
