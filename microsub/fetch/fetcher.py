"""Fetches documents and sends requests: limits, validators, and a check of every hop.

The feed cache (`microsub.cache`: time to live, one request for many callers) uses `Fetcher.fetch`.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TypeVar
from urllib.parse import urlencode

from microsub.base.urls import asked_host, mask_credentials
from microsub.fetch import headers
from microsub.fetch.body import Room, read_body
from microsub.fetch.network import Guard, IsOurs, Resolver, ThreadedResolver, nobodys
from microsub.fetch.spacing import HostPace
from microsub.fetch.targets import HopTarget, follow, target_of
from microsub.fetch.transport import HttpClient, Outgoing, Reply
from microsub.fetch.values import (
    Answered,
    Fetched,
    FetchFailed,
    FetchRequest,
    FetchResult,
    FetchSettings,
    Hop,
    HopError,
    NotModified,
    Reason,
    Sending,
)

T = TypeVar("T")

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PERMANENT = frozenset({301, 308})
_MOST_REDIRECTS = 5
_DOCUMENTS = frozenset({200, 203})
_MAX_VALIDATOR = 2048
_MAX_DETAIL = 300
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


SignInOf = Callable[[str, str, str], Awaitable[Sequence[tuple[str, str]] | None]]
"""Maps a user, the id of a sign-in of theirs and an origin to the headers to send; None if they can't be read."""


async def _no_sign_in(_user: str, _name: str, _origin: str) -> None:
    return None


