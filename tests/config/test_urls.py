"""What configuration knows of URLs agrees with what the rest of the product does with them."""

from __future__ import annotations

import pytest

from microsub.formats.entry_id import canonical_feed_url, normalise_profile
from microsub.kit.hosts import comparable, comparable_profile, usable

SAME = [
    ("https://A.example", "https://a.example/"),
    ("HTTPS://a.example:443/", "https://a.example/"),
    ("http://a.example:80/x#y", "http://a.example/x"),
    ("https://bücher.example/", "https://xn--bcher-kva.example/"),
]
DIFFERENT = [
    ("https://a.example/x", "https://a.example/x/"),
    ("https://a.example/", "http://a.example/"),
    ("https://a.example/?a", "https://a.example/?b"),
    ("https://a.example:8443/", "https://a.example/"),
    ("https://u:p@a.example/", "https://a.example/"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_spellings_of_one_feed(one: str, other: str) -> None:
    """Equal here and equal in the store."""
    assert comparable(one) == comparable(other)
    assert canonical_feed_url(one) == canonical_feed_url(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_feeds(one: str, other: str) -> None:
    """Different here and different in the store."""
    assert comparable(one) != comparable(other)
    assert canonical_feed_url(one) != canonical_feed_url(other)


@pytest.mark.parametrize(
    ("one", "other"), [("http://A.example/", "https://a.example"), ("https://a.example/x/", "https://a.example/x")]
)
def test_spellings_of_one_profile(one: str, other: str) -> None:
    """Equal here and equal in the store."""
    assert comparable_profile(one) == comparable_profile(other)
    assert normalise_profile(one) == normalise_profile(other)


@pytest.mark.parametrize("url", ["https://[", "mailto:a@b", "x", "", "https:///x"])
def test_what_is_no_web_address_stays_as_it_is(url: str) -> None:
    """Comparing never fails."""
    assert comparable(url) == url
    assert not usable(url)


@pytest.mark.parametrize("url", ["https://a.example:x/", "https://a b.example/", "ftp://a.example/", "https://a\n/"])
def test_unusable_addresses(url: str) -> None:
    """They could not be requested."""
    assert not usable(url)
