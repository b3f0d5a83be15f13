"""The pages that watch do see: what the techniques of `tests/data/xss` do before they were cleaned."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from tests.browser.techniques import techniques
from tests.browser.watched import watched

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

UNSAFE_LINK = '<a href="javascript:ran(1)">x</a>'
IN_FRAMES = 25
KINDS = (
    *("script: ", "dialog: ", "navigation: ", "window: ", "handler: ", "address: ", "element: "),
    *("policy: script-src-attr", "policy: script-src-elem", "policy: style-src-attr", "policy: style-src-elem"),
    *("policy: object-src", "policy: base-uri", "policy: frame-src", "policy: form-action"),
    *("attribute: ping", "request: script", "request: stylesheet", "request: document", "request: font"),
)
"""What there is to report, as the reports begin."""


async def test_a_page_would_tell(browser: Browser) -> None:
    """Uncleaned, the techniques are seen by the same pages: scripts, requests, navigations, dialogs and the rest."""
    raw = {str(t.number): t for t in techniques() if not t.address}
    addresses = [t.payload for t in techniques() if t.address and not t.payload.startswith("http")]
    names = list(raw)
    async with watched(browser) as tab:
        reports = []
        for first in range(0, len(names), IN_FRAMES):
            some = names[first : first + IN_FRAMES]
            reports += await tab.told(tab.touch_framed({name: raw[name].payload for name in some}))
    for body in ("<script>alert(1)</script>", '<meta http-equiv="refresh" content="0;url=/x">', UNSAFE_LINK):
        async with watched(browser) as other:
            reports += await other.told(other.touch(body))
    async with watched(browser) as other:
        await other.show('<button onclick="window.open(`/x`)">x</button>')
        async with other.page.expect_popup():
            await other.page.click("button")
        reports += await other.told(other.settle())
        led = {report for report in await other.told(other.put("loose", addresses)) if report.startswith("address: ")}
    missing = [kind for kind in KINDS if not any(report.startswith(kind) for report in reports)]
    assert not missing
    # The rest is for browsers of the past, for other places, or harmless until something opens it.
    quiet = [str(technique) for name, technique in raw.items() if not tab.framed[name]]
    assert len(quiet) < 0.3 * len(raw), quiet
    assert len(led) > 30, led
