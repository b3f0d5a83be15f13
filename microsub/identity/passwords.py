"""Passwords of users: checked, set, changed."""

from __future__ import annotations

import asyncio
import heapq
import unicodedata
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from microsub.errors import InvalidRequest, TooManyRequests
from microsub.identity.limits import PASSWORDS_WAITING
from microsub.identity.store.credentials import LocalCredentials
from microsub.kit.digests import is_same
from microsub.kit.texts import N_, Sentence

if TYPE_CHECKING:
    from argon2 import PasswordHasher

_Hashed = TypeVar("_Hashed")

BUSY_SECONDS = 2
"""After how long somebody may try again who found no place."""

_QueuePlace = tuple[int, int, "asyncio.Future[None]"]
"""The turn, the order of asking, and what says that a thread is free."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a hash: passes over this many KiB of memory, in one thread."""

    passes: int = 2
    memory_kib: int = 19 * 1024


class Hasher:
    """Makes and checks hashes, one at a time, while at most `waiting` others wait.

    `turn` is how many attempts the same network has made of late, this one included: smaller numbers come first. All
    methods raise TooManyRequests where more of these wait than there are places.
    """

    def __init__(self, cost: Cost = Cost(), *, waiting: int = PASSWORDS_WAITING.most) -> None:
        self._cost = cost
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="passwords")
        self._is_free = True
        self._most = waiting
        self._queue: list[_QueuePlace] = []
        self._asked = 0
        self._nobodys: str | None = None

    @cached_property
    def _argon2(self) -> PasswordHasher:
        from argon2 import PasswordHasher, Type  # with the first password, so that a server starts quickly

        return PasswordHasher(self._cost.passes, self._cost.memory_kib, 1, 32, 16, type=Type.ID)

    async def hash(self, password: str) -> str:
        """The hash of a password, with parameters and a fresh salt."""
        return await self._run(lambda: self._argon2.hash(password), 0)

    async def check(self, hashed: str | None, password: str | None, turn: int = 0) -> bool:
        """Whether the password is the one of that hash.

        Takes as long where there is no hash, or no password that could be anybody's.
        """
        return await self._run(lambda: self._check(hashed, password), turn)

    def is_old(self, hashed: str) -> bool:
        """Whether the hash was made with other parameters than today's."""
        return self._argon2.check_needs_rehash(hashed)

    def close(self) -> None:
        """End the thread; what it has in hand is finished."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _check(self, hashed: str | None, password: str | None) -> bool:
        if self._nobodys is None:
            self._nobodys = self._argon2.hash("nobody's")
        against = hashed if hashed is not None and password is not None else self._nobodys
        from argon2.exceptions import InvalidHashError, VerificationError

        try:
            right = self._argon2.verify(against, password if password is not None else "")
        except (VerificationError, InvalidHashError):
            return False
        return right and against is hashed

    async def _run(self, work: Callable[[], _Hashed], turn: int) -> _Hashed:
        if self._is_free:
            self._is_free = False
        else:
            await self._place(turn)
        job = self._threads.submit(work)
        # Counted until the thread is done, also for an asker who went away meanwhile.
        loop = asyncio.get_running_loop()
        job.add_done_callback(lambda _: _call_soon(loop, self._next))
        return await asyncio.wrap_future(job)

    async def _place(self, turn: int) -> None:
        """Wait for the thread. A caller that is cancelled leaves it to the next."""
        if len(self._queue) >= self._most:
            last = max(self._queue, default=None)
            if last is None or last[0] <= turn:
                raise _busy()
            self._leave(last)
            last[2].set_exception(_busy())
        self._asked += 1
        mine: _QueuePlace = (turn, self._asked, asyncio.get_running_loop().create_future())
        heapq.heappush(self._queue, mine)
        try:
            await mine[2]
        except asyncio.CancelledError:
            if mine in self._queue:
                self._leave(mine)
            elif mine[2].done() and not mine[2].cancelled() and mine[2].exception() is None:
                self._next()
            raise

    def _leave(self, one: _QueuePlace) -> None:
        self._queue.remove(one)
        heapq.heapify(self._queue)

    def _next(self) -> None:
        if self._queue:
            heapq.heappop(self._queue)[2].set_result(None)
        else:
            self._is_free = True


def _busy() -> TooManyRequests:
    return TooManyRequests(N_("too many passwords are being checked right now; try again in a moment"), BUSY_SECONDS)


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)


SHORTEST_PASSWORD = 15
LONGEST_PASSWORD = 256
"""Characters of a password; 15 is what NIST asks of one that no second factor stands beside."""

_FEWEST_DIFFERENT = 5
_OWN_PART = 8
"""Characters that must be left of a password when the user's name is taken out of it."""

_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm", "qwertzuiop", "azertyuiop", "password", "microsub", "letmein")

