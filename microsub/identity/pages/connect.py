"""The page about apps: how to read in one, which lines a profile page needs, and the check of a page."""

from __future__ import annotations

from functools import partial

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from microsub.base.errors import InvalidRequest, NotFound
from microsub.base.identifiers import shown
from microsub.base.rate_limits import network_of
from microsub.base.texts import N_, Sentence
from microsub.identity.limits import PROFILE_PAGE
from microsub.identity.page_check import PageDoctor
from microsub.identity.page_check.findings import CheckedAgainst, PageReport
from microsub.identity.protocol.documents import (
    micropub_line,
    microsub_line,
    profile_page,
    provider_lines,
    webmention_line,
)
from microsub.model.reader import NAME
from microsub.web.paths import ENDPOINT, PROFILES
from microsub.web.routes import form, page, public
from microsub.web.visit import PageSite, PageVisit

CHECK_PATH = "/check"
CONNECT = "/connect"
_NAME = "YOUR-NAME"


def routes(site: PageSite, doctor: PageDoctor) -> list[Route]:
    """The routes of this module."""
    return [
        page(site, CONNECT, _connect),
        page(site, CHECK_PATH, _ask),
        form(site, CHECK_PATH, partial(_check, doctor)),
        public(site, f"{PROFILES}/{{name}}", _profile),
        public(site, f"{PROFILES}/{{name}}/", _with_a_slash),
    ]


async def _connect(visit: PageVisit) -> Response:
    """How to read with an app."""
    base = _base(visit)
    return visit.page(
        "connect.html",
        endpoint=base + ENDPOINT,
        hosted_profile=profile_page(base, visit.session.user if visit.session else _NAME),
        own_line=microsub_line(base, visit.session.user if visit.session else _NAME).html,
        provider_lines=[line.html for line in provider_lines(base)],
        micropub_line=micropub_line(base).html,
        checks=_checks(visit),
        address=_me(visit),
    )


async def _ask(visit: PageVisit) -> Response:
    return _checked(visit, _me(visit))


async def _check(doctor: PageDoctor, visit: PageVisit) -> Response:
    address = visit.form.text("address")
    user = visit.session.user if visit.session else None
    # The comparison with an account's data is shown only to its owner.
    here = CheckedAgainst(_base(visit), {user: _me(visit)} if user else {})
    try:
        report = await doctor.examine_for(network_of(visit.address), address, here, known=user is not None)
    except InvalidRequest:
        text = N_("“{address}” can't be checked. Enter the web address of your own site, such as {example}.")
        visit.problem = InvalidRequest(Sentence(text, address=shown(address), example="https://your-name.example/"))
        return _checked(visit, address)
    return _checked(visit, address, report=report)


def _checked(visit: PageVisit, address: str, *, report: PageReport | None = None) -> Response:
    return visit.page("check.html", address=address, report=report, checks=_checks(visit))


def _me(visit: PageVisit) -> str:
    """The web address of the signed-in user; empty without a session."""
    return visit.session.me if visit.session is not None else ""


def _base(visit: PageVisit) -> str:
    """The server's address as it is shown.

    Without a configured address, as the browser wrote it.
    """
    return (visit.site.address.base_url or str(visit.request.base_url)).rstrip("/")


def _checks(visit: PageVisit) -> bool:
    """Whether forms work at the address of the request."""
    return visit.site.address.base(visit.request.headers.get("host", "")) is not None


async def _profile(visit: PageVisit) -> Response:
    """The user's profile page. Its links are in the headers too: some apps look there first, some only there."""
    name = _name(visit)
    own = [microsub_line(visit.base, name), micropub_line(visit.base), webmention_line(visit.base, name)]
    lines = [*provider_lines(visit.base), *own]
    response = visit.page("profile.html", name=name, url=profile_page(visit.base, name), lines=lines)
    response.headers["link"] = ", ".join(f'<{line.href}>; rel="{line.rel}"' for line in lines)
    response.headers["cache-control"] = f"public, max-age={PROFILE_PAGE}"
    # Apps that run in browsers request these links themselves.
    response.headers["access-control-allow-origin"] = "*"
    response.headers["access-control-expose-headers"] = "Link"
    response.headers["x-robots-tag"] = "noindex"
    return response


async def _with_a_slash(visit: PageVisit) -> Response:
    """One spelling of an address, so that a trailing slash doesn't make another identity."""
    return RedirectResponse(profile_page(visit.base, _name(visit)), 301)


def _name(visit: PageVisit) -> str:
    name = str(visit.request.path_params["name"])
    if not NAME.match(name):
        raise NotFound(N_("This page doesn't exist."))
    return name
