"""Addresses of people, apps and servers, and the links by which a page names them.

`me`: https://indieauth.spec.indieweb.org/#user-profile-url, #url-canonicalization. `base.identifiers` decides which
URLs can be identifiers at all.

Links: https://indieauth.spec.indieweb.org/#discovery-by-clients, https://www.rfc-editor.org/rfc/rfc8288. HTTP `Link`
comes first, then `<link>` in the page's head, in document order. Links in the body are ignored: on many sites others
may write there, and a `<link>` in a comment would name their server as the owner's. The boundary of head and body is
that of the tree that browsers build: a `<div>` among the metadata ends the head, whatever follows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from selectolax.lexbor import LexborHTMLParser

from microsub.base.errors import InvalidRequest
from microsub.base.identifiers import MAX_URL, UNFIT, Identifier, identifier
from microsub.base.urls import safe_url
from microsub.discovery.links import discover
from microsub.formats.encoding import decode
from microsub.formats.html.trees import base_of, tree_of
from microsub.formats.parse import sniff
from microsub.web.links import links_of

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


_HTML = frozenset({"text/html", "application/xhtml+xml"})
_MOST_LINKS = 500
_MOST_RELS = 50
_LARGEST_FOR_FEEDS = 256 * 1024
_MOST_FEEDS = 5


@dataclass(frozen=True, slots=True)
class WrittenLink:
    """A link as written: `rel` and `target` are unchanged, `base` resolves a relative target."""

    place: Literal["header", "page"]
    rel: str
    target: str
    base: str

    @property
    def rels(self) -> tuple[str, ...]:
        """The relations in `rel`, in lower case, each once: they are a set."""
        return tuple(dict.fromkeys(self.rel.lower().split(None, _MOST_RELS)[:_MOST_RELS]))


def written_links(body: bytes, url: str, content_type: str | None, link_header: str | None) -> Iterator[WrittenLink]:
    """Every link, best first, as written.

    Only a document served as HTML has links; a plain text, which anybody could upload somewhere, hasn't.
    """
    for link in links_of(link_header, url):
        yield WrittenLink("header", link.rel, link.target, url)
    tree = page_of(body, content_type)
    if tree is None:
        return
    base = base_of(tree, url)
    for node in tree.css("html > head > link[rel][href]")[:_MOST_LINKS]:
        yield WrittenLink("page", node.attributes.get("rel") or "", node.attributes.get("href") or "", base)


def rels_in_body(body: bytes, content_type: str | None) -> frozenset[str]:
    """The relations of `<link>`s in the page's body, in lower case, which are ignored."""
    tree = page_of(body, content_type)
    nodes = tree.css("body link[rel][href]")[:_MOST_LINKS] if tree is not None else []
    return frozenset(rel for node in nodes for rel in (node.attributes.get("rel") or "").lower().split()[:_MOST_RELS])


@dataclass(frozen=True, slots=True)
class ExaminedPage:
    """The facts to check on a page.

    Its links as written, the relations of those in its body, whether it is served as HTML, and the first of the feeds
    that it is or names; None for a page too long to look for them.
    """

    links: tuple[WrittenLink, ...]
    in_body: frozenset[str]
    is_html: bool
    feeds: tuple[str, ...] | None


def examined(body: bytes, url: str, content_type: str | None, link_header: str | None) -> ExaminedPage:
    """The facts of a page that is checked for its owner."""
    links = tuple(written_links(body, url, content_type, link_header))
    feeds = None
    if len(body) <= _LARGEST_FOR_FEEDS:
        feeds = tuple(feed.url for feed in discover(body, url, content_type, link_header)[:_MOST_FEEDS])
    return ExaminedPage(links, rels_in_body(body, content_type), page_of(body, content_type) is not None, feeds)


def page_of(body: bytes, content_type: str | None) -> LexborHTMLParser | None:
    """The elements of an HTML page, recognised by its type or, if none is declared, by its content; otherwise None."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    if not body or (kind and kind not in _HTML):
        return None
    text = decode(body, content_type)
    return tree_of(text) if kind or sniff(text, None) == "html" else None


_ENDPOINTS = {
    "indieauth-metadata": "metadata",
    "authorization_endpoint": "authorization",
    "token_endpoint": "token",
    "microsub": "microsub",
    "micropub": "micropub",
}
_MOST_ME = 20
_LONGEST_ME = 300


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The addresses that a page names, absolute, or None. `metadata` is `indieauth-metadata`."""

    metadata: str | None = None
    authorization: str | None = None
    token: str | None = None
    microsub: str | None = None
    micropub: str | None = None

    @property
    def names_server(self) -> bool:
        """Whether it names a server of the newer or the older kind for this person."""
        return any((self.metadata, self.authorization, self.token))


@dataclass(frozen=True, slots=True)
class ProfileLinks:
    """The facts on a person's page: the servers that it names, and profiles of the same person."""

    endpoints: Endpoints
    me: tuple[str, ...] = ()


def profile_links(
    body: bytes, url: str, content_type: str | None, link_header: str | None, private: bool = False
) -> ProfileLinks:
    """Both, of the page found at `url`; `link_header` is the joined value of its `Link` header.

    Never raises. For each server, the first usable link counts: HTTP `Link`, then `<link>` in the head. The profiles
    (`rel=me`) are canonical, each once, in the page's order, also only from HTTP `Link` and `<link>` in the head:
    people who can write there could name their own server.
    """
    links = list(written_links(body, url, content_type, link_header))
    endpoints = {_ENDPOINTS[rel]: address for rel, address in usable(links, _ENDPOINTS).items()}
    return ProfileLinks(Endpoints(**endpoints), _me_links(links, private))


def usable(links: Iterable[WrittenLink], rels: Collection[str]) -> dict[str, str]:
    """The first address of each of these relations that is safe for requests."""
    found: dict[str, str] = {}
    for link in links:
        for rel in link.rels:
            if rel in rels and rel not in found and (address := endpoint(link.target, link.base)) is not None:
                found[rel] = address
    return found


def _me_links(links: Iterable[WrittenLink], private: bool) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for link in links:
        if "me" not in link.rels or len(found) >= _MOST_ME or len(link.target) > _LONGEST_ME:
            continue
        with suppress(InvalidRequest):
            found.setdefault(canonical_me(safe_url(link.target, link.base) or "", private=private))
    return tuple(found)
