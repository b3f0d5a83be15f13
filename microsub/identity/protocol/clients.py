"""Apps: their identifier, their metadata, and their redirect addresses.

https://indieauth.spec.indieweb.org/#client-identifier, #client-information-discovery; the JSON document is also
draft-ietf-oauth-client-id-metadata-document, with the names of RFC 7591.

Authorization requests are read from the address to which the app redirects the browser:
https://indieauth.spec.indieweb.org/#authorization-request, RFC 6749, sections 3.1 and 4.1.1. Older apps that only want
to know the user's identity send `response_type=id` or omit it. PKCE (RFC 7636) proves that the app that redeems a code
is the one that requested it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from microsub.base.digests import base64url, is_same
from microsub.base.errors import InvalidRequest, OAuthRefused, ParseError
from microsub.base.identifiers import MAX_URL, Identifier, endpoint, identifier, same_origin, shown
from microsub.base.plaintext import unprintable
from microsub.base.urls import safe_url
from microsub.formats import hfeed
from microsub.formats import microformats as mf2
from microsub.formats.encoding import decode
from microsub.formats.html.trees import is_crowded
from microsub.identity.protocol.documents import PKCE_METHOD, Document, read_object, text_of
from microsub.identity.protocol.links import page_of, written_links
from microsub.parsing.task import Task

_LOOPBACK_ADDRESSES = frozenset({"127.0.0.1", "[::1]"})
# RFC 8252 (8.3) advises programs against `localhost`; many use it, and browsers resolve it to the loopback address.
_LOOPBACK = _LOOPBACK_ADDRESSES | {"localhost"}
_MOST_REDIRECTS = 100
_LONGEST_NAME = 100
_LONGEST_PAGE = 256 * 1024
# Schemes that browsers run, or that show the sender's content, instead of opening an app.
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
class App:
    """An app's claims about itself, shown next to its `id`, which is the only proven part.

    `url` is its own page. `redirect_uris` are those that it publishes outside its own origin, absolute, exactly as they
    must be requested. `picture` is a `data:` URL of our own copy of the `logo`; `answered`: its metadata was received;
    `is_claimed`: a program on the user's machine claims to be this app, without proof.
    """

    id: str
    name: str | None = None
    url: str | None = None
    logo: str | None = None
    redirect_uris: frozenset[str] = frozenset()
    picture: str | None = None
    answered: bool = False
    is_claimed: bool = False

    @property
    def is_near(self) -> bool:
        """Whether its own address is on the user's machine."""
        return identifier(self.id).is_loopback

    @property
    def host(self) -> str:
        """Its host, with the port unless it is the default one."""
        where = identifier(self.id)
        return where.host if where.port is None else f"{where.host}:{where.port}"

    @property
    def address(self) -> str:
        """Its identifier, in a form for pages, if that says more than `host`; otherwise empty."""
        where = identifier(self.id)
        is_plain = (where.scheme == "https" or where.is_loopback) and (where.path, where.query) == ("/", "")
        return "" if is_plain else shown(self.id)

    @property
    def title(self) -> str:
        """A short name: the app's own name, otherwise its host."""
        return self.name or self.id.partition("://")[2].removesuffix("/")


def canonical_client_id(text: str) -> str:
    """The canonical form of a client's identifier. Raises InvalidRequest.

    It may have a port; the only IP addresses allowed are loopback ones. All its characters can be shown.
    """
    try:
        return _checked(text).url
    except ValueError as problem:
        raise InvalidRequest(
            f"'client_id' can't be used: found '{shown(text)}', {problem}; expected the URL of an app"
        ) from None


def may_be_asked(client_id: str) -> bool:
    """Whether a document about the client can be fetched: a loopback address would be our own machine."""
    return not identifier(client_id).is_loopback


