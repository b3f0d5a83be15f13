"""Sessions of our own pages, in the slot of their user, by the SHA-256 of the cookie that stands for them.

A session keeps its `id` for as long as it lasts, while its secret changes: the id is how people end one of several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import orjson

from microsub.identity.limits import SESSION, SESSION_OVERLAP, SESSION_SETTLED, SIGN_IN
from microsub.redis import identitykeys as keys
from microsub.redis.keys import user as user_key
from microsub.redis.protocol import Redis
from microsub.redis.replies import fields, reading
from microsub.redis.replies import texts as texts_of
from microsub.redis.scripts import load


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session as it is stored. Times are Unix seconds.

    `me` is the user's profile URL at sign-in, `how` the way of it, `device` a few words. `next` is the digest of what
    replaced this secret, `previous` the one that it replaced as long as it is good; either may be empty.
    """

    id: str
    me: str
    how: str
    device: str
    created: float
    seen: float
    renewed: float
    salt: str
    next: str = ""
    previous: str = ""


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session's record, and what its user's record says now."""

    record: SessionRecord
    me: str
    disabled: bool


class SessionStore:
    """The records; the caller makes the secrets."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def open(self, user: str, digest: str, record: SessionRecord) -> bool:
        """Write a session. False where there is no such user, or they are disabled."""
        parts = [part for pair in _fields(record).items() for part in pair]
        made = await self._redis.script(
            load("user_record"),
            [user_key(user), keys.session(user, digest), keys.sessions(user)],
            [digest, SESSION, *parts],
        )
        return bool(made)

    async def find(self, user: str, digest: str) -> StoredSession | None:
        """The session of that digest with its user, in one round trip; None where either is missing."""
        flat, (me, disabled) = await self._redis.pipeline(
            [("HGETALL", keys.session(user, digest)), ("HMGET", user_key(user), "me", "disabled")]
        )
        record = _record(user, digest, flat)
        if record is None or me is None:
            return None
        return StoredSession(record, me.decode(), disabled is not None)

    async def touch(self, user: str, digest: str, now: float) -> None:
        """Note a visit, which extends the session."""
        where = [keys.session(user, digest), keys.sessions(user)]
        await self._redis.script(load("touch"), where, ["id", "seen", f"{now:.3f}", SESSION])

    async def renew(self, user: str, old: str, new: str, salt: str, now: float) -> bool:
        """Let the digest `new` stand for the session too, and soon alone. False where the session has ended."""
        done = await self._redis.script(
            load("session_renew"),
            [keys.session(user, old), keys.session(user, new), keys.sessions(user)],
            [old, new, f"{now:.3f}", salt, SESSION, SESSION_OVERLAP],
        )
        return bool(done)

    async def settle(self, user: str, digest: str, previous: str) -> None:
        """The secret of `digest` has reached its browser: the one before it ends within a minute."""
        await self._redis.pipeline(
            [
                ("EXPIRE", keys.session(user, previous), SESSION_SETTLED),
                ("HDEL", keys.session(user, digest), "previous"),
            ]
        )

    async def all(self, user: str) -> list[tuple[str, SessionRecord]]:
        """Digest and record of the user's sessions, also of replaced secrets.

        Forgets the digests of those that ended.

        The order is that of their last visits, the newest first.
        """
        digests = sorted(texts_of(await self._redis.command("SMEMBERS", keys.sessions(user))))
        replies = await self._redis.pipeline([("HGETALL", keys.session(user, digest)) for digest in digests])
        found, ended = [], []
        for digest, flat in zip(digests, replies, strict=True):
            record = _record(user, digest, flat)
            if record is None:
                ended.append(digest)
            else:
                found.append((digest, record))
        if ended:
            await self._redis.command("SREM", keys.sessions(user), *ended)
        return sorted(found, key=lambda pair: (-pair[1].seen, pair[0]))

    async def end(self, user: str, which: Callable[[SessionRecord], bool]) -> int:
        """End the sessions for which `which` says so, with all their secrets.

        How many sessions there were.

        Looks again until there is none: one may be renewed while it is being ended.
        """
        ids: set[str] = set()
        while doomed := [(digest, record.id) for digest, record in await self.all(user) if which(record)]:
            await self._redis.pipeline([("DEL", keys.session(user, digest)) for digest, _ in doomed])
            await self._redis.command("SREM", keys.sessions(user), *(digest for digest, _ in doomed))
            ids.update(id_ for _, id_ in doomed)
        return len(ids)


def _fields(record: SessionRecord) -> dict[str, str]:
    times = {name: f"{getattr(record, name):.3f}" for name in ("created", "seen", "renewed")}
    texts = {name: getattr(record, name) for name in ("id", "me", "how", "device", "salt")}
    return {**texts, **times}


def _record(user: str, digest: str, flat: Sequence[bytes]) -> SessionRecord | None:
    """A session's hash read back; None where there is none."""
    if not flat:
        return None
    found = fields(flat)
    with reading(keys.session(user, digest)):
        return SessionRecord(
            found["id"],
            found["me"],
            found["how"],
            found["device"],
            float(found["created"]),
            float(found["seen"]),
            float(found["renewed"]),
            found["salt"],
            found.get("next", ""),
            found.get("previous", ""),
        )


_BESIDE = 250
"""Bytes of a key, its digest and its time to live."""


@dataclass(frozen=True, slots=True)
class SignInUnderWay:
    """What was asked of whom. `me` is canonical, as it was entered.

    The endpoints are the provider's, `issuer` is its name, of newer ones; `names_itself` says that its answers name it.
    `base` is our address, `browser` the digest of the browser's secret, `next` where to go afterwards.
    """

    me: str
    authorization_endpoint: str
    token_endpoint: str | None
    revocation_endpoint: str | None
    issuer: str | None
    names_itself: bool
    base: str
    browser: str
    next: str


class PendingStore:
    """The sign-ins under way, by the digest of their `state`."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def put(self, digest: str, sign_in: SignInUnderWay) -> None:
        """Remember a sign-in for a quarter of an hour."""
        await self._redis.command("SET", keys.sign_in(digest), _pending_json(sign_in), "EX", SIGN_IN)

    async def look(self, digest: str) -> SignInUnderWay | None:
        """The sign-in, left where it is."""
        return _read_pending(await self._redis.command("GET", keys.sign_in(digest)))

    async def take(self, digest: str) -> bool:
        """Whether it was there still; it is gone now. Of several callers one is told so."""
        return bool(await self._redis.command("DEL", keys.sign_in(digest)))


def size_of(sign_in: SignInUnderWay) -> int:
    """How many bytes it takes in the store, key and all; roughly, and rather more."""
    return len(_pending_json(sign_in)) + _BESIDE


def _pending_json(sign_in: SignInUnderWay) -> bytes:
    return orjson.dumps(asdict(sign_in))


def _read_pending(text: bytes | None) -> SignInUnderWay | None:
    if text is None:
        return None
    try:
        return SignInUnderWay(**orjson.loads(text))
    except (ValueError, TypeError):
        return None
