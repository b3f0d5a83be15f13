"""Where reader apps are at home, and people who have nothing but a static page: a server on loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.support.raw_http import Listening, Reply, Request, html_reply, listening


@dataclass
class AppSite:
    """A server on loopback. `asked` is every request; `returned` what browsers came back with."""

    asked: list[Request] = field(default_factory=list)
    pages: dict[str, Reply] = field(default_factory=dict)
    listening: Listening = field(init=False)

    def home(self, name: str, *, redirects: tuple[str, ...] = (), document: bool = False) -> str:
        """The client id of an app by that name: a page marked up as h-app, or a JSON document."""
        path = f"/{name.replace(' ', '-').lower()}/"
        url = f"{self.listening.base}{path}"
        self.pages[f"{path}back"] = html_reply(f"<title>{name}</title><p>Welcome back to {name}</p>")
        if document:
            about = {"client_id": url, "client_name": name, "client_uri": url, "logo_uri": f"{url}logo.png"}
            about |= {"redirect_uris": [f"{url}back", *redirects]}
            self.pages[path] = Reply(json.dumps(about).encode(), 200, [("Content-Type", "application/json")])
        else:
            links = "".join(f'<link rel="redirect_uri" href="{uri}">' for uri in redirects)
            card = (
                f'<div class="h-app"><img class="u-logo" src="logo.png" alt=""><a class="u-url p-name" href="{path}">'
            )
            self.pages[path] = html_reply(f"<!doctype html><title>{name}</title>{links}{card}{name}</a></div>")
        return url

    def profile(self, name: str, *, in_header: bool = False, **rels: str) -> str:
        """A static page of somebody at /<name>/, with a link for each rel (`_` stands for `-`)."""
        path, url = f"/{name}/", f"{self.listening.base}/{name}/"
        named = [(rel.replace("indieauth_", "indieauth-"), address) for rel, address in rels.items()]
        links = "".join(f'<link rel="{rel}" href="{address}">\n' for rel, address in named)
        header = ("Link", ", ".join(f'<{address}>; rel="{rel}"' for rel, address in named))
        text = f'<!doctype html><title>{name}</title>\n{"" if in_header else links}<p class="h-card">{name}</p>'
        self.pages[path] = html_reply(text, 200, *([header] if in_header else []))
        return url

    @property
    def returned(self) -> list[dict[str, str]]:
        return [request.query for request in self.asked if request.path.endswith("/back")]

    async def answer(self, request: Request) -> Reply:
        self.asked.append(request)
        return self.pages.get(request.path, Reply(b"not here", 404))


@asynccontextmanager
async def app_site(host: str = "127.0.0.1") -> AsyncIterator[AppSite]:
    """A running server for apps on a free port."""
    made = AppSite()
    async with listening(made.answer, host) as made.listening:
        yield made
