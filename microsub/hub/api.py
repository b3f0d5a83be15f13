"""The hub's address `/hub`, and `/topics` for the documents of channels and stored feeds.

Spec: https://www.w3.org/TR/websub/#subscribing-and-unsubscribing. A request is answered at once: with 202 if it will be
verified, otherwise with an error in plain text. Workers do the rest.

The action `topics` of the Microsub endpoint, an extension, gives a channel's topic an address. It needs the scope
`channels`, since that address outlives the token: it shows the channel's newest items until it is renewed.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from microsub.base.digests import short_digest
from microsub.base.errors import InvalidRequest, MethodNotAllowed, NotFound, RequestError, TooManyRequests
from microsub.base.rate_limits import RateLimit, RateLimiter, public_network
from microsub.base.urls import host_of
from microsub.hub.store import HubStore, hub_calendar
from microsub.hub.subscriptions import request_of
from microsub.hub.topics import Topic, Topics
from microsub.redis.protocol import Redis
from microsub.web.actions import Action, Call, Reply, Table, channel_in
from microsub.web.headers import client_of, knows
from microsub.web.params import in_turn, read_body, urlencoded
from microsub.web.responses import PLAIN, Header, HttpEndpoint, HttpExchange, HttpReply, error_reply
from microsub.web.types import FORM

HUB_REQUESTS_OF_NETWORK = RateLimit("requests to the hub", "network", 600)
HUB_REQUESTS_TO_HOST = RateLimit("requests to the hub", "callback host", 600)
"""Enough for a starting instance, which sends a burst, then five a second."""
HUB_UNKNOWN_OF_NETWORK = RateLimit("requests to the hub for unknown topics", "network", 60)
HUB_PUBLISHES_OF_TOPIC = RateLimit("notices that a topic has changed", "topic", 60)
TOPICS_OF_NETWORK = RateLimit("documents of topics", "network", 300)

LARGEST = 16 * 1024
"""Maximum bytes of a request; the longest reasonable one has 6,000."""
MOST_PUBLISHED = 20
"""Topics that one publish request may name."""

_OFF = "this server isn't a hub: MICROSUB_BASE_URL isn't set"


class HubEndpoint(HttpEndpoint):
    """Answers subscribers and publishers at `/hub`; without `topics` this server isn't a hub."""

    def __init__(self, redis: Redis, topics: Topics | None, clock: Callable[[], float]) -> None:
        super().__init__()
        self._topics = topics
        self._store = HubStore(redis)
        self._work = hub_calendar(redis)
        self._clock = clock
        self._limits = RateLimiter()

    async def answer(self, exchange: HttpExchange) -> HttpReply:
        """See `HttpEndpoint`; errors are plain text here, as subscribers expect them (5.1)."""
        exchange.action = "hub"
        try:
            status, text = await self._answer(exchange)
        except RequestError as error:
            reply = error_reply(error)
            headers = [*PLAIN, *reply.headers]
            return HttpReply(str(reply.content["error_description"]).encode(), headers, reply.status)
        return HttpReply(text.encode(), PLAIN, status)

    async def _answer(self, exchange: HttpExchange) -> tuple[int, str]:
        scope = exchange.scope
        if scope["method"] != "POST":
            raise MethodNotAllowed(scope["method"], "POST")
        topics = self._topics
        if topics is None:
            raise NotFound(_OFF)
        network = public_network(client_of(scope))
        self._limits.require(HUB_REQUESTS_OF_NETWORK, network)
        body = await read_body(scope, exchange.receive, LARGEST)
        if body.content_type.partition(";")[0].strip().lower() != FORM:
            raise InvalidRequest(f"the body can't be used: expected {FORM}")
        pairs = await in_turn(client_of(scope), urlencoded(body.content))
        form: dict[str, str] = {}
        for name, value in pairs:
            form.setdefault(name, value)
        if form.get("hub.mode") == "publish":
            named = [value for name, value in pairs if name in {"hub.url", "hub.topic", "hub.url[]", "hub.topic[]"}]
            return await self._publish(topics, list(dict.fromkeys(named)), network)
        return await self._subscribe(topics, form, network)

    async def _subscribe(self, topics: Topics, form: Mapping[str, str], network: str | None) -> tuple[int, str]:
        """Store a request until it is verified."""
        asked = request_of(form, secrets.token_hex(8), any_port=topics.any_port)
        self._limits.require(HUB_REQUESTS_TO_HOST, host_of(asked.callback))
        topic = await self._found(topics, asked.topic, network)
        if asked.mode == "subscribe":
            await topics.refresh(topic)
            asked = asked.at_version(await topics.version(topic))
        elif (await self._store.get(topic.owner, asked.id)).raw == ("", ""):
            raise NotFound("there is no such subscription")
        now = self._clock()
        if (limit := await self._store.ask(topic.owner, asked, now)) is not None:
            raise TooManyRequests(limit, 3600)
        await self._work.note({f"{topic.owner} {asked.id}": now}, "sooner")
        return 202, "the request will be verified"

    async def _publish(self, topics: Topics, urls: Sequence[str], network: str | None) -> tuple[int, str]:
        """Plan a check whether topics have changed; unchanged ones aren't delivered."""
        if not 0 < len(urls) <= MOST_PUBLISHED:
            raise InvalidRequest(f"expected 1 to {MOST_PUBLISHED} topics in 'hub.url' or 'hub.topic'")
        found = [await self._found(topics, url, network) for url in urls]
        for url in urls:
            self._limits.require(HUB_PUBLISHES_OF_TOPIC, url)
        owners = await self._store.among_owners(list(dict.fromkeys(topic.owner for topic in found)))
        await self._work.note(dict.fromkeys(owners, self._clock()), "sooner")
        return 202, "the topics will be checked for changes"

    async def _found(self, topics: Topics, url: str, network: str | None) -> Topic:
        topic = await topics.find(url)
        if topic is None:
            self._limits.require(HUB_UNKNOWN_OF_NETWORK, network)
            raise NotFound("unknown topic: this hub doesn't publish it")
        return topic


