"""Sign-in on our own pages by password or passkey, its rate limits, and invitations.

Wrong passwords cause growing pauses. Attempts are counted by:

- *network*: it must wait, whichever account it tries; much later its /48 must wait too. Its attempts are decided one
  after the other, so right ones at the same moment, as of a family or an office, don't count against each other;
- *browser* in which this user has signed in before: it has its own pauses;
- account and minute, for correct and new passwords, since hashing takes time.

No account is ever locked: wrong guesses from other networks, however many, don't keep its user out. The processor time
of passwords is limited by the queue of `passwords.Hasher`, in which networks take turns. Passkeys can't be guessed:
they are counted by network only, and each failure like any other.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

import structlog

from microsub.accounts import (
    PASSKEY_CHALLENGE,
    Accounts,
    InvitationSpent,
    LocalCredentials,
    Sessions,
    SignedInPerson,
    User,
    owner_in,
)
from microsub.base.errors import NotRecognised, RequestError, TooManyRequests, Unauthorized
from microsub.base.locks import KeyedLocks
from microsub.base.metrics import LOCAL_SIGN_INS
from microsub.base.rate_limits import GrowingPauses, RateLimiter, network_of, wide_network_of
from microsub.base.texts import N_, Sentence, duration, program
from microsub.identity.limits import (
    CHALLENGES,
    CHALLENGES_OF_WIDE_NETWORK,
    HASHES,
    PASSWORDS_OF_BROWSER,
    PASSWORDS_OF_NETWORK,
    PASSWORDS_OF_WIDE_NETWORK,
    TURN_OF_WIDE_NETWORK,
    TURNS_OF_NETWORK,
)
from microsub.identity.passkeys import PasskeyMessage, Passkeys
from microsub.identity.passwords import BUSY_SECONDS, Hasher, Passwords
from microsub.redis.attempts import ATTEMPTS, AttemptCounts
from microsub.redis.protocol import Redis

if TYPE_CHECKING:
    from microsub.identity.admission import UserAddresses

log = structlog.get_logger(__name__)

INVITATION_PATH = "/enrol"
MOST_IN_COOKIE = 4
"""Users that one browser is known for."""

_BETWEEN = "~"
_LINK = "link"


class LocalSignIn:
    """Recognises users by their password, passkey or one-time link, and stores new credentials.

    Close it at the end. Attempts come from a client's `address`, and perhaps with the cookie of a known browser
    (`devices`), which is counted for itself. New credentials by a one-time link, or a new password, end the user's
    sessions.
    """

    def __init__(
        self,
        redis: Redis,
        sessions: Sessions | None = None,
        addresses: UserAddresses | None = None,
        hasher: Hasher | None = None,
    ) -> None:
        self.credentials = LocalCredentials(redis)
        self.passkeys = Passkeys(self.credentials)
        self.hasher = hasher or Hasher()
        self._accounts = Accounts(redis)
        self._passwords = Passwords(self.credentials, self.hasher)
        self.sessions = sessions or Sessions(redis)
        self._attempts = LoginAttempts(AttemptCounts(redis))
        self._addresses = addresses
        self._turns, self._limiter = KeyedLocks(), RateLimiter()

    def close(self) -> None:
        """End the hashing threads."""
        self.hasher.close()

    async def by_password(self, who: str, password: str, address: str, devices: str, now: float) -> SignedInPerson:
        """The user with that name or web address, if the password is right.

        Raises NotRecognised, TooManyRequests.
        """
        user = who if self._addresses is None else await self._addresses.meant(who)
        right, found = await asyncio.gather(
            self._is_right(user, password, address, devices, now), self._accounts.user(user)
        )
        if not right:
            raise NotRecognised(N_("The name or password is incorrect."))
        return _recognised(user, found, "with a password")

    async def ask_for_passkey(self, base: str, address: str, now: float) -> PasskeyMessage:
        """The passkey options for a visitor who isn't recognised yet.

        Raises TooManyRequests, NotImplementedHere.
        """
        await self._attempts.begin_challenge(address, now)
        return await self.passkeys.ask_to_use(base)

    async def by_passkey(self, base: str, answered: PasskeyMessage, address: str, now: float) -> SignedInPerson:
        """The user whose passkey answered. Raises NotRecognised, TooManyRequests."""
        user = await self._passkey_of(base, answered, address, now)
        return _recognised(user, await self._accounts.user(user), "with a passkey")

    async def make_link(self, user: str) -> str:
        """The code of a link that signs the user in once within five minutes, for the person at this machine."""
        return await self.credentials.begin_ceremony({"what": _LINK, "user": user})

    async def by_link(self, code: str) -> SignedInPerson:
        """The user of the code, which `make_link` made. Raises NotRecognised."""
        about = await self.credentials.end_ceremony(code)
        if about is None or about["what"] != _LINK:
            raise NotRecognised(
                Sentence(
                    N_(
                        "This link has already been used or is older than five minutes. "
                        "Restart the server to get a new one, or run {command}."
                    ),
                    command=f"{program()} user invite NAME",
                )
            )
        user = about["user"]
        return _recognised(user, await self._accounts.user(user), "by the link of the server's start")

    async def confirm(self, user: str, session: str, password: str, address: str, devices: str, now: float) -> None:
        """Confirm the session of that id by password, so that its user may change credentials.

        Raises NotRecognised, TooManyRequests.
        """
        if not await self._is_right(user, password, address, devices, now):
            raise NotRecognised(N_("The password is incorrect."))
        await self.sessions.confirm(user, session)

    async def confirm_by_passkey(
        self, base: str, user: str, session: str, answered: PasskeyMessage, address: str, now: float
    ) -> None:
        """Confirm it by a passkey of that user. Raises NotRecognised, TooManyRequests."""
        if await self._passkey_of(base, answered, address, now) != user:
            raise NotRecognised(N_("This is not a passkey of yours."))
        await self.sessions.confirm(user, session)

    async def person(self, user: str, how: str) -> SignedInPerson:
        """The user, who has proven their identity; `how` in words."""
        found = await self._accounts.user(user)
        return SignedInPerson(user, found.me if found is not None else "", how)

    async def remember(self, user: str, devices: str, now: float) -> str:
        """The browser's new cookie, which identifies it for this user too."""
        held = _held(devices)
        former = next((one for one in held if owner_in(one) == user), "")
        made = await self.credentials.remember_device(user, now, former)
        return _BETWEEN.join([made, *(one for one in held if one is not former)][:MOST_IN_COOKIE])

    # --- what people sign in by

    async def invited(self, code: str) -> str:
        """The user whom the code invites. Raises InvitationSpent if it isn't valid."""
        user = await self.credentials.invited(code)
        if user is None:
            raise InvitationSpent
        return user

    async def choose_password(self, code: str, password: str, now: float) -> str:
        """Set the password of the user whom the code invites, which uses up the code; returns the user.

        Raises InvalidRequest for an invalid password (the code stays valid) or code, TooManyRequests.
        """
        user = await self.invited(code)
        await self.set_password(user, password, now, invitation=code)
        return user

    async def begin_chosen_passkey(self, base: str, code: str) -> PasskeyMessage:
        """Begin to create a passkey for the user whom the code invites. Raises InvalidRequest."""
        return await self.passkeys.ask_to_make(base, await self.invited(code))

    async def choose_passkey(self, base: str, code: str, answered: PasskeyMessage, name: str, now: float) -> str:
        """Store the passkey created for `begin_chosen_passkey`, which uses up the code; returns the user.

        Raises InvalidRequest.
        """
        user = await self.invited(code)
        await self.passkeys.make(base, user, answered, name, now, invitation=code)
        await self._forget_browsers(user)
        return user

    async def set_password(
        self, user: str, password: str, now: float, *, but: str = "", invitation: str | None = None
    ) -> None:
        """Set the password of a recognised user, and end all their sessions except the one with id `but`.

        Raises InvalidRequest, NotFound, TooManyRequests, Unauthorized if that session has ended meanwhile.
        """

        async def has_session() -> None:
            if but and all(session.id != but for session in await self.sessions.all(user)):
                raise Unauthorized(N_("You are no longer signed in."))

        await self._attempts.hashed(user, now)
        await self._passwords.set(user, password, now, invitation=invitation, allowed=has_session)
        await self._forget_browsers(user, but=but)

    async def remove_passkey(self, user: str, credential_id: str, *, but: str) -> bool:
        """Remove a passkey, and end the user's sessions except the one with id `but`, since a lost device has both.

        Returns whether the passkey existed.
        """
        there = await self.credentials.remove_passkey(user, credential_id)
        await self._forget_browsers(user, but=but)  # in any case: an earlier removal may have been interrupted here
        return there

    async def forget(self, user: str) -> None:
        """Remove all of the user's credentials and known browsers, and end all their sessions."""
        await self.credentials.forget(user)
        await self.sessions.end_all(user)

    async def _forget_browsers(self, user: str, *, but: str = "") -> None:
        await self.sessions.end_all(user, but=but)
        await self.credentials.forget_devices(user)

    # ---

    async def _is_right(self, user: str, password: str, address: str, devices: str, now: float) -> bool:
        """Whether that is the user's password; the attempt is counted."""
        cookie = next((one for one in _held(devices) if owner_in(one) == user), "")
        with _paused_counted("password"):
            known, _ = await asyncio.gather(
                self.credentials.knows_device(user, cookie, now), self._attempts.require_hash(user, now)
            )
        # A known browser has its own count, and waits for nobody.
        async with nullcontext() if known else self._turn(address):
            return await self._is_right_now(user, password, address, now, cookie if known else "")

    async def _is_right_now(self, user: str, password: str, address: str, now: float, device: str) -> bool:
        with _paused_counted("password"):
            attempt, hashed = await asyncio.gather(
                self._attempts.begin(address, now, device=device), self.credentials.password(user)
            )
        try:
            right = await self._passwords.is_right(user, hashed, password, attempt.turn)
        except TooManyRequests:
            await self._attempts.undecided(attempt)
            raise
        LOCAL_SIGN_INS.labels("password", "right" if right else "wrong").inc()
        if right:
            await self._attempts.was_right(attempt, user, now)
        else:  # without the entered name: people type passwords there
            log.info("a password was wrong", address=network_of(address), known_browser=bool(device))
        return right

    async def _passkey_of(self, base: str, answered: PasskeyMessage, address: str, now: float) -> str:
        async with self._turn(address):
            with _paused_counted("passkey"):
                attempt = await self._attempts.begin_anonymous(address, now)
            try:
                user = await self.passkeys.use(base, answered, now)
            except RequestError as refused:
                LOCAL_SIGN_INS.labels("passkey", "wrong").inc()
                log.info("a passkey was refused", address=network_of(address), why=refused.description)
                raise NotRecognised(refused.description) from None
            LOCAL_SIGN_INS.labels("passkey", "right").inc()
            await self._attempts.succeeded(attempt)
            return user

    @asynccontextmanager
    async def _turn(self, address: str) -> AsyncIterator[None]:
        """Wait until earlier attempts of that network are decided: until then they count as failed.

        Raises TooManyRequests if many of them wait.
        """
        network = network_of(address)
        with self._limiter.holding((TURNS_OF_NETWORK, network), refusal=_too_many(BUSY_SECONDS)):
            async with self._turns.of(network):
                yield


