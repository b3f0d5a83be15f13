"""The web application: which address is answered by what, and the pages that need no token.

The Microsub endpoint is found before Starlette's own routing, because it is asked a thousand times more often than
everything else and its two addresses need no pattern.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from html import escape

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from microsub import __version__, metrics
from microsub.api.microsub import MicrosubEndpoint
from microsub.api.oauth import PATHS as OAUTH_PATHS
from microsub.api.oauth import OAuthEndpoint
from microsub.api.poststore import PATH as POST_STORE
from microsub.api.poststore import PostStoreEndpoint
from microsub.api.responses import CORS
from microsub.services.bundle import Services
from microsub.web.missing import missing_page
from microsub.web.routes import page_routes
from microsub.web.site import Site, make_site

ENDPOINT = "/microsub"

Page = Callable[[Request], Awaitable[Response]]

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Microsub server</title>
<style>body{{font:1rem/1.5 system-ui,sans-serif;max-width:42rem;margin:3rem auto;padding:0 1rem}}
pre,code{{background:#8882;border-radius:.3rem;padding:.1rem .3rem;overflow-x:auto}}</style>
<h1>This is a Microsub server</h1>
<p>It follows feeds and keeps what its readers have read. You read with an app of your choice.</p>
<p>The Microsub endpoint is <code>{endpoint}</code></p>
<h2>Connect a reader app</h2>
<p>An app that takes an endpoint and a token gets the address above and a token, which the admin makes with
<code>microsub token create USER</code>. An app that asks for your own site finds
the endpoint there, once the page names it:</p>
<pre>&lt;link rel="microsub" href="{endpoint}"&gt;</pre>
<p>To see whether it answers: <code>curl -H "Authorization: Bearer TOKEN" "{endpoint}?action=channels"</code></p>
<p><a href="/health">Health</a> · <a href="/metrics">Metrics</a> · microsub-server {version}</p>
</html>
"""


class Application(Starlette):
    """Starlette, with the shortest way to the Microsub endpoint."""

    def __init__(self, services: Services, base_url: str | None) -> None:
        self._endpoint = MicrosubEndpoint(services, ENDPOINT)
        site = make_site(services, base_url)
        oauth = OAuthEndpoint(services, site.address.base)
        routes = [
            Route("/", _root_page(base_url)),
            Route("/health", _health(services)),
            Route("/metrics", _metrics),
            Route(f"{POST_STORE}/{{path:path}}", PostStoreEndpoint(services)),
            *page_routes(site),
            *(Route(path, oauth) for path in OAUTH_PATHS),
        ]
        super().__init__(routes=routes, exception_handlers={HTTPException: _http_error(site), 500: _server_error})
        self.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of any kind that ASGI knows."""
        if scope["type"] == "http" and is_endpoint(scope["path"]):
            await self._endpoint(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def create_app(services: Services, *, base_url: str | None = None) -> Starlette:
    """The ASGI application. `base_url` is where the outside sees it; without one the request's own address is shown."""
    return Application(services, base_url)


def is_endpoint(path: str) -> bool:
    """Whether `path` is the Microsub endpoint's: with or without a user, with or without a slash at its end."""
    if path == ENDPOINT:
        return True
    if not path.startswith(f"{ENDPOINT}/"):
        return False
    rest = path[len(ENDPOINT) + 1 :]
    return rest != "/" and "/" not in rest.removesuffix("/")


def _root_page(base_url: str | None) -> Page:
    async def root(request: Request) -> Response:
        base = (base_url or str(request.base_url)).rstrip("/")
        return HTMLResponse(_PAGE.format(endpoint=escape(base + ENDPOINT), version=__version__))

    return root


def _health(services: Services) -> Page:
    async def health(_: Request) -> Response:
        report = await services.health.check(services.clock())
        content: dict[str, str] = {"status": report.status, "redis": report.redis, "worker": report.worker}
        if report.worker_age is not None:
            content["worker_last_seen_seconds"] = str(report.worker_age)
        if report.reason is not None:
            content["reason"] = report.reason
        return _json(content, 200 if report.status == "ok" else 503)

    return health


async def _metrics(_: Request) -> Response:
    body, content_type = metrics.exposition()
    return Response(body, headers={"content-type": content_type})


def _http_error(site: Site) -> Callable[[Request, Exception], Awaitable[Response]]:
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
