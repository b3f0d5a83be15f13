"""URLs as they are requested: IDN hosts, escaped paths, credentials separated. Pure."""

from __future__ import annotations

import base64
from contextlib import suppress
from dataclasses import dataclass, field, replace
from urllib.parse import unquote_to_bytes, urljoin, urlunsplit

import httpx

from microsub.base.identifiers import DEFAULT_PORTS
from microsub.base.urls import LONGEST_URL, ascii_host, named_sign_in, parts_of, trimmed
from microsub.fetch.values import HopError


@dataclass(frozen=True, slots=True)
class HopTarget:
    """One hop. `url` has an ASCII host, an escaped path, no fragment and no credentials.

    `userinfo` is the part before the `@`, as written, or empty; `host` is lower case and without brackets. `headers`
    are those of the sign-in that it names, for its origin.
    """

    url: str
    scheme: str
    host: str
    port: int
    userinfo: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = field(default=(), compare=False, repr=False)

    @property
    def authority(self) -> str:
        """Host and port as the `Host` header has them (RFC 9110, 7.2)."""
        return self.url.split("/", 3)[2]

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port (RFC 6454)."""
        return self.scheme, self.host, self.port

    @property
    def origin_text(self) -> str:
        """The origin as text, with its port."""
        return f"{self.scheme}://{self.host}:{self.port}"

    @property
    def path(self) -> str:
        """Path and query, as the request line has them."""
        return "/" + self.url.split("/", 3)[3]

    def with_credentials(self) -> str:
        """The whole address, for the next request; must never be shown."""
        if not self.userinfo:
            return self.url
        parts = parts_of(self.url)
        return urlunsplit(parts._replace(netloc=f"{self.userinfo}@{parts.netloc}"))

    @property
    def sign_in(self) -> tuple[str, str] | None:
        """The user and the id of the sign-in that the address names."""
        return named_sign_in(self.userinfo)

    def authorization(self) -> bytes | None:
        """The value of an `Authorization` header (RFC 7617), or None."""
        if not self.userinfo or self.sign_in is not None:
            return None
        name, _, password = self.userinfo.partition(":")
        return b"Basic " + base64.b64encode(unquote_to_bytes(name) + b":" + unquote_to_bytes(password))


def target_of(url: str) -> HopTarget:
    """Parse an absolute http or https URL. Raises HopError (`bad_url`)."""
    text = trimmed(url)
    if len(text) > LONGEST_URL:
        raise HopError("bad_url", f"the URL is longer than {LONGEST_URL} characters")
    try:
        parts = parts_of(text)
        port = parts.port
    except ValueError:
        # The error's own text quotes the part before the host, credentials and all.
        raise HopError("bad_url", "the URL can't be read: its host or port is malformed") from None
    scheme = parts.scheme.lower()
    if scheme not in DEFAULT_PORTS:
        found = f"only http and https can be fetched: found '{scheme[:20]}'"
        raise HopError("bad_url", found if scheme else "the URL must begin with http:// or https://")
    if not parts.hostname:
        raise HopError("bad_url", "the URL names no host")
    host = ascii_host(parts.hostname)
    if not host.isascii():
        raise HopError("bad_url", "the host name can't be written in ASCII")
    if not host:
        raise HopError("bad_url", "the URL names no host")
    netloc = f"[{host}]" if ":" in host else host
    if port is not None and port != DEFAULT_PORTS[scheme]:
        netloc = f"{netloc}:{port}"
    try:
        clean = httpx.URL(urlunsplit((scheme, netloc, parts.path or "/", parts.query, "")))
    except (httpx.InvalidURL, UnicodeError):
        raise HopError("bad_url", "the URL can't be requested: its host, path or query is malformed") from None
    userinfo = parts.netloc.rpartition("@")[0]
    return HopTarget(str(clean), scheme, host, port or DEFAULT_PORTS[scheme], userinfo)


def follow(current: HopTarget, location: str) -> HopTarget:
    """The target of a redirect. Raises HopError (`bad_url`).

    Credentials stay on their host, and never go from https to http; a sign-in stays at its origin. One that the server
    names is dropped: it would lead a feed to another user's.
    """
    # Many servers send unescaped UTF-8, which was decoded as latin-1.
    with suppress(UnicodeError):
        location = location.encode("latin-1").decode("utf-8")
    if len(location) > LONGEST_URL:
        raise HopError("bad_url", f"the redirect leads to a URL of more than {LONGEST_URL} characters")
    try:
        target = target_of(urljoin(current.url, location))
    except ValueError:
        raise HopError("bad_url", "the redirect leads to an invalid URL") from None
    if target.sign_in is not None:
        target = replace(target, userinfo="")
    keeps = target.host == current.host and not (current.scheme == "https" and target.scheme == "http")
    if current.sign_in is not None:
        keeps = target.origin == current.origin
    if current.userinfo and keeps and not target.userinfo and _same_service(current, target):
        return replace(target, userinfo=current.userinfo, headers=current.headers)
    return target


def _same_service(current: HopTarget, target: HopTarget) -> bool:
    if current.scheme == target.scheme:
        return current.port == target.port
    return current.port == DEFAULT_PORTS[current.scheme] and target.port == DEFAULT_PORTS[target.scheme]
