"""Headless Chromium for tests, driven by Playwright. Nothing but this machine can be reached from it."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, async_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_ELSEWHERE = (Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),)
_FLAGS = (
    "--no-sandbox",  # which doesn't start for root; what is loaded here is ours
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    # Names lead nowhere, whatever the machine's resolver or proxy would say.
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)


def chromium() -> str | None:
    """The browser to use: `CHROMIUM` names it, else the first one on PATH. `scripts/browser` looks the same way."""
    if named := os.environ.get("CHROMIUM"):
        return named
    found = (shutil.which(name) for name in NAMES)
    return next((path for path in found if path), None) or next((str(p) for p in _ELSEWHERE if p.exists()), None)


@asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    """A browser with a profile of its own; skips the test, with the reason, where there is none."""
    executable = chromium()
    if executable is None:
        pytest.skip("no Chromium or Chrome on PATH; install one, or name it by CHROMIUM=/path/to/it")
    async with async_playwright() as playwright:
        # Chromium warns of nothing it can't do headless, so start-up is the only failure that needs a word.
        browser = await playwright.chromium.launch(executable_path=executable, args=list(_FLAGS))
        try:
            yield browser
        finally:
            await browser.close()
