"""Documents of other servers about themselves, tokens and codes: JSON.

Metadata: https://indieauth.spec.indieweb.org/#indieauth-server-metadata, RFC 8414, RFC 9207. Introspection: RFC 7662
and https://indieauth.spec.indieweb.org/#access-token-verification. The older check is a GET with the token
(https://www.w3.org/TR/indieauth/#access-token-verification). Codes: RFC 6749, 4.1.4 and 5.2, and
https://indieauth.spec.indieweb.org/#redeeming-the-authorization-code.

A response is only a statement about the server's own users. The caller checks whether `me` is one of them.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import orjson

from microsub.base.errors import InvalidRequest, ParseError
from microsub.base.identifiers import MAX_URL, Identifier, canonical_me, endpoint, identifier, shown
from microsub.model.reader import ALL_SCOPES, read_scopes
from microsub.web.paths import ENDPOINT, MICROPUB, PROFILES, WEBMENTION
from microsub.web.types import FORM

MAX_BODY = 64 * 1024
_MAX_TEXT = 4096
_MOST_FIELDS = 100
_PRINTED = re.compile(r"[\x20-\x7e]*")
_VISIBLE = re.compile(r"[\x21-\x7e]{1,4096}")
_LATEST = 253402300800.0  # the end of the year 9999

METADATA = "/.well-known/oauth-authorization-server"
AUTHORIZATION, TOKEN, INTROSPECTION, REVOCATION, USERINFO = "/auth", "/token", "/introspect", "/revoke", "/userinfo"
"""Paths of the provider."""

PKCE_METHOD = "S256"
"""The only allowed method: `plain` proves nothing if somebody has seen the request."""

PROFILE_SCOPE = "profile"
"""Allows an app to see the user's name and address (https://indieauth.spec.indieweb.org/#profile-information)."""

Document = dict[str, Any]


def read_object(body: bytes, url: str) -> Document:
    """The JSON object in `body`, which was received from `url`. Raises ParseError for anything else."""
    if len(body) > MAX_BODY:
        raise ParseError(url, f"found {len(body)} bytes, expected a JSON object of at most {MAX_BODY}")
    try:
        document = orjson.loads(body.removeprefix(b"\xef\xbb\xbf"))
    except ValueError:
        raise ParseError(url, "found something that is no JSON, expected a JSON object") from None
    if not isinstance(document, dict):
        raise ParseError(url, "found other JSON, expected a JSON object")
    return document


def read_fields(body: bytes, url: str, content_type: str | None) -> Document:
    """A JSON object, or a form as older servers reply.

    The content decides, not the declared type, which is often wrong; repeated fields of a form are ignored. Raises
    ParseError.
    """
    if body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        return read_object(body, url)
    kind = (content_type or "").partition(";")[0].strip().lower()
    if kind != FORM and not re.match(rb"[A-Za-z0-9_]{1,40}=", body):
        raise ParseError(url, "found neither JSON nor a form, expected a JSON object")
    if len(body) > MAX_BODY:
        raise ParseError(url, f"found {len(body)} bytes, expected a form of at most {MAX_BODY}")
    try:
        pairs = parse_qsl(body.decode("utf-8").strip(), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise ParseError(url, "found a form that can't be read, expected a JSON object") from None
    names = [name for name, _ in pairs]
    return {name: value for name, value in pairs if names.count(name) == 1}


def text_of(document: Document, name: str) -> str | None:
    """A text to be shown, with its white space reduced; None if there is no readable text."""
    value = document.get(name)
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        return None
    words = " ".join(value.split())
    return words if words and words.isprintable() else None


def secret_of(document: Document, name: str, url: str) -> str | None:
    """A token or code: visible ASCII (RFC 6749, A.12), valid in a header. Raises ParseError."""
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not _VISIBLE.fullmatch(value):
        raise ParseError(url, f"invalid value of '{name}', expected visible ASCII characters")
    return value


def scopes_of(document: Document, url: str) -> frozenset[str]:
    """Scopes, as a text or, from some servers, a list; empty for none. Raises ParseError."""
    value = document.get("scope")
    if isinstance(value, list) and len(value) <= _MOST_FIELDS and all(isinstance(scope, str) for scope in value):
        value = " ".join(value)
    if value is None or value == "":
        return frozenset()
    if not isinstance(value, str) or len(value) > _MAX_TEXT or not _PRINTED.fullmatch(value):
        raise ParseError(url, "invalid value of 'scope', expected scopes separated by spaces")
    try:
        return read_scopes(value) if value.strip() else frozenset()
    except InvalidRequest as problem:
        raise ParseError(url, f"'scope': {problem.description}") from None


def seconds_of(document: Document, name: str, url: str) -> float | None:
    """A number of seconds, as JSON or as text; None if it is missing.

    Raises ParseError: an unreadable lifetime must not become an infinite one.
    """
    value = document.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}(?:\.[0-9]{1,9})?", value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ParseError(url, f"invalid value of '{name}', expected a number of seconds")
    return min(max(float(value), 0.0), _LATEST)


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    """A server's own metadata.

    `issuer` is as the server writes it: replies contain exactly this text. `iss_in_response`: every response of the
    authorization endpoint contains the issuer (RFC 9207), so one without it is invalid. `has_pkce`: it checks PKCE.
    """

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    introspection_endpoint: str | None = None
    revocation_endpoint: str | None = None
    has_pkce: bool = False
    iss_in_response: bool = False


