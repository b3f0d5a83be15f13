"""Requests to endpoints: any method, a form, a token; the reply whatever its status (RFC 9110, RFC 6750).

A token and what stands in a form are secrets. They go to the one origin that they are meant for, by https, or in the
clear to networks that the admin lists; never along with a redirect.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol
from urllib.parse import urlencode

from microsub.fetch import headers
from microsub.fetch.reading import read_body
from microsub.fetch.room import Room
from microsub.fetch.targets import Target, follow, target_of
from microsub.fetch.transport import Carrier, Outgoing, Reply
from microsub.fetch.values import FetchFailed, FetchSettings, HopError
from microsub.formats.entry_id import mask_credentials

Method = Literal["GET", "HEAD", "POST"]

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PERMANENT = frozenset({301, 308})
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MAX_DETAIL = 300


@dataclass(frozen=True, slots=True)
class SendLimits:
    """Bounds of one exchange, redirects included: `total` in seconds, `body` in bytes after decompression."""

    total: float = 5.0
    body: int = 64 * 1024
    redirects: int = 5


@dataclass(frozen=True, slots=True)
class Sending:
    """One request to an endpoint. A `form` makes sense in a POST alone; neither it nor `bearer` is shown by `repr`.

    `in_clear` says that nothing in the form is secret, so that it may go by http. `web_ports`: it goes to ports 80 and
    443 alone, but in networks that the admin lists.
    """

    url: str
    method: Method = "GET"
    form: Mapping[str, str] | Sequence[tuple[str, str]] | None = field(default=None, repr=False)
    bearer: str | None = field(default=None, repr=False)
    accept: str = "application/json"
    limits: SendLimits = SendLimits()
    in_clear: bool = False
    web_ports: bool = False

    @property
    def is_secret(self) -> bool:
        """Whether it holds what nobody on the way may read."""
        return self.bearer is not None or (self.form is not None and not self.in_clear)


@dataclass(frozen=True, slots=True)
class Hop:
    """A redirect: where it leads, without credentials, and whether for good (301, 308)."""

    url: str
    permanent: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """A reply of any status. `headers` have lower-case names, several values joined with a comma; `final_url` is where
    it came from, without credentials; `hops` are the redirects that led there.

    A POST follows none: its 3xx is an answer like any other. `room` is what the body takes of the process's room.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    final_url: str
    hops: tuple[Hop, ...] = ()
    room: object = field(default=None, compare=False, repr=False)

    @property
    def content_type(self) -> str | None:
        """The declared type, with its parameters."""
        return self.headers.get("content-type")


class Exchange:
    """Sends by a carrier, which guards every connection, within the process's room for bodies."""

    def __init__(self, carrier: Carrier, room: Room, settings: FetchSettings) -> None:
        self._carrier = carrier
        self._room = room
        self._settings = settings

    async def send(self, sending: Sending) -> Answered | FetchFailed:
        """The reply, whatever its status. Never raises for what servers, networks or people's URLs do."""
        try:
            async with asyncio.timeout(sending.limits.total) as clock:
                return await self._follow(sending, clock)
        except TimeoutError:
            return _failed(sending, HopError("timeout", f"no complete answer after {sending.limits.total:g} s"))
        except HopError as failure:
            return _failed(sending, failure)

    async def _follow(self, sending: Sending, clock: asyncio.Timeout) -> Answered:
        first = target = _target(sending)
        hops: list[Hop] = []
        while True:
            reply = await self._carrier.ask(self._outgoing(sending, target), self._settings.limits.idle)
            try:
                location = headers.first(reply.fields, b"location")
                if sending.method == "POST" or reply.status not in _REDIRECTS or location is None:
                    return await self._read(sending, target, reply, tuple(hops), clock)
            finally:
                await reply.aclose()
            target = follow(target, location)
            hops.append(Hop(target.url, reply.status in _PERMANENT))
            if len(hops) > sending.limits.redirects:
                raise HopError("redirects", f"more than {sending.limits.redirects} redirects")
            if sending.bearer is not None and _origin(target) != _origin(first):
                # Without the token the answer would be about something else.
                raise HopError("redirects", f"a token isn't sent along to {target.scheme}://{target.authority}")

    async def _read(
        self, sending: Sending, target: Target, reply: Reply, hops: tuple[Hop, ...], clock: asyncio.Timeout
    ) -> Answered:
        fields = headers.readable(reply.fields)
        if sending.method == "HEAD":
            return Answered(reply.status, fields, b"", target.url, hops)
        body, room = await read_body(reply, fields, sending.limits.body, self._room, clock)
        return Answered(reply.status, fields, body, target.url, hops, room)

    def _outgoing(self, sending: Sending, target: Target) -> Outgoing:
        agent = headers.user_agent(self._settings.user_agent, self._settings.about, 0)
        fields = headers.of_request(target.authority, agent, sending.accept)
        body = b""
        if sending.method == "POST":
            body = urlencode(sending.form or {}, errors="replace").encode("ascii")
            fields.append((b"Content-Type", b"application/x-www-form-urlencoded"))
            fields.append((b"Content-Length", str(len(body)).encode("ascii")))
        if sending.bearer is not None:
            fields.append((b"Authorization", b"Bearer " + sending.bearer.encode("ascii")))
        elif (authorization := target.authorization()) is not None:
            fields.append((b"Authorization", authorization))
        inside = sending.is_secret and target.scheme != "https"
        return Outgoing(target, fields, sending.method, body, inside, sending.web_ports)


def _target(sending: Sending) -> Target:
    if _CONTROL.search(sending.url):
        raise HopError("bad_url", "the URL has a control character in it")
    if sending.bearer is not None and not _TOKEN.fullmatch(sending.bearer):
        raise HopError("protocol", "invalid token, expected characters that a header may hold")
    if sending.form is not None and sending.method != "POST":
        raise ValueError("a form goes with a POST")
    return target_of(sending.url)


def _origin(target: Target) -> tuple[str, str, int]:
    return target.scheme, target.host, target.port


def _failed(sending: Sending, failure: HopError) -> FetchFailed:
    return FetchFailed(mask_credentials(sending.url), failure.reason, failure.detail[:_MAX_DETAIL])


class Sender(Protocol):
    """What sends requests: `Fetcher`, and what tests put in its place."""

    async def send(self, sending: Sending) -> Answered | FetchFailed:
        """Send a request; failures are values."""
        ...
