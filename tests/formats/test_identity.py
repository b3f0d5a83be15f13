"""Identity of posts, and equality of addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from microsub.base import urls
from microsub.base.urls import (
    canonical_feed_url,
    has_credentials,
    host_of,
    mask_credentials,
    normalise_profile,
    normalise_url,
    safe_url,
)
from microsub.formats.entry_id import common_identity, identities, identity
from microsub.model.jf2 import Content, Entry


def test_guid_then_link_then_text_identify_an_entry() -> None:
    """The first of the three that an entry has identifies it."""
    assert identity(Entry(guid="tag:a", url="https://a.example/1")) == "tag:a"
    assert identity(Entry(url="https://a.example/1")) == "https://a.example/1"
    bare = Entry(name="One", content=Content("<p>x</p>", "x"))
    assert identity(bare) == identity(Entry(name="One", content=Content("<p>x</p>", "x")))
    assert identity(bare) != identity(Entry(name="Two", content=Content("<p>x</p>", "x")))


@pytest.mark.parametrize(
    "other",
    [
        "http://a.example/post",
        "https://A.example/post/",
        "https://a.example:443/post?utm_source=rss&utm_medium=feed",
        "https://a.example/post?fbclid=1#utm_source=x",
        "https://a.example/post?#",
        " https://a.example/post#xtor=RSS-1\n",
        "https://a.example/p%6fst",
    ],
)
def test_a_move_to_https_or_a_campaign_is_no_new_post(other: str) -> None:
    """Scheme, case of the host, default port, trackers and trailing junk don't count."""
    assert normalise_url(other) == "https://a.example/post"
    assert identity(Entry(guid=other)) == identity(Entry(guid="https://a.example/post"))


@pytest.mark.parametrize(
    "other",
    ["https://a.example/Post", "https://a.example/post?id=2", "https://www.a.example/post", "https://a.example/post#part-2",
     "https://a.example:8443/post", "https://a.example/post%2Fx"],
)  # fmt: skip
def test_significant_parts_of_links_distinguish_posts(other: str) -> None:
    """Path, real parameters, host, port and anchors count."""
    assert normalise_url(other) != normalise_url("https://a.example/post")


def test_links_distinguish_posts_with_a_shared_guid() -> None:
    """Posts of one document that share a guid are different posts if their links differ."""
    one, two = Entry(guid="g", url="https://a.example/1"), Entry(guid="g", url="https://a.example/2")
    alone = Entry(guid="h", url="https://a.example/3")
    found = identities([one, two, alone])
    assert len(set(found)) == 3
    assert found[2] == identity(alone)
    assert len(set(identities([one, one]))) == 1


def test_texts_distinguish_posts_with_a_shared_guid() -> None:
    """The site's address as guid of every post, and no link at all."""
    assert len(set(identities([Entry(guid="g", name="a"), Entry(guid="g", name="b"), Entry(guid="g", name="b")]))) == 2


def test_a_title_that_repeats_the_text_makes_no_new_post() -> None:
    """A title that is left out makes no new post of one without guid and link."""
    body = Content(None, "The bridge is closed, says the council.")
    assert identity(Entry(name="The bridge is closed", content=body)) == identity(Entry(content=body))
    assert identity(Entry(name="The bridge is open", content=body)) != identity(Entry(content=body))


def test_duplicates_agree_in_guid_and_link() -> None:
    """Both are needed, and both are compared in normal form."""
    first = Entry(guid="tag:1", url="https://a.example/1")
    assert common_identity(first) == common_identity(Entry(guid="tag:1", url="http://a.example/1/?utm_source=planet"))
    assert common_identity(first) != common_identity(Entry(guid="tag:2", url="https://a.example/1"))
    assert common_identity(Entry(guid="tag:1")) is None
    assert common_identity(Entry(url="https://a.example/1")) is None


def test_an_enormous_guid_becomes_a_short_key() -> None:
    """Identities are field names in Redis: they are bounded, and still differ."""
    long = [identity(Entry(guid="x" * 100_000 + end)) for end in "ab"]
    assert long[0] != long[1]
    assert all(len(key) < 600 for key in long)