def _recognised(user: str, found: User | None, how: str) -> SignedInPerson:
    if found is None or found.disabled is not None:
        raise NotRecognised(N_("The account is disabled."))
    log.info("signed in", user=user, how=how)
    return SignedInPerson(user, found.me, how)


@contextmanager
def _paused_counted(way: str) -> Iterator[None]:
    try:
        yield
    except TooManyRequests:
        LOCAL_SIGN_INS.labels(way, "paused").inc()
        raise


def _held(devices: str) -> list[str]:
    return [one for one in devices.split(_BETWEEN)[:MOST_IN_COOKIE] if owner_in(one)]


class LoginAttempt(NamedTuple):
    """An admitted attempt, with the keys that it is counted by.

    `turn` is its order among the attempts that wait for a hash: the network's number of recent attempts, 0 for a known
    browser.
    """

    subjects: tuple[str, ...]
    turn: int = 0


class LoginAttempts:
    """Admits or refuses attempts; a refusal raises TooManyRequests."""

    def __init__(self, counts: AttemptCounts) -> None:
        self._counts = counts

    async def require_hash(self, account: str, now: float) -> None:
        """Refuse an attempt with a password of `account`, known or not, after too many hashes in this minute."""
        if await self._counts.in_minute(f"hashes {account}", now, 0) >= HASHES.most:
            raise _too_many(60 - now % 60)

    async def begin(self, address: str, now: float, *, device: str = "") -> LoginAttempt:
        """Begin an attempt by password; it counts as failed until `succeeded`.

        `device` is the cookie of a browser that is known for the account.
        """
        if device:
            return LoginAttempt((await self._begin([(f"device {device}", PASSWORDS_OF_BROWSER)], now)).subjects)
        return await self.begin_anonymous(address, now)

    async def hashed(self, account: str, now: float) -> None:
        """Count a hash for a new password of that account."""
        if await self._counts.in_minute(f"hashes {account}", now) > HASHES.most:
            raise _too_many(60 - now % 60)

    async def was_right(self, attempt: LoginAttempt, account: str, now: float) -> None:
        """The attempt `succeeded`; the hash of the correct password counts for the next one."""
        await asyncio.gather(self.succeeded(attempt), self._counts.in_minute(f"hashes {account}", now))

    async def begin_anonymous(self, address: str, now: float) -> LoginAttempt:
        """Begin an attempt that is counted by address only, for secrets that can't be guessed."""
        return await self._begin(_of_network("address", address, PASSWORDS_OF_NETWORK, PASSWORDS_OF_WIDE_NETWORK), now)

    async def begin_challenge(self, address: str, now: float) -> None:
        """Count a challenge for a visitor who isn't recognised yet."""
        asked = _of_network("challenges", address, CHALLENGES, CHALLENGES_OF_WIDE_NETWORK)
        await self._begin(asked, now, kept=PASSKEY_CHALLENGE)

    async def _begin(
        self, asked: Sequence[tuple[str, GrowingPauses]], now: float, kept: int = ATTEMPTS
    ) -> LoginAttempt:
        taken: list[str] = []
        turn = 0
        for subject, allowance in asked:
            wait, count = await self._counts.take(subject, allowance.pauses(), now, kept)
            if wait:
                await self.undecided(LoginAttempt(tuple(taken)))
                raise _too_many(wait)
            taken.append(subject)
            turn = max(turn, -(-count // TURN_OF_WIDE_NETWORK) if allowance is PASSWORDS_OF_WIDE_NETWORK else count)
        return LoginAttempt(tuple(taken), turn)

    async def succeeded(self, attempt: LoginAttempt) -> None:
        """The attempt was correct: reset the count of its device.

        The network's count is only reduced by this attempt. Otherwise an attacker with an account here could guess
        other passwords endlessly, by signing in to their own account in between.
        """
        for subject in attempt.subjects:
            if subject.startswith("address "):
                await self._counts.give_back(subject)
            else:
                await self._counts.forget(subject)

    async def undecided(self, attempt: LoginAttempt) -> None:
        """The attempt failed because of our own problem: it doesn't count."""
        for subject in attempt.subjects:
            await self._counts.give_back(subject)


def _of_network(what: str, address: str, narrow: GrowingPauses, wide: GrowingPauses) -> list[tuple[str, GrowingPauses]]:
    """The keys by which an address is counted: its network, and for IPv6 also the /48."""
    around = wide_network_of(address)
    return [(f"{what} {network_of(address)}", narrow), *([(f"{what} {around}", wide)] if around is not None else [])]


def _too_many(wait: float) -> TooManyRequests:
    seconds = math.ceil(wait)
    text = N_("too many sign-in attempts; try again in {time}")
    return TooManyRequests(Sentence(text, time=duration(seconds)), seconds)
