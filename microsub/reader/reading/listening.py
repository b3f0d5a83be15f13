"""What a user listens to: the current episode and a queue, kept with the account, so that other devices go on there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from microsub.base.errors import InvalidRequest
from microsub.base.texts import N_
from microsub.reader.frame import ReaderSite
from microsub.reader.places import HOME, LISTENING, Episode, episodes_in, stored_episodes
from microsub.web.headers import own_path
from microsub.web.routes import form
from microsub.web.visit import PageVisit

MOST_EPISODES, MOST_BYTES = 20, 8000
"""Of a queue as it is stored: it is read with each page."""
LONGEST_TITLE = 100
"""Maximum number of characters of an episode's title."""
_MOST_SECONDS = 10_000_000


def routes(reader: ReaderSite) -> list[Route]:
    """The form of the bar with the player."""
    return [form(reader.site, LISTENING, partial(_change, reader))]


async def put(reader: ReaderSite, visit: PageVisit, episode: Episode, *, at_once: bool) -> None:
    """Play an episode now, before the current one, or after all others. Raises InvalidRequest if the queue is full."""
    async with reader.site.turns.of(visit.user):
        queue = await _queue(visit)
        known = next((one for one in queue if one.url == episode.url), None)
        wanted = known or replace(episode, title=episode.title[:LONGEST_TITLE])
        if known is None and (
            len(queue) >= MOST_EPISODES or len(stored_episodes([*queue, wanted]).encode()) > MOST_BYTES
        ):
            raise InvalidRequest(N_("This episode finds no room in your queue. Remove another one first."))
        if at_once:
            await _keep(reader, visit, [wanted, *(one for one in queue if one.url != wanted.url)])
        elif known is None:
            await _keep(reader, visit, [*queue, wanted])


async def _change(reader: ReaderSite, visit: PageVisit) -> Response:
    """Play or remove an episode of the queue, or note the position in one: the button's value is its address."""
    user, fields = await reader.user(visit), visit.form
    seconds = fields.text("seconds")
    at = min(int(seconds), _MOST_SECONDS) if seconds.isascii() and seconds.isdecimal() and len(seconds) < 12 else None
    async with reader.site.turns.of(user):
        queue = await _queue(visit)
        if at is not None:
            queue = [replace(one, at=at) if one.url == fields.text("current") else one for one in queue]
        if "play" in fields:
            queue.sort(key=lambda one: one.url != fields.text("play"))
        elif "remove" in fields:
            queue = [one for one in queue if one.url != fields.text("remove")]
        await _keep(reader, visit, queue)
    if visit.request.headers.get("accept", "").startswith("application/json"):
        return Response(status_code=204)
    return visit.go(own_path(fields.text("back")) or HOME)


async def _queue(visit: PageVisit) -> list[Episode]:
    """The queue as it is now. All of it is one value, so it is changed in the user's turn."""
    await visit.look()
    return [*episodes_in(visit.require_session().playing)]


async def _keep(reader: ReaderSite, visit: PageVisit, queue: Sequence[Episode]) -> None:
    await reader.keep(visit.user, {"playing": stored_episodes(queue)})
