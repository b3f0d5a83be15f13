"""Workers check the sources of webmentions, and show, update or delete the posts.

Spec: https://www.w3.org/TR/webmention/#webmention-verification. Each check starts from the state in Redis and may be
repeated at any step: a post is always shown under the same guid, and the result is written last.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import structlog

from microsub.errors import NotFound, ParseError, ParserUnavailable, StoreError
from microsub.fetch import PAGE_ACCEPT, FetchFailed, HopError, HostPace, Sending, SendLimits, retry_after
from microsub.kit.periodic import PACE, RoundTiming, for_ever
from microsub.kit.urls import host_of
from microsub.metrics import WEBMENTIONS
from microsub.webmention.mention import Linked, Look, Mention, NotLinked, NotRead, Unwanted, decide, is_refused
from microsub.webmention.receiver import is_blocked
from microsub.webmention.store import DUE

if TYPE_CHECKING:
    from microsub.configuration.store import SettingsInForce
    from microsub.fetch import Answered, Sender
    from microsub.identity.store.accounts import Accounts
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

AT_A_VISIT = 20
AT_ONCE = 4
"""Webmentions of one user that are checked in one turn, and at the same time."""

BETWEEN_LOOKS = 2.0
"""Seconds between two looks for what is due."""

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
        settings: SettingsInForce,
        notifications: Notifications,
        sender: Sender,
        parser: ParsePool,
        *,
        pace: HostPace | None = None,
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
        self._clock = clock

    async def visit(self, user: str) -> float | None:
        """Check what is due for a user; returns when to look again, None for never. Raises StoreError.

        If more is due than one turn allows, other users come first. A disabled user's webmentions go on waiting.
        """
        there = await self._accounts.user(user)
        if there is None or there.disabled is not None:
            return None
        turn = asyncio.Semaphore(AT_ONCE)

        async def one(mention_id: str) -> None:
            async with turn:
                await self._verify(user, mention_id)

        await asyncio.gather(*map(one, await self._store.waiting(user, self._clock(), AT_A_VISIT)))
        again = await self._store.next_look(user)
        return None if again is None else max(again, self._clock() + BETWEEN_LOOKS)

    async def visit_due(self, now: float) -> int:
        """Do what is due; returns for how many users."""
        return await self._store.due.visit(now, self.visit)

    async def run_for_ever(self, pace: RoundTiming = PACE) -> None:
        """Do what is due, repeatedly, until cancelled."""
        await for_ever(self.visit_due, DUE, pace, BETWEEN_LOOKS)

    async def look_at_all(self, now: float) -> None:
        """Plan work for every user with waiting webmentions, in case the plan was lost."""
        await self._store.note_waiting([user.name for user in await self._accounts.users()], now)

    async def _verify(self, user: str, mention_id: str) -> None:
        mention = await self._store.get(user, mention_id)
        if mention is None:
            await self._store.forget(user, mention_id)
            return
        in_force = await self._settings.everything()
        own = in_force.of_user(user).webmention
        refused = is_refused(mention.source, in_force.instance.webmention.refuse)
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
            entry = await self._parser.mention(answer, mention.source, mention.target)
        except ParseError as error:
            return _Found(NotRead(error.detail, lasting=True))
        if entry is None:
            return _Found(NotLinked("the source has no link to the target"))
        author = (entry.author and entry.author.name) or ""
        text = entry.name or (entry.content and entry.content.text) or entry.summary or ""
        return _Found(Linked(entry.post_type or "", author, " ".join(text.split())[:_LONGEST_TITLE]), entry)
