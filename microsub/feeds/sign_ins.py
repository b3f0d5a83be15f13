"""Sign-ins: the credentials, headers and cookies with which a user's feeds are asked for, sealed.

A feed with a sign-in has an address of its own, `https://~<user>.<id>@host/feed`: so followers with different
credentials follow different feeds, and what holds for addresses with a password holds for it, too. The address contains
no secret. The headers are encrypted, for that user, that id and the address's origin, with a key that isn't in Redis
(`base.sealing.KeyFile`). They are decrypted only to be sent.

The id is made from the user, the origin and the headers with that key: the same sign-in again is the same feed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import orjson
import structlog

from microsub.base.clock import DAY
from microsub.base.digests import keyed_digest
from microsub.base.errors import ConfigError, InvalidRequest
from microsub.base.identifiers import DEFAULT_PORTS
from microsub.base.sealing import KeyFile, seal, unseal
from microsub.base.texts import N_
from microsub.base.urls import ascii_host, sign_in_of, web_parts, with_sign_in, without_credentials
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.structures import Change, Hash

log = structlog.get_logger(__name__)

_UNUSED = DAY
"""Seconds for which a new sign-in is kept although no follow names it: a follow of it may be in progress."""


class SignIns:
    """The sealed sign-ins of users. Every method raises StoreError; `keep` also ConfigError for an unusable key."""

    def __init__(self, redis: Redis, key: KeyFile) -> None:
        self._of = Hash.at(redis, keys.sign_ins)
        self._key = key

    async def keep(self, user: str, url: str, headers: Mapping[str, str], now: float) -> str:
        """Seal headers (`sign_in_headers`) for the origin of `url`; returns the address of the feed that has them."""
        secret, text, name, about = self._named(user, url, headers)
        sealed = b"%d " % now + seal(text, secret, about)
        await self._of(user).set({name: sealed})
        return with_sign_in(without_credentials(url), user, name)

    def address(self, user: str, url: str, headers: Mapping[str, str]) -> str:
        """The address that `keep` returns, without keeping anything. Raises ConfigError for an unusable key."""
        return with_sign_in(without_credentials(url), user, self._named(user, url, headers)[2])

    def _named(self, user: str, url: str, headers: Mapping[str, str]) -> tuple[str, str, str, str]:
        """The key, the headers as text, the id that both give, and that for which they are sealed."""
        secret, origin = self._key.secret(), _origin(url)
        text = orjson.dumps(sorted(headers.items())).decode()
        name = keyed_digest(secret, f"sign-in\n{user}\n{origin}\n{text}")[:22]
        return secret, text, name, _about(user, name, origin)

    async def headers(self, user: str, name: str, origin: str) -> Sequence[tuple[str, str]] | None:
        """The headers of a sign-in for an origin (`https://host:443`); None if they can't be read.

        That is, they aren't there, the key is unusable or another one, or they are for another origin.
        """
        sealed = await self._of(user).get(name)
        secret = self._known_key() if sealed is not None else None
        text = unseal(sealed.partition(b" ")[2], secret, _about(user, name, origin)) if sealed and secret else None
        if text is None:
            missing = "the sign-in" if sealed is None else "the key file" if secret is None else "the right key"
            log.warning("a sign-in can't be read", user=user, missing=missing)
            return None
        return [(str(field), str(value)) for field, value in orjson.loads(text)]

    def _known_key(self) -> str | None:
        try:
            return self._key.read()
        except ConfigError as error:
            log.warning("the key of sign-ins can't be used", error=str(error))
            return None

    async def held(self, user: str) -> dict[str, bytes]:
        """The user's sign-ins as they are stored, by id: for `forget`."""
        return await self._of(user).all()

    async def forget(
        self, user: str, held: Mapping[str, bytes], followed: Collection[str], now: float, dropped: str = ""
    ) -> None:
        """Delete those that no `followed` address names: at once the one that `dropped` names, others if they are old.

        `held` was read before the follows; one that was kept again since stays, because a follow of it is in progress.
        """
        used = {named[1] for url in followed if (named := sign_in_of(url)) is not None}
        ended = (sign_in_of(dropped) or ("", ""))[1]
        old: list[Change] = [
            (name, sealed, "")
            for name, sealed in held.items()
            if name not in used and (name == ended or float(sealed.partition(b" ")[0]) < now - _UNUSED)
        ]
        await self._of(user).change_each(old)

    async def renew(self, user: str, url: str, now: float) -> None:
        """Keep the user's sign-in that the address names for as long as a new one, because its follow may come back."""
        named = sign_in_of(url)
        sealed = await self._of(user).get(named[1]) if named is not None else None
        if named is not None and sealed is not None:
            later = b"%d " % now + sealed.partition(b" ")[2]
            await self._of(user).change((named[1], sealed, later))

    async def is_readable(self, url: str) -> bool:
        """Whether the sign-in that the address names can be read."""
        named = sign_in_of(url)
        return named is not None and await self.headers(*named, _origin(url)) is not None


def _about(user: str, name: str, origin: str) -> str:
    return f"sign-in {user} {name} {origin}"


def _origin(url: str) -> str:
    """The origin of an address, with its port."""
    parts = web_parts(url)
    if parts is None:
        raise InvalidRequest(N_("This feed has no address on the web."))
    scheme = parts.scheme.lower()
    return f"{scheme}://{ascii_host(parts.hostname or '')}:{parts.port or DEFAULT_PORTS[scheme]}"
