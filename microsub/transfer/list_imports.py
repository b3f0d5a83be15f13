"""Imports of lists of feeds in the background; progress and result are kept for an hour.

If the process of an import dies, importing the same list again finishes it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

import orjson
import structlog

from microsub.base.errors import MicrosubError, NotFound, ParseError, ParsingStopped, TooManyRequests
from microsub.base.rate_limits import AT_ONCE, RateLimit, RateLimiter, SharedSlots
from microsub.base.tasks import cancel_all
from microsub.base.texts import N_
from microsub.fetch import asking_for
from microsub.redis import keys
from microsub.redis.replies import reading
from microsub.redis.structures import Value
from microsub.transfer.feed_lists import KnownFeed, ListedChannel, ListReport
from microsub.transfer.outlines import ListProblem

if TYPE_CHECKING:
    from microsub.accounts import UserQuotas
    from microsub.redis.protocol import Redis
    from microsub.transfer.feed_lists import FeedLists

LISTS_OF_USER = RateLimit("lists of feeds imported", "user", 10)
LISTS_SHARED = SharedSlots(
    of_user=RateLimit("lists of feeds imported", "user", 1, AT_ONCE),
    in_all=RateLimit("lists of feeds imported", "first ones of users, and further ones", 4, AT_ONCE),
    first=RateLimit("lists of feeds imported", "user", 1, 3600),
)
"""A list may have 16 MiB, and following its feeds takes up to two minutes."""

SECONDS = 3600
UNDO_SECONDS = 600
STALE = 60.0
"""Seconds without a heartbeat after which an import counts as ended with its process."""
_EVERY = 100
"""Feeds between two reports of progress."""
_AT_FIRST = 1.0
"""Seconds to wait for the result; most lists are done by then, so no progress is shown."""
_FAILED = "the import failed because of an error on this server; import the list again, nothing is added twice"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ListImport:
    """An import: `done` of `count` feeds; its `report`, or the `problem` that ended it.

    Unix times: `begun`, and `at` of the last report.
    """

    at: float = 0.0
    done: int = 0
    count: int = 0
    report: ListReport | None = None
    problem: str = ""
    begun: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether the import has ended."""
        return self.report is not None or bool(self.problem)

    def can_be_undone(self, now: float) -> bool:
        """Whether it changed something a short time ago."""
        changed = self.report is not None and any(one.made or one.added for one in self.report.channels)
        return changed and now - self.begun <= UNDO_SECONDS

    def is_stale(self, now: float) -> bool:
        """Whether it was interrupted."""
        return not self.is_over and now - self.at > STALE


@dataclass(eq=False, repr=False)
class ListImports:
    """Imports lists, several at once. `changed` is called after each; `clock` gives Unix seconds."""

    redis: Redis
    lists: FeedLists
    quotas: UserQuotas
    changed: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.time
    _limiter: RateLimiter = field(init=False, default_factory=RateLimiter)
    _running: set[asyncio.Task[None]] = field(init=False, default_factory=set)

    def admit(self, user: str) -> Callable[[], None]:
        """Reserve a slot for an import; returns a function that frees it. Raises TooManyRequests."""
        if not self._limiter.has_room(LISTS_OF_USER, user):
            raise TooManyRequests(f"you may import {LISTS_OF_USER.most} lists a minute; wait a minute", 60)
        taken = self._limiter.acquire(LISTS_SHARED, user)
        if taken is None:
            raise TooManyRequests("another list of feeds is being imported; try again when it is done", 10)
        self._limiter.count(LISTS_OF_USER, user)
        return taken.release

    async def begin(self, user: str, body: bytes, now: float, give_back: Callable[[], None]) -> None:
        """Start the import, and wait a second at most for its end. `give_back` is called at the end."""
        task = asyncio.create_task(self._run(user, body, now), name=f"list of {user}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        # Called however it ends, even before it has begun.
        task.add_done_callback(lambda _: give_back())
        await asyncio.wait([task], timeout=_AT_FIRST)

    async def latest(self, user: str) -> ListImport | None:
        """The user's last import, for an hour."""
        return _read(user, await self._last(user).get())

    async def undo(self, user: str, now: float) -> None:
        """Undo the user's last import. Raises NotFound, and TooManyRequests as `admit` does."""
        give_back = self.admit(user)
        try:
            known = await self._last(user).get()
            latest = _read(user, known)
            if latest is None or latest.report is None or not latest.can_be_undone(now):
                raise NotFound(N_("This can no longer be undone."))
            await self.lists.take_back(user, latest.report, latest.begun, now)
            another = await self._last(user).take()
            if another is not None and another != known:  # of an import that ended meanwhile, in another process
                await self._last(user).claim(another)
        finally:
            give_back()
        self.changed()

    async def aclose(self) -> None:
        """Cancel running imports."""
        await cancel_all(self._running)

    async def _run(self, user: str, body: bytes, now: float) -> None:
        state = ListImport()
        try:
            await self._note(user, state)
            state = await self._imported(user, body, now)
        except (ParseError, ParsingStopped) as error:
            state = replace(state, problem=f"the list can't be used: {error.detail}")
        except MicrosubError:
            log.exception("can't import a list", user=user)
            state = replace(state, problem=_FAILED)
        await self._note(user, state)
        self.changed()

    async def _imported(self, user: str, body: bytes, now: float) -> ListImport:
        said: set[asyncio.Task[None]] = set()

        def progress(done: int, count: int) -> None:
            if done // _EVERY > len(said):
                said.add(asyncio.create_task(self._note(user, ListImport(done=done, count=count))))

        quotas = await self.quotas.of(user)
        with asking_for(f"user {user}"):
            report = await self.lists.import_list(user, body, now, quotas=quotas, progress=progress)
        await asyncio.gather(*said)
        return ListImport(report=report, begun=now)

    async def _note(self, user: str, state: ListImport) -> None:
        await self._last(user).set(orjson.dumps(asdict(replace(state, at=self.clock()))))

    def _last(self, user: str) -> Value:
        return Value(self.redis, keys.list_import(user), SECONDS)


def _read(user: str, found: bytes | None) -> ListImport | None:
    if found is None:
        return None
    with reading(keys.list_import(user)):
        return _import(orjson.loads(found))


def _import(found: dict[str, object]) -> ListImport:
    report = found.pop("report")
    if not isinstance(report, dict):
        return ListImport(**found)  # type: ignore[arg-type]
    channels = [ListedChannel(**one) for one in report.pop("channels")]
    problems = [ListProblem(**one) for one in report.pop("problems")]
    known = [KnownFeed(**one) for one in report.pop("known", ())]
    read = ListReport(**report, channels=channels, problems=problems, known=known)
    return ListImport(**found, report=read)  # type: ignore[arg-type]
