"""Grants of users to apps: a refresh token each, and its access tokens.

A refresh token is `<user>.<grant>.<secret>` and is replaced with every use. Its grant is found by an id that is only
known from one of its tokens; so an older or wrong token with this id was leaked, and the grant ends (RFC 9700, section
4.14.2). Access tokens are those of `accounts.store`, with the id of their grant.

Authorization codes of our own IndieAuth server are valid once, and for a short time. A code is `<user>.<secret>`; only
its SHA-256 is stored, in the user's slot, so that one script uses it up and writes the grant. Its record is kept for
another hour, in which a second use is noticed.

Specs: RFC 6749, sections 4.1.2 and 10.5; https://indieauth.spec.indieweb.org/#redeeming-the-authorization-code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from microsub.accounts.records import absent
from microsub.base.clock import DAY, HOUR
from microsub.base.digests import is_same, keyed_digest, new_secret, sha256_hex
from microsub.model.reader import NAME, NATIVE_APP, Credential
from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis
from microsub.redis.replies import fields as fields_of
from microsub.redis.replies import reading, text, texts
from microsub.redis.scan import listed
from microsub.redis.scripts import load

CODE = 120
"""A code takes seconds from the browser to the app."""
CODE_REPEAT = 10
"""How long an identical exchange of a code or refresh token gets the same reply: some apps send it twice."""
CODE_KEPT = 1 * HOUR
"""How long a second use of a code is noticed."""
ACCESS_TOKEN = 180 * DAY
GRANT = 365 * DAY
"""Lifetime of a refresh token from the last renewal."""
TOKEN_OVERLAP = 600
"""How long older access tokens stay valid after a renewal, for requests in progress."""

LONGEST_SECRET = 512
"""Maximum characters of a token or code; longer ones aren't looked up."""


def derive(seed: str, purpose: str, *held: str) -> str:
    """256 bits as 43 characters `[A-Za-z0-9_-]`, which can't be predicted without seed and `held`."""
    message = "\0".join((purpose, *(f"{len(part)}:{part}" for part in held)))
    return keyed_digest(seed, message)


_OLDER_TOKENS = 8
_ID = re.compile(r"[A-Za-z0-9_-]{22}\Z")


class Issued(NamedTuple):
    """Tokens for the app. `lifetime` is the access token's, in seconds."""

    user: str
    client: str
    access: str
    refresh: str
    scopes: frozenset[str]
    lifetime: int


class AppGrant(NamedTuple):
    """One grant of a user to an app.

    Times are Unix seconds; `expires` is that of the refresh token; `used` is the last use of one of its tokens, to
    within minutes, None: not yet. `source` is the id of the source to which the app posts, or empty.
    """

    id: str
    user: str
    client: str
    title: str
    scopes: frozenset[str]
    created: float
    expires: float
    used: float | None = None
    source: str = ""


class RedemptionResult(Enum):
    """The outcome of using a code or a refresh token. AGAIN: it was used a moment ago, with the same result.

    REFUSED: the request doesn't match the code, which is used up by that. REUSED: it was used before, or isn't the
    newest of its grant, so everything granted for it was revoked. FULL: the user's quota of tokens is reached; the code
    stays valid.
    """

    GIVEN = "given"
    AGAIN = "again"
    UNKNOWN = "unknown"
    EXPIRED = "expired"
    DISABLED = "disabled"
    REFUSED = "refused"
    REUSED = "reused"
    FULL = "full"

    @property
    def good(self) -> bool:
        """Whether the app gets the code's result."""
        return self in {RedemptionResult.GIVEN, RedemptionResult.AGAIN}


