"""Requests of apps to the authorization endpoint."""

from __future__ import annotations

from urllib.parse import parse_qs, parse_qsl, urlsplit

from hypothesis import given
from hypothesis import strategies as st

from microsub.base.errors import InvalidRequest, OAuthRefused
from microsub.identity.protocol.clients import (
    MAX_STATE,
    AuthorizationRequest,
    answer_url,
    pkce_challenge,
    read_asked,
    read_target,
)
from tests.support.apps import new_verifier

APP, BACK = "https://app.example/", "https://app.example/back"
NAMES = (
    *("client_id", "redirect_uri", "state", "response_type", "scope"),
    *("code_challenge", "code_challenge_method", "me"),
)


def query(**parameters: str) -> dict[str, list[str]]:
    return {name: [value] for name, value in {"client_id": APP, "redirect_uri": BACK, **parameters}.items()}


def test_a_whole_request() -> None:
    """Scopes keep the app's order without duplicates; the client has its canonical form."""
    asked = pkce_challenge(new_verifier())
    found = read_asked(
        query(
            client_id="HTTPS://app.example",
            response_type="code",
            state="x",
            scope="read  follow read",
            me="https://ann.example/",
            code_challenge=asked,
            code_challenge_method="S256",
        )
    )
    assert found == AuthorizationRequest(APP, BACK, "x", ("read", "follow"), asked, "https://ann.example/")


def test_a_challenge_without_a_method_is_by_s256() -> None:
    """A missing method means S256, because no known app means another one."""
    asked = pkce_challenge(new_verifier())
    assert read_asked(query(code_challenge=asked)).challenge == asked


def test_a_faulty_request_gets_its_valid_state_back() -> None:
    """The state is returned if it is a single value and not too long."""
    assert read_target(query(state="x")).state == "x"
    assert read_target(query(state="x" * (MAX_STATE + 1))).state is None
    assert read_target({**query(), "state": ["a", "b"]}).state is None


@given(st.dictionaries(st.sampled_from(NAMES), st.lists(st.text(max_size=60), min_size=1, max_size=2)))
def test_any_request_is_read_or_refused(parameters: dict[str, list[str]]) -> None:
    """Any input gives a request or a refusal."""
    for read in (read_target, read_asked):
        try:
            found = read({**query(), **parameters})
        except (InvalidRequest, OAuthRefused):
            continue
        assert found.client.startswith(("https://", "http://"))
        assert all(0x21 <= ord(char) <= 0x7E for scope in found.scopes for char in scope)


@given(st.text(max_size=80), st.sampled_from((BACK, f"{BACK}?", f"{BACK}?a=1", f"{BACK}?a=1&", "app.example:/back")))
def test_an_answer_arrives_as_it_was(state: str, redirect: str) -> None:
    """The state is returned unchanged, adds no other parameters, and can't end a header."""
    url = answer_url(redirect, {"code": "ann.x", "state": state.encode("utf-8", "replace").decode(), "gone": None})
    assert url.startswith(redirect)
    assert url.isascii()
    assert url.isprintable()
    told = parse_qs(urlsplit(url).query, keep_blank_values=True)
    told.pop("a", None)
    assert told == {"code": ["ann.x"], "state": [state.encode("utf-8", "replace").decode()]}
    assert dict(parse_qsl(urlsplit(url).query))["code"] == "ann.x"
