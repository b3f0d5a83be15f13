"""Headers of pages and of requests, and the public address of this server.

Policies: https://www.w3.org/TR/CSP3/, https://www.w3.org/TR/referrer-policy/.

The policy lets a page load only this server's style, script and pictures. Chrome applies `form-action` to redirects
after a form too, so a page whose form leads to another site must name that site.
The referrer policy is `same-origin` and not `no-referrer`, because with the latter browsers send `Origin: null` with
our own forms; neither sends anything to other sites.

Without `base_url`, only addresses of this machine are trusted: an attacker may choose any other `Host` header, so that
codes are sent there.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import structlog
from starlette.requests import Request
from starlette.types import Scope

from microsub.base.rate_limits import is_local
from microsub.base.urls import ascii_host, is_loopback, parts_of
from microsub.web.types import FORM


def page_headers(
    *, form_to: Iterable[str] = (), images: Iterable[str] = (), media: Iterable[str] = ()
) -> Mapping[str, str]:
    """Headers of a page.

    `form_to` are origins (or `https:`) that its forms lead to, `images` those of its pictures, `media` those of its
    audio and video.

    Raises ValueError for a source that would end its directive.
    """
    policy = {
        "default-src": "'none'",
        "style-src": "'self'",
        "script-src": "'self'",
        "connect-src": "'self'",
        "manifest-src": "'self'",
        "img-src": _sources("'self'", images),
        "media-src": _sources("'self'", media),
        "form-action": _sources("'self'", form_to),
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
    }
    return {
        "content-security-policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "referrer-policy": "same-origin",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "cross-origin-opener-policy": "same-origin",
        "cache-control": "no-store",
        "vary": "Cookie",
    }


def _sources(own: str, others: Iterable[str]) -> str:
    listed = list(dict.fromkeys(others))
    for source in listed:
        if not source or any(char in ";, \t\r\n" or not char.isascii() for char in source):
            raise ValueError(f"no source for a policy: {source!r}")
    return " ".join([own, *listed])


def header(scope: Scope, name: bytes) -> str:
    """All values of a request's header, '' without any; `name` in lower case."""
    return ", ".join(value.decode("latin-1") for key, value in scope["headers"] if key == name)


def knows(scope: Scope, tag: str) -> bool:
    """Whether the client has the document with that `ETag` already (RFC 9110, 13.1.2)."""
    return is_among(tag, header(scope, b"if-none-match"))


def is_among(tag: str, known: str) -> bool:
    """Whether `tag` is one of those in an `If-None-Match`."""
    return not {"*", tag}.isdisjoint(one.strip().removeprefix("W/") for one in known.split(","))


def bearer(scope: Scope) -> str | None:
    """The token in `Authorization: Bearer …`, with the scheme in any case; None without one."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, token = value.partition(b" ")
            if scheme.lower() == b"bearer":
                return str(token.strip().decode("latin-1"))
    return None


_JSON = ("application/json", "application/*", "*/*")
_WEIGHT = re.compile(r";\s*q=([01](?:\.[0-9]{0,3})?)\s*(?:;|\Z)", re.IGNORECASE)


def prefers_form(scope: Scope) -> bool:
    """Whether the request prefers an urlencoded form to JSON."""
    given = ",".join(value.decode("latin-1") for name, value in scope["headers"] if name == b"accept")
    weights: dict[str, float] = {}
    for part in given.split(","):
        weight = _WEIGHT.search(part)
        weights[part.partition(";")[0].strip().lower()] = float(weight[1]) if weight else 1.0
    json = next((weights[kind] for kind in _JSON if kind in weights), 0.0)
    return weights.get(FORM, 0.0) > json


@dataclass(frozen=True, slots=True)
class PublicAddress:
    """The public address that the admin has set, if any, without a slash at its end."""

    base_url: str | None

    @property
    def prefix(self) -> str:
        """The prefix of each path in links: empty, or `/reader` for a server under that path."""
        return parts_of(self.base_url).path.rstrip("/") if self.base_url else ""

    @property
    def is_secure(self) -> bool:
        """Whether browsers use it over https only."""
        return self.base_url is not None and self.base_url.startswith("https://")

    def base(self, host: str) -> str | None:
        """The address for a request whose `Host` is `host`.

        The one that was set, else that of this machine; None if the request uses another name.
        """
        if self.base_url is not None:
            return self.base_url
        return f"http://{host.lower()}" if is_loopback(host) else None

    def port(self, host: str) -> int | None:
        """The port that browsers use; None for the scheme's default, or if it is unknown."""
        base = self.base(host)
        parts = parts_of(base or "")
        return parts.port if parts.port != {"http": 80, "https": 443}.get(parts.scheme) else None


_FORWARDED = re.compile(r"(x-)?(original-)?forwarded(-.*)?|via|cdn-loop|cf-.*|(.*-)?(client|connecting|real|remote)-ip")
"""Headers that web servers and content networks add to forwarded requests."""


def is_passed_on(request: Request) -> bool:
    """Whether a web server in front has forwarded the request, by its headers."""
    # Some servers write the names that their programs set with underscores.
    return any(_FORWARDED.fullmatch(name.replace("_", "-")) for name in request.headers)


def is_of_this_machine(request: Request) -> bool:
    """Whether a program on this machine has sent the request directly to this server, by a loopback name.

    HTTP/1.0 is refused, because nginx forwards with it: without configuration, nginx adds no header, and its `Host` is
    the address to which it forwards.
    """
    hosts = request.headers.getlist("host") if request.scope["http_version"] != "1.0" else []
    is_near = is_local(request.client.host if request.client else "")
    return is_near and not is_passed_on(request) and bool(hosts) and all(map(is_loopback, hosts))


def origin(url: str) -> str:
    """Scheme, host and port of an absolute URL as browsers write them, without a default port."""
    parts = parts_of(url)
    host = ascii_host(parts.hostname or "")
    place = f"[{host}]" if ":" in host else host
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{place}" + (f":{parts.port}" if parts.port not in (None, default) else "")


def own_path(text: str) -> str | None:
    """`text` if it is a path of this server with its query, for a redirect after sign-in; else None.

    It begins with exactly one slash. Backslashes, control characters and spaces are refused, because browsers may find
    a host in them (https://url.spec.whatwg.org, the parser drops tabs and newlines).
    """
    if not text.startswith("/") or text.startswith("//") or len(text) > 4096:
        return None
    if "\\" in text or any(ord(char) <= 0x20 or ord(char) >= 0x7F for char in text):
        return None
    return text


log = structlog.get_logger(__name__)


def client_of(scope: Scope) -> str:
    """The client's address; empty for none."""
    return str((scope.get("client") or ("",))[0])


def client_address(request: Request) -> str:
    """The client's address, by the proxies of `MICROSUB_TRUSTED_PROXIES` if any; empty for none."""
    address = request.client.host if request.client else ""
    told = [part.strip() for value in request.headers.getlist("x-forwarded-for") for part in value.split(",")]
    if told and address not in told and _is_private(address):
        _warn(address)
    return address


@lru_cache(maxsize=16)
def _warn(address: str) -> None:
    """Warn once for each proxy: all its clients share one rate limit."""
    log.warning(
        "a proxy isn't trusted, so that all who come through it count as one client; list it in "
        "MICROSUB_TRUSTED_PROXIES if it is yours",
        proxy=address,
    )


def _is_private(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_private
    except ValueError:
        return False
