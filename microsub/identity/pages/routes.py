"""All routes of the pages, one list per module."""

from __future__ import annotations

from starlette.routing import Route

from microsub.identity.pages import (
    account,
    authorizing,
    credentials,
    enrolling,
    local_sign_in,
    profile,
    signing_in,
    start,
    welcome,
)
from microsub.identity.web import static_files
from microsub.identity.web.site import Site


def page_routes(site: Site) -> list[Route]:
    """Every route for people's browsers."""
    return [
        *start.routes(site),
        *profile.routes(site),
        *static_files.routes(site),
        *signing_in.routes(site),
        *account.routes(site),
        *authorizing.routes(site),
        *credentials.routes(site),
        *local_sign_in.routes(site),
        *enrolling.routes(site),
        *welcome.routes(site),
    ]
