"""Workers check the sources of webmentions, and show, update or delete the posts.

Spec: https://www.w3.org/TR/webmention/#webmention-verification. Each check starts from the state in Redis and may be
repeated at any step: a post is always shown under the same guid, and the result is written last.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import structlog

from microsub.base.errors import NotFound, ParseError, ParserUnavailable, StoreError
from microsub.base.metrics import WEBMENTIONS
from microsub.base.urls import host_of
from microsub.fetch import (
    PAGE_ACCEPT,
    FetchFailed,
    HopError,
    HostPace,
    RequestFailure,
    Sending,
    SendLimits,
    retry_after,
)
from microsub.model.jf2 import Entry
from microsub.webmention.mention import Look, Mention, decide, is_refused
from microsub.webmention.receiver import is_blocked
from microsub.webmention.source import MENTION_IN
from microsub.webmention.store import DUE
from microsub.work import CalendarWork, Claim, Lanes

if TYPE_CHECKING:
    from microsub.accounts import Accounts
    from microsub.configuration.effective import EffectiveSettings
    from microsub.fetch import Answered, Sender
    from microsub.parsing.pool import ParsePool
    from microsub.timelines import Rules
    from microsub.webmention.store import MentionStore

log = structlog.get_logger(__name__)

LIMITS = SendLimits(total=5.0, body=1_000_000, redirects=20)
"""As the specification proposes (4.2), but with as many redirects as browsers follow."""

FEED, TITLE = "webmentions", "Webmentions"
"""The internal feed of a user that contains the posts of webmentions."""

AT_ONCE = 8
"""Sources of one user that are checked at the same time."""

CLAIMED, MOST_OF_USER, MOST_OF_HOST = 4_000, 32, 32
"""Webmentions that a process has claimed: in total, checked or ready for one user, and of one host to one user."""

PUT_OFF = 2.0
"""Seconds until webmentions beyond that are claimed again."""

_AGAIN = frozenset({408, 425, 429})


class NoticeWriter(Protocol):
    """Writes and deletes posts in a user's `notifications`."""

    async def put(self, user: str, feed: str, title: str, guid: str, entry: Entry, at: float) -> None:
        """Add or update a post in the internal feed of that name. Raises NotFound, StoreError."""

    async def remove(self, user: str, feed: str, guid: str) -> bool:
        """Delete the post with that guid; True if there was one. Raises StoreError."""


class MentionVerifier(CalendarWork):
    """Checks the sources of waiting webmentions."""

    def __init__(
        self,
        store: MentionStore,
        accounts: Accounts,
        rules: Rules,
        settings: EffectiveSettings,
        notifications: NoticeWriter,
        sender: Sender,
        parser: ParsePool,
        *,
        pace: HostPace | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(DUE, store.due, self._one, at_once=CLAIMED, clock=clock)
        self._store = store
        self._accounts = accounts
        self._rules = rules
        self._settings = settings
        self._notifications = notifications
        self._sender = sender
        self._parser = parser
        self._pace = pace or HostPace(at_once=1, interval=1.0, burst=5)
        self._hosts, self._users = Lanes(1, MOST_OF_HOST), Lanes(AT_ONCE, MOST_OF_USER)

    async def visit_due(self, now: float) -> int:
        """Check what is due; returns how many webmentions."""
        return await self.run_until_idle(functools.partial(self.take_at, now))

    async def look_at_all(self, now: float) -> None:
        """Plan work for every user with waiting webmentions, in case the plan was lost."""
        await self._store.note_waiting([user.name for user in await self._accounts.users()], now)

    async def _one(self, claim: Claim) -> float | None:
        """Check one webmention; returns when to check it again, None for never.

        A user's webmentions from one host are checked one after the other, and from several hosts at the same time.
        Neither many of one host nor its slow replies delay those of another host or user. A disabled user's go on
        waiting.
        """
        user, _, mention_id = claim.member.partition(" ")
        there, mention = await self._accounts.user(user), await self._store.get(user, mention_id)
        if there is None or there.disabled is not None:
            return None
        if mention is None:
            await self._store.forget_waiting(user, mention_id)
            return None
        async with (
            self._hosts.turn(f"{user} {host_of(mention.source)}") as is_hosts,
            self._users.turn(user) as is_users,
        ):
            if is_hosts and is_users:
                return await self._verify(user, mention_id)
        return self._clock() + PUT_OFF

    async def _verify(self, user: str, mention_id: str) -> float | None:
        mention = await self._store.get(user, mention_id)
        if mention is None:
            return None
        effective = await self._settings.everything()
        own = effective.of_user(user).webmention
        refused = is_refused(mention.source, effective.instance.webmention.refuse)
        if mention.state in {"rejected", "withdrawn"}:
            look: Look = "by its user"
        elif refused or not own.receive or await is_blocked(self._rules, user, mention.source):
            look = "webmentions from there are blocked"
        else:
            look = await self._look(mention)
        now = self._clock()
        left, again = decide(mention, look, now, needs_approval=own.approval)
        end = "put_off" if again is not None else left.state
        if left.state == "shown" and isinstance(look, Entry):
            with suppress(NotFound):  # the user is gone
                await self._notifications.put(user, FEED, TITLE, left.guid, look, mention.received)
        elif left.state in {"deleted", "rejected"} and await self._notifications.remove(user, FEED, left.guid):
            left = replace(left, edition=left.edition + 1)
        # A newer webmention that arrived during this check stays queued, and is checked again.
        await self._store.write(user, left, mention, now, look=again)
        WEBMENTIONS.labels(end).inc()
        log.info("a webmention's source was checked", user=user, site=host_of(mention.source), end=end, why=left.why)
        return again

    async def _look(self, mention: Mention) -> Look:
        try:
            async with self._pace.turn(host_of(mention.source)):
                answer = await self._sender.send(
                    Sending(mention.source.partition("#")[0], accept=PAGE_ACCEPT, limits=LIMITS, web_ports=True)
                )
            return await self._read(mention, answer)
        except (HopError, ParserUnavailable) as error:
            return RequestFailure(str(error), ours=True)
        except StoreError:
            raise
        except Exception:
            # A bug: the others are checked, and this one is retried as if its source were unreachable.
            log.exception("a webmention's source can't be checked")
            return RequestFailure("the server failed to check the source")

    async def _read(self, mention: Mention, answer: Answered | FetchFailed) -> Look:
        if isinstance(answer, FetchFailed):
            return RequestFailure(answer.detail, answer.lasting, answer.retry_after, ours=answer.ours)
        if answer.status == 410:
            return "the source is gone"
        if answer.status not in {200, 203}:
            seconds = retry_after(answer.headers.get("retry-after"), self._clock())
            lasting = answer.status < 500 and answer.status not in _AGAIN
            return RequestFailure(f"the source answered {answer.status}", lasting, seconds)
        try:
            about = answer.final_url, answer.content_type, mention.source, mention.target
            keys = (f"webmentions of {host_of(mention.source)}",)  # all from one host share one turn
            entry = await self._parser.run(MENTION_IN, answer.final_url, answer.body, *about, keys=keys)
        except ParseError as error:
            return RequestFailure(error.detail, lasting=True)
        if entry is None:
            return "the source has no link to the target"
        return entry
