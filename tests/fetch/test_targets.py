"""URLs as people and publishers write them."""

from __future__ import annotations

import pytest

from microsub.base.urls import canonical_feed_url
from microsub.fetch.targets import follow, target_of
from microsub.fetch.values import HopError


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("http://a.test", "http://a.test/"),
        ("HTTP://A.Test:80/x#frag", "http://a.test/x"),
        ("https://a.test:443/", "https://a.test/"),
        ("https://a.test:8443/?q=1", "https://a.test:8443/?q=1"),
        ("http://bücher.test/straße?q=ü", "http://xn--bcher-kva.test/stra%C3%9Fe?q=%C3%BC"),
        ("http://☃.test/", "http://xn--n3h.test/"),
        ("http://日本.test/%E3%81%82あ", "http://xn--wgv71a.test/%E3%81%82%E3%81%82"),
        ("http://a.test/with space", "http://a.test/with%20space"),
        ("  http://a.test/x \n", "http://a.test/x"),
        ("http://[2001:DB8::1]:8080/", "http://[2001:db8::1]:8080/"),
        ("http://a_b.test/", "http://a_b.test/"),
    ],
)
def test_the_requested_url_is_normalised(url: str, asked: str) -> None:
    """The requested URL has the host in ASCII, an escaped path, no fragment and no default port."""
    assert target_of(url).url == asked


@pytest.mark.parametrize(
    "url",
    ["", "a.test", "ftp://a.test/", "file:///etc/passwd", "http://", "http:///x", "http://a.test:99999/",
     "http://[::1/", "javascript:alert(1)", "http://" + "a" * 9000, "gopher://a.test",
     "http://\u2603" + "x" * 70 + ".test/"],
)  # fmt: skip
def test_unusable_urls_are_refused(url: str) -> None:
    """Other schemes, a missing host and nonsense are `bad_url`."""
    with pytest.raises(HopError) as failure:
        target_of(url)
    assert failure.value.reason == "bad_url"


def test_credentials_are_separated_from_the_url() -> None:
    """Credentials become a header and are removed from all URLs that are requested or shown."""
    target = target_of("http://us%40er:p%C3%A4ss@a.test/x")
    assert target.url == "http://a.test/x"
    assert target.authorization() == b"Basic dXNAZXI6cMOkc3M="
    assert target.with_credentials() == "http://us%40er:p%C3%A4ss@a.test/x"
    assert target_of("http://a.test/").authorization() is None


@pytest.mark.parametrize(
    ("url", "location", "asked", "keeps"),
    [
        ("http://u:p@a.test/x/y", "/z", "http://a.test/z", True),
        ("http://u:p@a.test/x/y", "z?q#f", "http://a.test/x/z?q", True),
        ("http://u:p@a.test/x", "https://a.test/x", "https://a.test/x", True),
        ("https://u:p@a.test/x", "http://a.test/x", "http://a.test/x", False),
        ("http://u:p@a.test/x", "http://a.test:8080/x", "http://a.test:8080/x", False),
        ("http://u:p@a.test/x", "http://b.test/x", "http://b.test/x", False),
        ("http://u:p@a.test/x", "//b.test/x", "http://b.test/x", False),
        ("http://a.test/x", "http://v:q@b.test/", "http://b.test/", True),
        ("http://a.test/x", "/caf\xc3\xa9", "http://a.test/caf%C3%A9", False),
        ("http://a.test/x", "/caf\xe9", "http://a.test/caf%C3%A9", False),
        ("http://a.test/x", "", "http://a.test/x", False),
    ],
)
def test_redirects(url: str, location: str, asked: str, keeps: bool) -> None:
    """Relative and unescaped redirects work; credentials are kept only on the same host, and not from https to http."""
    target = follow(target_of(url), location)
    assert target.url == asked
    assert bool(target.userinfo) is keeps


@pytest.mark.parametrize(("base", "keeps"), [("http://~ann.{0}@a.test/x", "~ann.{0}"), ("http://a.test/x", "")])
def test_a_sign_in_in_a_redirect_is_dropped(base: str, keeps: str) -> None:
    """A server can't make a feed the one of another user who signs in."""
    target = follow(target_of(base.format("i" * 22)), f"http://~bob.{'i' * 22}@a.test/z")
    assert (target.url, target.userinfo) == ("http://a.test/z", keeps.format("i" * 22))


@pytest.mark.parametrize("location", ["ftp://a.test/", "javascript:1", "http://[::1"])
def test_redirects_to_nowhere(location: str) -> None:
    """The target of a redirect is checked like any URL."""
    with pytest.raises(HopError):
        follow(target_of("http://a.test/"), location)


@pytest.mark.parametrize(
    "spelling",
    [
        "https://feeds.example/my feed.xml",
        " https://feeds.example/my feed.xml\n",
        "\u3000https://feeds.example/my feed.xml\u200b",
        "https://feeds.example/my%20feed.xml",
        "https://feeds.example/my\n feed\t.xml",
        "feed:https://feeds.example/my feed.xml ",
    ],
)
def test_one_address_is_one_feed_however_it_is_spelled(spelling: str) -> None:
    """Spaces around an address are ignored; spaces inside are part of it."""
    key = canonical_feed_url(spelling)
    assert key == "https://feeds.example/my%20feed.xml"
    assert target_of(spelling.removeprefix("feed:")).url == key