def read_metadata(body: bytes, url: str, *, private: bool = False) -> ServerMetadata:
    """The metadata in `body`, found at `url`.

    Raises ParseError with what was found and expected. The issuer must be https (`private` also allows http), without
    query and fragment, and a prefix of `url`: the same origin, up to the end of a path segment. Otherwise one server
    could pretend to be another.
    """
    document = read_object(body, url)
    issuer, methods = _issuer(document.get("issuer"), url, private), document.get("code_challenge_methods_supported")
    return ServerMetadata(
        issuer,
        _required(document, "authorization_endpoint", url),
        _required(document, "token_endpoint", url),
        introspection_endpoint=_optional(document, "introspection_endpoint", url),
        revocation_endpoint=_optional(document, "revocation_endpoint", url),
        has_pkce=isinstance(methods, list) and PKCE_METHOD in methods,
        iss_in_response=document.get("authorization_response_iss_parameter_supported") is True,
    )


def metadata_behind(body: bytes, named: str, found_at: str, *, private: bool = False) -> ServerMetadata:
    """The same for a document that is named by one address and found, by redirects, at another.

    The issuer must match either. Raises ParseError, about the first.
    """
    try:
        return read_metadata(body, named, private=private)
    except ParseError:
        if found_at != named:
            with suppress(ParseError):
                return read_metadata(body, found_at, private=private)
        raise


def _issuer(value: object, url: str, private: bool) -> str:
    expected = f"expected an https URL that '{shown(url)}' begins with"
    if not isinstance(value, str):
        raise ParseError(url, f"'issuer': found none, {expected}")
    try:
        issuer, place = identifier(value), identifier(url.partition("#")[0])
    except ValueError as problem:
        raise ParseError(url, f"'issuer': found '{shown(value)}', {problem}; {expected}") from None
    if issuer.query or "?" in value:
        raise ParseError(url, f"'issuer': found '{shown(value)}', with a query; {expected}")
    if issuer.scheme != "https" and not private:
        raise ParseError(url, f"'issuer': found '{shown(value)}', which isn't https; {expected}")
    if not _begins_with(place, issuer):
        raise ParseError(url, f"'issuer': found '{shown(value)}', {expected}")
    return value


def _begins_with(place: Identifier, issuer: Identifier) -> bool:
    folder = issuer.path.removesuffix("/") + "/"
    return place.origin == issuer.origin and (place.path == issuer.path or place.path.startswith(folder))


def _required(document: Document, name: str, url: str) -> str:
    found = _optional(document, name, url)
    if found is None:
        raise ParseError(url, f"'{name}': found none, expected the URL of the endpoint")
    return found


def _optional(document: Document, name: str, url: str) -> str | None:
    value = document.get(name)
    if value is None:
        return None
    found = endpoint(value) if isinstance(value, str) and value else None
    if found is None:
        raise ParseError(url, f"'{name}': found '{shown(str(value))}', expected the URL of the endpoint")
    return found


def is_own(url: str | None, base: str) -> bool:
    """Whether `url` is below `base`, the address of this server without a trailing slash."""
    if url is None:
        return False
    try:
        there, here = identifier(url.partition("#")[0]), identifier(base)
    except ValueError:
        return False
    folder = here.path.rstrip("/")
    return there.origin == here.origin and (there.path == folder or there.path.startswith(f"{folder}/"))


def own_document(base: str) -> Document:
    """The metadata document of the server at `base`."""
    return {
        "issuer": base,
        "authorization_endpoint": base + AUTHORIZATION,
        "token_endpoint": base + TOKEN,
        "introspection_endpoint": base + INTROSPECTION,
        "introspection_endpoint_auth_methods_supported": ["Bearer"],
        "revocation_endpoint": base + REVOCATION,
        "revocation_endpoint_auth_methods_supported": ["none"],
        "userinfo_endpoint": base + USERINFO,
        "scopes_supported": [*ALL_SCOPES, PROFILE_SCOPE],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": [PKCE_METHOD],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
    }


def own_metadata(base: str) -> ServerMetadata:
    """This server's metadata as other servers read it, without a request."""
    return read_metadata(orjson.dumps(own_document(base)), base + METADATA, private=True)


@dataclass(frozen=True, slots=True)
class LinkLine:
    """A `<link>` element."""

    rel: str
    href: str

    @property
    def html(self) -> str:
        """The link as HTML."""
        return f'<link rel="{self.rel}" href="{escape(self.href)}">'


