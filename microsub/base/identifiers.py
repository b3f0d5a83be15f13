"""URLs that identify users, apps and servers (https://indieauth.spec.indieweb.org/#identifiers).

They are compared as text, so each has one form, which all programs read alike. backend.json and sign-in follow this
rule.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import quote

from microsub.base.errors import InvalidRequest
from microsub.base.urls import ascii_host, ipv6_text, safe_url

MAX_URL = 2048

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<user>[^/?#@]*@)?(?P<host>\[[^\]/?#]*\]|[^/?#:@]*)(?::(?P<port>[0-9]*))?(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?(?P<fragment>#.*)?",
    re.IGNORECASE,
)
_NAME = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*"
)
# Browsers take a host for an IPv4 address as soon as its last part is a number (https://url.spec.whatwg.org/#ends-in-a-number-checker).
_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
_DOTS = re.compile(r"(?i)(?:\.|%2e){1,2}")
UNFIT = re.compile(r"[\x00-\x20\x7f-\xa0\\\ud800-\udfff\u2028\u2029\ufffe\uffff]")
_PATH_SAFE = "/%:@!$&'()*+,;=~-._[]|"
_QUERY_SAFE = _PATH_SAFE + "?"
DEFAULT_PORTS = {"http": 80, "https": 443}

PROFILE = (
    "an http or https URL of somebody's site, such as https://alice.example/, without user, password, fragment or dot "
    "segments"
)
"""The expected form of `me`, for messages."""


@dataclass(frozen=True, slots=True)
class Identifier:
    """The parts of an identifying URL.

    `host` is lower case, in ASCII, IPv6 in brackets; `port` is None for the scheme's default. `path` begins with a
    slash, `query` with a question mark unless it is empty.
    """

    scheme: str
    host: str
    port: int | None
    path: str
    query: str

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"{self.scheme}://{self.host}" + (f":{self.port}" if self.port is not None else "")

    @property
    def url(self) -> str:
        """The URL in its one form."""
        return f"{self.origin}{self.path}{self.query}"

    @property
    def is_address(self) -> bool:
        """Whether the host is an IP address, not a name."""
        return self.host.startswith("[") or _NUMBER.fullmatch(self.host) is not None

    @property
    def is_loopback(self) -> bool:
        """Whether the host is the machine of the program that opens the URL."""
        return self.host in {"127.0.0.1", "[::1]", "localhost"} or self.host.endswith(".localhost")


def identifier(text: str) -> Identifier:
    """The parts of an identifying URL.

    Raises ValueError with the reason, which never quotes the URL. Refused are other schemes than http and https, user
    and password, fragments, dot segments, control characters, white space, backslashes, and hosts that are neither
    names nor addresses.
    """
    if len(text) > MAX_URL:
        raise ValueError(f"longer than {MAX_URL} characters")
    if UNFIT.search(text):
        raise ValueError("with white space, a control character or a backslash in it")
    match = _URL.fullmatch(text)
    if match is None:
        raise ValueError("not an http or https URL")
    if match["user"] is not None:
        raise ValueError("with a user name or password")
    if match["fragment"] is not None:
        raise ValueError("with a fragment")
    path = match["path"] or "/"
    if any(_DOTS.fullmatch(segment) for segment in path.split("/")):
        raise ValueError("with a segment of dots in its path")
    scheme = match["scheme"].lower()
    port = _port(match["port"], scheme)
    query = quote(match["query"] or "", safe=_QUERY_SAFE)
    return Identifier(scheme, _host(match["host"]), port, quote(path, safe=_PATH_SAFE), query)


def unfit_profile(text: str) -> str | None:
    """The reason why a profile URL is invalid, to be put behind it; None for a valid one."""
    try:
        identifier(text)
    except ValueError as problem:
        return str(problem)
    return None


def _port(text: str | None, scheme: str) -> int | None:
    if not text:
        return None
    if len(text) > 5 or not 0 < int(text) < 65536:
        raise ValueError("with an invalid port")
    return int(text) if int(text) != DEFAULT_PORTS[scheme] else None


def _host(text: str) -> str:
    if text.startswith("["):
        try:
            return f"[{ipv6_text(IPv6Address(text[1:-1]))}]"
        except ValueError:
            raise ValueError("with an invalid host") from None
    if text.endswith(".."):
        raise ValueError("with an invalid host")
    host = ascii_host(text)
    if _NUMBER.fullmatch(host):
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise ValueError("with an address in an odd notation as its host") from None
    if not _NAME.fullmatch(host):
        raise ValueError("with an invalid host")
    return host


_DOT_AT_END = re.compile(r"(?i)https?://[^/?#]*?[.\u3002\uff0e\uff61](?::[0-9]*)?(?:[/?#]|\Z)")


def same_origin(one: str, other: str) -> bool:
    """Whether two addresses have the same scheme, host and port, ignoring fragments.

    False if one is invalid. As in browsers, a trailing dot makes another host.
    """
    try:
        return _origin(one) == _origin(other)
    except ValueError:
        return False


def _origin(url: str) -> tuple[str, bool]:
    url = url.partition("#")[0]
    return identifier(url).origin, _DOT_AT_END.match(url) is not None


def endpoint(value: object, base: str = "") -> str | None:
    """An absolute address for requests.

    None if `value` can't be trusted with a secret. It is resolved as in browsers. User and password, fragments (RFC
    6749, 3.1), control characters and ambiguous addresses are refused. An empty relative address is the page itself
    (RFC 3986, 4.4).
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
    """The text in a form for messages: short, printable, and without credentials."""
    clean = "".join(char if char.isprintable() else "\ufffd" for char in text[:200])
    return re.sub(r"//[^/?#]*@", "//***@", clean)


