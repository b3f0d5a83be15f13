"""Screenshots of the demo's web interface for README and docs, and measurements of its pages in a browser.

`make pictures` writes docs/images, and the table between the marks of docs/explanation/performance.md. It needs
Chromium, like the browser tests.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.report import aligned, updated
from tests.browser.conftest import chromium

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
PERFORMANCE = ROOT / "docs" / "explanation" / "performance.md"
MARK = "page budget"

DESK, PHONE = {"width": 1180, "height": 760}, {"width": 390, "height": 760}
PICTURES = (
    ("reading", "/channel/reading", DESK, "List"),
    ("cards", "/channel/people", DESK, "Cards"),
    ("search", "/search?q=salt", DESK, "List"),
    ("feeds", "/feed?sort=trouble", DESK, ""),
    ("telephone", "/channel/news", PHONE, "List"),
)
"""Name, path, window, and the view to choose."""
FIRST_POSTS = 250
"""Unread posts of the demo after its first polls."""
MOST_BYTES, MOST_REQUESTS, MOST_PAINT = 100_000, 12, 300
LOADS = 9
_LINK = re.compile(r"read +(\S+/sign-in/link\?code=\S+)")
_MEASURES = """async () => {
  while (!performance.getEntriesByName("first-contentful-paint").length) {
    await new Promise(requestAnimationFrame);
  }
  const parts = ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind))
    .filter((one) => !one.name.includes("/image/") && one.initiatorType !== "fetch");
  const [paint] = performance.getEntriesByName("first-contentful-paint");
  const bytes = parts.reduce((sum, one) => sum + one.transferSize, 0);
  return [bytes, parts.length, paint.startTime, window.shifts];
}"""
_SHIFTS = """window.shifts = 0;
new PerformanceObserver((list) => list.getEntries().forEach((one) => window.shifts += one.value))
  .observe({ type: "layout-shift", buffered: true });"""


def main() -> int:
    """Take pictures and measure."""
    executable = chromium()
    if executable is None:
        print("no Chromium or Chrome on PATH; set CHROMIUM=/path/to/it", file=sys.stderr)
        return 1
    with demo() as link, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        page = _signed_in(browser, link)
        _wait_for_posts(page)
        state: Any = page.context.storage_state()
        _take_pictures(browser, state, page)
        rows = [("page", "bytes", "requests", "first content, ms", "layout shift")]
        origin = page.url.rstrip("/")
        rows += [(name, *_measured(browser, state, origin + path)) for name, path in _MEASURED]
        aims = f"at most {MOST_BYTES:,}", f"{MOST_REQUESTS}", f"{MOST_PAINT}", "0"
        text = f"{aligned([*rows, ('aim', *aims)])}"
        browser.close()
    print(text)
    PERFORMANCE.write_text(updated(PERFORMANCE.read_text(), text, MARK))
    return 0


_MEASURED = (("all unread", "/"), ("a channel", "/channel/global?show=all"), ("channels", "/channels"))


@contextmanager
def demo() -> Iterator[str]:
    """Run a separate demo; yields the sign-in link."""
    with tempfile.TemporaryDirectory(prefix="microsub-pages-") as folder:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MICROSUB_")}
        log = Path(folder) / "log"
        command = [
            sys.executable,
            "-m",
            "microsub",
            "demo",
            "--data-dir",
            folder,
            "--port",
            "0",
            "--publisher-port",
            "0",
        ]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=ROOT)  # noqa: S603
        try:
            while (found := _LINK.search(log.read_text())) is None:
                if process.poll() is not None:
                    raise RuntimeError(f"the demo didn't start:\n{log.read_text()}")
                time.sleep(0.1)
            yield found[1]
        finally:
            process.terminate()
            process.wait(30)


def _signed_in(browser: Browser, link: str) -> Page:
    page = browser.new_context(viewport=DESK).new_page()  # type: ignore[arg-type]
    page.goto(link)
    page.goto(link.partition("/sign-in/")[0] + "/")
    return page


def _wait_for_posts(page: Page) -> None:
    """Wait until most of the demo's posts have come, on a page that doesn't change by itself meanwhile."""
    origin = page.url.rstrip("/")
    page.goto(f"{origin}/feed")
    while int(page.locator("[data-channel=global] [data-count]").get_attribute("data-count") or 0) < FIRST_POSTS:
        time.sleep(1)
        page.reload()
    page.goto(f"{origin}/")


def _take_pictures(browser: Browser, state: Any, page: Page) -> None:
    IMAGES.mkdir(exist_ok=True)
    origin = page.url.rstrip("/")
    for name, path, size, view in PICTURES:
        for scheme in ("light", "dark"):
            context = browser.new_context(
                storage_state=state,
                viewport=size,
                color_scheme=scheme,
                has_touch=size is PHONE,  # type: ignore[arg-type]
            )
            shown = context.new_page()
            shown.goto(origin + path)
            if view:
                with shown.expect_event("load"):
                    shown.get_by_role("button", name=view, exact=True).click()
            if name == "reading":
                shown.get_by_label("Feeds in Reading").click()
                shown.locator("#channels .branch .count").first.wait_for()
            for box in shown.locator("#feeds input[name=feed]").all()[:2]:
                box.check()
            shown.evaluate("document.activeElement.blur()")
            shown.mouse.move(0, 0)
            shown.evaluate("document.fonts.ready")
            shown.wait_for_function("[...document.images].every((one) => one.loading === 'lazy' || one.complete)")
            shown.wait_for_timeout(1000)  # icons below the fold, which aren't waited for
            shown.evaluate("document.querySelector('.notes')?.remove()")  # new posts, which come all the time
            taken = context.new_cdp_session(shown).send("Page.captureScreenshot", {"format": "webp", "quality": 80})
            (IMAGES / f"{name}-{scheme}.webp").write_bytes(base64.b64decode(taken["data"]))
            context.close()


def _measured(browser: Browser, state: Any, url: str) -> tuple[str, str, str, str]:
    """Bytes, requests, milliseconds until the first content, and layout shift: medians of loads without a cache."""
    found = []
    for _ in range(LOADS):
        context = browser.new_context(storage_state=state, viewport=DESK)  # type: ignore[arg-type]
        page = context.new_page()
        page.add_init_script(_SHIFTS)
        page.goto(url, wait_until="load")
        found.append(page.evaluate(_MEASURES))
        context.close()
    size, requests, paint, shift = (median(column) for column in zip(*found, strict=True))
    return f"{size:,.0f}", f"{requests:.0f}", f"{paint:.0f}", f"{shift:.3f}"


if __name__ == "__main__":
    sys.exit(main())
