"""The cookies of our pages (RFC 6265bis).

Three of them: `session` says who is signed in, `browser` is a secret of the browser before and beside that, to which
forms and sign-ins under way are bound, and `devices` says whose password was right here once, for an allowance of
attempts of its own; it opens nothing. All are HttpOnly and SameSite=Lax, which lets people come back from a
provider. Over https their names begin with `__Host-`, so that no other host of the domain can set them.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response

from microsub.services.identity.recognising import DEVICE_SECONDS
from microsub.services.identity.sessions import LIFETIME

Name = Literal["session", "browser", "devices"]
COOKIES: tuple[Name, ...] = ("session", "browser", "devices")
_SECRET = re.compile(r"\A[A-Za-z0-9_-]{43}\Z")


@dataclass(frozen=True, slots=True)
class Cookies:
    """Reads and writes them. `is_secure`: the server is reached over https."""

    is_secure: bool

    def read(self, request: Request, name: Name) -> str:
        """The cookie's value, empty where there is none (or one of `browser` that we can't have made)."""
        value = request.cookies.get(self._name(name), "")
        return value if name != "browser" or _SECRET.match(value) else ""

    def write(self, response: Response, name: Name, value: str) -> None:
        """Set the cookie: `browser` until the browser is closed, the others for as long as they may be good."""
        age = {"session": LIFETIME, "devices": DEVICE_SECONDS}.get(name)
        response.set_cookie(
            self._name(name), value, max_age=age, path="/", secure=self.is_secure, httponly=True, samesite="lax"
        )

    def clear(self, response: Response, name: Name) -> None:
        """Let the browser forget the cookie."""
        response.delete_cookie(self._name(name), path="/", secure=self.is_secure, httponly=True, samesite="lax")

    def _name(self, name: Name) -> str:
        return f"__Host-microsub-{name}" if self.is_secure else f"microsub-{name}"


def new_secret() -> str:
    """A value for the cookie `browser`: 256 bit."""
    return secrets.token_urlsafe(32)
