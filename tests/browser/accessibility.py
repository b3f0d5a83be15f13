"""Problems that axe-core finds on pages: light in English on a desktop, and dark in German on a phone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from playwright.async_api import Page

from tests.support.web import Answer, publisher

AXE = Path(__file__).parent / "axe" / "axe.min.js"
KEPT = [("Content-Type", "text/javascript; charset=utf-8"), ("Cache-Control", "max-age=86400")]
"""A browser caches the compiled script of an address; compiling axe takes as long as running it."""
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
OPTIONS = {"runOnly": RULES, "resultTypes": ["violations"], "selectors": False}
"""Passes aren't described: that takes longer than finding violations."""
DOUBLED = "[...document.querySelectorAll('[id]')].map(one => one.id).filter((id, at, all) => all.indexOf(id) !== at)"
PHONE, DESK = {"width": 390, "height": 800}, {"width": 1280, "height": 900}
"""The narrower one gets German, which has longer words."""


async def violations(page: Page, url: str, paths: Sequence[str]) -> list[tuple[str, str, str, str]]:
    """Scheme, path, rule and markup of each. The page's context bypasses the policy, which allows no foreign scripts.

    Pages wider than a phone and duplicate ids count too.
    """
    async with publisher() as host:
        axe = host.serve("/axe.js", Answer(AXE.read_bytes(), headers=KEPT))
        found = []
        for scheme, size, language in (("light", DESK, "en"), ("dark", PHONE, "de")):
            await page.set_extra_http_headers({"Accept-Language": language})
            await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            await page.set_viewport_size(size)  # type: ignore[arg-type]
            for path in paths:
                await page.goto(url + path)
                if not await page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
                    found.append((scheme, path, "wider than the screen", ""))
                if doubled := await page.evaluate(DOUBLED):
                    found.append((scheme, path, "ids that stand twice", str(doubled)))
                await page.add_script_tag(url=axe)
                result = await page.evaluate("options => axe.run(document, options)", OPTIONS)
                found += [(scheme, path, one["id"], one["nodes"][0]["html"][:200]) for one in result["violations"]]
        return found