def profile_page(base: str, user: str) -> str:
    """The address of the page that the server at `base` provides for `user`; the `me` of users without their own."""
    return f"{base}{PROFILES}/{user}"


def microsub_line(base: str, user: str) -> LinkLine:
    """The Microsub endpoint of `user`. With the name in it, tokens of the user's own provider can be checked."""
    return LinkLine("microsub", f"{base}{ENDPOINT}/{user}")


def webmention_line(base: str, user: str) -> LinkLine:
    """The webmention endpoint of `user`'s pages (https://www.w3.org/TR/webmention/#sender-discovers-receiver)."""
    return LinkLine("webmention", f"{base}{WEBMENTION}/{user}")


def micropub_line(base: str) -> LinkLine:
    """The Micropub endpoint, at which apps and scripts post to channels."""
    return LinkLine("micropub", base + MICROPUB)


def provider_lines(base: str) -> tuple[LinkLine, ...]:
    """The links for people whose provider is the server at `base`: those of the standard, then older ones."""
    return (
        LinkLine("indieauth-metadata", base + METADATA),
        LinkLine("authorization_endpoint", base + AUTHORIZATION),
        LinkLine("token_endpoint", base + TOKEN),
    )


class TokenAnswer(NamedTuple):
    """The facts about a token.

    `me` is canonical, and set whenever the token is `active`; `client` is as the server wrote it, for display;
    `expires` is in Unix seconds, None without an end.
    """

    active: bool
    me: str | None = None
    scopes: frozenset[str] = frozenset()
    client: str | None = None
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class CodeAnswer:
    """The reply to a redeemed code.

    `me` is canonical, but only a claim until `Profiles.confirm` has checked it. `expires` is in Unix seconds. The
    token is visible ASCII, and not shown by `repr`.
    """

    me: str
    access_token: str | None = field(default=None, repr=False)
    scopes: frozenset[str] = frozenset()
    expires: float | None = None


def read_introspection(body: bytes, url: str, *, now: float, private: bool = False) -> TokenAnswer:
    """The response of an introspection endpoint at `url`. Raises ParseError.

    Only `true` means active; an expired token isn't active, whatever the server says (`now` is in Unix seconds).
    """
    document = read_object(body, url)
    if not isinstance(document.get("active"), bool):
        raise ParseError(url, "'active': found neither true nor false, expected one of them")
    return _token(document, url, now, private) if document["active"] else TokenAnswer(active=False)


def read_check(body: bytes, url: str, content_type: str | None, *, now: float, private: bool = False) -> TokenAnswer:
    """The response of an older token endpoint to a GET with the token: JSON, or a form.

    Raises ParseError. Call it only for a reply with status 200, which means that the token is active.
    """
    document = read_fields(body, url, content_type)
    if document.get("error") or document.get("active", True) not in (True, "true"):
        return TokenAnswer(active=False)
    return _token(document, url, now, private)


def read_code_answer(
    body: bytes, url: str, content_type: str | None, *, now: float, private: bool = False
) -> CodeAnswer:
    """A 200 reply to a code: JSON, or an older server's form. Raises ParseError."""
    document = read_fields(body, url, content_type)
    access_token = secret_of(document, "access_token", url)
    kind = document.get("token_type")
    if access_token is not None and kind is not None and str(kind).lower() != "bearer":
        raise ParseError(url, "'token_type': found another one, expected Bearer")
    lifetime = seconds_of(document, "expires_in", url)
    return CodeAnswer(
        me=_me(document, url, private),
        access_token=access_token,
        scopes=scopes_of(document, url),
        expires=None if lifetime is None else now + lifetime,
    )


def read_error(body: bytes, url: str, content_type: str | None) -> str | None:
    """The server's words for a refusal (RFC 6749, 5.2), printable ASCII and short, or None."""
    try:
        document = read_fields(body, url, content_type)
    except ParseError:
        return None
    error, description = text_of(document, "error"), text_of(document, "error_description")
    if error is None or not error.isascii():
        return None
    return description[:300] if description and description.isascii() else error[:100]


def _token(document: Document, url: str, now: float, private: bool) -> TokenAnswer:
    expires = seconds_of(document, "exp", url)
    lifetime = seconds_of(document, "expires_in", url)
    if expires is None and lifetime is not None:
        expires = now + lifetime
    if expires is not None and expires <= now:
        return TokenAnswer(active=False)
    client = text_of(document, "client_id")
    return TokenAnswer(
        active=True,
        me=_me(document, url, private),
        scopes=scopes_of(document, url),
        client=client if client and len(client) <= MAX_URL else None,
        expires=expires,
    )


def _me(document: Document, url: str, private: bool) -> str:
    value = document.get("me")
    if not isinstance(value, str) or "://" not in value:
        raise ParseError(url, "'me': found none, expected the profile URL of a person")
    try:
        return canonical_me(value, private=private)
    except InvalidRequest as problem:
        raise ParseError(url, problem.description) from None
