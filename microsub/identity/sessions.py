"""Sessions of our own pages: begun, found, renewed and ended.

The cookie is `<user>.<secret>`; only the SHA-256 of the whole text is stored. Each sign-in makes a new secret, and so
does the first visit of a day: the new secret is an HMAC of the old one under a key that the record holds. So several
requests that come at once get the same new cookie, a reply that gets lost does no harm, and neither the stored data nor
an old cookie alone leads to a new one.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass

from microsub.errors import Unauthorized
from microsub.identity.limits import SESSION_SECRET, VISIT_NOTED
from microsub.identity.store.sessions import SessionRecord, SessionStore
from microsub.kit.digests import sha256_hex
from microsub.model.reader import NAME

LONGEST_COOKIE = 256

MOST = 100
"""Sessions of one user; the ones that weren't used for longest end."""


@dataclass(frozen=True, slots=True)
class SignedInPerson:
    """Somebody who has signed in as a user, before they have a session.

    `me` is the profile URL of the account, `how` the way in words; `next` is the path of ours to go on to, or empty;
    `new`: the account was made by that.
    """

    user: str
    me: str
    how: str
    next: str = ""
    new: bool = False


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Who sent a request: user, profile URL, the session's id, the way of the sign-in.

    `cookie` is the new value of the cookie where it has changed, else None. `since` is the Unix time of the sign-in.
    """

    user: str
    me: str
    id: str
    how: str
    since: float
    cookie: str | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """A session as its owner sees it in a list. Times are Unix seconds."""

    id: str
    how: str
    device: str
    created: float
    seen: float


class Sessions:
    """Begins, finds, renews and ends sessions."""

    def __init__(self, store: SessionStore, lent: Callable[[str], str] = lambda _: "") -> None:
        """`lent` tells the profile URL of a user who has none of their own."""
        self._store = store
        self._lent = lent

    async def begin(self, user: str, me: str, how: str, user_agent: str, now: float, *, instead_of: str = "") -> str:
        """Begin a session; returns the cookie's value, the only time that it is seen.

        `how` is the way of the sign-in in words. The session of the cookie `instead_of`, which the browser had before,
        is ended. Raises Unauthorized where there is no such user, or they are disabled.
        """
        cookie = f"{user}.{secrets.token_urlsafe(32)}"
        id_, salt = secrets.token_hex(8), secrets.token_hex(32)
        record = SessionRecord(id_, me, how, device(user_agent), now, now, now, salt)
        if not await self._store.open(user, sha256_hex(cookie), record):
            raise Unauthorized(f"the user '{user}' doesn't exist, or is disabled")
        before = await self.find(instead_of, now)
        if before is not None:
            await self.end(before.user, before.id)
        for surplus in (await self.all(user))[MOST:]:
            await self.end(user, surplus.id)
        return cookie

    async def find(self, cookie: str, now: float) -> SignedIn | None:
        """Who the cookie stands for; None for one that isn't good (any more).

        A session ends when its user is disabled, or is given another profile URL, not one that is only written in
        another way.
        """
        user, dot, secret = cookie.partition(".")
        if not dot or not secret or len(cookie) > LONGEST_COOKIE or not cookie.isascii() or not NAME.match(user):
            return None
        digest = sha256_hex(cookie)
        found = await self._store.find(user, digest)
        if found is None or found.disabled or not _is_same(found.me, found.record.me):
            return None
        new = await self._kept(user, cookie, digest, found.record, now)
        record = found.record
        return SignedIn(user, record.me or self._lent(user), record.id, record.how, record.created, new)

    async def all(self, user: str) -> list[Session]:
        """The user's sessions, the one that was used last first."""
        seen: dict[str, Session] = {}
        for _, record in await self._store.all(user):
            if record.id not in seen:
                seen[record.id] = Session(record.id, record.how, record.device, record.created, record.seen)
        return list(seen.values())

    async def end(self, user: str, id_: str) -> bool:
        """End one session; whether there was one."""
        return await self._store.end(user, lambda record: record.id == id_) > 0

    async def end_all(self, user: str, *, but: str = "") -> int:
        """End all sessions of the user, except the one of the id `but`; how many there were."""
        return await self._store.end(user, lambda record: record.id != but)

    async def _kept(self, user: str, cookie: str, digest: str, record: SessionRecord, now: float) -> str | None:
        """Note the visit and renew the secret where it is time; the new cookie, if any."""
        if record.next or now - record.renewed >= SESSION_SECRET:
            new = _successor(user, cookie, record.salt)
            if record.next:
                return new if hmac.compare_digest(record.next, sha256_hex(new)) else None
            return new if await self._store.renew(user, digest, sha256_hex(new), secrets.token_hex(32), now) else None
        if record.previous:
            await self._store.settle(user, digest, record.previous)
        if now - record.seen >= VISIT_NOTED:
            await self._store.touch(user, digest, now)
        return None


def _successor(user: str, cookie: str, salt: str) -> str:
    mac = hmac.digest(bytes.fromhex(salt), cookie.encode(), hashlib.sha256)
    return f"{user}.{urlsafe_b64encode(mac).rstrip(b'=').decode()}"


_BROWSERS = {
    **{"Edg": "Edge", "OPR/": "Opera", "Vivaldi/": "Vivaldi", "SamsungBrowser/": "Samsung Internet"},
    **{"FxiOS/": "Firefox", "Firefox/": "Firefox", "CriOS/": "Chrome", "HeadlessChrome/": "Chrome"},
    **{"Chromium/": "Chromium", "Chrome/": "Chrome", "Safari/": "Safari"},
}
_SYSTEMS = {
    **{"iPhone": "iPhone", "iPad": "iPad", "Android": "Android", "CrOS": "ChromeOS", "Windows": "Windows"},
    **{"Mac OS X": "macOS", "Macintosh": "macOS", "OpenBSD": "OpenBSD", "FreeBSD": "FreeBSD", "Linux": "Linux"},
}
"""What a `User-Agent` has in it, and what that says; the first one that fits counts."""


def device(user_agent: str) -> str:
    """Such as `Firefox on Linux`; `a browser` where nothing of it is known."""
    browser = next((name for mark, name in _BROWSERS.items() if mark in user_agent), "")
    system = next((name for mark, name in _SYSTEMS.items() if mark in user_agent), "")
    return f"{browser or 'a browser'} on {system}" if system else browser or "a browser"


def _is_same(me: str, former: str) -> bool:
    if me == former:
        return True
    # Here, because it loads what reads pages, and hardly any address changes its spelling.
    from microsub.identity.protocol.links import same_me

    return same_me(me, former)
