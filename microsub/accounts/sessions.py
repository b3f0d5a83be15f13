"""Sessions of our own pages, and pending sign-ins at other providers.

A session is in the slot of its user. The cookie is `<user>.<secret>`; only the SHA-256 of the whole text is stored.
Each sign-in creates a new secret, and so does the first visit of a day: the new secret is an HMAC of the old one with a
key in the record. So simultaneous requests get the same new cookie, a lost reply does no harm, and neither the stored
data nor an old cookie alone is enough to derive a new one. The `id` stays the same: users end a session by it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import chain

import orjson

from microsub.base.clock import DAY
from microsub.base.digests import is_same, keyed_digest, new_secret, sha256_hex
from microsub.base.errors import Unauthorized
from microsub.base.identifiers import same_me
from microsub.base.texts import N_
from microsub.model.reader import NAME
from microsub.model.session import CONFIRMATION, SESSION, SignedIn
from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis
from microsub.redis.replies import fields, reading, text
from microsub.redis.scan import listed
from microsub.redis.scripts import load

SESSION_SECRET = 1 * DAY
"""Until the secret of a session is renewed."""
SESSION_OVERLAP = 1 * DAY
"""Maximum time for which the old secret stays valid after a renewal: the reply with the new one may get lost."""
SESSION_SETTLED = 60
"""How long the old secret stays valid after the first request with the new one, for requests in progress."""
VISIT_NOTED = 300
"""Minimum time between two recorded visits of a session, so that not every request writes."""
SIGN_IN = 900
"""Maximum time at the provider, where people may have to look up their password."""

LONGEST_COOKIE = 256

MOST = 100
"""Sessions of one user; the least recently used ones end."""


@dataclass(frozen=True, slots=True)
class SignedInPerson:
    """A person who is admitted as a user, before they have a session.

    `me` is the account's profile URL, `how` the way of the sign-in in words, empty until it is known; `next` is the
    path of ours to go to, or empty; `new`: the account was created by this sign-in.
    """

    user: str
    me: str
    how: str = ""
    next: str = ""
    new: bool = False


@dataclass(frozen=True, slots=True)
class Session:
    """A session as it is stored. Times are Unix seconds.

    `me` is the user's profile URL at sign-in, `how` the way of it, `device` a short description. `next` is the digest
    of the secret that replaced this one, `previous` that of its predecessor while valid; either may be empty.
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