class TopicEndpoint(HttpEndpoint):
    """Answers requests below `/topics` with the documents of channels and stored feeds."""

    def __init__(self, topics: Topics | None) -> None:
        super().__init__()
        self._topics = topics
        self._limits = RateLimiter()

    def logged_path(self, path: str) -> str:
        """The path without the secret in it."""
        return re.sub(r"\.[A-Za-z0-9_-]{8,}", ".…", path)

    async def answer(self, exchange: HttpExchange) -> HttpReply:
        """See `HttpEndpoint`."""
        exchange.action = "topics"
        scope, topics = exchange.scope, self._topics
        if scope["method"] not in {"GET", "HEAD"}:
            raise MethodNotAllowed(scope["method"], "GET, HEAD")
        self._limits.require(TOPICS_OF_NETWORK, public_network(client_of(scope)))
        query = scope["query_string"].decode("latin-1")
        topic = None if topics is None else await topics.find_at(scope["path"] + (f"?{query}" if query else ""))
        if topics is None or topic is None:
            raise NotFound("there is no such topic")
        exchange.user = topic.owner
        await topics.refresh(topic)
        document = await topics.document(topic)
        tag = f'"{short_digest(document.body, 12)}"'
        headers: list[Header] = [
            (b"etag", tag.encode()),
            (b"link", f'<{topics.hub}>; rel="hub"'.encode()),
            (b"link", f'<{document.address}>; rel="self"'.encode()),
            (b"cache-control", b"private, no-cache"),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"x-robots-tag", b"noindex"),
        ]
        if knows(scope, tag):
            return HttpReply(b"", headers, 304)
        body = b"" if scope["method"] == "HEAD" else document.body
        return HttpReply(body, [*headers, (b"content-type", document.content_type.encode())])


# --- the action `topics` ---

SCOPE = "channels"


def topic_actions(topics: Topics | None) -> Table:
    """The action `topics`: `create` gives a channel's topic an address, or returns its present one.

    `renew` gives it a new one, and `revoke` removes it; subscriptions to the old one end. Without `topics` this server
    isn't a hub.
    """

    async def act(action: str, call: Call) -> Reply:
        if topics is None:
            raise NotFound("this server isn't a hub: its admin has to set MICROSUB_BASE_URL")
        uid = channel_in(call.params, allow_global=False)
        address = await topics.channels.address(call.user, uid, action)
        return {"channel": uid, "hub": topics.hub, **({"topic": address} if address else {})}

    return {
        ("POST", "topics", name): Action(SCOPE, partial(act, name), changes_topics=name != "create")
        for name in ("create", "renew", "revoke")
    }
