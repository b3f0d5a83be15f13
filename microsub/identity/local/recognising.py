"""Signing in on our own pages, by password or passkey, with attempts counted; and confirming that it is still you."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import structlog

from microsub.errors import RequestError, TooManyRequests, Unauthorized
from microsub.identity.local.attempts import Attempts, network_of
from microsub.identity.local.naming import Naming
from microsub.identity.local.passkeys import Answered, Asked, Passkeys
from microsub.identity.local.passwords import Passwords
from microsub.identity.store.accounts import Accounts
from microsub.identity.store.credentials import DEVICE_SECONDS, Credentials, Overview, user_in
from microsub.metrics import LOCAL_SIGN_INS

__all__ = ["DEVICE_SECONDS", "NotRecognised", "Recognised", "Recognising", "Where"]

log = structlog.get_logger(__name__)

CONFIRMED_SECONDS = 600
"""How long a sign-in, or a confirmation, lets people change by what they sign in."""

MOST_IN_COOKIE = 4
"""Users of one browser that it is known for."""

_BETWEEN = "~"


@dataclass(frozen=True, slots=True)
class Where:
    """Where an attempt comes from: the client's address, and the cookie by which the browser may be known."""

    address: str
    devices: str = ""


@dataclass(frozen=True, slots=True)
class Recognised:
    """Somebody who has shown who they are. `me` is the profile URL of the account, `how` the way in words."""

    user: str
    me: str
    how: str


class NotRecognised(Unauthorized):
    """Name or password is wrong, which of them isn't said; or a passkey that isn't known."""


class Recognising:
    """Recognises people by what only they know or have."""

    def __init__(
        self,
        accounts: Accounts,
        store: Credentials,
        passwords: Passwords,
        passkeys: Passkeys,
        attempts: Attempts,
        naming: Naming | None = None,
    ) -> None:
        self._accounts = accounts
        self._store = store
        self._passwords = passwords
        self._passkeys = passkeys
        self._attempts = attempts
        self._naming = naming or Naming(accounts)

    async def by_password(self, who: str, password: str, where: Where, now: float) -> Recognised:
        """The user of that name or web address, with that password. Raises NotRecognised, TooManyRequests."""
        user = await self._naming.meant(who, now)
        if not await self._is_right(user, password, where, now):
            raise NotRecognised("The name or the password is not right.")
        return await self._recognised(user, "with a password")

    async def ask_for_passkey(self, base: str, where: Where, now: float) -> Asked:
        """What the browser of somebody who isn't known yet is asked. Raises TooManyRequests, NotImplementedHere."""
        await self._attempts.begin_challenge(where.address, now)
        return await self._passkeys.ask_to_use(base)

    async def by_passkey(self, base: str, answered: Answered, where: Where, now: float) -> Recognised:
        """The user whose passkey answered. Raises NotRecognised, TooManyRequests."""
        user = await self._passkey_of(base, answered, where, now)
        return await self._recognised(user, "with a passkey")

    async def confirm(self, user: str, session: str, password: str, where: Where, now: float) -> None:
        """Let the session of that id change by what its user signs in. Raises NotRecognised, TooManyRequests."""
        if not await self._is_right(user, password, where, now):
            raise NotRecognised("The password is not right.")
        await self._store.confirm(user, session, CONFIRMED_SECONDS)

    async def confirm_by_passkey(
        self, base: str, user: str, session: str, answered: Answered, where: Where, now: float
    ) -> None:
        """The same by a passkey of that user. Raises NotRecognised, TooManyRequests."""
        if await self._passkey_of(base, answered, where, now) != user:
            raise NotRecognised("This is not a passkey of yours.")
        await self._store.confirm(user, session, CONFIRMED_SECONDS)

    async def is_confirmed(self, user: str, session: str, since: float, now: float) -> bool:
        """Whether the session, signed in at the Unix time `since`, was so, or was confirmed, within ten minutes."""
        return since <= now < since + CONFIRMED_SECONDS or await self._store.is_confirmed(user, session)

    async def overview(self, user: str) -> Overview:
        """By what the user can sign in."""
        return await self._store.overview(user)

    async def remember(self, user: str, devices: str, now: float) -> str:
        """The browser's cookie from now on, by which it is known for this user too."""
        held = _held(devices)
        former = next((one for one in held if user_in(one) == user), "")
        made = await self._store.remember_device(user, now, former)
        return _BETWEEN.join([made, *(one for one in held if one is not former)][:MOST_IN_COOKIE])

    async def _is_right(self, user: str, password: str, where: Where, now: float) -> bool:
        cookie = next((one for one in _held(where.devices) if user_in(one) == user), "")
        known = await self._store.knows_device(user, cookie, now)
        with _paused_counted("password"):
            device = cookie if known else ""
            attempt = await self._attempts.begin(user, where.address, now, device=device)
        try:
            right = await self._passwords.is_right(user, password, attempt.turn)
        except TooManyRequests:
            await self._attempts.undecided(attempt)
            raise
        LOCAL_SIGN_INS.labels("password", "right" if right else "wrong").inc()
        if right:
            await self._attempts.succeeded(attempt)
            with suppress(TooManyRequests):  # it holds for the next one
                await self._attempts.hashed(user, now)
        else:
            # Not what was typed as a name: people type passwords there.
            log.info("a password was wrong", address=network_of(where.address), known_browser=known)
        return right

    async def _passkey_of(self, base: str, answered: Answered, where: Where, now: float) -> str:
        with _paused_counted("passkey"):
            attempt = await self._attempts.begin_anonymous(where.address, now)
        try:
            user = await self._passkeys.use(base, answered, now)
        except RequestError as refused:
            LOCAL_SIGN_INS.labels("passkey", "wrong").inc()
            log.info("a passkey was refused", address=network_of(where.address), why=refused.description)
            raise NotRecognised(f"{refused.description[:1].upper()}{refused.description[1:]}.") from None
        LOCAL_SIGN_INS.labels("passkey", "right").inc()
        await self._attempts.succeeded(attempt)
        return user

    async def _recognised(self, user: str, how: str) -> Recognised:
        found = await self._accounts.user(user)
        if found is None or found.disabled is not None:
            raise NotRecognised("The account is disabled.")
        log.info("signed in", user=user, how=how)
        return Recognised(user, found.me, how)


@contextmanager
def _paused_counted(way: str) -> Iterator[None]:
    try:
        yield
    except TooManyRequests:
        LOCAL_SIGN_INS.labels(way, "paused").inc()
        raise


def _held(devices: str) -> list[str]:
    return [one for one in devices.split(_BETWEEN)[:MOST_IN_COOKIE] if user_in(one)]
