"""Callbacks: verifications and deliveries of hubs are answered at once; workers do the rest.

Spec: https://www.w3.org/TR/websub/#hub-verifies-intent (verification), #content-distribution (delivery). A delivery is
identified by its callback alone, and is ignored unless its signature over the raw body is valid. Every accepted
delivery is in a Redis stream of bounded length.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog
from starlette.types import Receive, Scope, Send

from microsub.base.clock import MINUTE
from microsub.base.errors import InvalidRequest, MethodNotAllowed, TooSlow
from microsub.base.metrics import WEBSUB_DELIVERIES, WEBSUB_VERIFICATIONS
from microsub.base.rate_limits import RateLimit, RateLimiter
from microsub.base.urls import host_of
from microsub.fetch import LARGEST_BODY
from microsub.web.params import BODY_SECONDS, urlencoded
from microsub.web.responses import PLAIN, HttpEndpoint, HttpExchange, HttpReply
from microsub.websub.hubs import PATH
from microsub.websub.store import callback_fields
from microsub.websub.subscriber import DUE, back_to_polling
from microsub.websub.subscriptions import (
    Callback,
    FeedSubscriptions,
    has_share,
    health_of,
    is_asked_for,
    lease_of,
    parted,
    signed,
    without,
)
from microsub.work import Bounds, Stream, calendar_of

if TYPE_CHECKING:
    from microsub.feeds import Feeds, Schedule
    from microsub.redis.protocol import Redis
    from microsub.websub.store import SubscriptionStore

log = structlog.get_logger(__name__)

LARGEST = LARGEST_BODY
"""Maximum bytes of a delivery, the same as for a polled document."""

WAITING = Bounds(messages=5_000, bytes=64 * 1024 * 1024)
"""Deliveries that may wait for a worker."""

HELD = 32 * 1024 * 1024
HELD_OF_HUB = LARGEST
"""Bytes of deliveries that a process reads at the same time, in total and of one hub."""

OF_CALLBACK = RateLimit("deliveries", "callback", 60)
BYTES_OF_CALLBACK = RateLimit("bytes of deliveries", "callback", LARGEST, 5 * MINUTE)
"""One document of the maximum size in the shortest interval of a poll."""
OF_HUB = RateLimit("deliveries", "hub", 3_000)
BYTES_OF_HUB = RateLimit("bytes of deliveries", "hub", 32 * 1024 * 1024)
"""Half of the maximum that may wait."""

DENIED_PAUSE = 7 * 86_400.0
"""Seconds until the next request to a hub that has denied a subscription."""
_LONGEST_REASON = 120


def _reply(status: int, text: str = "", retry_after: int | None = None) -> HttpReply:
    """The reply to a hub; `retry_after` in seconds if it should send again."""
    again = [] if retry_after is None else [(b"retry-after", b"%d" % retry_after)]
    return HttpReply(text.encode(), [*PLAIN, *again], status)


GONE = _reply(410, "there is no such subscription (any more)")
UNKNOWN = _reply(404, "this server didn't request this")
IGNORED = _reply(202)


class Callbacks:
    """Answers hubs. Raises StoreError if Redis isn't available: the hub should try again."""

    def __init__(
        self,
        redis: Redis,
        feeds: Feeds,
        schedule: Schedule,
        subscription_store: SubscriptionStore,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._feeds = feeds
        self._schedule = schedule
        self._store = subscription_store
        self._limiter = RateLimiter()
        self._clock = clock
        self._stream = Stream(redis, "pushed")
        self._due = calendar_of(redis, DUE)
        self._held: Counter[str] = Counter()

    # --- verification

    async def verify(self, place: str, params: Mapping[str, str]) -> HttpReply:
        """The reply to a GET at the callback `place`, the last part of its path."""
        found = await self._find(place)
        mode, topic = params.get("hub.mode", ""), params.get("hub.topic", "")
        answer = UNKNOWN
        if found is not None:
            feed_id, subscriptions, callback = found
            if mode == "denied" and topic == callback.topic:
                answer = await self._denied(feed_id, subscriptions, callback, params.get("hub.reason", ""))
            elif (
                is_wanted(subscriptions, callback)
                and is_asked_for(callback, mode, topic)
                and (challenge := params.get("hub.challenge"))
            ):
                is_kept = await self._verified(feed_id, subscriptions, callback, params.get("hub.lease_seconds"))
                answer = _reply(200, challenge) if is_kept else UNKNOWN
        if answer is UNKNOWN:
            WEBSUB_VERIFICATIONS.labels("refused").inc()
        return answer

    async def _verified(
        self, feed_id: str, subscriptions: FeedSubscriptions, callback: Callback, lease: str | None
    ) -> bool:
        """Record a hub's verification; False if it isn't expected any more."""
        feed, now = await self._feeds.get(feed_id), self._clock()
        if feed is None:
            return False
        others = without(subscriptions, [callback])
        if callback.ending is not None:
            left, changed, what = replace(subscriptions, callbacks=others), callback_fields(gone=(callback,)), "ended"
        else:
            kept = replace(callback, verified=now, until=now + lease_of(lease))
            left = replace(subscriptions, callbacks=(*others, kept), tries=0, next=0.0)
            changed, what = callback_fields(kept) | {"tries": None, "next": None}, "verified"
        why = "" if what == "verified" else feed.extra.get("push_why", "")
        health = health_of(left, feed, why, now)
        if not await self._store.write(feed_id, changed, health, read=callback):
            return False
        await self._due.note({feed_id: now})  # to end the earlier callbacks now instead of a few minutes later
        await back_to_polling(self._schedule, feed, health, now)
        await self._store.count(callback.hub, **{what: 1})
        WEBSUB_VERIFICATIONS.labels("subscribed" if what == "verified" else "unsubscribed").inc()
        log.info("a hub verified a subscription", feed=feed_id, hub=host_of(callback.hub), what=what)
        return True

    async def _denied(
        self, feed_id: str, subscriptions: FeedSubscriptions, callback: Callback, reason: str
    ) -> HttpReply:
        """Record that a hub ends or refuses a subscription, which it may at any time (WebSub, 5.2)."""
        feed, now = await self._feeds.get(feed_id), self._clock()
        if feed is None:
            return UNKNOWN
        left = replace(subscriptions, callbacks=without(subscriptions, [callback]))
        said = " ".join(reason.split())[:_LONGEST_REASON]
        health = health_of(left, feed, "the hub denied the subscription" + (f": {said}" if said else ""), now)
        changed = callback_fields(gone=(callback,)) | {"next": f"{now + DENIED_PAUSE:.3f}"}
        if await self._store.write(feed_id, changed, health, read=callback):
            await back_to_polling(self._schedule, feed, health, now)
            await self._store.count(callback.hub, denied=1)
            WEBSUB_VERIFICATIONS.labels("denied").inc()
            log.info("a hub denied a subscription", feed=feed_id, hub=host_of(callback.hub), why=said)
        return _reply(200)

    # --- delivery

    async def deliver(self, place: str, headers: Mapping[str, str], parts: AsyncIterator[bytes]) -> HttpReply:
        """The reply to a POST at the callback `place`; `headers` by lower-case name, the body in `parts`."""
        answer, end = await self._deliver(place, headers, parts)
        WEBSUB_DELIVERIES.labels(end).inc()
        return answer

    async def _deliver(
        self, place: str, headers: Mapping[str, str], parts: AsyncIterator[bytes]
    ) -> tuple[HttpReply, str]:
        found, now = await self._find(place), self._clock()
        # The hub may forget the callback of a feed that isn't wanted any more (WebSub, 7).
        if found is None or not found[1].to or not found[2].takes_deliveries(now):
            return GONE, "gone"
        feed_id, subscriptions, callback = found
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > LARGEST:
            return _too_large(), "too_large"
        if headers.get("content-encoding", "identity").strip().lower() != "identity":
            return _reply(415, "the body has a Content-Encoding: expected none"), "coded"
        hub = host_of(callback.hub)
        if not self._counted((OF_CALLBACK, OF_HUB), callback, hub) or not has_share(subscriptions.spent, now):
            return _busy(429), "limited"
        body = await self._read(parts, callback, hub)
        if not isinstance(body, bytes):
            return body
        signature = headers.get("x-hub-signature")
        if not signature:
            return _reply(403, "X-Hub-Signature is missing: the subscription has a secret"), "unsigned"
        if not signed(body, callback.secret, signature):
            await self._store.count(callback.hub, forged=1)
            log.warning("a delivery with a wrong signature was ignored", feed=feed_id, hub=hub)
            return IGNORED, "forged"
        kind = headers.get("content-type", "")[:200].encode("latin-1", "replace")
        message = {"feed": feed_id.encode(), "hub": callback.hub.encode(), "type": kind, "body": body}
        if not await self._stream.add_within(WAITING, [message]):
            return _busy(503), "full"
        return _reply(202), "accepted"

    def _counted(self, limits: tuple[RateLimit, RateLimit], callback: Callback, hub: str, weight: int = 1) -> bool:
        """Count for a callback and its hub; returns whether both are within their limits."""
        counts = [
            self._limiter.count(limit, subject, weight)
            for limit, subject in zip(limits, (callback.token, hub), strict=True)
        ]
        return all(counts)

    async def _read(self, parts: AsyncIterator[bytes], callback: Callback, hub: str) -> bytes | tuple[HttpReply, str]:
        """The body, or why reading stopped; counted as it arrives, complete or not. Raises TooSlow."""
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for part in parts:
                    if self._held.total() > HELD or self._held[hub] > HELD_OF_HUB:
                        return _busy(503), "full"
                    self._held[hub] += len(part)
                    body += part
                    if len(body) > LARGEST:
                        return _too_large(), "too_large"
                    if not self._counted((BYTES_OF_CALLBACK, BYTES_OF_HUB), callback, hub, len(part)):
                        return _busy(429), "limited"
            return bytes(body)
        except TimeoutError:
            raise TooSlow(f"the body was not complete after {BODY_SECONDS:g} seconds") from None
        finally:
            self._held[hub] -= len(body)
            if not self._held[hub]:
                del self._held[hub]

    async def _find(self, place: str) -> tuple[str, FeedSubscriptions, Callback] | None:
        """The feed, its subscriptions and the callback at that place; None if there is no callback."""
        named = parted(place)
        if named is None:
            return None
        feed_id, token = named
        subscriptions = await self._store.get(feed_id)
        callback = subscriptions.find(token)
        return None if callback is None else (feed_id, subscriptions, callback)


def is_wanted(subscriptions: FeedSubscriptions, callback: Callback) -> bool:
    """Whether a hub may verify a callback: its end always, its start only if the feed is followed."""
    return bool(subscriptions.to) or callback.ending is not None


def _too_large() -> HttpReply:
    return _reply(413, f"the body is too large: expected at most {LARGEST} bytes")


def _busy(status: int) -> HttpReply:
    return _reply(status, "too many deliveries: try again later", retry_after=60)


# --- the route: /websub/<feed>.<token> ---------------------------------------------------------------------------

_METHODS = "GET, POST"


class WebSubEndpoint(HttpEndpoint):
    """Answers hubs at every callback. The path is a secret, so it is never logged."""

    def __init__(self, callbacks: Callbacks) -> None:
        super().__init__()
        self._callbacks = callbacks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request; the log gets a path without the callback."""
        place = scope["path"].removeprefix(PATH)
        await super().__call__({**scope, "path": f"{PATH}***", "microsub.callback": place}, receive, send)

    async def answer(self, exchange: HttpExchange) -> HttpReply:
        """See `HttpEndpoint`."""
        exchange.action = "websub"
        scope = exchange.scope
        place: str = scope["microsub.callback"]
        if scope["method"] == "GET":
            params: dict[str, str] = {}
            for name, value in urlencoded(scope["query_string"]):
                params.setdefault(name, value)
            return await self._callbacks.verify(place, params)
        if scope["method"] != "POST":
            raise MethodNotAllowed(scope["method"], _METHODS)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        return await self._callbacks.deliver(place, headers, _parts(exchange.receive))


async def _parts(receive: Receive) -> AsyncIterator[bytes]:
    """The body of a request as it arrives. Raises InvalidRequest if the connection closes early."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise InvalidRequest("the body is incomplete: the connection was closed before its end")
        yield message.get("body", b"")
        if not message.get("more_body", False):
            return
