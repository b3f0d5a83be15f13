"""Errors as replies."""

from __future__ import annotations

import pytest

from microsub import errors
from microsub.kit.http.responses import error_reply


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.InvalidRequest("x"), 400, "invalid_request"),
        (errors.NotImplementedHere("x"), 400, "not_implemented"),
        (errors.Unauthorized("x"), 401, "unauthorized"),
        (errors.Forbidden("x"), 403, "forbidden"),
        (errors.InsufficientScope("follow"), 403, "insufficient_scope"),
        (errors.NotFound("x"), 404, "not_found"),
        (errors.MethodNotAllowed("PUT", "GET"), 405, "invalid_request"),
        (errors.TooLarge("x"), 413, "invalid_request"),
        (errors.TooManyRequests("x", 7), 429, "too_many_requests"),
        (errors.StoreUnavailable("redis://secret"), 503, "server_error"),
        (errors.StoreFull("OOM"), 503, "server_error"),
        (errors.ParseError("https://example.com/", "no feed"), 400, "invalid_request"),
        (ZeroDivisionError("secret"), 500, "server_error"),
    ],
)
def test_every_error_has_its_status_and_code(error: Exception, status: int, code: str) -> None:
    """And a sentence, in which nothing of the inside shows."""
    reply = error_reply(error)
    assert (reply.status, reply.code) == (status, code)
    assert reply.content["error_description"]
    assert "secret" not in str(reply.content)


def test_headers_that_belong_to_errors() -> None:
    """RFC 6750 for tokens, RFC 9110 for the others."""
    assert (b"www-authenticate", b"Bearer") in error_reply(errors.Unauthorized("x")).headers
    assert (b"retry-after", b"7") in error_reply(errors.TooManyRequests("x", 7)).headers
    assert (b"allow", b"GET") in error_reply(errors.MethodNotAllowed("PUT", "GET")).headers
    assert any(name == b"retry-after" for name, _ in error_reply(errors.StoreUnavailable("x")).headers)


def test_a_missing_scope_is_named() -> None:
    """In the object and in the challenge."""
    reply = error_reply(errors.InsufficientScope("follow"))
    assert reply.content["scope"] == "follow"
    assert dict(reply.headers)[b"www-authenticate"] == b'Bearer error="insufficient_scope", scope="follow"'
