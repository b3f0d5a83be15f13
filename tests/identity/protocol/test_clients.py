"""Client identifiers and allowed redirect addresses of apps (https://indieauth.spec.indieweb.org/#redirect-url)."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microsub.base.errors import InvalidRequest
from microsub.base.identifiers import identifier
from microsub.identity.protocol.clients import (
    App,
    allowed_redirect,
    canonical_client_id,
    is_loopback_redirect,
    read_client,
)

APP = App(
    "https://app.example/id",
    redirect_uris=frozenset({"https://other.example/back?x=1", "exampleapp://signed-in", "javascript:alert(1)"}),
)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("https://app.example", "https://app.example/"),
        ("HTTP://App.Example:8080/x", "http://app.example:8080/x"),
        ("https://app.example:443/", "https://app.example/"),
        ("http://127.0.0.1:9000/", "http://127.0.0.1:9000/"),
        ("http://[::1]/", "http://[::1]/"),
        ("http://localhost:3000/", "http://localhost:3000/"),
    ],
)
def test_identifiers_may_have_ports_and_be_loopback(written: str, canonical: str) -> None:
    """Unlike profile URLs they may have ports and loopback hosts, for apps in development."""
    assert canonical_client_id(written) == canonical


@pytest.mark.parametrize(
    "written",
    [
        "app.example",
        "https://10.0.0.1/",
        "https://169.254.169.254/",
        "http://127.0.0.2/",
        "http://127.1/",
        "http://[::ffff:127.0.0.1]/",
        "https://app.example/#x",
        "https://u@app.example/",
        "https://app.example/../x",
        "exampleapp://x",
        "https://app.example/\n",
        "https://app.example/\u202egpj.exe",
        "https://app.example/?\u2066",
        "https://app.example/\u00ad",
    ],
)
def test_other_identifiers_are_refused(written: str) -> None:
    """Only names and the two loopback addresses are allowed, and only characters that can be shown."""
    with pytest.raises(InvalidRequest, match="expected the URL of an app"):
        canonical_client_id(written)


@pytest.mark.parametrize(
    "redirect",
    [
        "https://app.example/back",
        "https://app.example/",
        "https://app.example",
        "https://app.example:443/back?a=b",
        "https://other.example/back?x=1",
        "exampleapp://signed-in",
    ],
)
def test_own_origin_and_what_is_published_is_allowed(redirect: str) -> None:
    """Allowed are scheme, host and port of the client, and the exact addresses that it publishes."""
    assert allowed_redirect(APP, redirect)


@pytest.mark.parametrize(
    "redirect",
    [
        "",
        "http://app.example/back",
        "https://app.example:444/back",
        "https://evil.example/back",
        "https://app.example.evil.example/",
        "https://app.example./back",
        "https://app.example.:443/",
        "https://app.example@evil.example/",
        "https://app.example:x@evil.example/",
        "https://app.example\\@evil.example/",
        "https://app.example\\.evil.example/",
        "https://evil.example/https://app.example/",
        "https://evil.example#@app.example/",
        "https://app.example/back#fragment",
        "https://app.example/back\r\nLocation: https://evil.example/",
        "https://app.example/\tback",
        " https://app.example/back",
        "https://other.example/back",
        "https://other.example/back?x=1&y=2",
        "https://other.example/back?x=1#",
        "https://OTHER.example/back?x=1",
        "exampleapp://signed-in/",
        "otherapp://signed-in",
        "javascript:alert(1)",
        "//app.example/back",
        "/back",
        "https:app.example",
        "https:/app.example/back",
        "https:///app.example/back",
        "https://app%2eexample/",
        "https://app.example/../../x",
        'https://app.example/"><script>',
        "https://app.exämple/",
        "https://app.example/" + "a" * 3000,
    ],
)
def test_no_open_redirects(redirect: str) -> None:
    """Other origins are refused, also addresses that some program reads as the own origin, and scripts."""
    assert not allowed_redirect(APP, redirect)


@given(st.text(max_size=80) | st.from_regex(r"\Ahttps://app\.example[\x00-\x7f]{0,20}\Z"))
def test_unlisted_redirects_are_on_the_own_origin(redirect: str) -> None:
    """This holds for any spelling."""
    info = App("https://app.example/")
    if allowed_redirect(info, redirect):
        assert identifier(redirect).origin == "https://app.example"
        assert redirect.isascii()
        assert redirect.isprintable()


NATIVE = App("https://app.example/id", redirect_uris=frozenset({"http://127.0.0.1/back", "http://[::1]:80/"}))


@pytest.mark.parametrize(
    "redirect", ["http://127.0.0.1/back", "http://127.0.0.1:41753/back", "http://127.0.0.1:1/back", "http://[::1]:9/"]
)
def test_a_published_loopback_address_has_any_port(redirect: str) -> None:
    """Programs listen on any free port (RFC 8252, 7.3)."""
    assert allowed_redirect(NATIVE, redirect)


@pytest.mark.parametrize(
    "redirect",
    [
        *("http://127.0.0.1:41753/", "http://127.0.0.1:41753/back?x", "http://127.0.0.1:41753/back/"),
        *("http://[::1]:9/back", "http://localhost:41753/back", "http://127.0.0.2/back", "http://127.0.0.1.evil/back"),
        *("https://127.0.0.1:41753/back", "http://127.0.0.1:41753/back#x", "http://127.0.0.1@evil.example/back"),
    ],
)
def test_only_the_port_of_a_loopback_address_is_free(redirect: str) -> None:
    """Host, path and query must be those that the app publishes, and other hosts have one port."""
    assert not allowed_redirect(NATIVE, redirect)
    assert not allowed_redirect(APP, "https://other.example:8443/back?x=1")


def test_localhost_is_a_loopback_address() -> None:
    """Many programs listen there (RFC 8252, 8.3); names that only look like it are hosts like any other."""
    assert is_loopback_redirect("http://localhost:7881/")
    listed = App("https://app.example/id", redirect_uris=frozenset({"http://localhost/back"}))
    assert allowed_redirect(listed, "http://localhost:41753/back")
    for other in ("https://localhost/", "http://localhost.evil.example/", "http://x.localhost/"):
        assert not is_loopback_redirect(other)


def test_an_address_without_a_scheme_is_not_listed() -> None:
    """`//other.example/back` would be another host; a path is the app's own."""
    places = ["//other.example/back", " //other.example/back", "/back", "https://listed.example/back"]
    document = orjson.dumps({"client_id": "https://app.example/", "redirect_uris": places})
    found = read_client(document, "https://app.example/", "https://app.example/", "application/json", None)
    assert found.redirect_uris == {"https://app.example/back", "https://listed.example/back"}
