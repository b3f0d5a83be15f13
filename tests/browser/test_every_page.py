"""Every page that a browser can open: no barrier known to axe-core, valid HTML and CSS, no wider than a phone.

Pages are taken from the routes: a new one needs an entry here, or a reason why it can't have one.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlencode, urljoin

import pytest
import pytest_asyncio
import tinycss2
from playwright.async_api import Browser, Page
from starlette.routing import Route

from microsub.formats.documents.page import write_post
from microsub.model.jf2 import Content, Entry
from microsub.reader import FOLDERS
from microsub.web.pages import FOLDER
from tests.browser.accessibility import violations
from tests.browser.instances import BOTH
from tests.browser.reading_server import ReadingServer, reading_server
from tests.browser.tab import Tab, tab
from tests.support.own_server import app_site
from tests.support.polling import dated, rss
from tests.support.web import publisher
from tests.support.world import World

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

STRANGERS = (
    "/",
    "/connect",
    "/check",
    "/sign-in",
    "/enrol",
    "/client",
    "/sign-in/link?code=x",
    "/u/nobody/",
    "/nothing/here",
)
READERS = {
    "/auth": ["/auth?{app}"],
    "/channel/{uid}": ["/channel/home?show=all", "/channel/empty", "/channel/notifications"],
    "/search": ["/search?q=post", "/search"],
    "/post/{id}": ["/post/{post}"],
    "/post/{id}/chapters": ["/post/{post}/chapters"],
    "/follow": ["/follow", "/follow?q={feed}"],
    "/follow/preview": ["/follow/preview?url={feed}"],
    "/admin/feeds/{id}": ["/admin/feeds/1"],
    "/admin/users/{name}/quotas": ["/admin/users/ann/quotas"],
    "/channels/{uid}": ["/channels/home"],
    "/channels/{uid}/feeds": ["/channels/home/feeds", "/channels/empty/feeds"],
    "/feed": ["/feed", "/feed?all=1"],
    "/feed/{feed}": ["/feed/1?channel=home", "/feed/1"],
    "/feed/{feed}/settings": ["/feed/1/settings"],
    "/channels/{uid}/filter": ["/channels/home/filter?try=1&exclude_words=about"],
    "/settings/outputs/{name}": ["/settings/outputs/world"],
    "/u/{name}/": ["/u/ann/"],
}
"""Addresses of routes, by their paths, for a user who is signed in; all others are opened by their paths."""

NO_PAGES = {
    **{
        "/health": "JSON",
        "/metrics": "for monitoring",
        "/news": "JSON",
        "/live": "events",
        "/static/{mark}/{file}": "a file",
    },
    "/image/{signature}/{address}": "a picture",
    **{"/settings/lists/feeds.opml": "a file", "/settings/lists/everything.jsonl": "a file"},
    **{"/sign-in": "for strangers", "/enrol": "for strangers", "/client": "for strangers", "/u/{name}": "leads on"},
    **{"/sign-in/link": "for strangers", "/sign-in/callback": "leads on", "/sign-in/local": "leads on"},
    **{"/post/{id}/next": "leads on", "/post/{id}/previous": "leads on"},
    **{"/answer/callback": "leads on", "/app.webmanifest": "JSON", "/service-worker.js": "a script"},
}
"""Routes without a page for a browser here, and the reason."""


@dataclass
class Site(ReadingServer):
    """`values` replace the names in braces of `READERS`."""

    values: dict[str, str]

    def paths(self) -> list[str]:
        """Every address for a user who is signed in."""
        several = [READERS.get(path, [path]) for path in sorted(routes() - NO_PAGES.keys())]
        return [path.format(**self.values) for some in several for path in some]


def routes() -> set[str]:
    """The paths that a browser can open."""
    found = World(cast(Any, None)).app.routes
    return {one.path for one in found if isinstance(one, Route) and "GET" in (one.methods or ())}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """A server with a user, posts to read, and an app that asks for access."""
    async with publisher() as feeds, app_site() as apps:
        feed = feeds.serve_document("/feed", rss(dated(3)))
        app = apps.home("Some app")
        channels = [{"uid": "home", "name": "Home", "feeds": [feed]}, {"uid": "empty", "name": "Empty"}]
        users = {"ann": {"admin": True, "channels": channels, "outputs": {"world": {"channel": "home"}}}}
        folder = tmp_path_factory.mktemp("pages")
        async with reading_server(folder, users, "ann", polls=1, MICROSUB_ALLOW_PRIVATE_NETWORKS=BOTH) as made:
            asked = {"response_type": "code", "client_id": app, "redirect_uri": f"{app}back", "state": "1"}
            asked |= {"scope": "read follow create", "code_challenge": "x" * 43, "code_challenge_method": "S256"}
            yield Site(made.own, made.url, {"feed": feed, "app": urlencode(asked), "post": ""})


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def reading(browser: Browser, site: Site) -> AsyncIterator[Page]:
    """A tab in which the user is signed in, without the pages' policy, which allows no foreign scripts."""
    context = await browser.new_context(bypass_csp=True)
    page = await site.sign_in(Tab(context, await context.new_page()), "ann", "/channel/home")
    site.values["post"] = await page.locator(".post").first.get_attribute("data-id") or ""
    yield page
    await context.close()