class Fetcher:
    """Fetches documents, for a whole process; keeps no cookies, connections or credentials."""

    def __init__(
        self,
        settings: FetchSettings,
        *,
        resolver: Resolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.time,
        room: Room | None = None,
        pace: HostPace | None = None,
        is_ours: IsOurs = nobodys,
        sign_in_of: SignInOf = _no_sign_in,
    ) -> None:
        """`pace` is for documents (`fetch`): each redirect counts for its own host; `is_ours`: see `Guard`.

        `sign_in_of` reads the sealed credentials that an address names.
        """
        self._sign_in_of = sign_in_of
        self._settings = settings
        self._pace = pace
        self._room = room if room is not None else Room()
        self._clock = clock
        resolve = resolver if resolver is not None else ThreadedResolver()
        guard = Guard(resolve, settings.allow_private_networks, is_ours)
        self._http = HttpClient(guard, settings, ssl_context)

    async def fetch(self, request: FetchRequest) -> FetchResult:
        """GET a document, following redirects. Failures are returned, never raised."""
        statuses: list[int] = []
        try:
            async with asyncio.timeout(self._settings.total) as clock:
                first = target_of(request.url)
                if request.signs_in and first.sign_in is not None:
                    first = replace(first, headers=await self._headers_of(first, *first.sign_in))
                return await self._follow(
                    first,
                    lambda target: Outgoing(target, self._fields(request, target)),
                    lambda target, reply, hops: self._conclude(request, first, target, reply, hops, clock),
                    _MOST_REDIRECTS,
                    statuses,
                    self._pace,
                )
        except TimeoutError:
            failure = HopError("timeout", f"the document was not complete after {self._settings.total:g} s")
        except HopError as error:
            failure = error
        return _failed(request.url, failure, statuses[-1] if statuses else None)

    async def send(self, sending: Sending) -> Answered | FetchFailed:
        """Send one request of any kind; returns the reply whatever its status. Never raises, like `fetch`."""
        try:
            async with asyncio.timeout(sending.limits.total) as clock:
                first = _target(sending)
                return await self._follow(
                    first,
                    lambda target: self._outgoing(sending, first, target),
                    lambda target, reply, hops: self._read(sending, target, reply, hops, clock),
                    -1 if sending.method == "POST" else sending.limits.redirects,
                )
        except TimeoutError:
            failure = HopError("timeout", f"no complete reply after {sending.limits.total:g} s")
        except HopError as error:
            failure = error
        return _failed(sending.url, failure)

    async def aclose(self) -> None:
        """Close connections."""
        await self._http.aclose()

    async def _follow(
        self,
        target: HopTarget,
        outgoing: Callable[[HopTarget], Outgoing],
        conclude: Callable[[HopTarget, Reply, tuple[Hop, ...]], Awaitable[T]],
        redirects: int,
        statuses: list[int] | None = None,
        pace: HostPace | None = None,
    ) -> T:
        """Return what `conclude` makes of the last reply, after at most `redirects` redirects.

        With -1 the first reply is the last. All statuses are added to `statuses`.
        """
        hops: list[Hop] = []
        while True:
            async with nullcontext() if pace is None else pace.turn(asked_host(target.host)):
                reply = await self._http.ask(outgoing(target), self._settings.idle)
                try:
                    if statuses is not None:
                        statuses.append(reply.status)
                    location = headers.first(reply.fields, b"location")
                    if redirects < 0 or reply.status not in _REDIRECTS or location is None:
                        return await conclude(target, reply, tuple(hops))
                finally:
                    await reply.aclose()
            target = follow(target, location)
            hops.append(Hop(target.url, reply.status in _PERMANENT))
            if len(hops) > redirects:
                raise HopError("redirects", f"more than {redirects} redirects")

    async def _headers_of(self, target: HopTarget, user: str, name: str) -> tuple[tuple[bytes, bytes], ...]:
        found = await self._sign_in_of(user, name, target.origin_text)
        if found is None:
            raise HopError("sign_in", "what this server signs in with can't be read any more; give it again")
        return tuple((name.encode("ascii"), value.encode("ascii")) for name, value in found)

    # --- documents

    def _fields(self, request: FetchRequest, target: HopTarget) -> list[tuple[bytes, bytes]]:
        own = self._settings
        agent = headers.user_agent(own.user_agent, own.about, request.subscribers, request.user_agent)
        fields = headers.of_request(target.authority, agent, request.accept)
        for name, value in (
            (b"If-None-Match", headers.encodable(request.etag)),
            (b"If-Modified-Since", headers.encodable(request.last_modified)),
            (b"Authorization", target.authorization()),
        ):
            if value is not None:
                fields.append((name, value))
        return [*fields, *target.headers]

    async def _conclude(
        self,
        request: FetchRequest,
        first: HopTarget,
        target: HopTarget,
        reply: Reply,
        hops: tuple[Hop, ...],
        clock: asyncio.Timeout,
    ) -> FetchResult:
        now = self._clock()
        raw, fields = reply.fields, headers.readable(reply.fields)
        permanent = all(hop.permanent for hop in hops)
        moved_to = target.with_credentials() if permanent and target != first else None
        etag, last_modified = _validator(raw, b"etag"), _validator(raw, b"last-modified")
        max_age = headers.max_age(fields, now)
        if reply.status == 304 and (request.etag or request.last_modified):
            etag, last_modified = etag or request.etag, last_modified or request.last_modified
            return NotModified(request.url, etag, last_modified, max_age, moved_to)
        if reply.status not in _DOCUMENTS:
            return _refused(request, reply.status, headers.retry_after(fields.get("retry-after"), now), permanent)
        body, room = await read_body(reply, fields, self._settings.body, self._room, clock)
        return Fetched(
            url=request.url,
            final_url=target.url,
            status=reply.status,
            headers=fields,
            body=body,
            content_type=fields.get("content-type"),
            etag=etag,
            last_modified=last_modified,
            max_age=max_age,
            moved_to=moved_to,
            room=room,
        )

    # --- requests to endpoints

    def _outgoing(self, sending: Sending, first: HopTarget, target: HopTarget) -> Outgoing:
        agent = headers.user_agent(self._settings.user_agent, self._settings.about, 0)
        fields = headers.of_request(target.authority, agent, sending.accept)
        body = sending.body or b""
        if sending.method == "POST":
            if sending.body is None:
                body = urlencode(sending.form or {}, errors="replace").encode("ascii")
            fields.append((b"Content-Type", sending.content_type.encode("ascii")))
            fields += [(name.encode("ascii"), value.encode("ascii")) for name, value in sending.headers]
            fields.append((b"Content-Length", str(len(body)).encode("ascii")))
        if sending.bearer is not None:
            if target.origin != first.origin:
                # Without the token, the reply would mean something else.
                raise HopError(
                    "redirects", f"a token isn't sent to another origin: {target.scheme}://{target.authority}"
                )
            fields.append((b"Authorization", b"Bearer " + sending.bearer.encode("ascii")))
        elif (authorization := target.authorization()) is not None:
            fields.append((b"Authorization", authorization))
        inside = sending.is_secret and target.scheme != "https"
        return Outgoing(target, fields, sending.method, body, inside, sending.web_ports)

    async def _read(
        self, sending: Sending, target: HopTarget, reply: Reply, hops: tuple[Hop, ...], clock: asyncio.Timeout
    ) -> Answered:
        fields = headers.readable(reply.fields)
        if sending.method == "HEAD" or not sending.limits.body:
            return Answered(reply.status, fields, b"", target.url, hops)
        body, room = await read_body(reply, fields, sending.limits.body, self._room, clock)
        return Answered(reply.status, fields, body, target.url, hops, room)


def _target(sending: Sending) -> HopTarget:
    if _CONTROL.search(sending.url):
        raise HopError("bad_url", "the URL contains a control character")
    if sending.bearer is not None and not _TOKEN.fullmatch(sending.bearer):
        raise HopError("protocol", "invalid token: expected only characters that a header can contain")
    if (sending.form is not None or sending.body is not None) and sending.method != "POST":
        raise ValueError("a form or a body needs a POST")
    return target_of(sending.url)


def _validator(raw: headers.RawHeaders, name: bytes) -> str | None:
    """A validator that is worth storing; overlong ones are ignored."""
    value = headers.first(raw, name)
    return value if value is not None and len(value) <= _MAX_VALIDATOR else None


def _refused(request: FetchRequest, status: int, wait: float | None, permanent: bool) -> FetchFailed:
    reason: Reason = "http"
    if status == 410 and permanent:
        # After a temporary redirect, only the other address is gone.
        reason = "gone"
    elif status == 429 or (status == 503 and wait is not None):
        reason = "throttled"
    return _failed(request.url, HopError(reason, f"the server answered {status}", wait), status)


def _failed(url: str, failure: HopError, status: int | None = None) -> FetchFailed:
    return FetchFailed(mask_credentials(url), failure.reason, failure.detail[:_MAX_DETAIL], status, failure.retry_after)
