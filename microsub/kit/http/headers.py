"""Headers of requests and pages (https://www.w3.org/TR/CSP3/, https://www.w3.org/TR/referrer-policy/).

The policy lets a page load our own style, script and pictures, and nothing else. Chrome applies `form-action` to the
redirects that follow a form too, so a page whose form leads to another site has to name it.
The referrer policy is `same-origin` and not `no-referrer`, because with the latter browsers send `Origin: null` with
our own forms; to other sites neither sends anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from starlette.types import Scope


def page_headers(*, form_to: Iterable[str] = (), images: Iterable[str] = ()) -> Mapping[str, str]:
    """Headers of a page. `form_to` are origins (or `https:`) that its forms lead to, `images` those of its pictures.

    Raises ValueError for a source that would end its directive.
    """
    policy = {
        "default-src": "'none'",
        "style-src": "'self'",
        "script-src": "'self'",
        "connect-src": "'self'",
        "img-src": _sources("'self'", images),
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


def bearer(scope: Scope) -> str | None:
    """The token in `Authorization: Bearer …`, the scheme in any case; None where there is none."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, token = value.partition(b" ")
            if scheme.lower() == b"bearer":
                return str(token.strip().decode("latin-1"))
    return None


_FORM = "application/x-www-form-urlencoded"
_JSON = ("application/json", "application/*", "*/*")
_WEIGHT = re.compile(r";\s*q=([01](?:\.[0-9]{0,3})?)\s*(?:;|\Z)", re.IGNORECASE)


def prefers_form(scope: Scope) -> bool:
    """Whether the request would rather have an urlencoded form than JSON; JSON where it doesn't mind."""
    given = ",".join(value.decode("latin-1") for name, value in scope["headers"] if name == b"accept")
    weights: dict[str, float] = {}
    for part in given.split(","):
        weight = _WEIGHT.search(part)
        weights[part.partition(";")[0].strip().lower()] = float(weight[1]) if weight else 1.0
    json = next((weights[kind] for kind in _JSON if kind in weights), 0.0)
    return weights.get(_FORM, 0.0) > json
