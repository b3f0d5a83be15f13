"""Apps' metadata and logos for the consent page, and the rate limits for fetching them.

An app's identifier is the URL of a page or document about it. The guarded fetcher requests it, and also the logo. The
page shows our own copy of it: the user's browser sends requests only to us. If anything fails, the page shows the
identifier. Requests are limited per asker; logos are fetched only for signed-in users.

Specs: https://indieauth.spec.indieweb.org/#client-information-discovery, draft-ietf-oauth-client-id-metadata-document.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import structlog

from microsub.base.errors import FetchError, ParseError, ParserUnavailable, TooManyRequests
from microsub.base.identifiers import identifier, same_origin
from microsub.base.rate_limits import RateLimiter, Slot, is_public, network_of
from microsub.base.texts import N_, Sentence, duration
from microsub.base.ttl_cache import TtlCache
from microsub.fetch import Answered, FetchFailed, Sender, Sending, SendLimits
from microsub.formats.xml.media import type_of
from microsub.identity.limits import CLIENT, CLIENT_FAILURE, CONSENTS, METADATA_FOR_STRANGERS, METADATA_FOR_USERS
from microsub.identity.protocol.clients import READ_CLIENT, App, may_be_asked
from microsub.parsing.pool import ParsePool
from microsub.redis.attempts import AttemptCounts

MOST = 200
"""Maximum number of apps cached by one process, each with a logo of at most 48 KiB."""

PATIENCE = 3.0
"""Seconds that a page waits for an app, including its logo. A later result is used by the next page."""

MAX_LOGO = 48 * 1024
_AT_ONCE = METADATA_FOR_USERS.at_once.most + METADATA_FOR_STRANGERS.at_once.most  # so that none waits for a turn
_DOCUMENT = SendLimits(total=4.0, body=256 * 1024)
_PICTURE = SendLimits(total=3.0, body=MAX_LOGO)
_ACCEPT = "application/json, text/html;q=0.9, application/xhtml+xml;q=0.8, */*;q=0.1"
# Image types that can't contain scripts or references, so not SVG.
_KINDS = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

log = structlog.get_logger(__name__)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asker:
    """A page's visitor: the client's address, and the signed-in user, empty without a session."""

    address: str
    user: str = ""

    @property
    def subjects(self) -> tuple[str, ...]:
        """The keys by which requests are counted: one for all addresses of a customer, or of a user.

        A private address may be that of a proxy that hides its clients, so signed-in users don't share a limit for it.
        """
        network = f"network {network_of(self.address)}"
        if not self.user:
            return (network,)
        return (network, f"user {self.user}") if is_public(self.address) else (f"user {self.user}",)


class ConsentLimit:
    """Rate limit for apps that send a signed-in user to the consent page, counted in Redis."""

    def __init__(self, counts: AttemptCounts) -> None:
        self._counts = counts

    async def count(self, user: str, now: float) -> None:
        """Count an app whose metadata must be fetched. Raises TooManyRequests."""
        wait, _ = await self._counts.take(f"apps {user}", CONSENTS.pauses(), now)
        if wait:
            text = N_("Too many apps sent you here in a short time. Wait {time}.")
            raise TooManyRequests(Sentence(text, time=duration(wait)), wait)


class ClientApps:
    """Apps by identifier, cached for a quarter of an hour. `clock` returns seconds.

    Belongs to one event loop. Any page can choose the app to be fetched, and could attack other sites that way: so
    requests are limited, and users have a limit that visitors without a session can't use up.
    """

    def __init__(
        self,
        sender: Sender,
        parser: ParsePool,
        *,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sender = sender
        self._parser = parser
        self._patience = patience
        self._limiter = RateLimiter(clock)
        lifetimes = {"lifetime": CLIENT, "failures": CLIENT_FAILURE}
        self._known: TtlCache[App] = TtlCache(**lifetimes, most=MOST, at_once=_AT_ONCE, clock=clock)
        self._logos: TtlCache[str] = TtlCache(**lifetimes, most=MOST, at_once=_AT_ONCE, clock=clock)

    def would_ask(self, client: str) -> bool:
        """Whether `find` would send a request for the app with this canonical identifier."""
        return may_be_asked(client) and not self._known.has(client)

    async def find(self, client: str, asker: Asker) -> App:
        """The metadata of the app with this canonical identifier.

        Only the identifier if the app can't be reached or takes longer than `patience`. Without the logo for visitors
        without a session. Raises TooManyRequests if a request would be needed but the limits are reached.
        """
        app = App(client)
        if not may_be_asked(client):
            return app
        try:
            async with asyncio.timeout(self._patience):
                app = await self._asked(self._known, client, asker, lambda: self._ask(client))
                if asker.user and app.logo:
                    return replace(app, picture=await self._logo(app.logo, asker))
        except (FetchError, ParseError, ParserUnavailable) as error:
            log.info("the metadata of an app could not be read", client=client, why=type(error).__name__)
        except TimeoutError:
            log.info("the metadata of an app timed out", client=client)
        return app

    async def _asked(self, kept: TtlCache[T], url: str, asker: Asker, find: Callable[[], Awaitable[T]]) -> T:
        """The cached result for `url`, otherwise that of `find`, within the limits."""
        if kept.has(url) or kept.is_sought(url):
            return await kept.get(url, find)
        leave = self._enter(asker, identifier(url).host)

        async def placed() -> T:
            try:
                return await find()
            finally:
                leave()

        return await kept.get(url, placed)

    async def _logo(self, url: str, asker: Asker) -> str | None:
        try:
            return await self._asked(self._logos, url, asker, lambda: self._picture(url)) or None
        except (FetchError, TooManyRequests):
            return None

    def _enter(self, asker: Asker, host: str) -> Callable[[], None]:
        """Reserve a slot for a request to `host`, and return a function that frees it.

        Raises TooManyRequests.
        """
        bounds = METADATA_FOR_USERS if asker.user else METADATA_FOR_STRANGERS
        slots: list[Slot] = [(bounds.at_once_of_asker, subject) for subject in asker.subjects]
        slots += [(bounds.at_once_to_host, host), (bounds.at_once, "")]
        if not all(self._limiter.has_room(*slot) for slot in slots):
            raise TooManyRequests(N_("Too many apps are being looked up right now. Wait a few seconds."), 5)
        within = all(self._limiter.count(bounds.of_asker, subject) for subject in asker.subjects)
        # A request refused for its asker doesn't count for the host, because it isn't sent.
        if not within or not self._limiter.count(bounds.to_host, host):
            raise TooManyRequests(N_("Too many apps were looked up within a minute. Wait a minute."), 60)
        return self._limiter.take(slots)

    async def _ask(self, client: str) -> App:
        self._parser.warm()
        answer = await self._fetched(Sending(client, accept=_ACCEPT, limits=_DOCUMENT))
        # After a redirect to another host, the document isn't the app's own: open redirects must not fake its name.
        places = [*(hop.url for hop in answer.hops), answer.final_url]
        if not all(same_origin(place, client) for place in places):
            raise ParseError(client, "its page is on another host")
        page = answer.final_url
        said = client, page, answer.content_type, answer.headers.get("link")
        return replace(await self._parser.run(READ_CLIENT, page, answer.body, *said), answered=True)

    async def _picture(self, url: str) -> str:
        """Our copy of a logo; empty unless it is a harmless image. Raises FetchError."""
        body = (await self._fetched(Sending(url, accept="image/png, image/*;q=0.5", limits=_PICTURE))).body
        kind = type_of(body)
        return f"data:{kind};base64,{base64.b64encode(body).decode()}" if kind in _KINDS else ""

    async def _fetched(self, sending: Sending) -> Answered:
        answer = await self._sender.send(sending)
        if isinstance(answer, FetchFailed):
            raise FetchError(sending.url, answer.reason, answer.detail)
        if answer.status != 200:
            raise FetchError(sending.url, "status", f"answered {answer.status}")
        return answer
