"""What people need to know who have just made their account: where it is, and how their page leads to it."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import Route

from microsub.identity.page_check.lines import microsub_line
from microsub.identity.web.routing import page
from microsub.identity.web.site import Site
from microsub.identity.web.visit import Visit
from microsub.kit.http.address import own_path

PATH = "/welcome"


def routes(site: Site) -> list[Route]:
    """The routes of this module."""
    return [page(site, PATH, _welcome)]


async def _welcome(visit: Visit) -> Response:
    session = visit.require_session()
    quotas = await visit.site.identity.quotas.of(session.user)
    line = microsub_line(visit.base, session.user)
    return visit.page(
        "welcome.html",
        endpoint=line.href,
        line=line.html,
        next=own_path(visit.query.get("next", "")) or "",
        quotas=[
            f"{number} {what}"
            for number, what in (
                (quotas.channels, "channels"),
                (quotas.feeds, "feeds"),
                (quotas.tokens, "tokens"),
                (quotas.requests, "requests a minute"),
            )
            if number
        ],
    )
