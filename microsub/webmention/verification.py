"""Workers check the sources of webmentions, and show, update or delete the posts.

Spec: https://www.w3.org/TR/webmention/#webmention-verification. Each check starts from the state in Redis and may be
repeated at any step: a post is always shown under the same guid, and the result is written last.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import structlog

from microsub.base.errors import NotFound, ParseError, ParserUnavailable, StoreError
from microsub.base.metrics import WEBMENTIONS
from microsub.base.periodic import PACE, RoundTiming, run_periodically
from microsub.base.urls import host_of
from microsub.fetch import PAGE_ACCEPT, FetchFailed, HopError, HostPace, Sending, SendLimits, retry_after
from microsub.webmention.mention import Linked, Look, Mention, NotLinked, NotRead, Unwanted, decide, is_refused
from microsub.webmention.receiver import is_blocked
from microsub.webmention.source import MENTION_IN
from microsub.webmention.store import DUE

if TYPE_CHECKING:
    from microsub.accounts.store import Accounts
    from microsub.configuration.effective import EffectiveSettings
    from microsub.fetch import Answered, Sender
    from microsub.model.jf2 import Entry
    from microsub.notices import Notifications
    from microsub.parsing.pool import ParsePool
    from microsub.timelines.rules import Rules
    from microsub.webmention.store import MentionStore

log = structlog.get_logger(__name__)

LIMITS = SendLimits(total=5.0, body=1_000_000, redirects=20)
"""As the specification proposes (4.2), but with as many redirects as browsers follow."""

FEED, TITLE = "webmentions", "Webmentions"
"""The internal feed of a user that contains the posts of webmentions."""

LOOKED_AT = 400
AT_ONCE = USERS_AT_ONCE = 8
"""Webmentions of one user that are looked at in one visit, and hosts whose sources are checked at the same time."""

VISIT_SECONDS = 2.0
"""Seconds after which a visit begins no further check, and leaves those under way to end by themselves. So neither many
sources of one host nor its slow replies delay those of another host, or another user's.
"""

CLAIM_SECONDS = 60.0
"""Seconds after which a check that hasn't ended, because its process has died, is begun again."""

BETWEEN_LOOKS = 2.0
"""Seconds between two looks for due webmentions."""

_AGAIN = frozenset({408, 425, 429})
_LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True)
class _Found:
    """A check's result, and the post if the source links to the target."""

    look: Look
    entry: Entry | None = None


