"""Errors as replies."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from microsub.base import errors
from microsub.web.responses import (
    SENT_UNIT,
    UNITS_SENT_IN_ALL,
    UNITS_SENT_OF_HALF,
    UNITS_SENT_OF_USER,
    UNITS_SENT_WHEN_BUSY,
    HttpEndpoint,
    HttpExchange,
    error_reply,
)


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
    """Each has a sentence too, which reveals no internals."""
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


class OnePage(HttpEndpoint):
    """Returns the same page for every user; the path names the user."""

    def __init__(self, units: int = 64) -> None:
        super().__init__()
        self.page = b"x" * units * SENT_UNIT

    async def answer(self, exchange: HttpExchange) -> bytes:
        exchange.user = exchange.scope["path"]
        return self.page


class SlowClient:
    """Takes the head of a reply, and the rest after `go_on`."""

    def __init__(self, endpoint: HttpEndpoint, user: str) -> None:
        self.status = 0
        self.took: list[int] = []
        self.go_on = asyncio.Event()
        scope = {"type": "http", "method": "GET", "path": user, "headers": [], "query_string": b""}
        self.served = asyncio.create_task(endpoint(scope, self._receive, self._send))

    async def _receive(self) -> Message:
        return {"type": "http.request"}

    async def _send(self, message: Message) -> None:
        self.status = message.get("status", self.status)
        self.took.append(len(message.get("body", b"")))
        if message["type"] == "http.response.body" and self.status == 200:
            await self.go_on.wait()


@pytest.mark.parametrize("units", [64, 15])
async def test_bytes_in_replies_of_one_user_are_bounded(units: int) -> None:
    """Pages of 16 MB for forty slow apps of one user filled 600 MB, and 240 of a little less than a megabyte 240 MB."""
    endpoint = OnePage(units)
    places = -(-UNITS_SENT_OF_USER.most // units)
    slow = [SlowClient(endpoint, "alice") for _ in range(places + 24)]
    await asyncio.sleep(0)
    assert [client.status for client in slow] == [200] * places + [429] * 24
    other = SlowClient(endpoint, "bob")
    for client in (other, *slow):
        client.go_on.set()
    await asyncio.gather(other.served, *(client.served for client in slow))
    assert [sum(client.took) for client in (other, *slow[:places])] == [len(endpoint.page)] * (places + 1)
    again = SlowClient(endpoint, "alice")
    again.go_on.set()
    await again.served
    assert again.status == 200, "what was sent, or refused, counts no more"


async def test_bytes_in_replies_of_all_users_are_bounded() -> None:
    """The first users have as much as their pages take; when half is taken, each has a little."""
    endpoint = OnePage()
    each = len(endpoint.page) // SENT_UNIT
    slow = [SlowClient(endpoint, f"user {number}") for number in range(64) for _ in range(16)]
    await asyncio.sleep(0)
    sent = [sum(client.status == 200 for client in slow[start : start + 16]) for start in range(0, len(slow), 16)]
    first = UNITS_SENT_OF_HALF.most // UNITS_SENT_OF_USER.most
    busy = UNITS_SENT_WHEN_BUSY.most // each
    assert sent[:first] == [UNITS_SENT_OF_USER.most // each] * first
    further = (UNITS_SENT_IN_ALL.most - UNITS_SENT_OF_HALF.most) // UNITS_SENT_WHEN_BUSY.most
    assert sent[first:] == [busy] * further + [0] * (64 - first - further)
    for client in slow:
        client.go_on.set()
    await asyncio.gather(*(client.served for client in slow))
