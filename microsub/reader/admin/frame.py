"""The frame of the admin pages: access, sections, long lists in pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.responses import Response

from microsub.accounts import UserQuotas
from microsub.base.errors import NotFound
from microsub.web.pages import N_
from microsub.web.routes import Handler
from microsub.web.visit import PageVisit

ADMIN = "/admin"
PAGE = 50
"""Feeds, users or dead letters on one page."""
FARTHEST = 10_000
"""The maximum page number."""

Guard = Callable[[Handler], Handler]

SECTIONS: Mapping[str, str] = {
    ADMIN: N_("Overview"),
    f"{ADMIN}/feeds": N_("Feeds"),
    f"{ADMIN}/letters": N_("Dead letters"),
    f"{ADMIN}/hubs": N_("Hubs"),
    f"{ADMIN}/users": N_("Users"),
    f"{ADMIN}/looks": N_("Name and colour"),
    f"{ADMIN}/configuration": N_("Configuration"),
}


def guarded(quotas: UserQuotas, handler: Handler) -> Handler:
    """A page for admins only; other users get NotFound."""

    async def for_admins(visit: PageVisit) -> Response:
        session = visit.require_session()
        if not session.admin:
            raise NotFound(N_("Check the address, or go to the start page."))
        await quotas.count(session.user, visit.now)
        return await handler(visit)

    return for_admins


def shown(visit: PageVisit, template: str, **values: Any) -> Response:
    """A page with the list of sections next to it."""
    return visit.page(template, sections=SECTIONS, now=visit.now, **values)


def page_number(visit: PageVisit) -> int:
    """The page of a long list that the address asks for, counted from 1."""
    text = visit.query.get("page", "1")
    number = int(text) if re.fullmatch(r"[0-9]{1,5}", text, re.ASCII) else 1
    return min(max(number, 1), FARTHEST)


def neighbours(number: int, found: Sequence[object]) -> Mapping[str, int]:
    """The numbers of the pages before and after, 0 for none: `found` has an entry more than a page if one follows."""
    return {"earlier": number - 1, "later": number + 1 if len(found) > PAGE else 0}
