"""The headers of every page (https://www.w3.org/TR/CSP3/, https://www.w3.org/TR/referrer-policy/).

The policy lets a page load our own style, script and pictures, and nothing else. Chrome applies `form-action` to the
redirects that follow a form too, so a page whose form leads to another site has to name it.
The referrer policy is `same-origin` and not `no-referrer`, because with the latter browsers send `Origin: null` with
our own forms; to other sites neither sends anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


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
