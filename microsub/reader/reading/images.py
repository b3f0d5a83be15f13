"""Pictures of other sites, fetched by this server for its users, so that publishers learn nothing about them.

An address contains a picture and its user, signed: with it, this server fetches nothing else, and for no other user.
The type of a picture is read from its first bytes; it is neither decoded nor changed, and other types aren't forwarded.
SVG isn't allowed, because it can contain scripts.
"""

from __future__ import annotations

import asyncio
import binascii
import secrets
from collections.abc import Callable
from contextlib import ExitStack

from microsub.base.digests import base64url, from_base64url, is_same, keyed_digest
from microsub.base.errors import NotFound, StoreFull, StoreUnavailable, TooManyRequests
from microsub.base.rate_limits import AT_ONCE, RateLimit, RateLimiter
from microsub.base.texts import N_
from microsub.fetch import Answered, Sender, Sending, SendLimits
from microsub.formats.xml.media import PICTURES, picture_type
from microsub.redis import keys
from microsub.redis.lease import first_value
from microsub.redis.protocol import Redis

IMAGES_OF_USER = RateLimit("pictures of posts fetched", "user", 1200)
"""The icons of 500 feeds, shown for the first time, and the pictures of their posts."""
IMAGES_AT_ONCE = RateLimit("pictures of posts fetched", "user", 8, AT_ONCE)
IMAGES_IN_ALL = RateLimit("pictures of posts fetched", "all together", 32, AT_ONCE)
"""A picture may have 8 MiB and take 15 seconds; browsers request six at once."""
IMAGES_OF_HALF = RateLimit("pictures of posts fetched", "half of all together", 16, AT_ONCE)
IMAGES_WHEN_BUSY = RateLimit("pictures of posts fetched", "user, where that half is taken", 2, AT_ONCE)
"""So a few users with slow pictures leave places to others."""

IMAGES_WAITING = RateLimit("pictures of posts waiting", "user", 200, AT_ONCE)
LONGEST_WAIT = 30.0
"""Over one connection of HTTP/2, browsers request a hundred at once. Requests of a page that was left go on, too."""

PATH = "/image"
LIMITS = SendLimits(total=15.0, body=8 * 1024 * 1024)
LONGEST = 4096
"""Maximum characters of a picture's address."""

_ACCEPT = ", ".join(PICTURES)


class Images:
    """Signs addresses of pictures and fetches them. Belongs to one event loop."""

    def __init__(self, redis: Redis, sender: Sender) -> None:
        self._redis = redis
        self._sender = sender
        self._limiter = RateLimiter()
        self._secret = b""
        self._freed = asyncio.Event()
        self._own = secrets.token_hex(32).encode()

    async def addresses(self, user: str) -> Callable[[str], str]:
        """A function from a picture's URL to its path here for this user; empty for a URL that is too long."""
        secret = await self._key()

        def address(url: str) -> str:
            return f"{PATH}/{_signature(secret, user, url)}/{base64url(url.encode())}" if len(url) <= LONGEST else ""

        return address

    async def fetch(self, user: str, signature: str, place: str) -> tuple[bytes, str, Callable[[], None]]:
        """The unchanged picture at one of our addresses, its type by its first bytes, and a function to call once sent.

        Raises NotFound, also if it isn't a picture; TooManyRequests.
        """
        url = _decoded(place)
        if not is_same(signature, _signature(await self._key(), user, url)):
            raise NotFound(N_("There is no picture at this address."))
        with ExitStack() as taken:
            taken.callback(await self._admitted(user))
            found = await self._sender.send(Sending(url, accept=_ACCEPT, limits=LIMITS))
            kind = picture_type(found.body) if isinstance(found, Answered) and found.status == 200 else None
            if kind is None or not isinstance(found, Answered):
                raise NotFound(N_("There is no picture at this address."))
            return found.body, kind, taken.pop_all().close

    async def _admitted(self, user: str) -> Callable[[], None]:
        """Wait for a slot for a picture; returns a function that frees it. Raises TooManyRequests."""
        refusal = TooManyRequests(N_("Too many pictures at once. Try again in a few seconds."), 5)
        needed = [(IMAGES_AT_ONCE, user), (IMAGES_IN_ALL, "")]
        either = [(IMAGES_OF_HALF, ""), (IMAGES_WHEN_BUSY, user)]
        room = self._limiter.has_room
        if not self._limiter.count(IMAGES_OF_USER, user):
            raise refusal
        with self._limiter.holding((IMAGES_WAITING, user), refusal=refusal):
            until = asyncio.get_running_loop().time() + LONGEST_WAIT
            while not (all(room(*one) for one in needed) and any(room(*one) for one in either)):
                try:
                    async with asyncio.timeout_at(until):
                        await self._freed.wait()
                except TimeoutError:
                    raise refusal from None
        give_back = self._limiter.take([*needed, *either])

        def leave() -> None:
            give_back()
            freed, self._freed = self._freed, asyncio.Event()
            freed.set()

        return leave

    async def _key(self) -> bytes:
        """The secret of all processes; one of this process alone while Redis has none and takes none."""
        if self._secret:
            return self._secret
        try:
            self._secret = (await first_value(self._redis, keys.image_secret(), self._own.decode)).encode()
        except (StoreFull, StoreUnavailable):  # pages are shown anyway
            return self._own
        return self._secret


def _decoded(place: str) -> str:
    try:
        return from_base64url(place).decode()
    except (binascii.Error, ValueError):
        raise NotFound(N_("There is no picture at this address.")) from None


def _signature(secret: bytes, user: str, url: str) -> str:
    return keyed_digest(secret, f"{user}\n{url}")[:22]
