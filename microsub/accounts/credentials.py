"""Passwords, passkeys, known browsers and one-time links of users.

No secret is stored: only a password's argon2 hash, a passkey's public key, and the SHA-256 of links and cookies, which
are random. A disabled user has none of these, and gets none.
"""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson

from microsub.accounts.grants import LONGEST_SECRET, owner_in
from microsub.accounts.records import absent
from microsub.accounts.sessions import write_record
from microsub.base.clock import DAY
from microsub.base.digests import new_secret, sha256_hex
from microsub.base.errors import InvalidRequest
from microsub.base.texts import N_, Sentence
from microsub.model.reader import NAME
from microsub.model.session import KNOWN_BROWSER
from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis
from microsub.redis.replies import reading, text
from microsub.redis.structures import Hash, Scores, Value, existing, together

PASSKEY_CHALLENGE = 300
INVITATION = 1 * DAY
"""Lifetime of a one-time link."""

MOST_DEVICES = 20
MOST_PASSKEYS = 20
_ANY_NUMBER = 1000
_OWN_KEYS = (keys.credentials, keys.passkeys, keys.invitation, keys.devices)


@dataclass(frozen=True, slots=True)
class Passkey:
    """A passkey as it is stored, without any secret. Times are Unix seconds.

    `id` is the credential's id in base64url without padding, `key` the authenticator's attested data (id and public
    key), `count` its counter at the last use, `transports` hints for the browser.
    """

    id: str
    name: str
    key: bytes
    count: int
    created: float
    used: float | None = None
    transports: tuple[str, ...] = ()


NOBODY = "-" * 65
"""Longer than a name can be."""


class InvitationSpent(InvalidRequest):
    """The one-time link was used, has expired, or was replaced by another one."""

    def __init__(self) -> None:
        super().__init__(
            N_("this link has already been used, has expired or is incomplete; ask the admin for a new one")
        )


class PasskeyKnown(InvalidRequest):
    """The user has this passkey already."""

    def __init__(self) -> None:
        super().__init__(N_("this passkey is already registered"))