def test_profiles_are_compared_without_scheme_and_trailing_slash() -> None:
    """`www.` and the path count; case of the host, scheme and the slash at the end don't."""
    same = {"https://Ann.example", "http://ann.example/", "https://ann.example:443/"}
    assert {normalise_profile(url) for url in same} == {"https://ann.example/"}
    assert normalise_profile("https://www.ann.example/") != normalise_profile("https://ann.example/")
    assert normalise_profile("https://x.example/ann/") == normalise_profile("http://x.example/ann")
    assert normalise_profile("https://x.example/Ann") != normalise_profile("https://x.example/ann")


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("HTTPS://Ex.example", "https://ex.example/"),
        ("http://ex.example:80/feed#top", "http://ex.example/feed"),
        ("https://ex.example/feed/?b", "https://ex.example/feed/?b"),
        ("https://bücher.example/ä?q=ü", "https://xn--bcher-kva.example/%C3%A4?q=%C3%BC"),
        ("feed://ex.example/rss", "http://ex.example/rss"),
        ("feed:https://ex.example/rss", "https://ex.example/rss"),
        ("https://u:p@Ex.example:8443/", "https://u:p@ex.example:8443/"),
        ("http://[::1]:80/x", "http://[::1]/x"),
        ("https://[broken", "https://[broken"),
    ],
)
def test_a_feed_has_one_key(url: str, key: str) -> None:
    """Case, default port, IDN and fragment make no second feed; the scheme does."""
    assert canonical_feed_url(url) == key
    assert canonical_feed_url(key) == key


def test_credentials_are_masked() -> None:
    """User, password and secret parameters never get into a log or a list; the rest stays readable."""
    assert mask_credentials("https://ann:pw@ex.example/f?a=1") == "https://***@ex.example/f?a=1"
    assert mask_credentials("https://ex.example/f?token=abc&page=2") == "https://ex.example/f?token=***&page=2"
    assert mask_credentials("https://ex.example/f?api_key=abc") == "https://ex.example/f?api_key=***"
    assert "pw" not in mask_credentials("https://ann:pw@[broken/")
    plain = "https://ex.example/f?keyword=x&monkey=2"
    assert mask_credentials(plain) == plain
    assert not has_credentials(plain)
    assert has_credentials("https://ann@ex.example/")


def test_the_host_is_bare() -> None:
    """Lower case, punycode, without port and user."""
    assert host_of("https://u@Bücher.example.:8080/x") == "xn--bcher-kva.example"
    assert host_of("nonsense") == host_of("https://[x") == ""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("/a b", "https://s.example/a%20b"),
        ("//t.example/x", "https://t.example/x"),
        (" HTTP://T.example/ü ", "HTTP://T.example/ü"),
        ("https:\n//t.example/", "https://t.example/"),
        ("http:///t.example/x", "http://t.example/x"),
        ("http://t.example", "http://t.example/"),
        ('https://t.example/"><b>', "https://t.example/%22%3E%3Cb%3E"),
        ("java\tscript:alert(1)", None),
        ("data:text/html,x", None),
        ("http://", None),
        ("http://[", None),
        ("mailto:a@t.example", None),
        ("", None),
        ("x" * 5000, None),
    ],
)
def test_only_web_addresses_pass(value: str, expected: str | None) -> None:
    """Relative ones become absolute, those that browsers repair are repaired, and all others are refused."""
    assert safe_url(value, "https://s.example/dir/") == expected


@given(st.text(max_size=60))
def test_comparison_forms_are_stable_and_never_raise(text: str) -> None:
    """Normalising twice changes nothing; any text is accepted."""
    for form in (normalise_url, normalise_profile):
        for url in (text, f"https://{text}", f"https://a.example/{text}"):
            assert form(form(url)) == form(url)
    for url in (text, f"https://{text}", f"http://a.example/{text}"):
        canonical_feed_url(url)
        mask_credentials(url)
        host_of(url)


@given(
    st.from_regex(urls._SIMPLE, fullmatch=True) | st.text(":/.?#%@80htps[]\\\n A", max_size=30).map("https://a".__add__)
)
def test_the_fast_path_gives_the_same_comparison_form(url: str) -> None:
    """A simple address needs no normalising; one with an empty fragment takes the long way."""
    if urls._SIMPLE.fullmatch(url):
        assert normalise_url(url) == normalise_url(f"{url}#")
    assert host_of(url) == host_of(f" {url}"), "a space isn't simple"
