"""Look-ups complete a post from its author's page, and from the page that it answers or likes.

`formats.lookups` and `formats.references` decide what is looked up and how it is used; here it is fetched, within
limits, from a stream of its own. The post can be read before; the result arrives as an update. A failed look-up leaves
the post as it is; a post that was edited meanwhile is left to the message of that edit.

Look-ups must not delay new posts, so beyond a limit they are postponed. That any was postponed is noted before the post
leaves its feed's outbox. The posts themselves note which ones, so the expensive read of all posts is needed only after
the limit was reached. Some look-ups never succeed, so each is requested again at most `MOST_TIMES` times. Those
requested least often come first, and of these the oldest. So every round leaves fewer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import orjson
import structlog

from microsub.base.bounded_cache import BoundedCache
from microsub.base.errors import ParseError, ParserUnavailable
from microsub.base.locks import KeyedLocks
from microsub.base.tasks import cancel_all
from microsub.base.urls import host_of, mask_credentials, normalise_profile
from microsub.feeds import Event
from microsub.fetch import Fetched, Fetching, FetchRequest
from microsub.formats.lookups import LookUp, completed, lacking
from microsub.formats.references import LOOKED_UP
from microsub.formats.wire import dump, from_wire, to_wire
from microsub.model.jf2 import Card, Entry
from microsub.parsing.pool import ParsePool
from microsub.posts import WRITTEN_GUID, ItemIncomplete, Items, ItemsStored, garbage, look_ups_of
from microsub.redis.protocol import Redis
from microsub.redis.replies import text
from microsub.work import Stream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from microsub.feeds import Events, Feeds
    from microsub.redis.protocol import Arg
    from microsub.work import Message


AT_ONCE = 8
"""Look-ups in progress at the same time in one process."""

SECONDS = 30.0
"""Seconds that the look-ups of one call may take; unfinished ones are left out."""

MOST = 200
"""Maximum number of look-ups per call, however many the entries lack."""

REMEMBERED = 6 * 3600.0
FAILURES_REMEMBERED = 600.0
"""Seconds for which an author's card, or its absence, is remembered: all posts of a blog have the same."""

MOST_REMEMBERED = 5000

log = structlog.get_logger(__name__)

Answer = Card | Entry | None