def read_client(body: bytes, client_id: str, url: str, content_type: str | None, link_header: str | None) -> App:
    """The metadata of `client_id` in its document at `url`: JSON, or a page with an h-app.

    Raises ParseError for a JSON document that belongs to another client or can't be read. A page may have no metadata.
    """
    kind = (content_type or "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json") or (not kind and body.lstrip()[:1] == b"{"):
        return _from_json(read_object(body, url), client_id, url)
    links = (link for link in written_links(body, url, content_type, link_header) if "redirect_uri" in link.rels)
    targets = [target for link in links if (target := _redirect(link.target, link.base))]
    info = App(client_id, redirect_uris=frozenset(targets[:_MOST_REDIRECTS]))
    if page_of(body, content_type) is None:
        return info
    return _with_app(info, decode(body[:_LONGEST_PAGE], content_type), url)


READ_CLIENT = Task(read_client, thorough=False)


def allowed_redirect(info: App, redirect_uri: str) -> bool:
    """Whether users may be redirected to `redirect_uri`.

    It must have the client's own scheme, host and port, or be published by it: exactly, except for the port of a
    published loopback address (RFC 8252, 7.3). It must never be a scheme that browsers run, have a fragment, user or
    password, or be ambiguous.
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
    """Whether it leads to a program on the user's machine, by loopback (RFC 8252, 7.3)."""
    if _redirect(redirect_uri, "") != redirect_uri or not redirect_uri.startswith("http://"):
        return False
    return identifier(redirect_uri).host in _LOOPBACK


def _without_port(url: str) -> str:
    found = identifier(url)
    return f"{found.host}{found.path}{found.query}"


def _checked(text: str) -> Identifier:
    found = identifier(text)
    if found.is_address and found.host not in _LOOPBACK_ADDRESSES:
        raise ValueError("with an IP address as its host")
    if unprintable(text):
        raise ValueError("with a character that can't be shown or changes the text direction")
    return found


def _redirect(value: object, base: str) -> str | None:
    """An absolute redirect address; None if it is invalid or dangerous."""
    if not isinstance(value, str) or not value or len(value) > MAX_URL:
        return None
    custom = _CUSTOM.fullmatch(value)
    if custom and custom["scheme"].lower() not in {"http", "https"}:
        # An app on the user's own machine. Any app could register a scheme without a dot; that is the client's choice.
        return value if custom["scheme"].lower() not in _NO_APP else None
    if re.match(r"(?i)https?://", value):
        try:
            identifier(value)
        except ValueError:
            return None
        return value if value.isascii() and not re.search(r"[\"<>^`{|}]", value) else None
    return endpoint(value, base) if base and not custom else None


def _from_json(document: Document, client_id: str, url: str) -> App:
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
        # One that begins with `//` names another host without its scheme, which no app means here.
        [
            found
            for value in values[:_MOST_REDIRECTS]
            if (found := _redirect(value, url)) and not value.lstrip(" ").startswith("//")
        ]
        if isinstance(values, list)
        else []
    )
    home = endpoint(document.get("client_uri")) if document.get("client_uri") else None
    return App(
        client_id,
        name=_name(text_of(document, "client_name")),
        # The app's page must be a prefix of the document's URL: https://indieauth.spec.indieweb.org/#client-metadata
        url=home if home and client_id.startswith(home) else None,
        logo=endpoint(document.get("logo_uri"), url) if document.get("logo_uri") else None,
        redirect_uris=frozenset(listed),
    )


def _with_app(info: App, text: str, url: str) -> App:
    """The metadata with name and picture of the h-app (or h-x-app) on the page at the client's identifier."""
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
    """A name short enough to be shown next to the identifier, without characters that change the text direction."""
    words = " ".join((text or "").split())
    return words[:_LONGEST_NAME] if words and words.isprintable() else None


_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")


def pkce_challenge(verifier: str) -> str:
    """The PKCE challenge of `verifier`, by the method S256."""
    return base64url(hashlib.sha256(verifier.encode()).digest())


def is_pkce_challenge(text: str) -> bool:
    """Whether `text` has the form of an S256 challenge: any other text could never be matched."""
    return _CHALLENGE.fullmatch(text) is not None


def pkce_matches(verifier: str, challenge: str, method: str) -> bool:
    """Whether `verifier` matches `challenge`, in constant time. Never raises."""
    if method != PKCE_METHOD or not _VERIFIER.fullmatch(verifier) or not is_pkce_challenge(challenge):
        return False
    return is_same(pkce_challenge(verifier), challenge)


