"""A browser's request, its forms and cookies, and the pages in reply."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

import orjson
import structlog
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from microsub.accounts.credentials import KNOWN_BROWSER
from microsub.accounts.sessions import CONFIRMATION, SESSION, SignedIn, SignedInPerson
from microsub.base.digests import new_secret
from microsub.base.errors import (
    Forbidden,
    InvalidRequest,
    MicrosubError,
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
    Unauthorized,
)
from microsub.base.locks import KeyedLocks
from microsub.base.texts import N_, Sentence
from microsub.fetch import asking_for
from microsub.identity.clients import Asker
from microsub.identity.local_sign_in import NotRecognised, SignInOrigin
from microsub.identity.passkeys import PasskeyAnswer, PasskeyQuestion, relying_party
from microsub.identity.passwords import repeated_password
from microsub.identity.protocol.documents import is_own, profile_page
from microsub.identity.provider import ACCESS
from microsub.server.surface import IdentityServices, Services
from microsub.web.display import Display
from microsub.web.forms import FIELD, SentForm, check_form, cookie_value, form_token, read_form, read_upload
from microsub.web.headers import PublicAddress, client_address, page_headers
from microsub.web.pages import Templates, preferred_language
from microsub.web.responses import retry_after, until_sent

log = structlog.get_logger(__name__)

_FRESH_FOR = CONFIRMATION // 60
"""Minutes."""
FOLDER = Path(__file__).parent
"""Templates, static files and texts that all pages share."""
PAGES_AT_ONCE = 2
"""Pages of one user that are rendered at a time."""


def passkey_question(asked: PasskeyQuestion) -> Response:
    """The passkey options for the browser's script, see `static/passkeys.js`."""
    body = orjson.dumps({"secret": asked.secret, "options": asked.options})
    return Response(body, headers={**page_headers(), "content-type": "application/json"})


@dataclass(frozen=True, slots=True)
class NavigationLink:
    """A link in the head of all pages for signed-in users; `text` is translated where it is shown."""

    path: str
    text: str
    for_admins: bool = False


@dataclass(frozen=True, slots=True)
class PageSite:
    """Services, templates, and the public address of the pages.

    The holder of a user's lock in `turns` may use a thread for that user; `at_once` has the locks for a whole page.
    """

    services: Services
    address: PublicAddress
    pages: Templates
    turns: KeyedLocks = field(default_factory=KeyedLocks)
    at_once: KeyedLocks = field(default_factory=partial(KeyedLocks, PAGES_AT_ONCE))

    @classmethod
    def at(
        cls,
        services: Services,
        base_url: str | None,
        folders: Sequence[Path] = (),
        navigation: Sequence[NavigationLink] = (),
    ) -> PageSite:
        """The site for an application with the public address `base_url`.

        `folders` are those of further features with pages, see `web.pages`.
        """
        address = PublicAddress(base_url)
        values = {"fresh_for": _FRESH_FOR, "navigation": navigation}
        return cls(services, address, Templates([FOLDER, *folders], address.prefix, **values))

    @property
    def identity(self) -> IdentityServices:
        """The use cases of identity."""
        return self.services.identity


CookieName = Literal["session", "browser", "devices", "display", "posting"]
_AGES: Mapping[CookieName, int] = {
    **{"session": SESSION, "devices": KNOWN_BROWSER, "display": KNOWN_BROWSER, "posting": KNOWN_BROWSER}
}
_SECRETS = frozenset({"browser", "posting"})
_SECRET = re.compile(r"\A[A-Za-z0-9_-]{43}\Z")


