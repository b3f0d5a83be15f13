"""The profile page that this server lends to users without a website of their own.

With its address, apps find this server as provider and reader.

There is a page for every name that somebody could have, and it says the same of each, so that it tells nobody who has
an account here. Who is who is proven by signing in.
"""

from __future__ import annotations

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from microsub.errors import NotFound
from microsub.identity.lifetimes import PROFILE_PAGE
from microsub.identity.page_check.report import PROFILES, microsub_line, profile_page, provider_lines
from microsub.identity.web.routing import public
from microsub.identity.web.site import PageSite
from microsub.identity.web.visit import PageVisit
from microsub.model.reader import NAME


def routes(site: PageSite) -> list[Route]:
    """The routes of this module."""
    return [public(site, f"{PROFILES}/{{name}}", _profile), public(site, f"{PROFILES}/{{name}}/", _with_a_slash)]


async def _profile(visit: PageVisit) -> Response:
    """The lines stand in the headers too: some apps look there first, some there alone."""
    name = _name(visit)
    lines = [*provider_lines(visit.base), microsub_line(visit.base, name)]
    response = visit.page("profile.html", name=name, url=profile_page(visit.base, name), lines=lines)
    response.headers["link"] = ", ".join(f'<{line.href}>; rel="{line.rel}"' for line in lines)
    response.headers["cache-control"] = f"public, max-age={PROFILE_PAGE}"
    # Apps that run in browsers look for the lines themselves.
    response.headers["access-control-allow-origin"] = "*"
    response.headers["access-control-expose-headers"] = "Link"
    response.headers["x-robots-tag"] = "noindex"
    return response


async def _with_a_slash(visit: PageVisit) -> Response:
    """One address, so that nobody is two persons by a slash."""
    return RedirectResponse(profile_page(visit.base, _name(visit)), 301)


def _name(visit: PageVisit) -> str:
    name = str(visit.request.path_params["name"])
    if not NAME.match(name):
        raise NotFound("There is no page by that name.")
    return name
