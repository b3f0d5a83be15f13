"""What apps ask of an authorization endpoint, read from the address that they send a person's browser to.

Specs: https://indieauth.spec.indieweb.org/#authorization-request, RFC 6749, sections 3.1 and 4.1.1, RFC 7636. Older
apps ask with `response_type=id`, or without it, when they want no more than to know who somebody is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from microsub.errors import InvalidRequest, OAuthRefused
from microsub.identity.protocol.clients import canonical_client_id
from microsub.identity.protocol.pkce import METHOD, is_challenge

MAX_STATE = 2048
MAX_SCOPES = 40
_MAX_SCOPE = 100
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")

Query = Mapping[str, Sequence[str]]
"""All values of each parameter."""


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A request for authorization. `client` is canonical; `redirect` is as it was sent, and not trusted yet.

    `scopes` are in the app's order, none where it only wants to know who somebody is; `challenge` is PKCE's, or empty;
    `me` is a hint of who is meant, as it was sent.
    """

    client: str
    redirect: str
    state: str | None = None
    scopes: tuple[str, ...] = ()
    challenge: str = ""
    me: str = ""


def read_target(query: Query) -> AuthorizationRequest:
    """Who asks, and where the answer would go, with the state that belongs to it. Raises InvalidRequest.

    Such a request can be answered to nobody but the person in front of the browser (RFC 6749, section 4.1.2.1).
    """
    client, redirect = _needed(query, "client_id"), _needed(query, "redirect_uri")
    states = query.get("state", ())
    state = states[0] if len(states) == 1 and states[0] and _is_state(states[0]) else None
    return AuthorizationRequest(canonical_client_id(client), redirect, state)


def read_asked(query: Query) -> AuthorizationRequest:
    """The whole request. Raises InvalidRequest as `read_target` does, and OAuthRefused for what the app can be told."""
    target = read_target(query)
    try:
        kind, state, scope = _one(query, "response_type"), _one(query, "state"), _one(query, "scope")
        challenge, method = _one(query, "code_challenge"), _one(query, "code_challenge_method")
        me = _one(query, "me")
    except InvalidRequest as problem:
        raise OAuthRefused("invalid_request", problem.description) from None
    if kind not in {"", "code", "id"}:
        raise OAuthRefused("unsupported_response_type", f"'response_type' can't be '{kind[:80]}': expected 'code'")
    if not _is_state(state):
        text = f"'state' can't be given back: expected at most {MAX_STATE} characters, without control characters"
        raise OAuthRefused("invalid_request", text)
    # Not every app names the method, and all that are known mean this one.
    if method not in {"", METHOD}:
        text = f"'code_challenge_method' can't be '{method[:80]}': expected '{METHOD}'"
        raise OAuthRefused("invalid_request", text)
    if (challenge and not is_challenge(challenge)) or (method and not challenge):
        raise OAuthRefused("invalid_request", "'code_challenge' can't be used: expected 43 characters of base64url")
    scopes = () if kind == "id" else read_scope(scope)
    return AuthorizationRequest(target.client, target.redirect, state or None, scopes, challenge, me)


def read_scope(text: str) -> tuple[str, ...]:
    """Scopes in their order, each once. Raises OAuthRefused for what is none (RFC 6749, section 3.3)."""
    scopes = tuple(dict.fromkeys(text.split()))
    if len(scopes) > MAX_SCOPES:
        raise OAuthRefused("invalid_scope", f"'scope' has more than {MAX_SCOPES} scopes")
    for scope in scopes:
        if len(scope) > _MAX_SCOPE or not _SCOPE.fullmatch(scope):
            raise OAuthRefused("invalid_scope", "'scope' has something in it that is no scope")
    return scopes


def answer_url(redirect: str, answer: Mapping[str, str | None]) -> str:
    """Where the browser is sent back to. What the address had in its query stays; values that are None are left out."""
    joint = "" if redirect.endswith(("?", "&")) else "&" if "?" in redirect else "?"
    return redirect + joint + urlencode({name: value for name, value in answer.items() if value is not None})


def _is_state(text: str) -> bool:
    """Whether it survives a page's form letter for letter: line breaks don't, and RFC 6749 knows none (A.5)."""
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
