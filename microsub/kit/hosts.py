"""The little that configuration needs to know of URLs: whether one is usable, and whether two are the same."""

from __future__ import annotations

import contextlib
import re
from urllib.parse import urlsplit, urlunsplit

import idna

_PORTS = {"http": 80, "https": 443}


def ascii_host(host: str) -> str:
    """`host` in lower case and punycode; a name that IDNA can't express stays as it is, in lower case."""
    host = host.lower().rstrip(".")
    if host.isascii():
        return host
    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        return host


def usable(url: str) -> bool:
    """Whether `url` is an absolute http or https URL that can be requested."""
    if re.search(r"[\x00-\x20\x7f]", url):
        return False
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError for an invalid port
    except ValueError:
        return False
    return parts.scheme in _PORTS and bool(parts.hostname)


def comparable(url: str) -> str:
    """The form in which two spellings of one feed URL are equal: scheme and host in lower case, international names as
    punycode, no default port, no fragment, at least `/` as path. What can't be read stays as it is.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return url
    if not host:
        return url
    with contextlib.suppress(UnicodeError):
        host = host if host.isascii() else host.encode("idna").decode("ascii")
    place = f"[{host}]" if ":" in host else host
    if port is not None and port != _PORTS.get(parts.scheme):
        place += f":{port}"
    if "@" in parts.netloc:
        place = parts.netloc.rpartition("@")[0] + "@" + place
    return urlunsplit((parts.scheme, place, parts.path or "/", parts.query, ""))


def comparable_profile(url: str) -> str:
    """The form in which two spellings of a muted or blocked URL are equal: as `comparable`, and https for http, and no
    slash at the end.
    """
    return re.sub(r"\Ahttp://", "https://", comparable(url)).rstrip("/")
