"""Grants of users to apps: a refresh token each, and the access tokens made by it.

A refresh token is `<user>.<grant>.<secret>` and is replaced with every use. Its grant is found by its id, which nobody
knows who never had one of its tokens; so who shows an older one, or a wrong one, has it from somewhere else, and
the grant ends (RFC 9700, section 4.14.2). Access tokens are those of `identity.store.accounts`, with the id of their
grant.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from microsub.identity.lifetimes import ACCESS_TOKEN, CODE_REPEAT, GRANT, TOKEN_OVERLAP
from microsub.model.reader import NAME
from microsub.redis import identitykeys, keys
from microsub.redis.protocol import Arg, Redis
from microsub.redis.replies import fields as fields_of
from microsub.redis.replies import reading, texts
from microsub.redis.scripts import load

LONGEST_SECRET = 512
"""Characters of the longest token or code that is looked at."""


def secret_digest(secret: str) -> str:
    """The SHA-256, in hex, by which a secret is stored and found."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def new_seed() -> str:
    """256 random bits, as text."""
    return secrets.token_urlsafe(32)


def derive(seed: str, purpose: str, *held: str) -> str:
    """256 bits, as 43 characters `[A-Za-z0-9_-]`, for one purpose; nobody can tell them without the seed and `held`."""
    message = "\0".join((purpose, *(f"{len(part)}:{part}" for part in held)))
    made = hmac.digest(seed.encode(), message.encode("utf-8", "replace"), "sha256")
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode()


_OLDER_TOKENS = 8
_ID = re.compile(r"[A-Za-z0-9_-]{22}\Z")


@dataclass(frozen=True, slots=True)
class Issued:
    """Tokens as the app gets them. `lifetime` is the access token's, in seconds from the exchange on."""

    user: str
    client: str
    access: str
    refresh: str
    scopes: frozenset[str]
    lifetime: int


@dataclass(frozen=True, slots=True)
class AppGrant:
    """One time that a user has let an app in. Times are Unix seconds; `renewed` None: never; `expires` is that of the
    refresh token; `used` is when a token of it was used last, to within minutes, None: not yet.
    """

    id: str
    user: str
    client: str
    title: str
    scopes: frozenset[str]
    created: float
    renewed: float | None
    expires: float
    used: float | None = None


class Renewed(Enum):
    """What became of a refresh token that was shown. AGAIN: the same was given a moment ago. REUSED: it isn't the
    newest of its grant, which has been ended.
    """

    GIVEN = "given"
    AGAIN = "again"
    UNKNOWN = "unknown"
    EXPIRED = "expired"
    DISABLED = "disabled"
    REUSED = "reused"

    @property
    def good(self) -> bool:
        """Whether the asker gets new tokens."""
        return self in {Renewed.GIVEN, Renewed.AGAIN}


class Grants:
    """Grants in Redis."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def find(self, refresh: str) -> AppGrant | None:
        """The grant that a refresh token names, whether or not the token is good; None where there is none."""
        place = _place(refresh)
        return place and _grant(*place, await self._fields(*place))

    async def renew(self, refresh: str, scopes: frozenset[str] | None, now: float) -> tuple[Renewed, Issued | None]:
        """Exchange a refresh token; the new tokens where `Renewed.good`.

        `scopes` are what the access token shall have, None for all of the grant; that they are among these is for the
        caller to see.
        """
        place = _place(refresh)
        fields = await self._fields(*place) if place else {}
        if place is None or "refresh" not in fields:
            return Renewed.UNKNOWN, None
        user, grant = place
        older = hmac.compare_digest(secret_digest(refresh), fields.get("before", ""))
        seed = fields["before_seed"] if older else fields["seed"]
        scope = " ".join(sorted(scopes)) if scopes else fields["scope"]
        access = f"{user}.{derive(seed, 'access', refresh, scope)}"
        successor = f"{user}.{grant}.{derive(seed, 'refresh', refresh)}"
        args: list[Arg] = [
            *(now, grant, secret_digest(refresh), CODE_REPEAT, pattern(user)),
            *(secret_digest(successor), new_seed(), now + GRANT),
            *(secret_digest(access), scope, now + ACCESS_TOKEN, now + TOKEN_OVERLAP, _OLDER_TOKENS),
        ]
        where = [
            keys.user(user),
            identitykeys.grant(user, grant),
            identitykeys.grants(user),
            keys.token(user, secret_digest(access)),
        ]
        renewed = Renewed((await self._redis.script(load("grant_renew"), [*where, keys.tokens(user)], args)).decode())
        if not renewed.good:
            return renewed, None
        return renewed, Issued(user, fields["client"], access, successor, frozenset(scope.split()), ACCESS_TOKEN)

    async def all(self, user: str) -> list[AppGrant]:
        """The user's grants, newest first. Forgets the ids of those that have expired."""
        ids = sorted(texts(await self._redis.command("SMEMBERS", identitykeys.grants(user))))
        rows = await self._redis.pipeline([("HGETALL", identitykeys.grant(user, grant)) for grant in ids])
        found = {grant: _grant(user, grant, fields_of(row)) for grant, row in zip(ids, rows, strict=True)}
        if gone := [grant for grant, one in found.items() if one is None]:
            await self._redis.command("SREM", identitykeys.grants(user), *gone)
        return sorted((one for one in found.values() if one), key=lambda one: (-one.created, one.id))

    async def end(self, user: str, grant: str) -> bool:
        """End a grant with all its tokens, from the next request on; whether there was one."""
        return await end_grant(self._redis, user, grant)

    async def held(self, user: str) -> int:
        """How many times the user has let apps in that still are, and how many tokens the admin has made."""
        where = [identitykeys.grants(user), keys.tokens(user)]
        return int(await self._redis.script(load("grants_held"), where, [grant_pattern(user), pattern(user)]))

    async def _fields(self, user: str, grant: str) -> Mapping[str, str]:
        return fields_of(await self._redis.command("HGETALL", identitykeys.grant(user, grant)))


