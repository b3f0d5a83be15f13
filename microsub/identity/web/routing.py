"""Routes of pages and forms: what happens around every handler.

`page` is for GET, `form` for POST, and a form's handler runs only after its token was found good. Errors become pages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from microsub.errors import (
    MicrosubError,
    ParserUnavailable,
    QuotaReached,
    RequestError,
    StoreError,
    StoreUnavailable,
    TooManyRequests,
)
from microsub.fetch import asking_for
from microsub.identity.web.site import PageSite
from microsub.identity.web.visit import PageVisit, SignInNeeded

log = structlog.get_logger(__name__)

Handler = Callable[[PageVisit], Awaitable[Response]]

_TITLES = {
    400: "That did not work",
    401: "You are not signed in",
    403: "That is not allowed",
    404: "There is nothing here",
    413: "That is too much",
    429: "Too many tries",
    503: "Not at the moment",
}


def page(site: PageSite, path: str, handler: Handler) -> Route:
    """A page that is shown by GET."""
    return Route(path, _endpoint(site, handler, is_form=False), methods=["GET"])


def public(site: PageSite, path: str, handler: Handler) -> Route:
    """A page that is the same for everybody, by GET: no cookie is read or set, so that anybody may keep a copy."""

    async def endpoint(request: Request) -> Response:
        visit = PageVisit(site, request)
        try:
            return await handler(visit)
        except MicrosubError as error:
            return error_page(visit, error)

    return Route(path, endpoint, methods=["GET"])


def form(site: PageSite, path: str, handler: Handler) -> Route:
    """What a form of our own pages does, by POST; the handler finds its fields in `visit.form`."""
    return Route(path, _endpoint(site, handler, is_form=True), methods=["POST"])


def is_form(route: Route) -> bool:
    """Whether the route was made by `form`."""
    return getattr(route.endpoint, "is_form", False)


def _endpoint(site: PageSite, handler: Handler, *, is_form: bool) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        visit = PageVisit(site, request)
        try:
            await visit.look()
            if is_form:
                await visit.receive()
            with asking_for(visit.asker.share):
                response = await handler(visit)
        except SignInNeeded as error:
            response = (
                error_page(visit, error) if is_form else visit.go("/sign-in", **error.about, next=_address(request))
            )
        except MicrosubError as error:
            response = error_page(visit, error)
        except Exception:
            # The path and no more: an address may hold a code, and a form a password.
            log.exception("a page failed", method=request.method, path=request.url.path)
            visit.session = None
            response = visit.page("error.html", 500, title="The server failed", text=_FAILED)
        return visit.finish(response)

    endpoint.is_form = is_form  # type: ignore[attr-defined]
    return endpoint


_FAILED = "This is a fault of the server, and its log has the details. You may try again."


def error_page(visit: PageVisit, error: MicrosubError, title: str = "") -> Response:
    """An error as a page that says what happened and what to do."""
    status, text = 500, _FAILED
    if isinstance(error, RequestError):
        status, text = error.status, error.description
    elif isinstance(error, StoreError):
        status, text = 503, "The server can't reach its store at the moment. Try again in some seconds."
    elif isinstance(error, ParserUnavailable):
        status, text = 503, "The server can't read pages at the moment. Try again in some seconds."
    if isinstance(error, StoreUnavailable):
        visit.session = None
    with suppress(KeyError):
        title = title or _TITLES[status]
    full = isinstance(error, QuotaReached)
    response = visit.page("error.html", status, title=title or "That did not work", text=text, full=full)
    if isinstance(error, TooManyRequests):
        response.headers["retry-after"] = str(error.retry_after)
    return response


def _address(request: Request) -> str:
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")


def missing_page(site: PageSite, request: Request, status: int, headers: Mapping[str, str]) -> Response | None:
    """The page for an address or a method that there isn't; None where the asker takes no HTML."""
    if "text/html" not in request.headers.get("accept", ""):
        return None
    title, text = "There is nothing here", "Check the address, or go to the start page."
    if status != 404:
        title, text = "That can't be opened like this", "It is where a form leads. Open the page with the form again."
    response = PageVisit(site, request).page("error.html", status, title=title, text=text)
    response.headers.update(headers)
    return response
