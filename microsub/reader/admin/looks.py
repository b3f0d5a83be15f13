"""The admin's page for the name and the colour of the instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from microsub.base.errors import InvalidRequest
from microsub.base.plaintext import on_one_line
from microsub.base.texts import N_, Sentence
from microsub.reader.looks import InstanceLooks
from microsub.web.looks import COLOR, CONTRAST, HEX, NAME
from microsub.web.routes import Handler, form, page
from microsub.web.visit import PageSite, PageVisit

LONGEST = 40
"""Characters of a name: it stands in one line with the menu."""


def routes(
    site: PageSite,
    path: str,
    admins: Callable[[Handler], Handler],
    sections: Mapping[str, str],
    looks: InstanceLooks,
    changed: Callable[[], None],
) -> list[Route]:
    """The page at `path`, for admins only, beside these sections. `changed` is called after a change."""
    shown = admins(partial(_shown, sections, looks))
    return [page(site, path, shown), form(site, path, admins(partial(_choose, looks, changed)), shown)]


async def _shown(sections: Mapping[str, str], looks: InstanceLooks, visit: PageVisit) -> Response:
    name, color = await looks.declared()
    return visit.page(
        "admin-looks.html",
        sections=sections,
        declared_name=name,
        declared_color=color,
        usual=NAME,
        contrast=CONTRAST,
        longest=LONGEST,
        is_done="done" in visit.query,
        now=visit.now,
    )


async def _choose(looks: InstanceLooks, changed: Callable[[], None], visit: PageVisit) -> Response:
    name, color = on_one_line(visit.form.text("name")), visit.form.text("color").lower() or COLOR
    if len(name) > LONGEST:
        raise InvalidRequest(Sentence(N_("The name has more than {most} characters."), most=LONGEST))
    if not HEX.fullmatch(color):
        raise InvalidRequest(N_("The colour must be written as # and six digits from 0 to f, such as #0b57a4."))
    usual = "usual" in visit.form
    await looks.choose("" if name == NAME else name, "" if usual or color == COLOR else color)
    changed()
    return visit.go(visit.request.url.path, done="yes")
