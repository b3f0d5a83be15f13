"""The cookies of our pages (RFC 6265bis).

Three of them: `session` says who is signed in, `browser` is a secret of the browser before and beside that, to which
forms and sign-ins under way are bound, and `devices` says whose password was right here once, for an allowance of
attempts of its own; it opens nothing. All are HttpOnly and SameSite=Lax, which lets people come back from a
provider. Over https their names begin with `__Host-`, so that no other host of the domain can set them. Over plain
http, which is for a server on one's own machine, their names end with its port: browsers keep one cookie of a name for
all ports of a host (RFC 6265, section 8.5), so another server beside this one would sign people out. It does get them.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response

from microsub.identity.store.credentials import DEVICE_SECONDS
from microsub.identity.store.sessions import LIFETIME
from microsub.kit.http.address import Address

Name = Literal["session", "browser", "devices"]
COOKIES: tuple[Name, ...] = ("session", "browser", "devices")
_SECRET = re.compile(r"\A[A-Za-z0-9_-]{43}\Z")


@dataclass(frozen=True, slots=True)
class Cookies:
    """Reads and writes them. `is_secure`: the server is reached over https; `port` tells it apart from others where it
    isn't, None where it is that of http.
    """

    is_secure: bool
    port: int | None = None

    @classmethod
    def at(cls, address: Address, host: str) -> Cookies:
        """Those of the server for a request whose `Host` is `host`."""
        return cls(address.is_secure, None if address.is_secure else address.port(host))

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
        if self.is_secure:
            return f"__Host-microsub-{name}"
        return f"microsub-{name}" if self.port is None else f"microsub-{name}-{self.port}"


def new_secret() -> str:
    """A value for the cookie `browser`: 256 bit."""
    return secrets.token_urlsafe(32)
