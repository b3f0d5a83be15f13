"""The first page: how to read, which lines a profile page needs, and the check of a page."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import Route

from microsub.errors import InvalidRequest
from microsub.identity.page_check.report import PageReport, microsub_line, profile_page, provider_lines
from microsub.identity.page_check.server_findings import ENDPOINT, CheckedAgainst
from microsub.identity.protocol.identifiers import shown
from microsub.identity.web.routing import form, page
from microsub.identity.web.site import PageSite
from microsub.identity.web.visit import PageVisit
from microsub.kit.rate_limits import network_of

CHECK_PATH = "/check"
_NAME = "YOUR-NAME"


def routes(site: PageSite) -> list[Route]:
    """The routes of this module."""
    return [page(site, "/", _start), page(site, CHECK_PATH, _ask), form(site, CHECK_PATH, _check)]


async def _start(visit: PageVisit) -> Response:
    base = _base(visit)
    return visit.page(
        "start.html",
        endpoint=base + ENDPOINT,
        lent=profile_page(base, visit.session.user if visit.session else _NAME),
        own_line=microsub_line(base, visit.session.user if visit.session else _NAME).html,
        provider_lines=[line.html for line in provider_lines(base)],
        checks=_checks(visit),
        address=_me(visit),
    )


async def _ask(visit: PageVisit) -> Response:
    return _checked(visit, _me(visit))


async def _check(visit: PageVisit) -> Response:
    address = visit.form.text("address")
    user = visit.session.user if visit.session else None
    # Only to people themselves is said how their page compares with what is known of them here.
    here = CheckedAgainst(_base(visit), {user: _me(visit)} if user else {})
    doctor = visit.site.identity.doctor
    try:
        report = await doctor.examine_for(network_of(visit.where.address), address, here, known=user is not None)
    except InvalidRequest:
        example = "Enter the address of your own site, such as https://your-name.example/."
        return _checked(visit, address, problem=f"“{shown(address)}” is no web address to check. {example}")
    return _checked(visit, address, report=report)


def _checked(visit: PageVisit, address: str, *, report: PageReport | None = None, problem: str = "") -> Response:
    status = 400 if problem else 200
    return visit.page("check.html", status, address=address, report=report, problem=problem, checks=_checks(visit))


def _me(visit: PageVisit) -> str:
    """The web address of who is signed in; empty for others."""
    return visit.session.me if visit.session is not None else ""


def _base(visit: PageVisit) -> str:
    """The server's address as it is shown; where the admin has set none, as the browser wrote it."""
    return (visit.site.address.base_url or str(visit.request.base_url)).rstrip("/")


def _checks(visit: PageVisit) -> bool:
    """Whether forms work at the address by which the request came."""
    return visit.site.address.base(visit.request.headers.get("host", "")) is not None
