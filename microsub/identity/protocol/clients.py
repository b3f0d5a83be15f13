"""Apps: their identifier, their metadata, and where people may be sent back to.

https://indieauth.spec.indieweb.org/#client-identifier, #client-information-discovery; the JSON document is also
draft-ietf-oauth-client-id-metadata-document, with the names of RFC 7591.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from microsub.errors import InvalidRequest, ParseError
from microsub.formats.encoding import decode
from microsub.formats.html.crowding import is_crowded
from microsub.formats.mf2 import hfeed
from microsub.formats.mf2 import values as mf2
from microsub.identity.protocol.documents import Document, read_object, text_of
from microsub.identity.protocol.identifiers import endpoint, same_origin, shown
from microsub.identity.protocol.links import links_of, page_of
from microsub.kit.identifiers import MAX_URL, Identifier, identifier
from microsub.kit.urls import safe_url

_LOOPBACK = frozenset({"127.0.0.1", "[::1]"})
_MOST_REDIRECTS = 100
_LONGEST_NAME = 100
_LONGEST_PAGE = 256 * 1024
# What runs, or shows what the sender wants, in place of leading to an app.
_NO_APP = frozenset(
    {
        "javascript",
        "data",
        "vbscript",
        "blob",
        "file",
        "about",
        "view-source",
        "filesystem",
        "ws",
        "wss",
        "ftp",
        "mailto",
    }
)
_CUSTOM = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):[!$-;=?-\[\]_a-z~]+")


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """What an app says of itself: to be shown beside its `id`, which alone is proven. `url` is its own page.

    `redirect_uris` are those it publishes beyond its own origin, absolute, as they must be asked for.
    """

    id: str
    name: str | None = None
    url: str | None = None
    logo: str | None = None
    redirect_uris: frozenset[str] = frozenset()


def canonical_client_id(text: str) -> str:
    """The one way to write a client's identifier. Raises InvalidRequest.

    Ports may stand in it; of IP addresses only those of the machine itself.
    """
    try:
        return _checked(text).url
    except ValueError as problem:
        raise InvalidRequest(
            f"'client_id' can't be used: found '{shown(text)}', {problem}; expected the URL of an app"
        ) from None


def may_be_asked(client_id: str) -> bool:
    """Whether there is a document about the client to fetch: at a loopback address there would be our own machine."""
    return not identifier(client_id).is_loopback


def read_client(body: bytes, client_id: str, url: str, content_type: str | None, link_header: str | None) -> ClientInfo:
    """What the document of `client_id`, found at `url`, says of the app: JSON, or a page with an h-app.

    Raises ParseError for a JSON document that is another client's, or can't be read. A page may say nothing at all.
    """
    kind = (content_type or "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json") or (not kind and body.lstrip()[:1] == b"{"):
        return _from_json(read_object(body, url), client_id, url)
    links = links_of(body, url, content_type, link_header)
    targets = [target for rel, to, base in links if rel == "redirect_uri" and (target := _redirect(to, base))]
    info = ClientInfo(client_id, redirect_uris=frozenset(targets[:_MOST_REDIRECTS]))
    if page_of(body, content_type) is None:
        return info
    return _with_app(info, decode(body[:_LONGEST_PAGE], content_type), url)


def allowed_redirect(info: ClientInfo, redirect_uri: str) -> bool:
    """Whether people may be sent to `redirect_uri`: on the client's own scheme, host and port, or published by it.

    Letter for letter, but for the port of a published loopback address (RFC 8252, 7.3); and never what browsers would
    run, what carries a fragment, user or password, or what could be read in two ways.
    """
    target = _redirect(redirect_uri, "")
    if target is None or target != redirect_uri:
        return False
    if redirect_uri in info.redirect_uris or same_origin(redirect_uri, info.id):
        return True
    return is_loopback_redirect(redirect_uri) and any(
        is_loopback_redirect(listed) and _without_port(listed) == _without_port(redirect_uri)
        for listed in info.redirect_uris
    )


def is_loopback_redirect(redirect_uri: str) -> bool:
    """Whether it leads to a program on the person's own machine that listens at a loopback address (RFC 8252, 7.3)."""
    if _redirect(redirect_uri, "") != redirect_uri or not redirect_uri.startswith("http://"):
        return False
    return identifier(redirect_uri).host in _LOOPBACK


def _without_port(url: str) -> str:
    found = identifier(url)
    return f"{found.host}{found.path}{found.query}"


def _checked(text: str) -> Identifier:
    found = identifier(text)
    if found.is_address and found.host not in _LOOPBACK:
        raise ValueError("with an IP address as its host")
    return found


def _redirect(value: object, base: str) -> str | None:
    """An address to send people to, absolute; None for what is none, or is dangerous."""
    if not isinstance(value, str) or not value or len(value) > MAX_URL:
        return None
    custom = _CUSTOM.fullmatch(value)
    if custom and custom["scheme"].lower() not in {"http", "https"}:
        # An app on the person's own machine. Without a dot any app could take the scheme; that is the client's choice.
        return value if custom["scheme"].lower() not in _NO_APP else None
    if re.match(r"(?i)https?://", value):
        try:
            identifier(value)
        except ValueError:
            return None
        return value if value.isascii() and not re.search(r"[\"<>^`{|}]", value) else None
    return endpoint(value, base) if base and not custom else None


def _from_json(document: Document, client_id: str, url: str) -> ClientInfo:
    said = document.get("client_id")
    try:
        same = isinstance(said, str) and canonical_client_id(said) == client_id
    except InvalidRequest:
        same = False
    if not same:
        other = f"'{shown(said)}'" if isinstance(said, str) else "none"
        raise ParseError(url, f"'client_id': found {other}, expected '{client_id}'")
    values = document.get("redirect_uris")
    listed = (
        [found for value in values[:_MOST_REDIRECTS] if (found := _redirect(value, url))]
        if isinstance(values, list)
        else []
    )
    home = endpoint(document.get("client_uri")) if document.get("client_uri") else None
    return ClientInfo(
        client_id,
        name=_name(text_of(document, "client_name")),
        # The app's page must be one above the document: https://indieauth.spec.indieweb.org/#client-metadata
        url=home if home and client_id.startswith(home) else None,
        logo=endpoint(document.get("logo_uri"), url) if document.get("logo_uri") else None,
        redirect_uris=frozenset(listed),
    )


def _with_app(info: ClientInfo, text: str, url: str) -> ClientInfo:
    """Name and picture of the h-app (or h-x-app) on the page whose `url` is the client's identifier."""
    if is_crowded(text):
        return info
    try:
        page = hfeed.read_page(text, url)
    except (ParseError, RecursionError, ValueError, AttributeError, TypeError, KeyError):
        return info
    for item in mf2.walk(page.items):
        if mf2.has_type(item, "h-app", "h-x-app"):
            addresses = mf2.urls(item, "url", page.base)
            if addresses and not any(_same(address, place) for address in addresses for place in (info.id, url)):
                continue
            logo: Any = mf2.url(item, "logo", page.base) or mf2.url(item, "photo", page.base)
            home = next((a for a in addresses if safe_url(a)), None)
            return replace(info, name=_name(mf2.text(item, "name")), url=home, logo=endpoint(logo))
    return info


def _same(one: str, other: str) -> bool:
    try:
        return identifier(one.partition("#")[0]).url == identifier(other).url
    except ValueError:
        return False


def _name(text: str | None) -> str | None:
    """A name short enough to stand beside the identifier, and without what would rearrange the line."""
    words = " ".join((text or "").split())
    return words[:_LONGEST_NAME] if words and words.isprintable() else None
