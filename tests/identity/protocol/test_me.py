"""Profile URLs: validity and canonical form (https://indieauth.spec.indieweb.org/#user-profile-url)."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from microsub.base.errors import InvalidRequest
from microsub.base.identifiers import alike, canonical_me, endpoint, identifier, same_me, site_of_me
from tests.support import cases


@pytest.mark.parametrize(("written", "canonical"), cases("usable_urls_have_one_canonical_form", "written", "canonical"))
def test_usable_urls_have_one_canonical_form(written: str, canonical: str) -> None:
    """Case of scheme and host and a missing path make no difference; a bare domain means https."""
    assert canonical_me(written) == canonical
    assert canonical_me(canonical) == canonical
    assert same_me(written, canonical)


@pytest.mark.parametrize(
    "written",
    [
        "",
        " ",
        "https://",
        "https:///alice",
        "mailto:user@example.com",
        "ftp://example.com/",
        "javascript:alert(1)",
        "https:example.com",
        "https:/example.com/",
        "//example.com/",
        "https://example.com/foo/../bar",
        "https://example.com/./bar",
        "https://example.com/foo/%2e%2E/bar",
        "https://example.com/.%2e",
        "https://example.com/#me",
        "https://example.com/#",
        "https://user:pass@example.com/",
        "https://@example.com/",
        "https://example.com:8443/",
        "https://example.com:443/",
        "https://example.com:/",
        "example.com:443",
        "https://172.28.92.51/",
        "https://127.1/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://a.0x1/",
        "https://[::1]/",
        "https://[fe80::1%25eth0]/",
        "https://exa mple.com/",
        "https://example.com/a b",
        "https://example.com\\@evil.example/",
        "https://example.com/\r\nX-Injected: 1",
        "https://example.com/\t",
        "https://example.com/\x00",
        "https://example.com/\u2028",
        "https://example.com/\ud800",
        "https://exam%70le.com/",
        "https://-example.com/",
        "https://example..com/",
        "https://example.com../",
        "https://" + "a" * 64 + ".example/",
        "https://example.com/" + "a" * 2048,
        "https://a.example,b.example/",
        "https://a.example;b/",
    ],
)
def test_unusable_urls_are_refused_with_the_reason(written: str) -> None:
    """URLs that the spec excludes, and URLs that programs read in different ways, are refused with a reason."""
    with pytest.raises(InvalidRequest) as refused:
        canonical_me(written)
    assert "expected a profile URL" in refused.value.description
    assert refused.value.description.isprintable()
    assert "user:pass" not in refused.value.description


def test_ports_and_addresses_pass_where_networks_are_private() -> None:
    """They are allowed for tests and home networks, but unusual notations of addresses never are."""
    assert canonical_me("http://127.0.0.1:8080", private=True) == "http://127.0.0.1:8080/"
    assert canonical_me("127.0.0.1:8080/alice", private=True) == "https://127.0.0.1:8080/alice"
    assert canonical_me("http://[0:0::1]:80/", private=True) == "http://[::1]/"
    for odd in ("http://127.1/", "http://0177.0.0.1/", "http://[::1", "http://127.0.0.1:0/", "http://127.0.0.1:65536/"):
        with pytest.raises(InvalidRequest):
            canonical_me(odd, private=True)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://example.com/", "http://example.com/"),
        ("https://example.com/alice", "https://example.com/alice/"),
        ("https://example.com/alice", "https://example.com/Alice"),
        ("https://www.example.com/", "https://example.com/"),
        ("https://example.com/", "https://example.com/?"),
        ("https://example.com/", "https://example.com.evil.example/"),
        ("nobody at all", "nobody at all"),
    ],
)
def test_different_urls_stay_different(one: str, other: str) -> None:
    """Scheme, path, `www.` and query make different URLs, as the spec says; invalid URLs are never the same."""
    assert not same_me(one, other)


def test_a_site_is_host_and_port() -> None:
    """`www.` belongs to the same site, other subdomains and ports don't."""
    assert site_of_me("https://www.example.com/") == site_of_me("http://example.com/x") == "example.com"
    assert site_of_me("http://127.0.0.1:81/") != site_of_me("http://127.0.0.1:82/")


hosts = st.from_regex(r"[A-Za-z0-9üß_-]{1,12}(\.[A-Za-z0-9-]{1,8}){0,2}\.?", fullmatch=True)
paths = st.text(st.characters(codec="utf-8"), max_size=20).map(lambda text: "/" + text) | st.just("")
urls = st.builds("{}://{}{}{}".format, st.sampled_from(["http", "HTTPS", "https"]), hosts, st.just(""), paths)


@given(urls | st.text(max_size=60), st.booleans())
@example("https://example.com/%zz?%", False)
@example("http://[::FFFF:1.2.3.4]/", True)
def test_the_canonical_form_is_its_own(written: str, private: bool) -> None:
    """It is idempotent and plain ASCII without line breaks, and other parsers read it in the same way."""
    try:
        me = canonical_me(written, private=private)
    except InvalidRequest:
        return
    assert canonical_me(me, private=private) == me
    assert me.isascii()
    assert not any(char <= " " or char == "\x7f" for char in me)
    parts = urlsplit(me)
    found = identifier(me)
    assert (parts.scheme, parts.hostname, parts.port) == (found.scheme, found.host.strip("[]"), found.port)
    assert parts.path.startswith("/")
    assert not parts.fragment
    assert "@" not in parts.netloc
    assert private or parts.port is None
    assert same_me(written, me)


@given(st.text(max_size=60) | urls, st.sampled_from(["", "https://a.example/b/c?d#e", "nonsense"]))
def test_unsafe_endpoints_are_refused(value: str, base: str) -> None:
    """An endpoint is an absolute http or https URL with one meaning, or none."""
    found = endpoint(value, base)
    if found is not None:
        assert identifier(found).url == found
        assert endpoint(found) == found


@given(st.none() | st.integers() | st.lists(st.text()) | st.dictionaries(st.text(), st.text()))
def test_only_texts_are_endpoints(value: object) -> None:
    """JSON values of other types aren't endpoints."""
    assert endpoint(value) is None


def test_scheme_and_last_slash_dont_distinguish_users() -> None:
    """Apps add and drop scheme and last slash; hosts, paths and queries distinguish users."""
    home = "https://ann.example/a"
    for same in ("https://ann.example/a/", "http://ann.example/a", "HTTP://ANN.example/a/"):
        assert alike(home, same)
    for another in (
        "https://www.ann.example/a",
        "https://ann.example/A",
        "https://ann.example/a//",
        "https://ann.example/",
        "",
        "x y",
    ):
        assert not alike(home, another)
    assert alike("ann.example", "http://ann.example/")
