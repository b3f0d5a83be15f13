"""The feed URLs that may be shown to other users."""

from __future__ import annotations

import time

import pytest

from microsub.discovery.directory import fold
from microsub.feeds.public import is_public


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/feed.xml",
        "http://blog.example.com/2024/01/feed/?format=atom",
        "https://example.com/a-rather-long-title-of-a-blog-from-2019/feed",
        "https://example.com/internationalisation/feed",
        "https://example.com/archive/20240117/feed",
        "https://bücher.example/ü.xml",
    ],
)
def test_ordinary_addresses_are_public(url: str) -> None:
    """Words, dates and slugs are no secrets."""
    assert is_public(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://user:pass@example.com/feed",
        "https://token@example.com/feed",
        "https://example.com/feed?token=1",
        "https://example.com/feed?access_token=abc",
        "https://example.com/feed?api_key=",
        "https://example.com/f/9f8e7d6c5b4a39281706f5e4d3c2b1a0.rss",
        "https://example.com/feed/550e8400-e29b-41d4-a716-446655440000",
        "https://example.com/feed/aXbYcZdQwErTyUiOp",
        "https://example.com/feed?u=a1b2c3d4e5f6a7b8c9",
        "https://example.com/feeds/alice@example.org.xml",
        "https://example.com/f%2F9f8e7d6c5b4a39281706f5e4d3c2b1a0",
        "ftp://example.com/feed",
        "https://[broken/",
    ],
)
def test_addresses_with_probable_secrets_are_private(url: str) -> None:
    """Credentials, tokens and random URLs."""
    assert not is_public(url)


def test_no_feed_slows_down_the_directory() -> None:
    """Very long words in a URL and endless combining marks in a title take little time."""
    started = time.process_time()
    for _ in range(50):
        assert is_public("https://example.com/" + "a-" * 4000)
    fold("a" + "\u0315\u0300" * 250_000)
    assert time.process_time() - started < 3
