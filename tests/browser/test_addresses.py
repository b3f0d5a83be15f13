"""Chromium reads accepted addresses as the server does: no answer for an app and no identity goes to another one."""

from __future__ import annotations

import itertools
import re

import pytest
from playwright.async_api import Page

from microsub.base.errors import InvalidRequest
from microsub.base.identifiers import canonical_me
from microsub.identity.protocol.clients import App, allowed_redirect
from microsub.identity.protocol.links import profile_links
from tests.browser.tab import Tab

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

APP = App("https://app.example/")
BETWEEN = [
    *("", "/", "//", "\\", "/\\", "\\\\", "@", ":", ":@", "?", "#", ".", "..", ";", "%", "&", "=", " ", "\t"),
    *("\n", "\r"),
    *("\x00", "\x1f", "\x7f", "\x85", "\xa0", "\xad", "\u200b", "\u2028", "\u3002", "\uff0e", "\uff0f"),
    *("\uff1a", "\uff20"),
    *("%2f", "%40", "%5c", "%00", "%0a", "%2e", ":443", ":80", ":0443", ":65536", ":443@", "[", "]", "|", "^", "`"),
    *("{", "}"),
    *("<", ">", '"', "'", "\u212a", "\uff05", "\U0001f600", "\ud800", "&#47;", "..;/", "/.", "/..", "/%2e%2e/"),
]
STARTS = ["https://app.example", "HTTPS://APP.EXAMPLE", "https:app.example", "https:/app.example", "//app.example"]
ENDS = ["", "evil.example", "@evil.example/", "/evil.example", "\\@evil.example", ".evil.example/", "//evil.example/x"]
HOSTS = [
    *("1.2.3.4", "0x7f.1", "127.1", "2130706433", "0177.0.0.1", "1.2.3.4.", "[::1]", "[::ffff:1.2.3.4]", "1.2.3"),
    *("0x", "09"),
    *("app.example.", "app..example", "-app.example", "app_.example", "xn--app.example"),
    *("xn--a.example", "\uff41pp.example"),
    *("\u0131.example", "stra\xdfe.example", "a\u0308.example", "\xe4.example", "XN--4CA.example", "localhost"),
    *("", "a" * 64),
    *("a.b.c.d.e", "1.example", "example.1", "example.0x1", "a%62.example", "a\u200db.example"),
    *("\u03c2.example", "*.example"),
]
SCHEMES = [
    "javascript:alert(1)",
    "data:text/html,x",
    "app.example:/back",
    "com.app://x",
    "about:blank",
    "blob:https://app.example/x",
]
READ = """
    values => values.map(value => {
        try { const url = new URL(value); return [url.origin, url.href]; } catch { return null; }
    })
"""


async def read_by(page: Page, values: list[str]) -> list[list[str] | None]:
    """Origin and full address of each, as Chromium reads it."""
    await page.goto("about:blank")
    found: list[list[str] | None] = await page.evaluate(READ, values)
    return [read and [without_dot(part) for part in read] for read in found]


def without_dot(url: str) -> str:
    """The same host without the final dot, which only marks the name as complete."""
    return re.sub(r"^(https?://[^/?#:]*[^/?#:.])\.(?=[/?#:]|$)", r"\1", url)


def tricky() -> list[str]:
    """Addresses that might be mistaken for one of the app's."""
    made = [f"{start}{mid}{end}" for start, mid, end in itertools.product(STARTS, BETWEEN, ENDS)]
    made += [f"{mid}{start}/back{mid}" for start, mid in itertools.product(STARTS, BETWEEN)]
    return [text for text in dict.fromkeys([*made, *SCHEMES]) if _sent(text)]


async def test_answers_stay_with_the_app(here: Tab) -> None:
    """Each address that is accepted as the app's has the app's origin in Chromium, letter by letter."""
    passed = [text for text in tricky() if allowed_redirect(APP, text)]
    assert len(passed) > 50, "the ordinary ones do pass"
    for text, found in zip(passed, await read_by(here.page, passed), strict=True):
        assert found is not None, text
        assert found[0] == "https://app.example", text


async def test_a_published_address_is_the_one_that_was_meant(here: Tab) -> None:
    """An app that publishes an address doesn't allow a similar one."""
    published = App(APP.id, redirect_uris=frozenset({"https://other.example/back", "app.example:/back"}))
    passed = [text for text in tricky() if allowed_redirect(published, text)]
    foreign = [text for text in passed if not text.lower().startswith("https://app.example")]
    assert foreign == ["app.example:/back"]
    assert not allowed_redirect(published, "https://other.example/back?x")
    assert not allowed_redirect(published, "https://other.example/back/")


async def test_identities_have_one_reading(here: Tab) -> None:
    """Chromium writes a canonical profile URL in the same way, so no program takes it for another identity."""
    written = [
        f"{scheme}://{host}{path}" for scheme in ("https", "http") for host in HOSTS for path in ("", "/", "/a?b")
    ]
    written += [text for text in tricky() if not text.startswith("//")]
    canonical: dict[str, str] = {}
    for text in written:
        for private in (False, True):
            try:
                canonical[text] = canonical_me(text, private=private)
            except InvalidRequest:
                continue
    assert len(canonical) > 100
    again = list(canonical.values())
    for text, me, found in zip(canonical, again, await read_by(here.page, again), strict=True):
        assert found is not None, (text, me)
        assert found[1] == me, text
        assert canonical_me(me, private=True) == me
    for text, me, found in zip(canonical, again, await read_by(here.page, list(canonical)), strict=True):
        if "://" in text[:8]:
            assert found is not None, (text, me)
            assert found[1] == me, text


async def test_endpoints_are_where_the_page_says(here: Tab) -> None:
    """A link on a profile page leads to the endpoint to which Chromium would follow it, never to a third party."""
    base = "https://alice.example/me"
    targets = [text for text in tricky() if "\x00" not in text][::3]
    await here.page.route(base, lambda route: route.fulfill(body="<!doctype html>", content_type="text/html"))
    await here.page.goto(base)
    followed: list[str | None] = await here.page.evaluate(
        "values => values.map(v => { const a = document.createElement('a'); a.setAttribute('href', v);"
        " return a.protocol === ':' ? null : a.href; })",
        targets,
    )
    for target, there in zip(targets, followed, strict=True):
        body = f'<!doctype html><link rel="token_endpoint" href="{_attribute(target)}">'
        endpoints, _ = profile_links(body.encode(), base, "text/html; charset=utf-8", None)
        if (found := endpoints.get("token_endpoint")) is not None:
            assert there is not None, target
            led = without_dot(there.partition("#")[0])
            # Relative ones with odd spelling may stay on the page's own host, but reach no other one.
            assert found.split("/")[:3] in [led.split("/")[:3], base.split("/")[:3]], target
            if re.match(r"(?i)https?://", target):
                assert found == led, target


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;")


def _sent(text: str) -> bool:
    """Whether the text can be sent to a browser: a lone surrogate can't."""
    return "\ud800" not in text
