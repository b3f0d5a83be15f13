"""Receives webmentions: checks what it can without fetching a page, and adds them to their user's list.

Spec: https://www.w3.org/TR/webmention/#request-verification. Mistakes that the sender can see are refused at once; a
worker checks the source later. Senders that a user has blocked aren't notified: their webmentions are dropped.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from microsub.base.errors import InvalidRequest, MethodNotAllowed, NotFound, TooLarge, TooManyRequests
from microsub.base.metrics import WEBMENTIONS
from microsub.base.plaintext import escaped
from microsub.base.rate_limits import RateLimit, RateLimiter, is_public, network_of
from microsub.base.urls import LONGEST_FOLLOWED, host_of, mask_credentials, normalise_url, parts_of, web_address
from microsub.model.reader import GLOBAL, NAME, NOTIFICATIONS
from microsub.web.headers import client_of
from microsub.web.params import collect, in_turn, read_body, urlencoded
from microsub.web.paths import WEBMENTION
from microsub.web.responses import CORS, PLAIN, HttpEndpoint, HttpExchange, HttpReply
from microsub.web.types import FORM
from microsub.webmention.mention import Mention, covers, id_of, is_refused
from microsub.webmention.store import Written

if TYPE_CHECKING:
    from microsub.accounts import Accounts
    from microsub.configuration.effective import AllSettings, EffectiveSettings
    from microsub.timelines import Rules
    from microsub.webmention.store import MentionStore

MENTIONS_OF_NETWORK = RateLimit("webmentions", "network", 60)
MENTIONS_OF_SITE = RateLimit("webmentions", "host of the source", 30)
MENTIONS_OF_USER = RateLimit("webmentions", "user whose page is meant", 120)
MENTION_PAGES = 10.0
"""How long the users' pages that receive webmentions are cached."""

log = structlog.get_logger(__name__)

_ADDRESS = "an absolute http or https URL"
_NOT_TAKEN = "'target' can't be used: this server doesn't receive webmentions for that page"
_TRIES = 3
"""Attempts to write a webmention that another process writes at the same time."""


OwnPages = dict[str, list[tuple[str, str]]]
"""Addresses of users' pages with their users, by host, the longest address first."""


