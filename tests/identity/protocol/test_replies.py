"""Replies of foreign servers, beyond the stored cases."""

from __future__ import annotations

from contextlib import suppress

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microsub.base.errors import ParseError
from microsub.identity.protocol.documents import (
    read_check,
    read_code_answer,
    read_error,
    read_introspection,
    read_metadata,
)

URL = "https://auth.example/token"
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = """active me scope exp expires_in client_id access_token token_type profile error error_description issuer
authorization_endpoint token_endpoint scopes_supported"""
names = st.sampled_from(NAMES.split())
documents = st.dictionaries(names, values, max_size=6).map(orjson.dumps) | st.binary(max_size=100)


@given(documents, st.sampled_from([None, "application/json", "application/x-www-form-urlencoded", "text/html"]))
def test_an_answer_is_read_or_refused(body: bytes, content_type: str | None) -> None:
    """Any reply gives a value, or the error that says what was expected."""
    with suppress(ParseError):
        answer = read_introspection(body, URL, now=1e9)
        assert not answer.active or answer.me
    with suppress(ParseError):
        answer = read_check(body, URL, content_type, now=1e9)
        assert not answer.active or answer.me
    with suppress(ParseError):
        assert read_code_answer(body, URL, content_type, now=1e9).me
    with suppress(ParseError):
        assert URL.startswith(read_metadata(body, URL).issuer)
    read_error(body, URL, content_type)


def test_tokens_arent_shown() -> None:
    """The log representation of a reply contains no tokens."""
    body = b'{"me":"https://alice.example/","access_token":"s3cret","refresh_token":"s3cret"}'
    assert "s3cret" not in repr(read_code_answer(body, URL, None, now=0.0))


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (
            b'{"error":"invalid_grant","error_description":"the code\\nis over"}',
            "the code is over",
        ),
        (b"error=invalid_grant&error_description=over", "over"),
        (b'{"error":"invalid_grant","error_description":"\xe2\x80\xae"}', "invalid_grant"),
        (b'{"error":["x"]}', None),
        (b"<html>Internal error</html>", None),
        (b"", None),
    ],
)
def test_why_a_server_refused(body: bytes, found: str | None) -> None:
    """The server's own error text is shown if it is safe."""
    assert read_error(body, URL, None) == found
