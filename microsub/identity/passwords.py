"""Passwords of users: checked, set, changed."""

from __future__ import annotations

import asyncio
import heapq
import unicodedata
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

from microsub import identity  # argon2 is loaded with the first password, so that a server starts quickly
from microsub.accounts import LocalCredentials
from microsub.base.digests import is_same
from microsub.base.errors import InvalidRequest, TooManyRequests
from microsub.base.texts import N_, Sentence
from microsub.identity.limits import PASSWORDS_WAITING

_Hashed = TypeVar("_Hashed")

BUSY_SECONDS = 2
"""Seconds after which a user without a place in the queue may try again."""

_QueuePlace = tuple[int, int, "asyncio.Future[None]"]
"""The turn, the order of arrival, and the future that is set when the thread is free."""


class Hasher:
    """Creates and checks hashes, one at a time, while at most `waiting` others wait.

    A hash costs `passes` over that many KiB of memory, in one thread.

    `turn` is the network's number of recent attempts, including this one: smaller numbers come first. All methods raise
    TooManyRequests if the queue is full.
    """

    def __init__(self, *, passes: int = 2, memory_kib: int = 19 * 1024, waiting: int = PASSWORDS_WAITING.most) -> None:
        self._cost = passes, memory_kib
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="passwords")
        self._is_free = True
        self._most = waiting
        self._queue: list[_QueuePlace] = []
        self._asked = 0
        self._nobodys: str | None = None

    @cached_property
    def _argon2(self) -> identity.Argon2id:
        return identity.Argon2id(*self._cost)

    async def hash(self, password: str) -> str:
        """The hash of a password, with its parameters and a new salt."""
        return await self._run(lambda: self._argon2.hash(password), 0)

    async def check(self, hashed: str | None, password: str | None, turn: int = 0) -> bool:
        """Whether the password matches the hash.

        It takes the same time without a hash, or for text that can't be a password.
        """
        return await self._run(lambda: self._check(hashed, password), turn)

    def is_old(self, hashed: str) -> bool:
        """Whether the hash was created with other parameters than the present ones."""
        return self._argon2.check_needs_rehash(hashed)

    def close(self) -> None:
        """End the thread after its current work."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _check(self, hashed: str | None, password: str | None) -> bool:
        if self._nobodys is None:
            self._nobodys = self._argon2.hash("nobody's")
        against = hashed if hashed is not None and password is not None else self._nobodys
        return self._argon2.matches(against, password or "") and against is hashed

    async def _run(self, work: Callable[[], _Hashed], turn: int) -> _Hashed:
        if self._is_free:
            self._is_free = False
        else:
            await self._place(turn)
        job = self._threads.submit(work)
        # Counted until the thread is done, even if the caller was cancelled meanwhile.
        loop = asyncio.get_running_loop()
        job.add_done_callback(lambda _: _call_soon(loop, self._next))
        return await asyncio.wrap_future(job)

    async def _place(self, turn: int) -> None:
        """Wait for the thread. A cancelled caller leaves it to the next one."""
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
"""Characters of a password; NIST requires 15 without a second factor."""

_FEWEST_DIFFERENT = 5
_OWN_PART = 8
"""Characters that a password must have besides the user's name."""

_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm", "qwertzuiop", "azertyuiop", "password", "microsub", "letmein")

_PHRASES = (
    *("correcthorsebatterystaple", "thequickbrownfoxjumpsoverthelazydog", "loremipsumdolorsitamet"),
    *("tobeornottobethatisthequestion", "tobeornottobe", "maytheforcebewithyou", "allyourbasearebelongtous"),
    *("winteriscoming", "iloveyouverymuch", "openthepodbaydoors", "livelongandprosper", "nevergonnagiveyouup"),
    *("itwasthebestoftimes", "callmeishmael", "inthebeginningwastheword", "fourwordsatrandom", "passwordpassword"),
)
"""Long examples and sayings that are widely known, without spaces and punctuation."""


def normal_password(password: str) -> str | None:
    """The password as it is hashed and compared.

    None if it can't be a password, because it is too long or invalid text.
    """
    # NFKC expands some characters to eighteen, so the length is checked first.
    if not password or len(password) > LONGEST_PASSWORD:
        return None
    text = unicodedata.normalize("NFKC", password)
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates
        return None
    return text


def chosen_password(password: str, user: str) -> str:
    """A new password of `user` in its normal form.

    Raises InvalidRequest, which explains the requirements.
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
    """Whether it consists almost only of runs like 12345678, rows of keys and common words."""
    rest = plain
    for row in _ROWS:
        rest = rest.replace(row, "").replace(row[::-1], "")
    return _without_runs(rest) < _FEWEST_DIFFERENT


def _is_known(plain: str) -> bool:
    """Whether it consists almost only of a well-known phrase, with any spaces."""
    letters = "".join(letter for letter in plain if letter.isalnum())
    rests = (letters.replace(phrase, "") for phrase in _PHRASES if phrase in letters)
    return any(len(rest) < _FEWEST_DIFFERENT for rest in rests)


def _without_runs(text: str) -> int:
    """The number of characters that neither repeat nor follow the previous one, up or down."""
    steps = [abs(ord(after) - ord(before)) for before, after in pairwise(text)]
    return (1 if text else 0) + sum(step > 1 for step in steps)


class Passwords:
    """The stored passwords, hashed outside of the event loop."""

    def __init__(self, store: LocalCredentials, hasher: Hasher) -> None:
        self._store = store
        self._hasher = hasher

    async def is_right(self, user: str, hashed: str | None, password: str, turn: int = 0) -> bool:
        """Whether that is the user's password, whose stored hash was `hashed` a moment ago.

        It takes the same time for a user who doesn't exist or has no password. `turn` is its order in the queue
        (`Hasher`). A hash with former parameters is replaced. The caller counts attempts. Raises
        TooManyRequests.
        """
        text = normal_password(password)
        while await self._hasher.check(hashed, text, turn):
            assert hashed is not None
            assert text is not None
            # The attempt may have waited so long that the password, and so the sessions, have changed meanwhile.
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
        """Set the user's password, replacing any; it uses up `invitation`.

        `allowed` is called after the wait for the hash, and raises if the change isn't allowed any more. Raises
        InvalidRequest for an unsuitable password, NotFound for an unknown or disabled user, InvitationSpent,
        TooManyRequests. The caller ends sessions.
        """
        text = chosen_password(password, user)
        hashed = await self._hasher.hash(text)
        if allowed is not None:
            await allowed()
        await self._store.set_password(user, hashed, now, invitation=invitation)


def repeated_password(password: str, again: str) -> str:
    """The password that was entered twice. Raises InvalidRequest if the two differ."""
    if not is_same(password, again):
        raise InvalidRequest(N_("the passwords don't match"))
    return password
