"""How people get to a password or passkey of their own: by a one-time link, or by whoever runs the server."""

from __future__ import annotations

from microsub.identity.local.attempts import Attempts
from microsub.identity.local.passkeys import Answered, Asked, Passkeys
from microsub.identity.local.passwords import Passwords
from microsub.identity.sign_in.sessions import Sessions
from microsub.identity.store.credentials import Credentials, InvitationSpent

PATH = "/enrol"


class Enrolling:
    """Invitations, and what people choose by them."""

    def __init__(
        self, store: Credentials, passwords: Passwords, passkeys: Passkeys, sessions: Sessions, attempts: Attempts
    ) -> None:
        self._store = store
        self._passwords = passwords
        self._passkeys = passkeys
        self._sessions = sessions
        self._attempts = attempts

    async def invite(self, user: str) -> str:
        """The code of a one-time link for a user who exists; good for a day, and the last one made alone."""
        return await self._store.invite(user)

    async def invited(self, code: str) -> str:
        """The user whom the code invites. Raises InvitationSpent where it isn't good."""
        user = await self._store.invited(code)
        if user is None:
            raise InvitationSpent
        return user

    async def choose_password(self, code: str, password: str, now: float) -> str:
        """Set the password of the user whom the code invites, which uses it up; that user.

        All sessions end. Raises InvalidRequest for a password that can't be taken (the code stays good) and for a code
        that isn't good, TooManyRequests.
        """
        user = await self.invited(code)
        await self._attempts.hashed(user, now)
        await self._passwords.set(user, password, now, invitation=code)
        await self._forget_browsers(user)
        return user

    async def ask_for_passkey(self, base: str, code: str) -> Asked:
        """Begin to make a passkey for the user whom the code invites. Raises InvalidRequest."""
        return await self._passkeys.ask_to_make(base, await self.invited(code))

    async def choose_passkey(self, base: str, code: str, answered: Answered, name: str, now: float) -> str:
        """Keep the passkey that was made for `ask_for_passkey`, which uses the code up; the user. All sessions end.

        Raises InvalidRequest.
        """
        user = await self.invited(code)
        await self._passkeys.make(base, user, answered, name, now, invitation=code)
        await self._forget_browsers(user)
        return user

    async def set_password(self, user: str, password: str, now: float, *, but: str = "") -> None:
        """Set the password of a user who was recognised, and end all their sessions but that of the id `but`.

        Raises InvalidRequest, NotFound, TooManyRequests.
        """
        await self._attempts.hashed(user, now)
        await self._passwords.set(user, password, now)
        await self._forget_browsers(user, but=but)

    async def forget(self, user: str) -> None:
        """Remove password, passkeys, invitation and known browsers of a user, and end all their sessions."""
        await self._store.forget(user)
        await self._sessions.end_all(user)

    async def _forget_browsers(self, user: str, *, but: str = "") -> None:
        await self._sessions.end_all(user, but=but)
        await self._store.forget_devices(user)