class Grants:
    """Grants in Redis."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def find(self, refresh: str) -> AppGrant | None:
        """The grant that a refresh token names, even if the token is invalid; None if there is none."""
        place = _place(refresh)
        return place and _grant(*place, await self._fields(*place))

    async def renew(
        self, refresh: str, scopes: frozenset[str] | None, now: float
    ) -> tuple[RedemptionResult, Issued | None]:
        """Exchange a refresh token; returns the new tokens if `RedemptionResult.good`.

        `scopes` are those of the access token, None for all of the grant; the caller checks that they are among these.
        """
        place = _place(refresh)
        fields = await self._fields(*place) if place else {}
        if place is None or "refresh" not in fields:
            return RedemptionResult.UNKNOWN, None
        user, grant = place
        older = is_same(sha256_hex(refresh), fields.get("before", ""))
        seed = fields["before_seed"] if older else fields["seed"]
        scope = " ".join(sorted(scopes)) if scopes else fields["scope"]
        access = f"{user}.{derive(seed, 'access', refresh, scope)}"
        successor = f"{user}.{grant}.{derive(seed, 'refresh', refresh)}"
        call = load("grant_renew")(
            user,
            grant,
            access_token=keys.token(user, sha256_hex(access)),
            now=now,
            id=grant,
            shown=sha256_hex(refresh),
            repeat=CODE_REPEAT,
            refresh=sha256_hex(successor),
            seed=new_secret(),
            expires=now + GRANT,
            access=sha256_hex(access),
            scopes=scope,
            access_expires=now + ACCESS_TOKEN,
            older_end=now + TOKEN_OVERLAP,
            most=_OLDER_TOKENS,
        )
        renewed = RedemptionResult((await self._redis.script(call)).decode())
        if not renewed.good:
            return renewed, None
        return renewed, Issued(user, fields["client"], access, successor, frozenset(scope.split()), ACCESS_TOKEN)

    async def all(self, user: str) -> list[AppGrant]:
        """The user's grants, newest first. Removes the ids of expired ones."""
        rows = await listed(self._redis, keys.grants(user), lambda grant: keys.grant(user, grant))
        found = [_grant(user, grant, row) for grant, row in rows.items()]
        return sorted((one for one in found if one), key=lambda one: (-one.created, one.id))

    async def end(self, user: str, grant: str) -> bool:
        """End a grant with all its tokens, from the next request on; returns whether it existed."""
        return await end_grant(self._redis, user, grant)

    async def held(self, user: str) -> int:
        """The number of the user's valid grants, and of tokens that the admin created."""
        digests = texts(await self._redis.command("SMEMBERS", keys.tokens(user)))
        rows = await self._redis.pipeline([("HMGET", keys.token(user, digest), "scope", "grant") for digest in digests])
        own = sum(1 for scope, grant in rows if scope is not None and grant is None)
        return own + len(await self.all(user))

    async def _fields(self, user: str, grant: str) -> Mapping[str, str]:
        return fields_of(await self._redis.command("HGETALL", keys.grant(user, grant)))


async def end_grant(redis: Redis, user: str, grant: str) -> bool:
    """End a grant with all its tokens; returns whether it existed."""
    if not _ID.match(grant):
        return False
    return bool(await redis.script(load("grant_end")(user, grant, id=grant)))


def is_refresh(text: str) -> bool:
    """Whether it has the form of one of our refresh tokens, valid or not."""
    return _place(text) is not None


def _place(refresh: str) -> tuple[str, str] | None:
    """User and grant in a refresh token."""
    user, _, rest = refresh.partition(".")
    grant, dot, secret = rest.partition(".")
    if not dot or not secret or len(refresh) > LONGEST_SECRET or not NAME.match(user) or not _ID.match(grant):
        return None
    return user, grant


def _grant(user: str, grant: str, fields: Mapping[str, str]) -> AppGrant | None:
    if "refresh" not in fields:
        return None
    with reading(keys.grant(user, grant)):
        used = float(fields["used"]) if "used" in fields else None
        scopes = frozenset(fields["scope"].split())
        created, expires = float(fields["created"]), float(fields["expires"])
        source = fields.get("source", "")
        return AppGrant(grant, user, fields["client"], fields["title"], scopes, created, expires, used, source)


@dataclass(frozen=True, slots=True)
class OwnToken:
    """A valid token. Times are Unix seconds; `expires` None means never; `me` may be empty. `source` is the id of the
    source with this token, or empty, and `record` what is stored of it, None if it was revoked; `is_app`: its user has
    allowed an app.
    """

    user: str
    me: str
    scopes: frozenset[str]
    client: str
    created: float
    expires: float | None
    source: str = ""
    record: bytes | None = field(default=None, repr=False)
    is_app: bool = False


