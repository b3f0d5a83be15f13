"""A browser's request, its forms and cookies, and the pages in reply."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from microsub.base.digests import new_secret
from microsub.base.errors import (
    Forbidden,
    NotRecognised,
    RequestError,
    SignInFailed,
    TooManyRequests,
    Unauthorized,
)
from microsub.base.locks import KeyedLocks
from microsub.base.texts import N_, Sentence
from microsub.base.urls import normalise_profile
from microsub.model.session import CONFIRMATION, SignedIn
from microsub.web.cookies import CookieName, PageCookies
from microsub.web.display import Display
from microsub.web.forms import FIELD, SentForm, check_form, form_token, read_upload
from microsub.web.headers import PublicAddress, client_address, page_headers
from microsub.web.looks import Looks
from microsub.web.pages import FOLDER, Templates, figure, html_response, preferred_language

_FRESH_FOR = CONFIRMATION // 60
"""Minutes."""
_LATER = {429: 60, 503: 10}
"""Seconds after which a failed sign-in by another provider may be tried again."""
PAGES_AT_ONCE = 2
"""Pages of one user that are rendered at a time."""


async def usual_looks() -> Looks:
    """The looks of an instance without a choice."""
    return Looks()


class PageSessions(Protocol):
    """The sessions of all users, as pages need them."""

    async def find(self, cookie: str, now: float) -> SignedIn | None:
        """The session of the cookie; None if it is invalid or has expired."""

    async def is_confirmed(self, session: SignedIn, now: float) -> bool:
        """Whether the session was signed in or confirmed within `CONFIRMATION`."""


@dataclass(frozen=True, slots=True)
class PageSite:
    """The shared parts of all pages: sessions, clock (Unix time), public address, templates.

    The holder of a user's lock in `turns` may use a thread for that user; `at_once` has the locks for a whole page.
    """

    sessions: PageSessions
    clock: Callable[[], float]
    address: PublicAddress
    pages: Templates
    looks: Callable[[], Awaitable[Looks]] = usual_looks
    turns: KeyedLocks = field(default_factory=KeyedLocks)
    at_once: KeyedLocks = field(default_factory=partial(KeyedLocks, PAGES_AT_ONCE))

    @classmethod
    def at(
        cls,
        sessions: PageSessions,
        clock: Callable[[], float],
        base_url: str | None,
        folders: Sequence[Path] = (),
        navigation: Sequence[tuple[str, str, bool, str]] = (),
        looks: Callable[[], Awaitable[Looks]] = usual_looks,
        **values: object,
    ) -> PageSite:
        """The site for an application with the public address `base_url`.

        `folders` are those of further features with pages, see `web.pages`; `looks` returns name and colour;
        `values` are known to all templates.
        """
        address = PublicAddress(base_url)
        known = {"fresh_for": _FRESH_FOR, "navigation": navigation, **values}
        pages = Templates([FOLDER, *folders], address.prefix, **known)
        return cls(sessions, clock, address, pages, looks)


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


def _place(url: str) -> str:
    """An address for comparisons, without what follows its path; http and https are the same."""
    return re.split("[?#]", normalise_profile(url))[0]


class PageVisit:
    """A request and its reply in progress. Created by `web.routes`.

    Handlers get it and return a response.
    """

    def __init__(self, site: PageSite, request: Request) -> None:
        self.site = site
        self.request = request
        self.now = site.clock()
        self.session: SignedIn | None = None
        self.looks = Looks()
        self.form = SentForm()
        self.problem: RequestError | None = None
        """The problem with the form, otherwise with the shown page."""
        self._cookies = PageCookies(site.address, request.headers.get("host", ""))
        self._browser = self.cookie("browser")
        self._new: dict[CookieName, str | None] = {}
        self._is_signed_out = False

    @property
    def base(self) -> str:
        """The address under which this browser sees the server, without a trailing slash.

        Raises NotHere.
        """
        if self._base is None:
            raise NotHere(self.request.headers.get("host", ""))
        return self._base

    @cached_property
    def _base(self) -> str | None:
        return self.site.address.base(self.request.headers.get("host", ""))

    def leaves(self, url: str) -> bool:
        """Whether an address leads to another page on the web than those of this server."""
        is_web = url[:8].lower().startswith(("http://", "https://"))
        # Most links don't name our host, and a text may have tens of thousands.
        is_foreign = not self._own or (url.isascii() and self._own.split("/")[2] not in url.lower())
        return is_web and (is_foreign or not f"{_place(url)}/".startswith(self._own))

    @cached_property
    def _own(self) -> str:
        """What the addresses of all pages begin with, in the form of `_place`; empty if it is unknown."""
        return f"{_place(self._base).rstrip('/')}/" if self._base else ""

    @property
    def address(self) -> str:
        """The client's address."""
        return client_address(self.request)

    @property
    def user(self) -> str:
        """The signed-in user; empty without a session."""
        return self.session.user if self.session is not None else ""

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
        """The display settings of the signed-in user; of this browser for others, and if the user has none."""
        kept = self.session.display if self.session is not None else ""
        return Display.read(kept or self.cookie("display"))

    @property
    def language(self) -> str:
        """The language of the page: the chosen one, otherwise the available one that the browser prefers."""
        return self.display.language or preferred_language(self.request.headers.get("accept-language", ""))

    def translate(self, text: str) -> str:
        """The translation of a text in the code."""
        return self.site.pages.translated(text, self.language)

    def translate_count(self, one: str, many: str, count: int, **values: str) -> str:
        """The translation of a text in the code with a number and other values."""
        return self.site.pages.texts(self.language).ngettext(one, many, count) % {"num": figure(count), **values}

    def cookie(self, name: CookieName) -> str:
        """The value of the request's cookie; empty without one."""
        return self._cookies.read(self.request, name)

    def keep_cookie(self, name: CookieName, value: str) -> None:
        """Store the value in the browser."""
        self._new[name] = value

    async def look(self) -> None:
        """Look up the session, and the name and colour of the instance."""
        cookie = self.cookie("session")
        if not cookie:
            self.looks = await self.site.looks()
            return
        self.looks, self.session = await asyncio.gather(self.site.looks(), self.site.sessions.find(cookie, self.now))
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
        return await self.site.sessions.is_confirmed(self.require_session(), self.now)

    async def require_confirmed(self) -> SignedIn:
        """The session, if `is_confirmed`. Raises ConfirmationNeeded, SignInNeeded."""
        if not await self.is_confirmed():
            raise ConfirmationNeeded
        return self.require_session()

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

        See `web.headers` for `form_to`, `images` and `media`. Raises TypeError (a bug) for a value with the name of one
        that all pages have.
        """
        problem = self.problem
        if problem is not None:
            # 401 would need a scheme of HTTP authentication (RFC 9110), and there is none.
            status = 403 if isinstance(problem, NotRecognised) else problem.status
        path = self.request.url.path
        everywhere = {
            **{"session": self.session, "token": self.token, "token_field": FIELD, "problem": problem},
            **{"display": self.display, "looks": self.looks, "path": path, "leaves": self.leaves},
            "opened": path if self.request.method == "GET" and status < 400 else "/",
        }
        if taken := everywhere.keys() & values.keys():
            raise TypeError(f"{template}: all pages have a value of the name {', '.join(taken)}")
        if self.session is not None and self.session.playing:
            # The bar with the player stands on all pages. Publishers' files redirect to hosts not known in advance.
            media = ("https:", "http:")
        headers = dict(page_headers(form_to=form_to, images=images, media=media))
        if isinstance(problem, TooManyRequests):
            headers["retry-after"] = str(problem.retry_after)
        elif isinstance(problem, SignInFailed) and status in _LATER:
            headers["retry-after"] = str(_LATER[status])
        return html_response(
            self.site.pages.render(template, everywhere | values, self.language), status, headers, self.request
        )

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

    async def change_session(self, cookie: str | None) -> None:
        """Give the browser the session of that cookie, or none: no earlier value, and no form, survives it."""
        self.session = None if cookie is None else await self.site.sessions.find(cookie, self.now)
        self._browser = new_secret()
        self._new |= {"session": cookie, "browser": self._browser}
        self._is_signed_out = cookie is None

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