_BARE_DOMAIN = re.compile(r"[^:/?#@\s\\]+(?::[0-9]+)?(?:[/?].*)?", re.DOTALL)
EXPECTED_ME = "a profile URL such as https://alice.example/: a domain, without port, user, fragment or dot segments"


def canonical_me(text: str, *, private: bool = False) -> str:
    """The canonical form of a profile URL; a bare domain gets https. Raises InvalidRequest.

    The scheme isn't changed: a host's http and https pages are different until a redirect says otherwise, because
    anybody on the network path can answer for the first. `private` also allows ports and IP addresses, for machines
    that aren't publicly reachable.
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


def known_me(me: str) -> str | None:
    """The canonical form of an account's address, in any network; None if it is invalid."""
    try:
        return canonical_me(me, private=True)
    except InvalidRequest:
        return None


def same_me(one: str, other: str) -> bool:
    """Whether two profile URLs are the same, compared as text.

    The host's case and the optional path `/` don't matter. False for invalid ones. http and https, and other addresses
    that lead to the same page, are compared by discovery.
    """
    first = known_me(one)
    return first is not None and first == known_me(other)


def alike(one: str, other: str) -> bool:
    """Whether two profile URLs differ only in the scheme and a trailing slash.

    Clients add and remove both, so this difference doesn't show another person; nor does it prove the same one. False
    if one isn't a profile URL.
    """
    first, second = ((known_me(me) or "").partition("://")[2].removesuffix("/") for me in (one, other))
    return first == second != ""


def site_of_me(me: str) -> str:
    """Host and port of a canonical profile URL, without `www.`, which identify a site."""
    found = identifier(me)
    return found.host.removeprefix("www.") + (f":{found.port}" if found.port is not None else "")


def path_of_me(me: str) -> str:
    """Path and query of a canonical profile URL, which identify a page of its site."""
    found = identifier(me)
    return found.path + found.query


def _check_public(found: Identifier, written: str, private: bool) -> None:
    if private:
        return
    if found.is_address:
        raise ValueError("with an IP address as its host")
    if re.match(r"(?i)https?://[^/?#]*:", written):
        raise ValueError("with a port")
