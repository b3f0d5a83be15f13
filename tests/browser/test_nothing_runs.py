"""No field of a feed runs code, sends requests or navigates in a reader app, with any trick of `tests/data/xss`."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator

import pytest
from playwright.async_api import Browser

from tests.browser.carriers import Field, bodies, documents, fields
from tests.browser.techniques import as_markup, techniques
from tests.browser.watched import watched
from tests.support import THOROUGH

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

AT_ONCE = {"html": 100, "address": 100, "path": 300, "loose": 1000, "text": 1000}
"""Fields in one page. `path`: addresses that result from HTML, thousands of them, all on the feed's host."""

WRITTEN: dict[str, Callable[[str], str]] = {
    "html": lambda value: f"<article>{value}</article>",
    "address": lambda value: f'<a href="{value}">x</a><img src="{value}">',
    "path": lambda value: f'<a href="{value}">x</a>',
    "text": lambda value: f'<p title="{html.escape(value)}">{html.escape(value)}</p>',
}
"""How a server writes a kind of field into a page."""

Origins = dict[Field, set[str]]


@pytest.fixture(scope="module")
def results() -> Origins:
    """Every distinct field that results from the techniques, with the techniques that cause it.

    Each technique is published in one way, which differs from the next one's; in `make test-matrix` in all ways.
    """
    found: Origins = defaultdict(set)
    for technique in techniques():
        published = chosen(technique.number, documents(technique.payload, attributes=technique.address))
        if technique.address:
            for number, markup in enumerate(as_markup(technique), technique.number):
                published += chosen(number, bodies(markup))
        for way, document in published:
            for kind, value in fields(document):
                named = "path" if kind == "address" and not technique.address else kind
                found[named, value].add(f"{technique} ({way})")
    return found


def chosen(number: int, published: Iterator[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """One of the ways, in turn; all of them in a thorough run."""
    ways = list(published)
    return ways if THOROUGH else [ways[number % len(ways)]]


@pytest.mark.parametrize("kind", AT_ONCE)
async def test_fields_put_in_by_a_script_run_nothing(browser: Browser, results: Origins, kind: str) -> None:
    """A field that a script puts into a page runs nothing, loads only pictures and media, and doesn't navigate."""
    async with watched(browser) as tab:

        async def shown(values: list[str]) -> list[str]:
            return await tab.told(tab.put(kind, values))

        await assert_quiet(shown, results, kind)


@pytest.mark.parametrize("kind", WRITTEN)
async def test_fields_in_a_servers_page_run_nothing(browser: Browser, results: Origins, kind: str) -> None:
    """Written into a page: HTML and addresses unchanged, the latter between double quotes; text escaped."""
    async with watched(browser) as tab:

        async def shown(values: list[str]) -> list[str]:
            return await tab.told(tab.touch("".join(WRITTEN[kind](value) for value in values)))

        await assert_quiet(shown, results, kind)


async def assert_quiet(shown: Callable[[list[str]], Awaitable[list[str]]], results: Origins, kind: str) -> None:
    """No field of `kind` causes a report; otherwise each field of its page is shown alone to find the cause."""
    values = sorted(value for k, value in results if k == kind)
    assert len(values) > 100
    guilty: dict[str, list[str]] = {}
    for first in range(0, len(values), AT_ONCE[kind]):
        some = values[first : first + AT_ONCE[kind]]
        if reports := await shown(some):
            guilty |= await alone(shown, some) or {"several together": reports}
    for value, reports in guilty.items():
        print(f"{value!r}\n    {sorted(set(reports))[:5]}\n    {sorted(results.get((kind, value), set()))[:5]}")
    assert not guilty


async def alone(shown: Callable[[list[str]], Awaitable[list[str]]], values: list[str]) -> dict[str, list[str]]:
    """The `values` that cause a report alone, found by bisection."""
    if not (reports := await shown(values)):
        return {}
    if len(values) == 1:
        return {values[0]: reports}
    half = len(values) // 2
    return await alone(shown, values[:half]) | await alone(shown, values[half:])


# --- the watching pages do report

UNSAFE_LINK = '<a href="javascript:ran(1)" ping="/x">x</a>'
IN_FRAMES = 25
KINDS = (
    *("script: ", "dialog: ", "navigation: ", "window: ", "handler: ", "address: ", "element: "),
    *("policy: script-src-attr", "policy: script-src-elem", "policy: style-src-attr", "policy: style-src-elem"),
    *("policy: object-src", "policy: base-uri", "policy: frame-src", "policy: form-action"),
    *("attribute: ping", "request: script", "request: stylesheet", "request: document", "request: font"),
)
"""All kinds of reports, by their beginnings."""


async def test_the_page_detects_scripts_that_run(browser: Browser) -> None:
    """Unsanitised, the same pages report a sixth of the techniques, in `make test-matrix` each: scripts, requests and
    the rest.
    """
    raw = {str(t.number): t for t in techniques()[:: 1 if THOROUGH else 6] if not t.address}
    addresses = [t.payload for t in techniques() if t.address and not t.payload.startswith("http")]
    names = list(raw)
    async with watched(browser) as tab:
        reports = []
        for first in range(0, len(names), IN_FRAMES):
            some = names[first : first + IN_FRAMES]
            reports += await tab.told(tab.touch_framed({name: raw[name].payload for name in some}))
    for body in (
        "<script>alert(1)</script>",
        '<meta http-equiv="refresh" content="0;url=/x">',
        '<base href="https://out.example/">',
        UNSAFE_LINK,
    ):
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
    # The rest is for old browsers, for other contexts, or harmless until a person opens it.
    quiet = [str(technique) for name, technique in raw.items() if not tab.framed[name]]
    assert len(quiet) < 0.3 * len(raw), quiet
    assert len(led) > 30, led
