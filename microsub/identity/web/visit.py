"""One request of a person's browser: who is signed in, what was sent, and how to answer."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from microsub.errors import Unauthorized
from microsub.identity.lifetimes import KNOWN_BROWSER, SESSION
from microsub.identity.local.login import SignInOrigin
from microsub.identity.provider.clients import Asker
from microsub.identity.sign_in.sessions import SignedIn
from microsub.identity.web.forms import FIELD, SentForm, check_form, form_token, read_form
from microsub.identity.web.site import PageSite
from microsub.kit.http.address import PublicAddress, client_address
from microsub.kit.http.headers import page_headers

CookieName = Literal["session", "browser", "devices"]
COOKIES: tuple[CookieName, ...] = ("session", "browser", "devices")
_SECRET = re.compile(r"\A[A-Za-z0-9_-]{43}\Z")


@dataclass(frozen=True, slots=True)
class PageCookies:
    """Reads and writes them. `is_secure`: the server is reached over https; `port` tells it apart from others where it
    isn't, None where it is that of http.
    """

    is_secure: bool
    port: int | None = None

    @classmethod
    def at(cls, address: PublicAddress, host: str) -> PageCookies:
        """Those of the server for a request whose `Host` is `host`."""
        return cls(address.is_secure, None if address.is_secure else address.port(host))

    def read(self, request: Request, name: CookieName) -> str:
        """The cookie's value, empty where there is none (or one of `browser` that we can't have made)."""
        value = request.cookies.get(self._name(name), "")
        return value if name != "browser" or _SECRET.match(value) else ""

    def write(self, response: Response, name: CookieName, value: str) -> None:
        """Set the cookie: `browser` until the browser is closed, the others for as long as they may be good."""
        age = {"session": SESSION, "devices": KNOWN_BROWSER}.get(name)
        response.set_cookie(
            self._name(name), value, max_age=age, path="/", secure=self.is_secure, httponly=True, samesite="lax"
        )

    def clear(self, response: Response, name: CookieName) -> None:
        """Let the browser forget the cookie."""
        response.delete_cookie(self._name(name), path="/", secure=self.is_secure, httponly=True, samesite="lax")

    def _name(self, name: CookieName) -> str:
        if self.is_secure:
            return f"__Host-microsub-{name}"
        return f"microsub-{name}" if self.port is None else f"microsub-{name}-{self.port}"


def new_secret() -> str:
    """A value for the cookie `browser`: 256 bit."""
    return secrets.token_urlsafe(32)


class SignInNeeded(Unauthorized):
    """A page for people who are signed in. A browser that GETs it is sent to the sign-in, and back afterwards.

    `about` are the parameters that the sign-in page gets.
    """

    def __init__(self, about: Mapping[str, str]) -> None:
        super().__init__("You are not signed in, or not any more. Sign in and try again.")
        self.about = about


class NotHere(Unauthorized):
    """The request came by a name that nothing is known of, while no `base_url` is set."""

    status = 403

    def __init__(self, host: str) -> None:
        super().__init__(
            f"Signing in does not work at '{host[:100]}': this server does not know its own address yet. Its admin "
            "has to set it with MICROSUB_BASE_URL. Until then it works on the machine itself alone, at "
            "http://127.0.0.1 with the server's port."
        )


class PageVisit:
    """A request and its reply in the making. Made by `identity.web.routing`; handlers get it and return a response."""

    def __init__(self, site: PageSite, request: Request) -> None:
        self.site = site
        self.request = request
        self.now = site.services.clock()
        self.session: SignedIn | None = None
        self.form = SentForm()
        self._cookies = PageCookies.at(site.address, request.headers.get("host", ""))
        self._browser = self._cookies.read(request, "browser")
        self._new: dict[str, str | None] = {}

    @property
    def base(self) -> str:
        """The address under which this browser sees the server, without a slash at its end. Raises NotHere."""
        host = self.request.headers.get("host", "")
        base = self.site.address.base(host)
        if base is None:
            raise NotHere(host)
        return base

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters of the address."""
        return self.request.query_params

    @property
    def browser(self) -> str:
        """The browser's secret, made now where it has none yet: what is begun before a sign-in is bound to it."""
        if not self._browser:
            self._browser = new_secret()
            self._new["browser"] = self._browser
        return self._browser

    @property
    def had_browser(self) -> bool:
        """Whether the request itself carried the browser's secret."""
        return bool(self._browser) and "browser" not in self._new

    async def look(self) -> None:
        """Find out who is signed in."""
        cookie = self._cookies.read(self.request, "session")
        if not cookie:
            return
        self.session = await self.site.identity.sessions.find(cookie, self.now)
        if self.session is None:
            self._new["session"] = None
        elif self.session.cookie is not None:
            self._new["session"] = self.session.cookie

    async def receive(self) -> None:
        """Read the form, and make sure that one of our pages asked for it. Raises RequestError."""
        self.form = await read_form(self.request)
        browser = self._browser if self.had_browser else ""
        check_form(self.request, self.form, self.base, browser, self._session_id, self.request.url.path)

    def require_session(self, **about: str) -> SignedIn:
        """Who is signed in. Raises SignInNeeded."""
        if self.session is None:
            raise SignInNeeded(about)
        return self.session

    def token(self, path: str) -> str:
        """The token for a form that goes to `path`, for templates: see `templates/form.html`."""
        return form_token(self.browser, self._session_id, path)

    def page(
        self,
        template: str,
        status: int = 200,
        *,
        form_to: Iterable[str] = (),
        images: Iterable[str] = (),
        **values: Any,
    ) -> Response:
        """A page from a template; see `kit.http.headers` for `form_to` and `images`."""
        given = {"session": self.session, "token": self.token, "token_field": FIELD, **values}
        text = self.site.pages.render(template, given)
        return HTMLResponse(text, status, headers=dict(page_headers(form_to=form_to, images=images)))

    def go(self, path: str, **query: str) -> Response:
        """On to another of our pages, by GET; `path` may have a query of its own where `query` is empty."""
        target = self.site.pages.href(path) + (f"?{urlencode(query)}" if query else "")
        return self._redirect(target)

    def leave(self, url: str) -> Response:
        """On to another site, by GET. Only for addresses that this request's user is meant to be sent to."""
        return self._redirect(url)

    async def sign_in(self, user: str, me: str, how: str) -> None:
        """Begin a session for the user in this browser, instead of any that it had: no value survives a sign-in.

        Raises Unauthorized where the user is disabled or gone.
        """
        agent = self.request.headers.get("user-agent", "")
        before = self._cookies.read(self.request, "session")
        sessions = self.site.identity.sessions
        cookie = await sessions.begin(user, me, how, agent, self.now, instead_of=before)
        self.session = await sessions.find(cookie, self.now)
        self._browser = new_secret()
        self._new.update(session=cookie, browser=self._browser)

    @property
    def where(self) -> SignInOrigin:
        """Where the request comes from: the client's address as the server was told to see it, and a known browser."""
        return SignInOrigin(client_address(self.request), self._cookies.read(self.request, "devices"))

    @property
    def asker(self) -> Asker:
        """Who makes this server ask an app about itself."""
        return Asker(client_address(self.request), self.session.user if self.session is not None else "")

    async def remember_browser(self, user: str) -> None:
        """The user has signed in here with something of their own: that gives this browser an allowance of attempts."""
        self._new["devices"] = await self.site.identity.local.recognising.remember(user, self.where.devices, self.now)

    async def sign_out(self) -> None:
        """End this browser's session."""
        if self.session is not None:
            await self.site.identity.sessions.end(self.session.user, self.session.id)
        self.session = None
        self._browser = new_secret()
        self._new.update(session=None, browser=self._browser)

    def finish(self, response: Response) -> Response:
        """Give the response the cookies that have changed."""
        for name in COOKIES:
            if name in self._new:
                value = self._new[name]
                if value is None:
                    self._cookies.clear(response, name)
                else:
                    self._cookies.write(response, name, value)
        return response

    @property
    def _session_id(self) -> str:
        return self.session.id if self.session is not None else ""

    def _redirect(self, target: str) -> Response:
        return RedirectResponse(target, 303, headers=dict(page_headers()))