class Sessions:
    """Begins, finds, renews and ends sessions. `hosted_profile` returns the profile URL of users without their own."""

    def __init__(self, redis: Redis, hosted_profile: Callable[[str], str] = lambda _: "") -> None:
        self._redis = redis
        self._hosted_profile = hosted_profile

    async def begin(self, user: str, me: str, how: str, user_agent: str, now: float, *, instead_of: str = "") -> str:
        """Begin a session; returns the cookie's value, the only time that it is available.

        `how` is the way of the sign-in in words. The session of the cookie `instead_of`, the browser's previous one,
        ends. Raises Unauthorized if the user doesn't exist or is disabled.
        """
        cookie = f"{user}.{new_secret()}"
        digest, moment = sha256_hex(cookie), f"{now:.3f}"
        record = {
            **{"id": secrets.token_hex(8), "me": me, "how": how, "device": device(user_agent)},
            **{"created": moment, "seen": moment, "renewed": moment, "salt": secrets.token_hex(32)},
        }
        key, listed = keys.session(user, digest), keys.sessions(user)
        held = await write_record(self._redis, user, key, record, listed=listed, life=SESSION, digest=digest)
        if not held:
            raise Unauthorized(f"the user '{user}' doesn't exist, or is disabled")
        before = await self.find(instead_of, now)
        if before is not None:
            await self.end(before.user, before.id)
        if held > MOST:
            for surplus in (await self.all(user))[MOST:]:
                await self.end(user, surplus.id)
        return cookie

    async def find(self, cookie: str, now: float) -> SignedIn | None:
        """The session of the cookie; None if it is invalid or has expired.

        A session ends when its user is disabled or gets another profile URL, except for another spelling of the same
        one.
        """
        user, dot, secret = cookie.partition(".")
        if not dot or not secret or len(cookie) > LONGEST_COOKIE or not cookie.isascii() or not NAME.match(user):
            return None
        digest = sha256_hex(cookie)
        own = ("display", "searches", "playing", "shortcuts", "services")
        asked = ("me", "disabled", "admin", "read_everywhere", *own)
        flat, (me, disabled, admin, everywhere, *kept) = await self._redis.pipeline(
            [("HGETALL", keys.session(user, digest)), ("HMGET", keys.user(user), *asked)]
        )
        if not flat or me is None or disabled is not None:
            return None
        found = _session(user, digest, fields(flat))
        if not _is_same(me.decode(), found.me):
            return None
        new = await self._visit(user, cookie, digest, found, now)
        return SignedIn(
            user,
            found.me or self._hosted_profile(user),
            found.id,
            found.how,
            found.created,
            admin is not None,
            new,
            read_everywhere=everywhere == b"yes",
            **{name: text(value or b"") for name, value in zip(own, kept, strict=True)},
        )

    async def confirm(self, user: str, id_: str) -> None:
        """Record that the user has confirmed their identity in the session of that id, for `CONFIRMATION` seconds."""
        await self._redis.command("SET", keys.confirmed(user, id_), "", "EX", CONFIRMATION)

    async def is_confirmed(self, session: SignedIn, now: float) -> bool:
        """Whether the session was signed in or confirmed within `CONFIRMATION`."""
        if session.since <= now < session.since + CONFIRMATION:
            return True
        return bool(await self._redis.command("EXISTS", keys.confirmed(session.user, session.id)))

    async def all(self, user: str) -> list[Session]:
        """The user's sessions, the most recently used first."""
        seen: dict[str, Session] = {}
        for _, session in await self._all(user):
            seen.setdefault(session.id, session)
        return list(seen.values())

    async def still_open(self, user: str, id_: str) -> Session | None:
        """The session of that id, by the same rules as `find`, without a visit; None if it has ended."""
        me, disabled = await self._redis.command("HMGET", keys.user(user), "me", "disabled")
        if me is None or disabled is not None:
            return None
        same = (one for one in await self.all(user) if one.id == id_ and _is_same(me.decode(), one.me))
        return next(same, None)

    async def end(self, user: str, id_: str) -> bool:
        """End one session; returns whether it existed."""
        return await self._end(user, lambda session: session.id == id_) > 0

    async def end_all(self, user: str, *, but: str = "") -> int:
        """End all sessions of the user except the one with id `but`; returns their number."""
        return await self._end(user, lambda session: session.id != but)

    async def _visit(self, user: str, cookie: str, digest: str, session: Session, now: float) -> str | None:
        """Record the visit and renew the secret if it is time; returns the new cookie, if any."""
        if session.next or now - session.renewed >= SESSION_SECRET:
            new = _successor(user, cookie, session.salt)
            if session.next:
                return new if is_same(session.next, sha256_hex(new)) else None
            return new if await self._renew(user, digest, sha256_hex(new), now) else None
        if session.previous:  # the browser has received this secret
            former = keys.session(user, session.previous)
            settled = ("HDEL", keys.session(user, digest), "previous")
            await self._redis.pipeline([("EXPIRE", former, SESSION_SETTLED), settled])
        if now - session.seen >= VISIT_NOTED:
            await self._touch(user, digest, now)
        return None

    async def _touch(self, user: str, digest: str, now: float) -> None:
        """Record a visit, which extends the session."""
        names, seen = {"record": keys.session(user, digest), "others": [keys.sessions(user)]}, ("seen", f"{now:.3f}")
        await self._redis.script(load("record_change")(**names, field="id", life=SESSION, fields=seen))

    async def _renew(self, user: str, old: str, new: str, now: float) -> bool:
        """Add the digest `new` to the session, which soon replaces the old one. False if the session has ended."""
        done = await self._redis.script(
            load("session_renew")(
                user,
                old=keys.session(user, old),
                new=keys.session(user, new),
                old_digest=old,
                new_digest=new,
                now=f"{now:.3f}",
                salt=secrets.token_hex(32),
                life=SESSION,
                overlap=SESSION_OVERLAP,
            )
        )
        return bool(done)

    async def _all(self, user: str) -> list[tuple[str, Session]]:
        """Digests and records of the user's sessions, including replaced secrets, the last visited first.

        Removes the digests of those that ended.
        """
        rows = await listed(self._redis, keys.sessions(user), lambda digest: keys.session(user, digest))
        found = [(digest, _session(user, digest, row)) for digest, row in rows.items()]
        return sorted(found, key=lambda pair: (-pair[1].seen, pair[0]))

    async def _end(self, user: str, which: Callable[[Session], bool]) -> int:
        """End the sessions selected by `which`, with all their secrets; returns their number.

        Repeats until there are none, since a session may be renewed while it is being ended.
        """
        ids: set[str] = set()
        while doomed := [(digest, session.id) for digest, session in await self._all(user) if which(session)]:
            await self._redis.pipeline([("DEL", keys.session(user, digest)) for digest, _ in doomed])
            await self._redis.command("SREM", keys.sessions(user), *(digest for digest, _ in doomed))
            ids.update(id_ for _, id_ in doomed)
        return len(ids)


