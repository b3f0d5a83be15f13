"""The forms with which users keep searches in the list of channels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from microsub.base.errors import InvalidRequest
from microsub.base.plaintext import on_one_line
from microsub.base.texts import N_, Sentence
from microsub.model.reader import MOST_KEPT, MOST_OF_KEPT, stored_searches
from microsub.reader.frame import ReaderSite
from microsub.reader.places import SEARCH, SearchLink, TimelinePlace
from microsub.web.routes import Handler, form
from microsub.web.visit import PageVisit


def routes(reader: ReaderSite) -> list[Route]:
    """The forms of a search."""
    return [
        form(reader.site, f"{SEARCH}/keep", partial(_in_turn, reader, partial(_keep, reader))),
        form(reader.site, f"{SEARCH}/remove", partial(_in_turn, reader, partial(_remove, reader))),
    ]


async def _keep(reader: ReaderSite, visit: PageVisit) -> Response:
    """Keep a search under a name, or give a kept one another."""
    place = TimelinePlace.searched(visit.form)
    if not place.words:
        return visit.go(SEARCH)
    kept = await _kept(visit)
    name = on_one_line(visit.form.text("name"))[:MOST_OF_KEPT] or place.words[:MOST_OF_KEPT]
    wanted = SearchLink(name, place.words, place.uid, place.best)
    if any(one.is_at(place) for one in kept):
        return await _stored(reader, visit, place, [wanted if one.is_at(place) else one for one in kept])
    if len(kept) >= MOST_KEPT:
        raise InvalidRequest(Sentence(N_("You already keep {most} searches. Remove one first."), most=MOST_KEPT))
    return await _stored(reader, visit, place, [*kept, wanted])


async def _remove(reader: ReaderSite, visit: PageVisit) -> Response:
    """Take a search out of the list; its page stays, with the form to keep it."""
    place, kept = TimelinePlace.searched(visit.form), await _kept(visit)
    return await _stored(reader, visit, place, [one for one in kept if not one.is_at(place)])


async def _in_turn(reader: ReaderSite, handler: Handler, visit: PageVisit) -> Response:
    """One change of a user's searches after the other: all of them are one value."""
    async with reader.site.turns.of(await reader.user(visit)):
        return await handler(visit)


async def _kept(visit: PageVisit) -> tuple[SearchLink, ...]:
    await visit.look()
    return SearchLink.read(visit.require_session().searches)


async def _stored(
    reader: ReaderSite, visit: PageVisit, place: TimelinePlace, searches: Sequence[SearchLink]
) -> Response:
    await reader.keep(visit.user, {"searches": stored_searches(searches)})
    return visit.go(place.start)