class Completing:
    """Completes entries.

    Pages are read by `parser`, microformats only in small ones (`formats.references`).

    The same pages give the same entries, in any order, and complete entries don't change, so repeated calls do no
    harm. A failed look-up leaves its gap. Belongs to one event loop.
    """

    def __init__(
        self,
        fetcher: Fetching,
        parser: ParsePool,
        *,
        at_once: int = AT_ONCE,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetcher = fetcher
        self._parser = parser
        self._turn = asyncio.Semaphore(at_once)
        self._seconds = seconds
        self._clock = clock
        self._hosts = KeyedLocks()
        self._authors: BoundedCache[LookUp, tuple[float, Answer]] = BoundedCache(MOST_REMEMBERED)

    async def complete(self, entry: Entry, source: str | None = None) -> Entry:
        """`entry` with the results of its look-ups, or the same object if there are none.

        `source` is the address of the entry's document, if known: it isn't looked up.
        """
        return (await self.complete_all([entry], source))[0]

    async def complete_all(self, entries: Sequence[Entry], source: str | None = None) -> list[Entry]:
        """All of `entries` in their order; a page that several of them need is looked up once."""
        wanted = list(dict.fromkeys(look_up for entry in entries for look_up in lacking(entry, source)))[:MOST]
        found = await self._find(wanted)
        return [completed(entry, found) for entry in entries] if found else list(entries)

    async def _find(self, wanted: Sequence[LookUp]) -> dict[LookUp, Card | Entry]:
        tasks = {look_up: asyncio.create_task(self._one(look_up)) for look_up in wanted}
        try:
            if tasks:
                await asyncio.wait(tasks.values(), timeout=self._seconds)
        finally:
            await cancel_all(tasks.values())
        answers = {look_up: task.result() for look_up, task in tasks.items() if not task.cancelled()}
        if len(answers) < len(tasks):
            log.info("look-ups took too long", missing=len(tasks) - len(answers), seconds=self._seconds)
        return {look_up: said for look_up, said in answers.items() if said is not None}

    async def _one(self, look_up: LookUp) -> Answer:
        # Look-ups that wait for a busy host occupy no place, and hold no documents.
        async with self._hosts.of(host_of(look_up.url)), self._turn:
            known = self._authors.get(look_up)
            if known is not None and self._clock() < known[0]:
                return known[1]
            try:
                said = await self._ask(look_up)
            except ParserUnavailable:
                return None  # our own fault, so the failure isn't remembered
        log.debug("looked up", url=mask_credentials(look_up.url), kind=look_up.kind, found=said is not None)
        if look_up.kind == "author":
            self._authors[look_up] = self._clock() + (FAILURES_REMEMBERED if said is None else REMEMBERED), said
        return said

    async def _ask(self, look_up: LookUp) -> Answer:
        document = await self._fetcher.fetch(FetchRequest(look_up.url.partition("#")[0]))
        if not isinstance(document, Fetched):
            return None
        try:
            about = document.final_url, document.content_type, look_up.kind, look_up.url
            return await self._parser.run(LOOKED_UP, document.url, document.body, *about, keys=("look-ups",))
        except ParseError:
            return None


_FIELDS = ("Data", "version", "hash", "feed", "guid", WRITTEN_GUID, "incomplete")

_WRITTEN = "written"
"""Begins `incomplete` while a written result isn't announced yet; the changed properties follow."""


@dataclass(eq=False, repr=False)
class LookUpStage:
    """Handles `ItemIncomplete`. `notify` is called when there is work for the next stage."""

    feeds: Feeds
    items: Items
    completing: Completing
    stored: Stream
    events: Events
    _: KW_ONLY
    clock: Callable[[], float] = time.time
    notify: Callable[[], object] = lambda: None

    async def __call__(self, message: Message) -> None:
        """Look up and write everything. Raises StoreError; any other error means an invalid message."""
        wanted = ItemIncomplete.of(message.fields)
        ((data, *others),) = await self.items.fields([wanted.item], _FIELDS)
        version, digest, feed_id, guid, written, incomplete = (text(value) if value else "" for value in others)
        if data is None or not feed_id or version != wanted.version or not incomplete:
            return
        write = partial(self.items.complete, wanted.item, version, digest)
        edit = Event("post_modified", feed_id, self.clock(), wanted.item, written or guid)
        if incomplete.startswith(_WRITTEN):
            # Completed by a worker that died before it announced the edit.
            await self._announce(replace(edit, changed=tuple(incomplete.split()[1:])), write)
            return
        feed = await self.feeds.get(feed_id)
        wire = orjson.loads(data)
        before = from_wire(wire)
        entry = await self.completing.complete(before, feed.url if feed is not None else None)
        filled = to_wire(entry)
        changed = tuple(name for name in ("author", "refs") if filled.get(name) != wire.get(name))
        if not changed:
            await write({"incomplete": ""})
            return
        author = normalise_profile(entry.author.url) if entry.author is not None and entry.author.url else ""
        # Wire members that aren't part of an entry are kept.
        data = dump(wire | {name: filled[name] for name in changed})
        if await write({"Data": data, "author": author, "incomplete": " ".join((_WRITTEN, *changed))}):
            await self._announce(replace(edit, changed=changed), write)

    async def _announce(self, edit: Event, write: Callable[[Mapping[str, Arg]], Awaitable[bool]]) -> None:
        if "author" in edit.changed:
            await self.stored.add([ItemsStored(edit.feed, edited=(edit.post,)).to_fields()])
            self.notify()
        await self.events.announce([replace(edit, at=self.clock())])
        await write({"incomplete": ""})


FEW = 1_000
"""Waiting look-ups below which more are requested. As many may be requested twice, which costs a read each."""

AT_A_ROUND = 25_000
"""Maximum number of look-ups per round: new posts need room too."""

MOST_TIMES = 3
"""Maximum number of times that a look-up is requested again, until its post is edited."""

_BATCH = 1_000
_PAUSE = 0.005
"""Seconds after each batch, so that Redis has time for users' requests."""


async def retry_look_ups(
    redis: Redis,
    items: Items,
    incomplete: Stream,
    *,
    at_once: int = AT_A_ROUND,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> int:
    """Request postponed look-ups, at most `at_once`; returns their number. Raises StoreError.

    If more are left, the next round continues. Several processes may do it; requesting one twice is harmless.
    """
    mark = await incomplete.left_out()
    if mark is None or (await incomplete.backlog()).messages >= FEW:
        return 0
    chosen: list[ItemIncomplete] = []
    is_all = True
    async for ids in garbage.stored_ids(redis):
        found = await look_ups_of(items, [str(item) for item in ids])
        chosen += [one for one in found if one.asked < MOST_TIMES]
        if len(chosen) > 2 * at_once:
            is_all = False
            chosen = _most_urgent(chosen, at_once)
        await pause(_PAUSE)
    wanted = _most_urgent(chosen, at_once)
    is_all = is_all and len(wanted) == len(set(chosen))
    for start in range(0, len(wanted), _BATCH):
        batch = wanted[start : start + _BATCH]
        await incomplete.add([one.to_fields() for one in batch])
        # After a crash in between they are requested one time more than noted.
        await items.note({one.item: {"asked": f"{one.asked + 1} {one.version}"} for one in batch})
        await pause(_PAUSE)
    if is_all:
        await incomplete.made_up(mark)
    if wanted:
        log.info("postponed look-ups are queued", posts=len(wanted))
    return len(wanted)


def _most_urgent(found: Sequence[ItemIncomplete], most: int) -> list[ItemIncomplete]:
    """The look-ups that were requested least often, and of these the oldest; each once."""
    return sorted(set(found), key=lambda one: (one.asked, int(one.item)))[:most]