SOURCE_MARK = "source "
"""Prefix of the mark of a source's token, before the source's id."""


class OwnTokens:
    """Tokens in Redis, found by their text."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def find(self, token: str, now: float) -> OwnToken | None:
        """The access of the token; None if it is invalid, not ours, or an app password."""
        user = owner_in(token)
        if user is None:
            return None
        row, owner, source, record = await self._redis.script(
            load("token_find")(user, sha256_hex(token), mark=SOURCE_MARK)
        )
        scope, client, created, expires, foreign, grant, _ = (
            part.decode() if part is not None else None for part in row
        )
        me, known, disabled = owner
        if scope is None or foreign is not None or known is None or disabled is not None:
            return None
        ends = float(expires) if expires is not None else None
        if ends is not None and ends <= now:
            return None
        scopes, made = frozenset(scope.split()), float(created or 0)
        if NATIVE_APP in scopes:
            return None
        about = OwnToken(user, text(me or b""), scopes, client or "", made, ends, is_app=grant is not None)
        return replace(about, source=text(source), record=record) if source else about

    async def revoke(self, token: str) -> bool:
        """End an access token with everything else of its grant, at once; returns whether it existed."""
        user = owner_in(token)
        if user is None:
            return False
        return await revoke_token(self._redis, user, sha256_hex(token))


class TokenUse:
    """The times of tokens' last uses, in their records or their grants'. Times are Unix seconds."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def note(self, credential: Credential, now: float) -> None:
        """Record a token's use at that time; nothing happens if it isn't one of our valid tokens."""
        key = keys.token(credential.user, credential.digest)
        foreign, grant = await self._redis.command("HMGET", key, "foreign", "grant")
        # The use of a grant's token is recorded at the grant, because its tokens are replaced often.
        place, held = (key, "scope") if grant is None else (keys.grant(credential.user, text(grant)), "refresh")
        if foreign is None:
            used = ("used", f"{now:.0f}")
            await self._redis.script(load("record_change")(record=place, field=held, fields=used))


async def revoke_token(redis: Redis, user: str, digest: str) -> bool:
    """End one of our tokens with everything else of its grant, at once; returns whether it existed."""
    key = keys.token(user, digest)
    created, foreign, grant = await redis.command("HMGET", key, "created", "foreign", "grant")
    if created is None or foreign is not None:
        return False
    # Otherwise an app with a grant could renew this token.
    if grant is not None and await end_grant(redis, user, grant.decode()):
        return True
    # The token first: if a crash leaves its name in the list, that refers to nothing.
    deleted = await redis.command("DEL", key)
    await redis.command("SREM", keys.tokens(user), digest)
    return bool(deleted)


async def end_source(redis: Redis, user: str, source: str) -> None:
    """End the token of a source, and all grants of apps that post to it, from the next request on."""
    digests = texts(await redis.command("SMEMBERS", keys.tokens(user)))
    marks = await redis.pipeline([("HGET", keys.token(user, digest), "mark") for digest in digests])
    for digest, mark in zip(digests, marks, strict=True):
        if mark is not None and text(mark) == SOURCE_MARK + source:
            await revoke_token(redis, user, digest)
    grants = texts(await redis.command("SMEMBERS", keys.grants(user)))
    sources = await redis.pipeline([("HGET", keys.grant(user, grant), "source") for grant in grants])
    for grant, posts_to in zip(grants, sources, strict=True):
        if posts_to is not None and text(posts_to) == source:
            await end_grant(redis, user, grant)


def owner_in(secret: str) -> str | None:
    """The user in a secret `<user>.<rest>`; None for another form. Checks nothing else."""
    user, dot, rest = secret.partition(".")
    return user if dot and rest and len(secret) <= LONGEST_SECRET and NAME.match(user) else None


@dataclass(frozen=True, slots=True)
class Consent:
    """A user's consent: app `title` as shown; PKCE `challenge`, S256, or empty; `source` is the id of the source to
    which the app posts, or empty.
    """

    user: str
    client: str
    title: str
    redirect: str
    scopes: frozenset[str]
    challenge: str = ""
    source: str = ""


