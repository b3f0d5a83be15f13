"""Passkeys of users: made, used, named, removed.

A challenge is good once, within five minutes, and only in the browser that was given the secret beside it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fido2.utils import websafe_decode, websafe_encode

from microsub.errors import InvalidRequest, NotImplementedHere
from microsub.identity.local import webauthn
from microsub.identity.local.webauthn import PasskeyRefused, RelyingParty, relying_party
from microsub.identity.store.credentials import Credentials, Passkey

LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class Asked:
    """What goes to a browser: `options` for `navigator.credentials`, and a secret that comes back with the answer."""

    options: Mapping[str, Any]
    secret: str


@dataclass(frozen=True, slots=True)
class Answered:
    """What comes back: the secret of `Asked`, and the answer of `navigator.credentials` as JSON has it."""

    secret: str
    answer: Mapping[str, Any]


class Passkeys:
    """Passkeys for our own pages. `base` is the address at which the browser sees them."""

    def __init__(self, store: Credentials) -> None:
        self._store = store

    # --- making one

    async def ask_to_make(self, base: str, user: str) -> Asked:
        """Begin to make a passkey of the user, who has been recognised. Raises NotFound, NotImplementedHere."""
        party = _party(base)
        challenge = secrets.token_bytes(32)
        held = (await self._store.overview(user)).passkeys
        handle = await self._store.handle(user)
        options = webauthn.creation(party, challenge, user, handle, [(one.id, one.transports) for one in held])
        secret = await self._store.begin_ceremony(_about("make", challenge, user))
        return Asked(options, secret)

    async def make(
        self,
        base: str,
        user: str,
        answered: Answered,
        name: str,
        now: float,
        *,
        invitation: str | None = None,
    ) -> Passkey:
        """Keep the passkey that the browser made for `ask_to_make` of the same user; `invitation` is used up by it.

        Raises PasskeyRefused, InvalidRequest (a name that can't be taken, too many, known already, an invitation
        that is spent), NotFound.
        """
        party = _party(base)
        name = named(name)
        about = await self._store.end_ceremony(answered.secret)
        if about is None or (about["what"], about["user"]) != ("make", user):
            raise PasskeyRefused("the passkey's answer came too late, or twice")
        new = webauthn.made(party, websafe_decode(about["challenge"]), answered.answer)
        passkey = Passkey(new.id, name, new.key, new.count, now, None, new.transports)
        await self._store.add_passkey(user, passkey, invitation=invitation)
        return passkey

    # --- using one

    async def ask_to_use(self, base: str, user: str = "") -> Asked:
        """Begin to recognise somebody: whoever it is, or one certain user. Raises NotImplementedHere."""
        party = _party(base)
        challenge = secrets.token_bytes(32)
        held = (await self._store.overview(user)).passkeys if user else ()
        secret = await self._store.begin_ceremony(_about("use", challenge, user))
        return Asked(webauthn.request(party, challenge, [one.id for one in held]), secret)

    async def use(self, base: str, answered: Answered, now: float) -> str:
        """The user whose passkey answered `ask_to_use`. Raises PasskeyRefused.

        Counting attempts is left to the caller.
        """
        party = _party(base)
        about = await self._store.end_ceremony(answered.secret)
        if about is None or about["what"] != "use":
            raise PasskeyRefused("the passkey's answer came too late, or twice")
        claim = webauthn.presented(answered.answer)
        # Where a certain user was asked for, an authenticator may leave the handle out.
        user = await self._store.user_of(claim.handle) if claim.handle else about["user"]
        if not user or (about["user"] and user != about["user"]):
            raise PasskeyRefused("this passkey isn't known here")
        passkey = await self._store.passkey(user, claim.id)
        if passkey is None:
            raise PasskeyRefused("this passkey isn't known here")
        count = webauthn.used(party, websafe_decode(about["challenge"]), passkey.key, passkey.count, answered.answer)
        if not await self._store.change_passkey(user, passkey, replace(passkey, count=count, used=now)):
            raise PasskeyRefused("this passkey was used or removed at the same moment")
        return str(user)

    # --- what there is

    async def rename(self, user: str, credential_id: str, name: str) -> bool:
        """Give a passkey another name; whether there is such a one. Raises InvalidRequest."""
        name = named(name)
        passkey = await self._store.passkey(user, credential_id)
        return passkey is not None and await self._store.change_passkey(user, passkey, replace(passkey, name=name))

    async def remove(self, user: str, credential_id: str) -> bool:
        """Remove a passkey; whether there was one."""
        return await self._store.remove_passkey(user, credential_id)


def _party(base: str) -> RelyingParty:
    party = relying_party(base)
    if party is None:
        raise NotImplementedHere(
            "there are no passkeys at this address: the server needs a name and https (MICROSUB_BASE_URL)"
        )
    return party


def named(name: str) -> str:
    """A passkey's name as it is kept. Raises InvalidRequest."""
    text = " ".join(name.split())
    if not text or len(text) > LONGEST_NAME or not text.isprintable():
        raise InvalidRequest(f"the name of a passkey has 1 to {LONGEST_NAME} characters")
    return text


def _about(what: str, challenge: bytes, user: str) -> dict[str, str]:
    return {"what": what, "challenge": websafe_encode(challenge), "user": user}
