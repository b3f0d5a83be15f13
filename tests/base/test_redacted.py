"""URLs in logs and for other programs: recognisable, but without possible secrets."""

from __future__ import annotations

import base64
import random
import time

import pytest

from microsub.base.urls import redacted, redacted_text

SAME = [
    "https://a.example/",
    "https://blog.example/2024/01/how-i-built-a-2024-thing.html",
    "https://blog.example/posts/covid19vaccine",
    "https://blog.example/MyGreatPodcastFeed/",
    "https://social.example/@ann/109876543210987654",
    "https://www.youtube.example/feeds/videos.xml?channel_id=UC_x5XG1OV2P6uZZ5FSM9Ttw",
    "https://blog.example/?feed=rss2&cat=7&paged=2",
    "https://bücher.example/über-uns",
    "https://a.example/The-McDonald-iPhone-3G-and-H264-Story-of-2024",
    "no address",
]


@pytest.mark.parametrize("url", SAME)
def test_public_parts_stay(url: str) -> None:
    """People recognise the feed by these parts."""
    assert redacted(url) == url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://ann:sesame@a.example/feed", "https://***@a.example/feed"),
        ("https://a.example/feed?token=x", "https://a.example/feed?token=***"),
        ("https://a.example/feed.xml?k=sesame&page=2", "https://a.example/feed.xml?k=***&page=2"),
        ("https://a.example/feed?h=1;u=2#x=3", "https://a.example/feed?h=***;u=***#***"),
        ("https://a.example/feed?sesame", "https://a.example/feed?***"),
        ("https://a.example/feed;sid=sesame", "https://a.example/feed;sid=***"),
        ("https://a.example/f/5f2d9c8e7b6a4d3c2b1a0f9e8d7c6b5a/rss", "https://a.example/f/***/rss"),
        ("https://cal.example/private-abc123def4567890abcd/basic.ics", "https://cal.example/***/basic.ics"),
        ("https://a.example/u/550e8400-e29b-41d4-a716-446655440000.rss", "https://a.example/u/***.rss"),
        ("https://a.example/kJhGfDsAqWeRtYuIoP/feed", "https://a.example/***/feed"),
        ("https://a.example/%35f2d9c8e7b6a4d3c/rss", "https://a.example/***/rss"),
    ],
)
def test_possible_secrets_are_hidden(url: str, shown: str) -> None:
    """This includes any name, and random parts of the path."""
    assert redacted(url) == shown
    assert redacted(shown) == shown


def test_random_keys_in_the_path_are_hidden() -> None:
    """Nearly all keys of 128 bits in base64url, with dashes and underscores anywhere."""
    chance = random.Random(22)
    keys = [base64.urlsafe_b64encode(chance.randbytes(16)).decode().rstrip("=") for _ in range(5000)]
    assert sum(redacted(f"https://a.example/f/{key}/rss") != "https://a.example/f/***/rss" for key in keys) < 50


def test_addresses_in_sentences_are_found() -> None:
    """Errors and tracebacks contain them."""
    text = "connect: https://a.example/f?k=sesame (\"http://b.example/?h=2\"), 'https://c.example/x'"
    assert (
        redacted_text(text) == "connect: https://a.example/f?k=*** (\"http://b.example/?h=***\"), 'https://c.example/x'"
    )


def test_an_address_does_not_end_at_an_apostrophe() -> None:
    """A URL may contain one; the text after the URL stays readable."""
    assert redacted_text("at https://a.example/o'hara/f?k=se'same.") == "at https://a.example/o'hara/f?k=***."
    assert redacted_text("'https://a.example/f?k=sesame': refused") == "'https://a.example/f?k=***': refused"


def test_addresses_of_feeds_are_addresses() -> None:
    """Old browsers passed them to feed readers."""
    assert redacted_text("feed://u:pw@a.example/f?secret=sesame") == "feed://***@a.example/f?secret=***"


@pytest.mark.parametrize(
    "text",
    [
        "fetching https%3A%2F%2Fa.example%2Ff%3Fkey%3Dsesame failed",
        "fetching HTTPS%3a%2f%2fann:sesame%40a.example%2Ff",
        "https://proxy.example/get?q=https%3A%2F%2Fann%3Asesame%40a.example%2Ff",
        "https://proxy.example/https%3A%2F%2Fa.example%2Ff%3Ftoken%3Dsesame",
        "https://proxy.example/?q=http%3A%2F%2Fb.example%2F%3Fq%3Dhttp%253A%252F%252Fa.example%252F%253Fk%253Dsesame",
        "feed%253A%252F%252Fa.example%252F%253Fk%253Dsesame",
        "http%252525253A%252525252F%252525252Fa.example/?k=sesame",
        "http%3A%2F%2Fa.example/?k=sesame",
    ],
)
def test_addresses_that_are_encoded_are_addresses(text: str) -> None:
    """They occur inside other URLs and in messages of proxies; parts that aren't secret stay."""
    shown = redacted_text(text)
    assert "sesame" not in shown
    assert "***" in shown
    assert redacted_text(shown) == shown
    assert "sesame" not in redacted(text)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (
            "https://archive.example/web/https://u:sesame@a.example/f",
            "https://archive.example/web/https://***@a.example/f",
        ),
        ("https://archive.example/web/https:/sesame@a.example/f", "https://archive.example/web/https:/***@a.example/f"),
        ("https://p.example/?q=https://u:sesame@a.example/", "https://p.example/?q=https://***@a.example/"),
        ("https://p.example/?q=https://a.example/?token=sesame", "https://p.example/?q=https://a.example/?token=***"),
        ("https://p.example/f#https://u:sesame@a.example/", "https://p.example/f#https://***@a.example/"),
    ],
)
def test_addresses_within_others_are_addresses(url: str, shown: str) -> None:
    """Archives and proxies write them."""
    assert redacted(url) == shown
    assert redacted(shown) == shown


def test_an_encoded_address_without_secrets_stays_as_it_is() -> None:
    """It stays the same, character by character."""
    for text in (
        "at https%3A%2F%2Fa.example%2ff%3Fpage%3D2.",
        "https://p.example/?q=https%3A%2F%2Fa.example%2F",
        "100%3",
    ):
        assert redacted_text(text) == text


def test_no_encoded_address_takes_long() -> None:
    """It may be encoded many times, or contain itself."""
    for text in (
        "http%" + "25" * 500_000 + "3A%2F%2Fx",
        "http%3A%2F%2F" * 50_000,
        "http%3A%2F%2Fa%3Fk%3Dx " * 20_000,
        _nested(300),
    ):
        started = time.process_time()
        redacted_text(text)
        assert time.process_time() - started < 2


def _nested(depth: int) -> str:
    """A URL inside a URL inside a URL, encoded at each level."""
    found = "https://a.example/?k=sesame"
    while depth := depth - 1:
        for char in "%:/?=":
            found = found.replace(char, f"%{ord(char):02X}")
        found = f"https://a.example/?q={found}"
    return found
