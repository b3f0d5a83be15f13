"""Addresses that a user has just searched for or previewed, for what follows: a follow, or picking one of the posts.

Pages and replies show an address without its user name and password; here it is found with them again. Such an address
is sealed with the key of sign-ins, which isn't in Redis (`base.sealing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from microsub.base.digests import short_digest
from microsub.base.errors import InvalidRequest
from microsub.base.sealing import KeyFile, seal, unseal
from microsub.base.urls import web_address, web_parts, without_credentials
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import text
from microsub.redis.structures import Hash, together

SECONDS = 3600
"""Seconds for which addresses are remembered, from the last one on."""

HIDDEN = "***"
"""The text in addresses that replaces user name and password."""

_SEALED = b"\0"
"""The first byte of an address that is sealed."""

MOST = 50
"""Addresses of a user that are remembered; the next one makes the earlier ones forgotten."""


class EnteredAddresses:
    """The addresses that users have entered lately."""

    def __init__(self, redis: Redis, key: KeyFile) -> None:
        self._of = Hash.at(redis, keys.entered, SECONDS)
        self._key = key

    async def keep(self, user: str, urls: Iterable[str]) -> None:
        """Remember these addresses, except those that are too long to be followed.

        Raises ConfigError if one has a password and the key can't be used.
        """
        found = {name_of(url): self._stored(user, url) for url in filter(web_address, urls)}
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
        found = self._read(user, await self._of(user).get(name_of(url)))
        if found is None and "@" in parts.netloc:
            raise InvalidRequest(
                "the password of this address isn't remembered any more: found '***', expected the whole address"
            )
        return url if found is None else found

    async def named(self, user: str, names: Sequence[str]) -> list[str]:
        """The remembered addresses of these names (`name_of`)."""
        found = (self._read(user, value) for value in await self._of(user).get_many(names))
        return [url for url in found if url is not None]

    def _stored(self, user: str, url: str) -> str | bytes:
        return url if without_credentials(url) == url else _SEALED + seal(url, self._key.secret(), _about(user))

    def _read(self, user: str, value: bytes | None) -> str | None:
        """The address; None if there is none, or it was sealed with another key."""
        if value is None or not value.startswith(_SEALED):
            return None if value is None else text(value)
        return unseal(value.removeprefix(_SEALED), self._key.read() or "", _about(user))


def name_of(url: str) -> str:
    """A short name of an address, the same with any user name and password."""
    return short_digest(without_credentials(url).encode("utf-8", "replace"), 6)


def _about(user: str) -> str:
    return f"entered {user}"


def _host(url: str) -> str:
    parts = web_parts(url)
    return parts.netloc.rpartition("@")[2].lower() if parts is not None else ""
