"""What a browser is shown where there is nothing; programs get JSON."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from microsub.identity.web.site import Site
from microsub.identity.web.visit import Visit


def missing_page(site: Site, request: Request, status: int, headers: Mapping[str, str]) -> Response | None:
    """The page for an address or a method that there isn't; None where the asker takes no HTML."""
    if "text/html" not in request.headers.get("accept", ""):
        return None
    title, text = "There is nothing here", "Check the address, or go to the start page."
    if status != 404:
        title, text = "That can't be opened like this", "It is where a form leads. Open the page with the form again."
    response = Visit(site, request).page("error.html", status, title=title, text=text)
    response.headers.update(headers)
    return response