class Codes:
    """Codes in Redis."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def create(self, consent: Consent, now: float) -> str:
        """Create a code and return it, the only time that it is shown.

        Raises NotFound for a user who is unknown or disabled.
        """
        code = f"{consent.user}.{new_secret()}"
        fields: tuple[Arg, ...] = (
            *("client", consent.client, "title", consent.title, "redirect", consent.redirect),
            *("scope", " ".join(sorted(consent.scopes)), "challenge", consent.challenge),
            *("seed", new_secret(), "expires", now + CODE),
            *(("source", consent.source) if consent.source else ()),
        )
        user, record = consent.user, keys.code(consent.user, sha256_hex(code))
        if not await self._redis.script(load("user_record")(user, record=record, life=CODE_KEPT, fields=fields)):
            raise await absent(self._redis, consent.user)
        return code

    async def find(self, code: str) -> Consent | None:
        """The grant of the code, used or not; None for unknown and expired codes."""
        found = await self._read(code)
        return found[0] if found else None

    async def redeem_profile(self, code: str, fits: Callable[[Consent], bool], now: float) -> RedemptionResult:
        """Use up the code only to learn its user. `fits`: see `redeem`."""
        found = await self._read(code)
        if found is None:
            return RedemptionResult.UNKNOWN
        consent, seed = found
        grant = _grant_of_code(seed, code)
        return await self._spend(consent.user, code, grant, "-", now, fits=int(fits(consent)), use="profile")

    async def redeem(
        self, code: str, verifier: str, fits: Callable[[Consent], bool], now: float, most: int = 0
    ) -> tuple[RedemptionResult, Issued | None]:
        """Use up the code for a grant; returns its tokens if `RedemptionResult.good`.

        The caller checks that it has a scope. `fits`: client, redirect and `verifier` (which may be empty) match the
        code. If they don't, the code was stolen, and nobody gets anything for it any more. `most` is the user's quota
        of grants and tokens, 0 for none.
        """
        found = await self._read(code)
        if found is None:
            return RedemptionResult.UNKNOWN, None
        consent, seed = found
        user, grant = consent.user, _grant_of_code(seed, code)
        access = f"{user}.{derive(seed, 'access', code, verifier)}"
        refresh = f"{user}.{grant}.{derive(seed, 'refresh', code, verifier)}"
        spent = await self._spend(
            user,
            code,
            grant,
            sha256_hex(access),
            now,
            fits=int(fits(consent)),
            use="token",
            id=grant,
            access=sha256_hex(access),
            access_expires=now + ACCESS_TOKEN,
            refresh=sha256_hex(refresh),
            seed=new_secret(),
            expires=now + GRANT,
            most=most,
            grant_pattern=keys.grant(user, "*"),
        )
        issued = Issued(user, consent.client, access, refresh, consent.scopes, ACCESS_TOKEN)
        return spent, issued if spent.good else None

    async def _spend(
        self, user: str, code: str, grant: str, digest: str, now: float, **further: Arg
    ) -> RedemptionResult:
        call = load("code_redeem")(
            user,
            sha256_hex(code),
            grant=keys.grant(user, grant),
            access_token=keys.token(user, digest),
            now=now,
            repeat=CODE_REPEAT,
            **further,
        )
        return RedemptionResult((await self._redis.script(call)).decode())

    async def _read(self, code: str) -> tuple[Consent, str] | None:
        """The grant of the code, and its seed."""
        user = owner_in(code)
        if user is None:
            return None
        names = ("client", "title", "redirect", "scope", "challenge", "seed")
        row = await self._redis.command("HMGET", keys.code(user, sha256_hex(code)), *names)
        if row[0] is None:
            return None
        client, title, redirect, scope, challenge, seed = (part.decode() if part else "" for part in row)
        return Consent(user, client, title, redirect, frozenset(scope.split()), challenge), seed


def _grant_of_code(seed: str, code: str) -> str:
    """The id of the grant created from this code, by which a second use finds it."""
    return derive(seed, "grant", code)[:22]