def _session(user: str, digest: str, found: Mapping[str, str]) -> Session:
    with reading(keys.session(user, digest)):
        created, seen, renewed = (float(found[name]) for name in ("created", "seen", "renewed"))
        words = {name: found[name] for name in ("id", "me", "how", "device", "salt")}
        names = {"next": found.get("next", ""), "previous": found.get("previous", "")}
        return Session(**words, **names, created=created, seen=seen, renewed=renewed)


def _successor(user: str, cookie: str, salt: str) -> str:
    return f"{user}.{keyed_digest(bytes.fromhex(salt), cookie)}"


_BROWSERS = {
    **{"Edg": "Edge", "OPR/": "Opera", "Vivaldi/": "Vivaldi", "SamsungBrowser/": "Samsung Internet"},
    **{"FxiOS/": "Firefox", "Firefox/": "Firefox", "CriOS/": "Chrome", "HeadlessChrome/": "Chrome"},
    **{"Chromium/": "Chromium", "Chrome/": "Chrome", "Safari/": "Safari"},
}
_SYSTEMS = {
    **{"iPhone": "iPhone", "iPad": "iPad", "Android": "Android", "CrOS": "ChromeOS", "Windows": "Windows"},
    **{"Mac OS X": "macOS", "Macintosh": "macOS", "OpenBSD": "OpenBSD", "FreeBSD": "FreeBSD", "Linux": "Linux"},
}
"""Parts of a `User-Agent` and their meanings; the first match counts."""


def device(user_agent: str) -> str:
    """A description such as `Firefox on Linux`; `a browser` if it is unknown."""
    browser = next((name for mark, name in _BROWSERS.items() if mark in user_agent), "")
    system = next((name for mark, name in _SYSTEMS.items() if mark in user_agent), "")
    browser = browser or N_("a browser")
    return f"{browser} on {system}" if system else browser


def _is_same(me: str, former: str) -> bool:
    if me == former:
        return True
    # Imported here, because it loads page parsing, and addresses rarely change their spelling.
    return same_me(me, former)


# --- sign-ins under way ---------------------------------------------------------------------------------------------

_BESIDE = 250
"""Bytes of a key, its digest and its time to live."""


@dataclass(frozen=True, slots=True)
class SignInUnderWay:
    """A pending sign-in at a provider. `me` is canonical, as entered.

    The endpoints are the provider's, `issuer` is its name, if it is a newer one; `names_itself`: its responses contain
    the issuer. `base` is our address, `browser` the digest of the browser's secret, `next` the path afterwards.
    `micropub` is the endpoint of the user's site, if this isn't a sign-in but lets this server post there, as `user`.
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
    user: str = ""
    micropub: str = ""

    @property
    def size(self) -> int:
        """Its size in the store in bytes, including the key; a generous estimate."""
        return len(orjson.dumps(asdict(self))) + _BESIDE


class PendingStore:
    """The pending sign-ins, by the digest of their `state`."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def put(self, digest: str, sign_in: SignInUnderWay) -> None:
        """Store a sign-in for `SIGN_IN` seconds."""
        await self._redis.command("SET", keys.sign_in(digest), orjson.dumps(asdict(sign_in)), "EX", SIGN_IN)

    async def look(self, digest: str) -> SignInUnderWay | None:
        """The sign-in, which stays stored."""
        text = await self._redis.command("GET", keys.sign_in(digest))
        if text is None:
            return None
        try:
            return SignInUnderWay(**orjson.loads(text))
        except TypeError:  # stored by an earlier version
            return None

    async def take(self, digest: str) -> bool:
        """Remove a sign-in; returns whether it was still there. Only one of several callers gets True."""
        return bool(await self._redis.command("DEL", keys.sign_in(digest)))


async def write_record(redis: Redis, user: str, record: str, fields: Mapping[str, Arg], **how: Arg) -> int:
    """Write fields of a record of a user who may sign in; `how` and the reply are those of lua/user_record.lua."""
    return int(await redis.script(load("user_record")(user, record=record, **how, fields=[*chain(*fields.items())])))