class LocalCredentials:
    """Passwords, passkeys, invitations and known devices in Redis."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._user = Hash.at(redis, keys.user)
        self._credentials = Hash.at(redis, keys.credentials)
        self._passkeys = Hash.at(redis, keys.passkeys)
        self._handles = Hash(redis, keys.handles())
        self._ceremony = Value.at(redis, keys.ceremony, PASSKEY_CHALLENGE)
        self._invitation = Value.at(redis, keys.invitation, INVITATION)
        self._known_browsers = Scores.at(redis, keys.devices, KNOWN_BROWSER)

    # --- passwords

    async def password(self, user: str) -> str | None:
        """The hash of the user's password.

        None if there is none, the user is unknown or disabled, or the name is invalid. The store is always asked:
        otherwise the response time would show which names exist.
        """
        user = _name(user)
        hashed, disabled = await together(self._credentials(user).get("password"), self._user(user).has("disabled"))
        return text(hashed) if hashed is not None and not disabled else None

    async def set_password(self, user: str, hashed: str, now: float, *, invitation: str | None = None) -> None:
        """Set the hash of the user's password; `invitation` is a code that this uses up.

        Raises NotFound for an unknown or disabled user, InvitationSpent.
        """
        fields: dict[str, Arg] = {"password": hashed, "changed": now}
        await self._write(user, keys.credentials(user), invitation, "", fields)

    async def rehash(self, user: str, former: str, hashed: str) -> None:
        """Store a newer hash of the same password, unless the password was changed meanwhile."""
        await self._credentials(user).change(("password", former, hashed), user=keys.user(user))

    async def _write(
        self, user: str, key: str, invitation: str | None, most: int | str, fields: Mapping[str, Arg]
    ) -> None:
        code = sha256_hex(invitation) if invitation else ""
        reply = await write_record(self._redis, user, key, fields, most=most, code=code)
        if reply == 0:
            raise await absent(self._redis, user)
        if reply < 0:
            many = Sentence("you have the maximum of {most} passkeys: remove one first", most=MOST_PASSKEYS)
            raise (InvitationSpent(), InvalidRequest(many), PasskeyKnown())[-1 - reply]

    # --- passkeys

    async def overview(self, user: str) -> tuple[float | None, tuple[Passkey, ...]]:
        """Since when the user has a password (Unix time), None for none, and their passkeys, oldest first."""
        of_password = self._credentials(user).get_many(("password", "changed"))
        (password, changed), rows = await together(of_password, self._passkeys(user).all())
        found = [_passkey(user, one, row) for one, row in rows.items()]
        since = float(changed or 0) if password is not None else None
        return since, tuple(sorted(found, key=lambda passkey: (passkey.created, passkey.id)))

    async def handle(self, user: str) -> str:
        """The random handle that the user's passkeys return instead of the name. Raises NotFound."""
        with suppress(PasskeyKnown):
            await self._write(user, keys.credentials(user), None, _ANY_NUMBER, {"handle": secrets.token_hex(32)})
        held = await self._credentials(user).get("handle")
        if held is None:
            raise await absent(self._redis, user)
        handle = text(held)
        # Another slot, so it is written each time, in case of an earlier crash.
        await self._handles.set({handle: user})
        return handle

    async def user_of(self, handle: str) -> str | None:
        """The user whose passkeys return this handle, or None."""
        name = await self._handles.get(handle)
        if name is None:
            return None
        user = text(name)
        held = await self._credentials(user).get("handle")
        return user if held is not None and secrets.compare_digest(held, handle.encode()) else None

    async def passkey(self, user: str, credential_id: str) -> Passkey | None:
        """The user's passkey; None if it doesn't exist or the user is disabled."""
        row, disabled = await together(self._passkeys(user).get(credential_id), self._user(user).has("disabled"))
        return _passkey(user, credential_id, row) if row is not None and not disabled else None

    async def add_passkey(self, user: str, passkey: Passkey, *, invitation: str | None = None) -> None:
        """Add a passkey; `invitation` is a code that this uses up.

        Raises NotFound for an unknown or disabled user, InvitationSpent, InvalidRequest, PasskeyKnown.
        """
        await self._write(user, keys.passkeys(user), invitation, MOST_PASSKEYS, {passkey.id: _row(passkey)})

    async def change_passkey(self, user: str, former: Passkey, passkey: Passkey) -> bool:
        """Replace a stored passkey; False if it isn't `former` any more, or the user is disabled."""
        row = former.id, _row(former), _row(passkey)
        return await self._passkeys(user).change(row, user=keys.user(user))

    async def remove_passkey(self, user: str, credential_id: str) -> bool:
        """Remove a passkey; returns whether it existed."""
        return bool(await self._passkeys(user).delete(credential_id))

    # --- challenges

    async def begin_ceremony(self, about: Mapping[str, Any]) -> str:
        """Store the challenge of a passkey's answer for five minutes; returns the secret to find it."""
        secret = new_secret()
        await self._ceremony(sha256_hex(secret)).set(orjson.dumps(about))
        return secret

    async def end_ceremony(self, secret: str) -> dict[str, Any] | None:
        """The value that `begin_ceremony` stored, returned once, or None."""
        if not secret or len(secret) > LONGEST_SECRET:
            return None
        found = await self._ceremony(sha256_hex(secret)).take()
        return None if found is None else dict(orjson.loads(found))

    # --- invitations

    async def invite(self, user: str) -> str:
        """Create the code of a one-time link, valid for a day; it replaces an earlier one."""
        code = f"{user}.{new_secret()}"
        await self._invitation(user).set(sha256_hex(code))
        return code

    async def end_invitation(self, user: str) -> None:
        """End the user's one-time link, if there is one."""
        await self._invitation(user).clear()

    async def with_invitation(self, users: Sequence[str]) -> set[str]:
        """Those of the users with a valid link. One round trip."""
        found = await together(*(existing(self._redis, keys.invitation(user)) for user in users))
        return {user for user, there in zip(users, found, strict=True) if there}

    async def with_credentials(self, users: Sequence[str]) -> set[str]:
        """Those of the users with a password or a passkey. One round trip."""
        kinds = (keys.credentials, keys.passkeys)
        found = await together(*(existing(self._redis, *(key(user) for key in kinds)) for user in users))
        return {user for user, there in zip(users, found, strict=True) if there}

    async def invited(self, code: str) -> str | None:
        """The user whom the code invites; None if it isn't valid."""
        user = owner_in(code)
        if user is None:
            return None
        there = existing(self._redis, keys.user(user))
        held, disabled, is_there = await together(self._invitation(user).get(), self._user(user).has("disabled"), there)
        good = held is not None and secrets.compare_digest(held, sha256_hex(code).encode())
        return user if good and is_there and not disabled else None

    # --- devices

    async def remember_device(self, user: str, now: float, former: str = "") -> str:
        """A cookie for a browser in which the user has signed in; the browser's previous one ends."""
        cookie = f"{user}.{new_secret()}"
        known = self._known_browsers(user)
        ending = known.delete(*([sha256_hex(former)] if former else ()))
        await together(ending, known.set({sha256_hex(cookie): now}), known.trim(MOST_DEVICES, now - KNOWN_BROWSER))
        return cookie

    async def knows_device(self, user: str, cookie: str, now: float) -> bool:
        """Whether the user has signed in there within 400 days. Always asks the store, like `password`."""
        (at,) = await self._known_browsers(_name(user)).get_many((sha256_hex(cookie),))
        return owner_in(cookie) == user and at is not None and float(at) > now - KNOWN_BROWSER

    async def forget_devices(self, user: str) -> None:
        """Forget all of the user's known browsers."""
        await self._known_browsers(user).clear()

    async def forget(self, user: str) -> None:
        """Remove all of the user's credentials here."""
        await forget_credentials(self._redis, user)


async def forget_credentials(redis: Redis, user: str) -> None:
    """Remove all of a user's credentials for our own pages. May be repeated."""
    handle = await Hash(redis, keys.credentials(user)).get("handle")
    # The index first: if a crash leaves the user's own keys, they are found again.
    if handle is not None:
        await Hash(redis, keys.handles()).delete(text(handle))
    await together(*(Value(redis, key(user)).clear() for key in _OWN_KEYS))


def _name(text: str) -> str:
    """A name to look up; one that no user has if `text` can't be a name."""
    return text if NAME.match(text) else NOBODY


def _row(passkey: Passkey) -> bytes:
    return orjson.dumps(
        {
            "name": passkey.name,
            "key": urlsafe_b64encode(passkey.key).decode(),
            "count": passkey.count,
            "created": passkey.created,
            "used": passkey.used,
            "transports": list(passkey.transports),
        }
    )


def _passkey(user: str, credential_id: str, row: bytes) -> Passkey:
    with reading(f"{keys.passkeys(user)} {credential_id}"):
        held = orjson.loads(row)
        return Passkey(
            credential_id,
            held["name"],
            urlsafe_b64decode(held["key"]),
            # Unchanged, because `change_passkey` compares the whole row with what was read.
            held["count"],
            held["created"],
            held["used"],
            tuple(held["transports"]),
        )
