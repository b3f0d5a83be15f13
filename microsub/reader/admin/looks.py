"""The admin's page for the name and the colour of the instance."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from microsub.base.errors import InvalidRequest
from microsub.base.plaintext import on_one_line, unprintable
from microsub.base.texts import N_, Sentence
from microsub.reader.admin.frame import ADMIN, Guard, shown
from microsub.reader.looks import InstanceLooks
from microsub.web.looks import COLOR, CONTRAST, HEX, NAME
from microsub.web.routes import form, page
from microsub.web.visit import PageSite, PageVisit

LOOKS = f"{ADMIN}/looks"
LONGEST = 40
"""Characters of a name: it stands in one line with the menu."""


def routes(site: PageSite, admins: Guard, looks: InstanceLooks, changed: Callable[[], None]) -> list[Route]:
    """The page, for admins only. `changed` is called after a change."""
    form_page = admins(partial(_form, looks))
    return [page(site, LOOKS, form_page), form(site, LOOKS, admins(partial(_choose, looks, changed)), form_page)]


async def _form(looks: InstanceLooks, visit: PageVisit) -> Response:
    name, color = await looks.declared()
    return shown(
        visit,
        "admin-looks.html",
        declared_name=name,
        declared_color=color,
        usual=NAME,
        contrast=CONTRAST,
        longest=LONGEST,
        is_done="done" in visit.query,
    )


async def _choose(looks: InstanceLooks, changed: Callable[[], None], visit: PageVisit) -> Response:
    name, color = on_one_line(visit.form.text("name")), visit.form.text("color").lower() or COLOR
    name = on_one_line(name.translate(dict.fromkeys(map(ord, unprintable(name)))))
    if len(name) > LONGEST:
        raise InvalidRequest(Sentence(N_("The name has more than {most} characters."), most=LONGEST))
    if not HEX.fullmatch(color):
        raise InvalidRequest(N_("The colour must be written as # and six digits from 0 to f, such as #0b57a4."))
    usual = "usual" in visit.form
    chosen = {"name": "" if name == NAME else name, "color": "" if usual or color == COLOR else color}
    await looks.choose({field: value for field, value in chosen.items() if field in visit.form})
    changed()
    return visit.go(LOOKS, done="yes")
