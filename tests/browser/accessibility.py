"""Problems of pages: what axe-core finds in light on a desktop and in dark on a phone, invalid HTML, widths.

What surrounds the content of pages is checked once for each of its shapes; with `make test-matrix` on every page.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import html5lib
from html5lib.html5parser import ParseError
from playwright.async_api import Page

from tests.support import THOROUGH
from tests.support.web import Answer, publisher

AXE = Path(__file__).parent / "axe" / "axe.min.js"
KEPT = [("Content-Type", "text/javascript; charset=utf-8"), ("Cache-Control", "max-age=86400")]
"""A browser caches the compiled script of an address; compiling axe takes as long as running it."""
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
OF_LAYOUT = [
    *("color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size", "region"),
    *("button-name", "label", "link-name"),
]
"""The rules whose results depend on colours, widths and shown elements; the others read the same markup."""
OF_WHOLE = [
    *("accesskeys", "bypass", "heading-order", "landmark-no-duplicate-banner", "landmark-no-duplicate-contentinfo"),
    *("landmark-no-duplicate-main", "landmark-one-main", "landmark-unique", "page-has-heading-one", "region"),
    "skip-link",
]
"""The rules that compare the content of a page with what surrounds it."""
OPTIONS = {"resultTypes": ["violations"], "selectors": False, "preload": False}
"""Passes aren't described: that takes longer than finding violations. No rule needs style sheets loaded again."""
FRAME = "body > :not(main)"
SHAPES = f"""[...document.querySelectorAll("html, body, {FRAME}, {FRAME} *")].map(one =>
    [one.localName, one.getAttribute("class"), one.ariaCurrent, one.hidden, one.parentNode.localName].join())"""
"""The kinds of elements around the content, which are most of a page and the same on all pages."""
REMOVED = "frame => document.querySelectorAll(frame).forEach(one => one.remove())"
FURTHER = [] if THOROUGH else [".post:nth-of-type(n+5)"]
"""Posts after the fourth look like those before them."""
SIZED = """size => {
    const { style } = document.documentElement, old = style.fontSize;
    style.fontSize = size;
    return old;
}"""
DOUBLED = "[...document.querySelectorAll('[id]')].map(one => one.id).filter((id, at, all) => all.indexOf(id) !== at)"
PHONE, DESK, NARROW = {"width": 390, "height": 800}, {"width": 1280, "height": 900}, {"width": 320, "height": 700}
LANGUAGES = ("de", "en") if THOROUGH else ("de",)
"""German has the longer words; the markup is the same in English."""


async def violations(page: Page, url: str, paths: Sequence[str]) -> list[tuple[str, str, str, str]]:
    """Scheme, path, rule and markup of each. The page's context bypasses the policy, which allows no foreign scripts.

    Pages wider than the screen, also than a narrow one with large text, duplicate ids and errors of a strict HTML
    parser count too.
    """
    found = []
    seen: set[str] = set()

    async def axe(scheme: str, path: str, rules: Sequence[str]) -> None:
        await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        options = {**OPTIONS, "runOnly": rules}
        result = await page.evaluate("given => axe.run(...given)", [{"exclude": FURTHER}, options])
        found.extend((scheme, path, one["id"], one["nodes"][0]["html"][:200]) for one in result["violations"])

    async def fits(language: str, path: str, size: object) -> None:
        await page.set_viewport_size(size)  # type: ignore[arg-type]
        if not await page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
            found.append((language, path, f"wider than {size}", ""))

    async def opened(language: str, path: str) -> None:
        reply = await page.goto(url + path)
        assert reply is not None
        await fits(language, path, DESK)
        if doubled := await page.evaluate(DOUBLED):
            found.append((language, path, "ids that stand twice", str(doubled)))
        if invalid := error_of(await reply.text()):
            found.append((language, path, "invalid HTML", invalid))

    async with publisher() as host:
        script = host.serve("/axe.js", Answer(AXE.read_bytes(), headers=KEPT))
        for language, path in itertools.product(LANGUAGES, paths):
            await page.set_extra_http_headers({"Accept-Language": language})
            await opened(language, path)
            await page.add_script_tag(url=script)
            await axe("light", path, OF_WHOLE)
            size = await page.evaluate(SIZED, "143.75%")
            await fits(language, path, NARROW)
            await page.evaluate(SIZED, size)
            await fits(language, path, PHONE)
            shapes = set(await page.evaluate(SHAPES))
            if shapes <= seen and not THOROUGH:
                await page.evaluate(REMOVED, FRAME)
            seen |= shapes
            await axe("dark", path, OF_LAYOUT)
            await page.set_viewport_size(DESK)  # type: ignore[arg-type]
            await axe("light", path, RULES)
    return found


def error_of(html: str) -> str:
    """The first error that a strict HTML parser finds, or an empty string."""
    try:
        html5lib.HTMLParser(strict=True).parse(html)
    except ParseError as error:
        return str(error)
    return ""
