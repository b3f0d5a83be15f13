"""The page on which users choose their keyboard shortcuts."""

from __future__ import annotations

from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from microsub.reader.frame import ReaderSite
from microsub.reader.settings.menu import SHORTCUTS
from microsub.web.routes import form, page
from microsub.web.shortcuts import NAMED, UnfitKeys, chosen_shortcuts, shortcuts, written
from microsub.web.visit import PageVisit


def routes(reader: ReaderSite) -> list[Route]:
    """The routes of this module."""
    shown = partial(_shortcuts, reader)
    return [page(reader.site, SHORTCUTS, shown), form(reader.site, SHORTCUTS, partial(_choose, reader), shown)]


async def _shortcuts(reader: ReaderSite, visit: PageVisit) -> Response:
    await reader.user(visit)
    table = shortcuts(visit.require_session().shortcuts)
    fields = {name: (written(keys), text) for name, (keys, _, text) in table.items()}
    if visit.problem is not None:  # what the user entered stays in the fields
        fields = {name: (visit.form.text(name)[:100], text) for name, (_, text) in fields.items()}
    done = visit.query.get("done", "")
    wrong = visit.problem.name if isinstance(visit.problem, UnfitKeys) else ""
    channels = await reader.links(visit)
    return visit.page("shortcuts.html", fields=fields, wrong=wrong, names=NAMED, done=done, channels=channels)


async def _choose(reader: ReaderSite, visit: PageVisit) -> Response:
    """Keep the keys in the form, or those of the table again."""
    user = await reader.user(visit)
    restores = "restore" in visit.form
    await reader.keep(user, {"shortcuts": "" if restores else chosen_shortcuts(visit.form)})
    return visit.go(SHORTCUTS, done="restored" if restores else "saved")
