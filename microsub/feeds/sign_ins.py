"""Sign-ins: the credentials, headers and cookies with which a user's feeds are asked for, sealed.

A feed with a sign-in has an address of its own, `https://~<user>.<id>@host/feed`: so followers with different
credentials follow different feeds, and what holds for addresses with a password holds for it, too. The address contains
no secret. The headers are encrypted, for that user, that id and the address's origin, with a key that isn't in Redis
(`base.sealing.KeyFile`). They are decrypted only to be sent.

The id is made from the user, the origin and the headers with that key: the same sign-in again is the same feed.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Mapping, Sequence

import orjson
import structlog

from microsub.base.clock import DAY
from microsub.base.digests import keyed_digest
from microsub.base.errors import ConfigError, InvalidRequest
from microsub.base.identifiers import DEFAULT_PORTS
from microsub.base.sealing import KeyFile, seal, unseal
from microsub.base.texts import N_, Sentence
from microsub.base.urls import ascii_host, sign_in_of, web_parts, with_sign_in, without_credentials
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import raw_fields

log = structlog.get_logger(__name__)

MOST_HEADERS, MOST_BYTES, LONGEST_NAME = 10, 4096, 255
"""Headers of a sign-in, bytes of all of them, and characters of a user name or a password."""

_UNUSED = DAY
"""Seconds for which a new sign-in is kept although no follow names it: a follow of it may be in progress."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_VALUE = re.compile(r"[\x20-\x7e]+")
_FORBIDDEN = re.compile(
    r"host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|http2-settings|expect|range|date|via|"
    r"accept|accept-encoding|user-agent|if-.*|content-.*|proxy-.*|sec-.*|forwarded|x-forwarded-.*|alt-used"
)
"""Names of headers that belong to the connection, to caches, or to this server."""


def sign_in_headers(name: str = "", password: str = "", headers: str | Mapping[str, str] = "") -> dict[str, str]:
    """The headers to send, by lower-case name: those of a user name and password, and others.

    `headers` has one `Name: value` a line. Raises InvalidRequest, and never repeats a value.
    """
    given = _basic(name, password)
    lines = [*headers.items()] if isinstance(headers, Mapping) else _lines(headers)
    for name_, value_ in lines:
        field, value = name_.strip().lower(), value_.strip(" \t\r")
        if not _TOKEN.fullmatch(field):
            raise InvalidRequest(N_("A header can’t be used: expected one “Name: value” on each line."))
        if _FORBIDDEN.fullmatch(field):
            raise InvalidRequest(Sentence(N_("The header “{name}” can’t be set: this server sets it."), name=field))
        if field in given:
            raise InvalidRequest(Sentence(N_("The header “{name}” is given twice."), name=field))
        if not _VALUE.fullmatch(value):
            text = N_("The value of the header “{name}” can’t be sent: expected ASCII characters on one line.")
            raise InvalidRequest(Sentence(text, name=field))
        given[field] = value
    size = sum(len(field) + len(value) for field, value in given.items())
    if len(given) > MOST_HEADERS or size > MOST_BYTES:
        text = N_("These are too many headers: expected at most {most} with {bytes} bytes.")
        raise InvalidRequest(Sentence(text, most=MOST_HEADERS, bytes=MOST_BYTES))
    if not given:
        raise InvalidRequest(N_("Give a user name and a password, or a header."))
    return given


def _basic(name: str, password: str) -> dict[str, str]:
    """The header of a user name and a password (RFC 7617)."""
    if not name and not password:
        return {}
    if len(name) > LONGEST_NAME or len(password) > LONGEST_NAME:
        text = N_("The user name or the password is too long: expected at most {most} characters.")
        raise InvalidRequest(Sentence(text, most=LONGEST_NAME))
    if ":" in name or not (name + password).isprintable():
        raise InvalidRequest(N_("The user name or the password has a character that can’t be sent."))
    both = f"{name}:{password}".encode("utf-8", "replace")
    return {"authorization": f"Basic {base64.b64encode(both).decode()}"}


def _lines(text: str) -> list[tuple[str, str]]:
    parts = [line.partition(":") for line in text.split("\n") if line.strip()]
    return [(name if colon else "", value) for name, colon, value in parts]  # without one, all may be the secret


class SignIns:
    """The sealed sign-ins of users. Every method raises StoreError; `keep` also ConfigError for an unusable key."""

    def __init__(self, redis: Redis, key: KeyFile) -> None:
        self._redis = redis
        self._key = key

    async def keep(self, user: str, url: str, headers: Mapping[str, str], now: float) -> str:
        """Seal headers (`sign_in_headers`) for the origin of `url`; returns the address of the feed that has them."""
        secret, plain, origin = self._key.secret(), without_credentials(url), _origin(url)
        text = orjson.dumps(sorted(headers.items())).decode()
        name = keyed_digest(secret, f"sign-in\n{user}\n{origin}\n{text}")[:22]
        sealed = b"%d " % now + seal(text, secret, _about(user, name, origin))
        await self._redis.command("HSET", keys.sign_ins(user), name, sealed)
        return with_sign_in(plain, user, name)

    async def headers(self, user: str, name: str, origin: str) -> Sequence[tuple[str, str]] | None:
        """The headers of a sign-in for an origin (`https://host:443`); None if they can't be read.

        That is, they aren't there, the key is unusable or another one, or they are for another origin.
        """
        sealed = await self._redis.command("HGET", keys.sign_ins(user), name)
        secret = self._known_key() if sealed is not None else None
        text = unseal(sealed.partition(b" ")[2], secret, _about(user, name, origin)) if secret is not None else None
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

    async def has_any(self, user: str) -> bool:
        """Whether there are sign-ins of the user."""
        return bool(await self._redis.command("EXISTS", keys.sign_ins(user)))

    async def is_readable(self, url: str) -> bool:
        """Whether the sign-in that the address names can be read."""
        named = sign_in_of(url)
        return named is not None and await self.headers(*named, _origin(url)) is not None


async def prune_sign_ins(redis: Redis, user: str, followed: Collection[str], now: float, dropped: str = "") -> None:
    """Delete those that none of the `followed` addresses names: at once the one that `dropped` names, others if old."""
    held = raw_fields(await redis.command("HGETALL", keys.sign_ins(user)))
    used = {named[1] for url in followed if (named := sign_in_of(url)) is not None}
    ended = (sign_in_of(dropped) or ("", ""))[1]
    old = [
        name
        for name, sealed in held.items()
        if name not in used and (name == ended or float(sealed.partition(b" ")[0]) < now - _UNUSED)
    ]
    if old:
        await redis.command("HDEL", keys.sign_ins(user), *old)


def _about(user: str, name: str, origin: str) -> str:
    return f"sign-in {user} {name} {origin}"


def _origin(url: str) -> str:
    """The origin of an address, with its port."""
    parts = web_parts(url)
    if parts is None:
        raise InvalidRequest(N_("This feed has no address on the web."))
    scheme = parts.scheme.lower()
    return f"{scheme}://{ascii_host(parts.hostname or '')}:{parts.port or DEFAULT_PORTS[scheme]}"
