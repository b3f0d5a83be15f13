"""What apps say of themselves, for the people who are asked to let them in.

An app's identifier is the URL of a page or document about it. It is fetched through the guarded door, and so is the
logo, which the page shows from our own copy: the reader's browser asks nobody but us. Whatever fails, the identifier is
left to be shown. Nothing is fetched for strangers, only for somebody who is signed in.

Specs: https://indieauth.spec.indieweb.org/#client-information-discovery,
draft-ietf-oauth-client-id-metadata-document.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass
from typing import Protocol

import structlog

from microsub.errors import FetchError, ParseError
from microsub.fetch import Answered, FetchFailed, Sending, SendLimits
from microsub.formats.indieauth.clients import ClientInfo, may_be_asked, read_client
from microsub.formats.indieauth.identifiers import same_origin
from microsub.services.identity.remembering import Remembering

LIFETIME = 900.0
FAILURES = 30.0
MOST = 200
"""Apps that one process remembers, with a logo of at most 48 KiB each."""

MAX_LOGO = 48 * 1024
_DOCUMENT = SendLimits(total=4.0, body=256 * 1024)
_PICTURE = SendLimits(total=3.0, body=MAX_LOGO)
_ACCEPT = "application/json, text/html;q=0.9, application/xhtml+xml;q=0.8, */*;q=0.1"
# Pictures that can't hold a script or refer to anything; no SVG.
_KINDS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class App:
    """An app as it is shown. `logo` is a `data:` URL of our own copy; `answered` says whether it told of itself."""

    info: ClientInfo
    logo: str | None = None
    answered: bool = False

    @property
    def title(self) -> str:
        """A short name: what the app calls itself, else where it is at home."""
        if self.info.name:
            return self.info.name
        return self.info.id.partition("://")[2].removesuffix("/")


class Sender(Protocol):
    """What is needed of `fetch.Fetcher`."""

    async def send(self, sending: Sending) -> Answered | FetchFailed:
        """Send a request; failures are values."""
        ...


class Clients:
    """Apps by identifier, remembered for a quarter of an hour."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._known: Remembering[App] = Remembering(lifetime=LIFETIME, failures=FAILURES, most=MOST, at_once=10)

    def would_ask(self, client: str) -> bool:
        """Whether `find` would send a request for the app of this canonical identifier."""
        return may_be_asked(client) and not self._known.has(client)

    async def find(self, client: str) -> App:
        """What the app of this canonical identifier says of itself; nothing but the identifier where it can't be asked.

        Takes seven seconds at most.
        """
        if not may_be_asked(client):
            return App(ClientInfo(client))
        try:
            return await self._known.get(client, lambda: self._ask(client))
        except (FetchError, ParseError) as error:
            log.info("an app says nothing of itself", client=client, why=type(error).__name__)
            return App(ClientInfo(client))

    async def _ask(self, client: str) -> App:
        answer = await self._sender.send(Sending(client, accept=_ACCEPT, limits=_DOCUMENT))
        if isinstance(answer, FetchFailed):
            raise FetchError(client, answer.reason, answer.detail)
        if answer.status != 200:
            raise FetchError(client, "status", f"answered {answer.status}")
        # Where a redirect leads away, somebody else speaks: an open redirect must not lend them the app's name.
        places = [*(hop.url for hop in answer.hops), answer.final_url]
        if not all(same_origin(place, client) for place in places):
            raise ParseError(client, "its page is on another host")
        arguments = (answer.body, client, answer.final_url, answer.content_type, answer.headers.get("link"))
        # Pages of strangers may take a second or two, however small they are.
        info = await asyncio.to_thread(read_client, *arguments)
        return App(info, await self._picture(info.logo) if info.logo else None, answered=True)

    async def _picture(self, url: str) -> str | None:
        """Our copy of a logo; None for what is too large, or no picture that can do no harm."""
        answer = await self._sender.send(Sending(url, accept="image/png, image/*;q=0.5", limits=_PICTURE))
        if isinstance(answer, FetchFailed) or answer.status != 200:
            return None
        body = answer.body
        kind = next((kind for mark, kind in _KINDS if body.startswith(mark)), None)
        if body[:4] == b"RIFF" and body[8:12] == b"WEBP":
            kind = "image/webp"
        return f"data:{kind};base64,{base64.b64encode(body).decode()}" if kind else None
