"""The page on which users choose the services to which they send posts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from microsub.reader.frame import ReaderSite
from microsub.reader.settings.menu import SERVICES
from microsub.web.routes import form, page
from microsub.web.services import (
    KNOWN,
    LONGEST,
    LONGEST_NAME,
    Service,
    chosen_service,
    services_in,
    stored_services,
    with_service,
)
from microsub.web.shortcuts import shortcuts, written
from microsub.web.visit import PageVisit

_FIELDS = ("kind", "address", "name")


def routes(reader: ReaderSite) -> list[Route]:
    """The routes of this module."""
    shown = partial(_services, reader)
    return [
        page(reader.site, SERVICES, shown),
        form(reader.site, SERVICES, partial(_add, reader), shown),
        form(reader.site, f"{SERVICES}/remove", partial(_remove, reader)),
    ]


async def _services(reader: ReaderSite, visit: PageVisit) -> Response:
    await reader.user(visit)
    return visit.page(
        "services.html",
        kinds=tuple(KNOWN),
        longest=(LONGEST, LONGEST_NAME),
        entered={field: visit.form.text(field)[:LONGEST] if visit.problem else "" for field in _FIELDS},
        key=written(shortcuts(visit.require_session().shortcuts)["send"][0]),
        done=visit.query.get("done", ""),
        channels=await reader.links(visit),
    )


async def _add(reader: ReaderSite, visit: PageVisit) -> Response:
    """Add a service, or change the one of its name."""
    kind, address, name = (visit.form.text(field) for field in _FIELDS)
    there = services_in(visit.require_session().services)
    service = chosen_service(kind, address, name, there)
    done = "replaced" if any(one.name == service.name for one in there) else "saved"
    return await _revised(reader, visit, lambda there: with_service(there, service), done)


async def _remove(reader: ReaderSite, visit: PageVisit) -> Response:
    name = visit.form.text("name")
    return await _revised(reader, visit, lambda there: [one for one in there if one.name != name], "removed")


async def _revised(
    reader: ReaderSite, visit: PageVisit, changed: Callable[[Sequence[Service]], Sequence[Service]], done: str
) -> Response:
    user = await reader.user(visit)

    def revise(stored: str) -> str:
        return stored_services(changed(services_in(stored)))

    await reader.revise(user, "services", visit.require_session().services, revise)
    return visit.go(SERVICES, done=done)
