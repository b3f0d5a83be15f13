"""The cookies of our own pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response

from microsub.model.session import KNOWN_BROWSER, SESSION
from microsub.web.forms import cookie_value
from microsub.web.headers import PublicAddress

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
