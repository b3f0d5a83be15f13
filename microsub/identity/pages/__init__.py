"""The pages for people: plain HTML that works without JavaScript."""

from __future__ import annotations

from starlette.routing import Route

from microsub.identity.pages import (
    account,
    consent,
    credentials,
    invitation,
    profile,
    sign_in,
    start,
)
from microsub.identity.web.site import PageSite, static_routes


def page_routes(site: PageSite) -> list[Route]:
    """Every route for people's browsers."""
    return [
        *start.routes(site),
        *profile.routes(site),
        *static_routes(site),
        *account.routes(site),
        *consent.routes(site),
        *credentials.routes(site),
        *sign_in.routes(site),
        *invitation.routes(site),
    ]
