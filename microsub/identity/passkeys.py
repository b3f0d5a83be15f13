"""Passkeys of users: creation, use, names (https://www.w3.org/TR/webauthn-3/).

A challenge is valid once, within five minutes, and only in the browser that got the accompanying secret.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from microsub import identity  # checking an answer takes libraries that are slow to load
from microsub.accounts import LocalCredentials, Passkey
from microsub.base.digests import base64url, from_base64url
from microsub.base.errors import InvalidRequest, NotImplementedHere
from microsub.base.texts import N_, Sentence
from microsub.base.urls import ascii_host, host_of, parts_of

ALGORITHMS = (-8, -7, -257)
"""EdDSA, ES256 and RS256 (COSE): every authenticator supports one of these."""

LONGEST_NAME = 64
_CEREMONY_MILLISECONDS = 300_000


class PasskeyRefused(InvalidRequest):
    """The answer of a browser or authenticator is invalid.

    The description gives no details.
    """


def relying_party(base_url: str | None) -> str | None:
    """The relying party at that address: the only valid origin of responses, whose host is its id.

    None if browsers don't support passkeys there: without https, or at an IP address. `http://localhost` is allowed, as
    in browsers.
    """
    parts = parts_of(base_url or "")
    host = parts.hostname or ""
    if not host or _is_ip_address(host) or (parts.scheme != "https" and host != "localhost"):
        return None
    host = ascii_host(host)
    standard = {"https": 443, "http": 80}[parts.scheme]
    port = f":{parts.port}" if parts.port not in (None, standard) else ""
    return f"{parts.scheme}://{host}{port}"


def creation_options(
    party: str, challenge: bytes, user: str, handle: str, held: Iterable[tuple[str, tuple[str, ...]]]
) -> dict[str, Any]:
    """The options for `navigator.credentials.create`, as JSON.

    `held` are id and transports of the user's passkeys.
    """
    host = host_of(party)
    return {
        "publicKey": {
            "rp": {"id": host, "name": host},
            "user": {"id": base64url(bytes.fromhex(handle)), "name": user, "displayName": user},
            "challenge": base64url(challenge),
            "pubKeyCredParams": [{"type": "public-key", "alg": algorithm} for algorithm in ALGORITHMS],
            "timeout": _CEREMONY_MILLISECONDS,
            "excludeCredentials": [
                {"type": "public-key", "id": one, **({"transports": list(ways)} if ways else {})} for one, ways in held
            ],
            "authenticatorSelection": {
                "residentKey": "required",
                "requireResidentKey": True,
                "userVerification": "required",
            },
            "attestation": "none",
        }
    }


def request_options(party: str, challenge: bytes, held: Iterable[str] = ()) -> dict[str, Any]:
    """The options for `navigator.credentials.get`, as JSON: for these passkeys, or for any."""
    options: dict[str, Any] = {
        "challenge": base64url(challenge),
        "timeout": _CEREMONY_MILLISECONDS,
        "rpId": host_of(party),
        "userVerification": "required",
    }
    if allowed := [{"type": "public-key", "id": one} for one in held]:
        options["allowCredentials"] = allowed
    return {"publicKey": options}


def _is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class PasskeyMessage:
    """The options for `navigator.credentials`, or its answer, as JSON; an answer has the secret of its options."""

    secret: str
    content: Mapping[str, Any]


class Passkeys:
    """Passkeys for our own pages. `base` is the address under which the browser sees them."""

    def __init__(self, store: LocalCredentials) -> None:
        self._store = store

    async def ask_to_make(self, base: str, user: str) -> PasskeyMessage:
        """Begin to create a passkey of the user, who has been recognised.

        Raises NotFound, NotImplementedHere.
        """
        party, challenge = _party(base), secrets.token_bytes(32)
        _, passkeys = await self._store.overview(user)
        held = [(one.id, one.transports) for one in passkeys]
        options = creation_options(party, challenge, user, await self._store.handle(user), held)
        return await self._question("make", challenge, user, options)

    async def make(
        self,
        base: str,
        user: str,
        answered: PasskeyMessage,
        name: str,
        now: float,
        *,
        invitation: str | None = None,
    ) -> Passkey:
        """Store the passkey that the browser created for `ask_to_make` of the same user.

        It uses up `invitation`. Raises PasskeyRefused, InvalidRequest (an invalid name, too many, known already, a used
        invitation), NotFound.
        """
        party, name = _party(base), passkey_name(name)
        asked_of, challenge = await self._asked("make", answered.secret)
        if asked_of != user:
            raise PasskeyRefused(N_("the passkey's response came too late or twice"))
        passkey = identity.attested(party, challenge, answered.content, name, now)
        await self._store.add_passkey(user, passkey, invitation=invitation)
        return passkey

    async def ask_to_use(self, base: str, user: str = "") -> PasskeyMessage:
        """Begin to recognise any user, or a certain one. Raises NotImplementedHere."""
        party, challenge = _party(base), secrets.token_bytes(32)
        held = (await self._store.overview(user))[1] if user else ()
        return await self._question("use", challenge, user, request_options(party, challenge, [one.id for one in held]))

    async def use(self, base: str, answered: PasskeyMessage, now: float) -> str:
        """The user whose passkey answered `ask_to_use`. Raises PasskeyRefused.

        The caller counts attempts.
        """
        party = _party(base)
        asked_of, challenge = await self._asked("use", answered.secret)
        id_, handle = identity.presented_credential(answered.content)
        # If a certain user was asked for, an authenticator may omit the handle.
        user = await self._store.user_of(handle) if handle else asked_of
        passkey = await self._store.passkey(user, id_) if user and asked_of in ("", user) else None
        if not user or passkey is None:
            raise PasskeyRefused(N_("unknown passkey"))
        count = identity.verified_count(party, challenge, passkey.key, passkey.count, answered.content)
        if not await self._store.change_passkey(user, passkey, replace(passkey, count=count, used=now)):
            raise PasskeyRefused(N_("this passkey was used or removed at the same time"))
        return user

    async def rename(self, user: str, credential_id: str, name: str) -> bool:
        """Rename a passkey; returns whether it exists. Raises InvalidRequest."""
        name = passkey_name(name)
        passkey = await self._store.passkey(user, credential_id)
        return passkey is not None and await self._store.change_passkey(user, passkey, replace(passkey, name=name))

    async def _question(self, what: str, challenge: bytes, user: str, options: Mapping[str, Any]) -> PasskeyMessage:
        about = {"what": what, "challenge": base64url(challenge), "user": user}
        return PasskeyMessage(await self._store.begin_ceremony(about), options)

    async def _asked(self, what: str, secret: str) -> tuple[str, bytes]:
        """The user who was asked, empty for any, and the challenge; valid once.

        Raises PasskeyRefused.
        """
        about = await self._store.end_ceremony(secret)
        if about is None or about["what"] != what:
            raise PasskeyRefused(N_("the passkey's response came too late or twice"))
        return about["user"], from_base64url(about["challenge"])


def _party(base: str) -> str:
    party = relying_party(base)
    if party is None:
        raise NotImplementedHere(
            N_("passkeys don't work at this address: the server needs a host name and https (MICROSUB_BASE_URL)")
        )
    return party


def passkey_name(name: str) -> str:
    """A passkey's name as it is stored. Raises InvalidRequest."""
    text = " ".join(name.split())
    if not text or len(text) > LONGEST_NAME or not text.isprintable():
        raise InvalidRequest(Sentence("the name of a passkey must have 1 to {most} characters", most=LONGEST_NAME))
    return text