class MentionVerifier:
    """Checks the sources of waiting webmentions."""

    def __init__(
        self,
        store: MentionStore,
        accounts: Accounts,
        rules: Rules,
        settings: EffectiveSettings,
        notifications: Notifications,
        sender: Sender,
        parser: ParsePool,
        *,
        pace: HostPace | None = None,
        patience: float = VISIT_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._accounts = accounts
        self._rules = rules
        self._settings = settings
        self._notifications = notifications
        self._sender = sender
        self._parser = parser
        self._pace = pace or HostPace(at_once=1, interval=1.0, burst=5)
        self._patience = patience
        self._clock = clock
        self._under_way: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def close(self) -> None:
        """End the checks under way; other processes begin them again."""
        for task in (tasks := list(self._under_way.values())):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def visit(self, user: str) -> float | None:
        """Check what is due for a user; returns when to look again, None for never. Raises StoreError.

        Each host's sources are checked one after the other, and several hosts' at the same time, for `patience`
        seconds. A disabled user's webmentions go on waiting.
        """
        there = await self._accounts.user(user)
        if there is None or there.disabled is not None:
            return None
        turn, until = asyncio.Semaphore(AT_ONCE), time.monotonic() + self._patience
        due = await self._store.waiting(user, self._clock(), LOOKED_AT)
        begun = [
            self._begin((user, host), self._check(user, ids, turn, until))
            for host, ids in due.items()
            if (user, host) not in self._under_way
        ]
        if begun:
            ended, _ = await asyncio.wait(begun, timeout=None if self._patience == math.inf else self._patience)
            for task in ended:
                task.result()
        again = await self._store.next_look(user)
        return None if again is None else max(again, self._clock() + BETWEEN_LOOKS)

    async def visit_due(self, now: float) -> int:
        """Do what is due; returns for how many users."""
        return await self._store.due.visit(now, self.visit, at_once=USERS_AT_ONCE)

    async def run_forever(self, pace: RoundTiming = PACE) -> None:
        """Do what is due, repeatedly, until cancelled."""
        await run_periodically(self.visit_due, DUE, pace, BETWEEN_LOOKS)

    async def look_at_all(self, now: float) -> None:
        """Plan work for every user with waiting webmentions, in case the plan was lost."""
        await self._store.note_waiting([user.name for user in await self._accounts.users()], now)

    def _begin(self, what: tuple[str, str], check: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._under_way[what] = asyncio.create_task(check, name="webmentions of a host")

        def ended(task: asyncio.Task[None]) -> None:
            del self._under_way[what]
            error = None if task.cancelled() else task.exception()
            if isinstance(error, StoreError):
                log.warning("webmentions of a site are checked later", site=what[1], error=str(error))
            elif error is not None:  # a bug, which no visit may be waiting for any more
                log.error("webmentions of a site can't be checked", site=what[1], exc_info=error)

        task.add_done_callback(ended)
        return task

    async def _check(self, user: str, ids: Sequence[str], turn: asyncio.Semaphore, until: float) -> None:
        """Check webmentions of one host, until a time of the monotonic clock."""
        for mention_id in ids:
            async with turn:
                if time.monotonic() > until:
                    return
                await self._store.claim(user, mention_id, self._clock() + CLAIM_SECONDS)
                await self._verify(user, mention_id)

    async def _verify(self, user: str, mention_id: str) -> None:
        mention = await self._store.get(user, mention_id)
        if mention is None:
            return
        effective = await self._settings.everything()
        own = effective.of_user(user).webmention
        refused = is_refused(mention.source, effective.instance.webmention.refuse)
        if mention.state in {"rejected", "withdrawn"}:
            found = _Found(Unwanted())
        elif refused or not own.receive or await is_blocked(self._rules, user, mention.source):
            found = _Found(NotLinked("webmentions from there are blocked"))
        else:
            found = await self._look(mention)
        now = self._clock()
        verdict = decide(mention, found.look, now, needs_approval=own.approval)
        left, end = verdict.mention, "put_off" if verdict.again is not None else verdict.mention.state
        if left.state == "shown" and found.entry is not None:
            with suppress(NotFound):  # the user is gone
                await self._notifications.put(user, FEED, TITLE, left.guid, found.entry, mention.received)
        elif left.state in {"deleted", "rejected"} and await self._notifications.remove(user, FEED, left.guid):
            left = replace(left, edition=left.edition + 1)
        # A newer webmention that arrived during this check stays queued, and is checked again.
        await self._store.write(user, left, mention, now, look=verdict.again)
        WEBMENTIONS.labels(end).inc()
        log.info("a webmention's source was checked", user=user, site=host_of(mention.source), end=end, why=left.why)

    async def _look(self, mention: Mention) -> _Found:
        try:
            async with self._pace.turn(host_of(mention.source)):
                answer = await self._sender.send(
                    Sending(mention.source.partition("#")[0], accept=PAGE_ACCEPT, limits=LIMITS, web_ports=True)
                )
            return await self._read(mention, answer)
        except (HopError, ParserUnavailable) as error:
            return _Found(NotRead(str(error), ours=True))
        except StoreError:
            raise
        except Exception:
            # A bug: the others are checked, and this one is retried as if its source were unreachable.
            log.exception("a webmention's source can't be checked")
            return _Found(NotRead("the server failed to check the source"))

    async def _read(self, mention: Mention, answer: Answered | FetchFailed) -> _Found:
        if isinstance(answer, FetchFailed):
            return _Found(NotRead(answer.detail, answer.lasting, answer.retry_after or 0.0, ours=answer.ours))
        if answer.status == 410:
            return _Found(NotLinked("the source is gone"))
        if answer.status not in {200, 203}:
            seconds = retry_after(answer.headers.get("retry-after"), self._clock())
            lasting = answer.status < 500 and answer.status not in _AGAIN
            return _Found(NotRead(f"the source answered {answer.status}", lasting, seconds or 0.0))
        try:
            about = answer.final_url, answer.content_type, mention.source, mention.target
            keys = (f"webmentions of {host_of(mention.source)}",)  # all from one host share one turn
            entry = await self._parser.run(MENTION_IN, answer.final_url, answer.body, *about, keys=keys)
        except ParseError as error:
            return _Found(NotRead(error.detail, lasting=True))
        if entry is None:
            return _Found(NotLinked("the source has no link to the target"))
        author = (entry.author and entry.author.name) or ""
        text = entry.name or (entry.content and entry.content.text) or entry.summary or ""
        return _Found(Linked(entry.post_type or "", author, " ".join(text.split())[:_LONGEST_TITLE]), entry)