async def end_grant(redis: Redis, user: str, grant: str) -> bool:
    """End a grant with all its tokens; whether there was one."""
    if not _ID.match(grant):
        return False
    where = [identitykeys.grant(user, grant), identitykeys.grants(user), keys.tokens(user)]
    return bool(await redis.script(load("grant_end"), where, [grant, pattern(user)]))


def pattern(user: str) -> str:
    """The key of a user's token with `*` in place of its digest, for scripts."""
    return keys.token(user, "*")


def grant_pattern(user: str) -> str:
    """The key of a user's grant with `*` in place of its id, for scripts."""
    return identitykeys.grant(user, "*")


def is_refresh(text: str) -> bool:
    """Whether it has the form of a refresh token of ours, good or not."""
    return _place(text) is not None


def _place(refresh: str) -> tuple[str, str] | None:
    """User and grant that a refresh token names."""
    user, _, rest = refresh.partition(".")
    grant, dot, secret = rest.partition(".")
    if not dot or not secret or len(refresh) > LONGEST_SECRET or not NAME.match(user) or not _ID.match(grant):
        return None
    return user, grant


def _grant(user: str, grant: str, fields: Mapping[str, str]) -> AppGrant | None:
    if "refresh" not in fields:
        return None
    with reading(identitykeys.grant(user, grant)):
        renewed, used = (float(fields[name]) if name in fields else None for name in ("renewed", "used"))
        scopes = frozenset(fields["scope"].split())
        created, expires = float(fields["created"]), float(fields["expires"])
        return AppGrant(grant, user, fields["client"], fields["title"], scopes, created, renewed, expires, used)


@dataclass(frozen=True, slots=True)
class OwnToken:
    """A good token. Times are Unix seconds; `expires` None means never; `me` is its user's profile URL, or empty."""

    user: str
    me: str
    scopes: frozenset[str]
    client: str
    created: float
    expires: float | None


class OwnTokens:
    """Tokens in Redis, by their text."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def find(self, token: str, now: float) -> OwnToken | None:
        """What the token allows; None for one that is unknown, expired, revoked, of a disabled user or not ours."""
        user = _owner_of(token)
        if user is None:
            return None
        row, owner = await self._redis.pipeline(
            [
                ("HMGET", keys.token(user, secret_digest(token)), "scope", "client", "created", "expires", "foreign"),
                ("HMGET", keys.user(user), "me", "created", "disabled"),
            ]
        )
        scope, client, created, expires, foreign = (part.decode() if part is not None else None for part in row)
        me, known, disabled = owner
        if scope is None or foreign is not None or known is None or disabled is not None:
            return None
        ends = float(expires) if expires is not None else None
        if ends is not None and ends <= now:
            return None
        scopes, made = frozenset(scope.split()), float(created or 0)
        return OwnToken(user, (me or b"").decode(), scopes, client or "", made, ends)

    async def revoke(self, token: str) -> bool:
        """End an access token with all else of its grant, from the next request on; whether there was one."""
        user = _owner_of(token)
        if user is None:
            return False
        key = keys.token(user, secret_digest(token))
        created, foreign, grant = await self._redis.command("HMGET", key, "created", "foreign", "grant")
        if created is None or foreign is not None:
            return False
        if grant is not None and await end_grant(self._redis, user, grant.decode()):
            return True
        # The token first: what a crash leaves in the list names nothing any more.
        deleted = await self._redis.command("DEL", key)
        await self._redis.command("SREM", keys.tokens(user), secret_digest(token))
        return bool(deleted)


def _owner_of(token: str) -> str | None:
    user, dot, secret = token.partition(".")
    return user if dot and secret and len(token) <= LONGEST_SECRET and NAME.match(user) else None