class MentionReceiver:
    """Receives webmentions. `hosted_profile` is the page of a user without a site, `own` this server's address."""

    def __init__(
        self,
        store: MentionStore,
        accounts: Accounts,
        rules: Rules,
        settings: EffectiveSettings,
        *,
        hosted_profile: Callable[[str], str] = lambda _: "",
        own: str = "",
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._accounts = accounts
        self._rules = rules
        self._settings = settings
        self._hosted_profile = hosted_profile
        self._own = _origin(own)
        self._limiter = RateLimiter(steady)
        self._clock = clock
        self._steady = steady
        self._pages: OwnPages = {}
        self._pages_until = float("-inf")

    async def receive(self, client: str, user: str | None, source: str, target: str) -> None:
        """Receive a webmention from the network address `client`, for pages of `user`, or of any user.

        Raises InvalidRequest for all mistakes of the sender, TooManyRequests, StoreError.
        """
        if is_public(client):
            self._count(MENTIONS_OF_NETWORK, network_of(client))
        check_pair(source, target)
        effective = await self._settings.everything()
        pages = (await self._own_pages(effective)).get(host_of(target), ())
        owners = (name for page, name in pages if user in {None, name} and covers(page, target))
        if (owner := next(owners, None)) is None:
            raise InvalidRequest(_NOT_TAKEN)
        if self._own and _origin(source) == self._own:
            raise InvalidRequest("'source' can't be used: it is on this server itself")
        if is_refused(source, effective.instance.webmention.refuse):
            raise InvalidRequest("'source' can't be used: this server refuses webmentions from that site")
        self._count(MENTIONS_OF_SITE, host_of(source))
        self._count(MENTIONS_OF_USER, owner)
        if await is_blocked(self._rules, owner, source):
            WEBMENTIONS.labels("blocked").inc()
            log.info("a webmention from a blocked site was dropped", user=owner, site=host_of(source))
            return
        await self._keep(owner, source, target)
        WEBMENTIONS.labels("accepted").inc()
        log.info("a webmention was received", user=owner, site=host_of(source))

    async def _keep(self, user: str, source: str, target: str) -> None:
        now = self._clock()
        for _ in range(_TRIES):
            before = await self._store.get(user, id_of(source, target))
            if before is not None and before.state == "rejected":
                return
            fresh = replace(before or Mention(source, target, now), source=source, received=now, tries=0)
            match await self._store.queue(user, fresh, before, now):
                case Written.DONE:
                    return
                case Written.NO_USER:  # removed since the pages were looked up
                    raise InvalidRequest(_NOT_TAKEN)
                case Written.FULL:
                    raise TooManyRequests("too many webmentions for this user are waiting: send it again later", 600)
        raise TooManyRequests("the same webmention is being received several times: send it again later", 60)

    async def _own_pages(self, effective: AllSettings) -> OwnPages:
        if self._steady() >= self._pages_until:
            found: OwnPages = defaultdict(list)
            for user in await self._accounts.users():
                own = effective.of_user(user.name).webmention
                if user.disabled is None and own.receive:
                    for address in filter(None, (user.me or self._hosted_profile(user.name), *own.pages)):
                        found[host_of(address)].append((address, user.name))
            self._pages = {host: sorted(pages, key=lambda one: (-len(one[0]), one)) for host, pages in found.items()}
            self._pages_until = self._steady() + MENTION_PAGES
        return self._pages

    def _count(self, limit: RateLimit, subject: str) -> None:
        try:
            self._limiter.require(limit, subject)
        except TooManyRequests:
            WEBMENTIONS.labels("limited").inc()
            raise


def check_pair(source: str, target: str) -> None:
    """Raise InvalidRequest if the pair can't be a webmention for any user (3.2.1)."""
    for name, url in (("source", source), ("target", target)):
        if len(url) > LONGEST_FOLLOWED:
            raise InvalidRequest(
                f"'{name}' is too long: found {len(url)} characters, expected at most {LONGEST_FOLLOWED}"
            )
        if web_address(url) != url:
            shown = escaped(mask_credentials(url)[:80])
            raise InvalidRequest(f"'{name}' can't be used: found '{shown}', expected {_ADDRESS}")
        if "@" in parts_of(url).netloc:
            raise InvalidRequest(f"'{name}' can't be used: it contains a user name, expected {_ADDRESS} without one")
    if normalise_url(source).partition("#")[0] == normalise_url(target).partition("#")[0]:
        raise InvalidRequest("'source' and 'target' are the same page: expected two pages")


async def is_blocked(rules: Rules, user: str, source: str) -> bool:
    """Whether the user has blocked the site or page of a source, in all channels or in `notifications`."""
    found = await rules.of_channels(user, [GLOBAL, NOTIFICATIONS])
    return any(covers(url, source) for _, blocked in found.values() for url in blocked)


def _origin(url: str) -> tuple[str, int | None]:
    parts = parts_of(url)
    return host_of(url), parts.port


# --- the route: /webmention, and /webmention/<user> for the pages of one user -------------------------------------

MAX_FORM = 32 * 1024
"""Maximum bytes of a request: two addresses and possible extensions."""

_ACCEPTED = b"accepted: the source will be checked within a few minutes\n"


class WebmentionEndpoint(HttpEndpoint):
    """Answers senders of webmentions, who need no token; cookies are ignored."""

    def __init__(self, receiver: MentionReceiver) -> None:
        super().__init__()
        self._receiver = receiver

    async def answer(self, exchange: HttpExchange) -> HttpReply:
        """See `HttpEndpoint`. All mistakes of senders get 400, as the specification demands."""
        exchange.action = "webmention"
        scope = exchange.scope
        user = scope["path"].removeprefix(WEBMENTION).strip("/")
        if user and not NAME.match(user):
            raise NotFound("there is no such endpoint")
        if scope["method"] != "POST":
            raise MethodNotAllowed(scope["method"], "POST")
        try:
            body = await read_body(scope, exchange.receive, MAX_FORM)
        except TooLarge as error:
            raise InvalidRequest(error.description) from None
        if body.content_type.partition(";")[0].strip().lower() not in {FORM, ""}:
            raise InvalidRequest(f"'Content-Type' can't be used: expected {FORM}")
        params = collect(await in_turn(client_of(scope), urlencoded(body.content)))
        source = params.need("source", "the address of the page that contains the link")
        target = params.need("target", "the address of the linked page")
        await self._receiver.receive(client_of(scope), user or None, source, target)
        return HttpReply(_ACCEPTED, [*PLAIN, *CORS], 202)
