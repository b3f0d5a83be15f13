"""Addresses of people, apps and servers: which identify somebody, which are the same, how they are shown.

`me`: https://indieauth.spec.indieweb.org/#user-profile-url, #url-canonicalization. Which URLs may identify anything at
all is decided in `kit.identifiers`.
"""

from __future__ import annotations

import re

from microsub.errors import InvalidRequest
from microsub.kit.identifiers import MAX_URL, UNFIT, Identifier, identifier
from microsub.kit.urls import safe_url

_DOT_AT_END = re.compile(r"(?i)https?://[^/?#]*?[.\u3002\uff0e\uff61](?::[0-9]*)?(?:[/?#]|\Z)")


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


_BARE_DOMAIN = re.compile(r"[^:/?#@\s\\]+(?::[0-9]+)?(?:[/?].*)?", re.DOTALL)
EXPECTED_ME = "a profile URL such as https://alice.example/: a domain, without port, user, fragment or dot segments"


def canonical_me(text: str, *, private: bool = False) -> str:
    """The one way to write a profile URL; a bare domain is one by https. Raises InvalidRequest.

    The scheme stays: the http and the https page of a host are two until a redirect says otherwise, because anybody
    on the way can answer for the first. `private` lets ports and IP addresses pass, for machines that aren't
    reached from everywhere.
    """
    written = text.strip(" ")
    if not re.match(r"(?i)[a-z][a-z0-9+.-]*://", written) and _BARE_DOMAIN.fullmatch(written):
        written = f"https://{written}"
    try:
        found = identifier(written)
        _check_public(found, written, private)
    except ValueError as problem:
        raise InvalidRequest(f"'me' can't be used: found '{shown(text)}', {problem}; expected {EXPECTED_ME}") from None
    return found.url


def same_me(one: str, other: str) -> bool:
    """Whether two profile URLs are one by their text alone: case of the host, and the path `/` that may be left out.

    False for what is none. http and https, and other addresses that lead to the same page, are for discovery to tell.
    """
    try:
        return canonical_me(one, private=True) == canonical_me(other, private=True)
    except InvalidRequest:
        return False


def alike(one: str, other: str) -> bool:
    """Whether two profile URLs differ in nothing but the scheme and a slash at the end. Clients make and drop both, so
    that is no sign of another person; nor is it proof of the same one. False for what isn't a profile URL.
    """
    try:
        first, second = (canonical_me(me, private=True).partition("://")[2].removesuffix("/") for me in (one, other))
    except InvalidRequest:
        return False
    return first == second


def site_of_me(me: str) -> str:
    """Host and port of a canonical profile URL, without `www.`: by the spec's own example, that is one site."""
    found = identifier(me)
    return found.host.removeprefix("www.") + (f":{found.port}" if found.port is not None else "")


def path_of_me(me: str) -> str:
    """Path and query of a canonical profile URL: which page of its site it is."""
    found = identifier(me)
    return found.path + found.query


def _check_public(found: Identifier, written: str, private: bool) -> None:
    if private:
        return
    if found.is_address:
        raise ValueError("with an IP address as its host")
    if re.match(r"(?i)https?://[^/?#]*:", written):
        raise ValueError("with a port")
