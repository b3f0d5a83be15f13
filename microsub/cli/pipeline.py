"""`microsub rebuild`, `events` and `deadletter`: commands on the pipeline."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from microsub import feeds, server
from microsub.base.errors import StoreUnavailable
from microsub.base.plaintext import counted, escaped
from microsub.base.settings import Settings
from microsub.cli.groups import Command, Group
from microsub.cli.options import (
    FAILED,
    as_instant,
    fail,
    json_flag,
    on_stores,
    print_json,
    say,
    say_json,
)

if TYPE_CHECKING:
    from microsub.feeds import Event, Events
    from microsub.server.stores import Stores
    from microsub.work import DeadLetter, DeadLetters

_AT_ONCE = 100
_LOOK_AGAIN = 0.5
_SHOWN = 2000
"""Characters of a field that `deadletter show` prints; `--json` prints all."""


@click.command(cls=Command)
@click.argument("user")
@click.argument("channel", required=False)
@on_stores()
async def rebuild(settings: Settings, stores: Stores, user: str, channel: str | None) -> None:
    """Refill timelines of USER from the stored posts.

    Refills all timelines, or that of one CHANNEL. Use it when timelines were lost, or skipped by
    `delivery.fan_out_limit`. Posts that the user has read, removed or moved, and posts that cleanup removed, don't come
    back. Workers do the work; the setting `delivery.warm_up_days` limits how far back it goes.

    Example: microsub rebuild alice home
    """
    await server.backend.require_user(settings, stores, user, enabled=True)
    done = await server.jobs.rebuilding(stores).rebuild(user, channel, time.time())
    for uid, sent in done.items():
        say(f"{user}/{uid}{_rebuilt(*sent)}")
    if not done:
        say(f"{user} follows no feeds, so there is nothing to refill")
    if any(followed for followed, *_ in done.values()) and not await stores.presence.alive(time.time()):
        say("no worker is running; posts arrive once you start one (microsub serve, microsub work)", err=True)


@click.command(cls=Command)
@click.option("--follow", is_flag=True, help="Keep printing new events until interrupted.")
@click.option("--since", default=None, metavar="ID", help="Start after the event with this id; 0: at the oldest.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@on_stores()
async def events(settings: Settings, stores: Stores, follow: bool, since: str | None, as_json: bool) -> None:
    """Print changes of feeds and posts, for other programs.

    Each event reports that a feed or post was created, modified (with the fields that changed) or deleted. The last
    10,000 events are kept. Without --since, the command prints all of them, or with --follow only new ones. To resume,
    pass --since the id of the last event that the program has handled. After a crash, an event may be printed twice.

    Example: microsub events --follow --json --since 1795244167090-0
    """
    if since is not None and not feeds.is_event_id(since):
        raise click.UsageError(
            f"--since: found '{since[:80]}', expected the id of an event, such as 1795244167090-0, or 0"
        )
    async for event in _events(feeds.Events(stores.redis), since, follow):
        say_json(asdict(event)) if as_json else say(_line(event))


async def _events(source: Events, since: str | None, follow: bool) -> AsyncIterator[Event]:
    after = since or (await source.last() if follow else "0")
    is_waiting = False
    while True:
        try:
            found = await source.since(after, _AT_ONCE)
        except StoreUnavailable as error:
            if not follow:
                raise
            if not is_waiting:
                say(f"waiting for the store: {error}", err=True)
            is_waiting, found = True, []
        else:
            is_waiting = False
        for event in found:
            yield event
        if found:
            after = found[-1].id
        elif follow:
            await asyncio.sleep(_LOOK_AGAIN)
        else:
            return


def _line(event: Event) -> str:
    what = event.kind.replace("_", " ")
    post = f" post {event.post}" if event.post else ""
    # A guid is foreign text, which must not control the terminal.
    guid = f" {''.join(char if char.isprintable() else '�' for char in event.guid)}" if event.guid else ""
    changed = f" ({', '.join(event.changed)})" if event.changed else ""
    return f"{event.id} {as_instant(event.at)} {what}: feed {event.feed}{post}{guid}{changed}"


def _letter_id(text: str) -> str:
    """The type of an argument that is the id of a dead letter."""
    from microsub.work import is_letter_id

    if not is_letter_id(text):
        raise click.UsageError(f"found '{text[:80]}', expected the id of a dead letter, such as 1795244167090-0")
    return text


@click.group(cls=Group)
def deadletter() -> None:
    """List, retry or drop messages that no worker could handle.

    A message that failed five times is kept here with the reason, so that it blocks nothing and isn't lost.
    """


@deadletter.command("list")
@json_flag
@on_stores()
async def deadletter_list(settings: Settings, stores: Stores, as_json: bool) -> None:
    """List dead letters with stage, time and reason, oldest first."""
    letters = await _all(_dead_letters(stores))
    if as_json:
        print_json([_head(letter) for letter in letters])
        return
    for letter in letters:
        say(escaped(f"{letter.id}  {letter.stage}  {as_instant(letter.at)}  {letter.why}"))
    if not letters:
        say("no dead letters")


@deadletter.command("show")
@click.argument("letter_id", metavar="ID", type=_letter_id)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every field in full.")
@on_stores()
async def deadletter_show(settings: Settings, stores: Stores, letter_id: str, as_json: bool) -> None:
    """Show one dead letter with all fields of its message."""
    (letter,) = await _chosen(_dead_letters(stores), (letter_id,), False)
    fields = {name: value.decode("utf-8", "replace") for name, value in letter.fields.items()}
    if as_json:
        print_json(_head(letter) | {"fields": fields})
        return
    for name, value in _head(letter).items():
        say(escaped(f"{name}: {value}"))
    for name, value in fields.items():
        more = f"… ({len(value)} characters)" if len(value) > _SHOWN else ""
        say(escaped(f"  {name}: {value[:_SHOWN]}{more}"))


@deadletter.command("retry")
@click.argument("letter_ids", metavar="ID...", nargs=-1, type=_letter_id)
@click.option("--all", "everything", is_flag=True, help="Retry all dead letters.")
@on_stores()
async def deadletter_retry(settings: Settings, stores: Stores, letter_ids: tuple[str, ...], everything: bool) -> None:
    """Put messages back into the pipeline for five more attempts.

    Messages of an unknown stage stay and are listed; then the exit code is 1.

    Example: microsub deadletter retry --all
    """
    dead = _dead_letters(stores)
    letters = await _chosen(dead, letter_ids, everything)
    refused = await server.jobs.letter_retry(stores)(letters)
    for why in refused:
        say(f"microsub: {why}", err=True)
    say(f"{counted(len(letters) - len(refused), 'message')} put back")
    if refused:
        sys.exit(FAILED)


@deadletter.command("drop")
@click.argument("letter_ids", metavar="ID...", nargs=-1, type=_letter_id)
@click.option("--all", "everything", is_flag=True, help="Drop all dead letters.")
@on_stores()
async def deadletter_drop(settings: Settings, stores: Stores, letter_ids: tuple[str, ...], everything: bool) -> None:
    """Delete dead letters.

    Their posts stay missing until the feed lists them again with a change.

    Example: microsub deadletter drop 1795244167090-0
    """
    dead = _dead_letters(stores)
    letters = await _chosen(dead, letter_ids, everything)
    await dead.drop(letters)
    say(f"{counted(len(letters), 'dead letter')} dropped")


async def _chosen(dead: DeadLetters, letter_ids: tuple[str, ...], everything: bool) -> list[DeadLetter]:
    """The chosen letters; an unknown id ends the command before it does anything."""
    if everything == bool(letter_ids):
        raise click.UsageError("expected ids of dead letters (see: microsub deadletter list) or --all")
    if everything:
        return await _all(dead)
    chosen = []
    for letter_id in dict.fromkeys(letter_ids):
        letter = await dead.get(letter_id)
        if letter is None:
            fail(f"there is no dead letter '{letter_id}'; see 'microsub deadletter list'")
        chosen.append(letter)
    # The same letter may be given in two forms: 5 is 5-0.
    return list({letter.id: letter for letter in chosen}.values())


def _dead_letters(stores: Stores) -> DeadLetters:
    from microsub.work import DeadLetters

    return DeadLetters(stores.redis)


async def _all(dead: DeadLetters) -> list[DeadLetter]:
    found: list[DeadLetter] = []
    while batch := await dead.list(_AT_ONCE, found[-1].id if found else None):
        found += batch
    return found


def _head(letter: DeadLetter) -> dict[str, object]:
    return {
        "id": letter.id,
        "stage": letter.stage,
        "why": letter.why,
        "at": as_instant(letter.at),
        "message": letter.message,
        "deliveries": letter.deliveries,
    }


def _rebuilt(followed: int, posts: int, was_empty: bool) -> str:
    if not followed:
        return " follows no feeds, so there is nothing to refill"
    how = ", which was empty" if was_empty else ""
    return f"{how}: {counted(posts, 'post')} of {counted(followed, 'feed')} on the way"
