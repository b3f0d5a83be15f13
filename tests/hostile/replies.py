"""Headers, status lines, and connections that close too early."""

from __future__ import annotations

import asyncio
import time
from email.utils import formatdate

from tests.hostile.bodies import GOOD, XML, sends
from tests.hostile.case import DAY, Case, Outcome
from tests.hostile.publisher import Act, Asked, chunked


async def endless_headers(visit: Asked) -> None:
    await visit.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await visit.send(b"X-More: and more\r\n" * 1000)


async def slow_headers(visit: Asked) -> None:
    await visit.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await visit.send(b"X: y\r\n")
        await asyncio.sleep(0.2)


async def endless_100s(visit: Asked) -> None:
    while True:
        await visit.send(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)


async def some_100s(visit: Asked) -> None:
    await visit.send(b"HTTP/1.1 100 Continue\r\n\r\n" * 3)
    await visit.send(b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n")
    await visit.reply(GOOD, XML)


def raw(data: bytes, *, hang: bool = False) -> Act:
    async def act(visit: Asked) -> None:
        await visit.send(data)
        if hang:
            await visit.hang()

    return act


async def dropped_at_once(visit: Asked) -> None:
    visit.reset()


async def dropped_in_body(visit: Asked) -> None:
    await visit.head(XML, f"Content-Length: {len(GOOD)}")
    await visit.send(GOOD[:200])
    visit.reset()


async def dropped_in_chunk(visit: Asked) -> None:
    await visit.head(XML, "Transfer-Encoding: chunked")
    await visit.send(chunked([GOOD])[:200])


async def silent(visit: Asked) -> None:
    await visit.hang()


async def always_304(visit: Asked) -> None:
    await visit.head('ETag: "never seen"', status="304 Not Modified")


async def document_then_304(visit: Asked) -> None:
    """A weak validator with quotes and blanks in it must be sent back byte for byte."""
    tag = 'W/"a \\" b, \xe4 "'
    if visit.headers.get("if-none-match") == tag:
        await visit.head(status="304 Not Modified")
    else:
        await visit.reply(GOOD, XML, f"ETag: {tag}")


async def new_etags(visit: Asked) -> None:
    await visit.reply(GOOD, XML, f'ETag: "{visit.number}-{time.time()}"', f"Last-Modified: {formatdate(usegmt=True)}")


async def same_etag(visit: Asked) -> None:
    """Another document under the same validator: the body counts."""
    await visit.reply(GOOD.replace(b"Post 1", b"Post 1, again" * visit.number), XML, 'ETag: "same"')


def validators_came_back(outcome: Outcome) -> None:
    first, second, third = outcome.site.to("/feed")
    assert "if-none-match" not in first.headers
    assert second.headers["if-none-match"] == third.headers["if-none-match"] == 'W/"a \\" b, \xe4 "'


def no_validator_kept(outcome: Outcome) -> None:
    assert outcome.feed.etag is None
    assert all("if-none-match" not in visit.headers for visit in outcome.site.asked)


def no_cookie(outcome: Outcome) -> None:
    assert not any({"cookie", "referer"} & visit.headers.keys() for visit in outcome.site.asked)


def wait(value: str, status: str = "429 Too Many Requests") -> Act:
    async def act(visit: Asked) -> None:
        await visit.reply(b"", f"Retry-After: {value}", status=status)

    return act


async def later(visit: Asked) -> None:
    await visit.reply(b"", f"Retry-After: {formatdate(time.time() + 4000, usegmt=True)}", status="503 No")


async def gone(visit: Asked) -> None:
    await visit.reply(b"", status="410 Gone")


WEEK = 7 * DAY

CASES = {
    "headers-without-end": Case(endless_headers, "protocol"),
    "headers-drip": Case(slow_headers, "timeout", brief=True),
    "a-header-of-a-megabyte": Case(raw(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1_000_000), "protocol"),
    "headers-of-60-kib": Case(sends(GOOD, XML, *[f"X-{n}: {'y' * 50}" for n in range(1000)]), posts=3),
    "headers-repeated-ten-thousand-times": Case(sends(GOOD, XML, *["a: b"] * 10_000), posts=3),
    "cookies": Case(sends(GOOD, XML, *["Set-Cookie: a=b; Max-Age=99999"] * 50), polls=2, check=no_cookie),
    "100-continue-without-end": Case(endless_100s, "protocol", "headers are too long"),
    "100-and-103-before-200": Case(some_100s, posts=3),
    "101-switching": Case(raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", hang=True), "protocol"),
    "no-http": Case(raw(b"220 ftp ready\r\n\r\n"), "protocol"),
    "http-0.9": Case(raw(GOOD), "protocol"),
    "status-nonsense": Case(raw(b"HTTP/1.1 99999 What\r\n\r\n"), "protocol"),
    "status-999": Case(raw(b"HTTP/1.1 999 No\r\nContent-Length: 0\r\n\r\n"), "http", "999"),
    "a-nul-in-a-header": Case(raw(b"HTTP/1.1 200 OK\r\nX: \0\r\n\r\n"), "protocol"),
    "silence": Case(silent, "timeout", "sent nothing", brief=True),
    "dropped-at-once": Case(dropped_at_once, "protocol"),
    "dropped-in-the-status-line": Case(raw(b"HTTP/1.1 20"), "protocol"),
    "dropped-in-the-headers": Case(raw(b"HTTP/1.1 200 OK\r\nContent-Ty"), "protocol"),
    "dropped-in-the-body": Case(dropped_in_body, "protocol"),
    "dropped-in-a-chunk": Case(dropped_in_chunk, "protocol"),
    "chunk-size-nonsense": Case(
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n" + GOOD), "protocol"
    ),
    "304-without-a-document": Case(always_304, "http", "304", polls=2),
    "weak-validators-with-quotes-and-blanks": Case(document_then_304, posts=3, polls=3, check=validators_came_back),
    "validators-that-change-each-time": Case(new_etags, posts=3, polls=3),
    "one-validator-for-many-documents": Case(same_etag, posts=3, polls=3),
    "a-validator-of-50-kib": Case(
        sends(GOOD, XML, f'ETag: "{"x" * 50_000}"'), posts=3, polls=2, check=no_validator_kept
    ),
    "retry-after-seconds": Case(wait("7200"), "throttled", wait=(7200, 9100)),
    "retry-after-date": Case(later, "throttled", wait=(3900, 5100)),
    "retry-after-for-ever": Case(wait("99999999999"), "throttled", wait=(WEEK, 1.25 * WEEK + 10)),
    "retry-after-in-9999": Case(wait("Fri, 31 Dec 9999 23:59:59 GMT"), "throttled", wait=(WEEK, 1.25 * WEEK + 10)),
    "retry-after-beyond-numbers": Case(wait("9" * 400), "throttled", wait=(290, DAY)),
    "retry-after-negative": Case(wait("-5"), "throttled", wait=(290, DAY)),
    "retry-after-words": Case(wait("soon"), "throttled", wait=(290, DAY)),
    "retry-after-a-bad-date": Case(wait("Fri, 99 Foo 2024 99:99:99 GMT"), "throttled", wait=(290, DAY)),
    "fresh-for-ever": Case(sends(GOOD, XML, "Cache-Control: max-age=999999999999"), posts=3),
    "fresh-until-9999": Case(sends(GOOD, XML, "Expires: Fri, 31 Dec 9999 23:59:59 GMT"), posts=3),
    "gone": Case(gone, "gone", wait=None),
}