async def test_every_page_can_be_opened() -> None:
    """A route with a variable part has an address here, and each entry here is about an existing route."""
    varying = {path for path in routes() if "{" in path}
    assert varying <= READERS.keys() | NO_PAGES.keys() <= routes()


async def test_pages_of_users_are_accessible_and_valid(reading: Page, site: Site) -> None:
    """On a desktop and on a phone, in German, which has longer words; with `make test-matrix` in English too."""
    found = await violations(reading, site.url, site.paths())
    assert found == [], "\n".join(map(str, found))


async def test_pages_of_strangers_are_accessible_and_valid(browser: Browser, site: Site) -> None:
    """This holds for pages before the sign-in, and for pages without content."""
    context = await browser.new_context(bypass_csp=True)
    found = await violations(await context.new_page(), site.url, STRANGERS)
    await context.close()
    assert found == []


DECLARED = "given => given.filter(([name, value]) => !name.startsWith('--') && !CSS.supports(name, value))"
OLDER = {"-webkit-appearance"}
"""Properties for other browsers."""


async def test_css_is_valid(reading: Page, site: Site) -> None:
    """It can be parsed without an error, and browsers know each property and value."""
    await reading.goto(site.url)
    sheets = await reading.evaluate("[...document.styleSheets].map(one => one.href)")
    assert sheets
    for address in sheets:
        text = await (await reading.context.request.get(urljoin(site.url, address))).text()
        rules = tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True)
        declared = [pair for rule in rules for pair in _declarations(rule)]
        assert len(declared) > 50
        assert await reading.evaluate(DECLARED, declared) == [], address


def _declarations(rule: Any) -> list[tuple[str, str]]:
    """The names and values in a rule and in nested rules. Raises AssertionError if something can't be parsed."""
    assert rule.type != "error", f"{rule.source_line}: {rule.message}"
    if rule.content is None:
        return []
    if rule.type == "at-rule" and rule.lower_at_keyword in {"media", "supports", "layer", "container", "keyframes"}:
        inner = tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True)
        return [pair for one in inner for pair in _declarations(one)]
    found = tinycss2.parse_blocks_contents(rule.content, skip_comments=True, skip_whitespace=True)
    for one in found:
        assert one.type != "error", f"{one.source_line}: {one.message}"
    names = [one for one in found if one.type == "declaration" and one.lower_name not in OLDER]
    return [(one.name, re.sub(r"\s+", " ", tinycss2.serialize(one.value)).strip()) for one in names]


WIDE = (
    f'<p>A formula:</p><math display="block"><mrow>{"<mi>x</mi><mo>+</mo>" * 60}<mn>1</mn></mrow></math>'
    '<figure><img width="1200" height="800" src="data:," alt="A picture"><figcaption>Caption</figcaption></figure>'
    f"<pre><code>{'a' * 300}</code></pre><table><tr>{'<td>1234567890</td>' * 20}</tr></table>"
)

LINES_OF_CELLS = """[...document.querySelectorAll("td")].map(cell => {
    const range = document.createRange(); range.selectNodeContents(cell); return range.getClientRects().length; })"""


async def test_wide_parts_of_posts_and_long_names_fit_a_phone(browser: Browser) -> None:
    """In the reader and on the page of an output feed: what is wider scrolls by itself, or is made smaller.

    Words in a table stay whole.
    """
    style = "".join(path.read_text() for folder in (FOLDER, *FOLDERS) for path in sorted(folder.glob("static/*.css")))
    post = write_post(
        Entry(content=Content(html=f'{WIDE}<video width="1200" controls></video>')),
        "https://reader.example/posts/1",
        "",
    ).decode()
    choice = (
        f'<div class="line"><select><option>{"A long name of a channel " * 5}</select><button>Follow</button></div>'
    )
    reader = f'<body class="wide"><main><article class="post"><div class="content">{WIDE}</div></article>{choice}'
    async with tab(browser) as here:
        await here.page.set_viewport_size({"width": 390, "height": 800})
        for markup in (post, reader):
            await here.page.set_content(f"<!DOCTYPE html><style>{style}</style>{markup}")
            assert await here.page.evaluate(
                "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
            )
            assert await here.page.evaluate(LINES_OF_CELLS) == [1] * 20
