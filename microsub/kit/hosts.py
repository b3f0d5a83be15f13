"""The little that configuration needs to know of URLs: whether one is usable, and whether two are the same."""

from __future__ import annotations

import contextlib
import re
from urllib.parse import urlsplit, urlunsplit

import idna

_PORTS = {"http": 80, "https": 443}
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")


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


def domain(text: str) -> str | None:
    """A domain as it is compared: lower case, international names as punycode, no dot at the end; else None.

    Refused are single labels, since `com` or `localhost` would mean everybody there, IP addresses, wildcards and URLs.
    """
    name = text.strip().lower().removesuffix(".")
    if not name.isascii():
        try:
            name = idna.encode(name, uts46=True).decode("ascii")
        except (idna.IDNAError, UnicodeError):
            return None
    labels = name.split(".")
    if len(name) > 253 or len(labels) < 2 or not all(_LABEL.fullmatch(label) for label in labels):
        return None
    return None if re.fullmatch(r"[0-9]+|0x[0-9a-f]*", labels[-1]) else name


def within(host: str, name: str) -> bool:
    """Whether `host` is the domain `name` or below it; both as `domain` writes them. `notann.example` isn't within
    `ann.example`.
    """
    return host == name or host.endswith(f".{name}")


def comparable_person(me: str) -> str:
    """The form in which two spellings of one person's address are equal: http or https, with or without a slash at the
    end, the host in any case, in its own script or as punycode. What can't be read stays as it is.
    """
    written = me.strip() if "://" in me else f"https://{me.strip()}"
    try:
        parts = urlsplit(written)
        host, port = (parts.hostname or "").removesuffix("."), parts.port
    except ValueError:
        return me
    with contextlib.suppress(idna.IDNAError, UnicodeError):
        host = host if host.isascii() else idna.encode(host, uts46=True).decode("ascii")
    place = host if port in (None, 80, 443) else f"{host}:{port}"
    return urlunsplit(("", place, parts.path.rstrip("/"), parts.query, ""))
