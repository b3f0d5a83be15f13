"""Freshness, pauses and validators in headers, as tables of cases."""

from __future__ import annotations

import pytest

from microsub.fetch import headers

NOW = 784111777.0  # Sun, 06 Nov 1994 08:49:37 GMT


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({}, None),
        ({"cache-control": "max-age=60"}, 60),
        ({"cache-control": "public, MAX-AGE = 60"}, 60),
        ({"cache-control": 'max-age="60"'}, 60),
        ({"cache-control": "s-maxage=9, max-age=60"}, 60),
        ({"cache-control": "s-maxage=9"}, None),
        ({"cache-control": "max-age=60", "age": "20"}, 40),
        ({"cache-control": "max-age=60", "age": "200"}, 0),
        ({"cache-control": "max-age=60", "age": "soon"}, 60),
        ({"cache-control": "no-cache, max-age=60"}, 0),
        ({"cache-control": "no-store"}, 0),
        ({"cache-control": "max-age=soon"}, None),
        ({"expires": "Sun, 06 Nov 1994 09:49:37 GMT"}, 3600),
        ({"expires": "Sun, 06 Nov 1994 09:49:37 GMT", "date": "Sun, 06 Nov 1994 09:00:00 GMT"}, 2977),
        ({"expires": "0"}, 0),
        ({"expires": "-1"}, 0),
        ({"expires": "Sunday, 06-Nov-94 08:49:38 GMT"}, 1),
        ({"expires": "Sun Nov  6 08:49:38 1994"}, 1),
        ({"expires": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0),
        ({"expires": "Sun, 06 Nov 1994 09:49:37 GMT", "cache-control": "max-age=5"}, 5),
    ],
)
def test_freshness(fields: dict[str, str], seconds: float | None) -> None:
    """Freshness is `max-age` minus `Age`, otherwise `Expires` minus `Date`; an invalid date counts as expired."""
    assert headers.max_age(fields, NOW) == seconds


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("120", 120),
        (" 120 ", 120),
        ("0", 0),
        ("1.5", 1.5),
        ("-5", None),
        ("soon", None),
        ("Sun, 06 Nov 1994 08:50:37 GMT", 60),
        ("Sun, 06 Nov 1994 08:00:00 GMT", 0),
        ("Sun, 99 Nov 1994 08:00:00 GMT", None),
        ("9" * 400, None),
    ],
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    """Seconds and dates are accepted, never negative; invalid values are ignored."""
    assert headers.retry_after(value, NOW) == seconds


def test_repeated_headers_are_joined() -> None:
    """Header names are case-insensitive, and values keep every byte."""
    raw = [(b"Link", b"<a>"), (b"link", b"<\xff>"), (b"ETag", b'"x"')]
    assert headers.readable(raw) == {"link": "<a>, <\xff>", "etag": '"x"'}
    assert headers.first(raw, b"link") == "<a>"
    assert headers.first(raw, b"location") is None


def test_stored_validators_that_no_header_can_hold() -> None:
    """A validator with a line break or a character beyond latin-1 is left out, so that the request works."""
    assert headers.encodable('"\xff"') == b'"\xff"'
    for value in (None, "", "a\r\nHost: b", "\u20ac", "\0"):
        assert headers.encodable(value) is None


@pytest.mark.parametrize(
    ("subscribers", "text"),
    [
        (0, "s/1 (+http://a.test)"),
        (1, "s/1 (+http://a.test; 1 subscriber)"),
        (7, "s/1 (+http://a.test; 7 subscribers)"),
    ],
)
def test_user_agent(subscribers: int, text: str) -> None:
    """It contains software, documentation URL and number of subscribers."""
    assert headers.user_agent("s/1", "http://a.test", subscribers) == text