_PHRASES = (
    *("correcthorsebatterystaple", "thequickbrownfoxjumpsoverthelazydog", "loremipsumdolorsitamet"),
    *("tobeornottobethatisthequestion", "tobeornottobe", "maytheforcebewithyou", "allyourbasearebelongtous"),
    *("winteriscoming", "iloveyouverymuch", "openthepodbaydoors", "livelongandprosper", "nevergonnagiveyouup"),
    *("itwasthebestoftimes", "callmeishmael", "inthebeginningwastheword", "fourwordsatrandom", "passwordpassword"),
)
"""Examples and sayings that are long and that everybody knows, without spaces and punctuation."""


def normal_password(password: str) -> str | None:
    """The password as it is hashed and compared.

    None for what can't be anybody's, as it is too long or no text.
    """
    # NFKC makes some characters into eighteen, so the length is looked at before.
    if not password or len(password) > LONGEST_PASSWORD:
        return None
    text = unicodedata.normalize("NFKC", password)
    try:
        text.encode()
    except UnicodeEncodeError:  # halves of surrogate pairs
        return None
    return text


def chosen_password(password: str, user: str) -> str:
    """A new password of `user` in its normal form.

    Raises InvalidRequest, which says what it should be like instead.
    """
    text = normal_password(password)
    if len(password) > LONGEST_PASSWORD:
        raise InvalidRequest(Sentence("the password has more than {most} characters", most=LONGEST_PASSWORD))
    if text is None or len(text) < SHORTEST_PASSWORD:
        few = N_("the password has fewer than {least} characters; try a few words")
        raise InvalidRequest(Sentence(few, least=SHORTEST_PASSWORD))
    if any(unicodedata.category(letter) == "Cc" for letter in text):
        raise InvalidRequest(N_("the password contains a line break, a tab or another control character"))
    plain = text.casefold()
    if len(set(plain)) < _FEWEST_DIFFERENT:
        raise InvalidRequest(N_("the password has too few different characters"))
    if len(plain.replace(user.casefold(), "")) < _OWN_PART:
        raise InvalidRequest(N_("the password is too similar to the user name"))
    if _is_common(plain):
        raise InvalidRequest(N_("the password is a keyboard pattern or a very common word"))
    if _is_known(plain):
        raise InvalidRequest(N_("the password is a well-known phrase or example, which is easy to guess"))
    return text


def _is_common(plain: str) -> bool:
    """Whether little is left besides runs like 12345678, rows of keys and common words."""
    rest = plain
    for row in _ROWS:
        rest = rest.replace(row, "").replace(row[::-1], "")
    return _without_runs(rest) < _FEWEST_DIFFERENT


def _is_known(plain: str) -> bool:
    """Whether little is left besides a well-known phrase, however it is spaced."""
    letters = "".join(letter for letter in plain if letter.isalnum())
    rests = (letters.replace(phrase, "") for phrase in _PHRASES if phrase in letters)
    return any(len(rest) < _FEWEST_DIFFERENT for rest in rests)


def _without_runs(text: str) -> int:
    """The number of characters that neither repeat nor follow the previous one, up or down."""
    steps = [abs(ord(after) - ord(before)) for before, after in pairwise(text)]
    return (1 if text else 0) + sum(step > 1 for step in steps)


class Passwords:
    """The passwords in the store, which are hashed outside of the event loop."""

    def __init__(self, store: LocalCredentials, hasher: Hasher) -> None:
        self._store = store
        self._hasher = hasher

    async def is_right(self, user: str, password: str, turn: int = 0) -> bool:
        """Whether that is the user's password.

        It takes as long for a user that there isn't, or who has none. `turn` is its place in the queue
        (`hashing.Hasher`). A hash of former parameters is replaced. Counting attempts is left to the caller. Raises
        TooManyRequests.
        """
        text = normal_password(password)
        hashed = await self._store.password(user)
        while await self._hasher.check(hashed, text, turn):
            assert hashed is not None
            assert text is not None
            # The attempt may have waited for so long that the password, and who has a session, was changed meanwhile.
            former, hashed = hashed, await self._store.password(user)
            if hashed == former:
                if self._hasher.is_old(hashed):
                    await self._store.rehash(user, hashed, await self._hasher.hash(text))
                return True
        return False

    async def set(
        self,
        user: str,
        password: str,
        now: float,
        *,
        invitation: str | None = None,
        allowed: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Set the user's password, whatever there was; `invitation` is used up by it.

        `allowed` is called after the wait for the hash, and raises where that may not be done any more. Raises
        InvalidRequest for one that can't be taken, NotFound for an unknown or disabled user, InvitationSpent,
        TooManyRequests. Ending sessions is left to the caller.
        """
        text = chosen_password(password, user)
        hashed = await self._hasher.hash(text)
        if allowed is not None:
            await allowed()
        await self._store.set_password(user, hashed, now, invitation=invitation)


def repeated_password(password: str, again: str) -> str:
    """The password that was typed twice. Raises InvalidRequest where it differs."""
    if not is_same(password, again):
        raise InvalidRequest(N_("the passwords don't match"))
    return password
