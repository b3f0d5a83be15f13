"""Apps' metadata and logos for the consent page, and the rate limits for fetching them.

An app's identifier is the URL of a page or document about it. It is fetched through the guarded door, and so is the
logo, which the page shows from our own copy: the reader's browser asks nobody but us. Whatever fails, the identifier is
left to be shown. How many are asked for whom is limited; logos are fetched only for people who are signed in.

Specs: https://indieauth.spec.indieweb.org/#client-information-discovery,
draft-ietf-oauth-client-id-metadata-document.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import structlog

from microsub.errors import FetchError, ParseError, ParserUnavailable, TooManyRequests
from microsub.fetch import Answered, FetchFailed, Sender, Sending, SendLimits
from microsub.formats.xml.media import type_of
from microsub.identity.limits import CLIENT, CLIENT_FAILURE, CONSENTS, METADATA_FOR_STRANGERS, METADATA_FOR_USERS
from microsub.identity.protocol.clients import ClientInfo, may_be_asked
from microsub.identity.protocol.links import same_origin, shown
from microsub.identity.store.credentials import AttemptCounts
from microsub.kit.identifiers import identifier
from microsub.kit.rate_limits import Place, RateLimiter, is_public, network_of, wide_network_of
from microsub.kit.texts import N_, Sentence, duration
from microsub.kit.ttl_cache import TtlCache
from microsub.parsing.pool import ParsePool

MOST = 200
"""Apps that one process remembers, with a logo of at most 48 KiB each."""

PATIENCE = 3.0
"""Seconds for which a page waits for an app, its logo included. What comes later is there for the next page."""

MAX_LOGO = 48 * 1024
_AT_ONCE = METADATA_FOR_USERS.at_once.most + METADATA_FOR_STRANGERS.at_once.most  # so that none waits for a turn
_DOCUMENT = SendLimits(total=4.0, body=256 * 1024)
_PICTURE = SendLimits(total=3.0, body=MAX_LOGO)
_ACCEPT = "application/json, text/html;q=0.9, application/xhtml+xml;q=0.8, */*;q=0.1"
# Pictures that can't hold a script or refer to anything; no SVG.
_KINDS = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class App:
    """An app as it is shown. `logo` is a `data:` URL of our own copy.

    `answered`: it has described itself; `is_claimed`: a program on the person's machine says that it is this app, and
    nothing proves it.
    """

    info: ClientInfo
    logo: str | None = None
    answered: bool = False
    is_claimed: bool = False

    @property
    def is_near(self) -> bool:
        """Whether its own address is on the person's machine."""
        return identifier(self.info.id).is_loopback

    @property
    def host(self) -> str:
        """Its host, with the port unless it is the default one."""
        where = identifier(self.info.id)
        return where.host if where.port is None else f"{where.host}:{where.port}"

    @property
    def address(self) -> str:
        """Its identifier, fit for a page, where that says more than `host`; else empty."""
        where = identifier(self.info.id)
        is_plain = (where.scheme == "https" or where.is_loopback) and (where.path, where.query) == ("/", "")
        return "" if is_plain else shown(self.info.id)

    @property
    def title(self) -> str:
        """A short name: what the app calls itself, else where it is at home."""
        if self.info.name:
            return self.info.name
        return self.info.id.partition("://")[2].removesuffix("/")


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asker:
    """A page's visitor: the client's address, and the signed-in user, empty for strangers."""

    address: str
    user: str = ""

    @property
    def subjects(self) -> tuple[str, ...]:
        """The keys to count requests by: one for all addresses of a customer, or of a user.

        An address that isn't of the internet may be that of a proxy that doesn't tell whom it speaks for: people who
        are signed in don't share a budget for that.
        """
        network = f"network {network_of(self.address)}"
        if not self.user:
            return (network,)
        return (network, f"user {self.user}") if is_public(self.address) else (f"user {self.user}",)

    @property
    def share(self) -> str:
        """The key of the share of name look-ups that is used.

        The person's, a stranger's network's, or nobody's where all strangers may come by one address.
        """
        if self.user:
            return f"user {self.user}"
        return f"network {wide_network_of(self.address) or network_of(self.address)}" if is_public(self.address) else ""


class ConsentLimit:
    """Rate limit on apps that send a signed-in user to the consent page, counted in Redis."""

    def __init__(self, counts: AttemptCounts) -> None:
        self._counts = counts

    async def count(self, user: str, now: float) -> None:
        """Count an app that has to be asked about itself. Raises TooManyRequests."""
        wait, _ = await self._counts.take(f"apps {user}", CONSENTS.pauses(), now)
        if wait:
            text = N_("Too many apps sent you here in a short time. Wait {time}.")
            raise TooManyRequests(Sentence(text, time=duration(wait)), wait)


class ClientApps:
    """Apps by identifier, remembered for a quarter of an hour. `clock` gives seconds.

    Belongs to one event loop. Any page chooses which app is asked, so others could be made targets: requests are
    limited, and users have a budget that strangers can't use up.
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
        """Whether `find` would send a request for the app of this canonical identifier."""
        return may_be_asked(client) and not self._known.has(client)

    async def find(self, client: str, asker: Asker) -> App:
        """The metadata of the app with this canonical identifier.

        Nothing but the identifier where it can't be asked, or takes longer than `patience`. Without its logo for
        strangers. Raises TooManyRequests where it would have to be asked, and isn't because of too many others.
        """
        app = App(ClientInfo(client))
        if not may_be_asked(client):
            return app
        try:
            async with asyncio.timeout(self._patience):
                app = await self._asked(self._known, client, asker, lambda: self._ask(client))
                if asker.user and app.info.logo:
                    return replace(app, logo=await self._logo(app.info.logo, asker))
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
        """Take a place for a request to `host`, and return what gives it back.

        Raises TooManyRequests.
        """
        bounds = METADATA_FOR_USERS if asker.user else METADATA_FOR_STRANGERS
        places: list[Place] = [(bounds.at_once_of_asker, subject) for subject in asker.subjects]
        places += [(bounds.at_once_to_host, host), (bounds.at_once, "")]
        if not all(self._limiter.has_room(*place) for place in places):
            raise TooManyRequests(N_("Too many apps are being looked up right now. Wait a few seconds."), 5)
        within = all(self._limiter.count(bounds.of_asker, subject) for subject in asker.subjects)
        # What is refused for its asker doesn't count for the host, which isn't asked.
        if not within or not self._limiter.count(bounds.to_host, host):
            raise TooManyRequests(N_("Too many apps were looked up within a minute. Wait a minute."), 60)
        return self._limiter.take(places)

    async def _ask(self, client: str) -> App:
        self._parser.warm()
        answer = await self._fetched(Sending(client, accept=_ACCEPT, limits=_DOCUMENT))
        # Where a redirect leads away, somebody else speaks: an open redirect must not lend them the app's name.
        places = [*(hop.url for hop in answer.hops), answer.final_url]
        if not all(same_origin(place, client) for place in places):
            raise ParseError(client, "its page is on another host")
        return App(await self._parser.client(client, answer), answered=True)

    async def _picture(self, url: str) -> str:
        """Our copy of a logo; empty for what is no picture that can do no harm. Raises FetchError."""
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
