"""The one door out to the web: a GET with limits, validators and every hop checked (design: ingest, Limits and guards).

The feed cache (`microsub.cache`: time to live, one request for many askers) stands in front of `Fetcher.fetch`.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from contextlib import nullcontext

from microsub.fetch import headers
from microsub.fetch.network import Guard, Resolver, ThreadedResolver
from microsub.fetch.reading import read_body
from microsub.fetch.room import Room
from microsub.fetch.sending import Answered, Exchange, Sending
from microsub.fetch.spacing import HostPace
from microsub.fetch.targets import Target, follow, target_of
from microsub.fetch.transport import Outgoing, Reply, carrier
from microsub.fetch.values import (
    Fetched,
    FetchFailed,
    FetchRequest,
    FetchResult,
    FetchSettings,
    HopError,
    NotModified,
    Reason,
)
from microsub.formats.entry_id import mask_credentials

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PERMANENT = frozenset({301, 308})
_DOCUMENTS = frozenset({200, 203})
_MAX_VALIDATOR = 2048
_MAX_DETAIL = 300


class Fetcher:
    """Fetches documents. One instance serves a whole process; it keeps no cookies, connections or credentials."""

    def __init__(
        self,
        settings: FetchSettings,
        *,
        resolver: Resolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.time,
        room: Room | None = None,
        pace: HostPace | None = None,
    ) -> None:
        """`pace` is for documents (`fetch`): each hop of a redirect counts for its own host."""
        self._settings = settings
        self._pace = pace
        self._room = room if room is not None else Room()
        self._clock = clock
        guard = Guard(resolver if resolver is not None else ThreadedResolver(), settings.allow_private_networks)
        self._carrier = carrier(guard, proxy=settings.proxy, ssl_context=ssl_context, limits=settings.limits)

    async def fetch(self, request: FetchRequest) -> FetchResult:
        """GET a document, following redirects. Never raises for what publishers, networks or users' URLs do."""
        status: list[int] = []
        try:
            async with asyncio.timeout(self._settings.limits.total) as clock:
                return await self._follow(request, status, clock)
        except TimeoutError:
            seconds = self._settings.limits.total
            return self._failed(request, "timeout", f"the document was not complete after {seconds:g} s", status)
        except HopError as failure:
            return self._failed(request, failure.reason, failure.detail, status, failure.retry_after)

    async def send(self, sending: Sending) -> Answered | FetchFailed:
        """Send one request of any kind, and answer with the reply whatever its status. Never raises, as `fetch`."""
        return await Exchange(self._carrier, self._room, self._settings).send(sending)

    async def aclose(self) -> None:
        """Close connections."""
        await self._carrier.aclose()

    async def _follow(self, request: FetchRequest, status: list[int], clock: asyncio.Timeout) -> FetchResult:
        first = target = target_of(request.url)
        permanent = True
        for _ in range(self._settings.limits.redirects + 1):
            outgoing = Outgoing(target, self._fields(request, target))
            async with nullcontext() if self._pace is None else self._pace.turn(target.host):
                reply = await self._carrier.ask(outgoing, self._settings.limits.idle)
                status[:] = [reply.status]
                try:
                    location = headers.first(reply.fields, b"location")
                    if reply.status not in _REDIRECTS or location is None:
                        moved_to = target.with_credentials() if permanent and target != first else None
                        return await self._conclude(request, target, reply, moved_to, permanent, clock)
                finally:
                    await reply.aclose()
            permanent = permanent and reply.status in _PERMANENT
            target = follow(target, location)
        raise HopError("redirects", f"more than {self._settings.limits.redirects} redirects")

    def _fields(self, request: FetchRequest, target: Target) -> list[tuple[bytes, bytes]]:
        agent = headers.user_agent(self._settings.user_agent, self._settings.about, request.subscribers)
        fields = headers.of_request(target.authority, agent, request.accept)
        for name, value in (
            (b"If-None-Match", headers.encodable(request.etag)),
            (b"If-Modified-Since", headers.encodable(request.last_modified)),
            (b"Authorization", target.authorization()),
        ):
            if value is not None:
                fields.append((name, value))
        return fields

    async def _conclude(
        self,
        request: FetchRequest,
        target: Target,
        reply: Reply,
        moved_to: str | None,
        permanent: bool,
        clock: asyncio.Timeout,
    ) -> FetchResult:
        now = self._clock()
        raw = reply.fields
        fields = headers.readable(raw)
        etag, last_modified = _validator(raw, b"etag"), _validator(raw, b"last-modified")
        if reply.status == 304 and (request.etag or request.last_modified):
            return NotModified(
                request.url,
                etag or request.etag,
                last_modified or request.last_modified,
                headers.max_age(fields, now),
                moved_to,
            )
        if reply.status not in _DOCUMENTS:
            return self._refused(request, reply.status, fields, permanent)
        body, room = await read_body(reply, fields, self._settings.limits.body, self._room, clock)
        return Fetched(
            url=request.url,
            final_url=target.url,
            status=reply.status,
            headers=fields,
            body=body,
            content_type=fields.get("content-type"),
            etag=etag,
            last_modified=last_modified,
            max_age=headers.max_age(fields, now),
            moved_to=moved_to,
            room=room,
        )

    def _refused(self, request: FetchRequest, status: int, fields: dict[str, str], permanent: bool) -> FetchFailed:
        wait = headers.retry_after(fields.get("retry-after"), self._clock())
        reason: Reason = "http"
        if status == 410 and permanent:
            # Behind a temporary redirect it is the other address that has gone.
            reason = "gone"
        elif status == 429 or (status == 503 and wait is not None):
            reason = "throttled"
        detail = f"the server answered {status}"
        return FetchFailed(mask_credentials(request.url), reason, detail, status, wait)

    def _failed(
        self,
        request: FetchRequest,
        reason: Reason,
        detail: str,
        status: list[int],
        retry_after: float | None = None,
    ) -> FetchFailed:
        last = status[0] if status else None
        return FetchFailed(mask_credentials(request.url), reason, detail[:_MAX_DETAIL], last, retry_after)


def _validator(raw: headers.RawHeaders, name: bytes) -> str | None:
    """A validator worth keeping and sending back; what is longer than any real one is none."""
    value = headers.first(raw, name)
    return value if value is not None and len(value) <= _MAX_VALIDATOR else None
