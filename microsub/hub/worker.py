"""The hub's work: workers verify subscriptions and deliver documents.

Spec: https://www.w3.org/TR/websub/#hub-verifies-intent, #content-distribution. Each piece of work starts from the state
in Redis and may be repeated at any step: a callback may get a document twice, but always gets it. Strangers choose the
callbacks, so each request is checked and limited in time and bytes, and each host gets few at once. A slow host gets no
requests for a while, and doesn't delay others.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Literal

import structlog

from microsub.base.bounded_cache import BoundedCache
from microsub.base.digests import new_secret
from microsub.base.errors import NotFound
from microsub.base.metrics import HUB_DELIVERIES, HUB_VERIFICATIONS
from microsub.base.periodic import RoundTiming, run_periodically
from microsub.base.urls import host_of
from microsub.fetch import REST, Answered, FetchFailed, RestingServers, Sender, Sending, SendLimits
from microsub.hub.store import CLAIM, HubStore, KnownSubscription, TopicChanges, hub_calendar
from microsub.hub.subscriptions import HubSubscription, SubscriptionRequest, after_failure, verified
from microsub.work import CalendarWork, Claim, Lanes

if TYPE_CHECKING:
    from microsub.hub.topics import Topic, TopicDocument, Topics
    from microsub.redis.protocol import Redis

log = structlog.get_logger(__name__)

ASKING = SendLimits(total=10.0, body=4096, redirects=-1)
"""Limits of a verification, whose reply is the challenge."""
DELIVERING = SendLimits(total=10.0, body=0, redirects=-1)
"""Limits of a delivery, whose reply is a status."""

REQUESTS_AT_ONCE = 64
REQUESTS_TO_HOST = 8
"""Requests at the same time, in total and to one callback host."""
IN_PROGRESS = 4_000
IN_PROGRESS_OF_HOST = 1_000
"""Claimed pieces of work in this process, in total and for one host; a host's surplus is put off."""
AFTER_VERIFICATION = 1.0
"""Seconds until a new subscriber's topic is checked for changes: many subscribe at the same time."""
PUT_OFF = 5.0
LOOKS_AT_ONCE = 8
"""Topics of one owner that are checked at the same time."""

EVERY = 60.0
"""Seconds between two checks of all owners, for missed changes and ended topics."""
_KEPT_DOCUMENTS = 16

End = Literal["delivered", "failed", "given_up", "gone"]


class _TopicDocuments:
    """Documents of topics, each generated once for all deliveries that were claimed together.

    It is read after the claim, so it contains every change that was noted before.
    """

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._read: BoundedCache[str, tuple[int, asyncio.Task[TopicDocument | None]]] = BoundedCache(_KEPT_DOCUMENTS)
        """The token of the claims for which each document was read, and the document."""

    async def of(self, url: str, token: int) -> TopicDocument | None:
        """The document as of the claims with `token` or later; None if the topic doesn't exist any more."""
        found = self._read.get(url)
        if found is None or found[0] < token or (found[1].done() and found[1].exception()):
            found = token, asyncio.create_task(self._made(url), name="topic")
        self._read[url] = found
        return await asyncio.shield(found[1])

    async def _made(self, url: str) -> TopicDocument | None:
        topic = await self._topics.find(url)
        try:
            return None if topic is None else await self._topics.document(topic)
        except NotFound:
            return None


class _HostTurns:
    """Limits requests to callbacks, and pauses servers that can't be reached."""

    def __init__(self) -> None:
        self._all = asyncio.Semaphore(REQUESTS_AT_ONCE)
        self._hosts = Lanes(REQUESTS_TO_HOST, IN_PROGRESS_OF_HOST)
        self._resting = RestingServers()

    @asynccontextmanager
    async def turn(self, url: str) -> AsyncIterator[bool]:
        """Wait for this host's turn, for one request; False if the request must be put off."""
        if self._resting.left(url):
            yield False
            return
        async with self._hosts.turn(host_of(url)) as is_ours:
            if not is_ours or self._resting.left(url):
                yield False
                return
            async with self._all:
                yield True

    def rest(self, url: str) -> None:
        """Send this address's server no requests for a while."""
        self._resting.rest(url)

    def pause(self, url: str) -> float:
        """Seconds until a postponed request is retried: not before its server's pause ends."""
        return max(PUT_OFF, self._resting.left(url))


