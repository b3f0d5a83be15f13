"""The resources to install the web interface: a manifest, a service worker, and the page for offline use.

The service worker stores this page and its files. Of what the user reads, it shows one page, which `keep.js` keeps.
"""

from __future__ import annotations

import orjson
from starlette.responses import Response
from starlette.routing import Route

from microsub.base.clock import DAY
from microsub.base.digests import sha256_hex
from microsub.reader.follow.pages import FOLLOW
from microsub.web.headers import page_headers
from microsub.web.looks import NAME
from microsub.web.routes import page
from microsub.web.types import FORM
from microsub.web.visit import PageSite, PageVisit

OFFLINE = "/offline"
_UNREAD = "/channel/global"
_LONGEST = 3 * DAY * 1000
"""Milliseconds for which the posts that a browser has kept are shown."""
MANIFEST, WORKER = "/app.webmanifest", "/service-worker.js"


def routes(site: PageSite) -> list[Route]:
    """The routes of this module."""
    return [page(site, OFFLINE, _offline), page(site, MANIFEST, _manifest), page(site, WORKER, _worker)]


async def _offline(visit: PageVisit) -> Response:
    visit.session = None  # it is stored, and others may use the browser later
    return visit.page("offline.html", longest=_LONGEST)


async def _manifest(visit: PageVisit) -> Response:
    """The web app manifest. Text that is shared with the app is searched for as a feed."""
    href = visit.site.pages.href
    manifest = {
        "id": href("/"),
        "name": visit.looks.name,
        "short_name": "Microsub" if visit.looks.name == NAME else visit.looks.name,
        "start_url": href("/"),
        "scope": href("/"),
        "display": "standalone",
        "background_color": "#fdfdfb",
        "theme_color": visit.looks.light,
        "icons": [
            {"src": visit.site.pages.static("icon.svg"), "sizes": "any", "type": "image/svg+xml"},
            {"src": visit.site.pages.static("icon-180.png"), "sizes": "180x180", "type": "image/png"},
        ],
        "share_target": {
            "action": href(FOLLOW),
            "method": "GET",
            "enctype": FORM,
            "params": {"url": "url", "text": "text"},
        },
    }
    return Response(orjson.dumps(manifest), headers={**page_headers(), "content-type": "application/manifest+json"})


async def _worker(visit: PageVisit) -> Response:
    """The service worker, for all addresses; `SHELL` lists what it stores."""
    pages = visit.site.pages
    offline = pages.href(OFFLINE)
    files = [offline, pages.sheet(visit.looks), pages.static("icon.svg"), pages.static("offline.js")]
    own = f"shell of {pages.href('/')} "
    marks = "".join(pages.marks[file] for file in ("worker.js", "offline.js", "pages.css"))
    name = f"{own}{marks}{sha256_hex(f'{visit.looks}')[:8]}"
    shell = {"own": own, "name": name, "page": offline, "files": files}
    shell |= {"home": pages.href("/"), "icon": pages.static("icon.svg")}
    shell |= {"posts": f"posts of {pages.href('/')} ", "lists": [pages.href("/"), pages.href(_UNREAD)]}
    shell |= {"kept": pages.href(f"{_UNREAD}?whole=1"), "ended": [pages.href("/sign-in"), pages.href("/enrol")]}
    script = b"const SHELL = " + orjson.dumps({**shell, "longest": _LONGEST}) + b";\n" + pages.files["worker.js"][0]
    return Response(script, headers={**page_headers(), "content-type": "text/javascript; charset=utf-8"})
