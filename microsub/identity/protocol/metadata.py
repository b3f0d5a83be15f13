"""What a server says of itself (https://indieauth.spec.indieweb.org/#indieauth-server-metadata, RFC 8414, RFC 9207)."""

from __future__ import annotations

from dataclasses import dataclass

from microsub.errors import ParseError
from microsub.identity.protocol.documents import Document, read_object
from microsub.identity.protocol.identifiers import endpoint, shown
from microsub.kit.identifiers import Identifier, identifier

_MOST_VALUES = 100
_LONGEST_VALUE = 100


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    """A server's own description. `issuer` as the server writes it: replies name it, letter for letter.

    `iss_in_response` says that every answer of the authorization endpoint names the issuer (RFC 9207), so that one
    without it is none. Absent lists are empty.
    """

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    introspection_endpoint: str | None = None
    revocation_endpoint: str | None = None
    userinfo_endpoint: str | None = None
    scopes_supported: frozenset[str] = frozenset()
    code_challenge_methods_supported: frozenset[str] = frozenset()
    iss_in_response: bool = False


def read_metadata(body: bytes, url: str, *, private: bool = False) -> ServerMetadata:
    """The metadata in `body`, found at `url`. Raises ParseError, which says what was found and what was expected.

    The issuer must be https (`private` lets http pass), without query and fragment, and a prefix of `url`: of the same
    origin, up to the end of a segment of the path. Else one server could give itself out as another.
    """
    document = read_object(body, url)
    issuer = _issuer(document.get("issuer"), url, private)
    return ServerMetadata(
        issuer,
        _required(document, "authorization_endpoint", url),
        _required(document, "token_endpoint", url),
        introspection_endpoint=_optional(document, "introspection_endpoint", url),
        revocation_endpoint=_optional(document, "revocation_endpoint", url),
        userinfo_endpoint=_optional(document, "userinfo_endpoint", url),
        scopes_supported=_texts(document, "scopes_supported"),
        code_challenge_methods_supported=_texts(document, "code_challenge_methods_supported"),
        iss_in_response=document.get("authorization_response_iss_parameter_supported") is True,
    )


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


def _texts(document: Document, name: str) -> frozenset[str]:
    values = document.get(name)
    if not isinstance(values, list):
        return frozenset()
    return frozenset(
        value
        for value in values[:_MOST_VALUES]
        if isinstance(value, str) and value.isascii() and value.isprintable() and 0 < len(value) <= _LONGEST_VALUE
    )


def is_own(url: str | None, base: str) -> bool:
    """Whether `url` lies under `base`, the address of this server without a slash at its end."""
    if url is None:
        return False
    try:
        there, here = identifier(url.partition("#")[0]), identifier(base)
    except ValueError:
        return False
    folder = here.path.rstrip("/")
    return there.origin == here.origin and (there.path == folder or there.path.startswith(f"{folder}/"))


def own_metadata(base: str) -> ServerMetadata:
    """What the metadata document of the server at `base` says, as far as signing in and checking tokens need it."""
    return ServerMetadata(
        issuer=base,
        authorization_endpoint=f"{base}/auth",
        token_endpoint=f"{base}/token",
        introspection_endpoint=f"{base}/introspect",
        revocation_endpoint=f"{base}/revoke",
        userinfo_endpoint=f"{base}/userinfo",
        iss_in_response=True,
    )