class HubWorker(CalendarWork):
    """Does the hub's due work. Any number of processes may run it."""

    def __init__(self, redis: Redis, topics: Topics, sender: Sender, *, clock: Callable[[], float] = time.time) -> None:
        self._store = HubStore(redis)
        super().__init__(
            "hub",
            hub_calendar(redis),
            self._one,
            at_once=IN_PROGRESS,
            lease=CLAIM,
            retry=REST,
            clock=clock,
        )
        self._changes = TopicChanges(redis)
        self._topics = topics
        self._sender = sender
        self._documents = _TopicDocuments(topics)
        self._turns = _HostTurns()

    # --- what is due

    run_forever, run_once = CalendarWork.run, CalendarWork.run_until_idle

    async def delivered(self, feed: str, users: Sequence[str]) -> None:
        """Note that posts of a feed arrived for these users."""
        if await self._changes.note(users, [feed], self._clock()):
            self.wake()

    async def look_at_all(self, now: float) -> None:
        """Plan a check of all owners' topics."""
        await self._calendar.note(dict.fromkeys(await self._store.owners(), now), "more")

    def parts(self, pace: RoundTiming) -> dict[str, Coroutine[None, None, None]]:
        """The permanent tasks by name: the work, and the check of all owners."""
        return {"hub": self.run_forever(), "topics": run_periodically(self.look_at_all, "topics", pace, EVERY)}

    async def _one(self, claim: Claim) -> float | None:
        """Do one piece of work; returns when to look again."""
        kind, name, *subscription = claim.member.split(" ")
        owner = f"{kind} {name}"
        if subscription:
            return await self._visit(owner, subscription[0], int(claim.token))
        await self._look(owner)
        return None

    # --- an owner

    async def _look(self, owner: str) -> None:
        """Find the subscriptions of an owner's topics that have work to do."""
        known = await self._store.all_of(owner)
        versions = await self._versions({one.held.topic for one in known if one.held is not None})
        now = self._clock()
        due = [one for one in known if one.asked is not None or one.held is None
               or now >= one.held.until or one.held.sent != versions[one.held.topic]]  # fmt: skip
        if due:
            await self._calendar.note(dict.fromkeys((one.member for one in due), now), "more")
            self.wake()

    async def _versions(self, urls: Collection[str]) -> dict[str, str | None]:
        """The versions of topics by URL, None for topics that don't exist any more. Each feed is read once."""
        found = dict(zip(urls, await asyncio.gather(*map(self._topics.find, urls)), strict=True))
        sources = {topic.source: topic for topic in found.values() if topic is not None}
        places = asyncio.Semaphore(LOOKS_AT_ONCE)

        async def version(topic: Topic) -> str | None:
            async with places:
                with suppress(NotFound):
                    await self._topics.refresh(topic)
                    return await self._topics.version(topic)
            return None

        named = dict(zip(sources, await asyncio.gather(*map(version, sources.values())), strict=True))
        return {url: None if topic is None else named[topic.source] for url, topic in found.items()}

    # --- a subscription

    async def _visit(self, owner: str, subscription: str, token: int) -> float | None:
        """Verify a request or deliver a document; returns when to look again, None: after the next change."""
        known = await self._store.get(owner, subscription)
        if known.asked is not None:
            return await self._verify(known, known.asked)
        if known.held is not None:
            return await self._serve(known, known.held, token)
        return None

    async def _verify(self, known: KnownSubscription, asked: SubscriptionRequest) -> float | None:
        """Ask the callback whether the subscriber sent the request; nothing changes until it confirms that."""
        if asked.mode == "subscribe" and await self._topics.find(asked.topic) is None:
            return await self._settle(known, known.held, "unverified")
        challenge = new_secret()
        async with self._turns.turn(asked.callback) as is_ours:
            if not is_ours:
                return self._clock() + self._turns.pause(asked.callback)
            answer = await self._send(Sending(asked.challenge(challenge), accept="*/*", limits=ASKING, web_ports=True))
        if answer is None:
            return self._clock() + PUT_OFF
        if not _confirms(answer, challenge):
            return await self._settle(known, known.held, "unverified")
        if asked.mode == "unsubscribe":
            return await self._settle(known, None, "ended")
        return await self._settle(known, verified(asked, known.held, self._clock()), "verified")

    async def _settle(self, known: KnownSubscription, held: HubSubscription | None, what: str) -> float | None:
        """Write a verification's result; a request that arrived meanwhile is handled next."""
        now = self._clock()
        if not await self._store.write(known, held, None, now):
            return now
        callback = known.asked.callback if known.asked is not None else ""
        await self._store.count(callback, what)
        HUB_VERIFICATIONS.labels(what).inc()
        log.info("a subscription request was decided", callback=host_of(callback), what=what)
        if what == "verified":  # changes that were published meanwhile are delivered
            await self._calendar.note({known.owner: now + AFTER_VERIFICATION}, "more")
        return None

    async def _serve(self, known: KnownSubscription, held: HubSubscription, token: int) -> float | None:
        now = self._clock()
        if now >= held.until:
            await self._store.write(known, None, None, now)
            return None
        # The document is read in the host's turn, so that waiting tasks don't each have one in memory.
        async with self._turns.turn(held.callback) as is_ours:
            if not is_ours:
                return now + self._turns.pause(held.callback)
            document = await self._documents.of(held.topic, token)
            if document is None:
                return await self._deny(known, held)
            if document.version == held.sent:
                return None
            return await self._deliver(known, held, document)

    async def _send(self, sending: Sending) -> Answered | FetchFailed | None:
        """The reply to a request; None if none was sent. A server that can't be reached is paused."""
        answer = await self._sender.send(sending)
        if not isinstance(answer, FetchFailed):
            return answer
        if answer.reason in {"timeout", "connect", "dns", "tls"}:
            self._turns.rest(sending.url)
        return None if answer.ours else answer

    async def _deliver(self, known: KnownSubscription, held: HubSubscription, document: TopicDocument) -> float | None:
        """Send a document. 2xx is success, 410 ends the subscription, anything else is retried (7)."""
        answer = await self._send(self._delivery(held, document))
        now = self._clock()
        if answer is None:
            return now + PUT_OFF
        status = answer.status if isinstance(answer, Answered) else None
        after: HubSubscription | None = held.delivered(document.version)
        end: End = "delivered"
        again = None
        if status == 410:
            after, end = None, "gone"
        elif status is None or not 200 <= status < 300:
            after, pause = after_failure(held, document.version)
            end = "given_up" if pause is None else "failed"
            again = None if pause is None else now + pause
        if not await self._store.write(known, after, None, now):
            return now
        await self._store.count(held.callback, end)
        HUB_DELIVERIES.labels(end).inc()
        note = log.debug if end == "delivered" else log.info
        note("a topic was delivered", callback=host_of(held.callback), end=end, status=status)
        return again

    def _delivery(self, held: HubSubscription, document: TopicDocument) -> Sending:
        links = f'<{self._topics.hub}>; rel="hub", <{document.address}>; rel="self"'
        signature = held.signature(document.body)
        headers = [("Link", links), *([("X-Hub-Signature", signature)] if signature else [])]
        return Sending(
            held.callback,
            "POST",
            body=document.body,
            content_type=document.content_type,
            headers=headers,
            accept="*/*",
            limits=DELIVERING,
            web_ports=True,
        )

    async def _deny(self, known: KnownSubscription, held: HubSubscription) -> float | None:
        """Notify the subscriber once that the topic has ended, and forget the subscription (5.2)."""
        reason = "there is no such topic any more"
        sending = Sending(held.denial(reason), accept="*/*", limits=DELIVERING, web_ports=True)
        if await self._send(sending) is None:
            return self._clock() + PUT_OFF
        if await self._store.write(known, None, known.asked, self._clock()):
            await self._store.count(held.callback, "denied")
            HUB_VERIFICATIONS.labels("denied").inc()
        return None


def _confirms(answer: Answered | FetchFailed, challenge: str) -> bool:
    """Whether a callback confirms the request: 2xx with the challenge and nothing else."""
    if not isinstance(answer, Answered) or not 200 <= answer.status < 300:
        return False
    return hmac.compare_digest(answer.body, challenge.encode())
