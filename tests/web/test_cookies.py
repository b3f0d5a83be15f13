"""The cookies of our own pages, as browsers send them and as they are set."""

from __future__ import annotations

import time

import pytest
from starlette.requests import Request
from starlette.responses import Response

from microsub.web.cookies import PageCookies
from microsub.web.headers import PublicAddress

SECRET = "s" * 43


@pytest.mark.parametrize(
    ("base_url", "host", "name"),
    [
        ("https://reader.example", "reader.example", "__Host-microsub-session"),
        ("https://reader.example:8443", "reader.example:8443", "__Host-microsub-session"),
        ("http://reader.example", "reader.example", "microsub-session"),
        ("http://127.0.0.1:8000", "localhost:9000", "microsub-session-8000"),
        (None, "127.0.0.1:8000", "microsub-session-8000"),
        (None, "[::1]:8000", "microsub-session-8000"),
        (None, "localhost", "microsub-session"),
        (None, "localhost:80", "microsub-session"),
        (None, "evil.example:8000", "microsub-session"),
        (None, "127.0.0.1:8000=x; y", "microsub-session"),
    ],
)
def test_a_cookies_name_has_the_port_if_needed(base_url: str | None, host: str, name: str) -> None:
    """The port comes from the configured address, or from the browser's address on loopback. Not used with https."""
    cookies, response = PageCookies(PublicAddress(base_url), host), Response()
    cookies.write(response, "session", "x")
    assert response.headers["set-cookie"].partition("=")[0] == name


@pytest.mark.parametrize(
    "sent",
    [
        'a="' + "\\" * 32_000 + '"',
        'a="' + "\\q" * 16_000 + '"',
        ";" * 32_000,
        "; " * 16_000,
        "microsub-browser " * 1_900,
    ],
    ids=["backslashes", "escapes", "semicolons", "blanks", "names"],
)
def test_no_cookie_takes_long(sent: str) -> None:
    """The header has the maximum size; unquoting such a cookie once took a second of CPU time."""
    started = time.process_time()
    for header in (f"{sent}; microsub-browser={SECRET}", f"microsub-browser={SECRET};{sent}"):
        request = Request({"type": "http", "headers": [(b"cookie", header.encode())]})
        for _ in range(10):
            assert PageCookies(PublicAddress(None), "localhost").read(request, "browser") == SECRET
    assert time.process_time() - started < 1


def test_of_cookies_with_one_name_the_last_counts() -> None:
    """They may be in several headers; a name with the same ending is another cookie."""
    headers = [
        (b"cookie", f"microsub-session=x;microsub-session = {SECRET}".encode()),
        (b"cookie", b"y-microsub-session=z"),
    ]
    cookies = PageCookies(PublicAddress(None), "localhost")
    assert cookies.read(Request({"type": "http", "headers": headers}), "session") == SECRET
    assert cookies.read(Request({"type": "http", "headers": headers}), "devices") == ""


@pytest.mark.parametrize("blank", [b"\xa0", b"\x85", b"\x0b", b"\x0c", b"\x1c", b"\x1f", b"\xe2\x80\x80"])
def test_a_cookie_name_with_an_odd_blank_is_ignored(blank: bytes) -> None:
    """For browsers such a name has no `__Host-` prefix, so another host of the domain may set it."""
    cookies = PageCookies(PublicAddress("https://reader.example"), "reader.example")
    for planted in (blank + b"__Host-microsub-session=theirs", b"__Host-microsub-session" + blank + b"=theirs"):
        headers = [(b"cookie", b"__Host-microsub-session=ours; " + planted)]
        assert cookies.read(Request({"type": "http", "headers": headers}), "session") == "ours"
