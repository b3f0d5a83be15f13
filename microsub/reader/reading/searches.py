"""The forms with which users keep searches in the list of channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from microsub.base.errors import InvalidRequest
from microsub.base.plaintext import on_one_line
from microsub.base.texts import N_, Sentence
from microsub.model.reader import MOST_KEPT, MOST_OF_KEPT, stored_searches
from microsub.reader.frame import ReaderSite
from microsub.reader.places import SEARCH, SearchLink, TimelinePlace
from microsub.web.routes import form
from microsub.web.visit import PageVisit


def routes(reader: ReaderSite) -> list[Route]:
    """The forms of a search."""
    return [
        form(reader.site, f"{SEARCH}/keep", partial(_keep, reader)),
        form(reader.site, f"{SEARCH}/remove", partial(_remove, reader)),
    ]


async def _keep(reader: ReaderSite, visit: PageVisit) -> Response:
    """Keep a search under a name, or give a kept one another."""
    await reader.user(visit)
    place = TimelinePlace.searched(visit.form)
    if not place.words:
        return visit.go(SEARCH)
    name = on_one_line(visit.form.text("name"))[:MOST_OF_KEPT] or place.words[:MOST_OF_KEPT]
    wanted = SearchLink(name, place.words, place.uid, place.best)

    def changed(kept: Sequence[SearchLink]) -> Sequence[SearchLink]:
        if any(one.is_at(place) for one in kept):
            return [wanted if one.is_at(place) else one for one in kept]
        if len(kept) >= MOST_KEPT:
            raise InvalidRequest(Sentence(N_("You already keep {most} searches. Remove one first."), most=MOST_KEPT))
        return [*kept, wanted]

    return await _revised(reader, visit, place, changed)


async def _remove(reader: ReaderSite, visit: PageVisit) -> Response:
    """Take a search out of the list; its page stays, with the form to keep it."""
    await reader.user(visit)
    place = TimelinePlace.searched(visit.form)
    return await _revised(reader, visit, place, lambda kept: [one for one in kept if not one.is_at(place)])


async def _revised(
    reader: ReaderSite,
    visit: PageVisit,
    place: TimelinePlace,
    changed: Callable[[Sequence[SearchLink]], Sequence[SearchLink]],
) -> Response:
    def revise(stored: str) -> str:
        return stored_searches(changed(SearchLink.read(stored)))

    await reader.revise(visit.user, "searches", visit.require_session().searches, revise)
    return visit.go(place.start)