class PageCookies:
    """Cookies of the server at `address`, for a request with that `Host`."""

    def __init__(self, address: PublicAddress, host: str) -> None:
        self._is_secure = address.is_secure
        # It distinguishes servers on the same host; with https the name's prefix does.
        self._port = None if address.is_secure else address.port(host)

    def read(self, request: Request, name: CookieName) -> str:
        """The cookie's value; empty if there is none, or a secret that isn't one of ours."""
        value = cookie_value(request.headers.getlist("cookie"), self._name(name))
        return value if name not in _SECRETS or _SECRET.match(value) else ""

    def write(self, response: Response, name: CookieName, value: str | None) -> None:
        """Set the cookie, or delete it if `value` is None.

        `browser` lasts until the browser is closed, the others for their maximum validity.
        """
        age = 0 if value is None else _AGES.get(name)
        response.set_cookie(
            self._name(name), value or "", age, path="/", secure=self._is_secure, httponly=True, samesite="lax"
        )

    def _name(self, name: CookieName) -> str:
        if self._is_secure:
            return f"__Host-microsub-{name}"
        return f"microsub-{name}" if self._port is None else f"microsub-{name}-{self._port}"


class SignInNeeded(Unauthorized):
    """A page for signed-in users only.

    A browser that GETs it is redirected to the sign-in and back afterwards. `about` are parameters for the sign-in
    page.
    """

    def __init__(self, about: Mapping[str, str]) -> None:
        super().__init__(N_("You are not signed in. Sign in and try again."))
        self.about = about


class ConfirmationNeeded(Forbidden):
    """A change of credentials, or a token without an end, longer than `CONFIRMATION` after the sign-in."""

    def __init__(self) -> None:
        text = N_("Confirm your identity first: your sign-in is more than {minutes} minutes old.")
        super().__init__(Sentence(text, minutes=_FRESH_FOR))


class NotHere(Unauthorized):
    """The request used an unknown host name, while no `base_url` is set."""

    status = 403

    def __init__(self, host: str) -> None:
        super().__init__(
            Sentence(
                "Signing in does not work at '{host}', because this server does not know its own address yet. "
                "The admin has to set MICROSUB_BASE_URL. Until then you can sign in only on the machine itself, "
                "at http://127.0.0.1 with the server's port.",
                host=host[:100],
            )
        )


