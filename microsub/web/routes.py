"""Routes of pages and forms, and the pages for errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from microsub.base.errors import (
    GRANTED,
    InvalidRequest,
    MicrosubError,
    NotRecognised,
    ParserUnavailable,
    QuotaReached,
    RequestError,
    SearchUnavailable,
    SignInFailed,
    StoreError,
    StoreFull,
    StoreIncomplete,
    StoreUnavailable,
    StoreUnconfirmed,
    TooLarge,
    TooManyRequests,
)
from microsub.base.rate_limits import share_of
from microsub.base.texts import N_
from microsub.fetch import asking_for
from microsub.web.forms import read_form
from microsub.web.responses import retry_after, until_sent
from microsub.web.visit import ConfirmationNeeded, PageSite, PageVisit, SignInNeeded

log = structlog.get_logger(__name__)


Handler = Callable[[PageVisit], Awaitable[Response]]

_TITLES = {
    400: N_("Something went wrong"),
    401: N_("You are not signed in"),
    403: N_("Not allowed"),
    404: N_("Page not found"),
    413: N_("Too much"),
    429: N_("Too many attempts"),
    503: N_("Temporarily unavailable"),
}
_FAILED = N_("This is an error of the server; its log has the details. You can try again.")


class SentResponse(Response):
    """A response that calls `leave` once it is sent, or its client is gone."""

    def __init__(self, response: Response, leave: Callable[[], None]) -> None:
        self._response = response
        self.leave = leave
        self.body, self.raw_headers = response.body, response.raw_headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        try:
            await self._response(scope, receive, send)
        finally:
            self.leave()


def page(site: PageSite, path: str, handler: Handler) -> Route:
    """A page by GET: few per user at a time, since a page with thousands of channels blocks other requests."""

    async def in_turn(visit: PageVisit) -> Response:
        async with visit.turn():
            return await handler(visit)

    return Route(path, _endpoint(site, in_turn), methods=["GET"])


def slow_page(site: PageSite, path: str, handler: Handler) -> Route:
    """A GET route that waits for other servers: any number at once, so that the user's other pages don't wait for it.

    The handler renders a page with the list of channels in its `turn`, after all waiting.
    """
    return Route(path, _endpoint(site, handler), methods=["GET"])


def public(site: PageSite, path: str, handler: Handler) -> Route:
    """A page that is the same for all visitors, by GET: no cookie is read or set."""

    async def endpoint(request: Request) -> Response:
        visit = PageVisit(site, request)
        visit.looks = await site.looks()
        try:
            return await handler(visit)
        except MicrosubError as error:
            return error_page(visit, error)

    return Route(path, endpoint, methods=["GET"])


def form(site: PageSite, path: str, handler: Handler, again: Handler | None = None) -> Route:
    """A POST route for a form of our own pages; its handler finds the fields in `visit.form`.

    An error that the user can correct is the `problem` on the page that `again` renders; others get an error page.
    """

    async def handle(visit: PageVisit) -> Response:
        visit.check()
        return await handler(visit)

    return Route(path, _endpoint(site, _corrected(handle, again), is_form=True), methods=["POST"])


def upload(site: PageSite, path: str, handler: Handler, again: Handler) -> Route:
    """A POST route for a form with a file; its handler reads the file by `visit.uploaded`, once it has a slot."""
    endpoint = _endpoint(site, _corrected(handler, again))
    endpoint.takes_upload = True  # type: ignore[attr-defined]
    return Route(path, endpoint, methods=["POST"])


def _corrected(handler: Handler, again: Handler | None) -> Handler:
    """Call the handler, and for errors that the user can correct the page `again`, if there is one."""

    async def handle(visit: PageVisit) -> Response:
        try:
            return await handler(visit)
        except (ConfirmationNeeded, NotRecognised, InvalidRequest, SignInFailed, TooLarge, TooManyRequests) as problem:
            if again is None:
                raise
            visit.problem = problem
            async with visit.turn():
                return await again(visit)

    return handle


def takes_upload(route: Route) -> bool:
    """Whether the route was created by `upload`; its handler checks the form after reading it."""
    return getattr(route.endpoint, "takes_upload", False)


def is_form(route: Route) -> bool:
    """Whether the route was created by `form`."""
    return getattr(route.endpoint, "is_form", False)


def _endpoint(site: PageSite, handler: Handler, *, is_form: bool = False) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        visit = PageVisit(site, request)
        try:
            if is_form:
                # First, since the sender determines how long this takes, and the session may end meanwhile.
                visit.form = await read_form(request)
            await visit.look()
            with asking_for(share_of(visit.address, visit.user)):
                response = _counted(visit, await handler(visit))
        except SignInNeeded as error:
            target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            response = error_page(visit, error) if is_form else visit.go("/sign-in", **error.about, next=target)
        except MicrosubError as error:
            if isinstance(error, StoreError):
                log.error("store failed", kind=type(error).__name__, detail=str(error), path=request.url.path)  # noqa: TRY400
            response = error_page(visit, error)
        except Exception:
            # Only the path: the query may contain a code, and a form a password.
            log.exception("a page failed", method=request.method, path=request.url.path)
            visit.session = None
            response = visit.message(N_("Server error"), _FAILED, "error", 500)
        return visit.finish(response)

    endpoint.is_form = is_form  # type: ignore[attr-defined]
    return endpoint


def _counted(visit: PageVisit, response: Response) -> Response:
    """The response, which counts for its user until it is sent if it is large. Raises TooManyRequests."""
    try:
        leave = until_sent(visit.user, len(getattr(response, "body", b"")))
    except TooManyRequests:
        if isinstance(response, SentResponse):
            response.leave()
        raise
    return response if leave is None else SentResponse(response, leave)


def error_page(visit: PageVisit, error: MicrosubError) -> Response:
    """An error as a page with its explanation and what to do."""
    status, text = 500, _FAILED
    if isinstance(error, RequestError):
        status, text = error.status, error.description
    elif isinstance(error, StoreUnconfirmed):
        status, text = 503, N_("Changes can’t be kept safely at the moment. Reading works; try the change again later.")
    elif isinstance(error, StoreFull):
        status, text = 503, N_("The server’s store is full, so nothing was changed. Reading works.")
    elif isinstance(error, StoreIncomplete):
        status, text = 503, N_("A part of the server’s store is away at the moment. Try again in a few seconds.")
    elif isinstance(error, StoreError):
        status, text = 503, N_("The server can't reach its store at the moment. Try again in a few seconds.")
    elif isinstance(error, SearchUnavailable):
        status, text = 503, N_("Search is unavailable while its index is being built. Try again in a minute.")
    elif isinstance(error, ParserUnavailable):
        status, text = 503, N_("The server can't read pages at the moment. Try again in a few seconds.")
    if isinstance(error, StoreUnavailable):
        visit.session = None
    full = "" if not isinstance(error, QuotaReached) else "tokens" if error.what == GRANTED else "other"
    response = visit.message(_TITLES.get(status, _TITLES[400]), text, "error", status, full=full)
    if status == 503 or isinstance(error, TooManyRequests):
        response.headers["retry-after"] = retry_after(error)
    return response


async def missing_page(site: PageSite, request: Request, status: int, headers: Mapping[str, str]) -> Response | None:
    """The page for an unknown address or method; None if the client doesn't accept HTML."""
    if "text/html" not in request.headers.get("accept", ""):
        return None
    title, text = _TITLES[404], N_("Check the address, or go to the start page.")
    if status != 404:
        title = N_("This page can't be opened directly")
        text = N_("This address only receives forms. Open the page with the form again.")
    visit = PageVisit(site, request)
    with suppress(MicrosubError):  # the page is shown anyway
        await visit.look()
    response = visit.message(title, text, "error", status)
    response.headers.update(headers)
    return visit.finish(response)
