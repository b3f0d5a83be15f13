"""Addresses of apps and servers that others name: which may be asked, which are one, and how they are shown.

What may identify somebody or something at all is said in `kit.identifiers`.
"""

from __future__ import annotations

import re

from microsub.kit.identifiers import MAX_URL, UNFIT, Identifier, identifier
from microsub.kit.urls import safe_url

_DOT_AT_END = re.compile(r"(?i)https?://[^/?#]*?[.\u3002\uff0e\uff61](?::[0-9]*)?(?:[/?#]|\Z)")

__all__ = ["MAX_URL", "Identifier", "endpoint", "identifier", "same_origin", "shown"]


def same_origin(one: str, other: str) -> bool:
    """Whether two addresses, fragments apart, have scheme, host and port in common; False where one can't be read.

    As in browsers, a dot at the end of the host makes another origin.
    """
    try:
        return _origin(one) == _origin(other)
    except ValueError:
        return False


def _origin(url: str) -> tuple[str, bool]:
    url = url.partition("#")[0]
    return identifier(url).origin, _DOT_AT_END.match(url) is not None


def endpoint(value: object, base: str = "") -> str | None:
    """An address to send requests to, absolute; None where `value` is none that one may trust with a secret.

    Resolved as browsers do. User and password, fragments (RFC 6749, 3.1) and control characters are refused, and what
    can't be read in one way only. An empty relative address is the page itself (RFC 3986, 4.4).
    """
    if not isinstance(value, str) or len(value) > MAX_URL:
        return None
    text = value.strip(" ")
    if UNFIT.search(text):
        return None
    found = safe_url(text, base) if text else safe_url(base.partition("#")[0])
    if found is None:
        return None
    try:
        return identifier(found).url
    except ValueError:
        return None


def shown(text: str) -> str:
    """What was found, fit for a message: short, without anything that isn't printed, and without credentials."""
    clean = "".join(char if char.isprintable() else "\ufffd" for char in text[:200])
    return re.sub(r"//[^/?#]*@", "//***@", clean)