MAX_STATE = 2048
MAX_SCOPES = 40
_MAX_SCOPE = 100
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")

Query = Mapping[str, Sequence[str]]
"""All values of each parameter."""


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A request for authorization.

    `client` is canonical; `redirect` is as sent, not checked yet. `scopes` are in the app's order, empty if it only
    wants to know the user's identity; `challenge` is PKCE's, or empty; `me` is a hint about the user, as sent.
    """

    client: str
    redirect: str
    state: str | None = None
    scopes: tuple[str, ...] = ()
    challenge: str = ""
    me: str = ""


def read_target(query: Query) -> AuthorizationRequest:
    """The requesting app, the address for the response, and its state.

    Raises InvalidRequest. Errors in these can only be shown to the user in front of the browser (RFC 6749, section
    4.1.2.1).
    """
    client, redirect = _needed(query, "client_id"), _needed(query, "redirect_uri")
    states = query.get("state", ())
    state = states[0] if len(states) == 1 and states[0] and _is_state(states[0]) else None
    return AuthorizationRequest(canonical_client_id(client), redirect, state)


def read_asked(query: Query) -> AuthorizationRequest:
    """The whole request. Raises as `read_target` does, and OAuthRefused for the app's errors."""
    target = read_target(query)
    try:
        kind, state, scope = _one(query, "response_type"), _one(query, "state"), _one(query, "scope")
        challenge, method = _one(query, "code_challenge"), _one(query, "code_challenge_method")
        me = _one(query, "me")
    except InvalidRequest as problem:
        raise OAuthRefused("invalid_request", problem.description) from None
    if kind not in {"", "code", "id"}:
        raise OAuthRefused("unsupported_response_type", f"unsupported 'response_type' '{kind[:80]}': expected 'code'")
    if not _is_state(state):
        text = f"invalid 'state': expected at most {MAX_STATE} characters, without control characters"
        raise OAuthRefused("invalid_request", text)
    # Some apps omit the method, and all known ones use this one.
    if method not in {"", PKCE_METHOD}:
        text = f"unsupported 'code_challenge_method' '{method[:80]}': expected '{PKCE_METHOD}'"
        raise OAuthRefused("invalid_request", text)
    if (challenge and not is_pkce_challenge(challenge)) or (method and not challenge):
        raise OAuthRefused("invalid_request", "invalid 'code_challenge': expected 43 characters of base64url")
    scopes = () if kind == "id" else read_scope(scope)
    return AuthorizationRequest(target.client, target.redirect, state or None, scopes, challenge, me)


def read_scope(text: str) -> tuple[str, ...]:
    """Scopes in their order, each once. Raises OAuthRefused for invalid ones (RFC 6749, 3.3)."""
    scopes = tuple(dict.fromkeys(text.split()))
    if len(scopes) > MAX_SCOPES:
        raise OAuthRefused("invalid_scope", f"'scope' has more than {MAX_SCOPES} scopes")
    for scope in scopes:
        if len(scope) > _MAX_SCOPE or not _SCOPE.fullmatch(scope):
            raise OAuthRefused("invalid_scope", "'scope' contains an invalid scope")
    return scopes


def answer_url(redirect: str, answer: Mapping[str, str | None]) -> str:
    """The address to redirect to: its own query is kept, None values are left out."""
    joint = "" if redirect.endswith(("?", "&")) else "&" if "?" in redirect else "?"
    return redirect + joint + urlencode({name: value for name, value in answer.items() if value is not None})


def _is_state(text: str) -> bool:
    """Whether a page's form preserves it exactly: line breaks aren't preserved (RFC 6749, A.5)."""
    return len(text) <= MAX_STATE and not _CONTROL.search(text)


def _needed(query: Query, name: str) -> str:
    value = _one(query, name)
    if not value:
        raise InvalidRequest(f"'{name}' is missing")
    return value


def _one(query: Query, name: str) -> str:
    values = query.get(name, ())
    if len(values) > 1:
        raise InvalidRequest(f"'{name}' was sent more than once")
    return values[0] if values else ""
