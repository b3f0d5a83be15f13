"""What other people's servers answer about tokens and codes.

Introspection: RFC 7662 and https://indieauth.spec.indieweb.org/#access-token-verification. The older check is a GET
with the token (https://www.w3.org/TR/indieauth/#access-token-verification). Codes: RFC 6749, 4.1.4 and 5.2, and
https://indieauth.spec.indieweb.org/#redeeming-the-authorization-code.

An answer says something of its own server's users. Whether `me` is one of them is for the caller to find out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from microsub.errors import InvalidRequest, ParseError
from microsub.identity.protocol.documents import (
    Document,
    read_fields,
    read_object,
    scopes_of,
    seconds_of,
    secret_of,
    text_of,
)
from microsub.identity.protocol.identifiers import canonical_me, endpoint
from microsub.kit.identifiers import MAX_URL


@dataclass(frozen=True, slots=True)
class TokenAnswer:
    """What is known of a token. `me` is canonical, and there whenever the token is `active`; `client` is as the server
    wrote it, for showing; `expires` is in Unix seconds, None where the server names no end.
    """

    active: bool
    me: str | None = None
    scopes: frozenset[str] = frozenset()
    client: str | None = None
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class ProfileClaims:
    """How a person's server presents them: to be shown, and never to be compared with anything."""

    name: str | None = None
    url: str | None = None
    photo: str | None = None
    email: str | None = None


@dataclass(frozen=True, slots=True)
class CodeAnswer:
    """What a code was redeemed for. `me` is canonical, and no more than a claim until `Profiles.confirm` has looked.

    `expires` is in Unix seconds. Tokens are visible ASCII, and not shown by `repr`.
    """

    me: str
    access_token: str | None = field(default=None, repr=False)
    scopes: frozenset[str] = frozenset()
    expires: float | None = None
    refresh_token: str | None = field(default=None, repr=False)
    profile: ProfileClaims = ProfileClaims()


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """Why a server refused (RFC 6749, 5.2): both parts are printable ASCII, short, and the server's words, not ours."""

    error: str
    description: str | None = None


def read_introspection(body: bytes, url: str, *, now: float, private: bool = False) -> TokenAnswer:
    """The answer of an introspection endpoint at `url`. Raises ParseError.

    Only `true` is active; a token whose time is over isn't, whatever the server says (`now` is in Unix seconds).
    """
    document = read_object(body, url)
    if not isinstance(document.get("active"), bool):
        raise ParseError(url, "'active': found neither true nor false, expected one of them")
    return _token(document, url, now, private) if document["active"] else TokenAnswer(active=False)


def read_check(body: bytes, url: str, content_type: str | None, *, now: float, private: bool = False) -> TokenAnswer:
    """The answer of an older token endpoint to a GET with the token: JSON, or a form. Raises ParseError.

    Call it for a reply of status 200 alone: that it comes is what makes the token active.
    """
    document = read_fields(body, url, content_type)
    if document.get("error") or document.get("active", True) not in (True, "true"):
        return TokenAnswer(active=False)
    return _token(document, url, now, private)


def read_code_answer(
    body: bytes, url: str, content_type: str | None, *, now: float, private: bool = False
) -> CodeAnswer:
    """What came for a code: JSON, or a form from an older server. Raises ParseError. Call it for status 200 alone."""
    document = read_fields(body, url, content_type)
    access_token = secret_of(document, "access_token", url)
    kind = document.get("token_type")
    if access_token is not None and kind is not None and str(kind).lower() != "bearer":
        raise ParseError(url, "'token_type': found another one, expected Bearer")
    lifetime = seconds_of(document, "expires_in", url)
    claims = document.get("profile")
    return CodeAnswer(
        me=_me(document, url, private),
        access_token=access_token,
        scopes=scopes_of(document, url),
        expires=None if lifetime is None else now + lifetime,
        refresh_token=secret_of(document, "refresh_token", url),
        profile=read_claims(claims) if isinstance(claims, dict) else ProfileClaims(),
    )


def read_claims(document: Document) -> ProfileClaims:
    """A `profile` object, or the answer of a userinfo endpoint; what can't be shown is left out. Never raises."""
    email = text_of(document, "email")
    return ProfileClaims(
        name=text_of(document, "name"),
        url=endpoint(document.get("url")) if document.get("url") else None,
        photo=endpoint(document.get("photo")) if document.get("photo") else None,
        email=email if email and "@" in email and " " not in email else None,
    )


def read_error(body: bytes, url: str, content_type: str | None) -> ErrorAnswer | None:
    """Why a server refused, from a reply of another status than 200; None where it doesn't say. Never raises."""
    try:
        document = read_fields(body, url, content_type)
    except ParseError:
        return None
    error, description = text_of(document, "error"), text_of(document, "error_description")
    if error is None or not error.isascii():
        return None
    return ErrorAnswer(error[:100], description[:300] if description and description.isascii() else None)


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
