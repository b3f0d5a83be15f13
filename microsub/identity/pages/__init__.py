"""The pages for people: plain HTML that works without JavaScript."""

from __future__ import annotations

from pathlib import Path

from starlette.routing import Route

from microsub.identity.pages import account, consent, sign_in, start
from microsub.web.pages import static_route
from microsub.web.visit import PageSite

FOLDER = Path(__file__).parent
"""Templates, static files and texts of these pages."""


def page_routes(site: PageSite) -> list[Route]:
    """Every route for people's browsers."""
    return [
        *start.routes(site),
        static_route(site.pages),
        *account.routes(site),
        *consent.routes(site),
        *sign_in.routes(site),
    ]
