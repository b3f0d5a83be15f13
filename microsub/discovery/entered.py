"""Addresses that a user has just searched for or previewed, for what follows: a follow, or picking one of the posts.

Pages and replies show an address without its user name and password; here it is found with them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from microsub.base.digests import short_digest
from microsub.base.errors import InvalidRequest
from microsub.base.urls import web_address, web_parts, without_credentials
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import text, texts
from microsub.redis.structures import Hash, together

SECONDS = 3600
"""Seconds for which addresses are remembered, from the last one on."""

HIDDEN = "***"
"""The text in addresses that replaces user name and password."""

MOST = 50
"""Addresses of a user that are remembered; the next one makes the earlier ones forgotten."""


class EnteredAddresses:
    """The addresses that users have entered lately."""

    def __init__(self, redis: Redis) -> None:
        self._of = Hash.at(redis, keys.entered, SECONDS)

    async def keep(self, user: str, urls: Iterable[str]) -> None:
        """Remember these addresses, except those that are too long to be followed."""
        found = {name_of(url): url for url in filter(web_address, urls)}
        if found:
            entered = self._of(user)
            _, count = await together(entered.set(found), entered.count())
            if count > MOST:
                await together(entered.clear(), entered.set(found))

    async def keep_private(self, user: str, page: str, urls: Iterable[str]) -> None:
        """Remember those of these addresses, named by `page`, that have a user name or password, and its host and port.

        For other hosts, a page must not choose with whose password its visitors follow a feed.
        """
        await self.keep(user, [url for url in urls if without_credentials(url) != url and _host(url) == _host(page)])

    async def whole(self, user: str, url: str) -> str:
        """The address with the user name and password that the user entered for it; `url` if there are none.

        Raises InvalidRequest for an address that says `***` for a password that isn't remembered (any more).
        """
        parts = web_parts(url)
        hidden = without_credentials(url, HIDDEN)
        if parts is None or ("@" in parts.netloc and hidden != url):
            return url
        found = await self._of(user).get(name_of(url))
        if found is None and "@" in parts.netloc:
            raise InvalidRequest(
                "the password of this address isn't remembered any more: found '***', expected the whole address"
            )
        return url if found is None else text(found)

    async def named(self, user: str, names: Sequence[str]) -> list[str]:
        """The remembered addresses of these names (`name_of`)."""
        return texts(url for url in await self._of(user).get_many(names) if url is not None)


def name_of(url: str) -> str:
    """A short name of an address, the same with any user name and password."""
    return short_digest(without_credentials(url).encode("utf-8", "replace"), 6)


def _host(url: str) -> str:
    parts = web_parts(url)
    return parts.netloc.rpartition("@")[2].lower() if parts is not None else ""
