"""What a user listens to: the current episode and a queue, kept with the account, so that other devices go on there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from microsub.base.errors import InvalidRequest
from microsub.base.texts import N_
from microsub.model.reader import (
    GLOBAL,
    LONGEST_AUDIO,
    LONGEST_EPISODE,
    Episode,
    episodes_in,
    has_room,
    is_closed,
    stored_episodes,
)
from microsub.reader.frame import ReaderSite
from microsub.reader.places import HOME, LISTENING
from microsub.timelines import ReadState
from microsub.web.headers import own_path
from microsub.web.routes import form
from microsub.web.visit import PageVisit


def routes(reader: ReaderSite, read_state: ReadState) -> list[Route]:
    """The form of the bar with the player."""
    return [form(reader.site, LISTENING, partial(_change, reader, read_state))]


async def put(reader: ReaderSite, visit: PageVisit, episode: Episode, *, at_once: bool) -> None:
    """Play an episode now, before the current one, or after all others. Raises InvalidRequest if the queue is full.

    Begun ones, which closed players have left, make room for one that is played.
    """

    def changed(queue: Sequence[Episode]) -> Sequence[Episode]:
        known = next((one for one in queue if one.url == episode.url), None)
        wanted = known or replace(episode, title=episode.title[:LONGEST_EPISODE])
        begun = [one for one in queue if one.at] if at_once and known is None else []
        while begun and not has_room(queue, wanted):
            ended = begun.pop()
            queue = [one for one in queue if one is not ended]
        if known is None and not has_room(queue, wanted):
            raise InvalidRequest(N_("This episode finds no room in your queue. Remove another one first."))
        if at_once:
            return [wanted, *(one for one in queue if one.url != wanted.url)]
        return queue if known is not None else [*queue, wanted]

    await _revise(reader, visit, changed)


async def _change(reader: ReaderSite, read_state: ReadState, visit: PageVisit) -> Response:
    """Play or remove an episode of the queue, empty it, close the player, or note a position or the speed.

    The button's value is the episode's address. A closed player keeps its only episode if that is begun. The post of
    one that has `ended` is read.
    """
    user, heard = await reader.user(visit), list[str]()
    fields, seconds = visit.form, visit.form.text("seconds")
    at = min(int(seconds), LONGEST_AUDIO) if seconds.isascii() and seconds.isdecimal() and len(seconds) < 12 else None

    def changed(queue: Sequence[Episode]) -> Sequence[Episode]:
        heard[:] = [one.post for one in queue if "ended" in fields and one.url == fields.text("current")]
        if at is not None:
            queue = [replace(one, at=at) if one.url == fields.text("current") else one for one in queue]
        if "play" in fields:
            return sorted(queue, key=lambda one: one.url != fields.text("play"))
        if "clear" in fields or ("close" in fields and [one.at for one in queue] == [0]):
            return []
        return [one for one in queue if "remove" not in fields or one.url != fields.text("remove")]

    if (display := visit.display.changed({"speed": fields.text("speed")})) != visit.display:
        await reader.keep(user, {"display": display.stored()})
    await _revise(
        reader, visit, changed, lambda stored: "play" not in fields and ("close" in fields or is_closed(stored))
    )
    if heard:
        await read_state.mark(user, GLOBAL, heard, "read", visit.now)
    if visit.request.headers.get("accept", "").startswith("application/json"):
        return Response(status_code=204)
    return visit.go(own_path(fields.text("back")) or HOME)


async def _revise(
    reader: ReaderSite,
    visit: PageVisit,
    changed: Callable[[Sequence[Episode]], Sequence[Episode]],
    closed: Callable[[str], bool] = lambda _: False,
) -> None:
    def revise(stored: str) -> str:
        return stored_episodes(changed(episodes_in(stored)), closed=closed(stored))

    await reader.revise(visit.user, "playing", visit.require_session().playing, revise)