class PageVisit:
    """A request and its reply in progress. Created by `web.visit`.

    Handlers get it and return a response.
    """

    def __init__(self, site: PageSite, request: Request) -> None:
        self.site = site
        self.request = request
        self.now = site.services.clock()
        self.session: SignedIn | None = None
        self.form = SentForm()
        self.problem: RequestError | None = None
        """The problem with the form, otherwise with the shown page."""
        self._cookies = PageCookies(site.address, request.headers.get("host", ""))
        self._browser = self._cookies.read(request, "browser")
        self._new: dict[CookieName, str | None] = {}
        self._is_signed_out = False

    @property
    def base(self) -> str:
        """The address under which this browser sees the server, without a trailing slash.

        Raises NotHere.
        """
        host = self.request.headers.get("host", "")
        base = self.site.address.base(host)
        if base is None:
            raise NotHere(host)
        return base

    @property
    def query(self) -> Mapping[str, str]:
        """The query parameters."""
        return self.request.query_params

    @property
    def browser(self) -> str:
        """The browser's secret, created now if it has none: everything before a sign-in is bound to it."""
        if not self._browser:
            self._browser = new_secret()
            self._new["browser"] = self._browser
        return self._browser

    @property
    def had_browser(self) -> bool:
        """Whether the request itself contained the browser's secret."""
        return bool(self._browser) and "browser" not in self._new

    @cached_property
    def display(self) -> Display:
        """The display settings of this browser."""
        return Display.read(self._cookies.read(self.request, "display"))

    @property
    def language(self) -> str:
        """The language of the page: the chosen one, otherwise the available one that the browser prefers."""
        return self.display.language or preferred_language(self.request.headers.get("accept-language", ""))

    def translate(self, text: str) -> str:
        """The translation of a text in the code."""
        return self.site.pages.translated(text, self.language)

    def translate_count(self, one: str, many: str, count: int) -> str:
        """The translation of a text in the code with a number."""
        return self.site.pages.texts(self.language).ngettext(one, many, count) % {"num": count}

    def keep_display(self, display: Display) -> None:
        """Store the display settings in the browser."""
        self._new["display"] = display.cookie()

    @property
    def posting_secret(self) -> str:
        """The browser's secret for answers on the user's site; empty if it has none."""
        return self._cookies.read(self.request, "posting")

    def keep_posting_secret(self, secret: str) -> None:
        """Store that secret in the browser."""
        self._new["posting"] = secret

    async def look(self) -> None:
        """Look up the session."""
        cookie = self._cookies.read(self.request, "session")
        if not cookie:
            return
        self.session = await self.site.identity.sessions.find(cookie, self.now)
        if self.session is None:
            self._new["session"] = None
        elif self.session.cookie is not None:
            self._new["session"] = self.session.cookie

    def check(self) -> None:
        """Check that the form was sent by one of our pages. Raises RequestError."""
        browser = self._browser if self.had_browser else ""
        check_form(self.request, self.form, self.base, browser, self._session_id, self.request.url.path)

    async def uploaded(self, name: str, most: int) -> bytes:
        """The file in that field of a form, of at most `most` bytes, which is read now. For routes of `upload`.

        Raises SignInNeeded, also if the session ended meanwhile, and RequestError as `check` does.
        """
        self.require_session()
        self.form, file = await read_upload(self.request, name, most)
        await self.look()
        self.require_session()
        self.check()
        return file

    def require_session(self, **about: str) -> SignedIn:
        """The signed-in user. Raises SignInNeeded."""
        if self.session is None:
            raise SignInNeeded(about)
        return self.session

    async def is_confirmed(self) -> bool:
        """Whether the session was signed in or confirmed recently. Raises SignInNeeded."""
        session = self.require_session()
        return await self.site.identity.local.is_confirmed(session.user, session.id, session.since, self.now)

    async def require_confirmed(self) -> SignedIn:
        """The session, if `is_confirmed`. Raises ConfirmationNeeded, SignInNeeded."""
        if not await self.is_confirmed():
            raise ConfirmationNeeded
        return self.require_session()

    @property
    def has_passkeys(self) -> bool:
        """Whether browsers support passkeys at the address under which this one sees us."""
        return relying_party(self.base) is not None

    def passkey_answer(self) -> PasskeyAnswer:
        """The passkey answer that the script has put into a form. Raises InvalidRequest."""
        try:
            answer: Any = orjson.loads(self.form.get("answer", ""))
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            text = N_("The form contains no passkey response. Passkeys require JavaScript.")
            raise InvalidRequest(text)
        return PasskeyAnswer(self.form.get("secret", ""), answer)

    def passwords(self) -> str:
        """The password that was entered twice. Raises InvalidRequest if the two differ."""
        return repeated_password(self.form.get("password", ""), self.form.get("again", ""))

    def token(self, path: str) -> str:
        """The token for a form with the target `path`, for templates: see `templates/forms.html`."""
        return form_token(self.browser, self._session_id, path)

    def page(
        self,
        template: str,
        status: int = 200,
        *,
        form_to: Iterable[str] = (),
        images: Iterable[str] = (),
        media: Iterable[str] = (),
        **values: Any,
    ) -> Response:
        """A page from a template, with the `problem`, if there is one.

        See `web.headers` for `form_to`, `images` and `media`.
        """
        problem = self.problem
        if problem is not None:
            # 401 would need a scheme of HTTP authentication (RFC 9110), and there is none.
            status = 403 if isinstance(problem, NotRecognised) else problem.status
        given = {
            **{"session": self.session, "token": self.token, "token_field": FIELD, "problem": problem},
            **{"display": self.display, "path": self.request.url.path, **values},
        }
        headers = dict(page_headers(form_to=form_to, images=images, media=media))
        if isinstance(problem, TooManyRequests):
            headers["retry-after"] = str(problem.retry_after)
        elif isinstance(problem, SignInFailed) and status in _LATER:
            headers["retry-after"] = str(_LATER[status])
        return HTMLResponse(self.site.pages.render(template, given, self.language), status, headers=headers)

    def turn(self) -> AbstractAsyncContextManager[Any]:
        """A slot among the user's pages that are rendered at a time. It can't be taken twice."""
        return nullcontext() if self.session is None else self.site.at_once.of(self.session.user)

    async def long_page(self, template: str, **values: Any) -> Response:
        """Render a long `page` of all a user's data in a thread: thousands of channels take a quarter of a second."""
        async with self.site.turns.of(self.require_session().user):
            return await asyncio.to_thread(lambda: self.page(template, **values))

    def message(self, title: str, text: str, kind: str, status: int = 200, *, full: str = "") -> Response:
        """A page with one message; see `templates/message.html` for `kind` and `full`."""
        self.problem = None
        return self.page("message.html", status, title=title, text=text, kind=kind, full=full)

    def go(self, path: str, *, fragment: str = "", **query: str) -> Response:
        """Redirect to another of our pages, by GET, there to the element with the id `fragment`.

        `path` may have its own query if `query` is empty.
        """
        given = urlencode({name: value for name, value in query.items() if value})
        place = f"#{fragment}" if fragment else ""
        return self.leave(self.site.pages.href(path) + (f"?{given}" if given else "") + place)

    def leave(self, url: str) -> Response:
        """Redirect to another site, by GET.

        Only for addresses that are meant for this request's user.
        """
        return RedirectResponse(url, 303, headers=dict(page_headers()))

    async def sign_in(self, person: SignedInPerson, *, next_: str = "", known: bool = True) -> Response:
        """Begin a session in this browser, replacing any earlier one, and redirect to `next_`.

        No earlier value survives it. `known`: the user has signed in with their own credentials here, so this browser
        gets its own limit of attempts. Raises Unauthorized if the user is disabled or gone.
        """
        agent = self.request.headers.get("user-agent", "")
        before = self._cookies.read(self.request, "session")
        identity = self.site.identity
        cookie = await identity.sessions.begin(person.user, person.me, person.how, agent, self.now, instead_of=before)
        self.session = await identity.sessions.find(cookie, self.now)
        self._browser = new_secret()
        self._new |= {"session": cookie, "browser": self._browser}
        if known:
            remembered = await identity.local.remember(person.user, self.where.devices, self.now)
            self._new["devices"] = remembered
        return self.go(next_ or person.next or "/account")

    async def sign_in_as(self, user: str, how: str, *, next_: str = "") -> Response:
        """`sign_in` for a user who has proven their identity in this request, or in its session."""
        found = await self.site.services.accounts.user(user)
        return await self.sign_in(SignedInPerson(user, found.me if found is not None else "", how), next_=next_)

    @property
    def where(self) -> SignInOrigin:
        """The origin of the request: the client's address, and the cookie of a known browser."""
        return SignInOrigin(client_address(self.request), self._cookies.read(self.request, "devices"))

    @property
    def asker(self) -> Asker:
        """The visitor for whom this server fetches an app's metadata."""
        return Asker(client_address(self.request), self.session.user if self.session is not None else "")

    async def sign_out(self) -> None:
        """End this browser's session."""
        if self.session is not None:
            await self.site.identity.sessions.end(self.session.user, self.session.id)
        self.session = None
        self._browser = new_secret()
        self._new |= {"session": None, "browser": self._browser}
        self._is_signed_out = True

    def finish(self, response: Response) -> Response:
        """Add the changed cookies to the response."""
        for name, value in self._new.items():
            self._cookies.write(response, name, value)
        if self._is_signed_out:  # browsers keep the pictures of posts for a week
            response.headers["clear-site-data"] = '"cache"'
        return response

    @property
    def _session_id(self) -> str:
        return self.session.id if self.session is not None else ""


def has_hosted_profile(visit: PageVisit) -> bool:
    """Whether the signed-in user has no page of their own, but the one that this server provides."""
    session = visit.require_session()
    return session.me.endswith(profile_page("", session.user)) and is_own(session.me, visit.base)


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


Handler = Callable[[PageVisit], Awaitable[Response]]

_LATER = {429: 60, 503: 10}
"""Seconds after which a failed sign-in by another provider may be tried again."""

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
            with asking_for(visit.asker.share):
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
    user = visit.session.user if visit.session is not None else ""
    try:
        leave = until_sent(user, len(getattr(response, "body", b"")))
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
    full = "" if not isinstance(error, QuotaReached) else "tokens" if error.what == ACCESS else "other"
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
